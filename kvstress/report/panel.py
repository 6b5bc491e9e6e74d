"""The live picture: five short lines that a glance across the room can read, at any width from 40 columns on.

It is drawn from a clock and the latest state, not from events: the one moment that matters is
a request that has been silent for minutes, and then no event comes.
"""

from collections.abc import Callable, Iterator

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from kvstress.core.manifest import Manifest
from kvstress.core.sample import Sample
from kvstress.report import phrases
from kvstress.report.hostile import encodable, line
from kvstress.report.progress import Progress

# used by requests, cached but evictable, free: told apart by shape as well as by colour
BLOCKS = ("█", "▒", "·")
ASCII_BLOCKS = ("#", "=", ".")
STYLES = ("bold", "cyan", "dim")


class Panel:
    """A rich renderable; `clock` is any monotonic seconds, set against the events' own time when the first arrives."""

    def __init__(self, manifest: Manifest, progress: Progress, clock: Callable[[], float], *, ascii_only: bool) -> None:
        self.manifest, self.progress, self.clock, self.ascii_only = manifest, progress, clock, ascii_only
        self._began = clock()

    def synchronise(self, at: float) -> None:
        """The run's own time is `at` now."""
        self._began = self.clock() - at

    def elapsed(self) -> float:
        """Seconds since the run's start, by the clock; never behind the newest event."""
        return max(self.clock() - self._began, self.progress.last_at)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # The picture keeps its height whatever it says: a view that grows and shrinks makes the lines above it jump.
        for text in self.lines(options.max_width):
            shown = (
                Text(encodable(text.plain, "ascii"), spans=[]) if self.ascii_only and not text.plain.isascii() else text
            )
            shown.truncate(options.max_width, overflow="ellipsis" if not self.ascii_only else "crop")
            shown.no_wrap = True
            yield shown

    def lines(self, width: int) -> Iterator[Text]:
        """The picture's lines for a terminal of `width` columns."""
        now = self.elapsed()
        dot = " | " if self.ascii_only else " · "
        yield Text(self._who(dot), style="dim")
        yield Text(self._step(dot), style="bold")
        yield Text(self._request(now, dot))
        yield gauge(self.progress.sample, width, ASCII_BLOCKS if self.ascii_only else BLOCKS)
        yield Text(self._rate(dot), style="dim")
        yield self._time(now, dot)

    def _who(self, dot: str) -> str:
        target = self.manifest.target
        who = "EMBEDDED reference server" if target.embedded else target.model or target.url
        return f"{line(self.manifest.workload, 40)}{dot}{line(who, 120)}"

    def _step(self, dot: str) -> str:
        if self.progress.step is None:
            return "sizing prompts"
        limits = [n for n in (self.manifest.total_steps, self.manifest.max_steps) if n is not None]
        of = f" of {min(limits):,}" if limits else ""
        label = f"{dot}{line(self.progress.label, 24)}" if self.progress.label else ""
        return f"prompt {self.progress.step:,}{label}{dot}{self.progress.completed:,}{of} done"

    def _request(self, now: float, dot: str) -> str:
        sent = self.progress.request
        if sent is None:
            return "between requests"
        others = f"{dot}{self.progress.flying:,} in flight" if self.progress.flying > 1 else ""
        return f"{line(sent.phase, 24)} {max(0.0, now - sent.at):.1f} s{others}"

    def _rate(self, dot: str) -> str:
        rates = ((self.progress.rate_in, "prompt"), (self.progress.rate_out, "output"))
        known = dot.join(f"{unit} {phrases.count(rate)}" for rate, unit in rates if rate is not None)
        return f"{known} tok/s" if known else "no rate yet"

    def _time(self, now: float, dot: str) -> Text:
        failed = self.progress.failures
        text = Text(f"failures {failed:,}", style="bold red" if failed else "")
        text.append(f"{dot}{timer(now)}", style="not bold default")
        cap = self.manifest.max_duration
        if cap is not None:
            text.append(f"{dot}{timer(max(0.0, cap - now))} left", style="not bold default")
        return text


def timer(seconds: float) -> str:
    """`seconds` as 0:07, 24:53 or 1:02:03: hundredths would only flicker."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def gauge(sample: Sample | None, width: int, blocks: tuple[str, str, str]) -> Text:
    """The KV pool as a bar with its numbers: as much of it as the server exports."""
    if sample is None or (sample.kv_usage is None and (sample.kv_free is None or sample.kv_capacity is None)):
        return Text("pool not exported by this server" if sample else "pool not read yet", style="dim")
    usage = sample.kv_usage
    if usage is None and sample.kv_free is not None and sample.kv_capacity:
        usage = 1 - sample.kv_free / sample.kv_capacity
    text = Text("pool ")
    bar = max(8, min(40, width - 46)) if width >= 60 else max(8, width - 13)
    for cells, block, style in zip(_shares(sample, usage or 0.0, bar), blocks, STYLES, strict=True):
        text.append(block * cells, style=style)
    text.append(f" {phrases.percent(usage or 0.0)}", style="bold")
    if width >= 60:
        text.append(f"  {_numbers(sample)}", style="dim")
    return text


def _shares(sample: Sample, usage: float, bar: int) -> tuple[int, int, int]:
    """Cells for used, cached and free. One free token is still shown, and so is one that is taken."""
    taken = min(bar, max(0, round(usage * bar)))
    if 0 < usage < 1:
        taken = min(bar - 1, max(1, taken))
    if sample.kv_cached is None or not sample.kv_capacity:
        return taken, 0, bar - taken
    cached = min(taken, round(sample.kv_cached / sample.kv_capacity * bar))
    return taken - cached, cached, bar - taken


def _numbers(sample: Sample) -> str:
    parts = [
        f"{name} {phrases.count(value)}"
        for name, value in (("cached", sample.kv_cached), ("free", sample.kv_free))
        if value is not None
    ]
    return " ".join(parts)
