import json
from dataclasses import replace
from pathlib import Path

from kvstress.core.verdict import Finding, Verdict
from kvstress.store import rundir
from kvstress.store.conclusion import verdict, verdict_json
from tests.store.made import judgement, manifest, whole_run


def test_verdict_json_has_the_promised_shape() -> None:
    found = json.loads(verdict_json(judgement()))
    signature = "STATUS|server-error|prepared model reported device error 6"
    assert found.pop("why") and found.pop("stopped") == "first failure"
    assert found == {
        "schema_version": 1,
        "verdict": "FAIL",
        "steps": 2,
        "first_failure": {"step": 2, "phase": "warm", "signature": signature, "session": None, "turn": None},
        "censored_at": None,
        "pool_fill": {"step": 1, "how": "measured-level"},
        "coverage": {"hit": True, "full": None},
        "findings": [
            {
                "oracle": "STATUS",
                "verdict": "FAIL",
                "signature": signature,
                "step": 2,
                "summary": "the warm send of prompt 2 failed",
            }
        ],
        "requests": {"completed": 5, "failed": 1},
    }


def test_no_failure_and_no_fill_are_null() -> None:
    fine = replace(judgement(), verdict=Verdict.PASS, first_failure=None, pool_fill=None, censored_at=20, findings=())
    found = verdict(fine)
    assert (found["first_failure"], found["pool_fill"], found["censored_at"], found["findings"]) == (None, None, 20, [])


def test_findings_are_stored_with_their_evidence(tmp_path: Path) -> None:
    with rundir.create(tmp_path / "run", manifest()) as writer:
        writer.conclude(judgement())
    (line,) = (tmp_path / "run" / "findings.jsonl").read_text().splitlines()
    finding = json.loads(line)
    assert (finding["evidence"], finding["phase"], finding["measured"]) == (["s2.warm"], "warm", "HTTP 500")


def test_concluding_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    with rundir.create(tmp_path / "run", manifest()) as writer:
        for event in whole_run():
            writer.append(event)
        writer.conclude(judgement())
        first = (tmp_path / "run" / "verdict.json").read_bytes()
    rundir.rebuild(tmp_path / "run", judgement())
    assert (tmp_path / "run" / "verdict.json").read_bytes() == first


def test_any_words_of_a_server_can_be_concluded(tmp_path: Path) -> None:
    odd = Finding(oracle="STATUS", verdict=Verdict.FAIL, signature="\ud800", step=None, summary="\x00\u2028\nend")
    with rundir.create(tmp_path / "run", manifest()) as writer:
        writer.conclude(replace(judgement(), findings=(odd,)))
    (line,) = (tmp_path / "run" / "findings.jsonl").read_bytes().split(b"\n")[:-1]
    assert json.loads(line)["summary"] == odd.summary
