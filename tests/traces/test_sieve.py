"""What of a recorded request passes: text, calls and functions, and no key from wherever a gateway put it."""

import json
from pathlib import Path
from typing import Any

import pytest

from kvstress.harness.importing import import_trace

FUNCTION = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
REMOTE = {"type": "mcp", "server_url": "https://h.example/?key=verysecret", "headers": {"Authorization": "verysecret"}}
HIDDEN: dict[str, dict[str, Any]] = {
    "a field of a message": {"messages": [{"role": "user", "content": "x", "api_key": "verysecret"}]},
    "a picture's address": {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "x", "auth": "verysecret"},
                    {"type": "image_url", "image_url": {"url": "https://h.example/a.png?sig=verysecret"}},
                ],
            }
        ]
    },
    "a message of a picture only": {
        "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "verysecret"}}]}]
    },
    "a call's extras": {
        "messages": [
            {"role": "user", "content": "x"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}", "auth": "verysecret"}}],
            },
        ]
    },
    "a remote tool": {"messages": [{"role": "user", "content": "x"}], "tools": [REMOTE, FUNCTION]},
    "a function's extras": {
        "messages": [{"role": "user", "content": "x"}],
        "tools": [{**FUNCTION, "headers": "verysecret"}],
        "tool_choice": REMOTE,
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}, "auth": "verysecret"}},
        "stop": {"auth": "verysecret"},
    },
}


def turn(body: dict[str, Any], folder: Path) -> tuple[dict[str, Any], str]:
    (folder / "given.jsonl").write_text(json.dumps({"body": {"model": "m", **body}}) + "\n")
    found = import_trace(folder / "given.jsonl", folder / "w.toml", None, overwrite=True)
    text = found.trace.read_text()
    return json.loads(text), text + found.workload.read_text() + "\n".join(found.told)


@pytest.mark.parametrize("place", HIDDEN)
def test_a_key_passes_from_nowhere_in_a_body(place: str, tmp_path: Path) -> None:
    assert "verysecret" in json.dumps(HIDDEN[place])
    assert "verysecret" not in turn(HIDDEN[place], tmp_path)[1]


def test_a_session_that_is_called_by_an_address_is_told_apart_but_not_named(tmp_path: Path) -> None:
    names = ["https://h.example/?key=verysecret1", "https://h.example/?key=verysecret2", "plain-1"]
    rows = [{"session_id": name, "body": {"messages": [{"role": "user", "content": name[-1]}]}} for name in names]
    (tmp_path / "given.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = import_trace(tmp_path / "given.jsonl", tmp_path / "w.toml", None, overwrite=True).trace.read_text()
    assert "verysecret" not in text
    sessions = [json.loads(line)["session"] for line in text.splitlines()]
    assert sessions[2] == "plain-1"
    assert len(set(sessions)) == 3


def test_what_is_asked_and_offered_passes_as_it_was(tmp_path: Path) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "x"}], "name": "n"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "y", "tool_call_id": "1"},
    ]
    asked = {
        "tools": [FUNCTION],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
        "stop": ["a", "b"],
        "temperature": 0.5,
    }
    found, _ = turn({"messages": messages, **asked}, tmp_path)
    assert found["messages"] == messages
    assert found["asked"] == asked


def test_what_stays_behind_is_counted(tmp_path: Path) -> None:
    _, told = turn(HIDDEN["a remote tool"], tmp_path)
    assert "left out: 1 × a tool that is not a function" in told
    _, told = turn(HIDDEN["a picture's address"], tmp_path)
    assert "left out: 1 × a part of a message that is not text" in told
    _, told = turn(HIDDEN["a field of a message"], tmp_path)
    assert "unknown fields, not sent: api_key (1)" in told
