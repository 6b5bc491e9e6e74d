"""Getting to a server that answers: one that runs, one that kvstress starts, or the embedded one.

The first look (`/v1/models`) is where most mistakes of a first run show: nothing listens,
the port serves a web page, the certificate is not trusted, a key is missing. Each becomes one
sentence with the way out, before anything is measured.
"""

import json
import shlex
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kvstress.client.wire import Fetched, Wire, encode
from kvstress.core.errors import CannotJudgeError, UsageError
from kvstress.core.events import Event
from kvstress.core.manifest import Target
from kvstress.core.outcome import Outcome
from kvstress.harness.launching import after_failure
from kvstress.harness.options import RunOptions, shown_launch, shown_url
from kvstress.launch.server import launched

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstLook:
    """What `/v1/models` told: the model to ask for, and the context length if it was announced."""

    model: str
    context_limit: int | None
    software: str | None


@asynccontextmanager
async def serving(
    options: RunOptions, folder: Path, clock: Clock, emit: Callable[[Event], None], failed: Callable[[], bool]
) -> AsyncIterator[str]:
    """The server's URL, for as long as the block runs; a server that kvstress started is stopped after it.

    Its log goes to the run's `folder`; if it has `failed` by then, it is first looked at as the options say.
    """
    command = launch_command(options)
    if command is None:
        yield options.server or ""
        return

    async def ready(url: str) -> bool:
        return await answers(url, options, clock)

    how = options.launching
    async with launched(
        command,
        clock=clock,
        emit=emit,
        ready=ready,
        log_path=how.log_file or folder / "server.log",
        env=how.env,
        cwd=how.cwd,
        ready_timeout=options.ready_timeout,
        stop_command=how.stop,
        patterns=how.patterns,
        attempts=how.attempts,
    ) as server:
        yield server.url
        if failed():
            await after_failure(server, how, folder)


@asynccontextmanager
async def with_twin(options: RunOptions, folder: Path, clock: Clock) -> AsyncIterator[RunOptions]:
    """`options` with the URL of the twin that `--twin-launch` starts, for as long as the block runs.

    What becomes of the twin is no event of the run: its death says nothing about the server under test.
    """
    if options.twin_launch is None:
        yield options
        return

    async def ready(url: str) -> bool:
        return await answers(url, options, clock)

    how = options.launching
    async with launched(
        options.twin_launch,
        clock=clock,
        emit=lambda event: None,
        ready=ready,
        log_path=folder / "twin.log",
        env=how.env,
        cwd=how.cwd,
        ready_timeout=options.ready_timeout,
    ) as twin:
        yield replace(options, twin=twin.url)


def launch_command(options: RunOptions) -> str | None:
    """The command line that starts the server, None when it runs already."""
    if options.reference_args is None:
        return options.launch
    fixed = [sys.executable, "-m", "kvstress.refserver", "--host", "127.0.0.1", "--port"]
    return f"{shlex.join(fixed)} {{port}} {shlex.join(options.reference_args)}".strip()


def wire_to(url: str, options: RunOptions, clock: Clock, timeout: float | None = None) -> Wire:
    """A client for `url` with the run's headers, certificate and deadline."""
    return Wire(**wire_settings(url, options, timeout), clock=clock)


def wire_settings(url: str, options: RunOptions, timeout: float | None = None) -> dict[str, Any]:
    """What a client for `url` is made of, but for its clock."""
    return {
        "base_url": url,
        "headers": dict(options.headers),
        "ca_file": options.ca_file,
        "timeout": options.timeout if timeout is None else timeout,
        "trust_env": options.trust_env,
    }


async def answers(url: str, options: RunOptions, clock: Clock) -> bool:
    """True once a model is listed and one token comes back: a port that listens is not yet a server."""
    async with wire_to(url, options, clock, timeout=60.0) as wire:
        models = await wire.fetch("/v1/models", timeout=5.0)
        if models.status != 200:
            return False
        listed = _listed(models)
        model = options.model or (listed[0].get("id") if listed else None)
        body = {"model": model, "messages": [{"role": "user", "content": "ready?"}], "max_tokens": 1}
        answer = await wire.send("ready", "/v1/chat/completions", encode(body), stream=False, due=clock())
        return answer.outcome is Outcome.COMPLETED


async def first_look(wire: Wire, url: str, model: str | None) -> FirstLook:
    """Ask for the model list. Raises CannotJudgeError or UsageError with the way out."""
    page = await wire.fetch("/v1/models")
    shown = shown_url(url)
    if page.status is None:
        raise CannotJudgeError(f"{shown} cannot be reached: {page.problem}. {_way_out(page.problem or '')}")
    if page.status in (401, 403):
        raise CannotJudgeError(
            f"{shown} wants a key (HTTP {page.status} at /v1/models): name the environment variable that holds it "
            "with --api-key-env"
        )
    if page.status == 200 and _json(page) is None:
        kind = "HTML" if "html" in page.content_type.lower() or page.text.lstrip()[:1] == "<" else "no JSON"
        raise CannotJudgeError(
            f"{shown} answers {kind} at /v1/models, so it is not an OpenAI-compatible API: "
            "is this the right URL and port?"
        )
    listed = _listed(page) if page.status == 200 else []
    chosen = model or (str(listed[0]["id"]) if listed else None)
    if chosen is None:
        raise UsageError(f"{shown} lists no model (HTTP {page.status} at /v1/models): name one with --model")
    entry = next((item for item in listed if item.get("id") == chosen), listed[0] if listed else {})
    return FirstLook(model=chosen, context_limit=_context_limit(entry), software=_software(entry))


def _way_out(problem: str) -> str:
    lowered = problem.lower()
    if "certificate" in lowered or "ssl" in lowered or "tls" in lowered:
        return (
            "If its certificate is signed by your own authority, name that with --ca-file; for plain HTTP use http://"
        )
    return "Is the server running, and is this its URL?"


def _json(page: Fetched) -> Any:
    try:
        return json.loads(page.text)
    except (ValueError, RecursionError):
        return None


def _listed(page: Fetched) -> list[dict[str, Any]]:
    body = _json(page)
    data = body.get("data") if isinstance(body, dict) else None
    found = data if isinstance(data, list) else []
    return [item for item in found if isinstance(item, dict) and item.get("id") and _is_text(str(item["id"]))]


def _is_text(words: str) -> bool:
    """Half a surrogate pair can come out of JSON, and can be sent to nobody."""
    try:
        words.encode()
    except UnicodeEncodeError:
        return False
    return True


def _context_limit(entry: dict[str, Any]) -> int | None:
    """vLLM, SGLang and the reference server say `max_model_len`; llama.cpp says `meta.n_ctx`."""
    meta = entry.get("meta")
    found = entry.get("max_model_len") or (meta.get("n_ctx") if isinstance(meta, dict) else None)
    return found if isinstance(found, int) and found > 0 else None


def _software(entry: dict[str, Any]) -> str | None:
    owner = entry.get("owned_by")
    return owner[:60] if isinstance(owner, str) else None


def target(options: RunOptions, url: str | None, look: FirstLook | None) -> Target:
    """The manifest's record of the server; before the first look only what the command line says."""
    embedded = options.reference_args is not None
    return Target(
        url=shown_url(url) if url else "(not started yet)",
        model=look.model if look else options.model,
        embedded=embedded,
        launched=shown_launch(options.launch) if options.launch else None,
        software=look.software if look else None,
        context_limit=look.context_limit if look else None,
    )
