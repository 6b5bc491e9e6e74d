"""STREAMEQ, SEQBATCH, ORDER, PRESSURE, TREND and RESIDUE: what each finds in a run, and what it is silent about."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from kvstress.core.events import Event, Lagged, RequestSent
from kvstress.core.exchange import Choice, Exchange, TokenLogprob, Usage
from kvstress.core.markers import Markers
from kvstress.core.outcome import Kind
from kvstress.core.sample import Sample
from kvstress.core.verdict import Finding, Verdict
from kvstress.oracles.oracle import OracleMaker
from kvstress.oracles.order import Order
from kvstress.oracles.pressure import Pressure
from kvstress.oracles.residue import Residue
from kvstress.oracles.seqbatch import SeqBatch
from kvstress.oracles.streameq import StreamEq
from kvstress.oracles.trend import Trend
from tests.oracles.runs import answer, ended, manifest, sent

MARKERS = Markers("speedbench/0")


class Run:
    """Writes a run's events; one request a second."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._count = 0

    def ask(self, prompt: int, phase: str = "ask", **more: Any) -> RequestSent:
        self._count += 1
        recipe = f"generated text speedbench/0/{prompt} units=9 markers={prompt} asks=0"
        base = replace(sent(self._count, phase, max_tokens=40), recipe=recipe, options='{"temperature":0.0}')
        request = replace(base, request=f"r{self._count}", **more)
        self.events.append(request)
        return request

    def reply(self, request: RequestSent, prompt: int, right: bool = True, kind: Kind = Kind.OK, **more: Any) -> None:
        text = more.pop("text", f"is {MARKERS.marker(prompt, 0)}." if right else "is unknown.")
        logprobs = more.pop("logprobs", None)
        one = Choice(index=0, text=text, finish_reason="stop", logprobs=logprobs)
        usage = Usage(prompt_tokens=more.pop("length", 100), completion_tokens=more.pop("tokens", 10))
        choices = (one,) if kind is Kind.OK else ()
        self.events.append(replace(answer(request, kind), choices=choices, usage=usage if choices else None, **more))

    def send(self, prompt: int, right: bool = True, **more: Any) -> "Run":
        told = {key: more.pop(key) for key in ("stream", "phase", "tokens_planned") if key in more}
        self.reply(self.ask(prompt, **told), prompt, right, **more)
        return self

    def wave(self, prompt: int, *right: bool) -> "Run":
        """Several at one moment."""
        requests = [self.ask(prompt) for _ in right]
        for request, one in zip(requests, right, strict=True):
            self.reply(request, prompt, one)
        return self

    def sample(self, **levels: Any) -> "Run":
        self.events.append(Sample(at=float(self._count), why="step", **levels))
        return self

    def found(self, make: OracleMaker) -> list[Finding]:
        oracle, asked = make(manifest()), dict[str, RequestSent]()
        found: list[Finding] = []
        for event in [*self.events, ended()]:
            if isinstance(event, RequestSent):
                asked[event.request] = event
            found += oracle.see(event, asked.get(event.request) if isinstance(event, Exchange) else None)
        return found


def transports(*texts: tuple[str, str, str], **streamed: Any) -> Run:
    """Each prompt first, whole, streamed and whole again, with these three texts."""
    run = Run()
    for number, (before, through, after) in enumerate(texts):
        run.send(number).send(number, text=before)
        run.send(number, text=through, stream=True, **streamed).send(number, text=after)
    return run


def test_streams_that_lose_what_whole_answers_have_are_found() -> None:
    found = transports(*[("a €", "a �", "a €")] * 5).found(StreamEq)
    assert [one.verdict for one in found][-1] is Verdict.FAIL
    assert {one.verdict for one in found[:2]} == {Verdict.PASS}


def test_equal_text_with_other_counts_is_found_at_once() -> None:
    (finding,) = transports(("a", "a", "a"), tokens=11).found(StreamEq)
    assert finding.signature == "STREAMEQ:completion tokens"


@pytest.mark.parametrize(
    "texts",
    [[("a", "a", "a")] * 9, [("a", "b", "b"), ("a", "b", "c")] * 9, [("a", "b", "a")] * 2 + [("a", "a", "a")] * 20],
    ids=["the same", "whole answers differ as well", "seldom"],
)
def test_streameq_is_silent(texts: list[tuple[str, str, str]]) -> None:
    assert transports(*texts).found(StreamEq) == []


def test_answers_that_are_wrong_only_beside_others_are_found() -> None:
    run = Run()
    for number in range(8):
        run.send(number).wave(number, True, False, False)
    assert run.found(SeqBatch)[0].signature == "SEQBATCH:beside others"


@pytest.mark.parametrize(("alone", "beside"), [(True, True), (False, False)])
def test_seqbatch_is_silent_where_company_changes_nothing(alone: bool, beside: bool) -> None:
    run = Run()
    for number in range(20):
        run.send(number, alone).wave(number, beside, beside)
    assert run.found(SeqBatch) == []


def rounds(right: Any, count: int = 6, logprobs: Any = None) -> Run:
    """Six prompts in rounds of two orders; `right(prompt, before)` says how each answer comes out."""
    run, before = Run(), -1
    for number in range(count):
        for prompt in ((0, 1, 2, 3, 4, 5), (3, 5, 1, 4, 0, 2))[number % 2]:
            run.send(prompt, right(prompt, before, number))
            before = prompt
    return run


def test_answers_that_depend_on_the_prompt_before_are_found() -> None:
    found = rounds(lambda prompt, before, _: before % 2 == prompt % 2).found(Order)
    assert found and found[0].signature == "ORDER:depends on order"


@pytest.mark.parametrize(
    "right",
    [
        lambda prompt, before, number: True,
        lambda prompt, before, number: prompt % 2 == 0,
        lambda prompt, before, number: number % 3 > 0,
        lambda prompt, before, number: number < 3,
    ],
    ids=["all right", "some always wrong", "wrong now and then", "wrong from some time on"],
)
def test_order_is_silent(right: Any) -> None:
    assert rounds(right, 9).found(Order) == []


def filling(full: bool, right: bool, **levels: Any) -> Run:
    run = Run().sample(kv_capacity=1000.0, kv_free=900.0)
    for number in range(10):
        run.send(number)
    run.sample(**levels) if levels else run.sample(kv_capacity=1000.0, kv_free=10.0 if full else 900.0)
    for number in range(10, 16):
        run.send(number, right)
    return run


def test_answers_that_are_wrong_only_with_a_full_pool_are_found() -> None:
    assert filling(True, False).found(Pressure)[0].signature == "PRESSURE:full pool"
    usage = Run().sample(kv_usage=0.1, preemptions=0.0)
    for number in range(10):
        usage.send(number)
    usage.sample(kv_usage=0.6, preemptions=1.0)
    for number in range(6):
        usage.send(number, False)
    assert usage.found(Pressure)


def test_pressure_is_silent_without_pressure_or_without_damage() -> None:
    assert filling(False, False).found(Pressure) == []
    assert filling(True, True).found(Pressure) == []
    assert filling(True, False, kv_capacity=None, kv_free=None).found(Pressure) == []


def paced(pace: Any, count: int = 120, lagged: bool = False, length: Any = lambda number: 100) -> list[Finding]:
    run = Run()
    for number in range(count):
        request = run.ask(0)
        took = 10 * pace(number)
        run.reply(request, 0, length=length(number), ended=request.at + took)
        if lagged and number % 2:
            run.events.insert(-1, Lagged(at=request.at + took / 2, seconds=0.6))
    return run.found(Trend)


def test_a_server_that_becomes_slower_block_after_block_is_found() -> None:
    (finding,) = paced(lambda number: 0.004 + 0.0002 * number)
    assert (finding.verdict, finding.signature) == (Verdict.FAIL, "TREND:slower")


def test_a_slow_down_while_kvstress_stood_still_is_inconclusive_and_says_why() -> None:
    (finding,) = paced(lambda number: 0.004 + 0.0002 * number, 240, lagged=True)
    assert finding.verdict is Verdict.INCONCLUSIVE and "kvstress itself" in finding.summary


@pytest.mark.parametrize(
    "pace",
    [
        lambda number: 0.02,
        lambda number: 0.004 + 0.02 * (number % 7 == 0),
        lambda number: 0.05 if number < 60 else 0.01,
    ],
    ids=["steady", "now and then slow", "slow at first"],
)
def test_trend_is_silent(pace: Any) -> None:
    assert paced(pace) == []


def test_growing_prompts_are_no_like_requests() -> None:
    assert paced(lambda number: 0.004 + 0.0002 * number, length=lambda number: 100 * (number + 1)) == []


def test_drafts_that_are_no_longer_accepted_are_found() -> None:
    run = Run()
    for number in range(12):
        accepted = 50.0 * min(number, 5)
        run.sample(raw={"x_draft_tokens_total": 100.0 * number, "x_accepted_tokens_total": accepted})
    (finding,) = run.found(Trend)
    assert finding.signature == "TREND:drafts refused"


def lengths(bad: Any, count: int = 200) -> Iterator[tuple[int, bool]]:
    for number in range(count):
        length = 1000 + 37 * number % 640
        yield length, bad(number, length)


def tails(bad: Any, kind: Kind = Kind.OK) -> list[Finding]:
    run = Run()
    for number, (length, wrong) in enumerate(lengths(bad)):
        run.send(number, length=length)
        run.send(number, not wrong, kind=kind if wrong else Kind.OK, length=length)
    return run.found(Residue)


def test_the_residues_that_fail_are_the_finding() -> None:
    (finding,) = tails(lambda number, length: length % 16 < 8)
    assert finding.summary.startswith("requests fail where prompt_tokens mod 16 is 0 to 7: 1")
    (finding,) = tails(lambda number, length: length % 64 >= 56, Kind.SERVER_ERROR)
    assert "mod 64 is 56 to 63" in finding.summary


@pytest.mark.parametrize(
    "bad",
    [lambda number, length: False, lambda number, length: True, lambda number, length: number % 5 == 0],
    ids=["none fail", "all fail", "some fail"],
)
def test_residue_is_silent(bad: Any) -> None:
    assert tails(bad) == []


def test_order_uses_log_probabilities_where_there_are_any() -> None:
    def said(token: str) -> tuple[TokenLogprob, ...]:
        return (TokenLogprob(token=token, logprob=-0.1, top=((token, -0.1), ("z", -5.0))),)

    run, before = Run(), -1
    for number in range(6):
        for prompt in ((0, 1, 2, 3, 4, 5), (3, 5, 1, 4, 0, 2))[number % 2]:
            run.send(prompt, logprobs=said("a" if before % 2 == prompt % 2 else "b"))
            before = prompt
    assert run.found(Order)
