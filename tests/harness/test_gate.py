"""Stored runs held against stored runs and histories: what is met, what nobody can tell, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from kvstress.core.errors import UsageError
from kvstress.core.manifest import Target
from kvstress.core.ruling import Ruled
from kvstress.harness.baseline import Accepting, Labels, accept, key_of, unpacked
from kvstress.harness.gate import GateOptions, gate, write
from kvstress.harness.seen import look
from kvstress.report.gate import told
from kvstress.store import baseline, rundir
from kvstress.store.baseline import Key
from tests.report import runs

EMBEDDED = Target(url="http://127.0.0.1:1", model="toy", embedded=True)


def stored(path: Path, steps: int, *, fail_at: int | None = None, **changes: Any) -> Path:
    """A run directory as `kvstress run` leaves it."""
    given = {"run": path.name, "oracles": ("STATUS", "STREAM"), "coverage": (), **changes}
    stream = bool(given.pop("stream", False))
    with rundir.create(path, runs.manifest(**given)) as writer:
        for event in runs.events(steps, fail_at=fail_at, stream=stream):
            writer.append(event)
    return path


def ruled(found: Any) -> dict[str, Ruled]:
    return {ruling.sentence: ruling.outcome for ruling in found.gated.rulings}


def against(base: Path, *sentences: str, **how: Any) -> GateOptions:
    return GateOptions(baselines=(base,), sentences=sentences, **how)


def test_a_head_that_fails_where_the_baseline_passed_fails_the_gate(tmp_path: Path) -> None:
    base, head = stored(tmp_path / "base", 143), stored(tmp_path / "head", 17, fail_at=16)
    found = gate(against(base), [head])
    assert found.gated.outcome is Ruled.NOT_MET
    assert ruled(found) == {
        "every run was judged": Ruled.MET,
        "first_failure >= baseline": Ruled.NOT_MET,
        "findings.new == 0": Ruled.NOT_MET,
    }


def test_a_head_that_no_longer_fails_meets_it(tmp_path: Path) -> None:
    base, head = stored(tmp_path / "base", 17, fail_at=16), stored(tmp_path / "head", 143)
    assert gate(against(base), [head]).gated.outcome is Ruled.MET


def test_a_baseline_that_completed_nothing_is_refused_instead_of_making_all_failures_new(tmp_path: Path) -> None:
    base, head = stored(tmp_path / "base", 0), stored(tmp_path / "head", 17, fail_at=16)
    with pytest.raises(UsageError, match="says nothing to compare with"):
        gate(against(base), [head])


@pytest.mark.parametrize(("steps", "fail_at"), [(17, 16), (40, None)])
def test_a_run_held_against_itself_gets_one_verdict(tmp_path: Path, steps: int, fail_at: int | None) -> None:
    run = stored(tmp_path / "run", steps, fail_at=fail_at)
    first = next(told(gate(against(run), [run]).gated))
    assert first.startswith("kvstress gate: PASS; ")
    assert not any(word in first for word in ("CANNOT TELL", "UNCHANGED", "IMPROVED", "REGRESSED"))


@pytest.mark.parametrize(("runs_a_side", "expected"), [(3, Ruled.NOT_MET), (4, Ruled.CANNOT_TELL)])
def test_from_four_runs_a_side_no_single_early_failure_decides(
    tmp_path: Path, runs_a_side: int, expected: Ruled
) -> None:
    base = [stored(tmp_path / f"base{step}", step + 1, fail_at=step) for step in (18, 22, 26, 30)[:runs_a_side]]
    head = [stored(tmp_path / f"head{step}", step + 1, fail_at=step) for step in (15, 23, 26, 31)[:runs_a_side]]
    found = gate(GateOptions(baselines=tuple(base)), head)
    assert ruled(found)["first_failure >= baseline"] is expected, found.gated.rulings


def test_the_page_has_the_comparison_row_by_row(tmp_path: Path) -> None:
    base, head = stored(tmp_path / "base", 143), stored(tmp_path / "head", 143)
    found = gate(against(base), [head])
    write(found, tmp_path / "out")
    page = (tmp_path / "out" / "summary.md").read_text()
    (throughput,) = [row for row in found.gated.rows if row[0] == "throughput"]
    assert throughput[3].startswith("1.000 (0.9") and throughput[4] == "UNCHANGED"
    assert "| throughput |" in page and "UNCHANGED" in page


def test_what_it_writes_names_the_failing_prompt(tmp_path: Path) -> None:
    base, head = stored(tmp_path / "base", 143), stored(tmp_path / "head", 17, fail_at=16)
    content = write(gate(against(base), [head]), tmp_path / "out")
    assert json.loads((tmp_path / "out" / "gate.json").read_text()) == content
    assert (content["verdict"], content["exit_code"], content["runs"][0]["first_failure"]) == ("FAIL", 1, 16)
    root = ElementTree.parse(tmp_path / "out" / "junit.xml").getroot()
    failing = {case.get("name") for case in root.iter("testcase") if case.find("failure") is not None}
    assert failing == {"first_failure >= baseline", "findings.new == 0", "prompt 16 16k"}
    page = (tmp_path / "out" / "summary.md").read_text()
    assert "![KV pool over prompts](fill.png)" in page and runs.WORDS in page
    assert (tmp_path / "out" / "fill.png").read_bytes().startswith(b"\x89PNG\r\n")


def test_a_known_failure_is_skipped_where_the_gate_holds(tmp_path: Path) -> None:
    base, head = stored(tmp_path / "base", 17, fail_at=16), stored(tmp_path / "head", 17, fail_at=16)
    found = gate(against(base), [head])
    write(found, tmp_path / "out")
    root = ElementTree.parse(tmp_path / "out" / "junit.xml").getroot()
    assert found.gated.outcome is Ruled.MET
    assert (root.get("failures"), root.get("errors"), root.get("skipped")) == ("0", "0", "1")


def test_the_workloads_own_gate_holds_where_the_call_names_none(tmp_path: Path) -> None:
    own = {"gate": {"steps": ">= 100", "findings": {"new": "== 0"}}}
    base, head = stored(tmp_path / "base", 20), stored(tmp_path / "head", 20, parameters=own)
    assert ruled(gate(against(base), [head]))["steps >= 100"] is Ruled.NOT_MET
    assert "steps >= 100" not in ruled(gate(against(base, "errors == 0"), [head]))


def test_timings_are_held_against_the_baselines_and_without_samples_nothing_passes(tmp_path: Path) -> None:
    base = stored(tmp_path / "base", 30, stream=True)
    head = stored(tmp_path / "head", 30, stream=True)
    mute = stored(tmp_path / "mute", 30)
    sentences = ("ttft_warm_p95 <= 1.10x", "e2e_warm_p50 <= 1s")
    assert gate(against(base, *sentences), [head]).gated.outcome is Ruled.MET
    found = ruled(gate(against(base, *sentences), [mute]))
    assert found["ttft_warm_p95 <= 1.10x"] is Ruled.CANNOT_TELL and found["e2e_warm_p50 <= 1s"] is Ruled.MET


def test_a_run_that_was_not_judged_passes_no_gate(tmp_path: Path) -> None:
    head = stored(tmp_path / "head", 5, coverage=("full",))
    found = gate(GateOptions(sentences=("errors == 0",)), [head])
    assert found.gated.outcome is Ruled.CANNOT_TELL and "INVALID" in found.gated.rulings[0].said


def test_other_traffic_is_refused_and_not_compared(tmp_path: Path) -> None:
    base, head = stored(tmp_path / "base", 20), stored(tmp_path / "head", 20, plan_digest="f" * 64)
    with pytest.raises(UsageError, match="other traffic than the baseline"):
        gate(against(base), [head])


@pytest.mark.parametrize("side", ["base", "head"])
def test_the_reference_server_is_refused_unless_told(tmp_path: Path, side: str) -> None:
    target: dict[str, Any] = {"target": EMBEDDED}
    paths = {name: stored(tmp_path / name, 20, **(target if name == side else {})) for name in ("base", "head")}
    with pytest.raises(UsageError, match="--allow-reference"):
        gate(against(paths["base"]), [paths["head"]])
    assert gate(against(paths["base"], reference=True), [paths["head"]]).gated.outcome is Ruled.MET


def test_runs_of_two_workloads_and_sentences_without_a_baseline_are_refused(tmp_path: Path) -> None:
    one, two = stored(tmp_path / "one", 20), stored(tmp_path / "two", 20, workload="ramp")
    with pytest.raises(UsageError, match="different workloads"):
        gate(GateOptions(), [one, two])
    with pytest.raises(UsageError, match="needs a baseline"):
        gate(GateOptions(sentences=("first_failure >= baseline",)), [one])
    with pytest.raises(UsageError, match="no run to judge"):
        gate(GateOptions(), [])


def test_a_history_gives_back_what_a_gate_asked_the_run_itself(tmp_path: Path) -> None:
    run = stored(tmp_path / "run", 30, stream=True)
    (path,) = accept(tmp_path / "history", [run], Accepting(labels=Labels(hardware="h200")))
    _, _, seen = look(run)
    again = unpacked(baseline.read(path))
    assert replace(again, latencies={}, paces=()) == replace(seen, latencies={}, paces=())
    assert [*map(list, again.paces)] == [pytest.approx(step, abs=1e-6) for step in seen.paces] and len(seen.paces) == 30
    assert again.latencies.keys() == seen.latencies.keys()
    first, second = (dict(one.latencies["ttft", "warm"]) for one in (again, seen))
    assert first == pytest.approx(second, abs=1e-6) and len(first) == 30
    assert path.stat().st_size < 20_000


def test_the_newest_good_commit_is_held_against_and_a_rerun_not_against_itself(tmp_path: Path) -> None:
    history = tmp_path / "history"
    for commit, steps in (("old", 40), ("good", 100), ("head", 120)):
        accept(history, [stored(tmp_path / commit, steps, commit=commit)], Accepting(labels=Labels()))
    head = stored(tmp_path / "again", 120, commit="head")
    found = gate(against(history), [head])
    assert found.gated.baseline.startswith("commit good (1 run")
    other = GateOptions(baselines=(history,), labels=Labels(hardware="b200"))
    with pytest.raises(UsageError, match="no accepted run of workload speedbench, limit default, hardware b200"):
        gate(other, [head])


def test_a_history_may_begin_with_what_needs_no_baseline(tmp_path: Path) -> None:
    good, bad = stored(tmp_path / "good", 20), stored(tmp_path / "bad", 17, fail_at=16)
    begin = against(tmp_path / "history", "first_failure >= baseline", begin=True)
    assert ruled(gate(begin, [good])) == {"every run was judged": Ruled.MET, "failures == 0": Ruled.MET}
    assert gate(begin, [bad]).gated.outcome is Ruled.NOT_MET


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"fail_at": 16}, "--accept-failing"),
        ({"coverage": ("full", "tier")}, "says nothing to compare with"),
        ({"target": EMBEDDED}, "--allow-reference"),
        ({"commit": None}, "--commit"),
    ],
)
def test_what_may_not_be_accepted_is_refused_with_the_way_out(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    good, odd = stored(tmp_path / "good", 17), stored(tmp_path / "odd", 17, **changes)
    with pytest.raises(UsageError, match=said):
        accept(tmp_path / "history", [good, odd], Accepting(labels=Labels()))
    assert not (tmp_path / "history").exists()


@pytest.mark.parametrize(
    ("command", "limit"),
    [
        ("flare run PKG --memory-limit 50G --port {port}", "50G"),
        ("vllm serve M --gpu-memory-utilization=0.9", "0.9"),
        ("kvstress run --server 'reference --memory-limit 37G' --seed 0", "37G"),
        ("flare run PKG", "default"),
    ],
)
def test_the_limit_is_read_off_the_command_unless_it_is_given(command: str, limit: str) -> None:
    manifest = runs.manifest(command=command)
    assert key_of(manifest, Labels()) == Key(workload="speedbench", limit=limit, hardware="1x H200")
    assert key_of(manifest, Labels(limit="x", hardware="y")) == Key(workload="speedbench", limit="x", hardware="y")
