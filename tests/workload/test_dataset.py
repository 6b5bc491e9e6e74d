"""The user's prepared files: read as they are, sent byte for byte, and refused with file and row."""

import json
from hashlib import sha256
from io import BytesIO
from typing import Any

import pyarrow
import pytest
from pyarrow.parquet import write_table

from kvstress.core.errors import UsageError
from kvstress.core.plan import Plan
from kvstress.core.sizing import ASSUMED
from kvstress.workload import build
from kvstress.workload.dataset import PLACEHOLDER, DataFile, read
from kvstress.workload.spec import Spec, override

ODD = " leading, trailing \t\n\n“quotes”, \u2028, 𝕂𝕍 and Answer now please.\n"


def row(text: str, *, category: str = "low_entropy", key: str = "messages") -> dict[str, Any]:
    prompt = [{"role": "user", "content": text}] if key == "messages" else [text]
    return {"question_id": "q" * 32, "category": category, key: prompt}


def lines(*rows: dict[str, Any]) -> bytes:
    return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in rows).encode()


def parquet(*rows: dict[str, Any]) -> bytes:
    sink = BytesIO()
    write_table(pyarrow.Table.from_pylist(list(rows)), sink)
    return sink.getvalue()


def planned(spec: Spec, **files: DataFile) -> Plan:
    return build.plan(spec, seed=0, model="m", stream=None, sizing=ASSUMED, data=files)


def two(first: bytes, second: bytes) -> dict[str, DataFile]:
    return {
        "throughput_2k": read("dir/throughput_2k.jsonl", first),
        "throughput_4k": read("dir/throughput_4k.jsonl", second),
    }


def sentence(name: str, content: bytes) -> str:
    with pytest.raises(UsageError) as error:
        read(name, content)
    return str(error.value)


@pytest.mark.parametrize("key", ["messages", "turns"])
@pytest.mark.parametrize("write", [lines, parquet])
def test_json_lines_and_parquet_with_messages_or_turns_read_alike(write: Any, key: str) -> None:
    file = read("f", write(row("one", key=key), row(ODD, category="mixed", key=key)))
    assert [(one.number, one.category, dict(one.messages[0])) for one in file.rows] == [
        (1, "low_entropy", {"role": "user", "content": "one"}),
        (2, "mixed", {"role": "user", "content": ODD}),
    ]


def test_the_file_is_recorded_by_the_hash_of_its_bytes() -> None:
    content = lines(row("one"))
    assert read("f", content).sha256 == sha256(content).hexdigest()


def test_rows_are_sent_byte_for_byte_in_turn(spec: Spec) -> None:
    plan = planned(spec, **two(lines(row("a"), row("no", category="mixed"), row(ODD)), lines(row("b"), row("d"))))
    steps = list(plan.steps())
    assert [(step.label, step.requests[0].body["messages"][0]["content"]) for step in steps] == [
        ("2k", "a"),
        ("4k", "b"),
        ("2k", ODD),
        ("4k", "d"),
    ]
    assert all(request.tokens is None for step in steps for request in step.requests)


def test_each_request_names_its_row_and_the_hash_of_its_prompt(spec: Spec) -> None:
    plan = planned(spec, **two(lines(row("x", category="mixed"), row("a")), lines(row("b"))))
    recipe = next(plan.steps()).requests[0].recipe
    assert recipe == f"throughput_2k.jsonl row 2 sha256={sha256(b'a').hexdigest()}"


def test_the_plan_records_its_files_without_the_folder_they_lay_in(spec: Spec) -> None:
    content = lines(row("a"), row("b", category="mixed"))
    plan = planned(spec, **two(content, content))
    assert plan.sources[0] == {
        "file": "throughput_2k.jsonl",
        "sha256": sha256(content).hexdigest(),
        "rows": "2",
        "usable": "1",
    }


@pytest.mark.parametrize(("first", "second", "total"), [(3, 3, 6), (3, 1, 3), (1, 3, 2), (2, 9, 4)])
def test_the_plan_ends_where_a_row_is_missing_and_says_so(spec: Spec, first: int, second: int, total: int) -> None:
    plan = planned(spec, **two(lines(*[row("a")] * first), lines(*[row("b")] * second)))
    assert len(list(plan.steps())) == plan.total_steps == total
    assert f"used up after {total} prompts" in plan.content
    assert not plan.stand_in


def test_a_size_that_comes_twice_takes_the_next_row_each_time(spec: Spec) -> None:
    plan = planned(override(spec, {"contexts": "2k,2k"}), throughput_2k=read("f", lines(row("a"), row("b"), row("c"))))
    assert [step.requests[0].body["messages"][0]["content"] for step in plan.steps()] == ["a", "b", "c"]
    assert plan.total_steps == 3


def test_several_messages_are_all_sent(spec: Spec) -> None:
    said = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    plan = planned(spec, **two(lines({"category": "low_entropy", "messages": said}), lines(row("b"))))
    assert next(plan.steps()).requests[0].body["messages"] == said


def test_of_several_turns_the_first_is_sent_and_the_recipe_says_so(spec: Spec) -> None:
    plan = planned(spec, **two(lines({"category": "low_entropy", "turns": ["u", "v"]}), lines(row("b"))))
    request = next(plan.steps()).requests[0]
    assert request.body["messages"] == [{"role": "user", "content": "u"}]
    assert "turn 1 of 2" in request.recipe


@pytest.mark.parametrize("key", ["messages", "turns"])
def test_a_row_that_still_begins_with_the_placeholder_is_refused_by_file_and_row(spec: Spec, key: str) -> None:
    unresolved = row(f"{PLACEHOLDER} USING SPECDEC_BENCH, and more", key=key)
    content = lines(row("a", key=key)) + b"\n" + lines(unresolved)
    with pytest.raises(UsageError, match=r"^dir/throughput_2k.jsonl row 3 still holds the placeholder"):
        planned(spec, **two(content, lines(row("b"))))


def test_an_unresolved_row_of_another_category_is_no_matter(spec: Spec) -> None:
    content = lines(row("a"), row(PLACEHOLDER, category="mixed"))
    assert planned(spec, **two(content, lines(row("b")))).total_steps == 2


def test_a_missing_file_is_named(spec: Spec) -> None:
    with pytest.raises(UsageError, match=r"^no throughput_4k.jsonl or .parquet for context 4k; given: throughput_2k$"):
        planned(spec, throughput_2k=read("f", lines(row("a"))))


def test_a_file_without_the_category_says_which_it_has(spec: Spec) -> None:
    with pytest.raises(UsageError, match=r"throughput_2k.jsonl has no row whose category is low_entropy; it has mixed"):
        planned(spec, **two(lines(row("a", category="mixed")), lines(row("b"))))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "f is empty"),
        (b" \n\n", "f is empty"),
        (b'{"category": \n', "f row 1: not valid JSON"),
        (lines(row("a")) + b"\n\xff\xfe\n", "f row 3: not valid JSON"),
        (b"[]\n", "f row 1: expected a JSON object, got list"),
        (b'{"category": "low_entropy"}\n', "f row 1: no prompt: expected messages or turns"),
        (b'{"category": 3, "turns": ["a"]}\n', "f row 1: category: expected text, got int"),
        (b'{"turns": []}\n', "f row 1: turns: expected a non-empty list of non-empty text"),
        (b'{"turns": [""]}\n', "f row 1: turns: expected a non-empty list of non-empty text"),
        (b'{"messages": []}\n', "f row 1: messages: expected a non-empty list"),
        (b'{"messages": [{"role": "user"}]}\n', "f row 1: messages[0]: expected role and content"),
        (b'{"messages": ["hello"]}\n', "f row 1: messages[0]: expected role and content"),
        (b"PAR1 and then nonsense", "f: not readable parquet"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence(content: bytes, said: str) -> None:
    words = sentence("f", content)
    assert words.startswith(said)
    assert "\n" not in words


def test_parquet_without_rows_is_named() -> None:
    schema = pyarrow.schema([("category", pyarrow.string()), ("turns", pyarrow.list_(pyarrow.string()))])
    sink = BytesIO()
    write_table(schema.empty_table(), sink)
    assert sentence("f.parquet", sink.getvalue()) == "f.parquet has no rows"
