"""Every planted defect by name, each one function that sets hooks, each with a healthy twin that must raise no alarm.

`--defect NAME[:PARAMETER[,PARAMETER]]`, where a parameter is a variant (`healthy` is the twin) or `name=number`.
Defects of single answers hit each third one that could be hit, `every=1` all of them. With any defect but `stale-alias`
the stale snapshot bytes are repaired unless `--fix` says otherwise, so that a failure has one cause.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvstress.refserver import defects_model as model
from kvstress.refserver import defects_more as more
from kvstress.refserver import defects_server as server
from kvstress.refserver import defects_wire as wire
from kvstress.refserver.engine import Engine
from kvstress.refserver.planting import DefectError, Site

DEFECTS: dict[str, tuple[Callable[[Site], None], tuple[str, ...]]] = {
    "stale-alias": (server.stale_alias, ()),
    "stream-error": (wire.stream_error, ("field", "string", "then-done")),
    "truncated": (wire.truncated, ()),
    "done-only": (wire.done_only, ()),
    "finish-error": (wire.finish_error, ("error", "abort")),
    "bang-flood": (model.bang_flood, ()),
    "nan-logprob": (wire.nan_logprob, ("literal", "500")),
    "empty-success": (wire.empty_success, ()),
    "usage-mismatch": (wire.usage_mismatch, ("total", "cached", "completion")),
    "silent-truncation": (model.silent_truncation, ()),
    "page-leak": (server.page_leak, ()),
    "stuck-waiting": (server.stuck_waiting, ()),
    "zombie": (server.zombie, ("health200", "health503")),
    "exit-after-idle": (server.exit_after_idle, ()),
    "gauge-lies": (server.gauge_lies, ("negative", "above-one", "backwards", "vanish")),
    "cross-talk": (model.cross_talk, ()),
    "warm-drift": (model.warm_drift, ()),
    "utf8-split": (wire.utf8_split, ()),
    "reset": (wire.reset, ()),
    "slow-drip": (wire.slow_drip, ()),
    "duplicate-chunk": (wire.duplicate_chunk, ()),
    "admit-hang": (server.admit_hang, ()),
    "ghost-decode": (server.ghost_decode, ()),
    "overflow-500": (server.overflow_500, ()),
    "broken-schema": (wire.broken_schema, ()),
    "batch-mixup": (model.batch_mixup, ()),
    "slow-ageing": (model.slow_ageing, ()),
    "counter-drift": (server.counter_drift, ()),
    "pressure-flip": (model.pressure_flip, ()),
    "order-leak": (model.order_leak, ()),
    "tail-page": (model.tail_page, ()),
    "resume-repeat": (more.resume_repeat, ()),
    "abort-neighbour": (more.abort_neighbour, ()),
    "lost-tail": (more.lost_tail, ()),
}


def parse(text: str) -> tuple[str, str, dict[str, float]]:
    """Name, variant and numbers of a --defect. Raises DefectError."""
    name, _, rest = text.partition(":")
    if name not in DEFECTS:
        raise DefectError(f"--defect {name}: there is no such defect; there are {', '.join(DEFECTS)}")
    variant, numbers = "", {}
    for parameter in filter(None, rest.split(",")):
        key, equals, value = parameter.partition("=")
        if equals:
            numbers[key] = _number(text, value)
        elif parameter in (*DEFECTS[name][1], "healthy"):
            variant = parameter
        else:
            known = ", ".join((*DEFECTS[name][1], "healthy"))
            raise DefectError(f"--defect {text}: {name} knows the variants {known}")
    return name, variant, numbers


def _number(text: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise DefectError(f"--defect {text}: {value!r} is not a number") from None


def plant(text: str, engine: Engine, log: Callable[[dict[str, Any]], None]) -> None:
    """Plant one defect in an engine that does not run yet. Raises DefectError."""
    name, variant, numbers = parse(text)
    DEFECTS[name][0](Site(name=name, variant=variant, numbers=numbers, engine=engine, log=log))


def needs_seed_bug(texts: list[str]) -> bool:
    """Do the stale snapshot bytes stay, when nothing is said of a fix?"""
    parsed = [parse(text) for text in texts]
    return all(name == "stale-alias" and variant != "healthy" for name, variant, _ in parsed)
