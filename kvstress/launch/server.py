"""A server that lives exactly as long as a block of code, whatever ends the block.

`launched` starts a command, waits until it has answered, and watches it; afterwards no process
and no port of it is left. That holds for an error, a cancellation and a kill -9 of kvstress
alike, because a supervisor process does the ending (see `kvstress.launch.supervisor`).
"""

import os
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio

from kvstress.core.errors import CannotJudgeError, UsageError
from kvstress.core.events import Event
from kvstress.launch import watch
from kvstress.launch.command import fill, placeholders
from kvstress.launch.leash import Leash
from kvstress.launch.log import Secrets
from kvstress.launch.ports import free_port, holders, wait_free
from kvstress.launch.start import Launch, RefusedToStart, until_ready

_PORT_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """A running server. `supervisor` is the process whose SIGTERM ends it together with all its descendants."""

    url: str
    port: int
    pid: int
    log: Path
    supervisor: int
    _leash: Leash = field(repr=False)

    async def stop(self) -> None:
        """End the server now instead of at the end of the block. CannotJudgeError when something is left of it."""
        if left := await self._leash.end():
            raise CannotJudgeError(_survives(left))

    def hold(self) -> None:
        """Leave the server running after the block and after kvstress; SIGTERM to `supervisor` ends it."""
        self._leash.hold()


@asynccontextmanager
async def launched(
    command: str,
    *,
    clock: Callable[[], float],
    emit: Callable[[Event], None],
    ready: Callable[[str], Awaitable[bool]],
    log_path: Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    ready_timeout: float = 600.0,
    values: Mapping[str, str] | None = None,
    stop_command: str | None = None,
    stop_seconds: float = 60.0,
    grace: float = 10.0,
    patterns: Sequence[str] = (),
    attempts: int = 1,
) -> AsyncIterator[Launched]:
    """Run `command` until the block ends; yields once `ready(url)` was true.

    `{port}` becomes a free port (or `values["port"]`, for which it waits), other `{placeholders}` of `command`, `env`
    and `stop_command` come from `values`. `env` adds to kvstress' own environment. Output goes to `log_path`.
    The server is ended by `stop_command` (at most `stop_seconds`) if there is one, then SIGTERM, and after `grace`
    seconds SIGKILL. An exit in mid-run, a restart and a log line in which one of `patterns` (regular expressions) is
    found become ServerEvents. After a refusal to start it is tried `attempts` times in all, with a log each.

    Raises UsageError for what is wrong with the call, RefusedToStart when the server did not come up,
    CannotJudgeError when it could not be started or ended.
    """
    tried = _Try(
        command=command, env=dict(env or {}), cwd=cwd, values=dict(values or {}), stop=stop_command,
        stop_seconds=stop_seconds, grace=grace, log=log_path, clock=clock, emit=emit, ready=ready,
        ready_timeout=ready_timeout, patterns=tuple(patterns),
    )  # fmt: skip
    async with AsyncExitStack() as stack:
        yield await _first_that_starts(stack, tried, attempts)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Try:
    """The call's parameters, under one name for each attempt."""

    command: str
    env: Mapping[str, str]
    cwd: Path | None
    values: Mapping[str, str]
    stop: str | None
    stop_seconds: float
    grace: float
    log: Path
    clock: Callable[[], float]
    emit: Callable[[Event], None]
    ready: Callable[[str], Awaitable[bool]]
    ready_timeout: float
    patterns: tuple[str, ...]


async def _first_that_starts(stack: AsyncExitStack, tried: _Try, attempts: int) -> Launched:
    for attempt in range(2, attempts + 1):
        try:
            return await stack.enter_async_context(_once(tried))
        except RefusedToStart:
            name = f"{tried.log.stem.removesuffix(f'.{attempt - 1}')}.{attempt}{tried.log.suffix}"
            tried = replace(tried, log=tried.log.with_name(name))
    return await stack.enter_async_context(_once(tried))


@asynccontextmanager
async def _once(tried: _Try) -> AsyncIterator[Launched]:
    port = await _port(tried)
    launch, stop = _launch(tried, port)
    patterns = watch.compiled(tried.patterns)
    left: tuple[int, ...] = ()
    leash = Leash(
        launch.argv, env=launch.env, cwd=tried.cwd, log=tried.log, stop=stop,
        stop_seconds=tried.stop_seconds, grace=tried.grace,
    )  # fmt: skip
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(leash.pump)
            try:
                pid = await until_ready(launch, leash, group)
                group.start_soon(watch.for_exit, launch, leash)
                group.start_soon(watch.for_lines, launch, patterns)
                await group.start(watch.for_restart, launch)
                yield Launched(
                    url=launch.url, port=port, pid=pid, log=tried.log, supervisor=leash.supervisor, _leash=leash
                )
            finally:
                left = await leash.end()
                group.cancel_scope.cancel()
    except BaseExceptionGroup as errors:
        _raise_alone(errors)
    if not leash.held:
        await _nothing_left(left, port, leash)


async def _port(tried: _Try) -> int:
    """The port that was asked for, once it is free, or else one that is."""
    if "port" not in tried.values:
        return free_port()
    text = tried.values["port"]
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise UsageError(f"cannot launch a server on port {text!r}: a port is a number from 1 to 65535")
    if not await wait_free(int(text), _PORT_SECONDS):
        raise CannotJudgeError(f"port {text} is taken{_by(int(text))}: end that, or leave the port to kvstress")
    return int(text)


def _launch(tried: _Try, port: int) -> tuple[Launch, list[str] | None]:
    """What to start, and the words of the stop command; UsageError when a placeholder and its value do not meet."""
    values = {**tried.values, "port": str(port)}
    in_stop = placeholders(tried.stop) if tried.stop else frozenset()
    argv, given = fill(tried.command, tried.env, values, optional=in_stop - {"port"})
    if tried.cwd is not None and not tried.cwd.is_dir():
        raise UsageError(f"the working directory {tried.cwd} for {argv[0]} does not exist")
    # A server whose output is buffered when it is killed takes its last words with it.
    env = {"PYTHONUNBUFFERED": "1", **os.environ, **given}
    launch = Launch(
        argv=(_found(argv[0], env), *argv[1:]), env=env, cwd=tried.cwd, port=port, log=tried.log,
        log_start=tried.log.stat().st_size if tried.log.exists() else 0, secrets=Secrets.of(os.environ, given),
        ready=tried.ready, ready_timeout=tried.ready_timeout, own_port=tried.stop is None,
        clock=tried.clock, emit=tried.emit,
    )  # fmt: skip
    return launch, fill(tried.stop, {}, values, optional=frozenset(values))[0] if tried.stop else None


def _found(program: str, env: Mapping[str, str]) -> str:
    """`program` with its path; one installed beside kvstress is found also when its environment is not active."""
    if "/" in program:
        return program
    beside = Path(sys.executable).parent
    return shutil.which(program, path=f"{env.get('PATH', os.defpath)}{os.pathsep}{beside}") or program


async def _nothing_left(left: tuple[int, ...], port: int, leash: Leash) -> None:
    if left:
        raise CannotJudgeError(_survives(left))
    if not await wait_free(port):
        raise CannotJudgeError(
            f"the server was ended, but its port {port} is still taken{_by(port)}: "
            f"{'the stop command did not end it' if leash.has_stop else 'a server in a container needs a stop command'}"
            f"{f' ({leash.stop_failed})' if leash.stop_failed else ''}"
        )


def _survives(left: tuple[int, ...]) -> str:
    return f"the server could not be ended: it survives SIGKILL (process {', '.join(map(str, left))})"


def _by(port: int) -> str:
    held = holders(port)
    return f" by process {held[0]}" if held else ""


def _raise_alone(group: BaseExceptionGroup[BaseException]) -> None:
    """Raise the one error of `group` as itself: the task group that watches the server is nobody else's business."""
    _, errors = group.split(anyio.get_cancelled_exc_class())
    if errors is None:
        raise group
    first, *others = errors.exceptions
    for other in others:
        first.add_note(f"while the server was watched: {type(other).__name__}: {other}")
    raise first from first.__cause__
