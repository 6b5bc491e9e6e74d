"""Was an answer right? Where kvstress made the question, it knows the answer, whatever model is asked.

Two kinds of prompt have an answer that can be checked: one that asks for a planted code, and one that was promised a
JSON shape. Comparing arms (cold and warm, alone and beside others, idle and full) by right and wrong needs no second
computation, and no tolerance.
"""

import json
import re

from kvstress.core.events import RequestSent
from kvstress.core.exchange import Exchange
from kvstress.core.manifest import Manifest
from kvstress.core.markers import Markers
from kvstress.core.outcome import Outcome
from kvstress.core.plan import Origin
from kvstress.oracles.foreign import own
from kvstress.oracles.oracle import options
from kvstress.oracles.schema import misfit

_ASKS = re.compile(r"\basks=(\d+)")
# Tokens that an answer with its code takes at most; where fewer were allowed, a wrong answer may be a short one.
_ROOM = 24


class Right:
    """Judges single answers; keeps nothing but the run's key."""

    def __init__(self, manifest: Manifest) -> None:
        self._markers = Markers(f"{manifest.workload}/{manifest.seed}")

    def code(self, asked: RequestSent) -> str | None:
        """The code that answers the request's question; None when it asks none."""
        slot, numbers = _ASKS.search(asked.recipe), own(asked)
        return self._markers.marker(numbers[-1], int(slot[1])) if slot and numbers else None

    def wrong(self, exchange: Exchange, asked: RequestSent) -> bool | None:
        """Is a completed greedy answer wrong? None where nobody knows what is right."""
        if exchange.outcome is not Outcome.COMPLETED or asked.origin is Origin.SIZING:
            return None
        wanted = options(asked)
        if wanted.get("temperature") != 0:
            return None
        code = self.code(asked)
        if code is not None:
            room = (asked.max_tokens or 0) >= _ROOM and bool(exchange.text)
            return code not in re.sub(r"\s", "", exchange.text) if room else None
        return _misshapen(exchange, wanted.get("response_format"))


def _misshapen(exchange: Exchange, shape: object) -> bool | None:
    schema = shape.get("json_schema") if isinstance(shape, dict) else None
    if not isinstance(schema, dict) or not exchange.choices or exchange.choices[0].finish_reason == "length":
        return None
    try:
        value = json.loads(exchange.text)
    except (ValueError, RecursionError):
        return True
    return misfit(value, schema.get("schema")) is not None
