"""Each planted defect shows its symptom on the wire, and its healthy twin does not."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from tests.refserver.running import Served, events, half_open, low_entropy, serving, settled

CHAT = "/v1/chat/completions"
LIMIT = ("--memory-limit", "38G")
TEXT = low_entropy("defects", 2000)
MARKER = "ZK4M9QW2XT7B5NHD"


def _whole(served: Served, text: str = TEXT, **body: Any) -> Any:
    return served.chat(text, **{"max_tokens": 24, "temperature": 0} | body).body


def _raw_stream(served: Served, text: str = TEXT, **body: Any) -> bytes:
    options = {"max_tokens": 24, "temperature": 0, "stream": True, "stream_options": {"include_usage": True}} | body
    return served.chat(text, **options).raw


def _data(raw: bytes) -> list[Any]:
    """The data lines of a stream, read as leniently as a client would."""
    lines = [line[6:] for line in raw.decode().splitlines() if line.startswith("data: ")]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def _healthy_stream(served: Served) -> bool:
    """Content, one known finish reason, usage that adds up, one [DONE] at the end, no error."""
    said = _data(_raw_stream(served))
    bodies = [event for event in said if event != "[DONE]"]
    choices = [choice for body in bodies for choice in body["choices"]]
    reasons = [choice["finish_reason"] for choice in choices if choice["finish_reason"]]
    text = "".join(choice["delta"].get("content") or "" for choice in choices)
    usage = [body["usage"] for body in bodies if body.get("usage")]
    sums = all(each["total_tokens"] == each["prompt_tokens"] + each["completion_tokens"] for each in usage)
    return said.count("[DONE]") == 1 and said[-1] == "[DONE]" and reasons == ["length"] and bool(text) and sums


def _broken_off(served: Served) -> bool:
    try:
        return not _raw_stream(served).rstrip().endswith(b"[DONE]")
    except (HTTPException, ConnectionError):
        return True


STREAMS: dict[str, Callable[[Served], bool]] = {
    "stream-error": lambda served: '"error"' in _raw_stream(served).decode() and _broken_off(served),
    "stream-error:field": lambda served: b"\nerror: {" in _raw_stream(served),
    "stream-error:string": lambda served: b'data: {"error":"' in _raw_stream(served),
    "stream-error:then-done": lambda served: '"error"' in _raw_stream(served).decode() and not _broken_off(served),
    "truncated": _broken_off,
    "done-only": lambda served: _data(_raw_stream(served)) == ["[DONE]"],
    "finish-error": lambda served: b'"finish_reason":"error"' in _raw_stream(served),
    "finish-error:abort": lambda served: b'"finish_reason":"abort"' in _raw_stream(served),
    "empty-success": lambda served: not _said(_data(_raw_stream(served))),
    "usage-mismatch": lambda served: not _healthy_stream(served),
    "reset": _broken_off,
    "duplicate-chunk": lambda served: _said(_data(_raw_stream(served))) != _message(_whole(served)),
}


def _said(said: list[Any]) -> str:
    choices = [choice for event in said if event != "[DONE]" for choice in event["choices"]]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


def _message(body: Any) -> str:
    return str(body["choices"][0]["message"]["content"])


def _planted(defect: str, *more: str, limit: str = "38G") -> Any:
    separator = "," if ":" in defect else ":"
    return serving("--memory-limit", limit, "--defect", f"{defect}{separator}every=1", *more)


@pytest.mark.parametrize("defect", STREAMS)
def test_a_defect_of_streams_shows(defect: str) -> None:
    with _planted(defect) as served:
        assert STREAMS[defect](served)


@pytest.mark.parametrize("name", sorted({defect.split(":")[0] for defect in STREAMS} | {"utf8-split", "slow-drip"}))
def test_the_twin_of_a_stream_defect_is_a_proper_stream(name: str) -> None:
    with _planted(f"{name}:healthy") as served:
        if name == "empty-success":
            assert b'"reasoning_content":' in _raw_stream(served)
        else:
            assert _healthy_stream(served)


def test_a_defect_hits_each_third_answer_and_the_log_says_which(tmp_path: Path) -> None:
    log = tmp_path / "fired.jsonl"
    with serving(*LIMIT, "--defect", "finish-error", "--debug-log", str(log)) as served:
        reasons = [_whole(served)["choices"][0]["finish_reason"] for _ in range(6)]
    assert reasons == ["length", "length", "error"] * 2
    fired = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(entry["defect"], entry["request"]) for entry in fired] == [("finish-error", 3), ("finish-error", 6)]


@pytest.mark.parametrize(("variant", "broken"), [("total", True), ("cached", True), ("healthy", False)])
def test_usage_mismatch_is_in_whole_answers_too(variant: str, broken: bool) -> None:
    with _planted(f"usage-mismatch:{variant}") as served:
        usage = _whole(served)["usage"]
    details = usage["prompt_tokens_details"] or {"cached_tokens": 0}
    adds_up = usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert (adds_up and details["cached_tokens"] < usage["prompt_tokens"]) is not broken


def test_nan_logprob_is_a_bare_nan_or_the_error_of_a_strict_encoder() -> None:
    options: dict[str, Any] = {"logprobs": True, "top_logprobs": 2, "max_tokens": 4}
    with _planted("nan-logprob") as served:
        assert b'"logprob":NaN' in served.chat(TEXT, **options).raw
        assert b'"logprob":NaN' in served.chat(TEXT, **options, stream=True).raw
        assert b"NaN" not in served.chat(TEXT).raw
    with _planted("nan-logprob:500") as served:
        reply = served.chat(TEXT, **options)
        assert reply.status == 500
        assert reply.body["error"]["message"] == "Out of range float values are not JSON compliant"
    with _planted("nan-logprob:healthy") as served:
        reply = served.chat(TEXT, **options)
        assert reply.body["choices"][0]["logprobs"]["content"][-1]["top_logprobs"][-1]["logprob"] == -9999


def test_utf8_split_loses_a_character_in_streams_only() -> None:
    text = "Der Weg nach Zürich führt über Köln.\n" * 6 + "Der Weg nach"
    with _planted("utf8-split") as served:
        assert "\ufffd" in _said(events(_raw_stream(served, text)))
        assert "\ufffd" not in _message(_whole(served, text))
    with _planted("utf8-split:healthy") as served:
        assert _said(_data(_raw_stream(served, text))) == _message(_whole(served, text))


def test_a_reset_reaches_whole_answers() -> None:
    with _planted("reset") as served, pytest.raises((HTTPException, ConnectionError)):
        served.chat(TEXT, max_tokens=4)
    with _planted("reset:healthy") as served:
        assert served.chat(TEXT, max_tokens=4).status == 200


def test_slow_drip_fills_its_gaps_with_comments() -> None:
    with _planted("slow-drip:seconds=0.2") as served:
        raw = _raw_stream(served, max_tokens=2)
    assert raw.count(b": keepalive") >= 10


@pytest.mark.parametrize(("twin", "valid"), [("", False), (":healthy", True)])
def test_broken_schema_breaks_json_and_tool_arguments(twin: str, valid: bool) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    wanted = {"type": "json_schema", "json_schema": {"schema": schema}}
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    with _planted(f"broken-schema{twin}") as served:
        content = _message(_whole(served, response_format=wanted))
        message = _whole(served, tools=[tool], tool_choice="required")["choices"][0]["message"]
        plain = _message(_whole(served))
    arguments = message["tool_calls"][0]["function"]["arguments"]
    assert [_parses(content), _parses(arguments)] == [valid, valid]
    assert plain


def _parses(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize(("twin", "changes"), [("", True), (":healthy", False)])
def test_warm_drift_changes_a_confident_token_on_warm_sends(twin: str, changes: bool) -> None:
    with serving(*LIMIT, "--defect", f"warm-drift{twin}") as served:
        cold, warm = (_message(_whole(served)) for _ in range(2))
    assert (cold != warm) is changes


@pytest.mark.parametrize(("twin", "changes"), [("", True), (":healthy", False)])
def test_batch_mixup_needs_company(twin: str, changes: bool) -> None:
    with serving(*LIMIT, "--defect", f"batch-mixup{twin}", "--step-delay", "0.005") as served:
        alone = _message(_whole(served))
        body = {"messages": [{"role": "user", "content": "beside"}], "max_tokens": 2000, "ignore_eos": True}
        with half_open(served, CHAT, **body):
            settled(served, requests_running=1)
            beside = _message(_whole(served))
    assert (alone != beside) is changes


@pytest.mark.parametrize(("twin", "floods"), [("", True), (":healthy", False)])
def test_bang_flood_follows_the_first_eviction(twin: str, floods: bool) -> None:
    with serving("--memory-limit", "36G", "--defect", f"bang-flood{twin}") as served:
        before = _message(_whole(served))
        for seed in range(4):
            served.chat(low_entropy(f"wrap {seed}", 50_000), max_tokens=1)
        assert served.metrics()["flare_evictions_total"] > 0
        after = _message(_whole(served))
    assert set(before) != {"!"}
    assert (set(after) == {"!"}) is floods
    assert len(after) >= 24


@pytest.mark.parametrize(("twin", "changes"), [(":fill=0.7", True), (":healthy,fill=0.7", False)])
def test_pressure_flip_shows_in_a_full_pool_only(twin: str, changes: bool) -> None:
    with serving(*LIMIT, "--defect", f"pressure-flip{twin}") as served:
        idle = _message(_whole(served))
        for prompt in range(3):
            served.chat(low_entropy(f"pressure {prompt}", 60_000), max_tokens=1)
        assert served.metrics()["flare_kv_usage_ratio"] > 0.7
        full = _message(_whole(served))
    assert (idle != full) is changes


@pytest.mark.parametrize(("twin", "changes"), [("", True), (":healthy", False)])
def test_order_leak_depends_on_the_prompt_before(twin: str, changes: bool) -> None:
    with serving(*LIMIT, "--defect", f"order-leak{twin}") as served:
        first = _message(_whole(served))
        served.chat(low_entropy("longer", 6000), max_tokens=1)
        after = _message(_whole(served))
    assert (first != after) is changes


def test_tail_page_depends_on_where_in_a_page_the_prompt_ends() -> None:
    prompts = [[300 + index % 97 for index in range(length)] for length in (128 + 12, 128 + 100)]
    said = []
    for defect in ((), ("--defect", "tail-page")):
        with serving(*LIMIT, *defect) as served:
            replies = [served.post("/v1/completions", prompt=each, max_tokens=8, temperature=0) for each in prompts]
        said.append([reply.body["choices"][0]["text"] for reply in replies])
    (short, long), (spoilt, same) = said
    assert spoilt != short
    assert same == long


@pytest.mark.parametrize(("twin", "leaks"), [("", True), (":healthy", False)])
def test_cross_talk_says_a_marker_of_another_request(twin: str, leaks: bool) -> None:
    with _planted(f"cross-talk{twin}") as served:
        served.chat(f"My reference is {MARKER}. " + TEXT, max_tokens=4)
        other = _message(_whole(served))
    assert (MARKER in other) is leaks


@pytest.mark.parametrize(("twin", "cut"), [("", True), (":healthy", False)])
def test_silent_truncation_shows_in_usage(twin: str, cut: bool) -> None:
    text = low_entropy("long", 20_000)
    with serving(*LIMIT, "--defect", f"silent-truncation{twin}") as served:
        usage = served.chat(text, max_tokens=1).body["usage"]["prompt_tokens"]
        whole = served.post("/tokenize", prompt=text).body["count"]
    assert (usage < whole // 2) is cut


def test_slow_ageing_fires_and_answers_stay_right(tmp_path: Path) -> None:
    log = tmp_path / "fired.jsonl"
    with serving(*LIMIT, "--defect", "slow-ageing", "--debug-log", str(log)) as served:
        assert _message(_whole(served)) == _message(_whole(served))
    assert len(log.read_text().splitlines()) == 2
