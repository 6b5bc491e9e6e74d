"""`kvstress bisect`: probe values of a knob until it is known where the server fails, and say how far that is known.

Every probe is stored the moment it is over, and what to probe next follows from the stored probes alone. So a
search that was killed goes on by being called again, and one that is complete answers without a launch.
"""

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from kvstress.core.errors import UsageError
from kvstress.harness import bisect_store
from kvstress.harness.launching import with_values
from kvstress.harness.options import RunOptions
from kvstress.harness.prepare import prepare
from kvstress.harness.probe import Probing, probe
from kvstress.harness.run import View
from kvstress.launch.command import placeholders
from kvstress.launch.gpu import used_mib, wait_memory_back
from kvstress.search import flaky, steady
from kvstress.search.conclusion import Conclusion, Status, conclude
from kvstress.search.outcome import Cell, Outcome, Seen
from kvstress.search.posterior import GRID_CAP
from kvstress.search.space import Space, space

Make = Callable[[Cell], Awaitable[Outcome]]
Keep = Callable[[Cell, Outcome], None]
# Makes all the cells that it is given, in any order or at once, and hands each outcome to `keep` once it is known.
Executor = Callable[[Sequence[Cell], Make, Keep], Awaitable[None]]
Tell = Callable[["Progress"], None]

FLAKY_BUDGET = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectOptions:
    """What the person asked: `run` is a run's options with the launch command still holding the knob's placeholder.

    `repeats` above 1 takes the server for flaky; `launches` and `seconds` bound the whole search, resumed or not;
    `every` probes the whole grid instead of searching it.
    """

    run: RunOptions
    knob: str | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    low: str
    high: str
    resolution: str | None = None
    form: str | None = None
    repeats: int = 1
    q: float = 0.5
    launches: int | None = None
    seconds: float | None = None
    every: bool = False
    overwrite: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A search that can begin: everything read and checked, nothing launched."""

    options: BisectOptions
    knob: str
    space: Space
    folder: Path
    identity: str
    steps: int | None
    workload: str
    known: tuple[Seen, ...]

    def wanted(self, seen: Sequence[Seen]) -> tuple[Cell, ...]:
        """The probes to make next."""
        if self.options.every:
            probed = {one.cell.index for one in seen}
            return tuple(Cell(index=index) for index in range(self.space.count) if index not in probed)
        if self.options.repeats == 1:
            return steady.next_cells(self.space.count, seen)
        return flaky.next_cells(self.space.count, seen, q=self.options.q, most=self.options.repeats)

    def answer(self, seen: Sequence[Seen]) -> Conclusion:
        """What `seen` shows."""
        return conclude(self.space.count, seen, repeats=self.options.repeats, q=self.options.q)

    def at_most(self) -> tuple[int, int]:
        """Launches at most: when every value starts and none is unjudged, and when some refuse to start."""
        if self.options.every:
            found = (self.space.count, 2 * self.space.count)
        elif self.options.repeats == 1:
            plain, refusing = steady.worst_case(self.space.count)
            # A refused launch is tried once more.
            found = (plain, 2 * refusing)
        else:
            found = (FLAKY_BUDGET, FLAKY_BUDGET)
        most = self.options.launches
        return found if most is None else (min(most, found[0]), min(most, found[1]))

    def expected(self, seen: Sequence[Seen]) -> int:
        """Probes still to come, as far as can be told."""
        if self.options.every:
            return self.space.count - len({one.cell.index for one in seen})
        halvings = self.space.count.bit_length()
        return steady.left(self.space.count, seen) if self.options.repeats == 1 else max(1, 3 * halvings - len(seen))


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A probe that begins (`outcome` None) or is over; `seconds_left` is a guess, None before the first one is over."""

    search: Search
    cell: Cell
    outcome: Outcome | None
    made: int
    expected: int
    seconds_left: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A search's result: `content` is bisect.json."""

    search: Search
    seen: tuple[Seen, ...]
    conclusion: Conclusion
    content: Mapping[str, object]

    def exit_code(self, *, fail_if_boundary: bool) -> int:
        """0 when it completed, 1 when it found failures and was asked to say so, 125 when it could not tell."""
        if self.conclusion.status in (Status.NOTHING_STARTS, Status.NOT_JUDGED, Status.OPEN):
            return 125
        return 1 if fail_if_boundary and any(one.outcome.fails for one in self.seen) else 0


def plan(options: BisectOptions) -> Search:
    """Check the call and read what is stored. Raises UsageError in one sentence; launches and writes nothing."""
    command = options.run.launch
    if command is None:
        raise UsageError("bisect starts the server anew for each probe: give its command with --launch or --preset")
    command = with_values(command, options.values)
    wants = placeholders(command).union(*map(placeholders, options.run.launching.env.values()))
    knob = _knob(wants, options.knob)
    if "port" not in placeholders(command):
        raise UsageError("the command never uses {port}: write it where the server takes its port, as in --port {port}")
    grid = space(options.low, options.high, options.resolution, options.form)
    _check_flaky(options, grid)
    options = replace(options, run=replace(options.run, launch=command))
    prepared = prepare(options.run)
    identity = bisect_store.identity(options.run, knob, options.form, prepared.plan)
    folder = options.run.out or Path("reports") / "bisect" / f"{prepared.plan.workload}-{knob}-{identity[:8]}"
    return Search(
        options=options,
        knob=knob,
        space=grid,
        folder=folder,
        identity=identity,
        steps=prepared.plan.limits.max_steps,
        workload=prepared.plan.workload,
        known=() if options.overwrite else bisect_store.known(folder, identity, grid),
    )


def _knob(wants: frozenset[str], named: str | None) -> str:
    """The one placeholder of the command and its environment that the search fills."""
    free = sorted(wants - {"port"})
    if named is not None and named not in free:
        there = ", ".join(f"{{{name}}}" for name in free) or "none but {port}"
        raise UsageError(f"the command has no placeholder {{{named}}} for --knob {named} (it has {there})")
    others = [name for name in free if name != named]
    if named is not None and others:
        raise UsageError(
            f"the command has a placeholder {{{others[0]}}} but no value for it: add --value {others[0]}=…"
        )
    if not free:
        raise UsageError(
            "the command has no placeholder for the knob: write one where the limit stands, as in "
            "--memory-limit {memory_limit}"
        )
    if len(free) > 1:
        both = " and ".join(f"{{{name}}}" for name in free)
        raise UsageError(
            f"the command has the placeholders {both}: name the one to search with --knob, and give the others a "
            "--value NAME=VALUE"
        )
    return free[0]


def _check_flaky(options: BisectOptions, grid: Space) -> None:
    if not 0 < options.q < 1:
        raise UsageError(f"--q {options.q:g} is no probability between 0 and 1")
    if options.repeats > 1 and grid.count > GRID_CAP:
        raise UsageError(
            f"--repeats needs a grid of at most {GRID_CAP:,} values and this one has {grid.count:,}: choose a coarser "
            "--resolution"
        )


async def in_turn(cells: Sequence[Cell], make: Make, keep: Keep) -> None:
    """One probe at a time, which is all that one machine's memory allows."""
    for cell in cells:
        keep(cell, await make(cell))


async def bisect(search: Search, *, view: View, tell: Tell, executor: Executor = in_turn) -> Found:
    """Carry out the search. Raises Interrupted, UsageError or CannotJudgeError; finished probes stay stored."""
    seen = list(search.known)
    probing = Probing(
        options=search.options.run, knob=search.knob, space=search.space, folder=search.folder / "probes", view=view
    )
    memory = await used_mib()

    async def make(cell: Cell) -> Outcome:
        tell(_progress(search, seen, cell, None))
        if memory is not None:
            await wait_memory_back(memory)
        return await probe(probing, cell)

    def keep(cell: Cell, outcome: Outcome) -> None:
        seen.append(Seen(cell=cell, outcome=outcome))
        bisect_store.write(search, seen)
        tell(_progress(search, seen, cell, outcome))

    while cells := _affordable(search, seen):
        await executor(cells, make, keep)
    return Found(
        search=search, seen=tuple(seen), conclusion=search.answer(seen), content=bisect_store.write(search, seen)
    )


def _affordable(search: Search, seen: Sequence[Seen]) -> tuple[Cell, ...]:
    """The next probes, as many as the budget has room for."""
    options = search.options
    most = options.launches if options.launches is not None else FLAKY_BUDGET if options.repeats > 1 else math.inf
    room = most - sum(one.outcome.launches for one in seen)
    spent = sum(one.outcome.seconds for one in seen)
    if room <= 0 or (options.seconds is not None and spent >= options.seconds):
        return ()
    cells = search.wanted(seen)
    return cells if len(cells) <= room else cells[: int(room)]


def _progress(search: Search, seen: Sequence[Seen], cell: Cell, outcome: Outcome | None) -> Progress:
    expected = search.expected(seen)
    mean = sum(one.outcome.seconds for one in seen) / len(seen) if seen else None
    return Progress(
        search=search,
        cell=cell,
        outcome=outcome,
        made=len(seen),
        expected=expected,
        seconds_left=None if mean is None else mean * expected,
    )
