"""Which of the frequent events an oracle does nothing about, so that it need not be asked.

Three events of four are about a sending and the bounds of a step, and most oracles only look at answers. A run of a
million requests would ask them a hundred million questions whose answer is known. What is not named here hears
everything, so that a new oracle is never deaf by an oversight.
"""

from collections.abc import Mapping
from typing import Final

from kvstress.core.events import Event, RequestSent, StepEnded, StepStarted
from kvstress.core.exchange import Exchange

_ANSWERS_ONLY: Final = frozenset(
    {
        "STATUS",
        "STREAM",
        "HEALTH",
        "USAGE",
        "LOGPROB",
        "EMPTY",
        "DEGEN",
        "STRUCT",
        "ADMIT",
        "BLAST",
        "CANARY",
        "PRESSURE",
        "RESIDUE",
    }
)
_OPEN_REQUESTS: Final = frozenset({"CACHEDTOK", "ABORT", "QUIESCE", "RECONCILE", "FOREIGN"})
_COMPANY: Final = frozenset({"COLDWARM", "STREAMEQ", "SEQBATCH", "ORDER", "TREND"})

DEAF_TO: Final[Mapping[type[Event], frozenset[str]]] = {
    RequestSent: _ANSWERS_ONLY | {"SURVIVAL", "METRIC"},
    Exchange: frozenset({"METRIC"}),
    StepStarted: _ANSWERS_ONLY | _OPEN_REQUESTS,
    StepEnded: _ANSWERS_ONLY | _OPEN_REQUESTS | _COMPANY | {"LIVENESS", "METRIC"},
}
