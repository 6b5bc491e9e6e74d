"""The body of a chat completion request, with nothing in it that was not asked for.

Servers differ most in what they do with a key that they half know; a key that a workload does
not set is therefore absent, not null.
"""

from collections.abc import Mapping
from typing import Any

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"

Messages = tuple[Mapping[str, Any], ...]


def chat(
    messages: Messages,
    *,
    model: str | None,
    max_tokens: int,
    temperature: float,
    top_p: float | None = None,
    seed: int | None = None,
    stream: bool = False,
    logprobs: int | None = None,
) -> dict[str, Any]:
    """A `/v1/chat/completions` body; a streamed one asks for usage on its last chunk, `logprobs` is alternatives."""
    optional = {"model": model, "top_p": top_p, "seed": seed}
    return {
        **{key: value for key, value in optional.items() if value is not None},
        "messages": [dict(message) for message in messages],
        "max_tokens": max_tokens,
        "temperature": temperature,
        "stream": stream,
        **({"stream_options": {"include_usage": True}} if stream else {}),
        **({"logprobs": True, "top_logprobs": logprobs} if logprobs else {}),
    }


def completion(
    prompt: str | tuple[int, ...],
    *,
    model: str | None,
    max_tokens: int,
    temperature: float,
    top_p: float | None = None,
    seed: int | None = None,
    stream: bool = False,
    logprobs: int | None = None,
) -> dict[str, Any]:
    """A `/v1/completions` body, whose prompt is text or token ids and meets no chat template; otherwise as `chat`."""
    optional = {"model": model, "top_p": top_p, "seed": seed}
    return {
        **{key: value for key, value in optional.items() if value is not None},
        "prompt": prompt if isinstance(prompt, str) else list(prompt),
        "max_tokens": max_tokens,
        "temperature": temperature,
        "stream": stream,
        **({"stream_options": {"include_usage": True}} if stream else {}),
        **({"logprobs": logprobs} if logprobs else {}),
    }


def user(text: str) -> Messages:
    """One user message."""
    return ({"role": "user", "content": text},)
