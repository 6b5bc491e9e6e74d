"""Traces of every known format come to the same kind of turns, in any process, and nothing secret passes."""

import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from kvstress.core.errors import UsageError
from kvstress.core.sizing import ASSUMED
from kvstress.harness.importing import Imported, import_trace
from kvstress.harness.inputs import data_files, workload_text
from kvstress.workload import build
from kvstress.workload.spec import parse
from tests.cli.running import kvstress

SAMPLES = Path(__file__).parents[1] / "data" / "traces"
# What each sample holds: format, requests, sessions.
EXPECTED = {
    "mooncake.jsonl": ("mooncake", 6, 5),
    "sharegpt.json": ("sharegpt", 3, 2),
    "vllm-multi-turn.json": ("vllm-multi-turn", 3, 2),
    "swe-agent.traj": ("swe-agent", 2, 1),
    "openai.jsonl": ("openai", 3, 2),
    "browser.har": ("har", 2, 1),
    "spans.json": ("otel", 2, 1),
    "burstgpt.csv": ("burstgpt", 2, 2),
    "bailian.jsonl": ("bailian", 3, 2),
    "weka.json": ("weka", 3, 2),
}


def imported(source: Path, folder: Path, name: str | None = None) -> tuple[Imported, list[dict[str, Any]]]:
    found = import_trace(source, folder / "w.toml", name, overwrite=True)
    return found, [json.loads(line) for line in found.trace.read_text().splitlines()]


def written(folder: Path, content: str, name: str = "given.jsonl") -> Path:
    (folder / name).write_text(content)
    return folder / name


def bodies(workload: Path) -> list[dict[str, Any]]:
    spec = parse(*workload_text(str(workload)))
    data = data_files(spec, workload.parent)
    plan = build.plan(spec, seed=0, model="m", stream=None, sizing=ASSUMED, data=data)
    return [dict(request.body) for step in plan.steps() for request in step.requests]


@pytest.mark.parametrize("sample", EXPECTED)
def test_the_format_is_told_by_the_file_and_every_request_is_there(sample: str, tmp_path: Path) -> None:
    found, turns = imported(SAMPLES / sample, tmp_path)
    name, rows, sessions = EXPECTED[sample]
    assert found.told[0] == f"format: {name}; {rows} requests of {sessions} sessions"
    assert (len(turns), len({turn["session"] for turn in turns})) == (rows, sessions)
    assert len(bodies(found.workload)) == rows


def test_delta_and_cumulative_forms_of_a_conversation_give_the_same_turns(tmp_path: Path) -> None:
    asks = [{"role": "user", "content": f"question {n}"} for n in range(3)]
    says = [{"role": "assistant", "content": f"answer {n}"} for n in range(2)]
    whole = [[asks[0]], [asks[0], says[0], asks[1]], [asks[0], says[0], asks[1], says[1], asks[2]]]
    new = [[asks[0]], [says[0], asks[1]], [says[1], asks[2]]]
    for rows in (whole, new):
        (tmp_path / "form.jsonl").write_text(
            "".join(json.dumps({"session_id": "a", "messages": messages}) + "\n" for messages in rows)
        )
        found, turns = imported(tmp_path / "form.jsonl", tmp_path)
        assert [turn["messages"] for turn in turns] == new
        assert [body["messages"] for body in bodies(found.workload)] == whole
    named = [{"body": {"messages": messages}} for messages in whole]
    found, turns = imported(written(tmp_path, "".join(json.dumps(row) + "\n" for row in named)), tmp_path)
    assert [turn["messages"] for turn in turns] == new
    assert "history: cumulative (seen)" in found.told


def test_a_prompt_that_goes_on_from_none_of_its_sessions_is_sent_as_it_was(tmp_path: Path) -> None:
    first = [{"role": "user", "content": "question"}]
    later = [*first, {"role": "assistant", "content": "answer"}, {"role": "user", "content": "and then"}]
    aside = [{"role": "system", "content": "find a title"}, *first]
    shortened = [{"role": "system", "content": "so far: a question"}, later[-1]]
    sent = [first, aside, later, shortened]
    rows = [{"session_id": "a", "body": {"messages": messages}} for messages in sent]
    found, turns = imported(written(tmp_path, "".join(json.dumps(row) + "\n" for row in rows)), tmp_path)
    assert [body["messages"] for body in bodies(found.workload)] == sent
    assert [(turn["session"], turn["turn"]) for turn in turns] == [("a", 0), ("a/r2", 0), ("a", 1), ("a/r4", 0)]
    assert "branches: 2 prompts that go on from none of their session's, each sent as its own" in found.told


def test_history_and_block_size_are_as_declared_where_they_are(tmp_path: Path) -> None:
    again = [{"role": "user", "content": "again"}]
    rows = "".join(json.dumps({"session_id": "a", "body": {"messages": again * n}}) + "\n" for n in (1, 2))
    for history, counts in (("delta", [1, 2]), ("cumulative", [1, 1])):
        words = ("--history", history, "--overwrite")
        done = kvstress("workloads", "import", written(tmp_path, rows), "--out", "w.toml", *words, cwd=tmp_path)
        assert f"history: {history} (declared)" in done.stdout.splitlines(), done.stderr
        turns = map(json.loads, (tmp_path / "w.jsonl").read_text().splitlines())
        assert [len(turn["messages"]) for turn in turns] == counts
    told = import_trace(SAMPLES / "mooncake.jsonl", tmp_path / "w.toml", None, overwrite=True, block=16).told
    assert "block size: 16 tokens (declared)" in told
    kept = map(json.loads, (tmp_path / "w.jsonl").read_text().splitlines())
    assert {turn["block"] for turn in kept if turn["blocks"]} == {16}


@pytest.mark.parametrize("sample", ["browser.har", "sharegpt.json", "spans.json", "swe-agent.traj", "weka.json"])
def test_a_refusal_quotes_nothing_of_a_file_that_is_cut_off_or_broken(sample: str, tmp_path: Path) -> None:
    content = (SAMPLES / sample).read_text().rstrip()
    for broken, said in ((content[:-2], "ends too early"), (content[:-2] + ' sk-verysecret"}]}', "not valid JSON")):
        source = written(tmp_path, broken, f"broken-{sample}")
        with pytest.raises(UsageError, match=said) as problem:
            import_trace(source, tmp_path / "w.toml", None, overwrite=False)
        assert "secret" not in str(problem.value)


def test_histories_are_held_no_longer_than_their_sessions_last(tmp_path: Path) -> None:
    peaks = []
    for sessions in (100, 400):
        talks = [
            {"id": str(n), "conversations": [{"from": "human", "value": f"{n} " * 2_000}]} for n in range(sessions)
        ]
        found, _ = imported(written(tmp_path, json.dumps(talks), "long.json"), tmp_path)
        spec = parse(*workload_text(str(found.workload)))
        plan = build.plan(
            spec, seed=0, model="m", stream=None, sizing=ASSUMED, data=data_files(spec, found.workload.parent)
        )
        tracemalloc.start()
        assert sum(len(step.requests) for step in plan.steps()) == sessions
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # 300 more sessions hold 2.3 MB more text.
    assert peaks[1] < peaks[0] + 500_000


def test_an_answer_that_the_trace_did_not_record_is_the_live_one(tmp_path: Path) -> None:
    rows = [{"session_id": "a", "messages": [{"role": "user", "content": f"question {n}"}]} for n in range(2)]
    found, _ = imported(written(tmp_path, "".join(json.dumps(row) + "\n" for row in rows)), tmp_path)
    second = bodies(found.workload)[1]["messages"]
    assert [message["role"] for message in second] == ["user", "assistant", "user"]
    assert second[1]["content"].step == 0


def test_equal_hashes_are_equal_text_and_a_shared_prefix_is_shared(tmp_path: Path) -> None:
    found, _ = imported(SAMPLES / "mooncake.jsonl", tmp_path)
    first, second, third = (body["messages"][0]["content"] for body in bodies(found.workload)[:3])
    assert second.startswith(first) and len(first) > 0.75 * len(second)
    assert first[:40] != third[:40]
    local, _ = imported(SAMPLES / "weka.json", tmp_path)
    assert "hash scope: conversation" in local.told


def test_times_are_seconds_since_the_first_row_whatever_the_unit(tmp_path: Path) -> None:
    at = {name: [turn.get("at", 0.0) for turn in imported(SAMPLES / name, tmp_path)[1]] for name in EXPECTED}
    assert at["mooncake.jsonl"] == [0.0, 0.118, 0.618, 0.668, 1.418, 1.518]
    assert at["burstgpt.csv"] == [0.0, 113.0]
    assert at["bailian.jsonl"] == [0.0, 2.3, 2.8]
    assert at["openai.jsonl"] == [0.0, 2.5, 3.0]
    assert at["browser.har"] == [0.0, 3.0]
    assert at["spans.json"] == [0.0, 2.0]
    assert at["weka.json"] == [0.0, 1.1, 2.5]


def test_no_key_of_a_recorded_request_is_in_what_is_written_or_told(tmp_path: Path) -> None:
    found, _ = imported(SAMPLES / "browser.har", tmp_path)
    assert "verysecret" in (SAMPLES / "browser.har").read_text()
    for text in (found.trace.read_text(), found.workload.read_text(), "\n".join(found.told)):
        assert "verysecret" not in text


def test_unknown_fields_and_rows_that_are_no_request_are_counted(tmp_path: Path) -> None:
    assert "unknown fields, not sent: mood (1)" in imported(SAMPLES / "mooncake.jsonl", tmp_path)[0].told
    told = imported(SAMPLES / "burstgpt.csv", tmp_path)[0].told
    assert "left out: 1 × failed in the trace (no response tokens)" in told


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"timestamp":1,"input_length":5}\n{"timestamp":2,"hash_ids":[1]}\n', "line 2: no prompt"),
        ('{"timestamp":1,"input_length":5,"text_input":"x"}\n', "line 1: no prompt: expected exactly one"),
        ('{"timestamp":1,"input_length":5}\nnot json\n', "line 2: not valid JSON"),
        ('{"body":{"model":"m"}}\n', "line 1: no prompt"),
        ('{"colour":"red"}\n', "the format is not known from its keys (colour)"),
        ('{"timestamp":1,"input_length":5,"hash_ids":["x"]}\n', "line 1: hash_ids: expected a list of whole numbers"),
        ("", "the format is not known"),
        ('{"filetype":"generate_conversations","num_conversations":3}', "holds none"),
        ('[{"conversations":[{"from":"ghost","value":"x"}]}]', "line 1: a message of nobody known"),
        ('[{"conversations":[{"from":"human","value":"x"}]}', "not valid JSON"),
    ],
)
def test_what_cannot_be_sent_is_refused_with_its_line_and_leaves_nothing(
    content: str, said: str, tmp_path: Path
) -> None:
    source = written(tmp_path, content)
    with pytest.raises(UsageError) as problem:
        import_trace(source, tmp_path / "w.toml", None, overwrite=False)
    assert said in str(problem.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["given.jsonl"]


def test_an_existing_workload_and_the_trace_itself_are_not_overwritten(tmp_path: Path) -> None:
    source = written(tmp_path, '{"timestamp":1,"input_length":5}\n')
    with pytest.raises(UsageError, match="is the trace itself"):
        import_trace(source, tmp_path / "given.toml", None, overwrite=True)
    import_trace(source, tmp_path / "w.toml", None, overwrite=False)
    with pytest.raises(UsageError, match="exists"):
        import_trace(source, tmp_path / "w.toml", None, overwrite=False)


def test_a_trace_that_was_changed_after_its_import_is_not_sent(tmp_path: Path) -> None:
    found, _ = imported(SAMPLES / "bailian.jsonl", tmp_path)
    found.trace.write_bytes(found.trace.read_bytes() + b'{"session":"x","turn":0,"tokens":4}\n')
    with pytest.raises(UsageError, match="is not the file that this workload was made with"):
        bodies(found.workload)


def test_an_import_gives_the_same_bytes_in_every_process(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from kvstress.harness.importing import import_trace; "
        "import_trace(Path(sys.argv[1]), Path(sys.argv[2]), None, overwrite=True)"
    )
    for sample in ("mooncake.jsonl", "openai.jsonl", "weka.json"):
        texts = []
        for seed in ("1", "2"):
            words = [sys.executable, "-c", program, str(SAMPLES / sample), str(tmp_path / "w.toml")]
            subprocess.run(words, check=True, env=os.environ | {"PYTHONHASHSEED": seed})
            texts.append((tmp_path / "w.toml").read_bytes() + (tmp_path / "w.jsonl").read_bytes())
        assert texts[0] == texts[1]


def test_a_long_trace_is_read_in_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvstress.traces.turns._REMEMBERED", 500)
    peaks = []
    for rows in (2_000, 8_000):
        with (tmp_path / "long.json").open("w") as file:
            file.write("[")
            for number in range(rows):
                told = {"from": "human", "value": f"{number} " + "word " * 100}
                file.write(("," if number else "") + json.dumps({"id": str(number), "conversations": [told]}))
            file.write("]")
        tracemalloc.start()
        imported_rows = import_trace(tmp_path / "long.json", tmp_path / "w.toml", None, overwrite=True).rows
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert imported_rows == rows
    # The longer trace holds 3 MB more text; what is remembered are digests of the last sessions.
    assert peaks[1] < 1.5 * peaks[0]
