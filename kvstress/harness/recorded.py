"""From a stored run to the case that is shrunk: the requests up to the first failure, byte for byte as they were sent.

A run stores no bodies unless it was told to, because recipe, seed and sizing rebuild them; the digest that it does
store proves that what was rebuilt is what was sent. What cannot be proven is not guessed: the prompt is then missing.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import takewhile
from pathlib import Path
from typing import Any

from kvstress.client.wire import encode
from kvstress.core.case import Case, Piece, Text, mapped, pieces
from kvstress.core.cold import is_at_twin
from kvstress.core.errors import CannotJudgeError, UsageError
from kvstress.core.events import PageRead, RequestSent, RunEnded
from kvstress.core.exchange import Exchange
from kvstress.core.manifest import Manifest
from kvstress.core.plan import Origin, Plan, Request, Schedule, Step, resolve
from kvstress.core.repro import Failure
from kvstress.core.sample import Sample
from kvstress.core.sizing import ASSUMED
from kvstress.core.verdict import Finding, Verdict
from kvstress.harness import inputs
from kvstress.harness.replayed import digest, words
from kvstress.oracles.judge import Judge
from kvstress.store import bodies
from kvstress.store.rundir import read_events, read_manifest
from kvstress.workload import build, sizing, text
from kvstress.workload.spec import restore

SIZING_STEP = -1
# A shorter text is part of the question and not of the bulk.
_LEAST_CHARACTERS = 24
_RECIPE = re.compile(r"generated text (\S+) units=(\d+)")
_SIZING = re.compile(r"sizing text seed=(\d+) number=(\d+) units=(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A failed run, ready to be shrunk. `private` is true when its texts came from somebody's data files.

    `tokens` says how many prompt tokens the server counted for a text, where it was the whole prompt; `planned` what
    the plan meant it to have, by the text's digest. `twin`: a second process was asked as well. `after`:
    the failure was only seen when the traffic was over.
    """

    manifest: Manifest
    case: Case
    failure: Failure
    private: bool
    twin: bool
    after: bool
    tokens: Mapping[str, int]
    planned: Mapping[str, int]


def recorded(run: Path, data: Path | None) -> Recorded:
    """Read the failed run at `run`. UsageError when it did not fail, CannotJudgeError when a text is missing."""
    manifest = read_manifest(run)
    sent, answers, finding, twin, after = _up_to_failure(run, manifest)
    failure = Failure(
        signature=finding.signature,
        oracle=finding.oracle,
        summary=finding.summary,
        phase=finding.phase,
        words=next((a.server_words for name in finding.evidence if (a := answers.get(name))), None),
    )
    steps = tuple(_steps(run, manifest, sent, answers, data))
    case = interned(steps, Schedule(kind=_schedule(manifest), lanes=manifest.lanes))
    failing = finding.step if any(step.index == finding.step for step in steps) else None
    return Recorded(
        manifest=manifest,
        case=replace(case, failing=failing),
        failure=failure,
        private=bool(manifest.sources),
        twin=twin,
        after=after,
        tokens=_counted(case, answers),
        planned=_planned_sizes(case, sent),
    )


def _counted(case: Case, answers: Mapping[str, Exchange]) -> dict[str, int]:
    counted: dict[str, int] = {}
    for request in case.requests:
        names, usage = tuple(pieces(request.body)), answers[request.id].usage if request.id in answers else None
        if len(names) == 1 and usage is not None and usage.prompt_tokens is not None:
            counted.setdefault(names[0], usage.prompt_tokens)
    return counted


def _planned_sizes(case: Case, sent: list[RequestSent]) -> dict[str, int]:
    """Planned tokens by text: an oracle that holds the server's count against the plan needs them in a replay too."""
    sizes = {event.request: event.tokens for event in sent}
    alone = ((tuple(pieces(request.body)), sizes.get(request.id)) for request in case.requests)
    return {
        digest(words(case.texts[names[0]])): tokens for names, tokens in alone if len(names) == 1 and tokens is not None
    }


def _schedule(manifest: Manifest) -> str:
    schedule = manifest.parameters.get("schedule")
    return str(schedule.get("kind", "closed")) if isinstance(schedule, Mapping) else "closed"


def _up_to_failure(run: Path, manifest: Manifest) -> tuple[list[RequestSent], dict[str, Exchange], Finding, bool, bool]:
    """What was sent until the first failure was seen, the answers by request, that failure; and `twin` and `after`."""
    judge = Judge(manifest)
    sent: list[RequestSent] = []
    answers: dict[str, Exchange] = {}
    twin = after = False
    for event in read_events(run):
        findings = judge.see(event)
        after = after or isinstance(event, RunEnded | PageRead) or (isinstance(event, Sample) and event.why == "end")
        if isinstance(event, RequestSent) and event.origin is not Origin.ASIDE:
            sent.append(event)
        elif isinstance(event, RequestSent):
            twin = twin or is_at_twin(event.endpoint)
        elif isinstance(event, Exchange):
            answers[event.request] = event
        failed = next((finding for finding in findings if finding.verdict is Verdict.FAIL), None)
        if failed is not None:
            return sent, answers, failed, twin, after
    verdict = judge.judgement().verdict.name
    raise UsageError(f"{run} did not fail (its verdict is {verdict}): there is nothing to shrink")


def _steps(
    run: Path, manifest: Manifest, sent: list[RequestSent], answers: Mapping[str, Exchange], data: Path | None
) -> Iterator[Step]:
    """The steps that had begun, sizing requests first, with the bodies that were sent."""
    wanted = {event.request: event for event in sent}
    stored = dict(bodies.read_bodies(run))
    asked = tuple(_sizing(manifest, wanted, stored))
    if asked:
        yield Step(index=SIZING_STEP, label="sizing", requests=asked)
    transcript = {
        (event.step, event.phase): answers[name].text
        for name, event in wanted.items()
        if event.step is not None and name in answers
    }
    last = max((event.step for event in sent if event.step is not None), default=-1)
    for step in takewhile(lambda step: step.index <= last, _planned(manifest, stored, wanted, data)):
        requests = (resolve(request, transcript) for request in step.requests if request.id in wanted)
        proven = tuple(_proven(request, wanted[request.id], stored) for request in requests)
        if proven:
            yield replace(step, requests=proven)


def _sizing(manifest: Manifest, wanted: Mapping[str, RequestSent], stored: Mapping[str, bytes]) -> Iterator[Request]:
    """The sizing requests that can be made again; a failure that needs the others is not seen without them."""
    source = manifest.parameters.get("source")
    told = not manifest.sources and isinstance(source, Mapping) and bool(source.get("facts"))
    streams = {event.stream for name, event in wanted.items() if name.startswith("sizing.")}
    for request in sizing.requests(manifest.target.model, manifest.seed, stream=True in streams, told=told):
        event = wanted.get(request.id)
        body = stored.get(request.id, encode(request.body))
        if event is not None and sha256(body).hexdigest() == event.body_sha256:
            yield replace(request, body=json.loads(body))


def _planned(
    manifest: Manifest, stored: Mapping[str, bytes], wanted: Mapping[str, RequestSent], data: Path | None
) -> Iterator[Step]:
    """The plan's steps made anew; from the record alone where the data files that they came from are not there."""
    if manifest.sources and data is None and stored:
        return _from_record(wanted)
    return plan_of(manifest, data).steps()


def plan_of(manifest: Manifest, data: Path | None) -> Plan:
    """The plan of a stored run. CannotJudgeError when the data files that its prompts came from are needed."""
    spec = restore(manifest.parameters)
    if manifest.sources and data is None:
        named = ", ".join(source.get("file", "?") for source in manifest.sources)
        raise CannotJudgeError(
            f"the record holds no prompt text and the prompts came from data files: name their directory with --data "
            f"({named}), or run again with --record full"
        )
    files = inputs.data_files(spec, data) if manifest.sources and data is not None else None
    return build.plan(
        spec,
        seed=manifest.seed,
        model=manifest.target.model,
        stream=manifest.stream,
        sizing=manifest.sizing or ASSUMED,
        data=files,
    )


def _from_record(wanted: Mapping[str, RequestSent]) -> Iterator[Step]:
    """Steps as the events tell them, for runs whose bodies are stored and whose data files are elsewhere."""
    indices = sorted({event.step for event in wanted.values() if event.step is not None})
    for index in indices:
        events = [event for event in wanted.values() if event.step == index]
        requests = tuple(
            Request(
                id=event.request,
                step=index,
                phase=event.phase,
                endpoint=event.endpoint,
                body={},
                expect=event.expect,
                recipe=event.recipe,
                tokens=event.tokens,
                session=event.session,
                turn=event.turn,
            )
            for event in events
        )
        yield Step(index=index, label=str(index), requests=requests)


def _proven(request: Request, event: RequestSent, stored: Mapping[str, bytes]) -> Request:
    """`request` with the body that was sent, proven by its digest."""
    for body in filter(None, (stored.get(request.id), encode(request.body))):
        if sha256(body).hexdigest() == event.body_sha256:
            return replace(request, body=json.loads(body))
    raise CannotJudgeError(
        f"the text of request {request.id} is missing from the record, and what its recipe makes is not what was sent "
        f"({event.recipe[:80] or 'no recipe'}): run again with --record full, or give the same --data"
    )


def interned(steps: tuple[Step, ...], schedule: Schedule) -> Case:
    """The case of `steps`, with each longer text named once and shared by all the requests that send it."""
    names: dict[str, str] = {}
    texts: dict[str, Text] = {}

    def leaf(value: Any, request: Request) -> Any:
        if not isinstance(value, str) or len(value) < _LEAST_CHARACTERS:
            return value
        name = names.setdefault(value, f"t{len(names)}")
        texts.setdefault(name, known_text(value, request.recipe))
        return Piece(name=name)

    def changed(request: Request) -> Request:
        body = {
            key: mapped(value, lambda one: leaf(one, request)) if key in ("messages", "prompt") else value
            for key, value in request.body.items()
        }
        return replace(request, body=body)

    named = tuple(replace(step, requests=tuple(map(changed, step.requests))) for step in steps)
    return Case(steps=named, texts=texts, schedule=schedule)


def known_text(words: str, recipe: str) -> Text:
    """Generated text when `recipe` says so and makes exactly these words; else the words."""
    mark = text.mark_of(words)
    for key, units in _made_of(recipe):
        if mark is not None and text.prompt(key, mark, units) == words:
            return Text(key=key, mark=mark, units=units)
    return Text(words=words)


def _made_of(recipe: str) -> Iterator[tuple[str, int]]:
    if found := _RECIPE.fullmatch(recipe):
        yield found[1], int(found[2])
    if found := _SIZING.fullmatch(recipe):
        yield f"sizing/{found[1]}/{found[2]}", int(found[3])
