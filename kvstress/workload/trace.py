"""An imported trace, turn by turn: text where the trace has it, else text made of its block hashes.

Equal hashes give equal text in every process, so that what shared a prefix in the trace shares one here; an answer that
the trace did not record is the live server's own.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from kvstress.core.errors import UsageError
from kvstress.core.plan import Answer
from kvstress.core.sizing import Sizing
from kvstress.core.turn import Turn
from kvstress.workload import text
from kvstress.workload.body import user
from kvstress.workload.format import Phase
from kvstress.workload.prompt import Content, Prompt
from kvstress.workload.sources import Trace

Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFile:
    """A normalised trace: `lines()` starts anew at each call; `sha256` and `rows` are over the whole file."""

    name: str
    sha256: str
    rows: int
    lines: Callable[[], Iterator[bytes]]


def trace(source: Trace, last: Phase, file: object, key: str, sizing: Sizing) -> Content:
    """The turns of `file` (a TraceFile, else there is none yet) as prompts.

    Raises UsageError when it is not the file that the workload was made with.
    """
    if not isinstance(file, TraceFile):
        return Content(prompts=lambda: _none(source), total=None, sentence=f"requests of the trace {source.file}")
    if source.sha256 and file.sha256 != source.sha256:
        raise UsageError(
            f"{file.name} is not the file that this workload was made with (sha256 {file.sha256[:12]}…, expected "
            f"{source.sha256[:12]}…): import the trace again"
        )
    return Content(
        prompts=lambda: _prompts(source, last.names()[-1], file, key, sizing),
        total=file.rows,
        sentence=f"{file.rows} requests of the trace {source.file} ({source.format})",
        sources=({"file": source.file, "sha256": file.sha256, "rows": str(file.rows)},),
    )


def _none(source: Trace) -> Iterator[Prompt]:
    raise UsageError(f"the trace {source.file} is not there: name its directory with --data")


class _Named(msgspec.Struct, frozen=True):
    """As much of a turn as tells whose it is."""

    session: str


@dataclass(slots=True)
class _Session:
    """The history so far, and the step whose answer is missing from it."""

    history: tuple[Mapping[str, Any], ...] = ()
    step: int | None = None


def _prompts(source: Trace, phase: str, file: TraceFile, key: str, sizing: Sizing) -> Iterator[Prompt]:
    sessions: dict[str, _Session] = {}
    last = {turn.session: number for number, turn in _read(file, _Named)}
    for number, turn in _read(file, Turn):
        if turn.messages:
            said = _Session() if turn.turn == 0 else sessions.get(turn.session, _Session())
            # A history is held from a session's first turn to its last: all of them together may not fit in memory.
            sessions[turn.session] = said
            if last[turn.session] == number:
                del sessions[turn.session]
            said.history = (*said.history, *_answer(said, turn, phase), *turn.messages)
            said.step = number
            messages = said.history
        else:
            messages = user(_text(turn, key, number, sizing))
        yield Prompt(
            label=f"t{turn.turn}",
            messages=messages,
            recipe=f"trace {source.file} row {number + 1}",
            max_tokens=turn.max_tokens,
            session=turn.session,
            turn=turn.turn,
            think=turn.think / source.speed,
            due=None if turn.at is None else turn.at / source.speed,
            asked=turn.asked,
        )


def _read(file: TraceFile, kind: type[Kind]) -> Iterator[tuple[int, Kind]]:
    """Each line as a `kind`, with its place from 0. Raises UsageError at a line that is none."""
    for number, line in enumerate(file.lines()):
        try:
            yield number, msgspec.json.decode(line, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
            raise UsageError(f"{file.name} line {number + 1}: no turn of an imported trace ({problem})") from problem


def _answer(said: _Session, turn: Turn, phase: str) -> tuple[Mapping[str, Any], ...]:
    """The live answer to the session's last turn, where the trace did not record one."""
    if said.step is None or turn.messages[0].get("role") in ("assistant", "tool"):
        return ()
    return ({"role": "assistant", "content": Answer(step=said.step, phase=phase)},)


def _text(turn: Turn, key: str, number: int, sizing: Sizing) -> str:
    """Text of about `turn.tokens` tokens, block by block; what no block covers is this row's own."""
    wanted = turn.tokens or turn.block * len(turn.blocks)
    whole = [(f"trace/{turn.scope}/{block}", turn.block) for block in turn.blocks]
    covered = turn.block * len(whole)
    if covered > wanted and whole:
        whole[-1] = (whole[-1][0], max(1, turn.block - (covered - wanted)))
    elif covered < wanted:
        whole.append((f"{key}/{number}", wanted - covered))
    return "".join(text.program(name, max(1, round(tokens / sizing.per_unit))) for name, tokens in whole)
