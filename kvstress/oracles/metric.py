"""METRIC: does the metrics page say only what can be?

Compares each scrape with itself and with those before: no gauge is negative or no number, shares lie in 0–1, no more
draft tokens were accepted than drafted, no family vanishes, counters of corrupted requests stay 0, and a counter
never falls unless the process began anew. Source: the canonical fields and the dialect's own series of each Sample.

Threshold: the same fault on two scrapes in a row; for counters that fall beside others that do not, twice in the run.
Noisy when: several API workers share a port and each scrape meets another. A page that cannot be read is not judged
here, and all counters falling together are a restart, which is SURVIVAL's.
"""

import math
import re
from collections.abc import Iterator

from kvstress.core.events import Event, RequestSent, StepStarted
from kvstress.core.manifest import Manifest
from kvstress.core.sample import Sample
from kvstress.core.verdict import Finding, Verdict
from kvstress.oracles.oracle import found

NAME = "METRIC"

_LEVELS = ("kv_capacity", "kv_free", "kv_cached", "snapshots_free", "running", "waiting")
_SHARE = re.compile(r"(_ratio|_usage_perc)$")
_COUNTER = re.compile(r"_total$")
_CORRUPT = re.compile(r"corrupt", re.IGNORECASE)
_ACCEPTED = re.compile(r"accepted_(draft_)?tokens_total$")
_DRAFTED = re.compile(r"(?<!accepted_)draft(ed)?_tokens_total$")
_MOST_NAMES = 2_000


class Metric:
    """Keeps the last value of each series and how often each fault was met; bounded by the page's number of names."""

    def __init__(self, manifest: Manifest) -> None:
        del manifest
        self._last: dict[str, float] = {}
        self._started: float | None = None
        self._faults: dict[str, int] = {}
        self._fell: dict[str, int] = {}
        self._told: set[str] = set()
        self._step: int | None = None

    def see(self, event: Event, asked: RequestSent | None) -> tuple[Finding, ...]:
        if isinstance(event, StepStarted):
            self._step = event.step
        if not isinstance(event, Sample) or event.problem is not None or not event.raw:
            return ()
        now = dict(_faults(event)) | self._vanished(event)
        self._faults = {name: self._faults.get(name, 0) + 1 for name in now}
        proven = {name: now[name] for name, times in self._faults.items() if times >= 2}
        proven |= self._fallen(event)
        self._remember(event)
        return tuple(self._tell(name, what) for name, what in proven.items() if name not in self._told)

    def _tell(self, name: str, what: str) -> Finding:
        self._told.add(name)
        summary = f"the metrics page says what cannot be: {what}"
        return found(NAME, Verdict.FAIL, name, summary, step=self._step, measured=what, limit="what can be, twice")

    def _vanished(self, sample: Sample) -> dict[str, str]:
        gone = [name for name in self._last if name not in sample.raw and "{" not in name]
        return {f"vanished {name}": f"{name} was exported and is gone" for name in gone}

    def _fallen(self, sample: Sample) -> dict[str, str]:
        """Counters that fell while another that counts did not: no restart does that."""
        begun_anew = _later(self._started, sample.process_started)
        pairs = [(n, self._last[n], v) for n, v in sample.raw.items() if _COUNTER.search(n) and n in self._last]
        fell = [(name, old, new) for name, old, new in pairs if new < old]
        stood = any(new >= old > 0 for _, old, new in pairs)
        if begun_anew or not fell or not stood:
            return {}
        for name, _, _ in fell:
            self._fell[name] = self._fell.get(name, 0) + 1
        return {
            f"fell {name}": f"{name} fell from {old:g} to {new:g}, a counter"
            for name, old, new in fell
            if self._fell[name] >= 2
        }

    def _remember(self, sample: Sample) -> None:
        self._started = sample.process_started if sample.process_started is not None else self._started
        gone = {name: value for name, value in self._last.items() if name not in sample.raw}
        self._last = dict(list((gone | sample.raw).items())[-_MOST_NAMES:])


def _faults(sample: Sample) -> Iterator[tuple[str, str]]:
    """What one scrape alone shows to be wrong, each under a name that stays the same from scrape to scrape."""
    named = {name: getattr(sample, name) for name in _LEVELS}
    for name, value in {**named, **sample.raw}.items():
        if value is None:
            continue
        if math.isnan(value) and not _SHARE.search(name):
            yield f"nan {name}", f"{name} is no number"
        elif value < 0:
            yield f"negative {name}", f"{name} is {value:g}"
        if _CORRUPT.search(name) and value > 0:
            yield f"corrupt {name}", f"{name} is {value:g}: the server counted corrupted requests"
    yield from _over_one(sample)
    accepted, drafted = _sum(sample, _ACCEPTED), _sum(sample, _DRAFTED)
    if accepted is not None and drafted is not None and accepted > drafted:
        yield "accepted over drafted", f"{accepted:g} draft tokens accepted of {drafted:g} drafted"


def _over_one(sample: Sample) -> Iterator[tuple[str, str]]:
    shares = {name: value for name, value in sample.raw.items() if _SHARE.search(name)}
    if sample.kv_usage is not None:
        shares["kv_usage"] = sample.kv_usage
    for name, value in shares.items():
        # A gauge that counts in hundredths is a dialect's business; no share is a little over 1.
        if 1.001 < value <= 3.0:
            yield f"over one {name}", f"{name} is {value:g}, a share"


def _sum(sample: Sample, names: re.Pattern[str]) -> float | None:
    values = [value for name, value in sample.raw.items() if names.search(name)]
    return sum(values) if values else None


def _later(before: float | None, now: float | None) -> bool:
    return before is not None and now is not None and now > before + 1.0
