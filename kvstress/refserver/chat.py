"""From chat messages to one run of tokens, and to the words the answer should follow on from.

An induction head continues what it has seen before. Asked "What is the code for KEY?" it must look for what followed
"the code for KEY" earlier, so the answer's context ends before the last question mark, not at the template's closing
tokens. Without a question it is the end of the last message.
"""

from __future__ import annotations

from typing import Any

from kvstress.refserver import tokenizer
from kvstress.refserver.model import HISTORY
from kvstress.refserver.sequence import Prompt
from kvstress.refserver.wire import BadRequest, compact_json

_ROLES = {
    "system": tokenizer.SYSTEM,
    "developer": tokenizer.SYSTEM,
    "user": tokenizer.USER,
    "assistant": tokenizer.ASSISTANT,
    "tool": tokenizer.TOOL,
}
_QUESTION_REACH = 300


def render(messages: list[dict[str, Any]], tools: list[Any], salt: str) -> Prompt:
    """The prompt of a conversation. Raises BadRequest for a message that cannot be read."""
    texts = [message_text(message, f"messages[{index}]") for index, message in enumerate(messages)]
    tokens = [tokenizer.BOS]
    if tools:
        tokens += [tokenizer.TOOL, *tokenizer.encode(compact_json(tools)), tokenizer.END]
    for message, text in zip(messages, texts, strict=True):
        tokens += [_ROLES[message["role"]], *tokenizer.encode(text), tokenizer.END]
    tokens.append(tokenizer.ASSISTANT)
    context, question = answer_context(texts[-1])
    return Prompt(tokens=tokens, context=context, question=question, salt=salt)


def render_text(text: str, salt: str) -> Prompt:
    """The prompt of a plain completion."""
    return render_tokens([tokenizer.BOS, *tokenizer.encode(text)], salt)


def render_tokens(tokens: list[int], salt: str) -> Prompt:
    """The prompt of a completion given as token ids."""
    return Prompt(tokens=tokens, context=tokens[-HISTORY:], salt=salt)


def message_text(message: Any, where: str) -> str:
    """All text of a message, tool calls as JSON. Raises BadRequest."""
    if not isinstance(message, dict) or message.get("role") not in _ROLES:
        raise BadRequest(f"{where} must be an object with a role out of {', '.join(_ROLES)}", where)
    calls = message.get("tool_calls")
    return _content_text(message.get("content"), f"{where}.content") + (compact_json(calls) if calls else "")


def _content_text(content: Any, where: str) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise BadRequest(f"{where} must be a string or a list of parts", where)
    texts = [part.get("text", "") for part in content if part.get("type") in ("text", "input_text")]
    if len(texts) < len(content) or not all(isinstance(text, str) for text in texts):
        raise BadRequest(f"{where}: this model reads text parts only", where)
    return "".join(texts)


def answer_context(text: str) -> tuple[list[int], bool]:
    """The last tokens the answer should follow on from, and whether a question was asked."""
    mark = text.rfind("?", max(0, len(text) - _QUESTION_REACH))
    end = mark if mark > 0 else len(text.rstrip(" \n.!:;,?\"'`)"))
    return tokenizer.encode(text[max(0, end - _QUESTION_REACH) : end])[-HISTORY:], mark > 0
