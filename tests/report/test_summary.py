"""A CI page renders Markdown and HTML: nothing that a server says may become either."""

import re

import pytest

from kvstress.core.manifest import Target
from kvstress.report.summary import markdown
from tests.report import runs

HOSTILE = (
    "</details><script>x</script> `tick` ```\n# head\n| a | b |\n![i](http://evil.example) @everyone \x1b[31m \u202e"
)


def outside_code(text: str) -> str:
    return re.sub(r"(?ms)^(`{3,})text\n.*?^\1$", "", text)


def test_a_failure_is_told_in_a_dozen_lines() -> None:
    said = markdown(runs.manifest(), runs.failed())
    assert said.startswith("## ❌ FAIL: speedbench\n")
    assert "| first failure | prompt 16, warm |" in said
    assert "prompt 14" in said
    assert runs.WORDS in said
    assert "kvstress run" in said
    assert len(said.splitlines()) < 45


def test_a_pass_has_its_bound_and_an_invalid_run_is_no_pass() -> None:
    assert "below 2.1 % a prompt, 95 %" in markdown(runs.manifest(), runs.passed())
    said = markdown(runs.manifest(), runs.invalid())
    assert "⚠️ INVALID" in said
    assert "full not reached, evicted not observable" in said


def test_an_embedded_server_is_said_first() -> None:
    manifest = runs.manifest(target=Target(url="http://h", model="m", embedded=True))
    assert "> Embedded reference server: this says nothing about a real engine." in markdown(manifest, runs.failed())


@pytest.mark.parametrize("words", [HOSTILE, "`" * 40, "~~~", "\ud83d\x00"])
def test_hostile_text_stays_text(words: str) -> None:
    manifest = runs.manifest(target=Target(url="http://h", model=words), command=words, content=words, workload=words)
    judgement = runs.failed(why=words, words=words, coverage={words: True})
    said = markdown(manifest, judgement)
    said.encode("utf-8")
    loose = outside_code(said)
    assert "<" not in loose
    assert "@" not in loose
    assert not re.search(r"(?<!\\)[\[\]]", loose)
    assert "://" not in loose
    assert "\x1b" not in said
    assert len([row for row in loose.splitlines() if row.startswith("#")]) == 1
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 3 for row in loose.splitlines() if row.startswith("|"))


@pytest.mark.parametrize(
    "why", ["- a list", "+ a list", "1. a list", "12) a list", "=== a heading", "# a heading", "> a quote"]
)
def test_a_sentence_begins_no_block(why: str) -> None:
    line = markdown(runs.manifest(), runs.failed(why=why)).splitlines()[2]
    assert not re.match(r"\s*([-+=#>]|\d+[.)])", line)
    assert why[-6:] in line
