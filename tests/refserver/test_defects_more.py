"""The defects at the seams of a request's life show, and their healthy twins do not."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.refserver.running import Served, events, half_open, low_entropy, serving, settled

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
TEXT = low_entropy("defects", 2000)


def _fired(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


@pytest.mark.parametrize(("twin", "changes"), [("", True), (":healthy", False)])
def test_resume_repeat_says_a_token_twice_after_a_preemption(twin: str, changes: bool, tmp_path: Path) -> None:
    log = tmp_path / "fired.jsonl"
    # Two such prompts fit in the pool, their answers do not.
    tokens = [300 + index % 97 for index in range(2800)]
    older = {"prompt": tokens, "max_tokens": 400, "ignore_eos": True, "temperature": 0}
    younger = older | {"prompt": tokens[::-1]}
    planted = ("--defect", f"resume-repeat{twin}", "--debug-log", str(log), "--step-delay", "0.005")
    with serving("--memory-limit", "35.5G", *planted) as served:
        with half_open(served, COMPLETIONS, **older):
            settled(served, requests_running=1)
            beside = served.post(COMPLETIONS, **younger).body["choices"][0]["text"]
        assert served.metrics()["flare_preemptions_total"] > 0
        alone = served.post(COMPLETIONS, **younger).body["choices"][0]["text"]
    assert _fired(log)
    assert (beside != alone) is changes


@pytest.mark.parametrize(("twin", "dropped"), [("", True), (":healthy", False)])
def test_abort_neighbour_drops_a_request_nobody_aborted(twin: str, dropped: bool, tmp_path: Path) -> None:
    log = tmp_path / "fired.jsonl"
    separator = "," if twin else ":"
    planted = ("--defect", f"abort-neighbour{twin}{separator}every=1", "--debug-log", str(log))
    endless = {"messages": [{"role": "user", "content": "aborted"}], "max_tokens": 4000, "ignore_eos": True}
    short = {"messages": [{"role": "user", "content": "beside"}], "max_tokens": 120, "ignore_eos": True}
    with serving("--memory-limit", "38G", *planted, "--step-delay", "0.01") as served, ExitStack() as stack:
        with half_open(served, CHAT, **endless):
            settled(served, requests_running=1)
            neighbour = stack.enter_context(half_open(served, CHAT, **short))
            settled(served, requests_running=2)
        counts = settled(served, requests_running=0)
        neighbour.settimeout(0.3)
        if dropped:
            with pytest.raises(TimeoutError):
                neighbour.recv(1)
        else:
            assert neighbour.recv(12) == b"HTTP/1.1 200"
    assert len(_fired(log)) == 1
    assert counts["flare_requests_cancelled_total"] == (2 if dropped else 1)


@pytest.mark.parametrize(("twin", "lost"), [(":", True), (":healthy,", False)])
def test_lost_tail_ends_a_stream_early_and_in_good_order(twin: str, lost: bool, tmp_path: Path) -> None:
    log = tmp_path / "fired.jsonl"
    planted = ("--defect", f"lost-tail{twin}every=1", "--debug-log", str(log))
    with serving("--memory-limit", "38G", *planted) as served:
        for path in (CHAT, COMPLETIONS):
            whole, streamed, reasons = _both(served, path)
            assert reasons == ["length"]
            assert whole.startswith(streamed)
            assert (whole != streamed) is lost
    assert len(_fired(log)) == 2


def _both(served: Served, path: str) -> tuple[str, str, list[str]]:
    """The text of a whole answer, that of the same one streamed, and the finish reasons of the stream."""
    said = {"messages": [{"role": "user", "content": TEXT}]} if path == CHAT else {"prompt": TEXT}
    body: dict[str, Any] = said | {"max_tokens": 24, "temperature": 0, "ignore_eos": True}
    choice = served.post(path, **body).body["choices"][0]
    whole = choice["message"]["content"] if path == CHAT else choice["text"]
    sent = events(served.post(path, **body, stream=True).raw)
    assert sent[-1] == "[DONE]"
    choices = [each for event in sent[:-1] for each in event["choices"]]
    pieces = [each["delta"].get("content") if path == CHAT else each["text"] for each in choices]
    reasons = [each["finish_reason"] for each in choices if each["finish_reason"]]
    return whole, "".join(piece or "" for piece in pieces), reasons
