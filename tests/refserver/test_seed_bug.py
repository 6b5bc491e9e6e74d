"""The report's failure on a live server: after the pool is full, on a warm send, and by the bytes alone."""

from __future__ import annotations

import pytest

from tests.refserver.running import serving, speedbench

STEPS = 24


@pytest.mark.timeout(180)
def test_the_first_failure_is_a_warm_send_soon_after_the_pool_filled() -> None:
    with serving("--memory-limit", "50G") as served:
        bench = speedbench(served, "seed-bug", STEPS)
    assert bench.pool_full_at is not None
    assert 12 <= bench.pool_full_at <= 16
    assert bench.failed_at is not None
    assert 0 <= bench.failed_at - bench.pool_full_at <= 5
    assert bench.phase == "warm"
    assert bench.message == "prepared model reported device error 6"
    assert bench.fewest_free_snapshots > 60


@pytest.mark.timeout(180)
@pytest.mark.parametrize("arguments", [("--fix", "inert-mask"), ("--kv-format", "int8")])
def test_without_nan_reaching_the_product_the_same_run_does_not_fail(arguments: tuple[str, str]) -> None:
    with serving("--memory-limit", "50G", *arguments) as served:
        bench = speedbench(served, "seed-bug", STEPS)
    assert bench.pool_full_at is not None
    assert bench.failed_at is None
