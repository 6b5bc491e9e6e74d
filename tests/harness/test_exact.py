"""Prompts made exact to the token by what a server counts, with and without a tokenize endpoint."""

import json
import time
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from kvstress.client.wire import Wire
from kvstress.core.exchange import Exchange, Usage
from kvstress.core.outcome import Kind
from kvstress.core.plan import Request
from kvstress.core.sizing import ASSUMED, Sizing
from kvstress.harness.exact import exactly
from kvstress.workload import sizing
from kvstress.workload.build import plan
from kvstress.workload.spec import Spec, override, parse
from tests.cli.running import healthy, pages

FILE = Path(__file__).resolve().parents[2] / "workloads" / "residue.toml"


def _spec() -> Spec:
    return override(parse(FILE.read_text(), FILE.name), {"blocks": "1"})


def _count(request: Request) -> int:
    """A tokenizer with whole words: ` the` costs two tokens, ` a` one."""
    text = str(request.body["messages"][0]["content"])
    return 9 + len(text.split()) + text.count(" the")


def _answer(request: Request, *, cached: int | None = None, counts: bool = True) -> Exchange:
    usage = Usage(prompt_tokens=_count(request), cached_tokens=cached) if counts else None
    return Exchange(request=request.id, due=0.0, sent=0.0, ended=1.0, kind=Kind.OK, usage=usage)


def _measured(spec: Spec, *, counts: bool, cached: dict[str, int]) -> Sizing:
    asked = sizing.requests("m", 0, told=True)
    answers = tuple(_answer(one) for one in asked)
    line = sizing.measure(asked, answers)

    async def ask(request: Request) -> Exchange:
        told = next((cached[name] for name in cached if request.id == f"{name}.again"), None)
        return _answer(request, cached=told, counts=counts or request.id.endswith(".again"))

    async def measure() -> Sizing:
        with pages(healthy()) as url:
            async with Wire(url, clock=time.perf_counter, timeout=20.0) as wire:
                return await exactly(tuple(zip(asked, answers, strict=True)), spec, 0, line, ask, wire)

    return anyio.run(measure)


def test_without_a_tokenizer_each_prompt_is_counted_by_the_server_itself() -> None:
    spec = _spec()
    found = _measured(spec, counts=True, cached={"sizing.1": 64, "sizing.3": 160})
    assert (found.block, found.pad) == (32, " a")
    assert len(found.pads) == 65 and set(found.off) == {0}
    steps = plan(spec, seed=0, model="m", stream=None, sizing=found, data=None).steps()
    assert all(_count(step.requests[0]) == step.requests[0].tokens for step in steps)


def test_a_cached_count_that_is_no_block_is_not_taken_for_one() -> None:
    assert _measured(_spec(), counts=True, cached={"sizing.1": 131, "sizing.3": 160}).block is None


def test_a_server_that_counts_nothing_leaves_the_lengths_unknown() -> None:
    found = _measured(_spec(), counts=False, cached={})
    assert (found.pads, found.off) == ((), ())


@pytest.mark.parametrize("line", [ASSUMED, replace(ASSUMED, alone=2.0)])
def test_where_no_line_was_measured_nothing_is_asked(line: Sizing) -> None:
    async def never(request: Request) -> Exchange:
        raise AssertionError(json.dumps(request.id))

    async def measure() -> Sizing:
        async with Wire("http://127.0.0.1:9", clock=time.perf_counter, timeout=1.0) as wire:
            return await exactly((), _spec(), 0, line, never, wire)

    assert anyio.run(measure) == line
