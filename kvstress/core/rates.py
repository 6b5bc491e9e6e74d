"""Tokens a second by how many requests were sent at once: what a fix must not cost.

Each step of such a run is one batch. Its rate is all that was generated over the time from its first request's sending
to its last answer's end, prefill included, because that is what a fix to the cache could slow down. One batch
says little: the table gives the median of the rounds and how far it may be off.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import comb
from statistics import median

from kvstress.core.events import Event, RequestSent, StepEnded, StepStarted
from kvstress.core.exchange import Exchange
from kvstress.core.latency import ttft
from kvstress.core.manifest import Manifest
from kvstress.core.outcome import Outcome
from kvstress.core.plan import Origin

LEVEL = 0.95
METHOD = "interval of the median by order statistics"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """One level. `batches` are tokens and seconds of each measured batch; `left_out` of them were not answered whole.

    `first_token` is the median time to the first token in seconds, None when nothing was streamed.
    """

    label: str
    batches: tuple[tuple[float, float], ...]
    left_out: int = 0
    first_token: float | None = None

    @property
    def rounds(self) -> tuple[float, ...]:
        """Tokens a second of each measured batch."""
        return tuple(tokens / seconds for tokens, seconds in self.batches)


def span(values: tuple[float, ...], level: float = LEVEL) -> tuple[float, float, float]:
    """Lower and upper end of the interval of the median, and the confidence that it really has.

    The k-th smallest and k-th largest of n values cover the median with 1 − 2·Σ_{i<k} C(n, i)/2ⁿ (David and Nagaraja,
    Order Statistics, 7.1): the largest k that still reaches `level`, or the range, which below six values does not.
    """
    ordered, count = sorted(values), len(values)
    covered = [1 - 2 * sum(comb(count, i) for i in range(k)) / 2**count for k in range(1, (count + 1) // 2 + 1)]
    k = max((place for place, share in enumerate(covered) if share >= level), default=0)
    return ordered[k], ordered[-1 - k], max(0.0, covered[k])


@dataclass(slots=True)
class _Batch:
    label: str
    asked: int = 0
    answered: int = 0
    tokens: int | None = 0
    began: float = float("inf")
    ended: float = 0.0
    firsts: list[float] = field(default_factory=list)

    def add(self, exchange: Exchange) -> None:
        counted = exchange.usage.completion_tokens if exchange.usage else None
        self.tokens = None if counted is None or self.tokens is None else self.tokens + counted
        self.answered += exchange.outcome is Outcome.COMPLETED
        self.began, self.ended = min(self.began, exchange.sent), max(self.ended, exchange.ended)
        if (first := ttft(exchange)) is not None:
            self.firsts.append(first)

    @property
    def pace(self) -> tuple[float, float] | None:
        whole = self.answered == self.asked > 0 and self.ended > self.began
        return (float(self.tokens), self.ended - self.began) if whole and self.tokens else None


@dataclass(slots=True)
class Rates:
    """A fold over events; `warm_up` is how many batches of each level come before those that count."""

    warm_up: int = 0
    _open: dict[int, _Batch] = field(default_factory=dict)
    _steps: dict[str, int] = field(default_factory=dict)
    _batches: dict[str, list[_Batch]] = field(default_factory=dict)

    def see(self, event: Event) -> None:
        """Take the next event."""
        match event:
            case StepStarted():
                self._open[event.step] = _Batch(label=event.label)
            case RequestSent() if event.origin is Origin.STEP and event.step in self._open:
                self._open[event.step].asked += 1
                self._steps[event.request] = event.step
            case Exchange() if (step := self._steps.pop(event.request, None)) in self._open and step is not None:
                self._open[step].add(event)
            case StepEnded() if event.step in self._open:
                self._batches.setdefault(event.label, []).append(self._open.pop(event.step))
            case _:
                pass

    def table(self) -> tuple[Rate, ...]:
        """One row a level, in the order in which they came."""
        return tuple(_rate(label, batches[self.warm_up :]) for label, batches in self._batches.items())


def _rate(label: str, batches: list[_Batch]) -> Rate:
    paces = [batch.pace for batch in batches]
    firsts = [first for batch in batches for first in batch.firsts]
    return Rate(
        label=label,
        batches=tuple(pace for pace in paces if pace is not None),
        left_out=sum(pace is None for pace in paces),
        first_token=median(firsts) if firsts else None,
    )


def measured(manifest: Manifest) -> Rates | None:
    """The fold for a run that measures rates; None for any other."""
    source = manifest.parameters.get("source")
    if not isinstance(source, dict) or source.get("kind") != "levels":
        return None
    return Rates(warm_up=int(source.get("warm_up", 0)))


def rates(manifest: Manifest, events: Iterable[Event]) -> tuple[Rate, ...]:
    """The table of a stored run; empty for one that measures no rates, whose `events` are then not read."""
    fold = measured(manifest)
    for event in events if fold is not None else ():
        fold.see(event)  # type: ignore[union-attr]
    return fold.table() if fold is not None else ()


def watching(fold: Rates | None, events: Iterable[Event]) -> Iterator[Event]:
    """`events` as they are, each shown to `fold` on its way."""
    for event in events:
        if fold is not None:
            fold.see(event)
        yield event
