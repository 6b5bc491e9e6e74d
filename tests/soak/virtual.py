"""A soak in virtual time: the driver, the recorder and every oracle as in a run, and a server that takes no time.

A day of a million requests cannot be waited for in a test, but what leaks or drifts in kvstress itself does so by the
request and not by the hour. So only the wire and the clock are made up: the plan is the shipped one, and each event is
written, judged and forgotten as it would be.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import trio
from trio.testing import MockClock

from kvstress.client.wire import encode
from kvstress.core.events import Event, RunEnded, Stop
from kvstress.core.exchange import Choice, Exchange, TokenLogprob, Usage
from kvstress.core.manifest import Target
from kvstress.core.outcome import Kind
from kvstress.core.plan import Plan, Request
from kvstress.core.sample import Sample
from kvstress.core.sizing import Sizing
from kvstress.core.verdict import Judgement
from kvstress.driver.closed import drive
from kvstress.harness.options import RunOptions
from kvstress.harness.prepare import manifest, prepare
from kvstress.harness.recording import Recorder, sent
from kvstress.oracles.judge import Judge
from kvstress.store import rundir

SIZING = Sizing(overhead=84.0, per_unit=1.25, how="measured", alone=0.05)
_ASKED = re.compile(r"What is the code for (\w+)\?$")
_CAPACITY, _BLOCK = 400_000.0, 128


@dataclass(slots=True)
class Server:
    """Answers one request after the other in `service(now)` seconds, with the code that the prompt asks for."""

    clock: Callable[[], float]
    service: Callable[[float], float]
    requests: int = 0
    prompt_tokens: int = 0
    generated: int = 0
    hits: int = 0
    _free: anyio.Lock = field(default_factory=anyio.Lock)
    _known: dict[str, None] = field(default_factory=dict)

    async def answer(self, request: Request, due: float) -> Exchange:
        began = self.clock()
        async with self._free:
            seconds = self.service(self.clock())
            await anyio.sleep(seconds)
        words = str(request.body["messages"][0]["content"])
        tokens = _tokens(_code(words))
        usage = self._counted(words, len(tokens))
        now = self.clock()
        return Exchange(
            request=request.id,
            due=due,
            sent=began,
            headers_at=began,
            ended=now,
            kind=Kind.OK,
            status=200,
            chunk_at=(now - 0.8 * seconds, now),
            chunk_bytes=(100, 100),
            choices=(
                Choice(index=0, text="".join(one.token for one in tokens), finish_reason="stop", logprobs=tokens),
            ),
            usage=usage,
            model="m",
        )

    def _counted(self, words: str, completion: int) -> Usage:
        prompt = len(words) // 2
        cached = (prompt - 1) // _BLOCK * _BLOCK if words in self._known else 0
        self._known[words] = None
        if len(self._known) > 64:
            del self._known[next(iter(self._known))]
        self.requests, self.prompt_tokens = self.requests + 1, self.prompt_tokens + prompt
        self.generated, self.hits = self.generated + completion, self.hits + cached
        return Usage(
            prompt_tokens=prompt, completion_tokens=completion, total_tokens=prompt + completion, cached_tokens=cached
        )

    def sample(self, why: str, step: int | None) -> Sample:
        """What a page of metrics would say."""
        return Sample(
            at=self.clock(),
            why=why,
            step=step,
            took=0.0,
            dialect="made up",
            kv_capacity=_CAPACITY,
            kv_free=_CAPACITY / 2,
            kv_cached=_CAPACITY / 2,
            kv_usage=0.5,
            running=0.0,
            waiting=0.0,
            prefix_queries=float(self.prompt_tokens),
            prefix_hits=float(self.hits),
            prompt_tokens=float(self.prompt_tokens),
            generation_tokens=float(self.generated),
            requests_completed=float(self.requests),
            requests_failed=0.0,
            process_started=1.0,
        )


def _code(words: str) -> str:
    asked = _ASKED.search(words)
    assert asked is not None
    told = re.search(rf"The code for {asked[1]} is (\w+)", words)
    assert told is not None
    return told[1]


def _tokens(code: str) -> tuple[TokenLogprob, ...]:
    """The code in pieces, with two alternatives each."""
    pieces = (code[at : at + 2] for at in range(0, len(code), 2))
    return tuple(TokenLogprob(token=one, logprob=-0.1, top=((one, -0.1), ("no", -3.0))) for one in pieces)


@dataclass(frozen=True, slots=True, kw_only=True)
class Soaked:
    """What a soak came to."""

    judgement: Judgement
    stop: Stop
    requests: int
    seconds: float


def soak(
    folder: Path,
    settings: dict[str, str],
    *,
    service: Callable[[float], float],
    watch: Callable[[Event], None] = lambda event: None,
) -> Soaked:
    """Run the shipped soak with `settings` into `folder`, in virtual time; `watch` sees every event."""
    prepared = prepare(RunOptions(server="http://127.0.0.1:9", workload="soak", settings=settings, out=folder))
    plan = prepared.plan_for("m", SIZING)
    told = manifest(prepared, plan, Target(url="http://127.0.0.1:9", model="m"))
    judge = Judge(told)
    with rundir.create(folder, told) as writer:
        recorder = Recorder(writer, judge, watch, keep_going=False, ends_at_refusal=False)
        done = trio.run(_driven, plan, recorder, service, clock=MockClock(autojump_threshold=0))
        writer.conclude(judge.judgement())
    return Soaked(judgement=judge.judgement(), stop=done[0], requests=done[1], seconds=done[2])


async def _driven(plan: Plan, recorder: Recorder, service: Callable[[float], float]) -> tuple[Stop, int, float]:
    origin = trio.current_time()

    def clock() -> float:
        return float(trio.current_time() - origin)

    server = Server(clock=clock, service=service)

    async def dispatch(request: Request, due: float) -> Exchange:
        recorder.emit(sent(request, encode(request.body), True, clock()))
        exchange = await server.answer(request, due)
        recorder.emit(exchange)
        return exchange

    async def observe(step: int) -> None:
        recorder.emit(server.sample("step", step))

    recorder.emit(server.sample("start", None))
    stop = await drive(
        plan.steps(),
        plan.schedule,
        plan.limits,
        dispatch=dispatch,
        observe=observe,
        emit=recorder.emit,
        stop=recorder.stop,
        clock=clock,
    )
    recorder.emit(server.sample("end", None))
    recorder.emit(RunEnded(at=clock(), stop=stop))
    return stop, server.requests, clock()
