"""`kvstress serve`: the embedded reference server, with its own options."""

import typer


def serve_command(context: typer.Context) -> None:
    """Run the reference server: a small engine with a paged KV pool, prefix cache and snapshots (see --help)."""
    from kvstress.refserver.__main__ import main

    raise typer.Exit(main(context.args))
