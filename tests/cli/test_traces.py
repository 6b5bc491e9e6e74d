"""A trace of every known format is imported, sent to a real server at its times, and judged."""

from collections.abc import Callable
from pathlib import Path

from tests.cli.running import kvstress

SAMPLES = Path(__file__).parents[1] / "data" / "traces"


def test_every_sample_is_imported_and_replayed(tmp_path: Path, reference: Callable[..., str]) -> None:
    server = reference("--fix", "inert-mask")
    samples = sorted(SAMPLES.iterdir())
    assert len(samples) == 10
    for sample in samples:
        made = kvstress("workloads", "import", sample, "--out", f"{sample.stem}.toml", cwd=tmp_path)
        assert made.returncode == 0, made.stderr
        turns = len((tmp_path / f"{sample.stem}.jsonl").read_text().splitlines())
        words = ("--workload", f"{sample.stem}.toml", "--set", "max_tokens=8", "--set", "source.speed=1000")
        done = kvstress("run", "--server", server, *words, "--out", sample.stem, "-q", "--no-asides", cwd=tmp_path)
        assert done.returncode == 0, (sample.name, done.stdout, done.stderr)
        assert len((tmp_path / sample.stem / "prompts.csv").read_text().splitlines()) == turns + 1


def test_a_row_without_a_prompt_is_named_by_its_line(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text('{"input_length": 3}\n{"hash_ids": [1]}\n')
    done = kvstress("workloads", "import", "bad.jsonl", "--out", "w.toml", cwd=tmp_path)
    assert (done.returncode, "bad.jsonl line 2: no prompt" in done.stderr) == (2, True)


def test_a_trace_that_is_not_there_is_said_before_anything_is_sent(tmp_path: Path) -> None:
    done = kvstress("run", "--server", "reference", "--workload", "replay", cwd=tmp_path)
    assert done.returncode == 2 and "trace.jsonl" in done.stderr
