"""The tables as a fold over events: the same code writes them live and rebuilds them.

It holds the requests in flight and the steps that are open, never the run, so a table of a
million rows costs no more memory than one of ten.
"""

from collections.abc import Iterator

import msgspec

from kvstress.core.events import Event, RequestSent, StepEnded, StepStarted
from kvstress.core.exchange import Exchange
from kvstress.core.sample import Sample
from kvstress.store import cells, requests
from kvstress.store.codec import spelt
from kvstress.store.prompts import PromptRows

PROMPTS, REQUESTS, METRICS = "prompts.csv", "requests.csv", "metrics.csv"
TABLES = (PROMPTS, REQUESTS, METRICS)
METRICS_COLUMNS = ("at_s", "why", "step", "took_s", "dialect", "problem", *cells.CANONICAL, "raw")

# A table's file name and the bytes to add to it.
Chunk = tuple[str, bytes]


class Views:
    """Feed it every event of a run in order: `head()`, then `see` each, then `rest()` when there are no more."""

    def __init__(self, phases: tuple[str, ...]) -> None:
        self._prompts = PromptRows(phases)
        self._flying: dict[str, RequestSent] = {}

    def head(self) -> Iterator[Chunk]:
        """The headers that do not depend on the run."""
        yield REQUESTS, requests.header()
        yield METRICS, cells.row(METRICS_COLUMNS)

    def see(self, event: Event) -> Iterator[Chunk]:
        """The rows that became final with `event`."""
        match event:
            case RequestSent():
                yield from self._lose(self._flying.get(event.request))
                self._flying[event.request] = event
            case Exchange():
                yield REQUESTS, self._answer(event)
            case Sample():
                self._prompts.sample(event)
                yield METRICS, _metrics_line(event)
            case StepStarted():
                yield from self._begin(event)
            case StepEnded():
                yield from ((PROMPTS, line) for line in self._prompts.end(event))
            case _:
                pass

    def rest(self) -> Iterator[Chunk]:
        """The rows of what never ended, once there are no more events."""
        for sent in tuple(self._flying.values()):
            yield from self._lose(sent)
        yield from ((PROMPTS, line) for line in self._prompts.rest())

    def _begin(self, event: StepStarted) -> Iterator[Chunk]:
        # A step that starts again was cut off by a kill, and its requests with it.
        for sent in tuple(self._flying.values()):
            if sent.step == event.step:
                yield from self._lose(sent)
        self._prompts.begin(event)

    def _answer(self, exchange: Exchange) -> bytes:
        sent = self._flying.pop(exchange.request, None)
        if sent is not None:
            self._prompts.answer(sent, exchange)
        return requests.line(sent, exchange)

    def _lose(self, sent: RequestSent | None) -> Iterator[Chunk]:
        if sent is not None:
            del self._flying[sent.request]
            self._prompts.answer(sent, None)
            yield REQUESTS, requests.line(sent, None)


def _metrics_line(sample: Sample) -> bytes:
    raw = msgspec.json.encode(spelt(sample.raw), order="sorted").decode() if sample.raw else None
    return cells.row(
        [
            cells.seconds(sample.at),
            cells.text(sample.why),
            cells.number(sample.step),
            cells.seconds(sample.took),
            cells.text(sample.dialect),
            cells.text(sample.problem),
            *(cells.number(getattr(sample, name)) for name in cells.CANONICAL),
            cells.text(raw),
        ]
    )
