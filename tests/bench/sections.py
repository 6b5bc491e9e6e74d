"""What is measured, one function a question; each yields its figures as soon as it has them."""

import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.bench.figures import Figure, ratio
from tests.bench.peers import installed, peer_cpu
from tests.bench.processes import CLIENT, CORES, pinned, serving, told

STREAMS, EVENTS = 64, 250
PROMPT_BYTES = 128 << 10
SPACED = ((1, 20), (64, 20), (256, 20), (1024, 100))


def _ours(url: str, folder: str, *arguments: object, anywhere: bool = False) -> dict[str, Any]:
    out = Path(folder) / "run"
    shutil.rmtree(out, ignore_errors=True)
    return told("ours", url, out, *arguments, anywhere=anywhere)


def _figure(section: str, who: str, measure: str, found: list[dict[str, Any]], key: str, note: str = "") -> Figure:
    return Figure(section=section, who=who, measure=measure, values=tuple(one[key] for one in found), note=note)


def _per(section: str, who: str, measure: str, found: list[dict[str, Any]], unit: str, scale: float) -> Figure:
    values = tuple(scale * one["cpu_s"] / one[unit] for one in found)
    return Figure(section=section, who=who, measure=measure, values=values)


def events(rounds: int) -> Iterator[Figure]:
    """CPU per streamed event: 64 streams, 250 events each, one every 20 ms, everything recorded and judged."""
    section, measure = "events", "CPU per event, µs"
    taken: dict[str, list[dict[str, Any]]] = {"bare, reads": [], "bare, lines": [], "kvstress": []}
    with serving() as url, tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            for how in ("reads", "lines"):
                taken[f"bare, {how}"].append(told("bare", how, url, "every-20ms", STREAMS, EVENTS, 2, 200))
            taken["kvstress"].append(_ours(url, folder, "--steps", 2 * STREAMS, "--events", EVENTS))
        found = {who: _per(section, who, measure, costs, "events", 1e6) for who, costs in taken.items()}
        yield from found.values()
        for bare in ("bare, reads", "bare, lines"):
            yield ratio(section, "CPU, ratio", found["kvstress"], found[bare])
        for who, costs in taken.items():
            yield _figure(section, who, "peak RSS, MB", costs, "rss_mb")
        for name in installed():
            values = tuple(1e6 * peer_cpu(name, url, STREAMS, EVENTS) for _ in range(min(rounds, 3)))
            yield Figure(section=section, who=name, measure=measure, values=values)


def prompts(rounds: int) -> Iterator[Figure]:
    """CPU per request with 128 KB prompts and one token of answer; generating, hashing and recording them included."""
    section, measure = "prompts", "CPU per request, ms"
    bare, ours, short = [], [], []
    with serving() as url, tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            bare.append(told("bare", "lines", url, "every-1ms", 8, 1, 50, PROMPT_BYTES))
            common = ("--steps", 400, "--events", 1, "--model", "every-1ms", "--set", "schedule.lanes=8")
            asked = (*common, "--set", "phases.ask.max_tokens=1")
            ours.append(_ours(url, folder, *asked, "--set", f"source.contexts={PROMPT_BYTES // 4}"))
            short.append(_ours(url, folder, *asked))
    found = [
        _per(section, who, measure, costs, "requests", 1e3)
        for who, costs in (("bare, lines", bare), ("kvstress", ours), ("kvstress, short prompts", short))
    ]
    yield from found
    values = tuple(long - little for long, little in zip(found[1].values, found[2].values, strict=True))
    yield Figure(section=section, who="kvstress", measure="of it for the 128 KB, ms", values=values)


def saturation(rounds: int) -> Iterator[Figure]:
    """Events per second on one core: at a steady offer of 25,600, and as fast as they can be had."""
    for pace, name, count in ((2.5, "25,600 offered", 4_000), (0, "no limit", 4_000)):
        found = []
        with serving() as url, tempfile.TemporaryDirectory() as folder:
            for _ in range(rounds):
                asked = ("--steps", STREAMS, "--events", count, "--model", f"every-{pace}ms")
                found.append(_ours(url, folder, *asked, "--set", f"phases.ask.max_tokens={count}"))
        rates = tuple(one["events"] / one["wall_s"] for one in found)
        yield Figure(section="saturation", who="kvstress", measure="events per second", values=rates, note=name)
        yield _figure("saturation", "kvstress", "loop lag p99, ms", found, "lag_p99_ms", name)
        yield _figure("saturation", "kvstress", "loop lag worst, ms", found, "lag_max_ms", name)


def workers(rounds: int) -> Iterator[Figure]:
    """Events per second of several processes against one server; needs a core for each of them and one for it."""
    taken: dict[int, list[dict[str, Any]]] = {count: [] for count in (1, 2, 4) if count == 1 or count < len(CORES)}
    asked = ("--steps", 4 * STREAMS, "--events", 2_000, "--model", "every-0ms", "--set", "phases.ask.max_tokens=2000")
    with serving() as url, tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            for count, found in taken.items():
                found.append(_ours(url, folder, *asked, "--workers", count, anywhere=True))
    figures = {
        count: Figure(
            section="workers",
            who=f"kvstress, {count} workers",
            measure="events per second",
            values=tuple(one["events"] / one["wall_s"] for one in found),
        )
        for count, found in taken.items()
    }
    yield from figures.values()
    for count, figure in figures.items():
        if count > 1:
            yield ratio("workers", "events per second, ratio", figure, figures[1])


def accuracy(rounds: int) -> Iterator[Figure]:
    """By how much TTFT and the gaps between events are off, against the server's clock."""
    for streams, pace in SPACED:
        found = []
        count = 5_000 // pace
        steps = max(8, 2 * streams)
        with serving() as url, tempfile.TemporaryDirectory() as folder:
            for _ in range(rounds):
                asked = ("--workload", "spaced", "--steps", steps, "--events", count, "--model", f"every-{pace}ms")
                more = ("--set", f"schedule.every={5.0 / streams}", "--set", f"phases.ask.max_tokens={count}")
                found.append(_ours(url, folder, *asked, *more, "--accuracy"))
        note = f"{streams} streams, an event every {pace} ms"
        for key in ("ttft_error_p50", "ttft_error_p99", "gap_error_p50", "gap_error_p99"):
            yield _figure("accuracy", "kvstress", f"{key.replace('_', ' ')}, ms", found, f"{key}_ms", note)
        yield _figure("accuracy", "kvstress", "peak RSS, MB", found, "rss_mb", note)


def startup(rounds: int) -> Iterator[Figure]:
    """Wall time of `kvstress --help`, and from the start of `kvstress run` to its first connection."""
    program = [str(Path(sys.executable).parent / "kvstress")]
    helps = tuple(_seconds_to_end([*program, "--help"]) for _ in range(rounds))
    yield Figure(section="startup", who="kvstress", measure="--help, s", values=helps)
    firsts = tuple(_seconds_to_connect(program) for _ in range(rounds))
    yield Figure(section="startup", who="kvstress", measure="run to first request, s", values=firsts)


def _seconds_to_end(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(pinned(CLIENT, *command), stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def _seconds_to_connect(program: list[str]) -> float:
    with socket.create_server(("127.0.0.1", 0)) as listening, tempfile.TemporaryDirectory() as folder:
        listening.settimeout(60)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        workload = str(Path(__file__).parent / "workloads" / "burst.toml")
        began = time.perf_counter()
        command = [*program, "run", "--server", url, "--workload", workload, "--out", f"{folder}/run", "--quiet"]
        process = subprocess.Popen(pinned(CLIENT, *command), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            listening.accept()[0].close()
            return time.perf_counter() - began
        finally:
            process.kill()
            process.wait()


def stored(rounds: int, requests: int) -> Iterator[Figure]:
    """Judging and reporting a stored run again, scaled to a million requests; memory as the run grows tenfold."""
    with tempfile.TemporaryDirectory() as folder:
        for oracles in ("speedbench", "all"):
            whole, tenth = Path(folder) / oracles, Path(folder) / f"{oracles}-tenth"
            told("stored", "make", whole, requests, oracles)
            told("stored", "make", tenth, requests // 10, oracles)
            yield from _judged(whole, tenth, rounds, requests, f"{oracles} oracles, {requests:,} requests")


def _judged(whole: Path, tenth: Path, rounds: int, requests: int, note: str) -> Iterator[Figure]:
    section, who = "stored", "kvstress"
    for what, doing in (("judge", "judge"), ("report", "report"), ("judge-all", "judge, all files")):
        found = [told("stored", what, whole) for _ in range(rounds)]
        per_million = tuple(one["cpu_s"] * 1e6 / requests for one in found)
        yield Figure(section=section, who=who, measure=f"{doing} a million, s", values=per_million, note=note)
        little = told("stored", what, tenth)["rss_mb"]
        grown = tuple(one["rss_mb"] - little for one in found)
        yield Figure(section=section, who=who, measure=f"{doing}: RSS, tenfold, MB", values=grown, note=note)


SECTIONS = (events, prompts, saturation, workers, accuracy, startup)
