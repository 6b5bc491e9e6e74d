"""The layout of the pool is the report's."""

from __future__ import annotations

from itertools import pairwise

import pytest

from kvstress.refserver.geometry import DEFAULT_LIMIT, GIB, GeometryError, geometry_for, parse_size


def test_50_gib_gives_the_pages_and_slots_of_the_report() -> None:
    geometry = geometry_for("50G")
    assert (geometry.pages, geometry.slots) == (3760, 101)


def test_the_default_limit_has_four_times_the_pages() -> None:
    assert geometry_for(DEFAULT_LIMIT).pages == 15_024


@pytest.mark.parametrize("limit", ["50G", "61G", "94G"])
def test_the_rows_together_touch_every_page_and_neighbours_share_an_edge(limit: str) -> None:
    geometry = geometry_for(limit)
    rows = [geometry.slot_pages(slot) for slot in range(geometry.slots)]
    touched = {page for row in rows for page in row}
    assert touched == set(range(rows[-1].stop))
    assert geometry.pages - rows[-1].stop <= 1
    assert all(len(row) in (37, 38) for row in rows)
    assert sum(left[-1] == right[0] for left, right in pairwise(rows)) > len(rows) // 2


@pytest.mark.parametrize(("text", "size"), [("50G", 50 * GIB), ("35.5G", int(35.5 * GIB)), ("512M", GIB // 2)])
def test_memory_sizes_are_binary(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("limit", ["35G", "35.39G", "8G"])
def test_a_limit_below_the_least_is_refused_with_the_least(limit: str) -> None:
    with pytest.raises(GeometryError, match=r"needs at least 35\.4G: "):
        geometry_for(limit)


def test_the_least_limit_works_and_has_no_snapshots() -> None:
    assert geometry_for("35.4G").slots == 0


@pytest.mark.parametrize("limit", ["fifty", "-1G", "50X", "1000G"])
def test_other_impossible_limits_are_refused(limit: str) -> None:
    with pytest.raises(GeometryError):
        geometry_for(limit)
