"""From the command line to an engine."""

from __future__ import annotations

import argparse
import os

from kvstress.refserver import audit, defects
from kvstress.refserver.engine import Engine
from kvstress.refserver.geometry import DEFAULT_LIMIT, Geometry, GeometryError, geometry_for
from kvstress.refserver.memory import Fix, KvMemory
from kvstress.refserver.model import KV_HEADS
from kvstress.refserver.planting import debug_log
from kvstress.refserver.rank import RankConfig
from kvstress.refserver.ranks import LocalRanks, ProcessRanks, Ranks
from kvstress.refserver.scheduler import DEVICE_ERRORS, Scheduler

AUDIT_EXIT = 3
MOST_PORT = 65_535


def parser() -> argparse.ArgumentParser:
    """All options of the server."""
    options = argparse.ArgumentParser(prog="kvstress serve", description="Start the reference server.")
    add = options.add_argument
    add("--host", default="127.0.0.1")
    add("--port", type=_port, metavar="PORT", default=8000, help="0 picks a free one")
    add("--memory-limit", default=DEFAULT_LIMIT, help="binary size, at least 35.4G (default %(default)s)")
    add("--fix", choices=[fix.value for fix in Fix], help="a repair of the stale snapshot bytes (default none)")
    add("--defect", action="append", default=[], metavar="NAME[:PARAMETER]", help="plant a defect, see defects.py")
    add("--debug-log", metavar="FILE", help="say there when a defect fired, and on which request")
    add("--dedicated-snapshots", type=_slot_range, metavar="A-B", help="slots whose pages are never given to KV")
    add("--tensor-parallel", type=int, default=1, metavar="N", help="ranks, each in a process of its own")
    add("--audit", action="store_true", help="check the owner of every page before every step, stop when wrong")
    add(
        "--device-error",
        choices=list(DEVICE_ERRORS),
        default="INVALID_SPECULATION",
        help="how an invalid row is called",
    )
    add("--kv-format", choices=["fp8", "int8"], default="fp8", help="int8 has no NaN: a diagnostic")
    add("--max-running", type=_count, default=128, metavar="N", help="requests that may hold pages at once")
    add("--step-delay", type=_seconds, default=0.0, metavar="SECONDS", help="pause after every engine step")
    return options


def _port(text: str) -> int:
    if not (text.isdecimal() and int(text) <= MOST_PORT):
        raise argparse.ArgumentTypeError(f"{text!r} is no port: expected 0 to {MOST_PORT}")
    return int(text)


def _count(text: str) -> int:
    if not (text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is no count: expected 1 or more")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no time: expected seconds, as in 0.5")
    return seconds


def _slot_range(text: str) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    if not (dash and first.isdigit() and last.isdigit() and int(first) <= int(last)):
        raise argparse.ArgumentTypeError(f"{text!r} is no range of slots: expected two numbers, as in 0-47")
    return int(first), int(last)


def build_engine(options: argparse.Namespace) -> Engine:
    """The engine the options describe, not yet running. Raises GeometryError or DefectError for what cannot be."""
    geometry = geometry_for(options.memory_limit)
    dedicated = _dedicated(options.dedicated_snapshots, geometry)
    fix = Fix(options.fix or ("none" if defects.needs_seed_bug(options.defect) else "zero-on-release"))
    memory = KvMemory(geometry, _build_ranks(options, geometry, fix), fix, dedicated)
    scheduler = Scheduler(memory, max_running=options.max_running, device_error=options.device_error)
    before_step, on_fault = (audit.check, _stop_process) if options.audit else (None, None)
    engine = Engine(scheduler, step_delay=options.step_delay, before_step=before_step, on_fault=on_fault)
    log = debug_log(options.debug_log)
    for defect in options.defect:
        defects.plant(defect, engine, log)
    return engine


def _build_ranks(options: argparse.Namespace, geometry: Geometry, fix: Fix) -> Ranks:
    count = options.tensor_parallel
    if count < 1 or KV_HEADS % count:
        raise GeometryError(f"--tensor-parallel {count} does not divide the {KV_HEADS} KV heads of the model")
    inert, kv_format = fix is Fix.INERT_MASK, options.kv_format
    configs = [
        RankConfig(geometry=geometry, rank=rank, ranks=count, kv_format=kv_format, inert_mask=inert)
        for rank in range(count)
    ]
    return LocalRanks(configs) if count == 1 else ProcessRanks(configs)


def _dedicated(wanted: tuple[int, int] | None, geometry: Geometry) -> range:
    if wanted is None:
        return range(0)
    first, last = wanted
    if not 0 <= first <= last < geometry.slots:
        raise GeometryError(f"--dedicated-snapshots {first}-{last}: the slots of this pool are 0-{geometry.slots - 1}")
    return range(first, last + 1)


def _stop_process() -> None:
    """An audit violation ends the server: what it would serve from here on means nothing."""
    os._exit(AUDIT_EXIT)
