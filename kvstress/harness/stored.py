"""Runs that lie on disk: judge them again, render them again, without a server.

`manifest.json` and `events.jsonl` are the whole truth; every other file is rebuilt from them
here, which is also how a live run gets its pages, so that the two cannot differ.
"""

from pathlib import Path

from kvstress.core.events import StepEnded, StepStarted
from kvstress.core.manifest import Manifest
from kvstress.core.rates import Rate, rates
from kvstress.core.verdict import Judgement
from kvstress.oracles.judge import judge
from kvstress.report.html import page
from kvstress.report.junit import junit
from kvstress.report.summary import markdown
from kvstress.store import disk, rundir


def judge_run(path: Path) -> tuple[Manifest, Judgement]:
    """Judge a stored run anew and rebuild every view of it. Raises UsageError when `path` is not a run."""
    manifest = rundir.read_manifest(path)
    judgement = judge(manifest, rundir.read_events(path))
    rundir.rebuild(path, judgement)
    write_pages(path, manifest, judgement)
    return manifest, judgement


def rates_of(path: Path, manifest: Manifest) -> tuple[Rate, ...]:
    """Tokens a second by level of a stored run; empty for a run that measures none, which is then not read."""
    return rates(manifest, rundir.read_events(path))


def write_pages(path: Path, manifest: Manifest, judgement: Judgement) -> None:
    """Write report.html, summary.md and junit.xml from the run's events."""
    pages = {
        "report.html": page(manifest, judgement, rundir.read_events(path)),
        "junit.xml": junit(manifest, judgement, rundir.read_events(path, StepStarted, StepEnded)),
        "summary.md": markdown(manifest, judgement, rates_of(path, manifest)),
    }
    for name, text in pages.items():
        disk.replace(path / name, text.encode("utf-8", "replace"))
