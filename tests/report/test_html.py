"""The page tells the story, quotes the server, invents nothing and lets nothing in it act."""

import re
from dataclasses import replace
from itertools import pairwise

import pytest

from kvstress.core.events import Event, RequestSent, RunEnded, ServerChange, ServerEvent, StepEnded, StepStarted
from kvstress.core.exchange import Choice, Exchange
from kvstress.core.manifest import Target
from kvstress.report.html import page
from tests.report import runs
from tests.report.reading import Read, read

HOSTILE = (
    "<script>alert(1)</script>",
    "]]><![CDATA[",
    "\x1b[2J\x1b[31mred",
    "a\u202eb",
    "half \ud83d",
    "</pre></blockquote><img src=http://evil.example/x onerror=alert(1)>",
    "{{ 7*7 }}{% raw %}",
    "&lt;b&gt; \x00 \ufffe",
    "y" * 1_000_000,
)


def fail() -> Read:
    return read(page(runs.manifest(), runs.failed(), runs.events(17, fail_at=16)))


def test_the_verdict_comes_first_with_why_and_exit_code() -> None:
    shown = fail()
    assert shown.text.index("FAIL") < shown.text.index("failed two prompts after") < shown.text.index("Exit code 1")
    assert shown.text.index("Exit code 1") < shown.text.index("First failure")


def test_the_failing_prompt_is_told_with_its_request_its_response_and_the_servers_words() -> None:
    text = fail().text
    assert "The failing prompt: prompt 16, warm (16k)" in text
    assert runs.WORDS in text
    assert "POST /v1/chat/completions" in text
    assert "planned prompt tokens 16,000" in text
    assert "failed (server-error)" in text
    assert "prompt 14" in text
    assert "2 prompts after the pool filled" in text


def test_the_prime_before_the_failing_warm_is_shown_as_having_passed() -> None:
    assert re.search(r"prime\s*ok\s*0\.31 s\s*16,000", fail().text)


@pytest.mark.parametrize("stream", [False, True])
def test_a_page_is_well_formed_and_refers_to_nothing_outside(stream: bool) -> None:
    markup = page(runs.manifest(), runs.failed(), runs.events(17, fail_at=16, stream=stream))
    shown = read(markup)
    assert not shown.unclosed
    assert not shown.mismatched
    assert not shown.tags("script")
    links = [
        value for _, a in shown.elements for key, value in a.items() if key in ("src", "href", "xlink:href", "srcset")
    ]
    assert links == ["data:,"]
    assert "@import" not in markup
    assert not re.search(r"url\((?!#)", markup)


def test_ids_are_unique_and_headings_do_not_skip_a_level() -> None:
    shown = read(page(runs.manifest(), runs.failed(), runs.events(17, fail_at=16, stream=True)))
    ids = [a["id"] for _, a in shown.elements if "id" in a]
    levels = [int(tag[1]) for tag, _ in shown.elements if re.fullmatch(r"h[1-6]", tag)]
    assert len(ids) == len(set(ids))
    assert levels[0] == 1
    assert all(later - earlier <= 1 for earlier, later in pairwise(levels))
    assert len(shown.tags("caption")) == len(shown.tags("table"))
    assert all(a.get("aria-label") for a in shown.tags("svg"))


@pytest.mark.parametrize("words", HOSTILE, ids=lambda words: repr(words[:12]))
def test_no_server_text_becomes_markup_or_breaks_the_page(words: str) -> None:
    plain = read(page(runs.manifest(), runs.failed(), runs.events(17, fail_at=16)))
    judgement = runs.failed(words=words)
    manifest = runs.manifest(target=Target(url="http://h", model=words, software=words), command=words, content=words)
    events = [hostile(event, words) for event in runs.events(17, fail_at=16, words=words)]
    markup = page(manifest, judgement, events)
    markup.encode("utf-8")
    shown = read(markup)
    assert not shown.unclosed
    assert not shown.mismatched
    assert {tag for tag, _ in shown.elements} <= {tag for tag, _ in plain.elements} | {
        "span",
        "h3",
        "details",
        "summary",
    }
    assert not [c for c in markup if c in "\x00\x1b\u202e\ufffe" or 0xD800 <= ord(c) <= 0xDFFF]
    assert len(markup) < 1_000_000
    if words == HOSTILE[0]:
        assert words in shown.text


def hostile(event: Event, words: str) -> Event:
    """`event` with `words` wherever a server, a dataset or a workload could have put text."""
    match event:
        case Exchange():
            choices = (Choice(index=0, text=words, finish_reason=words, tool_calls=words),)
            return replace(event, choices=choices, violations=(words,), retry_after=words, model=words)
        case RequestSent():
            return replace(event, recipe=words, session=words, turn=1)
        case StepStarted() | StepEnded():
            return replace(event, label=words)
        case RunEnded():
            return replace(event, detail=words)
    return event


def test_what_was_not_observed_is_said_and_is_no_zero() -> None:
    judgement = runs.failed(pool_fill=None, coverage={"hit": None, "full": None})
    shown = read(page(runs.manifest(), judgement, runs.events(17, fail_at=16, metrics=False)))
    assert "exports no metrics page" in shown.text
    assert "not seen to fill" in shown.text
    assert "not observable on this server" in shown.text
    assert not re.search(r"\b0 %", shown.text)


def test_a_metric_that_one_sample_lacks_is_not_exported_there() -> None:
    events = [
        replace(e, evictions=0.0 if e.step == 15 else None, kv_cached=None)
        if isinstance(e, type(runs.sample(0, 0, 0)))
        else e
        for e in runs.events(17, fail_at=16)
    ]
    text = read(page(runs.manifest(), runs.failed(), events)).text
    assert re.search(r"evictions\s*0\s*not exported\s*not known", text)
    assert "Not exported: cached tokens." in text


def test_a_pass_prints_its_bound_and_never_zero_percent() -> None:
    text = read(page(runs.manifest(), runs.passed(), runs.events(143))).text
    assert "no failure in 143 prompts: below 2.1 % a prompt, 95 %" in text
    assert "none seen" in text
    assert "The failing prompt" not in text


def test_an_embedded_server_and_stand_in_prompts_each_get_a_banner() -> None:
    target = Target(url="http://127.0.0.1:1", model="reference", embedded=True)
    with_both = page(runs.manifest(target=target), runs.failed(), runs.events(17, fail_at=16))
    with_none = page(runs.manifest(stand_in=False), runs.failed(), runs.events(17, fail_at=16))
    assert "says nothing about a real engine" in with_both
    assert "Stand-in prompts" in with_both
    assert "says nothing about a real engine" not in with_none
    assert "Stand-in prompts" not in with_none


def test_a_killed_run_renders_with_its_open_step_and_unanswered_request() -> None:
    events = [e for e in runs.events(7, end=False) if not (isinstance(e, StepEnded) and e.step == 6)]
    events = [e for e in events if getattr(e, "request", "") != "s6.warm" or isinstance(e, RequestSent)]
    text = read(page(runs.manifest(), runs.passed(6, pool_fill=None, stopped=None), events)).text
    assert "it was killed" in text
    assert "no answer: the run ended" in text
    assert "never ended" in text


def test_a_resumed_step_shows_its_last_attempt_only() -> None:
    whole = list(runs.events(17, fail_at=16))
    cut = next(i for i, e in enumerate(whole) if isinstance(e, RequestSent) and e.request == "s5.warm")
    again = next(i for i, e in enumerate(whole) if isinstance(e, StepStarted) and e.step == 5)
    text = read(page(runs.manifest(resumed_at=(5,)), runs.failed(), whole[: cut + 1] + whole[again:])).text
    assert "Resumed at prompt 5." in text
    assert re.search(r"step\s*lost\s*no answer before the run ended\s*1", text)
    assert len(re.findall(r" 5 32k ok · ", text)) == 1


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_run_of_hardly_any_steps_renders(steps: int) -> None:
    judgement = runs.passed(steps, pool_fill=None, censored_at=steps or None)
    assert "PASS" in page(runs.manifest(), judgement, runs.events(steps))


def test_a_run_without_a_single_event_renders() -> None:
    text = read(page(runs.manifest(sizing=None), runs.passed(0, censored_at=None, pool_fill=None), ())).text
    assert "No prompt was started." in text
    assert "no request was sent" in text


def test_a_failure_that_no_request_shows_renders_without_the_failing_prompt() -> None:
    first = replace(runs.failed().first_failure or pytest.fail(), phase=None)
    text = read(page(runs.manifest(), runs.failed(first_failure=first, findings=()), runs.events(17))).text
    assert "prompt 16" in text
    assert "The failing prompt" not in text


def test_ten_thousand_steps_are_thinned_and_capped_and_say_so() -> None:
    markup = page(runs.manifest(), runs.failed(5_000), runs.events(10_000, fail_at=5_000))
    text = read(markup).text
    assert "Thinned: of each" in text
    assert "prompts left off here; all are in prompts.csv" in text
    assert "5,000 16k first failure" in text
    assert len(markup) < 600_000


def test_more_than_forty_prompts_are_folded_away() -> None:
    few = read(page(runs.manifest(), runs.passed(40), runs.events(40)))
    many = read(page(runs.manifest(), runs.passed(41), runs.events(41)))
    assert len(many.tags("details")) == len(few.tags("details")) + 1
    assert "All 41 prompts" in many.text


def test_the_servers_death_is_told_with_its_exit_code() -> None:
    died = ServerEvent(at=12.0, change=ServerChange.EXITED, detail="signal 11", code=-11)
    logged = ServerEvent(at=11.9, change=ServerChange.LOG, detail="\x1b[31mpanic<b>")
    text = read(page(runs.manifest(), runs.failed(), [*runs.events(17, fail_at=16), logged, died])).text
    assert "exited (exit code -11)" in text
    assert r"\x1b[31mpanic<b>" in text


def test_how_to_reproduce_names_all_that_decides_the_traffic() -> None:
    text, manifest = fail().text, runs.manifest()
    for needed in (
        manifest.command,
        manifest.plan_digest,
        manifest.commit,
        manifest.hardware,
        "httpx 0.28.1",
        "x86_64",
    ):
        assert needed
        assert needed in text


def test_the_same_run_renders_to_the_same_page() -> None:
    once = page(runs.manifest(), runs.failed(), runs.events(17, fail_at=16))
    assert once == page(runs.manifest(), runs.failed(), runs.events(17, fail_at=16))


def test_a_long_answers_text_is_cut_wherever_it_is_long() -> None:
    long = [
        replace(e, choices=(Choice(index=0, text="a", reasoning="z" * 300_000),), error_bytes="q" * 300_000)
        if isinstance(e, Exchange)
        else e
        for e in runs.events(17, fail_at=16)
    ]
    markup = page(runs.manifest(), runs.failed(), long)
    assert "296,000 more characters" in read(markup).text
    assert len(markup) < 200_000


def test_a_finding_about_the_run_stands_after_those_about_prompts() -> None:
    whole = replace(runs.finding(), step=None, phase=None, summary="an aside broke")
    text = read(page(runs.manifest(), runs.failed(findings=(whole, runs.finding())), runs.events(17, fail_at=16))).text
    found = text[text.index("What the oracles found") :]
    assert found.index(runs.WORDS) < found.index("an aside broke")
