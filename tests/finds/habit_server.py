"""A server without a model that has one habit of `habits.py` and is otherwise well: chat, health and metrics.

`python -m tests.finds.habit_server NAME LOG PORT`. Answers are words drawn by a hash of the prompt, so that the same
prompt gets the same answer unless the habit says otherwise.
"""

import asyncio
import json
import random
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.finds.habits import HABITS, Habit

_WORDS = [first + last for first in ("ka", "lo", "mi", "ne", "su", "ta", "vo") for last in ("ren", "dal", "min", "st")]
_POOL, _TEMPLATE, _PLAIN = 200_000, 12, -0.3
_UNIFORM = -7.62


class HabitServer:
    """The state of one such server. `shown` counts how often the habit showed."""

    def __init__(self, habit: Habit, log: Path) -> None:
        self.habit = habit
        self._log = log
        self.cached: dict[str, int] = {}
        self.running = self.left = self.calls = 0
        self.books = dict.fromkeys(("prompt", "generated", "completed", "queries", "hits"), 0)
        self.started = time.time()

    def show(self) -> None:
        with self._log.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"habit": self.habit.control}) + "\n")

    async def models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": "habit", "max_model_len": 65536, "owned_by": "tests"}]})

    async def health(self, request: Request) -> Response:
        dark = self.habit.dark and self.calls % 2 == 1
        if dark:
            self.show()
        return PlainTextResponse("busy" if dark else "ok", 503 if dark else 200)

    async def metrics(self, request: Request) -> Response:
        running = self.running + (self.left if self.habit.usage == "frozen" else 0)
        used = running * 500 if self.habit.usage == "running" else sum(self.cached.values())
        if self.calls and ((self.habit.usage == "running") != (used > 0)) and not self.running:
            self.show()
        values = {
            "num_requests_running": running,
            "num_requests_waiting": 0,
            "kv_cache_usage_perc": min(1.0, used / _POOL),
            "prompt_tokens_total": self.books["prompt"],
            "generation_tokens_total": self.books["generated"],
            'request_success_total{finished_reason="length"}': self.books["completed"],
            "prefix_cache_queries_total": self.books["queries"],
            "prefix_cache_hits_total": self.books["hits"],
        }
        lines = [f"vllm:{name} {value}" for name, value in values.items()]
        return PlainTextResponse("\n".join([*lines, f"process_start_time_seconds {self.started}", ""]))

    async def chat(self, request: Request) -> Response:
        body = await request.json()
        text = "".join(str(message["content"]) for message in body["messages"])
        self.calls += 1
        self.running += 1
        if self.calls == 1 and self.habit.first_call:
            self.show()
            await asyncio.sleep(self.habit.first_call)
        prompt = _TEMPLATE + len(text) // 4
        hit = self._hit(text, prompt)
        words = self._words(text, int(body["max_tokens"]), hit)
        if self.habit.a_token and not self.habit.dark:
            self.show()
        if body.get("stream"):
            return StreamingResponse(self._stream(body, words, prompt, hit), media_type="text/event-stream")
        await asyncio.sleep(self.habit.a_token * len(words))
        self._end(prompt, words, hit)
        message = {"role": "assistant", "content": "".join(words)}
        choice = {"index": 0, "message": message, "finish_reason": "length"} | self._logprobs(body, words)
        return JSONResponse({"id": "h", "model": "habit", "choices": [choice], "usage": _usage(prompt, words, hit)})

    def _hit(self, text: str, prompt: int) -> int:
        """Tokens that the cache is said to have had of `text`."""
        habit, known = self.habit, self.cached.get(text)
        self.cached[text] = prompt
        blocks = max(0, ((known or 0) - 1) // habit.block - habit.lost) if known else 0
        hit = blocks * habit.block or min(habit.template, prompt - 1)
        if (hit and (habit.template or habit.lost or habit.block == 1)) or (known and not hit):
            self.show()
        return hit

    def _words(self, text: str, count: int, hit: int) -> list[str]:
        habit = self.habit
        changed = {"warm": hit > 0, "beside": self.running > 1, "each": True, "never": False}[habit.differs]
        salt = self.calls if habit.differs == "each" else 0
        choice = random.Random(f"{text}/{salt}")
        if habit.text == "loop":
            drawn = [_WORDS[0], _WORDS[1]] * count
        elif habit.text == "blank":
            drawn = ["\n"] * count
        elif habit.text == "junk":
            drawn = ["".join(choice.choices("qxzjkvwy#%~", k=5)) for _ in range(count)]
        else:
            drawn = choice.choices(_WORDS, k=count)
        if (changed or habit.text != "words" or habit.counted > 1) and count > 1:
            self.show()
        if changed and count > 3:
            drawn[3:] = random.Random(f"{text}/other").choices(_WORDS, k=len(drawn) - 3)
        return [word if habit.text == "blank" else f" {word}" for word in drawn[:count]]

    def _logprobs(self, body: dict[str, Any], words: list[str]) -> dict[str, Any]:
        if not body.get("logprobs"):
            return {}
        own = _UNIFORM if self.habit.text == "junk" else _PLAIN
        others = [{"token": "<mask>", "logprob": -9999.0}] if self.habit.masked else []
        if others:
            self.show()
        tops = [[{"token": word, "logprob": own}, *others] for word in words]
        listed = [{"token": word, "logprob": own, "top_logprobs": top} for word, top in zip(words, tops, strict=True)]
        return {"logprobs": {"content": listed}}

    def _end(self, prompt: int, words: list[str], hit: int) -> None:
        self.running -= 1
        self.left = 0
        times = self.habit.counted
        more = {"prompt": prompt, "generated": len(words) * times, "completed": times, "queries": prompt, "hits": hit}
        self.books = {name: count + more[name] for name, count in self.books.items()}

    async def _stream(self, body: dict[str, Any], words: list[str], prompt: int, hit: int) -> AsyncIterator[bytes]:
        ended = False
        try:
            for event in self._events(body, words, _usage(prompt, words, hit)):
                await asyncio.sleep(self.habit.a_token * self.habit.a_chunk)
                yield event
            self._end(prompt, words, hit)
            ended = True
        finally:
            if not ended:
                self.running -= 1
                self.left += 1

    def _events(self, body: dict[str, Any], words: list[str], usage: dict[str, Any]) -> Iterator[bytes]:
        """The stream, framed in one of several legal ways when that is the habit."""
        odd = self.calls % 5 if self.habit.framing else -1
        if odd >= 0 or self.habit.a_chunk > 1:
            self.show()
        size = self.habit.a_chunk
        groups = [words[at : at + size] for at in range(0, len(words), size)]
        for place, group in enumerate(groups):
            last = place == len(groups) - 1 and odd == 0
            reason = "length" if last else "" if odd == 1 else None
            choice = {"index": 0, "delta": {"content": "".join(group)}, "finish_reason": reason}
            yield (b": keepalive\n\n" if odd == 2 else b"") + _event(
                {"choices": [choice | self._logprobs(body, group)]}
            )
        if odd != 0:
            yield _event({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]})
        yield _event({"choices": [], "usage": usage})
        yield {1: b"data: [DONE]\r\n\r\n", 2: b"data: [DONE]", 3: b"data: [DONE] \n\n"}.get(odd, b"data: [DONE]\n\n")


def _usage(prompt: int, words: list[str], hit: int) -> dict[str, Any]:
    counts = {"prompt_tokens": prompt, "completion_tokens": len(words), "total_tokens": prompt + len(words)}
    return counts | {"prompt_tokens_details": {"cached_tokens": hit}}


def _event(body: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps({"id": "h", "model": "habit", **body}).encode() + b"\n\n"


def main(name: str, log: str, port: str) -> None:
    """Serve until SIGTERM."""
    server = HabitServer(HABITS[name], Path(log))
    routes = [
        Route("/v1/models", server.models),
        Route("/v1/chat/completions", server.chat, methods=["POST"]),
        Route("/health", server.health),
        Route("/metrics", server.metrics),
    ]
    uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=int(port), log_level="warning")


if __name__ == "__main__":
    main(*sys.argv[1:4])
