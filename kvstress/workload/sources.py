"""The sources of prompts that a workload may name, each a table with parameters of its own.

A tagged union: a new shape of traffic is a new member here and a function in `content.py`, and no other table has to
know about it.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

Tokens = Annotated[int, Meta(ge=1, le=10_000_000, extra={"unit": "tokens"})]
Seconds = Annotated[float, Meta(gt=0, le=100_000_000, extra={"unit": "seconds"})]


class Table(Struct, frozen=True, forbid_unknown_fields=True):
    """A TOML table: its fields are the keys, and there are no others."""


class SpeedBench(Table, frozen=True, kw_only=True, tag="speedbench", tag_field="kind"):
    """Distinct low-entropy prompts that take turns in size: the user's SPEED-Bench rows (`--data`), or a stand-in."""

    contexts: Annotated[
        tuple[Tokens, ...],
        Meta(min_length=1, description="prompt sizes, taken in turn; with `--data`, 16k reads `throughput_16k`"),
    ] = (16_000, 32_000)
    spread: Annotated[
        float,
        Meta(
            ge=0,
            le=0.5,
            description="stand-in only: each prompt is shorter than its size by up to this fraction, as dataset rows "
            "differ in any tokenizer but their own; 0 makes all lengths equal, which hides bugs of page reuse",
        ),
    ] = 0.1
    category: Annotated[
        str, Meta(min_length=1, description="with `--data`: only rows whose `category` is this one are sent")
    ] = "low_entropy"
    facts: Annotated[
        bool,
        Meta(
            description="stand-in only: each prompt tells three codes that nobody could guess and asks for one, so "
            "that an answer shows what was lost or came from elsewhere"
        ),
    ] = True


class Ramp(Table, frozen=True, kw_only=True, tag="ramp", tag_field="kind"):
    """Distinct generated prompts whose sizes grow by a constant factor."""

    start: Annotated[Tokens, Meta(description="size of the first prompt")]
    end: Annotated[Tokens, Meta(description="size of the last prompt")]
    steps: Annotated[int, Meta(ge=2, le=100_000, description="how many prompts, first and last included")] = 20
    facts: Annotated[
        bool,
        Meta(
            description="each prompt tells three codes that nobody could guess and asks for one, so that an answer "
            "shows what was lost or came from elsewhere"
        ),
    ] = True

    def __post_init__(self) -> None:
        """Refuse a ramp that goes down: the first prompt that does not fit is only defined on the way up."""
        if self.end < self.start:
            raise ValueError(f"end ({self.end}) must not be smaller than start ({self.start})")


class Rounds(Table, frozen=True, kw_only=True, tag="rounds", tag_field="kind"):
    """A set of generated prompts that is sent again and again, in two orders that take turns.

    The same prompt then follows the same one in every second round and another one in those between: answers that
    depend on what was asked before show, and so do prompts that were put out of the pool in the meantime.
    """

    contexts: Annotated[
        tuple[Tokens, ...], Meta(min_length=1, description="sizes of the prompts of a round, taken in turn")
    ] = (500, 1_500)
    prompts: Annotated[int, Meta(ge=2, le=100_000, description="how many prompts a round has")] = 8
    rounds: Annotated[int, Meta(ge=1, le=100_000, description="how often all of them are sent")] = 5
    spread: Annotated[
        float, Meta(ge=0, le=0.5, description="each prompt is shorter than its size by up to this fraction")
    ] = 0.1
    facts: Annotated[
        bool,
        Meta(
            description="each prompt tells three codes that nobody could guess and asks for one, so that an answer "
            "shows what was lost or came from elsewhere"
        ),
    ] = True


class Agents(Table, frozen=True, kw_only=True, tag="agents", tag_field="kind"):
    """Agent sessions whose history grows by what the model answered and by long observations.

    All sessions begin with the same system prompt. Their turns take turns (turn 0 of each, then turn 1 of each), so
    that each finds its history in the cache only if what the others sent did not put it out.
    """

    sessions: Annotated[int, Meta(ge=1, le=10_000, description="how many sessions")] = 8
    turns: Annotated[int, Meta(ge=1, le=10_000, description="turns of each session")] = 12
    system: Annotated[Tokens, Meta(description="size of the system prompt that all sessions share")] = 2_000
    observation: Annotated[Tokens, Meta(description="size of what the session learns before each turn")] = 2_500
    spread: Annotated[
        float, Meta(ge=0, le=0.9, description="each observation is shorter than its size by up to this fraction")
    ] = 0.5
    answers: Annotated[
        Literal["live", "planned"],
        Meta(
            description="what stands in the history as the assistant's turn: the server's own answer, or a planned one"
        ),
    ] = "live"
    think: Annotated[
        Annotated[float, Meta(ge=0, le=86_400, extra={"unit": "seconds"})],
        Meta(description="time between a session's answer and its next turn"),
    ] = 0.0


class Levels(Table, frozen=True, kw_only=True, tag="levels", tag_field="kind"):
    """Distinct generated prompts of one size, so many at once: each step is one batch, sent at one moment.

    The levels take turns and all of them are repeated, so that a machine that slows down slows all of them alike.
    Reports show tokens a second for each level.
    """

    context: Annotated[Tokens, Meta(description="size of each prompt")] = 8_000
    levels: Annotated[
        tuple[Annotated[int, Meta(ge=1, le=10_000)], ...],
        Meta(min_length=1, description="how many prompts leave at once, one batch after the other"),
    ] = (1, 2, 4, 8, 16, 32)
    rounds: Annotated[int, Meta(ge=1, le=1000, description="how often each level is measured")] = 6
    warm_up: Annotated[
        int, Meta(ge=0, le=100, description="rounds before those, which are sent and judged but not measured")
    ] = 1
    spread: Annotated[
        float, Meta(ge=0, le=0.5, description="each prompt is shorter than its size by up to this fraction")
    ] = 0.0
    facts: Annotated[
        bool,
        Meta(
            description="each prompt tells three codes that nobody could guess and asks for one, so that an answer "
            "shows what was lost or came from elsewhere"
        ),
    ] = False


Form = Literal["chat", "text", "ids"]
FORMS: tuple[Form, ...] = ("chat", "text", "ids")
TokenId = Annotated[int, Meta(ge=0, le=10_000_000)]


class Fuzz(Table, frozen=True, kw_only=True, tag="fuzz", tag_field="kind"):
    """Random operations on generated prompts: new, resend, extend, branch, rollback, short, abort and burst.

    A step is one operation. Branch and rollback cut an earlier prompt at a random depth; abort closes the connection at
    a random place; a burst sends several at one moment. The seed decides all of it.
    """

    operations: Annotated[int, Meta(ge=1, le=10_000_000, description="how many operations")] = 300
    shortest: Annotated[Tokens, Meta(description="least size of a new prompt, and of what is added to an old one")] = 16
    longest: Annotated[Tokens, Meta(description="largest size of a prompt")] = 4_000
    edges: Annotated[
        tuple[Tokens, ...],
        Meta(
            min_length=1,
            description="sizes of blocks, chunks and checkpoints: most prompts end and are cut on or beside a multiple",
        ),
    ] = (16, 64, 128, 256, 512, 1_024)
    remembered: Annotated[
        int, Meta(ge=1, le=10_000, description="how many of the last prompts an operation may go back to")
    ] = 32
    burst: Annotated[int, Meta(ge=2, le=1000, description="most prompts of a burst")] = 6
    forms: Annotated[
        tuple[Form, ...],
        Meta(
            min_length=1,
            description="chat: a user message; text and ids: a plain completion's prompt, as text and as token ids. "
            "Those that the server does not take are left out",
        ),
    ] = FORMS
    ids: Annotated[
        tuple[TokenId, TokenId], Meta(description="first and last token id that prompts of ids are made of")
    ] = (300, 2_000)
    facts: Annotated[
        bool,
        Meta(description="text tells three codes that nobody could guess: one that comes up elsewhere has leaked"),
    ] = True

    def __post_init__(self) -> None:
        """Refuse sizes and ids that run backwards."""
        if self.longest < self.shortest:
            raise ValueError(f"longest ({self.longest}) must not be smaller than shortest ({self.shortest})")
        if self.ids[1] < self.ids[0]:
            raise ValueError(f"ids: the last ({self.ids[1]}) must not be smaller than the first ({self.ids[0]})")


class Soak(Table, frozen=True, kw_only=True, tag="soak", tag_field="kind"):
    """One fixed prompt at fixed times (phase `probe`) over a load that never repeats itself for long (phase `load`).

    The load's rate is the schedule's, which must be open. It pauses for each probe, which is asked alone.
    """

    contexts: Annotated[
        tuple[Tokens, ...], Meta(min_length=1, description="sizes of the load's prompts, taken in turn")
    ] = (500, 2_000)
    spread: Annotated[
        float, Meta(ge=0, le=0.9, description="each of them is shorter than its size by up to this fraction")
    ] = 0.5
    again: Annotated[
        float, Meta(ge=0, le=1, description="share of the load that was sent a short while ago and is sent again")
    ] = 0.25
    probe: Annotated[Tokens, Meta(description="size of the fixed prompt")] = 1_000
    probe_every: Annotated[Seconds, Meta(description="time between two probes")] = 60.0
    facts: Annotated[
        bool,
        Meta(
            description="each prompt tells three codes that nobody could guess and asks for one, so that an answer "
            "shows what was lost or came from elsewhere"
        ),
    ] = True


Share = Annotated[float, Meta(gt=0, le=100)]


class Pool(Table, frozen=True, kw_only=True, tag="pool", tag_field="kind"):
    """Groups of prompts sized as shares of the KV pool; the prompts of a group leave at one moment."""

    groups: Annotated[
        tuple[tuple[Share, ...], ...],
        Meta(min_length=1, description="shares of the pool, group by group; an empty group is its innocents alone"),
    ]
    rounds: Annotated[int, Meta(ge=1, le=100_000, description="how often all groups are sent")] = 1
    innocents: Annotated[
        int, Meta(ge=0, le=1000, description="short prompts that leave beside each group but those of a single prompt")
    ] = 0
    output: Annotated[
        float,
        Meta(
            ge=0, le=100, description="share of the pool that each large prompt may answer; 0: the phase's max_tokens"
        ),
    ] = 0.0
    capacity: Annotated[
        Tokens | None, Meta(description="tokens of the pool, where the server does not tell or tells wrongly")
    ] = None

    def __post_init__(self) -> None:
        """Refuse a group in which nothing is sent."""
        if not self.innocents and not all(self.groups):
            raise ValueError("an empty group needs innocents: it would send nothing")


class Trace(Table, frozen=True, kw_only=True, tag="trace", tag_field="kind"):
    """The turns of an imported trace (`kvstress workloads import`): sessions, times and lengths as they were.

    The file lies beside the workload, or in the `--data` directory.
    """

    file: Annotated[str, Meta(min_length=1, max_length=255, description="the normalised trace's file name")]
    sha256: Annotated[
        str, Meta(pattern="^([0-9a-f]{64})?\\Z", description="digest of that file; empty takes any file of that name")
    ] = ""
    format: Annotated[str, Meta(max_length=40, description="the format that it was imported from")] = "unknown"
    speed: Annotated[
        float, Meta(gt=0, le=1_000_000, description="how much faster than in the trace times pass; 2 halves them")
    ] = 1.0


class Residue(Table, frozen=True, kw_only=True, tag="residue", tag_field="kind"):
    """Prompts exact to the token, whose last block is filled to 0, 1, 2, 4, B/4, B/2, B − 2 and B − 1 of B tokens.

    Each of these comes after each, in one circuit for each number of blocks. What each prompt costs is counted by the
    server before the traffic (`--sizing FILE` keeps the counts).
    """

    block: Annotated[
        Annotated[int, Meta(ge=4, le=65_536)] | None,
        Meta(description="tokens of a block; where absent, as the server's `cached_tokens` tell it, else 128"),
    ] = None
    blocks: Annotated[
        tuple[Annotated[int, Meta(ge=0, le=10_000)], ...],
        Meta(min_length=1, description="blocks beyond the shortest prompt that holds its facts, one circuit for each"),
    ] = (1, 2, 3)
    edges: Annotated[
        tuple[Tokens, ...],
        Meta(description="further lengths (a window's, a chunk's, the pool's): each less one, itself and one more"),
    ] = ()
    facts: Annotated[
        bool,
        Meta(
            description="each prompt tells three codes that nobody could guess and asks for one, so that an answer "
            "shows what was lost or came from elsewhere"
        ),
    ] = True


Source = SpeedBench | Ramp | Rounds | Agents | Levels | Fuzz | Soak | Pool | Trace | Residue
