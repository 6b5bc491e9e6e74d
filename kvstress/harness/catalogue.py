"""Looking at workloads without a server: what there is, what one would send, whether a file is right."""

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from kvstress.core.plan import Plan, Step
from kvstress.core.sizing import ASSUMED
from kvstress.core.words import cap
from kvstress.gate.sentence import of_workload
from kvstress.harness import inputs
from kvstress.workload import build
from kvstress.workload.format import FORMS
from kvstress.workload.spec import parse


def shipped() -> list[tuple[str, str]]:
    """Name and hunted bug of each shipped workload, by name."""
    return [(name, parse(*inputs.workload_text(name)).hunts) for name in sorted(inputs.shipped_workloads())]


def check(name: str) -> str:
    """A sentence about a valid workload. Raises UsageError naming the mistake in an invalid one."""
    of_workload(parse(*inputs.workload_text(name)).gate)
    plan = _plan(name, seed=0)
    length = "no fixed number of" if plan.total_steps is None else str(plan.total_steps)
    return f"ok, {length} steps of {' then '.join(plan.phases)}"


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
