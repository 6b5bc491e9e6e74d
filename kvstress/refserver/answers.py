"""The shapes of answers: chat and plain, whole and streamed, with usage and log probabilities."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import time
from typing import Any
from uuid import uuid4

from kvstress.refserver import tokenizer
from kvstress.refserver.requests import MODEL, Ask
from kvstress.refserver.sampling import TokenLogprob
from kvstress.refserver.sequence import Chunk


@dataclass(slots=True, kw_only=True)
class Usage:
    """Token counts of one request, over all its choices."""

    prompt: int
    completion: int = 0
    cached: int = 0

    def body(self) -> dict[str, Any]:
        """The usage object."""
        return {
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
            "prompt_tokens_details": {"cached_tokens": self.cached},
        }


@dataclass(slots=True, kw_only=True)
class Envelope:
    """What all chunks of one answer share."""

    ask: Ask
    id: str = ""
    created: int = field(default_factory=lambda: int(time()))

    def __post_init__(self) -> None:
        self.id = ("chatcmpl-" if self.ask.is_chat else "cmpl-") + uuid4().hex[:16]

    def body(self, choices: list[dict[str, Any]], usage: Usage | None) -> dict[str, Any]:
        """A whole answer."""
        kind = "chat.completion" if self.ask.is_chat else "text_completion"
        return self._envelope(kind, choices) | {"usage": usage.body() if usage else None}

    def chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        """One event of a stream."""
        return self._envelope("chat.completion.chunk" if self.ask.is_chat else "text_completion", choices)

    def usage_chunk(self, usage: Usage) -> dict[str, Any]:
        """The event after the last choice, when usage was asked for."""
        return self.chunk([]) | {"usage": usage.body()}

    def _envelope(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": MODEL, "choices": choices}


def opening(index: int, ask: Ask) -> dict[str, Any]:
    """The first event of a chat choice: the role, and the tool that is called."""
    said: dict[str, Any] = {"role": "assistant", "content": "" if ask.tool is None else None}
    if ask.tool is not None:
        said["tool_calls"] = [_call(ask.tool, "")]
    return {"index": index, "delta": said, "logprobs": None, "finish_reason": None}


def delta(index: int, chunk: Chunk, ask: Ask, offset: int = 0) -> dict[str, Any]:
    """A choice inside a stream event; `offset` is the length of the text before."""
    common: dict[str, Any] = {"index": index, "finish_reason": _reason(chunk, ask)}
    if not ask.is_chat:
        return common | {"text": chunk.text, "logprobs": _plain_logprobs(chunk.logprobs, offset)}
    said: dict[str, Any] = {"content": chunk.text}
    if ask.tool is not None:
        said = {"tool_calls": [{"index": 0, "function": {"arguments": chunk.text}}]}
    return common | {"delta": said, "logprobs": _chat_logprobs(chunk.logprobs)}


def choice(index: int, whole: Chunk, ask: Ask) -> dict[str, Any]:
    """A choice of a whole answer."""
    common: dict[str, Any] = {"index": index, "finish_reason": _reason(whole, ask)}
    if not ask.is_chat:
        return common | {"text": whole.text, "logprobs": _plain_logprobs(whole.logprobs, 0)}
    message: dict[str, Any] = {"role": "assistant", "content": whole.text}
    if ask.tool is not None:
        message |= {"content": None, "tool_calls": [_call(ask.tool, whole.text)]}
    return common | {"message": message, "logprobs": _chat_logprobs(whole.logprobs)}


def _call(tool: str, arguments: str) -> dict[str, Any]:
    function = {"name": tool, "arguments": arguments}
    return {"index": 0, "id": f"call_{uuid4().hex[:16]}", "type": "function", "function": function}


def _reason(chunk: Chunk, ask: Ask) -> str | None:
    return "tool_calls" if ask.tool is not None and chunk.finish_reason == "stop" else chunk.finish_reason


def _spelling(token: int) -> dict[str, Any]:
    raw = tokenizer.token_bytes(token)
    return {"token": raw.decode("utf-8", "replace"), "bytes": list(raw)}


def _chat_logprobs(logprobs: tuple[TokenLogprob, ...]) -> dict[str, Any] | None:
    if not logprobs:
        return None
    return {"content": [_chat_logprob(each) for each in logprobs]}


def _chat_logprob(each: TokenLogprob) -> dict[str, Any]:
    top = [_spelling(token) | {"logprob": logprob} for token, logprob in each.top]
    return _spelling(each.token) | {"logprob": each.logprob, "top_logprobs": top}


def _plain_logprobs(logprobs: tuple[TokenLogprob, ...], offset: int) -> dict[str, Any] | None:
    if not logprobs:
        return None
    spelled = [_spelling(each.token)["token"] for each in logprobs]
    offsets = [offset + len("".join(spelled[:index])) for index in range(len(spelled))]
    return {
        "tokens": spelled,
        "token_logprobs": [each.logprob for each in logprobs],
        "top_logprobs": [{_spelling(token)["token"]: logprob for token, logprob in each.top} for each in logprobs],
        "text_offset": offsets,
    }
