"""A gate on a CI page: a case a sentence, commands that no server text can break out of, a curve in plain letters."""

import re
from collections.abc import Sequence
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstress.core.ruling import Ruled, Ruling, worst
from kvstress.report.fold import folded
from kvstress.report.gate import Gated, annotations, command, fill_shares, gate_markdown, gate_suite
from kvstress.report.junit import document, run_suite
from tests.report import runs

NOT_MET = Ruling(sentence="first_failure >= baseline", outcome=Ruled.NOT_MET, said="r: first failure at prompt 16")
UNKNOWN = Ruling(sentence="ttft_p95 <= 1.10x", outcome=Ruled.CANNOT_TELL, said="no sample")
MET = Ruling(sentence="findings.new == 0", outcome=Ruled.MET, said="none")


def gated(rulings: Sequence[Ruling] = (NOT_MET, UNKNOWN, MET), words: str = runs.WORDS) -> Gated:
    head = (runs.manifest(), runs.failed(why=words, words=words))
    return Gated(outcome=worst(rulings), rulings=tuple(rulings), heads=(head,), baseline="commit abc", compared=words)


def test_there_is_a_case_a_sentence_and_a_case_a_prompt() -> None:
    shown = gated()
    run = run_suite("head", *shown.heads[0], runs.events(17, fail_at=16))
    root = ElementTree.fromstring(document([gate_suite(shown), run]).encode())
    cases = {case.get("name"): [child.tag for child in case] for case in root.iter("testcase")}
    assert cases["first_failure >= baseline"] == ["failure"]
    assert (cases["ttft_p95 <= 1.10x"], cases["findings.new == 0"]) == (["error"], [])
    assert cases["prompt 16 16k"] == ["failure"] and cases["prompt 15 32k"] == []
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("20", "2", "1")


def test_a_failure_that_the_baseline_has_too_is_skipped_where_the_gate_holds() -> None:
    suite = run_suite("head", runs.manifest(), runs.failed(), runs.events(17, fail_at=16), known=True)
    assert (suite.failures, suite.skipped) == (0, 1)
    (case,) = [case for case in suite.cases if "skipped" in case]
    assert "prompt 16" in case and "known" in case


def test_annotations_name_what_is_not_met_and_the_failing_prompts_words() -> None:
    lines = list(annotations(gated()))
    assert [text.split(" ")[0] for text in lines] == ["::error", "::warning", "::error"]
    assert "first_failure >= baseline" in lines[0] and runs.WORDS in lines[2]
    assert list(annotations(gated([MET]))) == []


@given(st.text(st.characters(exclude_categories=()), max_size=100))
def test_no_text_ends_a_command_or_begins_another(words: str) -> None:
    written = command("error", words, words)
    assert written.startswith("::error title=") and len(written.splitlines()) == 1
    title = written.removeprefix("::error title=").split("::", 1)[0]
    assert ":" not in title and "," not in title


@pytest.mark.parametrize("words", ["\n::error::mine", "50%0A::stop", "| a | b |", "<img src=x>", "```\n# big", "@team"])
def test_hostile_words_are_shown_and_do_nothing(words: str) -> None:
    assert all(
        text.startswith(("::error title=kvstress", "::warning title=kvstress"))
        for text in annotations(gated(words=words))
    )
    page = gate_markdown(gated(words=words), None, None)
    prose = re.sub(r"^(`{3,})text\n.*?^\1$", "", page, flags=re.S | re.M)
    assert "<img" not in prose and "@team" not in prose and "\n# big" not in prose


def test_the_summary_has_the_verdict_the_sentences_and_the_curve() -> None:
    shown = gated()
    fold = folded(shown.heads[0][1], runs.events(17, fail_at=16))
    page = gate_markdown(shown, fold, "fill.png")
    assert page.startswith("## ❌ kvstress gate: FAIL")
    assert "first\\_failure &gt;= baseline" in page and "![KV pool over prompts](fill.png)" in page
    assert "█" in page and "▁" in page
    shares = fill_shares(fold)
    assert len(shares) == 17 and all(0.0 <= share <= 1.0 for share in shares) and max(shares) > 0.9


def test_without_a_word_about_the_pool_there_is_no_curve() -> None:
    shown = gated()
    page = gate_markdown(shown, folded(shown.heads[0][1], runs.events(5, metrics=False)), None)
    assert "KV pool in use" not in page


def test_a_gate_without_sentences_is_no_pass() -> None:
    assert worst(()) is Ruled.CANNOT_TELL and worst((MET,)).exit_code == 0
    assert [ruled.exit_code for ruled in (Ruled.NOT_MET, Ruled.CANNOT_TELL)] == [1, 125]
