"""GPU memory comes back some time after its process is gone, and the next server counts what is free.

A launch that begins too early finds less memory than the last one, sizes its pool
differently or refuses to start, and a search over memory limits would take that for an answer.
"""

import subprocess
from collections.abc import Sequence

import anyio

_QUERY = ("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits")
_QUERY_SECONDS = 20.0
_LOOK_SECONDS = 0.5


async def used_mib(query: Sequence[str] = _QUERY) -> tuple[int, ...] | None:
    """MiB in use on each GPU; None where there is none, or none that tells."""
    try:
        with anyio.fail_after(_QUERY_SECONDS):
            done = await anyio.run_process(query, check=True, stderr=subprocess.DEVNULL)
        return tuple(int(line) for line in done.stdout.split()) or None
    except (OSError, TimeoutError, subprocess.CalledProcessError, ValueError):
        return None


async def wait_memory_back(
    level: Sequence[int], *, within_mib: int = 512, seconds: float = 60.0, query: Sequence[str] = _QUERY
) -> bool:
    """Wait until each GPU uses at most `level` + `within_mib` MiB; False when `seconds` did not suffice.

    `level` is what `used_mib` said before the first launch. True where nothing can be read: then
    there is nothing to wait for.
    """
    with anyio.move_on_after(seconds):
        while True:
            used = await used_mib(query)
            if used is None or all(now <= then + within_mib for now, then in zip(used, level, strict=False)):
                return True
            await anyio.sleep(_LOOK_SECONDS)
    return False
