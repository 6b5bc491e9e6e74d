"""Groups of prompts that are sized by the server's KV pool: what fits, what fits alone only, and what does not.

A share is one of the pool's capacity C, so the same file asks the same question of a laptop and of eight GPUs. Short
innocent prompts may leave beside a group: they fit whatever happens, so what happens to them is the group's fault.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kvstress.core.errors import UsageError
from kvstress.core.plan import Expect
from kvstress.core.sizing import Sizing
from kvstress.workload import text
from kvstress.workload.body import user
from kvstress.workload.markers import facts
from kvstress.workload.prompt import Content, Prompt
from kvstress.workload.sources import Pool

# For a look at a plan without a server, whose sizes are a rough guess throughout.
_GUESSED = 16_000
_INNOCENT = 200
# Enough for a code to be told, whatever the group's own answers are cut to.
_ANSWER = 32


def pool(source: Pool, key: str, sizing: Sizing) -> Content:
    """The groups, round after round, a step each."""
    return Content(
        prompts=lambda: _groups(source, key, sizing, capacity(source, sizing)),
        total=source.rounds * len(source.groups),
        sentence=f"generated code-like text in {len(source.groups)} groups sized by the KV pool, {source.rounds}×",
    )


def capacity(source: Pool, sizing: Sizing) -> int:
    """Tokens of the pool: as set, else as the server tells. Raises UsageError when nobody says."""
    if source.capacity is not None:
        return source.capacity
    if sizing.capacity is not None:
        return int(sizing.capacity)
    if sizing.how == "assumed":
        return _GUESSED
    raise UsageError(
        "the server does not tell how many tokens its KV pool holds: say it, as in --set source.capacity=16k"
    )


def _groups(source: Pool, key: str, sizing: Sizing, tokens: int) -> Iterator[Prompt]:
    marks = text.Marks(key)
    number = 0
    for _ in range(source.rounds):
        for shares in source.groups:
            large = [
                _large(source, share, tokens, f"{key}/{number + n}", marks, number + n, sizing)
                for n, share in enumerate(shares)
            ]
            number += len(large)
            wanted = source.innocents if len(large) != 1 else 0
            small = [_innocent(key, marks, number + n, sizing) for n in range(wanted)]
            number += len(small)
            first, *others = [replace(prompt, label=_label(shares)) for prompt in (*large, *small)]
            yield replace(first, beside=tuple(others))


def _label(shares: Sequence[float]) -> str:
    return "+".join(f"{share:g}C" for share in shares) or "idle"


def _large(source: Pool, share: float, tokens: int, key: str, marks: text.Marks, number: int, sizing: Sizing) -> Prompt:
    wanted = max(1, round(share * tokens))
    units = sizing.units(wanted)
    return Prompt(
        label="",
        messages=user(text.prompt(key, marks[number], units)),
        recipe=f"generated text {key} units={units}",
        tokens=wanted,
        max_tokens=max(1, round(source.output * tokens)) if source.output else None,
    )


def _innocent(key: str, marks: text.Marks, number: int, sizing: Sizing) -> Prompt:
    """A short prompt that tells codes and asks for one. Sizing did not count codes, so no size is planned for it."""
    units, told = sizing.units(_INNOCENT), facts(key, number)
    return Prompt(
        label="",
        messages=user(text.prompt(f"{key}/{number}", marks[number], units, told)),
        recipe=f"generated text {key}/{number} units={units} {told.recipe}",
        max_tokens=_ANSWER,
        expect=Expect.ANSWER,
    )
