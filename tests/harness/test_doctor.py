"""Doctor says of a server what is so, what can be judged on it, and what cannot and why."""

import json
import os
from pathlib import Path

import pytest

from kvstress.core.diagnosis import Can, Diagnosis, Pace
from kvstress.core.features import Features
from kvstress.harness.doctor import coverage, oracles
from kvstress.oracles.judge import ORACLES
from kvstress.oracles.needs import KEY_NEEDS, ORACLE_NEEDS, evidence_for
from kvstress.report.diagnosis import lines
from tests.cli.running import healthy, kvstress, pages, verdict


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What doctor says of the reference server."""
    done = kvstress(
        "doctor", "--json", "--server", "reference --memory-limit 38G", cwd=tmp_path_factory.mktemp("doctor")
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_the_reference_server_offers_all_that_doctor_asks_for(reference: dict[str, object]) -> None:
    features = reference["features"]
    assert isinstance(features, dict)
    assert [name for name, value in features.items() if value is not True] == ["bypass", "exported", "counters"]
    assert features["counters"] == ["aborts", "drafts"]
    assert reference["dialect"] == "flare"
    assert reference["context_limit"] == 65536


def test_every_oracle_can_run_on_the_reference_server_and_every_key_but_a_tier_be_reached(
    reference: dict[str, object],
) -> None:
    cans = [msg for section in ("oracles", "coverage") for msg in reference[section]]  # type: ignore[attr-defined]
    assert [can["name"] for can in cans if not can["yes"]] == ["tier"]


def test_doctor_sends_a_bounded_few_requests_and_gives_its_own_pace_an_interval(reference: dict[str, object]) -> None:
    assert isinstance(reference["requests"], int)
    assert 0 < reference["requests"] <= 12
    pace = reference["pace"]
    assert isinstance(pace, dict)
    assert 0 < pace["lower"] <= pace["events_per_second"] <= pace["upper"]


def test_a_bare_server_is_told_what_cannot_be_judged_on_it_and_why(tmp_path: Path) -> None:
    with pages(healthy()) as url:
        done = kvstress("doctor", "--server", url, cwd=tmp_path, env={"KEY": "s3cr3t"})
    assert done.returncode == 0, done.stderr
    assert "no       METRIC: there is no metrics page" in done.stdout
    assert "no       hit: usage does not tell cached_tokens; no counter of prefix-cache hits" in done.stdout
    assert "no       STREAM: it does not stream" in done.stdout


def test_doctor_without_a_server_says_so_and_never_judges(tmp_path: Path) -> None:
    done = kvstress("doctor", "--server", "http://127.0.0.1:9", cwd=tmp_path)
    assert done.returncode == 125
    assert "cannot be reached" in done.stderr
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - names only


def test_a_key_is_never_shown(tmp_path: Path) -> None:
    with pages(healthy()) as url:
        done = kvstress(
            "doctor", "--json", "--server", url, "--api-key-env", "KEY", cwd=tmp_path, env={"KEY": "s3cr3t"}
        )
    assert done.returncode == 0, done.stderr
    assert "s3cr3t" not in done.stdout + done.stderr


def test_every_oracle_says_what_it_needs() -> None:
    assert {name for name, _ in ORACLES} <= set(ORACLE_NEEDS)


def test_nothing_is_known_of_a_server_that_offers_nothing() -> None:
    nothing = Features()
    able = {can.name for can in oracles(nothing) if can.yes}
    assert able == {name for name, _ in ORACLES if not ORACLE_NEEDS[name]}
    assert [can.yes for can in coverage(nothing, None)] == [False] * len(KEY_NEEDS)


@pytest.mark.parametrize("key", KEY_NEEDS)
def test_each_key_names_the_evidence_that_is_missing(key: str) -> None:
    (can,) = (can for can in coverage(Features(), None) if can.name == key)
    assert can.why == evidence_for(key) != ""


def test_what_an_engine_shows_only_in_part_is_said_beside_the_yes() -> None:
    features = Features(exported=("kv_usage", "running"))
    (full,) = (can for can in coverage(features, "vllm") if can.name == "full")
    assert full.yes
    assert "reads 0 at idle" in full.why


def test_what_a_server_says_of_itself_is_shown_and_not_obeyed() -> None:
    found = Diagnosis(
        url="http://127.0.0.1:1",
        model="m\x1b[31m",
        software="x\n\nPASS",
        version="\u202e1",
        context_limit=None,
        dialect=None,
        features=Features(),
        oracles=(Can(name="STATUS", yes=True, why=""),),
        coverage=(),
        requests=1,
        pace=Pace(events_per_second=1, lower=1, upper=1, rounds=1, lag_median=0, lag_worst=0),
    )
    first = next(iter(lines(found)))
    assert "\x1b" not in first
    assert "\n" not in first
    assert "\u202e" not in first


def test_a_run_that_could_not_see_its_coverage_is_invalid_and_names_the_missing_evidence(tmp_path: Path) -> None:
    with pages(healthy()) as url:
        words = ("--workload", "speedbench", "--set", "contexts=100,200", "--set", "max_steps=2", "--out", "run")
        done = kvstress("run", "--server", url, *words, "--quiet", cwd=tmp_path)
    assert done.returncode == 125, done.stdout + done.stderr
    found = verdict(tmp_path / "run")
    assert found["verdict"] == "INVALID"
    why = (tmp_path / "run" / "summary.md").read_text().replace("\\", "")
    for key in ("hit", "full"):
        assert evidence_for(key).split(";")[0] in why
