"""JUnit XML that any parser takes, with one case a prompt and the judge's word on each."""

from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstress.core.events import StepEnded, StepStarted
from kvstress.core.verdict import Verdict
from kvstress.report.junit import junit
from tests.report import runs

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=200)


def suite(text: str) -> ElementTree.Element:
    found = ElementTree.fromstring(text.encode("utf-8")).find("testsuite")
    assert found is not None
    return found


def test_the_failing_prompt_is_the_one_failing_case() -> None:
    found = suite(junit(runs.manifest(), runs.failed(), runs.events(17, fail_at=16)))
    failing = [case for case in found.iter("testcase") if case.find("failure") is not None]
    assert [case.get("name") for case in failing] == ["prompt 16 16k"]
    assert runs.WORDS in "".join(failing[0].itertext())
    assert (found.get("tests"), found.get("failures"), found.get("errors")) == ("17", "1", "0")


def test_a_pass_has_a_case_a_prompt_and_one_for_the_verdict() -> None:
    found = suite(junit(runs.manifest(), runs.passed(), runs.events(143)))
    assert (found.get("tests"), found.get("failures"), found.get("errors")) == ("144", "0", "0")


def test_an_invalid_run_is_an_error_and_not_green() -> None:
    found = suite(junit(runs.manifest(), runs.invalid(), runs.events(9)))
    errors = [case.get("name") for case in found.iter("testcase") if case.find("error") is not None]
    assert errors == ["verdict"]
    assert found.get("errors") == "1"


def test_a_failure_of_no_step_fails_the_verdicts_case() -> None:
    judgement = runs.failed(findings=(replace(runs.finding(), step=None, phase=None),))
    found = suite(junit(runs.manifest(), judgement, runs.events(17)))
    assert [c.get("name") for c in found.iter("testcase") if c.find("failure") is not None] == ["verdict"]
    assert found.get("failures") == "1"


def test_the_step_in_which_a_run_was_killed_is_skipped() -> None:
    events = [e for e in runs.events(3, end=False) if not (isinstance(e, StepEnded) and e.step == 2)]
    found = suite(junit(runs.manifest(), runs.passed(2, verdict=Verdict.INCONCLUSIVE), events))
    assert [c.get("name") for c in found.iter("testcase") if c.find("skipped") is not None] == ["prompt 2 16k"]
    assert found.get("skipped") == "1"


def test_a_resumed_step_is_one_case() -> None:
    events = list(runs.events(3))
    events.insert(0, StepStarted(at=0.0, step=0, label="16k"))
    found = suite(junit(runs.manifest(), runs.passed(3), events))
    assert found.get("tests") == "4"


@pytest.mark.parametrize("words", ["]]>", "\x00\x1b\x0b", "\ud83d", "<a&'\">", "\ufffe\uffff", "x" * 1_000_000])
def test_no_server_text_makes_it_invalid(words: str) -> None:
    text = junit(runs.manifest(command=words, workload=words), runs.failed(why=words, words=words), runs.events(17))
    assert len(text) < 100_000
    assert suite(text).get("failures") == "1"


@given(ANY_TEXT)
def test_it_is_well_formed_for_any_text(words: str) -> None:
    found = suite(junit(runs.manifest(command=words, workload=words), runs.failed(why=words, words=words), ()))
    assert found.get("tests") == "1"


def test_a_long_run_lists_its_first_prompts_and_every_failing_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvstress.report.junit.MOST_CASES", 5)
    found = suite(junit(runs.manifest(), runs.failed(), runs.events(17, fail_at=16)))
    assert [case.get("name", "").split()[1] for case in found.iter("testcase")] == ["0", "1", "2", "3", "4", "16"]
    assert (found.get("tests"), found.get("failures")) == ("6", "1")
    left = [one.get("value") for one in found.iter("property") if one.get("name") == "prompts not listed"]
    assert left == ["11, none of which failed"]
    whole = suite(junit(runs.manifest(), runs.failed(), runs.events(17, fail_at=16)))
    monkeypatch.undo()
    assert whole.get("time") == suite(junit(runs.manifest(), runs.failed(), runs.events(17, fail_at=16))).get("time")
