"""Who listens on a loopback port, and is it free.

Asking by connecting would add a connection to a server whose connections are being
counted, and cannot tell *whose* port it is. The kernel's tables can: a port that was free when
it was chosen and is held by a stranger when the server wants it must not be taken for the server.
"""

import socket
from collections.abc import Iterable
from pathlib import Path

import anyio

_LISTEN = b"0A"
_LOOK_SECONDS = 0.05


def free_port() -> int:
    """A TCP port that nothing on 127.0.0.1 holds at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def is_free(port: int) -> bool:
    """Could a server listen on `port` now? Closed connections still waiting out their time do not count."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


async def wait_free(port: int, seconds: float = 10.0) -> bool:
    """Wait until `port` is free, at most `seconds`; False when it was still held."""
    with anyio.move_on_after(seconds):
        while True:
            if is_free(port):
                return True
            await anyio.sleep(_LOOK_SECONDS)
    return False


def listeners(port: int) -> frozenset[int]:
    """The inodes of the sockets that listen on `port`, on any address; empty where there is no /proc."""
    suffix = b":%04X" % port
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in _lines(table):
            # local address, remote address, state and, sixth after that, the inode
            fields = line.split()
            if fields[1].endswith(suffix) and fields[3] == _LISTEN:
                found.add(int(fields[9]))
    return frozenset(found)


def _lines(table: str) -> list[bytes]:
    try:
        return Path(table).read_bytes().splitlines()[1:]
    except OSError:
        return []


def holders(port: int, among: Iterable[int] | None = None) -> tuple[int, ...]:
    """The processes (all, or those of `among`) seen to listen on `port`; other users' cannot be seen."""
    wanted = {f"socket:[{inode}]" for inode in listeners(port)}
    pids = (int(entry.name) for entry in Path("/proc").glob("[0-9]*")) if among is None else among
    return tuple(sorted(pid for pid in pids if wanted and wanted & _descriptors(pid)))


def _descriptors(pid: int) -> set[str]:
    try:
        opened = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return set()  # it ended, or it is another user's
    return {target for descriptor in opened if (target := _target(descriptor))}


def _target(descriptor: Path) -> str | None:
    try:
        return str(descriptor.readlink())
    except OSError:
        return None  # closed since it was listed
