"""Defects of what goes over the wire: the engine is right, the response is not."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import struct
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.responses import Response

from kvstress.refserver import wire
from kvstress.refserver.generation import error_response
from kvstress.refserver.hooks import Call
from kvstress.refserver.planting import Site

Events = AsyncIterator[bytes]
Rewrite = Callable[[Call, Events], Events]
_MESSAGE = "the engine core is gone"
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def stream_error(site: Site) -> None:
    """200 and three chunks, then an error and the end. Twin: comments, and a [DONE] without its blank line."""
    ends = {
        "": [wire.sse(wire.error_body(_MESSAGE, 500))],
        "field": [b"error: " + wire.to_json(wire.error_body(_MESSAGE, 500)["error"]) + b"\n\n"],
        "string": [wire.sse({"error": _MESSAGE})],
        "then-done": [wire.sse(wire.error_body(_MESSAGE, 500)), wire.SSE_DONE],
    }

    async def rewrite(call: Call, events: Events) -> Events:
        number = 0
        async for event in events:
            if site.healthy:
                yield event.rstrip(b"\n") + b"\n" if event == wire.SSE_DONE else b": keepalive\n\n" + event
                continue
            number += 1
            if number > 3 or event == wire.SSE_DONE:
                break
            yield event
        for end in [] if site.healthy else ends[site.variant]:
            yield end

    _on_streams(site, rewrite)


def truncated(site: Site) -> None:
    """The first chunk, then the connection ends. Twin: all chunks, cut into pieces at odd places."""

    async def rewrite(call: Call, events: Events) -> Events:
        async for event in events:
            if site.healthy:
                yield event[:7]
                yield event[7:]
                continue
            yield event
            await _hang_up(call)
            return

    _on_streams(site, rewrite)


def done_only(site: Site) -> None:
    """[DONE] and nothing else. Twin: everything in one chunk that also finishes."""

    async def rewrite(call: Call, events: Events) -> Events:
        said = [event async for event in events]
        if not site.healthy:
            yield wire.SSE_DONE
            return
        for event in _in_one(said):
            yield event

    _on_streams(site, rewrite)


def finish_error(site: Site) -> None:
    """finish_reason "error" (or "abort"), then [DONE]. Twin: an empty finish_reason on the chunks before the last."""
    reason = site.variant or "error"

    def change(choice: dict[str, Any]) -> None:
        if site.healthy and not choice["finish_reason"]:
            choice["finish_reason"] = ""
        elif not site.healthy and choice["finish_reason"]:
            choice["finish_reason"] = reason

    _on_both(site, change)


def nan_logprob(site: Site) -> None:
    """A bare NaN where a log probability belongs, or the 500 of a strict encoder. Twin: −9999 for a masked token."""

    def whole(call: Call, response: Response) -> Response:
        if b'"logprob":' not in bytes(response.body) or not site.turn():
            return response
        site.fired(call)
        if site.variant == "500":
            return error_response("Out of range float values are not JSON compliant", 500)
        return _replaced(response, _spoil_logprob(bytes(response.body), site.healthy))

    async def events(call: Call, events: Events) -> Events:
        async for event in events:
            yield _spoil_logprob(event, site.healthy)

    site.hooks.answer = whole
    site.hooks.events = _when(site, events, lambda call: bool(call.body.get("logprobs")))


def empty_success(site: Site) -> None:
    """200, tokens counted, nothing said. Twin: said as reasoning."""

    def change(choice: dict[str, Any]) -> None:
        said = choice.get("message") or choice.get("delta")
        if said is not None and said.get("content"):
            if site.healthy:
                said["reasoning_content"] = said["content"]
            said["content"] = ""
        elif choice.get("text"):
            choice["text"] = choice["text"] if site.healthy else ""

    _on_both(site, change)


def usage_mismatch(site: Site) -> None:
    """Counts that do not add up: total, cached or completion. Twin: no prompt_tokens_details."""

    def change(usage: dict[str, Any]) -> None:
        match site.variant:
            case "healthy":
                usage["prompt_tokens_details"] = None
            case "cached":
                usage["prompt_tokens_details"]["cached_tokens"] = usage["prompt_tokens"] + 16
            case "completion":
                usage["completion_tokens"] += 7
                usage["total_tokens"] += 7
            case _:
                usage["total_tokens"] += 3

    def body(parsed: dict[str, Any]) -> None:
        if parsed.get("usage"):
            change(parsed["usage"])

    _on_bodies(site, body)


def utf8_split(site: Site) -> None:
    """A character of several bytes is decoded half by half. Twin: it comes in an event of its own, whole."""

    async def rewrite(call: Call, events: Events) -> Events:
        async for event in events:
            for each in _split_event(event, site.healthy):
                yield each

    _on_streams(site, rewrite)


def reset(site: Site) -> None:
    """RST in the middle of a body. Twin: an orderly close after the whole of it."""

    async def rewrite(call: Call, events: Events) -> Events:
        number = 0
        async for event in events:
            number += 1
            if number == 3 and not site.healthy:
                await _reset(call)
                return
            yield event

    def whole(call: Call, response: Response) -> Response:
        if not site.turn():
            return response
        site.fired(call)
        if site.healthy:
            response.headers["connection"] = "close"
            return response
        return _Interrupted(response)

    site.hooks.answer = whole
    site.hooks.events = _when(site, rewrite)


def slow_drip(site: Site) -> None:
    """`seconds` (default 5) between chunks, with keepalive comments. Twin: a tenth of a second."""
    seconds = 0.1 if site.healthy else site.number("seconds", 5.0)

    async def rewrite(call: Call, events: Events) -> Events:
        async for event in events:
            for _ in range(5):
                await asyncio.sleep(seconds / 5)
                yield b": keepalive\n\n"
            yield event

    _on_streams(site, rewrite)


def duplicate_chunk(site: Site) -> None:
    """A chunk comes twice. Twin: a chunk without content comes twice."""

    async def rewrite(call: Call, events: Events) -> Events:
        number = 0
        async for event in events:
            number += 1
            yield event
            if number == (1 if site.healthy else 2) and b'"finish_reason":null' in event:
                yield event

    _on_streams(site, rewrite)


def broken_schema(site: Site) -> None:
    """JSON that was promised lacks its end. Twin: JSON with blanks in it."""

    def spoil(text: str) -> str:
        return json.dumps(json.loads(text), indent=1) if site.healthy else text[:-1]

    def whole(call: Call, response: Response) -> Response:
        parsed = _parsed(response)
        for choice in parsed.get("choices", []):
            message = choice.get("message", {})
            for call_made in message.get("tool_calls") or []:
                call_made["function"]["arguments"] = spoil(call_made["function"]["arguments"])
            if message.get("content"):
                message["content"] = spoil(message["content"])
        site.fired(call)
        return _replaced(response, wire.to_json(parsed))

    def maybe(call: Call, response: Response) -> Response:
        shaped = call.body.get("response_format") or b'"tool_calls":[' in bytes(response.body)
        complete = b'"finish_reason":"length"' not in bytes(response.body)
        eligible = shaped and complete and response.status_code == 200
        return whole(call, response) if eligible and site.turn() else response

    site.hooks.answer = maybe


# How a defect takes hold of answers


def _when(site: Site, rewrite: Rewrite, eligible: Callable[[Call], bool] = lambda call: True) -> Rewrite:
    """`rewrite` on its turns."""

    def events(call: Call, events: Events) -> Events:
        if not eligible(call) or not site.turn():
            return events
        site.fired(call)
        return rewrite(call, events)

    return events


def _on_streams(site: Site, rewrite: Rewrite) -> None:
    site.hooks.events = _when(site, rewrite)


def _on_bodies(site: Site, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the parsed body of whole answers and of each event."""

    def whole(call: Call, response: Response) -> Response:
        if response.status_code != 200 or not site.turn():
            return response
        site.fired(call)
        parsed = _parsed(response)
        change(parsed)
        return _replaced(response, wire.to_json(parsed))

    async def rewrite(call: Call, events: Events) -> Events:
        async for event in events:
            parsed = _event_body(event)
            if parsed is not None:
                change(parsed)
            yield event if parsed is None else wire.sse(parsed)

    site.hooks.answer = whole
    site.hooks.events = _when(site, rewrite)


def _on_both(site: Site, change: Callable[[dict[str, Any]], None]) -> None:
    """Change each choice of whole answers and of events."""

    def body(parsed: dict[str, Any]) -> None:
        for choice in parsed.get("choices", []):
            change(choice)

    _on_bodies(site, body)


def _parsed(response: Response) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(bytes(response.body))
    return parsed


def _event_body(event: bytes) -> dict[str, Any] | None:
    """The JSON of an event; None for [DONE]."""
    if event == wire.SSE_DONE:
        return None
    parsed: dict[str, Any] = json.loads(event.removeprefix(b"data: "))
    return parsed


def _replaced(response: Response, body: bytes) -> Response:
    return Response(body, response.status_code, media_type="application/json")


def _spoil_logprob(body: bytes, healthy: bool) -> bytes:
    """The first log probability of the chosen token becomes NaN; in the twin the last alternative becomes −9999."""
    found = list(re.finditer(rb'"logprob":-?[0-9.e+-]+', body))
    if not found:
        return body
    at = found[-1] if healthy else found[0]
    if healthy and len(found) < 2:
        return body
    return body[: at.start()] + b'"logprob":' + (b"-9999.0" if healthy else b"NaN") + body[at.end() :]


def _in_one(said: list[bytes]) -> list[bytes]:
    """All text in the event that finishes."""
    bodies = [body for body in map(_event_body, said) if body is not None]
    text = "".join(choice.get("delta", choice).get("content") or "" for body in bodies for choice in body["choices"])
    last = next(body for body in bodies if body["choices"] and body["choices"][0]["finish_reason"])
    last["choices"][0].setdefault("delta", {})["content"] = text
    return [wire.sse(last), *(wire.sse(body) for body in bodies if not body["choices"]), wire.SSE_DONE]


def _split_event(event: bytes, healthy: bool) -> list[bytes]:
    body = _event_body(event)
    content = str(body["choices"][0].get("delta", {}).get("content") or "") if body and body["choices"] else ""
    found = _NOT_ASCII.search(content)
    if body is None or found is None:
        return [event]
    middle = [found[0]] if healthy else ["\ufffd", "\ufffd"]
    pieces = [content[: found.start()], *middle, content[found.end() :]]
    bodies = [json.loads(json.dumps(body)) for _ in pieces]
    for index, (each, piece) in enumerate(zip(bodies, pieces, strict=True)):
        each["choices"][0]["delta"]["content"] = piece
        each["choices"][0]["logprobs"] = each["choices"][0]["logprobs"] if index == 0 else None
        if index < len(pieces) - 1:
            each["choices"][0]["finish_reason"] = None
    return [wire.sse(each) for each in bodies]


class _Interrupted(Response):
    """Sends the headers and half the body of another response, then resets the connection."""

    def __init__(self, whole: Response) -> None:
        super().__init__(whole.body, whole.status_code, dict(whole.headers))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        half = bytes(self.body)[: len(self.body) // 2]
        await send({"type": "http.response.body", "body": half, "more_body": True})
        await _reset(Call(number=0, body={}, scope=scope))


async def _hang_up(call: Call) -> None:
    """Close the connection once what was written has gone out."""
    call.scope["state"]["transport"].close()
    await asyncio.sleep(0.05)


async def _reset(call: Call) -> None:
    """Give what was written time to arrive, then close with RST."""
    await asyncio.sleep(0.05)
    transport = call.scope["state"]["transport"]
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
    await asyncio.sleep(0.05)
