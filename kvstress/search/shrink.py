"""Shrinking a failing run: passes over what was sent, each making one thing smaller, until none can.

In this order, because what goes first saves most: the pool (a smaller one is filled by fewer prompts), whole prompts,
then phases; then fillers that stand in for others, shorter prompts, fewer output tokens, simpler parameters. The probe
is passed in; what is asked next follows from the answers alone, so that a search that was cut off goes on by being
asked again.
"""

from collections.abc import Callable, Sequence

from kvstress.core.case import Case
from kvstress.search.fewer import Pass
from kvstress.search.keeper import Keeper

ROUNDS = 3


class Spent(Exception):  # noqa: N818 - a bound was reached, as it was asked for
    """Raised by a probe that may not be made any more: the search ends with the best case it has."""


async def shrink(
    case: Case, keeper: Keeper, passes: Sequence[tuple[str, Pass]], *, tell: Callable[[str, Case], None]
) -> Case:
    """The smallest case that the passes lead to; `tell(pass, case)` is called before each pass.

    `case` is one that `keeper.baseline` gave. The result was seen to fail with the same signature; it is confirmed by
    the sequential test unless a bound (Spent) came before that.
    """
    try:
        for _ in range(ROUNDS):
            before = case
            for name, one in passes:
                tell(name, case)
                case = await _passed(case, keeper, one)
            if case.digest() == before.digest():
                break
    except Spent:
        return keeper.best or case
    return case


async def _passed(case: Case, keeper: Keeper, one: Pass) -> Case:
    # Invariant: `case` is confirmed. Its successors are probed once each and the last of them is confirmed; where that
    # fails, one of them failed by luck, and the pass is made again with every step confirmed.
    quick = await one(case, keeper.once)
    if quick.digest() == case.digest():
        return case
    sure = await keeper.surely(quick)
    if sure is None:
        keeper.keep(case)
        sure = await one(case, keeper.surely)
    return sure
