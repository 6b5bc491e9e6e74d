"""What a stretch of work cost this process: CPU of all its threads, wall time, and the peak of its memory."""

import asyncio
import resource
import time


class Meter:
    """Starts when it is made."""

    def __init__(self) -> None:
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    def cost(self, **counts: int) -> dict[str, float]:
        """Seconds of CPU and of wall time since the start, peak RSS in MB of the whole process, and `counts`."""
        return {
            "cpu_s": time.process_time() - self._cpu,
            "wall_s": time.perf_counter() - self._wall,
            "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            **counts,
        }


async def sample_lag(lags: list[float], every: float = 0.005) -> None:
    """Add to `lags` by how many seconds the loop came back late, every `every` seconds, until cancelled."""
    while True:
        before = time.perf_counter()
        await asyncio.sleep(every)
        lags.append(max(0.0, time.perf_counter() - before - every))


def percentile(values: list[float], share: float) -> float:
    """The smallest of `values` that at least `share` of them do not exceed."""
    return sorted(values)[max(0, -int(-share * len(values) // 1) - 1)]
