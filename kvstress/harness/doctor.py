"""`kvstress doctor`: what a server is, what it offers, and hence what can be judged on it.

Each ability is asked for by a short request and looked at, one after another; a dozen in all, a few hundred tokens
each. Nothing that would empty the server's cache is sent: a reset endpoint is somebody else's to press.
"""

import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio

from kvstress.client.wire import Wire, encode
from kvstress.core.diagnosis import Can, Diagnosis
from kvstress.core.exchange import Exchange
from kvstress.core.features import Features
from kvstress.core.outcome import Kind, Outcome
from kvstress.core.sample import Sample
from kvstress.harness.options import RunOptions, shown_url
from kvstress.harness.pace import pace
from kvstress.harness.target import FirstLook, first_look, serving, wire_to
from kvstress.metrics.scrape import Scraper
from kvstress.oracles.coverage import ABORTS, DRAFTS, TIERS
from kvstress.oracles.judge import ORACLES
from kvstress.oracles.needs import CAUTIONS, KEY_NEEDS, ORACLE_NEEDS, missing
from kvstress.workload import body, text

_CANONICAL = (
    *("kv_capacity", "kv_free", "kv_cached", "kv_usage", "running", "waiting", "preemptions", "evictions"),
    *("prefix_queries", "prefix_hits", "prompt_tokens", "generation_tokens", "requests_completed", "process_started"),
)
_SCHEMA = {"type": "object", "properties": {"yes": {"type": "boolean"}}, "required": ["yes"]}
_TOOL = {"type": "function", "function": {"name": "note", "parameters": _SCHEMA}}
_VERSIONS = ("/version", "/get_server_info", "/props")
_UNITS, _PATIENCE = 240, 60.0


async def examine(options: RunOptions) -> Diagnosis:
    """Examine the server that `options` name. Raises UsageError or CannotJudgeError when there is none to ask."""
    clock = time.perf_counter
    with tempfile.TemporaryDirectory() as folder:
        async with (
            serving(options, Path(folder), clock, lambda event: None, lambda: False) as url,
            wire_to(url, options, clock, timeout=_PATIENCE) as wire,
        ):
            look = await first_look(wire, url, options.model)
            asking = _Asking(wire, look.model)
            features = await _features(asking, look)
            sample = await _scraped(wire, options.dialect)
            version = await _version(wire)
    features = _with_metrics(features, sample)
    dialect = sample.dialect if sample else None
    return Diagnosis(
        url=shown_url(url),
        model=look.model,
        software=look.software,
        version=version,
        context_limit=look.context_limit,
        dialect=dialect,
        features=features,
        oracles=oracles(features),
        coverage=coverage(features, dialect),
        requests=asking.sent,
        pace=await pace(),
    )


def oracles(features: Features) -> tuple[Can, ...]:
    """Each oracle: can it run on a server with these `features`, and if not, why."""
    return tuple(_can(name, missing(ORACLE_NEEDS.get(name, ()), features), "") for name, _ in ORACLES)


def coverage(features: Features, dialect: str | None) -> tuple[Can, ...]:
    """Each coverage key: can it be seen on a server with these `features`."""
    return tuple(
        _can(key, missing(needs, features), CAUTIONS.get((dialect or "", key), "")) for key, needs in KEY_NEEDS.items()
    )


def _can(name: str, lacking: str | None, caution: str) -> Can:
    return Can(name=name, yes=lacking is None, why=lacking or caution)


class _Asking:
    """Sends doctor's requests one after another and counts them."""

    def __init__(self, wire: Wire, model: str) -> None:
        self.wire = wire
        self._model = model
        self._prompt = body.user(text.prompt(f"doctor/{time.time_ns()}", "?", _UNITS))
        self.sent = 0

    async def chat(self, *, stream: bool = False, max_tokens: int = 4, short: bool = True, **more: Any) -> Exchange:
        """One greedy chat completion; `short` asks for a word, otherwise the one prompt of some length is sent."""
        messages = body.user("Say yes.") if short else self._prompt
        asked = body.chat(messages, model=self._model, max_tokens=max_tokens, temperature=0.0, stream=stream)
        self.sent += 1
        return await self.wire.send(
            f"doctor.{self.sent}", "/v1/chat/completions", encode(asked | more), stream=stream, due=time.perf_counter()
        )


async def _features(asking: _Asking, look: FirstLook) -> Features:
    whole, warm = await asking.chat(short=False), await asking.chat(short=False)
    salted = await asking.chat(short=False, cache_salt=f"doctor-{time.time_ns()}")
    again = await asking.chat(short=False)
    bypassing = await asking.chat(short=False, cache_prompt=False)
    last = await asking.chat(short=False)
    streamed = await asking.chat(stream=True)
    detailed = await asking.chat(logprobs=True, top_logprobs=2)
    shape = {"type": "json_schema", "json_schema": {"name": "yes", "schema": _SCHEMA}}
    return Features(
        streams=_streams(streamed),
        done=_done(streamed),
        usage=_counted(whole),
        cached_tokens=_cached(warm) is not None,
        hits=None if _cached(warm) is None else (_cached(warm) or 0) > 1,
        salt=_made_cold(warm, salted, again),
        bypass=_made_cold(warm, bypassing, last),
        logprobs=any(choice.logprobs for choice in detailed.choices),
        shaped=_fits(await asking.chat(max_tokens=64, response_format=shape)),
        tools=_called(await asking.chat(max_tokens=64, tools=[_TOOL], tool_choice="required")),
        several=len((await asking.chat(n=2)).choices) == 2,
        tokenize=await _tokenizes(asking.wire, look.model),
        health=(await asking.wire.fetch("/health")).status in (200, 503),
        context=look.context_limit is not None,
    )


def _streams(exchange: Exchange) -> bool:
    return bool(exchange.chunk_at) and exchange.kind in (Kind.OK, Kind.MISSING_DONE)


def _done(exchange: Exchange) -> bool | None:
    return exchange.kind is Kind.OK if _streams(exchange) else None


def _counted(exchange: Exchange) -> bool:
    return exchange.usage is not None and exchange.usage.prompt_tokens is not None


def _cached(exchange: Exchange) -> int | None:
    return exchange.usage.cached_tokens if exchange.usage else None


def _made_cold(warm: Exchange, other: Exchange, after: Exchange) -> bool | None:
    """True when what was asked for beside the prompt made a cached one cold.

    None where hits cannot be seen, or where the prompt was cold afterwards too: a small pool had let go of it.
    """
    before, now, still = (_cached(each) or 0 for each in (warm, other, after))
    if before <= 1 or other.outcome is not Outcome.COMPLETED:
        return None
    if now * 4 >= before:
        return False
    return True if still * 4 >= before else None


def _fits(exchange: Exchange) -> bool:
    try:
        return isinstance(json.loads(exchange.text).get("yes"), bool)
    except (ValueError, AttributeError, RecursionError):
        return False


def _called(exchange: Exchange) -> bool:
    return any("note" in choice.tool_calls for choice in exchange.choices)


async def _tokenizes(wire: Wire, model: str) -> bool:
    """Two shapes are asked for: vLLM and the reference server take a `prompt`, llama.cpp `content`."""
    asked = encode({"model": model, "prompt": "one two", "content": "one two"})
    page = await wire.fetch("/tokenize", method="POST", body=asked)
    return page.status == 200 and '"tokens"' in page.text


async def _scraped(wire: Wire, dialect: str | None) -> Sample | None:
    async def fetch(path: str) -> tuple[int | None, str, str | None]:
        page = await wire.fetch(path)
        return page.status, page.text, page.problem

    scraper = Scraper(fetch, time.perf_counter, dialect, offload=anyio.to_thread.run_sync)
    return await scraper.scrape("start", None)


def _with_metrics(features: Features, sample: Sample | None) -> Features:
    if sample is None or sample.problem is not None:
        return replace(features, metrics=False)
    kinds = {"aborts": ABORTS, "drafts": DRAFTS, "tiers": TIERS}
    return replace(
        features,
        metrics=True,
        exported=tuple(name for name in _CANONICAL if getattr(sample, name) is not None),
        counters=tuple(kind for kind, names in kinds.items() if any(map(names.search, sample.raw))),
    )


async def _version(wire: Wire) -> str | None:
    """What the server says of its version, wherever engines put it; capped, it is the server's text."""
    for path in _VERSIONS:
        page = await wire.fetch(path)
        try:
            told = json.loads(page.text) if page.status == 200 else None
        except (ValueError, RecursionError):
            continue
        found = next((told[key] for key in ("version", "build_info") if told.get(key)), None) if told else None
        if isinstance(found, str):
            return found[:60]
    return None
