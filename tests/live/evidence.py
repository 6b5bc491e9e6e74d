"""What two answers to one prompt differ in, read from a stored run: whether a quiet run had anything to be quiet about.

A PASS on a server whose warm and cold answers never differ shows little. Real llama.cpp's do, where two tokens nearly
tie; the run must show such partings for its silence to count.
"""

from collections.abc import Iterator
from pathlib import Path

from kvstress.core.events import RequestSent
from kvstress.core.exchange import Exchange
from kvstress.core.plan import Origin
from kvstress.oracles.arms import Parting, Token, parting, tokens
from kvstress.store.rundir import read_events


def partings(run: Path) -> Iterator[Parting]:
    """Each later answer to a prompt against its first one, of the run's steps."""
    asked: dict[str, RequestSent] = {}
    first: dict[str, tuple[Token, ...]] = {}
    for event in read_events(run):
        if isinstance(event, RequestSent):
            asked[event.request] = event
        elif isinstance(event, Exchange) and asked[event.request].origin is Origin.STEP:
            said, recipe = tokens(event, 128), asked[event.request].recipe
            if recipe in first:
                yield parting(first[recipe], said)
            elif said:
                first[recipe] = said


def near_ties(run: Path) -> str:
    """Say so if no warm answer parted from its cold one: "" when one did. Prints at which gaps, in nats."""
    every = [*partings(run)]
    gaps = [one.gap for one in every if one.gap is not None]
    if not gaps:
        return f"none of {len(every)} warm answers differs from its cold one, so their agreement is no evidence"
    print(f"      {len(gaps)} of {len(every)} warm answers part from the cold one, at gaps up to {max(gaps):.2f} nat")
    return ""
