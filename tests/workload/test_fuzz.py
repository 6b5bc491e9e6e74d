"""Random operations: the same for one seed everywhere, of all kinds, with lengths where servers count wrong by one."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from kvstress.core.errors import UsageError
from kvstress.core.plan import Request, Step
from kvstress.core.sizing import Sizing
from kvstress.workload.build import plan
from kvstress.workload.sources import FORMS
from kvstress.workload.spec import override, parse

TEXT = (Path(__file__).parents[2] / "workloads" / "fuzz.toml").read_text()
SIZING = Sizing(overhead=30.0, per_unit=1.0, how="measured", forms=FORMS)


def steps(sizing: Sizing = SIZING, seed: int = 3, **settings: str) -> Iterator[Step]:
    spec = override(parse(TEXT, "fuzz.toml"), settings)
    return plan(spec, seed=seed, model="m", stream=None, sizing=sizing, data=None).steps()


def digest() -> str:
    """Of all that seed 3 sends."""
    whole = sha256()
    for step in steps():
        for request in step.requests:
            whole.update(repr((step.label, request.endpoint, request.body, request.cancel, request.recipe)).encode())
    return whole.hexdigest()


def test_one_seed_gives_the_same_bytes_in_every_process() -> None:
    said = {digest()}
    for hashes in ("0", "1"):
        command = [sys.executable, "-c", "from tests.workload.test_fuzz import digest; print(digest())"]
        env = {**os.environ, "PYTHONHASHSEED": hashes, "PYTHONPATH": str(Path(__file__).parents[2])}
        said.add(subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.strip())
    assert len(said) == 1
    assert next(steps(seed=4)).requests[0].body != next(steps()).requests[0].body


def test_a_run_has_every_operation_in_every_form() -> None:
    seen = list(steps())
    kinds = Counter(step.label.split()[0] for step in seen)
    assert set(kinds) == {"new", "resend", "extend", "branch", "rollback", "short", "abort", "burst"}
    assert len(seen) == 300 and min(kinds.values()) >= 5
    forms = Counter(type(words(request)).__name__ + request.endpoint for step in seen for request in step.requests)
    assert set(forms) == {"str/v1/chat/completions", "str/v1/completions", "list/v1/completions"}
    assert min(forms.values()) > 50
    places = {request.cancel.at for step in seen for request in step.requests if request.cancel}
    assert len(places) >= 3


def words(request: Request) -> Any:
    return request.body["messages"][0]["content"] if "messages" in request.body else request.body["prompt"]


def test_extensions_and_roll_backs_share_a_beginning_with_an_earlier_prompt() -> None:
    before: list[Any] = []
    for step in steps(operations="120", remembered="1000"):
        for request in step.requests:
            now, kind = words(request), step.label
            if kind == "extend":
                assert any(type(one) is type(now) and now[: len(one)] == one for one in before)
            if kind == "rollback":
                assert any(type(one) is type(now) and one[: len(now)] == now for one in before)
            if kind == "resend":
                assert now in before
            if kind in ("new", "short") and isinstance(now, str):
                assert all(one[0] != now[0] or one[:2] != now[:2] for one in before if isinstance(one, str))
            before.append(now)


def test_half_of_the_new_prompts_of_ids_end_beside_an_edge() -> None:
    settings = {"source.forms": "ids", "edges": "128", "operations": "400"}
    seen = list(steps(SIZING, 3, **settings))
    lengths = [len(words(step.requests[0])) for step in seen if step.label == "new"]
    beside = [length for length in lengths if min(length % 128, -length % 128) <= 2]
    assert len(lengths) > 50 and len(beside) > len(lengths) / 2
    assert max(lengths) <= 4_002
    assert all(300 <= token <= 2_000 for step in seen for token in words(step.requests[0]))


def test_a_form_that_the_server_does_not_take_is_not_sent() -> None:
    only = steps(sizing=replace(SIZING, forms=("chat",)))
    assert {request.endpoint for step in only for request in step.requests} == {"/v1/chat/completions"}


def test_a_fuzz_workload_has_one_phase() -> None:
    with pytest.raises(UsageError, match="one phase"):
        parse(TEXT.replace("max_tokens = 24\n", "max_tokens = 24\nrepeat = 2\n"), "fuzz.toml")
