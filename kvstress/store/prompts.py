"""prompts.csv: one row per step, the table of the report that started it all, with more columns to its right.

A row is due when its step ends. A step that was cut off by a kill has a row too, made of what is
known, when the events run out; if the run was resumed the step began a second time and only that
attempt counts.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from kvstress.core import latency, words
from kvstress.core.events import RequestSent, StepEnded, StepStarted
from kvstress.core.exchange import Exchange, Usage
from kvstress.core.outcome import Kind
from kvstress.core.plan import Origin
from kvstress.core.sample import Sample
from kvstress.store import cells

FLARE = ("flare_free_kv_tokens", "flare_cached_kv_tokens", "flare_free_snapshots", "flare_requests_failed_total")
MEASURES = ("s", "ttft_s", "prompt_tokens", "cached_tokens", "completion_tokens")
_NOTHING = ("",) * len(MEASURES)


@dataclass(slots=True)
class _Open:
    label: str
    seconds: float | None = None
    status: dict[str, str] = field(default_factory=dict)
    measures: dict[str, tuple[str, ...]] = field(default_factory=dict)
    sample: Sample | None = None


class PromptRows:
    """A fold over one run's events that yields the lines of prompts.csv, header first.

    Whether the Flare columns are there is settled by the samples seen before the first row.
    """

    def __init__(self, phases: tuple[str, ...]) -> None:
        self._phases = phases
        self._open: dict[int, _Open] = {}
        self._flare = False
        self._started = False

    def begin(self, event: StepStarted) -> None:
        """A step starts, perhaps for the second time: an earlier attempt is forgotten."""
        self._open[event.step] = _Open(event.label)

    def answer(self, sent: RequestSent, exchange: Exchange | None) -> None:
        """A request of a step came to its end; without an exchange it was in flight when the run was killed."""
        if sent.origin != Origin.STEP or sent.step not in self._open:
            return
        step = self._open[sent.step]
        step.status[sent.phase] = words.status_cell(exchange) if exchange else f"fail: {Kind.KILLED}"
        step.measures[sent.phase] = _measures(exchange) if exchange else _NOTHING

    def sample(self, event: Sample) -> None:
        """Keeps the sample that belongs to an open step."""
        self._flare = self._flare or (not self._started and any(name in event.raw for name in FLARE))
        if event.why == "step" and event.step in self._open:
            self._open[event.step].sample = event

    def end(self, event: StepEnded) -> Iterator[bytes]:
        """The finished step's row."""
        step = self._open.pop(event.step, None) or _Open(event.label)
        step.seconds = event.seconds
        yield from self._lines(event.step, step)

    def rest(self) -> Iterator[bytes]:
        """What remains when the events have run out: rows of steps that never ended, in step order."""
        yield from self._header()
        for index in sorted(self._open):
            yield from self._lines(index, self._open[index])
        self._open.clear()

    def _header(self) -> Iterator[bytes]:
        if not self._started:
            self._started = True
            yield cells.row(cells.text(name) for name in columns(self._phases, flare=self._flare))

    def _lines(self, index: int, step: _Open) -> Iterator[bytes]:
        yield from self._header()
        flare = FLARE if self._flare else ()
        raw = step.sample.raw if step.sample else {}
        yield cells.row(
            [
                str(index),
                cells.text(step.label),
                *(cells.text(step.status.get(phase)) for phase in self._phases),
                cells.seconds(step.seconds),
                *(cells.number(raw.get(name)) for name in flare),
                *(cell for phase in self._phases for cell in step.measures.get(phase, _NOTHING)),
                *(cells.number(getattr(step.sample, name, None)) for name in cells.CANONICAL),
            ]
        )


def columns(phases: tuple[str, ...], *, flare: bool) -> list[str]:
    """The header of prompts.csv for a workload with these phases."""
    return [
        "i",
        "context",
        *phases,
        "seconds",
        *(FLARE if flare else ()),
        *(f"{phase}_{measure}" for phase in phases for measure in MEASURES),
        *cells.CANONICAL,
    ]


def _measures(exchange: Exchange) -> tuple[str, ...]:
    usage = exchange.usage or Usage()
    return (
        cells.seconds(latency.e2e(exchange)),
        cells.seconds(latency.ttft(exchange)),
        cells.number(usage.prompt_tokens),
        cells.number(usage.cached_tokens),
        cells.number(usage.completion_tokens),
    )
