"""What a workload file may say, as types: whatever is not here is refused with the path inside the file.

One set of types is parsed, documented (`workloads/README.md`) and set from the command line, so the three cannot
disagree. Where prompts come from is in `sources.py`.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, field

from kvstress.workload.sources import Fuzz, Seconds, Soak, Source, Table, Tokens

Count = Annotated[int, Meta(ge=1, le=1_000_000_000)]
Name = Annotated[str, Meta(pattern="^[a-z][a-z0-9_-]*\\Z", max_length=40)]
CoverageKey = Literal["hit", "full", "evicted", "tier", "aborted", "speculating"]
OracleName = Annotated[str, Meta(pattern="^[A-Z]+\\Z")]

# What the columns of a run's tables are already called.
RESERVED_PHASES = frozenset({"i", "context", "seconds", "step", "at"})


class Phase(Table, frozen=True, kw_only=True):
    """One send of a step's prompt; a step sends its phases in this order, each after the other's answer."""

    name: Annotated[Name, Meta(description="shown in tables and part of the request id, `s<step>.<name>`")]
    max_tokens: Annotated[Tokens, Meta(description="cap on the answer")]
    repeat: Annotated[
        int, Meta(ge=1, le=1000, description="how often it is sent; more than once gives `name1`, `name2`, …")
    ] = 1
    together: Annotated[
        bool, Meta(description="the repeats leave at the same moment, not one after the other's answer")
    ] = False
    stream: Annotated[
        bool | None, Meta(description="ask for this send streamed, or not; as the workload says where absent")
    ] = None
    expect: Annotated[
        Literal["answer", "answer-or-refusal"],
        Meta(
            description="what a healthy server does: it answers, or it may also say in a clean 4xx that it does not fit"
        ),
    ] = "answer"
    shape: Annotated[
        Literal["schema", "tool"] | None,
        Meta(description="schema: ask for JSON of a small schema; tool: force the call of a tool with that schema"),
    ] = None
    n: Annotated[Annotated[int, Meta(ge=2, le=64)] | None, Meta(description="ask for so many answers at once")] = None
    top_logprobs: Annotated[
        Annotated[int, Meta(ge=1, le=20)] | None,
        Meta(description="ask this send for log-probabilities, with so many alternatives"),
    ] = None
    stop: Annotated[
        Annotated[str, Meta(min_length=1, max_length=100)] | None, Meta(description="text at which the answer ends")
    ] = None
    cancel: Annotated[
        Literal["queued", "prefill", "first-chunk", "decode"] | None,
        Meta(
            description="close the connection there: soon after sending, while a long prompt is read, at the first "
            "chunk or at the fourth (the last two need a stream)"
        ),
    ] = None
    cancel_after: Annotated[
        Seconds | None, Meta(description="close it so long after sending instead, wherever the request then stands")
    ] = None

    def __post_init__(self) -> None:
        """Refuse a time without a cancellation."""
        if self.cancel_after is not None and self.cancel is None:
            raise ValueError('cancel_after needs cancel = "queued", "prefill", "first-chunk" or "decode"')

    def names(self) -> tuple[str, ...]:
        """The name of each send of this phase."""
        return (self.name,) if self.repeat == 1 else tuple(f"{self.name}{n}" for n in range(1, self.repeat + 1))


class Schedule(Table, frozen=True, kw_only=True):
    """When steps are sent."""

    kind: Annotated[
        Literal["closed", "open", "trace"],
        Meta(
            description="closed: each lane sends its next step when its last one has ended; open: steps leave when "
            "they are due, however late the server is; trace: they are due when the trace says"
        ),
    ] = "closed"
    lanes: Annotated[int, Meta(ge=1, le=10_000, description="closed: how many steps are under way at a time")] = 1
    every: Annotated[Seconds | None, Meta(description="open: mean time between two steps; 0.1 is ten a second")] = None
    load: Annotated[
        Annotated[float, Meta(gt=0, le=100)] | None,
        Meta(
            description="open, instead of `every`: share of the time for which steps would keep a server busy that "
            "answers one after the other; 0.6 is 60 % of that. How long one takes alone is measured before the first"
        ),
    ] = None
    arrivals: Annotated[
        Literal["constant", "poisson", "gamma"], Meta(description="open: how the times between steps vary")
    ] = "poisson"
    burstiness: Annotated[
        float,
        Meta(ge=0.05, le=20, description="gamma: coefficient of variation of those times; 1 is Poisson, 3 in bursts"),
    ] = 1.0

    def __post_init__(self) -> None:
        """Refuse an open loop without a rate, or with two."""
        if self.kind == "open" and self.every is None and self.load is None:
            raise ValueError('an open schedule needs the mean time between steps: every = "2s"')


class Sampling(Table, frozen=True, kw_only=True):
    """How the server is asked to sample; a key that is absent here is absent from the request."""

    temperature: Annotated[float, Meta(ge=0, le=100, description="0 is greedy")] = 1.0
    top_p: Annotated[Annotated[float, Meta(gt=0, le=1)] | None, Meta(description="nucleus sampling")] = None
    seed: Annotated[
        Annotated[int, Meta(ge=0, le=2**63 - 1)] | None,
        Meta(description="the server's sampling seed, which is not the seed that prompts are made from"),
    ] = None
    logprobs: Annotated[
        Annotated[int, Meta(ge=1, le=20)] | None,
        Meta(description="ask for the log-probability of each token, with so many alternatives"),
    ] = None


class Stop(Table, frozen=True, kw_only=True):
    """When a run ends by itself; the first failure always ends it unless `--keep-going`."""

    max_steps: Annotated[Count | None, Meta(description="steps at most")] = None
    max_duration: Annotated[Seconds | None, Meta(description="time at most")] = None
    on_refusal: Annotated[
        bool, Meta(description="also end when a prompt was refused as too long: the size that was looked for is found")
    ] = False


class Oracles(Table, frozen=True, kw_only=True):
    """What judges the run."""

    arm: Annotated[tuple[OracleName, ...], Meta(description="names of the oracles, in capitals")] = (
        "STATUS",
        "STREAM",
        "LIVENESS",
        "SURVIVAL",
        "HEALTH",
        "METRIC",
        "USAGE",
        "LOGPROB",
        "EMPTY",
        "DEGEN",
        "CACHEDTOK",
        "STRUCT",
        "ADMIT",
        "BLAST",
        "ABORT",
        "QUIESCE",
        "RECONCILE",
        "FOREIGN",
        "CANARY",
        "COLDWARM",
        "STREAMEQ",
        "SEQBATCH",
        "ORDER",
        "PRESSURE",
        "TREND",
        "RESIDUE",
    )


class Coverage(Table, frozen=True, kw_only=True):
    """What must have happened for a run without failure to mean anything."""

    keys: Annotated[
        tuple[CoverageKey, ...],
        Meta(description="a run that did not reach all of these is INVALID, not PASS"),
    ] = ()


class Aside(Table, frozen=True, kw_only=True):
    """Requests that are not part of the traffic; they are tagged and count in no step and no timing."""

    when: Annotated[
        Literal["never", "after"],
        Meta(
            description="after: when the last step has ended, a short request tells a dead server from a failed prompt"
        ),
    ] = "after"
    max_requests: Annotated[int, Meta(ge=0, le=10_000, description="asides at most")] = 4
    watch: Annotated[
        Seconds | None,
        Meta(description="after a run without failure: how long the idle server is watched; some die of silence"),
    ] = None
    capacity: Annotated[
        bool,
        Meta(
            description="after a run without failure: is a prompt of nine tenths of the pool still admitted? "
            "Asked only where the server tells its capacity and the prompt fits the context"
        ),
    ] = False
    cold: Annotated[
        int,
        Meta(
            ge=0,
            le=1000,
            description="after a run without failure: how many greedy prompts are asked again cold, to compare; of a "
            "twin (`--twin`, then 8 by default), else under a salt, after a reset or with the cache off, if that works",
        ),
    ] = 0
    calibrate: Annotated[
        int,
        Meta(
            ge=1,
            le=1000,
            description="how often the first of those is asked cold: what these answers differ in is noise of this "
            "server, and COLDWARM's limits grow with it; 20 make it a good estimate",
        ),
    ] = 4
    each_step: Annotated[
        bool,
        Meta(
            description="where there is a twin (`--twin`): also ask it after every step, for all that the step asked, "
            "so that a run ends at the first answer that differs; without one, `cold` holds"
        ),
    ] = False


class Spec(Table, frozen=True, kw_only=True):
    """One workload."""

    name: Annotated[Name, Meta(description="what the workload is called in outputs")]
    hunts: Annotated[str, Meta(min_length=1, description="the bug it is after, in one sentence")]
    stream: Annotated[bool, Meta(description="ask for streamed answers, with usage")] = False
    source: Annotated[Source, Meta(description="where prompts come from")]
    phases: Annotated[tuple[Phase, ...], Meta(min_length=1, description="the sends of each step")]
    schedule: Annotated[Schedule, Meta(description="when steps are sent")] = Schedule()
    sampling: Annotated[Sampling, Meta(description="temperature and the like")] = Sampling()
    stop: Annotated[Stop, Meta(description="when the run ends")] = Stop()
    oracles: Annotated[Oracles, Meta(description="what judges it")] = Oracles()
    coverage: Annotated[Coverage, Meta(description="what it must have reached")] = Coverage()
    gate: Annotated[dict[str, Any], Meta(description="what `kvstress gate` requires: conditions by metric")] = field(
        default_factory=dict
    )
    aside: Annotated[Aside, Meta(description="requests beside the traffic")] = Aside()

    def phase_names(self) -> tuple[str, ...]:
        """The name of each send of a step, in order."""
        return tuple(name for phase in self.phases for name in phase.names())

    def __post_init__(self) -> None:
        """Refuse phase names that would make two requests, or two columns, the same."""
        names = self.phase_names()
        if isinstance(self.source, Soak) and (sorted(names) != ["load", "probe"] or self.schedule.kind != "open"):
            raise ValueError("a soak workload has two phases, load and probe, each sent once, and an open schedule")
        if isinstance(self.source, Fuzz) and len(names) > 1:
            raise ValueError("a fuzz workload has one phase, sent once: its operations decide what is sent again")
        for place, name in enumerate(names):
            if name in RESERVED_PHASES:
                raise ValueError(f'a phase cannot be called "{name}": tables have a column of that name')
            if name in names[:place]:
                raise ValueError(f'two phases are called "{name}": each needs a name of its own')
