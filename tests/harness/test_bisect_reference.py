"""The search against committed exhaustive scans: it must say what probing every limit says, in 8 launches."""

import json
from pathlib import Path
from typing import Any

import pytest

from kvstress.search.conclusion import Status, conclude
from kvstress.search.outcome import Cell, Outcome, Seen, Showing
from kvstress.search.space import Space, space
from kvstress.search.steady import next_cells, worst_case

SCANS = Path(__file__).parents[2] / "reports" / "reference" / "bisect"


def scan(seed: int) -> tuple[Space, dict[int, Outcome]]:
    """The grid, and what each of its values showed."""
    content: dict[str, Any] = json.loads((SCANS / f"seed-{seed}" / "bisect.json").read_text())
    grid = space(content["low"], content["high"], "1G")
    found = {}
    for one in content["probes"]:
        index = grid.find(one["value"])
        assert index is not None
        found[index] = Outcome(
            showing=Showing(one["outcome"]),
            first_failure=one["first_failure"],
            exposure=one["exposure"],
            pool_fill=one["pool_fill"],
        )
    assert sorted(found) == list(range(grid.count)), "every value was probed"
    return grid, found


def searched(grid: Space, server: dict[int, Outcome]) -> list[Seen]:
    seen: list[Seen] = []
    while cells := next_cells(grid.count, seen):
        seen += [Seen(cell=cell, outcome=server[cell.index]) for cell in cells]
    return seen


def every(server: dict[int, Outcome]) -> list[Seen]:
    return [Seen(cell=Cell(index=index), outcome=outcome) for index, outcome in sorted(server.items())]


def test_the_boundary_is_that_of_the_exhaustive_scan_in_at_most_8_launches() -> None:
    grid, server = scan(2)
    seen = searched(grid, server)
    found, whole = conclude(grid.count, seen), conclude(grid.count, every(server))
    assert found.status is whole.status is Status.BOUNDARY
    assert found.boundary == whole.boundary
    assert found.boundary is not None
    assert grid.show(found.boundary.failing) == "74G"
    assert len(seen) <= worst_case(grid.count)[0] == 8


def test_a_ragged_edge_is_called_so_by_scan_and_search_alike() -> None:
    grid, server = scan(0)
    seen = searched(grid, server)
    found, whole = conclude(grid.count, seen), conclude(grid.count, every(server))
    assert found.status is whole.status is Status.NOT_MONOTONE
    assert set(found.changes) <= set(whole.changes), "each change that the search tells is one of the scan's"
    assert len(seen) <= 8


@pytest.mark.parametrize("seed", [0, 2])
def test_a_larger_pool_fills_later(seed: int) -> None:
    _, server = scan(seed)
    fills = [outcome.pool_fill for _, outcome in sorted(server.items()) if outcome.pool_fill is not None]
    assert fills == sorted(fills)
    assert len(fills) > 30
