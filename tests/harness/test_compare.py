"""Stored runs held against each other: what is pooled, what is refused, and that tables tell what events do."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kvstress.core.errors import UsageError
from kvstress.harness.compare import compare_runs, traffic_key, write
from kvstress.harness.seen import look, skim
from kvstress.harness.stored import judge_run
from kvstress.stats.facts import Change
from kvstress.store.glance import has_tables
from tests.harness.test_gate import stored
from tests.store.made import manifest

HOSTILE = "<script>alert(1)</script>"


def side(folder: Path, name: str, count: int, steps: int, fail_at: int | None = None) -> list[Path]:
    return [stored(folder / f"{name}-{number}", steps, fail_at=fail_at, seed=number) for number in range(count)]


def test_runs_of_different_seeds_are_pooled_and_a_failure_on_one_side_is_found(tmp_path: Path) -> None:
    base, head = side(tmp_path, "base", 4, 30), side(tmp_path, "head", 4, 30, fail_at=3)
    found = compare_runs(base, head)
    assert found.comparison.verdict is Change.REGRESSED
    assert compare_runs(head, base).comparison.verdict is Change.IMPROVED


def test_other_traffic_is_refused_and_the_sentence_says_what_differs(tmp_path: Path) -> None:
    ours = stored(tmp_path / "ours", 4)
    other = {**manifest().parameters, "phases": [{"name": "ask", "max_tokens": 7}]}
    theirs = stored(tmp_path / "theirs", 4, parameters=other)
    with pytest.raises(UsageError, match=r"were not sent the same.*phases: .*\"max_tokens\": 7"):
        compare_runs([ours], [theirs])


def test_runs_that_may_be_pooled_have_one_key_whatever_their_seed() -> None:
    assert traffic_key(manifest()) == traffic_key(replace(manifest(), seed=99, plan_digest="1" * 64))
    assert traffic_key(manifest()) != traffic_key(replace(manifest(), workload="ramp"))


def test_one_side_alone_is_a_wrong_call(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--with HEAD"):
        compare_runs([stored(tmp_path / "ours", 2)], [])


def test_what_is_written_says_the_same_twice_and_escapes_what_a_server_said(tmp_path: Path) -> None:
    base = side(tmp_path, "base", 2, 8)
    head = [stored(tmp_path / f"head{n}", 8, fail_at=3, seed=n, commit=HOSTILE) for n in range(2)]
    content = write(compare_runs(base, head), tmp_path / "out")
    assert content == json.loads((tmp_path / "out" / "compare.json").read_text())
    assert content["verdict"] == "REGRESSED"
    assert {"metric", "base", "head", "ratio", "interval", "verdict"} <= set(content["rows"][0])
    page = (tmp_path / "out" / "compare.html").read_text()
    assert HOSTILE not in page
    assert "&lt;script&gt;" in page
    assert "http://" not in page.replace("http://www.w3.org", ""), "it reads nothing from elsewhere"


def test_a_run_read_from_its_tables_is_the_run_read_from_its_events(tmp_path: Path) -> None:
    path = stored(tmp_path / "run", 12, fail_at=9)
    judge_run(path)
    assert has_tables(path)
    whole, quick = look(path)[2], skim(path)[1]
    assert quick.first == whole.first
    assert quick.signatures == whole.signatures
    assert {key: quick.levels[key] for key in ("pool_fill", "capacity", "errors", "requests")} == {
        key: whole.levels[key] for key in ("pool_fill", "capacity", "errors", "requests")
    }
    told = {key: values for key, values in whole.latencies.items() if key[0] != "itl"}
    assert set(quick.latencies) == set(told)
    assert all(dict(quick.latencies[key]) == pytest.approx(dict(values), abs=2e-6) for key, values in told.items())
    flat = [[number for step in sorted(seen.paces) for number in step] for seen in (quick, whole)]
    assert flat[0] == pytest.approx(flat[1], abs=2e-6)
