"""Agent sessions: a shared system prompt, and a history that grows by answers and long observations.

This is the traffic that prefix caches are for: each turn's prompt is the last one, its answer and something new, so
nearly all of it should be a hit, on pages that a long session keeps half filled while others come and go.
An answer is quoted as the server gave it (a hole that the live transcript fills) or as planned; planned ones
keep two servers' prompts equal, live ones are what agents do.
"""

from collections.abc import Iterator
from typing import Any

from kvstress.core.plan import Answer
from kvstress.core.sizing import Sizing
from kvstress.workload import draws, text
from kvstress.workload.format import Phase
from kvstress.workload.prompt import Content, Prompt, label
from kvstress.workload.sources import Agents

_ROLE = "You repair programs. Read what the tool returned and say the next call.\n"
_TOOL = "The tool returned:\n"
_PLANNED_UNITS = 24


def agents(source: Agents, last: Phase, key: str, sizing: Sizing) -> Content:
    """The sessions' turns, interleaved; `last` is the phase whose answer becomes the assistant's turn."""
    return Content(
        prompts=lambda: _turns(source, last.names()[-1], key, sizing),
        total=source.sessions * source.turns,
        sentence=f"generated agent sessions: {source.sessions} of {source.turns} turns, {source.answers} answers, a "
        f"shared system prompt of {label(source.system)} tokens, observations of up to {label(source.observation)}",
    )


def _turns(source: Agents, phase: str, key: str, sizing: Sizing) -> Iterator[Prompt]:
    for turn in range(source.turns):
        for session in range(source.sessions):
            yield Prompt(
                label=f"t{turn}",
                messages=tuple(_history(source, phase, key, sizing, session, turn)),
                recipe=f"agents {key}/{session} turn={turn} answers={source.answers}",
                session=f"{session}",
                turn=turn,
                think=source.think if turn else 0.0,
            )


def _history(source: Agents, phase: str, key: str, sizing: Sizing, session: int, turn: int) -> Iterator[dict[str, Any]]:
    """All messages up to this turn's observation."""
    yield {"role": "system", "content": _ROLE + text.program(f"{key}/system", sizing.units(source.system))}
    for past in range(turn):
        yield {"role": "user", "content": _observation(source, key, sizing, session, past)}
        yield {"role": "assistant", "content": _answer(source, phase, key, session, past)}
    yield {"role": "user", "content": _observation(source, key, sizing, session, turn)}


def _observation(source: Agents, key: str, sizing: Sizing, session: int, turn: int) -> str:
    name = f"{key}/{session}/{turn}"
    tokens = source.observation - round(source.observation * source.spread * draws.fraction(f"{name}/length"))
    return f"session {session}, call {turn}. {_TOOL}{text.program(name, sizing.units(tokens))}{text.QUESTION}"


def _answer(source: Agents, phase: str, key: str, session: int, turn: int) -> str | Answer:
    if source.answers == "live":
        return Answer(step=turn * source.sessions + session, phase=phase)
    return text.program(f"{key}/{session}/{turn}/answer", _PLANNED_UNITS)
