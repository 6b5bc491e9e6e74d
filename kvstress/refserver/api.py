"""The routes of the server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import time
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from kvstress.refserver import chat, debug, requests, tokenizer, wire
from kvstress.refserver.engine import Engine
from kvstress.refserver.generation import ClientGone, Generation, error_response, read_body
from kvstress.refserver.geometry import MAX_CONTEXT_TOKENS
from kvstress.refserver.metrics import Exporter
from kvstress.refserver.wire import BadRequest

_PATIENCE = 10.0
_T = TypeVar("_T")


class Api:
    """Every endpoint but the two that generate."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.hooks = engine.scheduler.hooks
        self.exporter = Exporter(lambda: engine.stats)
        self.started = int(time())

    async def health(self, _: Request) -> Response:
        """200 while the engine lives."""
        fault = self.engine.fault
        alive = JSONResponse({"status": "ok"}) if fault is None else error_response(fault, 503)
        return self.hooks.health(alive)

    async def models(self, _: Request) -> Response:
        """The one model, and how much context it has."""
        card = {"id": requests.MODEL, "object": "model", "created": self.started, "owned_by": "kvstress"}
        return JSONResponse({"object": "list", "data": [card | {"max_model_len": MAX_CONTEXT_TOKENS}]})

    async def metrics(self, _: Request) -> Response:
        """Prometheus text; answered from published books, so also while a prompt is computed."""
        page = self.hooks.metrics(self.exporter.render())
        return Response(page, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def tokenize(self, request: Request) -> Response:
        """Token ids of `prompt`, or of `messages` with the chat template."""
        body = wire.parse_object(await read_body(request.receive))
        tokens = _tokens_of(body)
        return JSONResponse({"count": len(tokens), "max_model_len": MAX_CONTEXT_TOKENS, "tokens": tokens})

    async def detokenize(self, request: Request) -> Response:
        """Text of `tokens`."""
        tokens = wire.parse_object(await read_body(request.receive)).get("tokens")
        known = range(tokenizer.VOCABULARY_SIZE)
        if not isinstance(tokens, list) or not all(type(token) is int and token in known for token in tokens):
            raise BadRequest("tokens must be a list of token ids", "tokens")
        return JSONResponse({"prompt": tokenizer.decode(tokens)})

    async def reset_prefix_cache(self, _: Request) -> Response:
        """Drop every cached prompt no request reads."""
        dropped = await self._engine_says(self.engine.memory.drop_all)
        return JSONResponse({"dropped": dropped})

    async def pool(self, request: Request) -> Response:
        """Owners, aliases and slots, for people; `?format=json` for programs."""
        state = await self._engine_says(lambda: debug.describe(self.engine.scheduler))
        return JSONResponse(state) if request.query_params.get("format") == "json" else HTMLResponse(debug.page(state))

    async def _engine_says(self, question: Callable[[], _T]) -> _T:
        try:
            return await asyncio.wait_for(asyncio.wrap_future(self.engine.ask(question)), _PATIENCE)
        except TimeoutError:
            raise HTTPException(503, "the engine does not answer") from None


def build_app(engine: Engine) -> Starlette:
    """The ASGI application around one engine."""
    api = Api(engine)
    routes = [
        Route("/health", api.health),
        Route("/v1/models", api.models),
        Route("/metrics", api.metrics),
        Route("/debug/pool", api.pool),
        Route("/tokenize", api.tokenize, methods=["POST"]),
        Route("/detokenize", api.detokenize, methods=["POST"]),
        Route("/reset_prefix_cache", api.reset_prefix_cache, methods=["POST"]),
        Route("/v1/chat/completions", Generation(engine, requests.parse_chat), methods=["POST"]),
        Route("/v1/completions", Generation(engine, requests.parse_completion), methods=["POST"]),
    ]
    handlers = {HTTPException: _http_error, BadRequest: _bad_request, ClientGone: _client_gone}
    return Starlette(routes=routes, exception_handlers=handlers)


def _tokens_of(body: dict[str, Any]) -> list[int]:
    if isinstance(body.get("messages"), list) and body["messages"]:
        return chat.render(body["messages"], body.get("tools") or [], "").tokens
    text = wire.text(body, "prompt", wire.text(body, "content", ""))
    return chat.render_text(text, "").tokens


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return error_response(f"{request.method} {request.url.path}: {error.detail}", error.status_code)


async def _bad_request(_: Request, error: Exception) -> Response:
    assert isinstance(error, BadRequest)
    return error_response(error.message, error.status, error.param)


async def _client_gone(_: Request, __: Exception) -> Response:
    return Response(status_code=499)
