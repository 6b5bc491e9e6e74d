import csv
import io
import json
import math
from collections.abc import Iterable
from dataclasses import fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvstress.core.events import Event, StepEnded, StepStarted
from kvstress.core.exchange import Exchange
from kvstress.core.outcome import Kind
from kvstress.core.sample import Sample
from kvstress.store import rundir
from kvstress.store.cells import CANONICAL
from kvstress.store.views import PROMPTS, REQUESTS, TABLES, Views
from tests.store.made import (
    ANY_EVENT,
    RELATED_EVENT,
    answered,
    head,
    judgement,
    manifest,
    one_step,
    sample,
    sent,
    whole_run,
)

Rows = list[dict[str, str]]


def _tables(events: Iterable[Event], phases: tuple[str, ...] = ("prime", "warm")) -> dict[str, Rows]:
    views, files = Views(phases), dict.fromkeys(TABLES, b"")
    chunks = [*views.head(), *(chunk for event in events for chunk in views.see(event)), *views.rest()]
    for name, data in chunks:
        files[name] += data
    return {name: list(csv.DictReader(io.StringIO(data.decode(), newline=""))) for name, data in files.items()}


def test_a_flare_run_begins_with_the_columns_of_the_seed_report() -> None:
    rows = _tables(whole_run())[PROMPTS]
    assert list(rows[0])[:9] == [
        "i", "context", "prime", "warm", "seconds",
        "flare_free_kv_tokens", "flare_cached_kv_tokens", "flare_free_snapshots", "flare_requests_failed_total",
    ]  # fmt: skip
    assert list(rows[0].values())[:9] == ["0", "16k", "ok", "ok", "0.99", "400000", "80000", "73", "0"]


def test_the_failing_cell_holds_the_servers_words() -> None:
    rows = _tables(whole_run())[PROMPTS]
    assert rows[2]["warm"] == 'fail: {"error": {"message": "prepared model reported device error 6"}}'
    assert (rows[2]["warm_prompt_tokens"], rows[2]["warm_s"], rows[2]["warm_ttft_s"]) == ("", "0.499", "")
    assert (rows[1]["warm_cached_tokens"], rows[1]["kv_free"], rows[1]["kv_usage"]) == ("15872", "400000", "")


def test_another_server_has_no_flare_columns_and_unobserved_cells_are_empty() -> None:
    rows = _tables(event for event in whole_run() if not isinstance(event, Sample))[PROMPTS]
    assert not any(name.startswith("flare") for name in rows[0])
    assert all(rows[0][name] == "" for name in CANONICAL)


def test_each_phase_of_a_workload_has_its_columns() -> None:
    (row,) = _tables([*one_step(0)], phases=("send",))[PROMPTS]
    assert row["send"] == "" and "send_ttft_s" in row and "warm" not in row


def test_canonical_metrics_are_those_of_a_sample() -> None:
    names = [field.name for field in fields(Sample)]
    assert tuple(names[names.index("problem") + 1 : names.index("raw")]) == CANONICAL


def test_every_request_has_a_row_asides_and_sizing_too() -> None:
    rows = _tables(whole_run())[REQUESTS]
    assert [row["request"] for row in rows] == [
        "sizing.0", "s0.prime", "s0.warm", "s1.prime", "s1.warm", "s2.prime", "s2.warm", "aside.after",
    ]  # fmt: skip
    assert {row["origin"] for row in rows} == {"step", "sizing", "aside"}
    assert (rows[6]["kind"], rows[6]["outcome"], rows[6]["status"]) == ("server-error", "failed", "500")


def test_a_streamed_answer_shows_its_latencies() -> None:
    streamed = replace(answered("s0.warm", 1.0), chunk_at=(1.101, 1.201, 1.501), chunk_bytes=(3, 3, 3))
    row = _tables([sent(0, "warm"), streamed])[REQUESTS][0]
    assert (row["ttft_s"], row["itl_max_s"], row["tpot_s"], row["chunks"]) == ("0.1", "0.3", "0.006349", "3")


def test_a_step_cut_off_by_a_kill_has_a_partial_row_and_its_request_is_lost() -> None:
    tables = _tables([*one_step(0), *list(one_step(1))[:4]])
    partial, lost = tables[PROMPTS][1], tables[REQUESTS][-1]
    assert (partial["i"], partial["prime"], partial["warm"], partial["seconds"]) == ("1", "ok", "fail: killed", "")
    assert (lost["request"], lost["kind"], lost["outcome"], lost["ended_s"]) == ("s1.warm", "killed", "lost", "")


def test_a_resumed_step_shows_its_last_attempt_only() -> None:
    cut = list(one_step(1, fails=True))[:4]
    tables = _tables([*one_step(0), *cut, *one_step(1), *one_step(2)])
    assert [row["i"] for row in tables[PROMPTS]] == ["0", "1", "2"]
    assert tables[PROMPTS][1]["warm"] == "ok"
    attempts = [row["outcome"] for row in tables[REQUESTS] if row["request"] == "s1.warm"]
    assert attempts == ["lost", "completed"]


def test_steps_of_several_lanes_get_a_row_each_as_they_end() -> None:
    one, two = list(one_step(0)), list(one_step(1))
    mixed = [event for pair in zip(one, two, strict=True) for event in reversed(pair)]
    assert [row["i"] for row in _tables(mixed)[PROMPTS]] == ["1", "0"]


def test_samples_between_steps_are_in_metrics_but_in_no_prompt() -> None:
    tables = _tables([*head(), StepStarted(at=1, step=0, label="a"), sample(0, 1.5, why="interval", free=7.0),
                      StepEnded(at=2, step=0, label="a", seconds=1.0)])  # fmt: skip
    assert tables[PROMPTS][0]["kv_free"] == ""
    assert [row["kv_free"] for row in tables["metrics.csv"]] == ["400000", "7"]


def test_raw_metrics_are_one_cell_of_json_that_tells_nan_from_unobserved() -> None:
    wild = replace(sample(0, 1.0), kv_usage=math.nan, raw={"b": 1.0, "a": math.nan})
    (row,) = _tables([wild])["metrics.csv"]
    assert row["kv_usage"] == "NaN" and row["kv_capacity"] == ""
    assert json.loads(row["raw"]) == {"a": "NaN", "b": 1.0}


@pytest.mark.parametrize("words", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "x;=1", "a\r\nb,c", "\x1b[31mred"])
def test_hostile_server_words_stay_in_their_cell_and_run_nowhere(words: str) -> None:
    hostile = replace(answered("s0.warm", kind=Kind.SERVER_ERROR, words=words), model=words, retry_after=words)
    tables = _tables([StepStarted(at=0, step=0, label=words), sent(0, "warm"), hostile])
    for row in (*tables[REQUESTS], *tables[PROMPTS]):
        assert None not in row and len(tables[REQUESTS]) == len(tables[PROMPTS]) == 1
        for cell in row.values():
            assert not cell.startswith(tuple("=+-@\t\r")) and ";=" not in cell and cell.isprintable()


def _files(run: Path) -> dict[str, bytes]:
    return {name: (run / name).read_bytes() for name in TABLES}


@given(st.lists(st.one_of(RELATED_EVENT, ANY_EVENT), max_size=25), st.integers(0, 25))
@settings(deadline=None, max_examples=60)
def test_rebuilt_and_resumed_tables_equal_the_live_ones_for_any_events(events: list[Event], cut: int) -> None:
    with TemporaryDirectory() as place:
        run = Path(place) / "run"
        with rundir.create(run, manifest()) as writer:
            stored = [writer.append(event) for event in events[:cut]]
        with rundir.reopen(run) as writer:
            stored += [writer.append(event) for event in events[cut:]]
        assert repr(list(rundir.read_events(run))) == repr(stored)
        live = _files(run)
        for name in TABLES:
            (run / name).unlink()
        rundir.rebuild(run, judgement())
        assert _files(run) == live


def test_tables_do_not_depend_on_text_that_utf8_cannot_hold(tmp_path: Path) -> None:
    with rundir.create(tmp_path / "run", manifest()) as writer:
        writer.append(sent(0, "warm"))
        seen = writer.append(answered("s0.warm", kind=Kind.SERVER_ERROR, words="half \udc80 pair"))
    assert isinstance(seen, Exchange) and seen.server_words == "half ? pair"
    live = _files(tmp_path / "run")
    rundir.rebuild(tmp_path / "run", judgement())
    assert _files(tmp_path / "run") == live
