"""One choice of an answer, growing piece by piece.

Pieces are kept apart until the end: adding each to a string would copy the whole text per token. Log-probabilities
come in two shapes that mean the same; they leave here as one.
"""

from typing import Any, Final, TypeVar

import msgspec

from kvstress.client.shapes import ChoicePiece, Function, Logprobs, Message, Token, ToolCall
from kvstress.core.exchange import Choice, TokenLogprob

T = TypeVar("T")

FINISHED: Final = frozenset({"stop", "length", "tool_calls", "function_call", "content_filter"})


class _Call:
    """A tool call whose arguments are still coming."""

    __slots__ = ("arguments", "id", "name")

    def __init__(self) -> None:
        self.id: str | None = None
        self.name = ""
        self.arguments: list[str] = []

    def add(self, function: Function) -> bool:
        given = function.arguments
        if isinstance(given, dict):
            given = msgspec.json.encode(given).decode()
        if given:
            self.arguments.append(given)
        self.name += function.name or ""
        return bool(given or function.name)


class Growing:
    """What has come of one choice so far. `finish_reason` is the last non-empty one."""

    __slots__ = ("_calls", "_logprobs", "_reasoning", "_text", "finish_reason", "finishes", "index")

    def __init__(self, index: int) -> None:
        self.index = index
        self.finish_reason: str | None = None
        self.finishes = 0
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[int, _Call] = {}
        self._logprobs: list[Logprobs] = []

    def add(self, piece: ChoicePiece) -> bool:
        """Take one piece; True when it carried content: text, reasoning, or a part of a tool call."""
        grown = False
        if message := piece.delta or piece.message:
            grown = self._say(message)
        if piece.text:
            self._text.append(piece.text)
            grown = True
        # Some servers send "" on every chunk before the last; that is not a reason to have finished.
        if piece.finish_reason:
            self.finish_reason = piece.finish_reason
            self.finishes += 1
        if piece.logprobs is not None:
            self._logprobs.append(piece.logprobs)
        return grown

    def _say(self, message: Message) -> bool:
        content = message.content
        if isinstance(content, list):
            content = "".join(part.text or "" for part in content)
        if content:
            self._text.append(content)
        # Servers that send both names say the same under each.
        reasoning = message.reasoning_content or message.reasoning
        if reasoning:
            self._reasoning.append(reasoning)
        called = self._call(message) if message.tool_calls or message.function_call else False
        return bool(content or reasoning or called)

    def _call(self, message: Message) -> bool:
        grown = False
        for place, given in enumerate(message.tool_calls or ()):
            grown |= self._call_at(place if given.index is None else given.index, given)
        if message.function_call is not None:
            grown |= self._call_at(0, ToolCall(function=message.function_call))
        return grown

    def _call_at(self, place: int, given: ToolCall) -> bool:
        call = self._calls.setdefault(place, _Call())
        call.id = given.id or call.id
        return call.add(given.function) if given.function is not None else False

    def choice(self) -> Choice:
        """The choice as it stands. Tool calls become JSON: a list of {"id", "name", "arguments"}, "" when none came."""
        return Choice(
            index=self.index,
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            tool_calls=self._calls_as_json(),
            finish_reason=self.finish_reason,
            logprobs=_tokens(self._logprobs),
        )

    def _calls_as_json(self) -> str:
        calls: list[dict[str, Any]] = [
            {"id": call.id, "name": call.name, "arguments": "".join(call.arguments)}
            for _, call in sorted(self._calls.items())
        ]
        return msgspec.json.encode(calls).decode() if calls else ""


def _tokens(pieces: list[Logprobs]) -> tuple[TokenLogprob, ...] | None:
    """All tokens of an answer in order; None when the server sent no log-probabilities."""
    if not pieces:
        return None
    return tuple(token for piece in pieces for token in (_chat(piece.content) if piece.content else _legacy(piece)))


def _chat(content: list[Token]) -> list[TokenLogprob]:
    return [
        TokenLogprob(
            token=token.token,
            logprob=token.logprob,
            top=tuple((other.token, other.logprob) for other in token.top_logprobs or ()),
        )
        for token in content
    ]


def _legacy(piece: Logprobs) -> list[TokenLogprob]:
    """The parallel lists of legacy completions; a list that is too short leaves its value unobserved."""
    logprobs, top = piece.token_logprobs, piece.top_logprobs
    return [
        TokenLogprob(token=token, logprob=_at(logprobs, place), top=tuple((_at(top, place) or {}).items()))
        for place, token in enumerate(piece.tokens or ())
    ]


def _at(values: list[T | None] | None, place: int) -> T | None:
    return values[place] if values is not None and place < len(values) else None
