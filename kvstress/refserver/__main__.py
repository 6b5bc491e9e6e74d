"""Start the reference server from the command line."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

# Before numpy is imported: the arithmetic of one request is too small to share, and must not depend on a thread count.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from kvstress.refserver.api import build_app
from kvstress.refserver.build import build_engine, parser
from kvstress.refserver.engine import Engine
from kvstress.refserver.geometry import GeometryError
from kvstress.refserver.planting import DefectError


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT. Returns 0, or 2 for a command line or port that cannot work.

    An audit violation ends the process with 3.
    """
    options = parser().parse_args(argv)
    try:
        listener = _listen(options.host, options.port)
        engine = build_engine(options)
    except (GeometryError, DefectError, OSError) as error:
        print(f"kvstress reference server: {error}", file=sys.stderr)
        return 2
    engine.start()
    try:
        _serve(engine, listener)
    finally:
        engine.stop()
    return 0


def _listen(host: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise OSError(f"cannot listen on {host}:{port}: {error.strerror}; is it taken? try --port 0") from None
    return listener


class _Protocol(HttpToolsProtocol):
    """Lets a response reach its connection, which planted defects cut."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["state"]["transport"] = self.transport


class _Server(uvicorn.Server):
    """Says where it listens, and treats SIGTERM as the normal end (uvicorn would die of the signal again)."""

    announcement = ""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print(self.announcement, flush=True)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end)
        yield

    def _end(self) -> None:
        self.should_exit = self.force_exit = True


def _serve(engine: Engine, listener: socket.socket) -> None:
    config = uvicorn.Config(
        build_app(engine),
        http=_Protocol,
        log_level="warning",
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=1,
    )
    server = _Server(config)
    host, port = listener.getsockname()[:2]
    geometry = engine.memory.geometry
    server.announcement = (
        f"kvstress reference server listening on http://{host}:{port} "
        f"({geometry.pages} KV pages of 128 tokens, {geometry.slots} snapshot slots, scale 1:256)"
    )
    server.run(sockets=[listener])


if __name__ == "__main__":
    sys.exit(main())
