"""Makes prompts exact to the token: the server counts each, and words of one token fill what is missing.

A straight line through a few counts is off by a token or two, and a residue is a matter of one. Counting is free of
side effects only at a tokenize endpoint; the prompt itself, sent for one token, is the second choice, because it
leaves pages behind. An endpoint is believed when it is the same number of tokens below `usage.prompt_tokens` for every
sizing prompt: that number is the chat template's.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial, reduce
from math import gcd

from kvstress.client.wire import Wire, encode
from kvstress.core.exchange import Exchange
from kvstress.core.outcome import Outcome
from kvstress.core.plan import Origin, Request
from kvstress.core.sizing import Sizing
from kvstress.workload import body
from kvstress.workload.format import Spec
from kvstress.workload.residue import PAD, targets, words
from kvstress.workload.sources import Residue

Ask = Callable[[Request], Awaitable[Exchange]]
Count = Callable[[str], Awaitable[int | None]]

_PADS = (PAD, " a", " one", " x", ".", "~", "\n", "é")
# A gcd of few cached counts below this is no block: llama.cpp reports one token less than the prompt.
_LEAST_BLOCK = 8
_TRIES = 4


async def exactly(
    asked: Sequence[tuple[Request, Exchange]], spec: Spec, seed: int, sizing: Sizing, ask: Ask, wire: Wire
) -> Sizing:
    """`sizing` with the block size and each prompt's padding; as it is where the workload wants no exact lengths."""
    source = spec.source
    if not isinstance(source, Residue) or sizing.how == "assumed":
        return sizing
    if source.block is None:
        sizing = replace(sizing, block=await _block(asked, ask))
    counted = await _tokenizer(asked, wire) or _by_usage(asked[0][0], ask)
    key = f"{spec.name}/{seed}"
    pad = await _pad(counted)
    sizing = replace(sizing, pad=pad)
    fitted = []
    for number, tokens in enumerate(targets(source, sizing)):
        made = await _fitted(counted, partial(words, source, key, sizing, number, tokens), tokens)
        if made is None:
            return sizing
        fitted.append(made)
    return replace(sizing, pads=tuple(pads for pads, _ in fitted), off=tuple(off for _, off in fitted))


async def _block(asked: Sequence[tuple[Request, Exchange]], ask: Ask) -> int | None:
    """The gcd of the cached tokens of each sizing prompt sent again; None when that is no block size."""
    again = [await ask(replace(request, id=f"{request.id}.again")) for request, _ in asked]
    told = [one.usage.cached_tokens for one in again if one.usage and one.usage.cached_tokens]
    found = reduce(gcd, told, 0)
    return found if len(told) > 1 and found >= _LEAST_BLOCK else None


async def _fitted(count: Count, made: Callable[[int], str], tokens: int) -> tuple[int, int] | None:
    """How many padding words bring a prompt to `tokens`, and by how much it is still off; None: not countable."""
    best: tuple[int, int] | None = None
    pads = 0
    for _ in range(_TRIES):
        counted = await count(made(pads))
        if counted is None:
            return best
        off = counted - tokens
        if best is None or abs(off) < abs(best[1]):
            best = pads, off
        if off == 0 or pads - off < 0:
            break
        pads -= off
    return best


async def _pad(count: Count) -> str:
    """The first word that costs one token wherever it is repeated."""
    bare = await count("Note:\nx")
    for word in _PADS if bare is not None else ():
        grown = [await count(f"Note:{word * times}\nx") for times in (5, 9)]
        if grown[0] is not None and grown[1] is not None and grown[1] - grown[0] == 4:
            return word
    return PAD


async def _tokenizer(asked: Sequence[tuple[Request, Exchange]], wire: Wire) -> Count | None:
    """Counting by `/tokenize`; None where there is none, or it does not agree with the usage up to a constant."""
    model = asked[0][0].body.get("model") if asked else None

    async def raw(text: str) -> int | None:
        # vLLM and the reference server read `prompt`, llama.cpp reads `content`.
        page = await wire.fetch(
            "/tokenize", method="POST", body=encode({"model": model, "prompt": text, "content": text})
        )
        return _length(page.text) if page.status == 200 else None

    above: set[int | None] = set()
    for request, exchange in asked:
        counted = await raw(request.body["messages"][0]["content"])
        usage = exchange.usage.prompt_tokens if exchange.usage else None
        above.add(None if counted is None or usage is None else usage - counted)
    offset = above.pop() if len(above) == 1 else None
    if offset is None:
        return None

    async def count(text: str) -> int | None:
        counted = await raw(text)
        return None if counted is None else counted + offset

    return count


def _length(page: str) -> int | None:
    try:
        said = json.loads(page)
    except (ValueError, RecursionError):
        return None
    tokens = said.get("tokens") if isinstance(said, dict) else None
    return len(tokens) if isinstance(tokens, list) and tokens else None


def _by_usage(like: Request, ask: Ask) -> Count:
    """Counting by sending a prompt for one token."""
    sent = 0

    async def count(text: str) -> int | None:
        nonlocal sent
        sent += 1
        request = Request(
            id=f"sizing.count{sent}",
            step=None,
            phase="sizing",
            origin=Origin.SIZING,
            body={**like.body, "messages": list(body.user(text))},
            recipe=f"counting {sent}",
        )
        answer = await ask(request)
        return answer.usage.prompt_tokens if answer.outcome is Outcome.COMPLETED and answer.usage else None

    return count
