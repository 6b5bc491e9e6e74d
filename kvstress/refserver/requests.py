"""What a client asked for, checked and made plain before the engine hears of it.

Unknown fields are ignored, as real servers do; known ones of the wrong type or range are refused by name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from kvstress.refserver import chat, tokenizer, wire
from kvstress.refserver.geometry import MAX_CONTEXT_TOKENS
from kvstress.refserver.sampling import SamplingParams
from kvstress.refserver.sequence import Limits, Prompt
from kvstress.refserver.structure import shape_of
from kvstress.refserver.wire import BadRequest

MODEL = "kvstress-reference"
DEFAULT_MAX_TOKENS = 256
MAX_CHOICES = 16
MAX_STOPS = 16
# No token stands for more bytes than this, so a longer text is over the context without being counted.
_LONGEST_TOKEN_BYTES = 17


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A generation request. There are `n` answers to each of `prompts`."""

    prompts: tuple[Prompt, ...]
    params: SamplingParams
    limits: Limits
    seeded: bool
    n: int
    stream: bool
    include_usage: bool
    is_chat: bool
    tool: str | None = None


def parse_chat(body: dict[str, Any], pool_tokens: float) -> Ask:
    """A chat completion. Raises BadRequest."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequest("messages must be a list with at least one message", "messages")
    salt = wire.text(body, "cache_salt", "")
    _refuse_hopeless(sum(len(chat.message_text(each, "messages")) for each in messages))
    shape = shape_of(body)
    prompt = chat.render(messages, body.get("tools") or [], salt)
    count = wire.integer(body, "top_logprobs", 0, 0, 20)
    ask = _ask(body, [prompt], count if wire.flag(body, "logprobs") else None, pool_tokens, is_chat=True)
    return replace(ask, limits=replace(ask.limits, script=shape.script), tool=shape.tool)


def parse_completion(body: dict[str, Any], pool_tokens: float) -> Ask:
    """A plain completion: a text, token ids, or a list of either. Raises BadRequest."""
    salt = wire.text(body, "cache_salt", "")
    prompts = [_prompt(each, salt) for each in _as_list(body.get("prompt"))]
    count = None if body.get("logprobs") is None else wire.integer(body, "logprobs", 0, 0, 20)
    return _ask(body, prompts, count, pool_tokens, is_chat=False)


def _as_list(prompt: Any) -> list[Any]:
    """The prompts in the four forms the API allows."""
    if isinstance(prompt, str):
        return [prompt]
    if isinstance(prompt, list) and prompt:
        return [prompt] if isinstance(prompt[0], int) else prompt
    raise BadRequest("prompt must be a string, a list of token ids, or a list of either", "prompt")


def _prompt(prompt: Any, salt: str) -> Prompt:
    if isinstance(prompt, str):
        _refuse_hopeless(len(prompt))
        return chat.render_text(prompt, salt)
    if not isinstance(prompt, list) or not prompt or not all(type(token) is int for token in prompt):
        raise BadRequest("prompt must be a string, a list of token ids, or a list of either", "prompt")
    if min(prompt) < 0 or max(prompt) >= tokenizer.VOCABULARY_SIZE:
        raise BadRequest(f"prompt: token ids lie between 0 and {tokenizer.VOCABULARY_SIZE - 1}", "prompt")
    return chat.render_tokens(prompt, salt)


def _ask(
    body: dict[str, Any], prompts: list[Prompt], logprobs: int | None, pool_tokens: float, *, is_chat: bool
) -> Ask:
    model = wire.text(body, "model", MODEL)
    if model != MODEL:
        raise BadRequest(f"The model `{model[:100]}` does not exist, this server has `{MODEL}`", "model", 404)
    options = body.get("stream_options") or {}
    if not isinstance(options, dict):
        raise BadRequest("stream_options must be an object", "stream_options")
    longest = max(len(prompt.tokens) for prompt in prompts)
    _refuse_long(longest, pool_tokens)
    return Ask(
        prompts=tuple(prompts),
        params=_params(body, logprobs),
        limits=_limits(body, longest),
        seeded=body.get("seed") is not None,
        n=wire.integer(body, "n", 1, 1, MAX_CHOICES),
        stream=wire.flag(body, "stream"),
        include_usage=wire.flag(options, "include_usage"),
        is_chat=is_chat,
    )


def _params(body: dict[str, Any], logprobs: int | None) -> SamplingParams:
    return SamplingParams(
        temperature=wire.number(body, "temperature", 1.0, 0.0, 10.0),
        top_p=wire.number(body, "top_p", 1.0, 1e-6, 1.0),
        top_k=max(0, wire.integer(body, "top_k", 0, -1, tokenizer.VOCABULARY_SIZE)),
        seed=wire.integer(body, "seed", 0, -(2**63), 2**63 - 1),
        logprobs=logprobs,
    )


def _limits(body: dict[str, Any], longest: int) -> Limits:
    room = MAX_CONTEXT_TOKENS - longest
    name = "max_completion_tokens" if body.get("max_completion_tokens") is not None else "max_tokens"
    wanted = wire.integer(body, name, DEFAULT_MAX_TOKENS, 1, 2**31)
    return Limits(max_tokens=min(wanted, room), stop=_stops(body.get("stop")), ignore_eos=wire.flag(body, "ignore_eos"))


def _stops(stop: Any) -> tuple[str, ...]:
    stops = [stop] if isinstance(stop, str) else stop or []
    if not isinstance(stops, list) or len(stops) > MAX_STOPS or not all(isinstance(each, str) for each in stops):
        raise BadRequest(f"stop must be a string or a list of at most {MAX_STOPS} strings", "stop")
    return tuple(each for each in stops if each)


def _refuse_hopeless(characters: int) -> None:
    """Refuse what is over the context however it is cut, before spending time on tokens."""
    at_least = characters // _LONGEST_TOKEN_BYTES
    if at_least > MAX_CONTEXT_TOKENS:
        raise _over_context(f"at least {at_least}")


def _refuse_long(tokens: int, pool_tokens: float) -> None:
    if tokens >= MAX_CONTEXT_TOKENS:
        raise _over_context(str(tokens))
    if tokens >= pool_tokens:
        raise BadRequest(
            f"The prompt has {tokens} tokens and the KV pool of this server holds {pool_tokens:g} tokens in all; "
            "shorten the prompt or raise --memory-limit",
            "messages",
        )


def _over_context(tokens: str) -> BadRequest:
    return BadRequest(
        f"This model's maximum context length is {MAX_CONTEXT_TOKENS} tokens, and the prompt has {tokens} tokens, "
        "which leaves no room for an answer",
        "messages",
    )
