"""`kvstress shrink`: cut a failed run down to the requests that break the server, a fresh server for every probe.

Every probe is stored the moment it is over, and the best reproducer so far is written each time there is a better one:
whatever ends the search, what it found is there, and calling it again goes on.
"""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from kvstress import __version__
from kvstress.core.case import Case, Text
from kvstress.core.errors import CannotJudgeError, UsageError
from kvstress.core.manifest import Manifest
from kvstress.core.repro import Facts
from kvstress.core.sizing import ASSUMED, Sizing
from kvstress.harness import shrink_store
from kvstress.harness.launching import with_values
from kvstress.harness.options import RunOptions, shown_launch
from kvstress.harness.recorded import Recorded, recorded
from kvstress.harness.shrink_probe import Prober, Stored
from kvstress.launch.command import placeholders
from kvstress.oracles.judge import COMPARES
from kvstress.search.fillers import Wording
from kvstress.search.keeper import Keeper
from kvstress.search.passes import passes
from kvstress.search.shrink import Spent, shrink
from kvstress.search.space import Space, space

LAUNCHES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ShrinkOptions:
    """What the person asked. `options` say how the server is reached; `reset` makes one at a URL fresh.

    `launches` and `seconds` bound the whole search, resumed or not.
    """

    run: Path
    options: RunOptions
    data: Path | None = None
    knob: str | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    resolution: str | None = None
    form: str | None = None
    reset: str | None = None
    launches: int = LAUNCHES
    seconds: float | None = None
    keep_text: bool = False
    overwrite: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A search that can begin: everything read and checked, nothing launched."""

    asked: ShrinkOptions
    found: Recorded
    facts: Facts
    grid: Space | None
    case: Case
    folder: Path
    identity: str
    known: tuple[Stored, ...]

    def value(self, case: Case) -> str | None:
        """The knob's value for people."""
        return None if self.grid is None or case.value is None else self.grid.show(case.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    """What came of it: the best case, the probes made, and `why` the search ended early, if it did."""

    search: Search
    case: Case
    failed: int
    probes: int
    launches: int
    why: str


def plan(asked: ShrinkOptions) -> Search:
    """Check the call and read the run. Raises UsageError or CannotJudgeError in one sentence; launches nothing."""
    found = recorded(asked.run, asked.data)
    asked, grid = _knobbed(asked)
    _fresh(asked)
    if found.twin and found.failure.oracle in COMPARES and asked.options.twin is None and not asked.options.twin_launch:
        raise UsageError(
            "the failure was seen against a second process: name one with --twin, or start it with --twin-launch"
        )
    facts = _facts(found, asked)
    case = found.case if grid is None else replace(found.case, value=grid.count - 1)
    identity = shrink_store.identity(asked.options, asked.knob, asked.reset, case, found.failure)
    folder = asked.options.out or Path("reports") / "shrink" / f"{asked.run.resolve().name}-{identity[:8]}"
    return Search(
        asked=asked,
        found=found,
        facts=facts,
        grid=grid,
        case=case,
        folder=folder,
        identity=identity,
        known=() if asked.overwrite else shrink_store.known(folder, identity),
    )


def _knobbed(asked: ShrinkOptions) -> tuple[ShrinkOptions, Space | None]:
    """The options with all values but the knob's filled in, and the knob's grid up to the value given."""
    values, command = dict(asked.values), asked.options.launch
    if asked.knob is None:
        filled = with_values(command, values) if command and values else command
        return replace(asked, options=replace(asked.options, launch=filled)), None
    start = values.pop(asked.knob, None)
    if command is None or start is None or asked.knob not in placeholders(command):
        raise UsageError(
            f"--knob {asked.knob} needs a launch command with {{{asked.knob}}} in it and the value at which the run "
            f"failed, as in --value {asked.knob}=50G"
        )
    unit = start.lstrip("0123456789. ")
    step = asked.resolution or ("0.01" if "." in start and not unit else f"1{unit}")
    grid = space(step, start, step, asked.form)
    return replace(asked, options=replace(asked.options, launch=with_values(command, values))), grid


def _fresh(asked: ShrinkOptions) -> None:
    options = asked.options
    if options.server and options.reference_args is None and asked.reset is None:
        raise UsageError(
            "shrink needs a fresh server for every probe: give its command with --launch, or beside --server a --reset "
            "COMMAND that restarts it"
        )


def _facts(found: Recorded, asked: ShrinkOptions) -> Facts:
    manifest, options = found.manifest, asked.options
    aside = manifest.parameters.get("aside")
    after = found.after or found.case.failing is None or (found.twin and found.failure.oracle in COMPARES)
    return Facts(
        kvstress=__version__,
        run=manifest.run,
        workload=manifest.workload,
        hunts=manifest.hunts,
        seed=manifest.seed,
        content=manifest.content,
        oracles=manifest.oracles,
        timeout=options.timeout,
        time_scale=options.time_scale,
        sends_done=manifest.target.sends_done,
        planned=found.planned,
        aside=dict(aside) if after and isinstance(aside, Mapping) else None,
        model=manifest.target.model,
        software=manifest.target.software,
        dialect=manifest.target.dialect,
        context_limit=manifest.target.context_limit,
        embedded=manifest.target.embedded,
        launched=shown_launch(options.launch) if options.launch else None,
        knob=asked.knob,
        commit=manifest.commit,
        hardware=manifest.hardware,
        host=manifest.host,
    )


async def carry_out(search: Search, *, tell: Callable[[str], None]) -> Shrunk:
    """Carry out the search. Raises Interrupted or CannotJudgeError; what was found until then is stored."""
    prober = Prober(search, view=lambda manifest: nullcontext(lambda event: None), tell=tell)
    keeper = Keeper(prober, kept=lambda case: shrink_store.keep(search, prober, keeper, case))
    why = ""
    try:
        first = await keeper.baseline(search.case)
    except Spent as spent:
        first, why = keeper.best, str(spent)
    if first is None:
        raise CannotJudgeError(_not_again(search, keeper, prober, why))
    if keeper.rate is not None:
        tell(f"the run fails in about {100 * keeper.rate:.0f} % of probes: each step is decided by a sequential test")
    small = await shrink(
        first, keeper, passes(_wording(search)), tell=lambda name, case: tell(f"{name}: from {_sized(search, case)}")
    )
    shrink_store.keep(search, prober, keeper, small)
    failed, probes = keeper.tally(small)
    return Shrunk(
        search=search, case=small, failed=failed, probes=probes, launches=prober.launches, why=prober.stopped or why
    )


def _sized(search: Search, case: Case) -> str:
    value = search.value(case)
    return f"{case.size()}" + (f", {search.asked.knob} {value}" if value else "")


def _not_again(search: Search, keeper: Keeper, prober: Prober, why: str) -> str:
    failed, probes = keeper.tally(search.case)
    said = why or prober.stopped or prober.last
    if not probes:
        return f"the run could not be repeated: {said}"
    return f"the server no longer fails as it did ({failed} of {probes} probes): {said}; nothing was shrunk"


def _wording(search: Search) -> Wording:
    manifest: Manifest = search.found.manifest
    line = manifest.sizing or ASSUMED
    limit = manifest.target.context_limit
    return Wording(
        made=partial(_made, search.found.tokens, search.found.case.texts, line),
        longest=None if limit is None else line.units(int(0.97 * limit)),
    )


def _made(tokens: Mapping[str, int], texts: Mapping[str, Text], line: Sizing, number: int, one: Text) -> Text:
    """Generated text of as many tokens as the server counted for `one`, or about as many as its characters make."""
    name = next((name for name, text in texts.items() if text.words == one.words), "")
    counted = tokens.get(name, len(one.words or "") // 4)
    return Text(key=f"shrink/{number}", mark=_mark(number), units=line.units(counted))


def _mark(number: int) -> str:
    """A beginning that no other filler has."""
    first, second = divmod(number, 26)
    return f"{chr(97 + second)}{chr(65 + first % 26)}"
