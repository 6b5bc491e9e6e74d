"""Only those fields of an answer that an oracle may ask for, typed, so that decoding is one pass over the bytes.

Chat and legacy completions, streamed chunks and whole bodies differ in so few fields that one shape covers all
four; servers mix them up, too. Anything not named here is skipped, but still checked for being JSON: msgspec
rejects the literals NaN and Infinity, which the standard library's parser lets pass and which
are a symptom worth seeing.
"""

from typing import Any

import msgspec

JSON = dict[str, Any] | list[Any] | str | int | float | bool | None


class Part(msgspec.Struct, gc=False):
    """One part of a content that is a list."""

    text: str | None = None


class Function(msgspec.Struct, gc=False):
    """A call, or a piece of one. Some servers send `arguments` as an object instead of its text."""

    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class ToolCall(msgspec.Struct, gc=False):
    """A tool call, or a piece of one."""

    index: int | None = None
    id: str | None = None
    function: Function | None = None


class Message(msgspec.Struct):
    """A streamed `delta` or a whole `message`. Reasoning goes by two names."""

    content: str | list[Part] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[ToolCall] | None = None
    function_call: Function | None = None


class Alternative(msgspec.Struct, gc=False):
    """A token that could have been chosen; `logprob` in nat."""

    token: str = ""
    logprob: float | None = None


class Token(msgspec.Struct):
    """A chosen token with its alternatives."""

    token: str = ""
    logprob: float | None = None
    top_logprobs: list[Alternative] | None = None


class Logprobs(msgspec.Struct):
    """Both shapes: `content` is the chat one, the other three are the parallel lists of legacy completions."""

    content: list[Token] | None = None
    tokens: list[str] | None = None
    token_logprobs: list[float | None] | None = None
    top_logprobs: list[dict[str, float | None] | None] | None = None


class ChoicePiece(msgspec.Struct):
    """One choice of a chunk (`delta`, `text`) or of a whole answer (`message`, `text`)."""

    index: int = 0
    delta: Message | None = None
    message: Message | None = None
    text: str | None = None
    finish_reason: str | None = None
    logprobs: Logprobs | None = None


class Details(msgspec.Struct, gc=False):
    """The part of a usage detail object that counts."""

    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class UsageCounts(msgspec.Struct):
    """`usage` as sent."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: Details | None = None
    completion_tokens_details: Details | None = None


class Piece(msgspec.Struct):
    """A chunk or a body. `error`, `detail` and `message` are the places where servers put what went wrong."""

    id: str | int | None = None
    model: str | None = None
    choices: list[ChoicePiece] | None = None
    usage: UsageCounts | None = None
    error: JSON = None
    detail: JSON = None
    message: JSON = None

    def failure(self) -> JSON:
        """What the server says went wrong, in whichever place it said it; None when it says nothing of the kind."""
        if self.error:
            return self.error
        if self.choices is None:
            return self.detail or (self.message if isinstance(self.message, str) else None) or None
        return None


decode = msgspec.json.Decoder(Piece).decode
