"""Each planted defect of queue, process and metrics shows its symptom, and its healthy twin does not."""

from __future__ import annotations

import re
import socket
import struct
import subprocess

import pytest

from kvstress.refserver.defects import DEFECTS, parse
from kvstress.refserver.planting import DefectError
from tests.refserver.running import Served, half_open, serving, settled
from tests.refserver.test_defects import (
    CHAT,
    LIMIT,
    TEXT,
    _whole,
)


@pytest.mark.parametrize(("twin", "leaks"), [("", True), (":healthy", False)])
def test_page_leak_keeps_the_pages_of_aborted_requests(twin: str, leaks: bool) -> None:
    with serving(*LIMIT, "--defect", f"page-leak{twin}", "--step-delay", "0.005") as served:
        before = served.metrics()["flare_free_kv_tokens"]
        body = {"messages": [{"role": "user", "content": TEXT}], "max_tokens": 2000, "ignore_eos": True}
        with half_open(served, CHAT, **body):
            settled(served, requests_running=1)
        settled(served, requests_running=0)
        after = settled(served, free_kv_tokens=before)["flare_free_kv_tokens"]
    assert (after < before) is leaks


@pytest.mark.parametrize(("twin", "stuck"), [("", True), (":healthy", False)])
def test_stuck_waiting_admits_nothing_any_more(twin: str, stuck: bool) -> None:
    with serving(*LIMIT, "--defect", f"stuck-waiting{twin or ':'}{',' if twin else ''}after=2") as served:
        served.chat("one", max_tokens=1)
        with half_open(served, CHAT, messages=[{"role": "user", "content": "two"}], max_tokens=1):
            waiting = settled(served, requests_finished_total=2)
    assert (waiting["flare_requests_waiting"] == 1) is stuck
    assert waiting["flare_requests_running"] == 0


def test_a_zombie_is_dead_and_says_it_is_well() -> None:
    with serving(*LIMIT, "--defect", "zombie:after=2") as served:
        served.chat("one", max_tokens=1)
        with half_open(served, CHAT, messages=[{"role": "user", "content": "two"}]) as connection:
            connection.settimeout(0.5)
            with pytest.raises(TimeoutError):
                connection.recv(1)
            assert served.request("GET", "/health").status == 200


def test_a_zombie_of_the_other_kind_says_503_for_ever() -> None:
    with serving(*LIMIT, "--defect", "zombie:health503,after=2") as served:
        served.chat("one", max_tokens=1)
        assert [served.chat("two", max_tokens=1).status for _ in range(2)] == [500, 500]
        assert served.request("GET", "/health").status == 503


def test_the_twin_of_the_zombie_comes_back() -> None:
    with serving(*LIMIT, "--defect", "zombie:healthy,after=1") as served:
        assert served.chat("one", max_tokens=1).status == 200


def test_exit_after_idle_ends_the_process_and_its_twin_stays() -> None:
    with serving(*LIMIT, "--defect", "exit-after-idle:healthy,seconds=0.2") as served:
        served.chat("one", max_tokens=1)
        with pytest.raises(TimeoutError):
            _wait(served, 1.0)
    with pytest.raises(AssertionError), serving(*LIMIT, "--defect", "exit-after-idle:seconds=0.2") as served:
        served.chat("one", max_tokens=1)
        _wait(served, 20.0)


def _wait(served: Served, seconds: float) -> None:
    """Wait for the process to end. Raises TimeoutError when it does not."""
    try:
        served.process.wait(seconds)
    except subprocess.TimeoutExpired as late:
        raise TimeoutError from late


def _scrapes(served: Served) -> list[dict[str, float]]:
    served.chat(TEXT, max_tokens=1)
    return [served.metrics() for _ in range(6)]


@pytest.mark.parametrize("variant", ["negative", "above-one", "backwards", "vanish", "healthy"])
def test_gauge_lies_tell_what_cannot_be(variant: str) -> None:
    with serving(*LIMIT, "--defect", f"gauge-lies:{variant}") as served:
        pages = _scrapes(served)
    prompt_tokens = [page["flare_prompt_tokens_total"] for page in pages]
    lies = {
        "negative": min(page["flare_requests_running"] for page in pages) < 0,
        "above-one": max(page["flare_kv_usage_ratio"] for page in pages) > 1,
        "backwards": prompt_tokens != sorted(prompt_tokens),
        "vanish": any("flare_free_snapshots" not in page for page in pages),
    }
    assert [name for name, told in lies.items() if told] == ([] if variant == "healthy" else [variant])


@pytest.mark.parametrize(("twin", "factor"), [("", 0.9), (":healthy", 1.0)])
def test_counter_drift_loses_tokens(twin: str, factor: float) -> None:
    with serving(*LIMIT, "--defect", f"counter-drift{twin}") as served:
        for _ in range(4):
            _whole(served, max_tokens=25)
        assert served.metrics()["flare_generation_tokens_total"] == int(100 * factor)


def test_admit_hang_lets_in_what_never_fits_and_blocks_the_rest() -> None:
    oversize = {"prompt": [300] * 7000, "max_tokens": 1}
    with (
        serving("--memory-limit", "35.5G", "--defect", "admit-hang") as served,
        half_open(served, "/v1/completions", **oversize) as first,
    ):
        assert settled(served, requests_waiting=1)["flare_requests_waiting"] == 1
        with half_open(served, CHAT, messages=[{"role": "user", "content": "x"}], max_tokens=1) as second:
            for connection in (first, second):
                connection.settimeout(0.3)
                with pytest.raises(TimeoutError):
                    connection.recv(1)
    with serving("--memory-limit", "35.5G", "--defect", "admit-hang:healthy") as served:
        assert served.post("/v1/completions", **oversize).status == 400


@pytest.mark.parametrize(("twin", "ghost"), [("", True), (":healthy", False)])
def test_ghost_decode_goes_on_after_the_client_left(twin: str, ghost: bool) -> None:
    with serving(*LIMIT, "--defect", f"ghost-decode{twin}", "--step-delay", "0.02") as served:
        body = {"messages": [{"role": "user", "content": TEXT}], "max_tokens": 4000, "ignore_eos": True}
        with half_open(served, CHAT, **body):
            settled(served, requests_running=1)
        stopped = settled(served, requests_running=0)
        assert (stopped["flare_requests_running"] == 1) is ghost


@pytest.mark.parametrize(("twin", "status"), [("", 500), (":healthy", 200)])
def test_overflow_500_fails_what_would_have_fitted_alone(twin: str, status: int) -> None:
    tokens = [300 + index % 97 for index in range(3500)]
    body = {"prompt": tokens, "max_tokens": 200, "ignore_eos": True}
    with serving("--memory-limit", "35.5G", "--defect", f"overflow-500{twin}", "--step-delay", "0.005") as served:
        assert served.post("/v1/completions", **body).status == 200
        with half_open(served, "/v1/completions", **body):
            settled(served, requests_running=1)
            reply = served.post("/v1/completions", **body | {"prompt": tokens[::-1]})
    assert reply.status == status
    assert status == 200 or reply.body["error"]["message"] == "Context size has been exceeded."


def test_every_development_case_can_be_planted_and_has_a_twin() -> None:
    for name in DEFECTS:
        assert parse(f"{name}:healthy,every=2") == (name, "healthy", {"every": 2.0})


@pytest.mark.parametrize("text", ["nonsense", "truncated:sometimes", "slow-drip:seconds=long"])
def test_a_defect_that_does_not_exist_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(DefectError, match=re.escape(text.split(":")[0])):
        parse(text)


def test_a_client_reset_is_no_business_of_the_engine() -> None:
    with serving(*LIMIT) as served:
        body = {"messages": [{"role": "user", "content": TEXT}], "max_tokens": 500, "stream": True}
        with half_open(served, CHAT, **body) as connection:
            connection.recv(64)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert served.chat("next", max_tokens=1).status == 200
