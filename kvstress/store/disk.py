"""Writing so that a crash, a kill or a full disk costs at most the line being written.

Rows go to the operating system one `write` each: nothing waits in a buffer of ours that a
`kill -9` could empty. Files that are replaced as a whole are written beside their place,
synced and renamed, so that a reader finds the old one or the new one.
"""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kvstress.core.errors import CannotJudgeError

_FULL = "free some space or choose another directory; what was recorded before is kept"
_FORBIDDEN = "make it writable or choose another directory"
_WAYS_OUT = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: _FULL,
    errno.EACCES: _FORBIDDEN,
    errno.EPERM: _FORBIDDEN,
    errno.EROFS: _FORBIDDEN,
}
# What network file systems answer when they cannot lock a directory.
_NO_LOCKS = (errno.EBADF, errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)


@contextmanager
def writing(path: Path, doing: str = "write") -> Iterator[None]:
    """Turns an OSError of the block into one sentence that names `path` and the way out (CannotJudgeError)."""
    try:
        yield
    except OSError as problem:
        way_out = _WAYS_OUT.get(problem.errno or 0, "choose another directory")
        raise CannotJudgeError(f"cannot {doing} {path}: {_reason(problem)}; {way_out}") from problem


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turns an OSError of the block into one sentence that names `path` (CannotJudgeError)."""
    try:
        yield
    except OSError as problem:
        raise CannotJudgeError(
            f"cannot read {path}: {_reason(problem)}; check the path and its permissions"
        ) from problem


def _reason(problem: OSError) -> str:
    why = problem.strerror or str(problem)
    return why[:1].lower() + why[1:]


class AppendFile:
    """A file that only grows, by whole lines: one that was not written in full, now or before a kill, is taken back."""

    def __init__(self, path: Path, *, fresh: bool) -> None:
        """Opens `path` and cuts off a torn last line; `fresh` empties it."""
        self.path = path
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | (os.O_TRUNC if fresh else 0)
        with writing(path):
            self._fd = os.open(path, flags, 0o666)
            self._size = last_line_end(path)
            if self._size != os.fstat(self._fd).st_size:
                os.ftruncate(self._fd, self._size)

    def write(self, data: bytes) -> None:
        """Hands `data` to the operating system before it returns; all of it or, with CannotJudgeError, none."""
        with writing(self.path):
            try:
                _write_all(self._fd, data)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(self._fd, self._size)
                raise
        self._size += len(data)

    def sync(self) -> None:
        """Waits until what was written is on the disk itself."""
        with writing(self.path):
            os.fsync(self._fd)

    def rename(self, path: Path) -> None:
        """Moves the open file to `path`; writing goes on there."""
        with writing(path):
            self.path.replace(path)
        self.path = path

    def close(self) -> None:
        """Closes the file; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def replace(path: Path, data: bytes) -> None:
    """Puts `data` at `path` as a whole or not at all, surviving a power cut once it returned."""
    beside = path.with_name(f".{path.name}.new")
    with writing(path):
        try:
            fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
            try:
                _write_all(fd, data)
                os.fsync(fd)
            finally:
                os.close(fd)
            beside.replace(path)
        except OSError:
            with suppress(OSError):
                beside.unlink(missing_ok=True)
            raise
        _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def lock(directory: Path) -> int:
    """Makes this process the only writer of `directory` until the returned descriptor is closed.

    The kernel drops the lock when the process dies, however it dies. Raises CannotJudgeError
    when somebody else holds it. Where a network file system cannot lock a directory there is no protection.
    """
    with writing(directory, "open"):
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as problem:
        os.close(fd)
        raise CannotJudgeError(
            f"another kvstress is writing to {directory}: wait until it has ended or choose another --out"
        ) from problem
    except OSError as problem:
        if problem.errno not in _NO_LOCKS:
            os.close(fd)
            raise CannotJudgeError(f"cannot lock {directory}: {problem.strerror}; choose another --out") from problem
    return fd


def last_line_end(path: Path) -> int:
    """The offset behind the last newline of `path`: what comes after it was cut off in mid-write. Bytes."""
    with reading(path), path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - 65_536)
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
    return 0
