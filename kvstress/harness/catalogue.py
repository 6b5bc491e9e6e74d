"""Looking at workloads without a server: what there is, what one would send, whether a file is right."""

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import msgspec

from kvstress.core.errors import UsageError
from kvstress.core.plan import Plan, Step
from kvstress.core.sizing import ASSUMED
from kvstress.core.words import cap
from kvstress.gate.sentence import of_workload
from kvstress.harness import inputs
from kvstress.workload import build
from kvstress.workload.sources import FORMS
from kvstress.workload.spec import builtins, parse


def shipped() -> list[dict[str, Any]]:
    """What `facts` says of each shipped workload, by name."""
    return [facts(name) for name in sorted(inputs.shipped_workloads())]


def facts(name: str) -> dict[str, Any]:
    """A valid workload in a few JSON values; `steps` is None where it has no end. UsageError names a mistake."""
    of_workload(parse(*inputs.workload_text(name)).gate)
    plan = _plan(name, seed=0)
    return {
        "name": plan.workload,
        "hunts": plan.hunts,
        "content": plan.content,
        "phases": list(plan.phases),
        "steps": plan.total_steps,
        "coverage": list(plan.coverage),
        "oracles": list(plan.oracles),
        "digest": plan.digest(),
    }


def check(name: str) -> str:
    """A sentence about a valid workload. Raises UsageError naming the mistake in an invalid one."""
    told = facts(name)
    length = "no fixed number of" if told["steps"] is None else str(told["steps"])
    return f"ok, {length} steps of {' then '.join(told['phases'])}"


def checked(names: list[str]) -> list[dict[str, Any]]:
    """Of each name `ok`, and the facts of a valid workload or the `problem` of another."""
    found: list[dict[str, Any]] = []
    for name in names:
        try:
            found.append({"file": name, "ok": True, **facts(name)})
        except UsageError as problem:
            found.append({"file": name, "ok": False, "problem": str(problem)})
    return found


def whole(name: str, *, steps: int, seed: int) -> dict[str, Any]:
    """The workload with every default spelt out, and its first `steps` steps with whole bodies (sizes are assumed)."""
    plan = _plan(name, seed)
    return {
        "workload": builtins(parse(*inputs.workload_text(name))),
        "digest": plan.digest(),
        "steps": [msgspec.to_builtins(step) for step in islice(plan.steps(), steps)],
    }


def preview(name: str, *, steps: int, seed: int) -> Iterator[str]:
    """The file's text, then `steps` steps with their request bodies (prompts capped; sizes assumed, not measured)."""
    yield inputs.workload_text(name)[0].rstrip()
    plan = _plan(name, seed)
    for step in islice(plan.steps(), steps):
        yield from _shown(step)


def _plan(name: str, seed: int) -> Plan:
    spec = parse(*inputs.workload_text(name))
    return build.plan(spec, seed=seed, model="MODEL", stream=None, sizing=replace(ASSUMED, forms=FORMS), data=None)


def _shown(step: Step) -> Iterator[str]:
    for request in step.requests:
        body = json.dumps(request.body, default=str, ensure_ascii=False)
        yield f"step {step.index} {step.label} {request.phase}: POST {request.endpoint} {cap(body, 400)}"
