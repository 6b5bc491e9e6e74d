"""How a judged run is printed: for people, as one line, or as verdict.json."""

import sys
from pathlib import Path

from rich.console import Console

from kvstress.core.manifest import Manifest
from kvstress.core.verdict import Judgement
from kvstress.report.terminal import conclude


def show_result(
    console: Console, path: Path, manifest: Manifest, judgement: Judgement, *, json: bool, quiet: bool
) -> None:
    """Print what a run came to; `--json` repeats verdict.json byte for byte on stdout."""
    if json:
        sys.stdout.write((path / "verdict.json").read_text(encoding="utf-8"))
    elif quiet:
        console.print(f"{judgement.verdict.name} {path}", markup=False, soft_wrap=True)
    else:
        from kvstress.harness.stored import rates_of
        from kvstress.store.glance import unread_metrics

        measured, unread = rates_of(path, manifest), unread_metrics(path)
        conclude(console, manifest, judgement, path / "report.html", measured=measured, unread=unread)
