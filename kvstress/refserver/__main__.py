"""Start the reference server from the command line."""

from __future__ import annotations

import argparse
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

from kvstress.refserver.api import build_app
from kvstress.refserver.engine import Engine
from kvstress.refserver.geometry import DEFAULT_LIMIT, Geometry, GeometryError, geometry_for
from kvstress.refserver.memory import Fix, KvMemory
from kvstress.refserver.rank import RankConfig
from kvstress.refserver.ranks import LocalRanks
from kvstress.refserver.scheduler import DEVICE_ERRORS, Scheduler


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT. Returns 0, or 2 for a command line or port that cannot work."""
    options = _parser().parse_args(argv)
    try:
        geometry = geometry_for(options.memory_limit)
        listener = _listen(options.host, options.port)
    except (GeometryError, OSError) as error:
        print(f"kvstress reference server: {error}", file=sys.stderr)
        return 2
    engine = build_engine(options, geometry)
    engine.start()
    try:
        _serve(engine, listener)
    finally:
        engine.stop()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="kvstress serve", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="0 picks a free one")
    parser.add_argument(
        "--memory-limit", default=DEFAULT_LIMIT, help="binary size, at least 35.4G (default %(default)s)"
    )
    parser.add_argument("--fix", choices=[fix.value for fix in Fix], default="none")
    parser.add_argument("--device-error", choices=list(DEVICE_ERRORS), default="INVALID_SPECULATION")
    parser.add_argument("--kv-format", choices=["fp8", "int8"], default="fp8", help="int8 has no NaN: a diagnostic")
    parser.add_argument(
        "--step-delay", type=float, default=0.0, metavar="SECONDS", help="pause after every engine step"
    )
    return parser


def build_engine(options: argparse.Namespace, geometry: Geometry) -> Engine:
    """The engine the options describe, not yet running."""
    fix = Fix(options.fix)
    config = RankConfig(geometry=geometry, kv_format=options.kv_format, inert_mask=fix is Fix.INERT_MASK)
    memory = KvMemory(geometry, LocalRanks([config]), fix)
    return Engine(Scheduler(memory, device_error=options.device_error), step_delay=options.step_delay)


def _listen(host: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise OSError(f"cannot listen on {host}:{port}: {error.strerror}; is it taken? try --port 0") from None
    return listener


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
        build_app(engine), log_level="warning", access_log=False, lifespan="off", timeout_graceful_shutdown=1
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
