"""The wire: shapes of answers, options, refusals, and what a vanished client leaves behind."""

from __future__ import annotations

import json
import math
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.refserver.running import Reply, Served, events, half_open, low_entropy, serving, settled

CHAT = "/v1/chat/completions"
PLAIN = "/v1/completions"
COUNT = {"type": "object", "properties": {"city": {"type": "string"}, "count": {"type": "integer"}}}
TOOL = {"type": "function", "function": {"name": "find_city", "parameters": COUNT}}


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving("--memory-limit", "40G", "--fix", "zero-on-release", "--audit") as running:
        yield running


def _streamed(served: Served, text: str, **body: Any) -> list[Any]:
    return events(served.chat(text, stream=True, **body).raw)


def _message(reply: Reply) -> Any:
    assert reply.status == 200, reply.raw
    return reply.body["choices"][0]["message"]


def test_a_whole_chat_answer_has_the_shape_clients_read(served: Served) -> None:
    body = served.chat(low_entropy("shape", 2000), max_tokens=8).body
    assert body["object"] == "chat.completion"
    assert body["choices"][0]["finish_reason"] == "length"
    assert body["choices"][0]["message"]["content"]
    assert body["usage"]["completion_tokens"] == 8
    assert body["usage"]["total_tokens"] == body["usage"]["prompt_tokens"] + 8
    assert body["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}


def test_a_second_send_is_cached_but_for_its_last_token(served: Served) -> None:
    first, second = (served.chat(low_entropy("twice", 4000), max_tokens=1).body["usage"] for _ in range(2))
    assert first["prompt_tokens_details"]["cached_tokens"] == 0
    assert second["prompt_tokens_details"]["cached_tokens"] == second["prompt_tokens"] - 1


def test_a_stream_says_what_the_whole_answer_says(served: Served) -> None:
    text = low_entropy("stream", 3000)
    whole = served.chat(text, max_tokens=30, temperature=0).body
    said = _streamed(served, text, max_tokens=30, temperature=0, stream_options={"include_usage": True})
    choices = [event["choices"][0] for event in said[:-2]]
    assert "".join(choice["delta"]["content"] for choice in choices) == whole["choices"][0]["message"]["content"]
    assert [choice["finish_reason"] for choice in choices if choice["finish_reason"]] == ["length"]
    assert said[-2]["choices"] == []
    assert said[-2]["usage"]["completion_tokens"] == 30
    assert said[-1] == "[DONE]"
    assert len({event["id"] for event in said[:-1]}) == 1


def test_without_stream_options_there_is_no_usage_event(served: Served) -> None:
    said = _streamed(served, "Hello there", max_tokens=3)
    assert all("usage" not in event for event in said[:-1])


def test_temperature_zero_and_equal_seeds_repeat_themselves(served: Served) -> None:
    text = low_entropy("repeat", 3000)
    for options in ({"temperature": 0}, {"temperature": 1.0, "seed": 7}):
        first, second = (served.chat(text, max_tokens=30, **options) for _ in range(2))
        assert _message(first) == _message(second)


def test_logprobs_are_finite_and_the_greedy_token_is_the_likeliest(served: Served) -> None:
    body = served.chat(low_entropy("logprobs", 2000), max_tokens=12, temperature=0, logprobs=True, top_logprobs=4).body
    entries = body["choices"][0]["logprobs"]["content"]
    assert len(entries) == body["usage"]["completion_tokens"]
    for entry in entries:
        best = [top["logprob"] for top in entry["top_logprobs"]]
        assert math.isfinite(entry["logprob"])
        assert entry["logprob"] <= 1e-6
        assert best == sorted(best, reverse=True)
        assert entry["top_logprobs"][0]["token"] == entry["token"]
        assert sum(map(math.exp, best)) <= 1 + 1e-3
        assert bytes(entry["bytes"]).decode() == entry["token"]


def test_a_stop_string_ends_the_answer_and_is_not_in_it(served: Served) -> None:
    text = low_entropy("stop", 3000)
    full = _message(served.chat(text, max_tokens=40, temperature=0))["content"]
    stop = full[20:24]
    cut = served.chat(text, max_tokens=40, temperature=0, stop=[stop, "never said"]).body["choices"][0]
    assert cut["finish_reason"] == "stop"
    assert cut["message"]["content"] == full[: full.index(stop)]
    said = _streamed(served, text, max_tokens=40, temperature=0, stop=stop)
    assert "".join(event["choices"][0]["delta"]["content"] for event in said[:-1]) == full[: full.index(stop)]


def test_n_choices_are_answered_and_counted(served: Served) -> None:
    body = served.chat(low_entropy("n", 2000), n=3, max_tokens=5).body
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2]
    assert body["usage"]["completion_tokens"] == 15


def test_a_schema_is_kept_to(served: Served) -> None:
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 3, "maxLength": 12},
            "kind": {"enum": ["red", "green", "blue"]},
            "size": {"type": "integer", "minimum": 3, "maximum": 5},
            "tags": {"type": "array", "items": {"type": "string"}, "minItems": 2},
            "nested": COUNT,
            "sure": {"type": "boolean"},
        },
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "thing", "schema": schema}}
    for seed in range(5):
        reply = served.chat(low_entropy("schema", 2000), response_format=wanted, max_tokens=400, seed=seed)
        said = json.loads(_message(reply)["content"])
        assert list(said) == list(schema["properties"])
        assert 3 <= len(said["name"]) <= 12
        assert said["kind"] in ("red", "green", "blue")
        assert said["size"] in (3, 4, 5)
        assert len(said["tags"]) == 2
        assert isinstance(said["nested"]["count"], int)
        assert said["sure"] in (True, False)


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "find_city"}}, "auto"])
def test_a_tool_is_called_with_arguments_that_parse(served: Served, choice: Any) -> None:
    reply = served.chat("Please use find_city now.", tools=[TOOL], tool_choice=choice, max_tokens=100)
    call = _message(reply)["tool_calls"][0]
    assert reply.body["choices"][0]["finish_reason"] == "tool_calls"
    assert call["function"]["name"] == "find_city"
    assert set(json.loads(call["function"]["arguments"])) == {"city", "count"}


def test_a_streamed_tool_call_adds_up_to_the_same_arguments(served: Served) -> None:
    options = {"tools": [TOOL], "tool_choice": "required", "max_tokens": 100, "temperature": 0}
    whole = _message(served.chat("Which city?", **options))["tool_calls"][0]["function"]
    deltas = [
        event["choices"][0]["delta"]["tool_calls"][0]["function"]
        for event in _streamed(served, "Which city?", **options)[:-1]
    ]
    assert deltas[0]["name"] == whole["name"]
    assert "".join(delta["arguments"] for delta in deltas) == whole["arguments"]


def test_a_tool_nobody_mentions_is_left_alone(served: Served) -> None:
    message = _message(served.chat("Good morning.", tools=[TOOL], max_tokens=5))
    assert "tool_calls" not in message
    assert message["content"]


@pytest.mark.parametrize("characters", [1500, 20_000, 120_000])
def test_planted_facts_are_answered_cold_and_warm(served: Served, characters: int) -> None:
    facts = {f"harbour{characters}": "K7Q2ZXP4TB9M", "lantern": "X3N8W1VC6R5D", "meadow": "J5H2L9SG7F4A"}
    lines = low_entropy(f"facts {characters}", characters).split("\n")
    for depth, (key, code) in zip((0.1, 0.5, 0.9), facts.items(), strict=True):
        lines.insert(int(len(lines) * depth), f"The code for {key} is {code}.")
    for key, code in facts.items():
        for _ in range(2):
            reply = served.chat("\n".join(lines) + f"\nWhat is the code for {key}?", max_tokens=64, temperature=0)
            assert code in _message(reply)["content"]


def test_text_with_characters_of_many_bytes_comes_back_whole(served: Served) -> None:
    text = "Der Schlüssel für Zürich ist größer als 東京 und kostet 5 €.\n" * 8
    said = _streamed(served, text + "Der Schlüssel für", max_tokens=30, temperature=0)
    spoken = "".join(event["choices"][0]["delta"]["content"] for event in said[:-1])
    assert spoken.startswith(" Zürich ist größer als 東京")
    assert "�" not in spoken


def test_plain_completions_take_text_and_token_ids(served: Served) -> None:
    text = low_entropy("plain", 2000)
    tokens = served.post("/tokenize", prompt=text).body["tokens"]
    replies = [served.post(PLAIN, prompt=each, max_tokens=6, temperature=0, logprobs=2) for each in (text, tokens)]
    first, second = (reply.body["choices"][0] for reply in replies)
    assert first == second
    assert len(first["logprobs"]["token_logprobs"]) == 6
    assert "".join(first["logprobs"]["tokens"]) == first["text"]
    batch = served.post(PLAIN, prompt=[text, "other"], max_tokens=2).body["choices"]
    assert [choice["index"] for choice in batch] == [0, 1]
    said = events(served.post(PLAIN, prompt=text, max_tokens=6, temperature=0, stream=True).raw)
    assert "".join(event["choices"][0]["text"] for event in said[:-1]) == first["text"]


def test_tokenize_and_detokenize_are_inverse(served: Served) -> None:
    tokens = served.post("/tokenize", prompt="Grüße an 3 Leute").body
    assert tokens["count"] == len(tokens["tokens"])
    assert served.post("/detokenize", tokens=tokens["tokens"]).body == {"prompt": "Grüße an 3 Leute"}


def test_a_reset_cache_makes_the_next_send_cold_and_a_salt_keeps_apart(served: Served) -> None:
    text = low_entropy("reset", 3000)
    cached = []
    for salt, reset in ((None, False), (None, False), ("pepper", False), (None, True)):
        if reset:
            assert served.post("/reset_prefix_cache").status == 200
        usage = served.chat(text, max_tokens=1, cache_salt=salt).body["usage"]
        cached.append(usage["prompt_tokens_details"]["cached_tokens"])
    assert cached[0] == cached[2] == cached[3] == 0
    assert cached[1] > 0


BAD = [
    (b"{", 400, "not JSON"),
    (b"[1]", 400, "JSON object"),
    (b"\xff\xfe", 400, "not JSON"),
    (b"{}", 400, "messages"),
    (b'{"messages": []}', 400, "messages"),
    (b'{"messages": [{"role": "pirate", "content": "x"}]}', 400, "role"),
    (b'{"messages": [{"role": "user", "content": 5}]}', 400, "content"),
    (
        b'{"messages": [{"role": "user", "content": "x"}], "max_tokens": -1}',
        400,
        "at least 1, got -1",
    ),
    (b'{"messages": [{"role": "user", "content": "x"}], "temperature": "hot"}', 400, "temperature"),
    (b'{"messages": [{"role": "user", "content": "x"}], "n": 100}', 400, "n must be at most"),
    (b'{"messages": [{"role": "user", "content": "x"}], "stop": [1]}', 400, "stop"),
    (b'{"messages": [{"role": "user", "content": "x"}], "model": "nope"}', 404, "nope"),
    (b'{"messages": [{"role": "user", "content": "x"}], "response_format": {"type": "xml"}}', 400, "response_format"),
    (b'{"messages": [{"role": "user", "content": "x"}], "tool_choice": "perhaps"}', 400, "tool_choice"),
    (b"[" * 100_000, 400, "not JSON"),
]


@pytest.mark.parametrize(("body", "status", "word"), BAD)
def test_a_bad_body_is_refused_with_an_error_object(served: Served, body: bytes, status: int, word: str) -> None:
    reply = served.request("POST", CHAT, body)
    assert reply.status == status
    assert word in reply.body["error"]["message"]
    assert set(reply.body["error"]) == {"message", "type", "param", "code"}


def test_unknown_fields_are_ignored(served: Served) -> None:
    assert served.chat("Hello", max_tokens=1, frobnicate={"deep": [1]}, logit_bias=None).status == 200


def test_a_wrong_path_or_method_gets_an_error_object(served: Served) -> None:
    assert served.request("GET", "/nowhere").body["error"]["code"] == 404
    assert served.request("GET", "/tokenize").body["error"]["code"] == 405


def test_a_prompt_over_the_context_is_refused_with_both_numbers(served: Served) -> None:
    reply = served.post(PLAIN, prompt=[300] * 70_000, max_tokens=1)
    assert reply.status == 400
    assert "65536" in reply.body["error"]["message"]
    assert "70000" in reply.body["error"]["message"]


def test_a_text_that_must_be_over_the_context_is_refused_uncounted(served: Served) -> None:
    reply = served.chat("x" * 2_000_000)
    assert reply.status == 400
    assert "at least 117647" in reply.body["error"]["message"]


def test_a_huge_body_is_refused(served: Served) -> None:
    assert served.request("POST", CHAT, b" " * (17 * 2**20)).status == 413


def test_a_prompt_over_the_pool_is_refused_with_both_numbers() -> None:
    with serving("--memory-limit", "35.5G") as small:
        reply = small.post(PLAIN, prompt=[300] * 7000, max_tokens=1)
        assert reply.status == 400
        assert "7000" in reply.body["error"]["message"]
        assert "6144" in reply.body["error"]["message"]


def test_metrics_have_the_four_names_of_the_report_and_more(served: Served) -> None:
    metrics = served.metrics()
    for name in ("free_kv_tokens", "cached_kv_tokens", "free_snapshots", "requests_failed_total"):
        assert f"flare_{name}" in metrics
    assert metrics["process_start_time_seconds"] > 0
    assert metrics["flare_kv_capacity_tokens"] == 1200 * 128


def test_the_models_and_health_pages_answer(served: Served) -> None:
    card = served.request("GET", "/v1/models").body["data"][0]
    assert card["max_model_len"] >= 40_000
    assert served.request("GET", "/health").status == 200


def test_the_pool_page_shows_owners_aliases_and_slots(served: Served) -> None:
    served.chat(low_entropy("pool page", 3000), max_tokens=1)
    state = served.request("GET", "/debug/pool?format=json").body
    assert sum(state["owners"].values()) == state["pages"] == 1200
    assert state["owners"]["snapshot alias"] > 36
    assert sum(slot["used"] for slot in state["slot_table"]) == state["slots"] - state["free_slots"] > 0
    assert b"snapshot alias" in served.request("GET", "/debug/pool").raw


def test_64_streams_are_served_together(served: Served) -> None:
    replies: list[list[Any]] = [[] for _ in range(64)]

    def ask(index: int) -> None:
        replies[index] = _streamed(served, low_entropy(f"stream {index}", 600), max_tokens=20)

    threads = [threading.Thread(target=ask, args=(index,)) for index in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert all(said[-1] == "[DONE]" for said in replies)
    assert all(said[-2]["choices"][0]["finish_reason"] == "length" for said in replies)


def test_metrics_answer_while_a_prompt_is_computed() -> None:
    with serving("--memory-limit", "40G", "--step-delay", "0.2") as slow:
        text = low_entropy("slow", 140_000)
        with half_open(slow, CHAT, messages=[{"role": "user", "content": text}], max_tokens=400) as connection:
            running = settled(slow, requests_running=1)
            assert running["flare_requests_running"] == 1
            assert running["flare_generation_tokens_total"] == 0
            connection.close()


def _body(text: str, **options: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 3000, "ignore_eos": True, **options}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("characters", [400, 100_000])
def test_a_client_that_leaves_takes_its_request_with_it(stream: bool, characters: int) -> None:
    with serving("--memory-limit", "38G", "--audit", "--step-delay", "0.01") as patient:
        before = patient.metrics()
        with half_open(patient, CHAT, **_body(low_entropy("gone", characters), stream=stream)) as connection:
            assert settled(patient, requests_running=1)["flare_requests_running"] == 1
            connection.close()
        after = settled(patient, requests_cancelled_total=1, requests_running=0)
    for name in ("free_kv_tokens", "cached_kv_tokens", "free_snapshots", "requests_running", "requests_waiting"):
        assert after[f"flare_{name}"] == before[f"flare_{name}"]
    assert after["flare_requests_cancelled_total"] == 1


def test_a_client_that_leaves_the_queue_is_forgotten() -> None:
    with serving("--memory-limit", "38G", "--max-running", "1", "--step-delay", "0.01") as patient:
        with half_open(patient, CHAT, **_body("first")):
            settled(patient, requests_running=1)
            with half_open(patient, CHAT, **_body("second")):
                assert settled(patient, requests_waiting=1)["flare_requests_waiting"] == 1
            assert settled(patient, requests_waiting=0)["flare_requests_waiting"] == 0
        assert settled(patient, requests_running=0)["flare_requests_cancelled_total"] == 2


def test_a_reset_in_the_middle_of_a_body_is_survived(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as connection:
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert served.chat("Still there", max_tokens=1).status == 200


def test_a_client_that_does_not_read_holds_up_nobody(served: Served) -> None:
    with half_open(served, CHAT, **_body("slow reader", stream=True, logprobs=True, top_logprobs=20)):
        assert served.chat("Quick question", max_tokens=4).status == 200


def test_a_failed_request_streams_an_error_event_and_no_done() -> None:
    with serving("--memory-limit", "38G", "--device-error", "INVALID_DISTRIBUTION") as buggy:
        said: list[Any] = []
        for seed in range(30):
            text = low_entropy(f"fail {seed}", (40_000, 80_000)[seed % 2])
            buggy.chat(text, max_tokens=1)
            said = events(buggy.chat(text, max_tokens=8, stream=True).raw)
            if said[-1] != "[DONE]":
                break
        assert said[-1]["error"]["message"] == "prepared model reported device error 7"
        assert said[-1]["error"]["code"] == "INVALID_DISTRIBUTION"
        assert buggy.metrics()["flare_requests_failed_total"] == 1
