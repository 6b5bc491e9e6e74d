"""Planning, storing and going on, with an executor that launches nothing: who makes the probes is a parameter."""

import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from kvstress.core.errors import CannotJudgeError, UsageError
from kvstress.harness.bisect import BisectOptions, Found, Keep, Make, Search, bisect, plan
from kvstress.harness.launching import Launching
from kvstress.harness.options import RunOptions
from kvstress.search.outcome import Cell, Outcome, Showing

COMMAND = "engine serve --limit {limit} --port {port}"


def options(folder: Path, **changed: Any) -> BisectOptions:
    run = RunOptions(launch=COMMAND, workload="speedbench", max_steps=40, out=folder / "search")
    return replace(BisectOptions(run=run, low="40G", high="96G"), **changed)


class Cluster:
    """An executor that makes a batch at once, of a server that fails up to `last`; `batches` is what it was given."""

    def __init__(self, last: int) -> None:
        self.last = last
        self.batches: list[list[int]] = []

    async def __call__(self, cells: Sequence[Cell], make: Make, keep: Keep) -> None:
        self.batches.append([cell.index for cell in cells])
        for cell in reversed(cells):
            fails = cell.index <= self.last
            keep(
                cell,
                Outcome(
                    showing=Showing.FAILS if fails else Showing.SURVIVED,
                    first_failure=12 if fails else None,
                    exposure=13 if fails else 40,
                    pool_fill=10,
                    how="measured-eviction",
                    run=f"{cell.index}",
                    seconds=2.0,
                ),
            )


def search(made: Search, executor: Cluster) -> Found:
    async def main() -> Found:
        return await bisect(made, view=lambda m: nullcontext(lambda e: None), tell=lambda p: None, executor=executor)

    return anyio.run(main)


def test_what_does_not_depend_on_one_another_is_handed_out_together(tmp_path: Path) -> None:
    cluster = Cluster(last=20)
    found = search(plan(options(tmp_path)), cluster)
    assert cluster.batches[0] == [0, 56]
    assert all(len(batch) == 1 for batch in cluster.batches[1:])
    assert found.content["boundary"] == {"failing": "60G", "passing": "61G", "confidence": None}


def test_every_value_is_one_batch(tmp_path: Path) -> None:
    cluster = Cluster(last=20)
    search(plan(options(tmp_path, every=True)), cluster)
    assert cluster.batches == [list(range(57))]


def test_bisect_json_has_its_documented_shape(tmp_path: Path) -> None:
    search(plan(options(tmp_path)), Cluster(last=20))
    stored = json.loads((tmp_path / "search" / "bisect.json").read_text())
    assert stored["knob"] == "limit"
    assert stored["exposure"] == 40
    assert stored["refused_below"] is None
    assert stored["probes"][0] == {
        "value": "96G", "number": 96.0, "repeat": 1, "outcome": "SURVIVED", "first_failure": None, "exposure": 40,
        "pool_fill": 10, "how": "measured-eviction", "words": "SURVIVED 40 steps, pool full at 10", "why": "",
        "run": "56", "launches": 1, "seconds": 2.0,
    }  # fmt: skip


def test_a_search_goes_on_from_what_is_stored_wherever_it_was_cut_off(tmp_path: Path) -> None:
    whole = search(plan(options(tmp_path / "whole")), Cluster(last=20))
    for kept in range(1, 8):
        folder = tmp_path / f"cut{kept}"
        first = search(plan(options(folder, launches=kept)), Cluster(last=20))
        assert len(first.seen) == kept
        cluster = Cluster(last=20)
        found = search(plan(options(folder)), cluster)
        assert found.content["boundary"] == whole.content["boundary"]
        assert sum(map(len, cluster.batches)) == len(whole.seen) - kept


def test_a_budget_of_time_counts_what_was_stored(tmp_path: Path) -> None:
    assert len(search(plan(options(tmp_path, seconds=5.0)), Cluster(last=20)).seen) == 3
    assert len(search(plan(options(tmp_path, seconds=5.0)), Cluster(last=20)).seen) == 3


@pytest.mark.parametrize("content", ["{", "[]", '{"schema_version": 1}'])
def test_a_damaged_search_is_named_and_not_overwritten(tmp_path: Path, content: str) -> None:
    (tmp_path / "search").mkdir()
    (tmp_path / "search" / "bisect.json").write_text(content)
    with pytest.raises(CannotJudgeError, match=r"bisect\.json cannot be read .*--overwrite"):
        plan(options(tmp_path))
    assert plan(options(tmp_path, overwrite=True)).known == ()


def test_a_knob_may_stand_in_the_environment(tmp_path: Path) -> None:
    made = options(tmp_path)
    run = replace(made.run, launch="engine --port {port}", launching=Launching(env={"POOL": "{pool}"}))
    assert plan(replace(made, run=run)).knob == "pool"


def test_a_secret_of_the_command_is_not_stored(tmp_path: Path) -> None:
    made = options(tmp_path)
    run = replace(made.run, launch=f"{COMMAND} --api-key sk-4711", launching=Launching(env={"TOKEN": "sk-4712"}))
    search(plan(replace(made, run=run)), Cluster(last=20))
    for path in (tmp_path / "search").iterdir():
        assert "sk-471" not in path.read_text()


def test_a_flaky_search_of_too_fine_a_grid_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="choose a coarser --resolution"):
        plan(options(tmp_path, repeats=8, resolution="1M", low="40000M", high="96000M"))
