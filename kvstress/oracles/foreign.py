"""FOREIGN: does an answer contain what only another request was told?

Compares every run of marker letters in an answer (text, reasoning, tool arguments) with the markers of this run: which
prompt a marker belongs to is computed from the run's key, so those of aborted and evicted requests count to the end.
Source: answers, cut off ones too, and the `markers=` words of recipes.

Threshold: one whole marker (a chance match is one in 2^44) of a prompt that is neither the request's own nor an
earlier turn's of its session; or 12 characters of one of the last 1,000 prompts'. Prompts of datasets carry no markers
and are never changed.
Noisy when: a client's own history holds another session's text; models that echo their own markers are meant to.
"""

import re
from collections.abc import Iterator

from kvstress.core.events import Event, RequestSent
from kvstress.core.exchange import Exchange
from kvstress.core.manifest import Manifest
from kvstress.core.markers import LENGTH, SLOTS, Markers
from kvstress.core.verdict import Finding, Verdict
from kvstress.oracles.oracle import found

NAME = "FOREIGN"

PART, REMEMBERED = 12, 1_000
OWN = re.compile(r"\bmarkers=([\d,]+)")
_RUN = re.compile(rf"[A-Z2-7]{{{PART},}}")
# A flood of marker letters costs a permutation at each; what leaks stands at an answer's beginning too.
_MOST_TEXT = 20_000


class Foreign:
    """Keeps parts of the last 1,000 prompts' markers, and which prompts recent sessions hold."""

    def __init__(self, manifest: Manifest) -> None:
        self._markers = Markers(f"{manifest.workload}/{manifest.seed}")
        self._parts: dict[str, int] = {}
        self._numbers: dict[int, None] = {}
        self._sessions: dict[str, set[int]] = {}

    def see(self, event: Event, asked: RequestSent | None) -> tuple[Finding, ...]:
        if isinstance(event, RequestSent):
            for number in own(event):
                self._remember(number)
                self._hold(event.session, number)
        if not isinstance(event, Exchange) or asked is None:
            return ()
        mine = {*own(asked), *self._sessions.get(asked.session or "", ())}
        for text, number in self._met(event):
            if number not in mine:
                return (_leak(asked, text, number),)
        return ()

    def _hold(self, session: str | None, number: int) -> None:
        if session is None:
            return
        held = self._sessions.pop(session, set())
        self._sessions[session] = held
        held.add(number)
        if len(self._sessions) > REMEMBERED:
            del self._sessions[next(iter(self._sessions))]

    def _remember(self, number: int) -> None:
        if number in self._numbers:
            return
        self._numbers[number] = None
        self._parts |= dict.fromkeys(self._pieces(number), number)
        if len(self._numbers) > REMEMBERED:
            oldest = next(iter(self._numbers))
            del self._numbers[oldest]
            for piece in self._pieces(oldest):
                self._parts.pop(piece, None)

    def _pieces(self, number: int) -> Iterator[str]:
        for slot in range(SLOTS):
            marker = self._markers.marker(number, slot)
            yield from (marker[at : at + PART] for at in range(LENGTH - PART + 1))

    def _met(self, exchange: Exchange) -> Iterator[tuple[str, int]]:
        """Each marker, or part of one, in the answer, with the prompt that it belongs to."""
        said = [text for one in exchange.choices for text in (one.text, one.reasoning, one.tool_calls)]
        for run in (run for text in said for run in _RUN.findall(text[:_MOST_TEXT])):
            for at in range(len(run) - PART + 1):
                whole = self._markers.read(run[at : at + LENGTH])
                number = whole[0] if whole else self._parts.get(run[at : at + PART])
                if number is not None:
                    yield run[at : at + LENGTH], number


def own(asked: RequestSent) -> tuple[int, ...]:
    """Numbers of the prompts whose markers the request itself holds."""
    return numbers(asked.recipe)


def numbers(recipe: str) -> tuple[int, ...]:
    """Numbers of the prompts whose markers a request of that recipe holds."""
    said = OWN.search(recipe)
    return tuple(int(number) for number in said[1].split(",") if number) if said else ()


def _leak(asked: RequestSent, text: str, number: int) -> Finding:
    what = f"the answer contains {text}, which was sent in prompt {number} only"
    limit = "no marker but its own"
    return found(NAME, Verdict.FAIL, "marker", what, asked=asked, measured=text, limit=limit)
