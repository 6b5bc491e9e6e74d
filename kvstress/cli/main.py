"""`kvstress`: the table of commands, and the one place where an error becomes an exit code.

Commands import what they need when they run, so that `kvstress --help` does not pay for
pandas. An unexpected exception must not leave Python's own exit code 1 behind: 1 means "the server
failed", and a CI gate would blame the commit for our fault.
"""

import sys
import traceback
from contextlib import suppress

import typer

from kvstress import __version__
from kvstress.cli.baseline import baseline_app
from kvstress.cli.bisect import bisect_command
from kvstress.cli.compare import compare_command
from kvstress.cli.doctor import doctor_command
from kvstress.cli.for_git import code_for_git
from kvstress.cli.gate import gate_command
from kvstress.cli.judge import judge_command
from kvstress.cli.options import flat
from kvstress.cli.replay import replay_command
from kvstress.cli.report import report_command
from kvstress.cli.run import run_command
from kvstress.cli.serve import serve_command
from kvstress.cli.shrink import shrink_command
from kvstress.cli.workloads import workloads_app
from kvstress.core.errors import KvstressError

_HARNESS_FAULT = 125
_INTERRUPTED = 130

_PASSED_THROUGH = {"allow_extra_args": True, "ignore_unknown_options": True}

app = typer.Typer(
    help="Find the prompt that breaks an inference server's KV cache, and keep it from coming back.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run")(flat(run_command))
app.command("bisect")(flat(bisect_command))
app.command("compare", context_settings={"ignore_unknown_options": True})(compare_command)
app.command("gate")(flat(gate_command))
app.command("shrink")(flat(shrink_command))
app.command("replay")(flat(replay_command))
app.command("judge")(judge_command)
app.command("report")(report_command)
app.command("doctor")(flat(doctor_command))
app.command("serve", context_settings=_PASSED_THROUGH, add_help_option=False)(serve_command)
app.add_typer(workloads_app, name="workloads")
app.add_typer(baseline_app, name="baseline")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kvstress {__version__}")
        raise typer.Exit


@app.callback()
def _root(version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True)) -> None:
    """Find the prompt that breaks an inference server's KV cache, and keep it from coming back."""


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        app()
    except SystemExit as ended:
        # Typer ends so, with 2 where it could not read the call.
        sys.exit(code_for_git(ended.code, sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except Exception as error:  # noqa: BLE001 - see the module's docstring: our fault must not look like the server's
        sys.exit(code_for_git(_explain(error), sys.argv[1:], fault=True))


def _explain(error: BaseException) -> int:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, KeyboardInterrupt):
        return _INTERRUPTED
    if isinstance(error, KvstressError):
        print(f"kvstress: {error}", file=sys.stderr)
        return error.exit_code
    if isinstance(error, OSError) and error.strerror:
        # A full disk, a name too long, a closed pipe: the machine's word, and nobody's fault here.
        where = f" ({error.filename})" if error.filename else ""
        with suppress(OSError):
            print(f"kvstress: {error.strerror}{where}", file=sys.stderr)
        return _HARNESS_FAULT
    traceback.print_exception(error)
    print("kvstress: this is a fault of kvstress itself, not of the server; please report it", file=sys.stderr)
    return _HARNESS_FAULT
