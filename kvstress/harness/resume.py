"""Continuing a killed run is only honest on the same server: its cache is part of the experiment.

The same process is proven by an equal start time, or by counters that have not gone back since
the last sample. Where nothing proves it, the run starts again at step 0 in a new directory
that names the old one.
"""

from dataclasses import dataclass
from pathlib import Path

from kvstress.core.errors import UsageError
from kvstress.core.events import Event, RequestSent, RunEnded, StepEnded, Stop
from kvstress.core.exchange import Exchange
from kvstress.core.manifest import Manifest
from kvstress.core.sample import Sample
from kvstress.driver.transcript import Transcript
from kvstress.oracles.judge import Judge
from kvstress.store.reading import MANIFEST
from kvstress.store.rundir import read_events, read_manifest

_COUNTERS = (
    "prompt_tokens",
    "generation_tokens",
    "prefix_queries",
    "requests_completed",
    "requests_failed",
    "evictions",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Where a stored run stopped: the step to do next, the clock to go on from, its last sample, the answers so far."""

    manifest: Manifest
    next_step: int
    at: float
    last_sample: Sample | None
    judge: Judge
    transcript: Transcript


def where_it_stopped(path: Path) -> Cut:
    """Read a run that was killed. Raises UsageError when there is none, or when it had ended by itself."""
    if not (path / MANIFEST).is_file():
        raise UsageError(f"--resume: no run was begun in {path}; leave --resume out to begin one there")
    manifest = read_manifest(path)
    judge = Judge(manifest)
    done, at, sample = 0, 0.0, None
    transcript, phases = Transcript(), {}
    for event in read_events(path):
        judge.see(event)
        at = max(at, _at(event))
        if isinstance(event, RequestSent) and event.step is not None:
            phases[event.request] = event.step, event.phase
        elif isinstance(event, Exchange) and (asked := phases.pop(event.request, None)):
            # Later turns of a session quote earlier answers.
            transcript.remember(*asked, event.text)
        elif isinstance(event, StepEnded):
            done = max(done, event.step + 1)
        elif isinstance(event, Sample) and event.problem is None:
            sample = event
        elif isinstance(event, RunEnded) and event.stop is not Stop.INTERRUPTED:
            raise UsageError(f"{path} ended by itself ({event.stop.value}): there is nothing to resume")
    return Cut(manifest=manifest, next_step=done, at=at, last_sample=sample, judge=judge, transcript=transcript)


def _at(event: Event) -> float:
    return event.ended if hasattr(event, "ended") else event.at


def same_server(before: Sample | None, now: Sample | None) -> bool:
    """True only when the two samples prove one server process."""
    if before is None or now is None:
        return False
    if before.process_started is not None and now.process_started is not None:
        return before.process_started == now.process_started
    pairs = [(getattr(before, name), getattr(now, name)) for name in _COUNTERS]
    seen = [(old, new) for old, new in pairs if old is not None and new is not None]
    # Counters that are all still 0 prove nothing: a fresh server has them too.
    return bool(seen) and any(old > 0 for old, _ in seen) and all(new >= old for old, new in seen)


def fresh_path(path: Path) -> Path:
    """The first of `path-2`, `path-3`, … that does not exist."""
    candidates = (path.with_name(f"{path.name}-{number}") for number in range(2, 10_000))
    return next(candidate for candidate in candidates if not candidate.exists())
