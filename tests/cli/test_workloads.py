"""What can be sent, asked without a server: for people and for programs."""

import json
from pathlib import Path
from typing import Any

from tests.cli.running import kvstress

SHIPPED = {path.stem for path in (Path(__file__).parents[2] / "workloads").glob("*.toml")}


def asked(*words: str, cwd: Path, code: int = 0) -> Any:
    done = kvstress("workloads", *words, "--json", cwd=cwd)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def test_a_program_is_told_what_there_is_and_what_would_be_sent(tmp_path: Path) -> None:
    listed = asked("list", cwd=tmp_path)
    assert {one["name"] for one in listed} == SHIPPED
    assert all(one["hunts"] and one["phases"] and len(one["digest"]) == 64 for one in listed)
    shown = asked("show", "fuzz", "--steps", "5", "--seed", "7", cwd=tmp_path)
    assert [step["index"] for step in shown["steps"]] == [0, 1, 2, 3, 4]
    assert shown["workload"]["source"]["operations"] == 300
    assert all(request["body"]["max_tokens"] for step in shown["steps"] for request in step["requests"])


def test_each_wrong_file_is_named_with_its_mistake(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text('name = "bad"\nhunts = "x"\n')
    good, bad = asked("validate", "soak", "bad.toml", cwd=tmp_path, code=2)
    assert (good["ok"], good["steps"], good["phases"]) == (True, None, ["load", "probe"])
    assert (bad["ok"], bad["file"]) == (False, "bad.toml") and "source" in bad["problem"]
