"""A server has started when it has answered; until then every way of not starting gets its own sentence.

A port that listens is not yet a server (engines open it before the weights are loaded), and a
server that answers on our port is not yet ours. Whatever went wrong, its last log lines say
more than any message of ours, so they are part of the error.
"""

import os
import shlex
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from kvstress.core.errors import CannotJudgeError
from kvstress.core.events import Event, ServerChange, ServerEvent
from kvstress.core.units import show_duration
from kvstress.launch.leash import Leash
from kvstress.launch.log import Secrets, tail
from kvstress.launch.ports import holders, listeners
from kvstress.launch.supervisor import descendants

_FIRST_POLL_SECONDS, _LAST_POLL_SECONDS = 0.05, 1.0


class RefusedToStart(CannotJudgeError):  # noqa: N818 - the word for this outcome of a launch
    """The command exists, but ended before it was ready (`code` set) or was not ready in time (`code` None)."""

    def __init__(self, sentence: str, code: int | None) -> None:
        super().__init__(sentence)
        self.code = code


class NeverStarted(CannotJudgeError):  # noqa: N818 - the word for this outcome of a launch
    """There was no process: no such program, or one that this machine cannot execute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One attempt: what is started, where it logs from which byte on, and whom to tell."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path | None
    port: int
    log: Path
    log_start: int
    secrets: Secrets
    ready: Callable[[str], Awaitable[bool]]
    ready_timeout: float
    own_port: bool
    clock: Callable[[], float]
    emit: Callable[[Event], None]

    @property
    def url(self) -> str:
        """Where the server is to answer."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def program(self) -> str:
        """What errors call the server: the program alone, because arguments may hold keys."""
        return Path(self.argv[0]).name

    def tell(self, change: ServerChange, detail: str, code: int | None = None) -> None:
        """Emit a change of the server, dated now."""
        self.emit(ServerEvent(at=self.clock(), change=change, detail=detail, code=code))

    def last_words(self) -> str:
        """The end of the log as the second half of a sentence."""
        words = tail(self.log, self.log_start, self.secrets)
        return f"its last log lines: {words}" if words else f"it logged nothing to {self.log}"


async def until_ready(launch: Launch, leash: Leash, group: TaskGroup) -> int:
    """Wait until the server is ready; its process id. Raises CannotJudgeError, of which RefusedToStart is one.

    `group` is the caller's, and outlives the wait: one of our own would wrap what `ready` raises.
    """
    pid = await _spawned(launch, leash)
    launch.tell(ServerChange.STARTED, f"{launch.program} as process {pid} for port {launch.port}")
    with anyio.move_on_after(launch.ready_timeout) as waiting:
        group.start_soon(_cut_when_over, leash, waiting)
        await _poll(launch)
    if leash.over.is_set():
        raise RefusedToStart(_ended(launch, leash), leash.code)
    if waiting.cancelled_caught:
        raise RefusedToStart(_never_ready(launch, leash), None)
    if stranger := _stranger(launch, leash):
        raise CannotJudgeError(f"the server ({launch.program}) did not get its port: {stranger}; {launch.last_words()}")
    launch.tell(ServerChange.READY, f"answers at {launch.url}")
    return pid


async def _spawned(launch: Launch, leash: Leash) -> int:
    await leash.started.wait()
    if leash.failed is not None:
        raise NeverStarted(
            f"cannot start {launch.program}: {leash.failed} (no shell is used; if the command needs one, "
            f"write sh -c {shlex.quote('…')})"
        )
    if leash.pid is None:
        raise NeverStarted(f"the process that starts {launch.program} died at once; {launch.last_words()}")
    return leash.pid


async def _poll(launch: Launch) -> None:
    pause = _FIRST_POLL_SECONDS
    while not await launch.ready(launch.url):
        await anyio.sleep(pause)
        pause = min(2 * pause, _LAST_POLL_SECONDS)


async def _cut_when_over(leash: Leash, waiting: anyio.CancelScope) -> None:
    await leash.over.wait()
    waiting.cancel()


def ending(code: int | None) -> str:
    """An exit code in words: "exited with code 3", "was killed by SIGKILL"."""
    if code is None:
        return "was lost together with its supervisor"
    if code >= 0:
        return f"exited with code {code}"
    names = {signum.value: signum.name for signum in signal.Signals}
    return f"was killed by {names.get(-code, f'signal {-code}')}"


def _ended(launch: Launch, leash: Leash) -> str:
    why = f"the server ({launch.program}) {ending(leash.code)} before it was ready"
    if leash.code == 0 and descendants(leash.supervisor):
        why += " and left processes behind (now ended): the command must stay in the foreground"
    if stranger := _stranger(launch, leash):
        why += f"; {stranger}"
    return f"{why}; {launch.last_words()}"


def _never_ready(launch: Launch, leash: Leash) -> str:
    why = f"the server ({launch.program}) was not ready within {show_duration(launch.ready_timeout)}: "
    if stranger := _stranger(launch, leash):
        why += stranger
    elif listeners(launch.port):
        why += f"it listens on port {launch.port}, but never listed its models and generated one token"
    else:
        why += f"nothing listens on port {launch.port} (is {{port}} where the server takes its port?)"
    return f"{why}; {launch.last_words()}"


def _stranger(launch: Launch, leash: Leash) -> str | None:
    """Who else holds the port; None when the server itself does or nobody can tell (a container's is its engine's)."""
    if not launch.own_port:
        return None
    ours = {leash.supervisor, *descendants(leash.supervisor)}
    seen = set(holders(launch.port))
    if not seen or seen & ours:
        return None
    pid = min(seen)
    who = "kvstress itself" if pid == os.getpid() else f"process {pid}"
    return f"port {launch.port} is held by {who}, which is not part of it"
