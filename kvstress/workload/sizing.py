"""Asks the server what a unit of text costs in its own tokens, with a few short prompts before step 0.

Lengths are whole lines of the stand-in program, so that the points lie on one straight line
and not around it; marks are digits, which no step's prompt begins with.
"""

from kvstress.core.exchange import Exchange
from kvstress.core.outcome import Outcome
from kvstress.core.plan import Origin, Request
from kvstress.core.sizing import ASSUMED, Sizing, fit
from kvstress.workload import body, text
from kvstress.workload.markers import facts

UNITS = (48, 120, 240, 384)


def requests(model: str | None, seed: int, *, stream: bool = False, told: bool = False) -> tuple[Request, ...]:
    """The sizing requests, shortest first: greedy, one token each, about 1,000 prompt tokens in all.

    They are streamed where the workload is, so that they also show how this server ends a healthy stream; and carry
    facts where its prompts do (`told`), so that the line's overhead holds for both.
    """
    return tuple(_request(number, units, model, seed, stream, told) for number, units in enumerate(UNITS))


def measure(asked: tuple[Request, ...], exchanges: tuple[Exchange, ...]) -> Sizing:
    """The line through what the server counted; `ASSUMED` when it gave no usable counts.

    A request that was refused or failed is left out: a server too small for the longest one can
    still be measured by the others.
    """
    counted = {exchange.request: _tokens(exchange) for exchange in exchanges}
    units = {request.id: UNITS[number] for number, request in enumerate(asked)}
    points = tuple((units[name], tokens) for name, tokens in counted.items() if tokens is not None and name in units)
    if len(points) < 2:
        return ASSUMED
    try:
        return fit(points, "measured")
    except ValueError:
        return ASSUMED


def _request(number: int, units: int, model: str | None, seed: int, stream: bool, told: bool) -> Request:
    key = f"sizing/{seed}"
    prompt = text.prompt(f"{key}/{number}", str(number), units, facts(key, number) if told else None)
    return Request(
        id=f"sizing.{number}",
        step=None,
        phase="sizing",
        origin=Origin.SIZING,
        body=body.chat(body.user(prompt), model=model, max_tokens=1, temperature=0.0, stream=stream),
        recipe=f"sizing text seed={seed} number={number} units={units}",
    )


def _tokens(exchange: Exchange) -> int | None:
    if exchange.outcome is not Outcome.COMPLETED or exchange.usage is None:
        return None
    return exchange.usage.prompt_tokens
