"""Where a run is right now, as a handful of scalars.

The live view is drawn by a timer in another thread while events arrive here, so each field is
one value that is replaced whole: a picture taken in between is at worst one event old.
"""

from collections import deque
from dataclasses import dataclass, field

from kvstress.core.events import Event, RequestSent, RunEnded, StepEnded, StepStarted
from kvstress.core.exchange import Exchange
from kvstress.core.latency import e2e
from kvstress.core.plan import Origin
from kvstress.core.sample import Sample
from kvstress.report import phrases
from kvstress.report.hostile import line

RATE_WINDOW = 60.0
PHASES_SHOWN = 6

Done = tuple[float, int | None, int | None]


@dataclass(slots=True)
class Progress:
    """The latest of everything. `rate_in` and `rate_out` are tokens per second over the last minute, by `usage`."""

    step: int | None = None
    label: str = ""
    completed: int = 0
    failures: int = 0
    request: RequestSent | None = None
    flying: int = 0
    sample: Sample | None = None
    last_at: float = 0.0
    rate_in: float | None = None
    rate_out: float | None = None
    ended: bool = False
    _in_flight: dict[str, RequestSent] = field(default_factory=dict)
    _cells: dict[int, list[str]] = field(default_factory=dict)
    _done: deque[Done] = field(default_factory=lambda: deque(maxlen=256))

    def see(self, event: Event) -> list[str]:
        """Take the next event; the plain lines that it completes."""
        match event:
            case StepStarted():
                self.step, self.label, self.last_at = event.step, event.label, event.at
                self._cells[event.step] = []
            case RequestSent():
                self._sent(event)
            case Exchange():
                return self._exchange(event)
            case Sample():
                self.last_at = max(self.last_at, event.at)
                self.sample = event if event.problem is None else self.sample
            case StepEnded():
                self.completed, self.last_at = self.completed + 1, event.at
                return [self._line(event)]
            case RunEnded():
                self.ended, self.last_at = True, event.at
            case _:
                self.last_at = max(self.last_at, event.at)
        return []

    def _sent(self, event: RequestSent) -> None:
        self._in_flight[event.request] = event
        self.last_at = max(self.last_at, event.at)
        self._oldest()

    def _oldest(self) -> None:
        self.flying = len(self._in_flight)
        self.request = min(self._in_flight.values(), key=lambda sent: sent.at, default=None)

    def _exchange(self, event: Exchange) -> list[str]:
        sent = self._in_flight.pop(event.request, None)
        self._oldest()
        self.last_at = max(self.last_at, event.ended)
        if sent is None:
            return []
        self._rate(event)
        cell = f"{line(sent.phase, 24)} {phrases.result(event)} {phrases.seconds(e2e(event))}"
        if sent.origin is not Origin.STEP or sent.step is None:
            return [f"{sent.origin}  {cell}"] if sent.origin is Origin.ASIDE else []
        self._cells.setdefault(sent.step, []).append(cell)
        if event.outcome == "completed":
            return []
        self.failures += 1
        said = event.server_words or event.error_bytes
        return [f"prompt {sent.step:,}  {line(sent.phase, 24)}: {line(said, 400)}"] if said else []

    def _rate(self, event: Exchange) -> None:
        usage = event.usage
        self._done.append(
            (event.ended, usage.prompt_tokens if usage else None, usage.completion_tokens if usage else None)
        )
        while len(self._done) > 1 and self._done[0][0] < event.ended - RATE_WINDOW:
            self._done.popleft()
        # The window opens with the oldest answer in it, whose own tokens were worked on before.
        span = event.ended - self._done[0][0]
        if span > 0:
            self.rate_in, self.rate_out = self._total(1) / span, self._total(2) / span

    def _total(self, which: int) -> float:
        counted = [done[which] for done in list(self._done)[1:]]
        return float(sum(n for n in counted if isinstance(n, int)))

    def _line(self, event: StepEnded) -> str:
        cells = self._cells.pop(event.step, [])
        more = [f"and {len(cells) - PHASES_SHOWN} more"] if len(cells) > PHASES_SHOWN else []
        own = self.sample is not None and self.sample.step == event.step
        pool = [pool_words(self.sample)] if own and self.sample is not None else []
        return "  ".join([f"prompt {event.step:,}", line(event.label, 24), *cells[:PHASES_SHOWN], *more, *pool])


def pool_words(sample: Sample | None) -> str:
    """`pool 99.7 % (free 1,024 of 481,280 tokens)`, with only what was exported."""
    if sample is None:
        return "pool not exported"
    usage = f"pool {phrases.percent(sample.kv_usage)}" if sample.kv_usage is not None else "pool"
    if sample.kv_free is None:
        return usage if sample.kv_usage is not None else "pool not exported"
    of = f" of {phrases.count(sample.kv_capacity)}" if sample.kv_capacity is not None else ""
    return f"{usage} (free {phrases.count(sample.kv_free)}{of} tokens)"
