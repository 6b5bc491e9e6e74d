"""HEALTH: does the health page say what is true?

Compares `/health` with a one-token generation asked in the same moment. An engine whose worker died while its web
server answers 200 keeps getting traffic for ever. Source: PageRead events of `/health`, and the aside that follows
each.

Threshold: three rounds in a row in which the page says 200 and generation is dead; the opposite (generation works, the
page does not say 200) is noted only.
Noisy when: `/health` is slow or 503 during a long prefill, or generation is shed under load: the rounds are
asked after the traffic, alone.
"""

from kvstress.core.events import Event, PageRead, RequestSent
from kvstress.core.exchange import Exchange
from kvstress.core.manifest import Manifest
from kvstress.core.outcome import Outcome
from kvstress.core.plan import Origin
from kvstress.core.verdict import Finding, Verdict
from kvstress.oracles.oracle import found

NAME = "HEALTH"
PATH = "/health"
ROUNDS = 3

_DEAD = frozenset({Outcome.FAILED, Outcome.BROKEN, Outcome.LOST})


class Health:
    """Keeps the last answer of the page and the number of rounds in a row that disagreed."""

    def __init__(self, manifest: Manifest) -> None:
        del manifest
        self._page: int | None = None
        self._lies = 0

    def see(self, event: Event, asked: RequestSent | None) -> tuple[Finding, ...]:
        if isinstance(event, PageRead) and event.path == PATH:
            self._page = event.status
        if not isinstance(event, Exchange) or asked is None or asked.origin is not Origin.ASIDE:
            return ()
        if asked.phase != "health" or self._page is None:
            return ()
        page, self._page = self._page, None
        if page == 200 and event.outcome in _DEAD:
            self._lies += 1
            return (self._lied(event, asked),) if self._lies == ROUNDS else ()
        self._lies = 0
        if page >= 500 and event.outcome is Outcome.COMPLETED:
            what = f"{PATH} says {page} while generation works"
            return (found(NAME, Verdict.PASS, "too dark", what, asked=asked, measured=what),)
        return ()

    def _lied(self, exchange: Exchange, asked: RequestSent) -> Finding:
        what = f"{PATH} said 200 {ROUNDS} times while a one-token request was {exchange.outcome.value}"
        return found(NAME, Verdict.FAIL, "dead but healthy", what, asked=asked, measured=what, limit="200 means alive")
