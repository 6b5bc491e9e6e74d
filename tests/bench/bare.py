"""The least that httpx over aiohttp can do: read every answer to its end, noting the time of each read.

`reads` looks at no byte of them; `lines` does what a plain client does: lines, JSON, the token's text. Prints
what it cost, from the first request on, as JSON.
"""

import asyncio
import json
import sys
import time
from typing import Any

import httpx
import uvloop
from httpx_aiohttp import AiohttpTransport

from tests.bench.cost import Meter


async def _reads(response: httpx.Response, times: list[float]) -> None:
    async for _ in response.aiter_raw():
        times.append(time.perf_counter())


async def _lines(response: httpx.Response, times: list[float]) -> None:
    texts = []
    async for line in response.aiter_lines():
        if line.startswith("data: {"):
            choices = json.loads(line[6:])["choices"]
            if choices and (text := choices[0]["delta"].get("content")):
                times.append(time.perf_counter())
                texts.append(text)


async def _lane(client: httpx.AsyncClient, url: str, how: str, asked: dict[str, Any], requests: int) -> None:
    for _ in range(requests):
        async with client.stream("POST", url, json=asked) as response:
            await (_reads if how == "reads" else _lines)(response, [])


async def _main(how: str, url: str, model: str, streams: int, events: int, requests: int, prompt: int) -> None:
    import aiohttp

    asked = {
        "model": model,
        "max_tokens": events,
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": "word " * (prompt // 5)}],
    }

    def session() -> aiohttp.ClientSession:
        return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))

    transport = AiohttpTransport(client=session)
    async with httpx.AsyncClient(transport=transport, timeout=None, trust_env=False) as client:
        await client.get(f"{url}/v1/models")
        meter = Meter()
        await asyncio.gather(
            *(_lane(client, f"{url}/v1/chat/completions", how, asked, requests) for _ in range(streams))
        )
        print(json.dumps(meter.cost(events=streams * events * requests, requests=streams * requests)))


if __name__ == "__main__":
    how, url, model, *numbers = sys.argv[1:]
    uvloop.run(_main(how, url, model, *map(int, numbers)))
