"""From a case to a run: its texts filled in, its steps numbered anew, and nothing sent that is not part of it.

No sizing, no asides (unless the failure was only seen after the traffic): every request takes pages and slots, and a
stand-alone script must be able to send exactly the same.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from kvstress.core.case import Case, Piece, Text, mapped, pieces
from kvstress.core.errors import CannotJudgeError
from kvstress.core.markers import SLOTS, Markers
from kvstress.core.plan import Limits, Plan, Request, Step
from kvstress.core.repro import Facts
from kvstress.harness.options import RunOptions
from kvstress.harness.prepare import Prepared
from kvstress.oracles.foreign import numbers
from kvstress.workload import text
from kvstress.workload.spec import Spec, restore

_ASKS = re.compile(r"\basks=(\d+)")
_LEAST = {
    "name": "replay",
    "hunts": "what failed before",
    "source": {"kind": "ramp", "start": 1000, "end": 2000},
    "phases": [{"name": "send", "max_tokens": 1}],
}


def words(one: Text) -> str:
    """The text itself."""
    return text.prompt(one.key, one.mark, one.units) if one.words is None else one.words


def digest(text: str) -> str:
    """Names a text in `Facts.planned`: one that was made shorter has no planned size any more."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def prepared(case: Case, facts: Facts, options: RunOptions, path: Path, *, pages: bool, command: str) -> Prepared:
    """A run of `case` in `path`. CannotJudgeError when one of its texts was withheld."""
    missing = [name for name in sorted({n for r in case.requests for n in pieces(r.body)}) if name not in case.texts]
    if missing:
        raise CannotJudgeError(
            f"the reproducer lacks the text {missing[0]}, which is private and was left out: shrink with --keep-text"
        )
    steps = _numbered(case, facts.planned, Markers(f"{facts.workload}/{facts.seed}"))
    return Prepared(
        options=replace(options, out=path, overwrite=True, asides=facts.aside is not None, workload=facts.workload),
        spec=_spec(facts),
        data=None,
        plan=_plan(case, facts, steps, None),
        path=path,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        fixed=lambda model: _plan(case, facts, steps, model),
        sends_done=facts.sends_done,
        pages=pages,
        command=command,
    )


def _spec(facts: Facts) -> Spec:
    """What the asides after the traffic need of a workload."""
    aside: dict[str, Any] = {} if facts.aside is None else {"aside": dict(facts.aside)}
    return restore({**_LEAST, **aside})


def _plan(case: Case, facts: Facts, steps: tuple[Step, ...], model: str | None) -> Plan:
    phases = tuple(dict.fromkeys(request.phase for step in steps for request in step.requests))
    streams = any(request.body.get("stream") for request in case.requests)
    traffic = {"case": case.digest(), "stream": streams}
    return Plan(
        workload=facts.workload,
        hunts=facts.hunts,
        seed=facts.seed,
        parameters=traffic,
        traffic=traffic,
        schedule=case.schedule,
        limits=Limits(),
        phases=phases,
        total_steps=len(steps),
        content=f"a reproducer: {case.size()}, cut from {facts.content}",
        stand_in=False,
        coverage=(),
        oracles=facts.oracles,
        aside_when="never" if facts.aside is None else "after",
        steps=lambda: iter(tuple(_for_model(step, model) for step in steps)),
    )


def _numbered(case: Case, planned: Mapping[str, int], markers: Markers) -> tuple[Step, ...]:
    """The steps as they are sent, numbered from 0."""
    whole = {name: words(one) for name, one in case.used().items()}
    return tuple(
        replace(
            step,
            index=index,
            requests=tuple(_filled(index, request, case, whole, planned, markers) for request in step.requests),
        )
        for index, step in enumerate(case.steps)
    )


def _filled(
    index: int,
    request: Request,
    case: Case,
    whole: Mapping[str, str],
    planned: Mapping[str, int],
    markers: Markers,
) -> Request:
    body = mapped(request.body, lambda value: whole[value.name] if isinstance(value, Piece) else value)
    names = tuple(pieces(request.body))
    made = [case.texts[name] for name in names]
    return replace(
        request,
        id=_renamed(request.id, index),
        step=index,
        body=body,
        recipe=_recipe(made, body) + told(request.recipe, _prompt(body), markers),
        tokens=planned.get(digest(whole[names[0]])) if len(names) == 1 else None,
    )


def _recipe(made: list[Text], body: Mapping[str, Any]) -> str:
    """What tells this prompt from every other: oracles compare the answers to prompts of one recipe."""
    if made and all(one.words is None for one in made):
        return "; ".join(f"generated text {one.key} units={one.units}" for one in made)
    return f"as sent {sha256(_prompt(body).encode()).hexdigest()[:16]}"


def _prompt(body: Mapping[str, Any]) -> str:
    return json.dumps([body.get("messages"), body.get("prompt")], default=str)


def told(recipe: str, prompt: str, markers: Markers) -> str:
    """The words of `recipe` that say whose codes `prompt` tells and which it asks for, as far as it still does.

    Without them an answer that repeats its own code would count as one that holds another's.
    """
    before = numbers(recipe)
    held = [number for number in before if any(markers.marker(number, slot) in prompt for slot in range(SLOTS))]
    asks = _ASKS.search(recipe) if held[-1:] == list(before[-1:]) else None
    words = f" markers={','.join(map(str, held))}" if held else ""
    if asks and markers.marker(held[-1], int(asks[1])) in prompt:
        words += f" {asks[0]}"
    return words


def _renamed(name: str, index: int) -> str:
    """`s14.warm` as `s3.warm`; a request of no step keeps its own name behind the step's."""
    own = name.rpartition(".")[2] if name.startswith("s") and name.partition(".")[0][1:].isdecimal() else name
    return f"s{index}.{own}"


def _for_model(step: Step, model: str | None) -> Step:
    """The step as this server is asked: a model is named where one was."""
    requests = (
        replace(request, body={**request.body, "model": model}) if model and "model" in request.body else request
        for request in step.requests
    )
    return replace(step, requests=tuple(requests))
