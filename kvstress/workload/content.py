"""Where prompts come from: one function per source, each giving the same kind of answer.

`Content` is what a source knows before anything is sent: its prompts, lazily, how many there are,
and the sentence that reports repeat about them. A new shape of traffic is a new function here and a
new member of the format's union.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import ROUND_HALF_EVEN, Context, Decimal
from itertools import count, islice

from kvstress.core.errors import UsageError
from kvstress.core.sizing import Sizing
from kvstress.workload import draws, text
from kvstress.workload.agents import agents
from kvstress.workload.body import user
from kvstress.workload.dataset import DataFile, Row
from kvstress.workload.format import Spec
from kvstress.workload.fuzz import fuzz
from kvstress.workload.markers import facts
from kvstress.workload.pool import pool
from kvstress.workload.prompt import Content, Prompt, label
from kvstress.workload.residue import residue
from kvstress.workload.soak import soak
from kvstress.workload.sources import Agents, Fuzz, Levels, Pool, Ramp, Residue, Rounds, Soak, SpeedBench, Trace
from kvstress.workload.trace import TraceFile, trace

Data = Mapping[str, DataFile | TraceFile]


def stems(spec: Spec) -> tuple[str, ...]:
    """Names, without their endings, of the data files that the workload reads; empty when it reads none."""
    source = spec.source
    if isinstance(source, Trace):
        return (source.file.rpartition(".")[0] or source.file,)
    return tuple(dict.fromkeys(map(_stem, source.contexts))) if isinstance(source, SpeedBench) else ()


def content(spec: Spec, seed: int, sizing: Sizing, data: Data | None) -> Content:
    """The workload's prompts. Raises UsageError when `data` lacks a file, or has rows that cannot be sent."""
    source, key = spec.source, f"{spec.name}/{seed}"
    if isinstance(source, Ramp):
        return _ramp(source, key, sizing)
    if isinstance(source, Rounds):
        return _rounds(source, key, sizing)
    if isinstance(source, Agents):
        return agents(source, spec.phases[-1], key, sizing)
    if isinstance(source, Levels):
        return _levels(source, key, sizing)
    if isinstance(source, Fuzz):
        return fuzz(source, key, sizing)
    if isinstance(source, Soak):
        return soak(source, spec, key, sizing)
    if isinstance(source, Residue):
        return residue(source, key, sizing)
    if isinstance(source, Pool):
        return pool(source, key, sizing)
    if isinstance(source, Trace):
        return trace(source, spec.phases[-1], next((one for one in (data or {}).values()), None), key, sizing)
    return _stand_in(source, key, sizing) if data is None else _dataset(source, data)


def sizes(ramp: Ramp) -> list[int]:
    """The ramp's sizes in tokens, geometric: start·(end/start)^(k/(steps − 1)), rounded.

    In decimal arithmetic, which rounds alike everywhere; the last digit of a float power does not.
    """
    exact = Context(prec=28, rounding=ROUND_HALF_EVEN)
    factor = exact.divide(Decimal(ramp.end), Decimal(ramp.start))
    last = Decimal(ramp.steps - 1)
    powers = [exact.power(factor, exact.divide(Decimal(k), last)) for k in range(ramp.steps)]
    return [int(exact.multiply(Decimal(ramp.start), power).to_integral_value(context=exact)) for power in powers]


def _ramp(ramp: Ramp, key: str, sizing: Sizing) -> Content:
    planned = sizes(ramp)
    return Content(
        prompts=lambda: _generated(((label(tokens), tokens) for tokens in planned), key, sizing, ramp.facts),
        total=len(planned),
        sentence=f"generated code-like text, {ramp.steps} prompts from {label(ramp.start)} to {label(ramp.end)} tokens",
    )


def _rounds(source: Rounds, key: str, sizing: Sizing) -> Content:
    contexts = [source.contexts[number % len(source.contexts)] for number in range(source.prompts)]
    planned = [(label(context), _near(context, source.spread, f"{key}/{n}")) for n, context in enumerate(contexts)]
    return Content(
        prompts=lambda: _in_two_orders(source.rounds, key, list(_generated(iter(planned), key, sizing, source.facts))),
        total=source.prompts * source.rounds,
        sentence=f"generated code-like text, {source.prompts} prompts in {source.rounds} rounds of two orders",
    )


def _in_two_orders(rounds: int, key: str, prompts: list[Prompt]) -> Iterator[Prompt]:
    orders = [draws.shuffled(f"{key}/order/{number}", prompts) for number in range(2)]
    for number in range(rounds):
        yield from orders[number % 2]


def _levels(source: Levels, key: str, sizing: Sizing) -> Content:
    rounds = source.rounds + source.warm_up
    sizes = ", ".join(map(str, source.levels))
    return Content(
        prompts=lambda: _batches(source, rounds, key, sizing),
        total=rounds * len(source.levels),
        sentence=f"generated code-like text, prompts of {label(source.context)} tokens, {sizes} at once in {rounds} "
        f"rounds, of which {source.warm_up} warm up",
    )


def _batches(source: Levels, rounds: int, key: str, sizing: Sizing) -> Iterator[Prompt]:
    sizes = ((label(source.context), _near(source.context, source.spread, f"{key}/{n}")) for n in count())
    prompts = _generated(sizes, key, sizing, source.facts)
    for level in source.levels * rounds:
        batch = tuple(replace(prompt, label=f"{level} at once") for prompt in islice(prompts, level))
        yield replace(batch[0], beside=batch[1:])


def _stand_in(source: SpeedBench, key: str, sizing: Sizing) -> Content:
    return Content(
        prompts=lambda: _generated(_in_turn(source, key), key, sizing, source.facts),
        total=None,
        sentence="generated stand-in (low-entropy, code-like text), not SPEED-Bench: give --data DIR to send that",
        stand_in=True,
    )


def _in_turn(source: SpeedBench, key: str) -> Iterator[tuple[str, int]]:
    for step in count():
        context = source.contexts[step % len(source.contexts)]
        yield label(context), _near(context, source.spread, f"{key}/{step}")


def _near(context: int, spread: float, key: str) -> int:
    """A length of the prompt's own: equal lengths take freed pages in lockstep and never meet one of another use."""
    return context - round(context * spread * draws.fraction(f"{key}/length"))


def _generated(planned: Iterator[tuple[str, int]], key: str, sizing: Sizing, tell: bool) -> Iterator[Prompt]:
    """Prompts of the planned (label, tokens); `tell`: with planted facts."""
    marks = text.Marks(key)
    for step, (name, tokens) in enumerate(planned):
        units = sizing.units(tokens)
        told = facts(key, step) if tell else None
        yield Prompt(
            label=name,
            messages=user(text.prompt(f"{key}/{step}", marks[step], units, told)),
            recipe=f"generated text {key}/{step} units={units}" + (f" {told.recipe}" if told else ""),
            tokens=tokens,
        )


def _dataset(source: SpeedBench, data: Data) -> Content:
    turns = [(context, _file(context, data)) for context in source.contexts]
    files = {file.name: file for _, file in turns}
    rows = {name: _sendable(file, source.category) for name, file in files.items()}
    total = _total([file.name for _, file in turns], {name: len(found) for name, found in rows.items()})
    named = ", ".join(f"{file.base} ({len(rows[name])} rows)" for name, file in files.items())
    return Content(
        prompts=lambda: _taken(turns, rows),
        total=total,
        sentence=f"{source.category} prompts of {named}, sent byte for byte; rows are used up after {total} prompts",
        sources=tuple(_source(file, rows[name]) for name, file in files.items()),
    )


def _source(file: DataFile, sendable: tuple[Row, ...]) -> Mapping[str, str]:
    return {"file": file.base, "sha256": file.sha256, "rows": str(len(file.rows)), "usable": str(len(sendable))}


def _file(context: int, data: Data) -> DataFile:
    found = data.get(_stem(context))
    if not isinstance(found, DataFile):
        there = ", ".join(sorted(data)) or "nothing"
        raise UsageError(f"no {_stem(context)}.jsonl or .parquet for context {label(context)}; given: {there}")
    return found


def _stem(context: int) -> str:
    return f"throughput_{label(context)}"


def _sendable(file: DataFile, category: str) -> tuple[Row, ...]:
    rows = tuple(row for row in file.rows if row.category == category)
    unresolved = next((row for row in rows if row.unresolved), None)
    if unresolved:
        raise UsageError(
            f"{file.name} row {unresolved.number} still holds the placeholder of the published file: "
            "prepare the dataset first, so that its prompts are filled in"
        )
    if not rows:
        there = ", ".join(sorted({str(row.category) for row in file.rows}))
        raise UsageError(f"{file.name} has no row whose category is {category}; it has {there}")
    return rows


def _total(turns: list[str], available: dict[str, int]) -> int:
    """Steps until the file whose turn it is has no row left; a file with several turns is used up sooner."""
    left = dict(available)
    for step in count():
        name = turns[step % len(turns)]
        if left[name] == 0:
            return step
        left[name] -= 1
    raise AssertionError("count() does not end")


def _taken(turns: list[tuple[int, DataFile]], rows: Mapping[str, tuple[Row, ...]]) -> Iterator[Prompt]:
    left = {name: iter(found) for name, found in rows.items()}
    for step in count():
        context, file = turns[step % len(turns)]
        row = next(left[file.name], None)
        if row is None:
            return
        part = f" turn 1 of {row.turns}" if row.turns > 1 else ""
        yield Prompt(
            label=label(context),
            messages=row.messages,
            recipe=f"{file.base} row {row.number}{part} sha256={row.sha256}",
        )
