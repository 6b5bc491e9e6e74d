"""Tokens a second by how many are sent at once: what a run shows, and that a fix that costs speed is seen."""

from collections.abc import Callable
from pathlib import Path

from tests.cli.running import events, kvstress

SMALL = ("--set", "levels=1,4", "--set", "context=400", "--set", "rounds=6", "--set", "phases.answer.max_tokens=16")


def _measured(folder: Path, server: str, name: str, seed: int) -> str:
    words = ("--server", server, "--workload", "throughput", *SMALL, "--seed", str(seed), "--time-scale", "0.05")
    done = kvstress("run", *words, "--out", name, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_run_tells_tokens_a_second_for_each_level(tmp_path: Path, reference: Callable[..., str]) -> None:
    said = _measured(tmp_path, reference(), "run", 0)
    for text in (said, (tmp_path / "run" / "summary.md").read_text(), (tmp_path / "run" / "report.html").read_text()):
        assert "1 at once" in text and "4 at once" in text
        assert "interval of the median by order statistics" in text and "(97 %)" in text
    assert [event["label"] for event in events(tmp_path / "run", "step-ended")] == ["1 at once", "4 at once"] * 7
    sent = [event for event in events(tmp_path / "run", "request-sent") if event["step"] == 1]
    assert len({event["recipe"] for event in sent}) == len({event["request"] for event in sent}) == 4


def test_a_fix_that_costs_speed_is_seen_at_each_level(tmp_path: Path, reference: Callable[..., str]) -> None:
    fast, slow = reference(), reference("--step-delay", "0.02")
    for seed in (0, 1):
        _measured(tmp_path, fast, f"base{seed}", seed)
        _measured(tmp_path, slow, f"head{seed}", seed)
    done = kvstress("compare", "base0", "base1", "--with", "head0", "head1", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert '"throughput, 4 at once"' in done.stdout and '"verdict":"REGRESSED"' in done.stdout.replace(" ", "")
