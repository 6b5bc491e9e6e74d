"""Requests beside the traffic: what oracles need to know that no step can tell.

Which of them a workload permits is decided here, from its file alone; the harness sends them. None is sent before the
last step has ended unless the workload says so, because any request takes pages and slots and would change what
comes after it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from kvstress.core import cold
from kvstress.core.plan import Answer, Expect, Origin, Plan, Request, Step
from kvstress.core.sizing import Sizing
from kvstress.workload import body, text
from kvstress.workload.format import Spec
from kvstress.workload.markers import facts
from kvstress.workload.sources import Fuzz, Soak

# Of the pool: enough that a leak of a few prompts shows, and room for what a server keeps beside the prompt.
_MOST_OF_IT = 0.9
_SPARE = 64
# Tokens of the prompt that finds out what makes an answer cold, at most: blocks of hybrid models hold up to 832.
_PROBE = 2_000
# Steps whose answers are still held for a comparison when the traffic is over, about.
_HELD = 100
# What `--twin` compares where the workload does not say.
_TWINS = 8


def health_rounds(spec: Spec, most: int) -> int:
    """How often the health probe may be asked: as often as asides are allowed, `most` at most."""
    return min(most, spec.aside.max_requests) if spec.aside.when != "never" else 0


def health(model: str | None, number: int) -> Request:
    """A short generation: a failed step alone does not say whether one request failed or the server died."""
    return Request(
        id="aside.health" + (f".{number}" if number else ""),
        step=None,
        phase="health",
        origin=Origin.ASIDE,
        body=body.chat(body.user("Say yes."), model=model, max_tokens=1, temperature=0.0),
        recipe="health probe: one short prompt, one token",
    )


def form(model: str | None, source: Fuzz, name: str) -> Request:
    """A plain completion of one token, whose prompt is a short text or a few token ids: is this form taken?"""
    prompt = tuple(range(source.ids[0], source.ids[0] + 8)) if name == "ids" else "One, two, three,"
    return Request(
        id=f"aside.form.{name}",
        step=None,
        phase=f"form-{name}",
        origin=Origin.ASIDE,
        endpoint=body.COMPLETIONS,
        body=body.completion(prompt, model=model, max_tokens=1, temperature=0.0),
        expect=Expect.ANSWER_OR_REFUSAL,
        recipe=f"a short prompt as {name}",
    )


def alone(model: str | None, spec: Spec, source: Soak, seed: int, sizing: Sizing, number: int) -> Request:
    """A request as long as the load's are on average, asked before the traffic: how long does one take alone?"""
    tokens = round(sum(source.contexts) / len(source.contexts) * (1 - source.spread / 2))
    key, units = f"{spec.name}/{seed}/alone/{number}", sizing.units(tokens)
    load = next(phase for phase in spec.phases if phase.name == "load")
    return Request(
        id=f"aside.alone.{number}",
        step=None,
        phase="alone",
        origin=Origin.ASIDE,
        body=body.chat(
            body.user(text.prompt(key, f"!{number}", units)),
            model=model,
            max_tokens=load.max_tokens,
            temperature=spec.sampling.temperature,
            stream=spec.stream,
        ),
        expect=Expect.ANSWER_OR_REFUSAL,
        recipe=f"generated text {key} units={units}",
    )


def capacity(
    model: str | None, spec: Spec, seed: int, sizing: Sizing, *, pool: float | None, context: int | None
) -> Request | None:
    """A prompt of nine tenths of the `pool` (tokens), or None where that is unknown or longer than the `context`."""
    if not spec.aside.capacity or spec.aside.when == "never" or pool is None or sizing.how == "assumed":
        return None
    tokens = int(pool * _MOST_OF_IT)
    if tokens < _SPARE or (context is not None and tokens > context - _SPARE):
        return None
    units, key = sizing.units(tokens), f"{spec.name}/{seed}/capacity"
    # Sizing counted the codes where prompts carry them: without them this one would be shorter than planned.
    prompt = text.prompt(key, "?", units, facts(key, 0) if getattr(spec.source, "facts", False) else None)
    return Request(
        id="aside.capacity",
        step=None,
        phase="capacity",
        origin=Origin.ASIDE,
        body=body.chat(body.user(prompt), model=model, max_tokens=1, temperature=0.0),
        recipe=f"generated text {key} units={units}",
        tokens=tokens,
    )


def probe_tokens(steps: Iterable[Step]) -> int:
    """How long a prompt must be to hit on this server: as long as the first step's, within bounds."""
    first = next(iter(steps), None)
    sizes = [request.tokens for request in first.requests if request.tokens] if first else []
    return min(_PROBE, max(sizes, default=_PROBE))


def probe(model: str | None, plan: Plan, sizing: Sizing, length: int, number: int, how: str) -> Request:
    """A prompt of `length` tokens, always the same, sent to see whether `how` ("" for a plain send) makes it cold.

    It tells no codes, which sizing may have counted, so it plans no exact size.
    """
    key, units = f"{plan.workload}/{plan.seed}/cold", sizing.units(length)
    asked = body.chat(body.user(text.prompt(key, "!", units)), model=model, max_tokens=1, temperature=0.0)
    return Request(
        id=f"aside.cold.probe.{number}",
        step=None,
        phase=cold.PROBE,
        origin=Origin.ASIDE,
        body=cold.without_cache(asked, how, f"kvstress-{number}"),
        expect=Expect.ANSWER_OR_REFUSAL,
        recipe=f"generated text {key} units={units}",
    )


def cold_count(spec: Spec, *, twin: bool) -> int:
    """How many prompts are asked again cold after the traffic."""
    wanted = spec.aside.cold or (_TWINS if twin else 0)
    return 0 if spec.aside.when == "never" else wanted


def cold_twins(
    steps: Iterable[Step], done: int, count: int, calibrate: int, how: str, model: str | None
) -> Iterator[Request]:
    """The last greedy request of `count` of the last steps (`done` have ended), spread evenly, as asides asked cold.

    `model` replaces the body's where the twin calls it by another name. The first is asked `calibrate` times: what
    cold answers to one prompt differ in is noise.
    """
    every, held = max(1, min(done, _HELD) // max(1, count)), max(0, done - _HELD)
    asked = 0
    for step in steps:
        if step.index >= done or asked >= count:
            return
        last = next((one for one in reversed(step.requests) if comparable(one)), None)
        if last is None or step.index < held or (step.index - held) % every:
            continue
        asked += 1
        for again in range(calibrate if asked == 1 else 1):
            yield _cold(last, how, model, again)


def comparable(request: Request) -> bool:
    """Can a cold answer to this request be held against the one that it got?"""
    wanted = request.body.get("temperature") == 0 and request.cancel is None and request.expect is Expect.ANSWER
    return wanted and not _holes(request.body)


def _holes(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_holes, value.values()))
    return any(map(_holes, value)) if isinstance(value, list | tuple) else isinstance(value, Answer)


def of_twin(request: Request, how: str, model: str | None, again: int) -> Request:
    """`request` as it is asked of a twin that saw the same prompts: `how` makes its answer cold."""
    asked = _cold(request, cold.TWIN, model, again)
    return replace(asked, body=cold.without_cache(dict(asked.body), how, f"kvstress-{asked.id}"))


def _cold(request: Request, how: str, model: str | None, again: int) -> Request:
    changed = {**request.body, **({"model": model} if model else {})}
    name = f"aside.cold.{request.id}" + (f".{again}" if again else "")
    return replace(
        request,
        id=name,
        step=None,
        phase=f"{cold.PHASE}{how}",
        origin=Origin.ASIDE,
        body=cold.without_cache(changed, how, f"kvstress-{name}"),
        beside=False,
        delay=0.0,
    )
