"""The routes of the server."""

from __future__ import annotations

from time import time
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from kvstress.refserver import requests
from kvstress.refserver.engine import Engine
from kvstress.refserver.generation import Generation, error_response
from kvstress.refserver.geometry import MAX_CONTEXT_TOKENS
from kvstress.refserver.metrics import Exporter


def build_app(engine: Engine) -> Starlette:
    """The ASGI application around one engine."""
    exporter = Exporter(lambda: engine.stats)
    started = int(time())

    async def health(_: Request) -> Response:
        fault = engine.stats.fault
        return JSONResponse({"status": "ok"}) if fault is None else error_response(fault, 503)

    async def models(_: Request) -> Response:
        return JSONResponse({"object": "list", "data": [_model_card(started)]})

    async def metrics(_: Request) -> Response:
        return Response(exporter.render(), media_type="text/plain; version=0.0.4; charset=utf-8")

    routes = [
        Route("/health", health),
        Route("/v1/models", models),
        Route("/metrics", metrics),
        Route("/v1/chat/completions", Generation(engine, requests.parse_chat), methods=["POST"]),
        Route("/v1/completions", Generation(engine, requests.parse_completion), methods=["POST"]),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: _http_error})


def _model_card(created: int) -> dict[str, Any]:
    return {
        "id": requests.MODEL,
        "object": "model",
        "created": created,
        "owned_by": "kvstress",
        "max_model_len": MAX_CONTEXT_TOKENS,
    }


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return error_response(f"{request.method} {request.url.path}: {error.detail}", error.status_code)
