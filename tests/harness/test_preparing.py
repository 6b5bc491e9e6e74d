"""`workloads prepare speedbench`: what is written is what `run --data` reads, and open rows are refused by name."""

import json
from hashlib import sha256
from pathlib import Path

import pytest

from kvstress.core.errors import UsageError
from kvstress.harness.preparing import prepare_speedbench
from kvstress.workload.dataset import PLACEHOLDER
from tests.cli.running import kvstress


def rows(folder: Path, *texts: str) -> Path:
    folder.mkdir()
    lines = [{"question_id": f"{n:032}", "category": "low_entropy", "turns": [text]} for n, text in enumerate(texts)]
    (folder / "throughput_1k.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_prompts_are_written_byte_for_byte_with_their_digests(tmp_path: Path) -> None:
    texts = ("first prompt, é", "second " * 20 + "a", "second " * 20 + "b")
    (one,) = prepare_speedbench(rows(tmp_path / "raw", *texts), tmp_path / "out")
    assert (one.rows, one.categories, one.shared) == (3, {"low_entropy": 3}, 2)
    kept = [json.loads(line) for line in one.written.read_text().splitlines()]
    assert [row["messages"] for row in kept] == [[{"role": "user", "content": text}] for text in texts]
    prints = json.loads((tmp_path / "out" / "fingerprints.json").read_text())["throughput_1k.jsonl"]
    assert prints["sha256"] == sha256((tmp_path / "raw" / "throughput_1k.jsonl").read_bytes()).hexdigest()
    assert prints["prompts"]["1"] == sha256(texts[0].encode()).hexdigest()


def test_what_was_prepared_is_sent(tmp_path: Path) -> None:
    raw = rows(tmp_path / "raw", *(f"prompt {n} " * 30 for n in range(2)))
    done = kvstress("workloads", "prepare", "speedbench", "--from", raw, "--out", "ready", cwd=tmp_path)
    assert done.returncode == 0 and "2 rows (2 low_entropy)" in done.stdout, done.stderr
    words = ("--workload", "speedbench", "--set", "contexts=1k", "--set", "coverage.keys=hit", "--data", "ready")
    run = kvstress("run", "--server", "reference", *words, "--out", "run", "--no-asides", "-q", cwd=tmp_path)
    assert "prompts.csv" in {path.name for path in (tmp_path / "run").iterdir()}, run.stderr
    assert len((tmp_path / "run" / "prompts.csv").read_text().splitlines()) == 3


def test_a_row_that_is_still_a_placeholder_is_named(tmp_path: Path) -> None:
    raw = rows(tmp_path / "raw", "fine", PLACEHOLDER + " USING SPECDEC_BENCH")
    with pytest.raises(UsageError, match=r"throughput_1k\.jsonl row 2 still holds the placeholder"):
        prepare_speedbench(raw, tmp_path / "out")


@pytest.mark.parametrize(("make", "said"), [(False, "no such directory"), (True, "holds none of throughput_1k.jsonl")])
def test_a_directory_without_the_dataset_is_refused(make: bool, said: str, tmp_path: Path) -> None:
    if make:
        (tmp_path / "raw").mkdir()
    with pytest.raises(UsageError, match=said):
        prepare_speedbench(tmp_path / "raw", tmp_path / "out")
