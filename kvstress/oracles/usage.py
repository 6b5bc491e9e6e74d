"""USAGE: do the token counts of an answer add up?

Compares the counts of one answer with each other and with what was asked: total = prompt + completion, 0 ≤ cached ≤
prompt, reasoning ≤ completion ≤ max_tokens × n, as many log-probabilities as tokens, the same prompt_tokens
for the same bytes; and, where kvstress made the prompt to a size that the server's own counts gave, not far fewer than
planned: a prompt that was cut in silence shows nowhere else. Source: `usage` of completed answers.

Threshold: identities exact; against log-probabilities ±1, and fewer of those count only where the text is plain
ASCII (a character of several tokens may come as one entry); a cut prompt is one a tenth and 64 tokens short.
Noisy when: a proxy counts with another tokenizer. Chunks are never counted: under speculation they are not tokens.
"""

from collections.abc import Iterator

from kvstress.core.events import Event, RequestSent
from kvstress.core.exchange import Exchange, Usage
from kvstress.core.manifest import Manifest
from kvstress.core.outcome import Outcome
from kvstress.core.plan import Origin
from kvstress.core.units import show_tokens
from kvstress.core.verdict import Finding, Verdict
from kvstress.oracles.ledger import MEMORY
from kvstress.oracles.oracle import found, options
from kvstress.oracles.recent import Recent

NAME = "USAGE"

_SHORT, _SHORT_TOKENS = 0.9, 64


class UsageSums:
    """Keeps the prompt tokens of recent bodies (bounded), and whether sizing gave the server's own counts."""

    def __init__(self, manifest: Manifest) -> None:
        del manifest
        self._prompts: Recent[str, int] = Recent()
        self._sized: set[int] = set()

    def see(self, event: Event, asked: RequestSent | None) -> tuple[Finding, ...]:
        if not isinstance(event, Exchange) or asked is None or event.outcome is not Outcome.COMPLETED:
            return ()
        usage = event.usage
        if usage is None:
            return ()
        if asked.origin is Origin.SIZING and usage.prompt_tokens is not None:
            self._sized.add(usage.prompt_tokens)
        wrong = [*_sums(usage), *_against(usage, event, asked), *self._prompt(usage, asked)]
        return tuple(
            found(NAME, Verdict.FAIL, key, f"the counts do not add up: {what}", asked=asked, measured=what, limit=limit)
            for key, what, limit in wrong
        )

    def _prompt(self, usage: Usage, asked: RequestSent) -> Iterator[tuple[str, str, str]]:
        counted = usage.prompt_tokens
        if counted is None:
            return
        before = self._prompts.pop(asked.body_sha256, counted)
        self._prompts[asked.body_sha256] = counted
        self._prompts.trim(MEMORY)
        if before != counted:
            what = f"the same bytes were {before:,} prompt tokens before and are {counted:,} now"
            yield "prompt changed", what, "equal prompts, equal counts"
        planned = asked.tokens if len(self._sized) > 1 else None
        if planned is not None and counted < min(planned * _SHORT, planned - _SHORT_TOKENS):
            what = f"a prompt made to {show_tokens(planned)} tokens was counted as {counted:,}: it was cut"
            yield "prompt cut", what, f"at least {show_tokens(planned * _SHORT)} tokens"


def _sums(usage: Usage) -> Iterator[tuple[str, str, str]]:
    prompt, completion, total = usage.prompt_tokens, usage.completion_tokens, usage.total_tokens
    if None not in (prompt, completion, total) and (prompt or 0) + (completion or 0) != total:
        yield (
            "total",
            f"{prompt} prompt + {completion} completion tokens are not {total}",
            "total = prompt + completion",
        )
    counts = {"prompt": prompt, "completion": completion, "total": total, "cached": usage.cached_tokens}
    for name, count in counts.items():
        if count is not None and count < 0:
            yield f"negative {name}", f"{name}_tokens is {count}", "0 or more"
    if usage.cached_tokens is not None and prompt is not None and usage.cached_tokens > prompt:
        yield "cached", f"{usage.cached_tokens} cached of {prompt} prompt tokens", "cached ≤ prompt"
    if usage.reasoning_tokens is not None and completion is not None and usage.reasoning_tokens > completion:
        yield "reasoning", f"{usage.reasoning_tokens} reasoning of {completion} completion tokens", "reasoning ≤ all"


def _against(usage: Usage, exchange: Exchange, asked: RequestSent) -> Iterator[tuple[str, str, str]]:
    completion = usage.completion_tokens
    if completion is None:
        return
    choices = max(len(exchange.choices), _wanted(asked))
    if asked.max_tokens is not None and completion > asked.max_tokens * choices + 1:
        yield "over max_tokens", f"{completion} tokens where {asked.max_tokens} were allowed", "completion ≤ max_tokens"
    listed = [len(choice.logprobs) for choice in exchange.choices if choice.logprobs is not None]
    if len(listed) != len(exchange.choices) or any(c.reasoning or c.tool_calls for c in exchange.choices):
        return
    count, slack = sum(listed), len(listed)
    plain = all(choice.text.isascii() for choice in exchange.choices)
    if listed and (count > completion + slack or (plain and count < completion - slack)):
        yield "logprobs", f"{completion} completion tokens with {count} log-probabilities", f"equal, ±{slack}"


def _wanted(asked: RequestSent) -> int:
    wanted = options(asked).get("n", 1)
    return wanted if isinstance(wanted, int) and wanted > 0 else 1
