"""Makes a plan of a workload: every request of every step, generated when it is asked for.

A plan is a function of the workload, the seed, the data and the sizing, and of nothing else; the
digest leaves the sizing out, because two servers that count tokens differently are still given the
same workload.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from kvstress.core.plan import Expect, Limits, Plan, Request, Schedule, Step
from kvstress.core.sizing import Sizing
from kvstress.workload import asking, body
from kvstress.workload.content import Data, content, stems
from kvstress.workload.format import Phase, Spec
from kvstress.workload.pacing import dues
from kvstress.workload.prompt import Content, Prompt
from kvstress.workload.sources import Soak
from kvstress.workload.spec import builtins

# What decides which bytes are sent and when; a cap or an oracle more leaves two runs comparable.
TRAFFIC = ("source", "phases", "schedule", "sampling", "stream")


def data_stems(spec: Spec) -> tuple[str, ...]:
    """Names, without their endings, of the data files that the workload can read ("throughput_16k")."""
    return stems(spec)


def plan(
    spec: Spec,
    *,
    seed: int,
    model: str | None,
    stream: bool | None,
    sizing: Sizing,
    data: Data | None,
) -> Plan:
    """The plan of `spec`. `stream` None means the workload's own; `data` maps stems to files, None generates prompts.

    Raises UsageError when `data` lacks a file that the workload reads, or holds rows that cannot be sent.
    """
    streamed = spec.stream if stream is None else stream
    found = content(spec, seed, sizing, data)
    parameters = {**builtins(spec), "stream": streamed}
    return Plan(
        workload=spec.name,
        hunts=spec.hunts,
        seed=seed,
        parameters=parameters,
        traffic={key: parameters[key] for key in TRAFFIC},
        schedule=Schedule(kind="closed" if spec.schedule.kind == "closed" else "open", lanes=spec.schedule.lanes),
        limits=Limits(max_steps=spec.stop.max_steps, max_duration=spec.stop.max_duration),
        phases=spec.phase_names(),
        total_steps=found.total,
        content=found.sentence,
        stand_in=found.stand_in,
        coverage=spec.coverage.keys,
        oracles=spec.oracles.arm,
        aside_when=spec.aside.when,
        steps=lambda: _due(_steps(spec, found, model, streamed), spec, seed, sizing),
        sources=found.sources,
    )


def _due(steps: Iterator[Step], spec: Spec, seed: int, sizing: Sizing) -> Iterator[Step]:
    """`steps` with the times at which an open loop sends them, where their source did not say."""
    schedule = spec.schedule
    if schedule.kind == "open" and not isinstance(spec.source, Soak):
        drawn = dues(schedule, f"{spec.name}/{seed}", sizing.alone)
        yield from (replace(step, due=due) for step, due in zip(steps, drawn, strict=False))
    else:
        yield from steps


def _steps(spec: Spec, found: Content, model: str | None, stream: bool) -> Iterator[Step]:
    sampling: dict[str, Any] = {
        "temperature": spec.sampling.temperature,
        "top_p": spec.sampling.top_p,
        "seed": spec.sampling.seed,
        "logprobs": spec.sampling.logprobs,
    }
    common = {"model": model, "stream": stream, **sampling}
    for index, prompt in enumerate(found.prompts()):
        phases = (phase for phase in spec.phases if prompt.phase in (None, phase.name))
        sends = ((phase, name, place) for phase in phases for place, name in enumerate(phase.names()))
        requests = tuple(
            replace(one, id=f"{one.id}-{copy}", beside=True) if copy else one
            for phase, name, place in sends
            for copy, beside in enumerate((prompt, *prompt.beside))
            for one in (_request(index, beside, phase, name, place, common),)
        )
        yield Step(
            index=index,
            label=prompt.label,
            requests=requests,
            session=prompt.session,
            think=prompt.think,
            due=prompt.due,
            barrier=prompt.barrier,
        )


def _request(index: int, prompt: Prompt, phase: Phase, name: str, place: int, common: Mapping[str, Any]) -> Request:
    streams = phase.stream if prompt.stream is None else prompt.stream
    asked = {**common, "max_tokens": prompt.max_tokens or phase.max_tokens}
    asked |= {} if streams is None else {"stream": streams}
    own = asking.shape(phase) | dict(prompt.asked)
    made = body.chat(prompt.messages, **asked) if prompt.raw is None else body.completion(prompt.raw, **asked)
    return Request(
        id=f"s{index}.{name}",
        step=index,
        phase=name,
        endpoint=body.CHAT if prompt.raw is None else body.COMPLETIONS,
        body=made | own,
        cancel=prompt.cancel or asking.cancel(phase),
        expect=prompt.expect or Expect(phase.expect),
        recipe=prompt.recipe,
        tokens=prompt.tokens,
        session=prompt.session,
        turn=prompt.turn,
        beside=phase.together and place > 0,
    )
