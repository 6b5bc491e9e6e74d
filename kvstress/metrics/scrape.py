"""One scrape is one Sample, beside the load: it waits for nobody and never raises for what a server says.

A server without a metrics page is asked once and then left alone. A page that was there and is
gone, is no Prometheus text, or cannot be fetched, is a Sample whose `problem` says so, because
that is evidence. What a single page cannot tell (a capacity that no gauge names, and which engine
this is when its families have vanished) is remembered here between scrapes.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from kvstress.core.sample import Sample
from kvstress.core.words import cap
from kvstress.metrics.alias import Dialect
from kvstress.metrics.dialects import UNKNOWN, Canonical, choose, named, read
from kvstress.metrics.parse import Page, parse
from kvstress.metrics.slots import Slots, read_slots

Fetch = Callable[[str], Awaitable[tuple[int | None, str, str | None]]]
Offload = Callable[[Callable[[], Page]], Awaitable[Page]]

# A page that takes so long and then says nothing is asked for less and less often: no step must wait for it for ever.
HANGS, LONGEST_PAUSE = 2.0, 120.0
PATHS = ("/metrics", "/prometheus/metrics")
# 501 is how llama.cpp says that it was started without --metrics.
_NO_PAGE = frozenset({404, 405, 410, 501})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Got:
    """What one path gave: no `page` when the server says that there is none; `failed` when nothing could be read."""

    page: Page | None
    failed: bool = False


async def _here(work: Callable[[], Page]) -> Page:
    return work()


class Scraper:
    """Scrapes one server. `fetch(path)` gives (status, text, problem); `clock` seconds since the run's start.

    `dialect` overrides what the page's names say (UsageError for a name that is none). `offload` runs the parser
    elsewhere, such as in a worker thread. `capacity`, in tokens, is the largest
    pool that an earlier part of a resumed run saw.
    """

    def __init__(
        self,
        fetch: Fetch,
        clock: Callable[[], float],
        dialect: str | None = None,
        *,
        offload: Offload = _here,
        capacity: float | None = None,
    ) -> None:
        self._fetch = fetch
        self._clock = clock
        self._dialect: Dialect | None = named(dialect) if dialect else None
        self._offload = offload
        self._peak = capacity
        self._path: str | None = None
        self._absent = False
        self._slots_absent = False
        self._hung = 0
        self._ask_again = 0.0
        self._turn = asyncio.Lock()

    async def scrape(self, why: str, step: int | None) -> Sample | None:
        """One Sample; None when the server has no metrics page, which is not asked for again.

        One at a time: of two that overlap the later may be read first, and its counters would seem to fall.
        """
        async with self._turn:
            return await self._scrape(why, step)

    async def _scrape(self, why: str, step: int | None) -> Sample | None:
        if self._absent:
            return None
        at = self._clock()
        if at < self._ask_again:
            problem = f"not asked for: it did not answer {self._hung} times in a row"
            return Sample(at=at, why=why, step=step, problem=problem, took=0.0)
        page = await self._page()
        if page is None:
            return None
        self._hung = self._hung + 1 if page.problem is not None and self._clock() - at >= HANGS else 0
        if self._hung > 1:
            self._leave_alone(self._clock() - at)
        sample = Sample(at=at, why=why, step=step, problem=page.problem)
        if page.series:
            sample = self._completed(replace(sample, **self._canonical(page)))
            sample = await self._with_slots(sample)
        return replace(sample, took=self._clock() - at)

    def _leave_alone(self, took: float) -> None:
        """After a second hang in a row for as long as it took, then for twice that, and so on."""
        self._ask_again = self._clock() + min(LONGEST_PAUSE, took * 2 ** (self._hung - 2))

    async def _page(self) -> Page | None:
        """The page at the path that had one before, else at the first that has one; None when no path has any."""
        if self._path is not None:
            page = (await self._at(self._path)).page
            return page or Page(series={}, problem=f"{self._path} is gone: it was there before")
        first: Page | None = None
        for path in PATHS:
            got = await self._at(path)
            if got.page is not None and (got.page.series or got.page.problem is None):
                self._path = path
                return got.page
            first = first or got.page
            if got.failed:
                break
        self._absent = first is None
        return first

    async def _at(self, path: str) -> _Got:
        status, text, problem = await self._fetch(path)
        if problem is not None or status is None:
            problem = f"{path} could not be read: {problem or 'no answer'}"
            return _Got(page=Page(series={}, problem=problem), failed=True)
        if status in _NO_PAGE:
            return _Got(page=None)
        if status != 200:
            problem = f"{path} answered {status}: {cap(' '.join(text[:400].split()), 120)}"
            return _Got(page=Page(series={}, problem=problem), failed=True)
        return _Got(page=await self._offload(lambda: parse(text)))

    def _canonical(self, page: Page) -> dict[str, Any]:
        dialect = self._dialect or choose(page)
        if dialect is not UNKNOWN:
            self._dialect = dialect
        words: Canonical = read(page, dialect)
        return {"dialect": dialect.name, "raw": words.raw, "problem": words.problem, **words.fields}

    def _completed(self, sample: Sample) -> Sample:
        """`sample` with the capacity and usage that follow from levels where no gauge names them.

        The KV pool is full when no token is free, as cached ones are evictable: usage = 1 − free / capacity, with
        capacity the largest free + cached seen at idle. Under load tokens in use are in neither.
        """
        free, capacity = sample.kv_free, sample.kv_capacity
        if free is None or sample.kv_cached is None:
            return sample
        if capacity is None:
            if sample.running == 0 or (sample.running is None and sample.why != "interval"):
                self._peak = max(self._peak or 0.0, free + sample.kv_cached)
            capacity = self._peak
        usage = sample.kv_usage if sample.kv_usage is not None or not capacity else 1 - free / capacity
        return replace(sample, kv_capacity=capacity, kv_usage=usage)

    async def _with_slots(self, sample: Sample) -> Sample:
        """`sample` with llama.cpp's usage, which only its `/slots` tells; unchanged elsewhere or when those are off."""
        if sample.dialect != "llama.cpp" or sample.kv_usage is not None or self._slots_absent:
            return sample
        status, text, problem = await self._fetch("/slots")
        slots: Slots | None = read_slots(text) if status == 200 and problem is None else None
        if slots is None:
            self._slots_absent = status is not None
            return sample
        return replace(sample, kv_usage=slots.usage, raw=sample.raw | slots.raw)
