"""Real failing writes: a file size limit and a forbidden directory in a process of their own, and /dev/full."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from kvstress.core.errors import CannotJudgeError
from kvstress.store import disk, rundir
from tests.store.made import judgement, manifest, whole_run

_LIMITED = """
import resource, sys
from itertools import count
from pathlib import Path
from kvstress.core.errors import CannotJudgeError
from kvstress.store import rundir
from tests.store.made import judgement, manifest, one_step
writer = rundir.create(Path(sys.argv[1]), manifest())
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    for step in range(10_000):
        for event in one_step(step):
            writer.append(event)
except CannotJudgeError as problem:
    print(writer.events, problem, sep="\\n")
    writer.close()
"""

_FORBIDDEN = """
import os, sys
from pathlib import Path
from kvstress.core.errors import CannotJudgeError
from kvstress.store import rundir
from tests.store.made import manifest
if os.getuid() == 0:
    os.setuid(65534)
for path in map(Path, sys.argv[1:]):
    try:
        rundir.create(path, manifest())
    except CannotJudgeError as problem:
        print(problem)
"""


def _run(code: str, *arguments: str) -> list[str]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=True).stdout.splitlines()


@pytest.mark.parametrize("limit", [4_000, 10_001, 20_000])
def test_a_full_disk_is_one_sentence_and_what_was_written_stays(tmp_path: Path, limit: int) -> None:
    run = tmp_path / "run"
    count, sentence = _run(_LIMITED, str(run), str(limit))
    assert sentence.startswith(f"cannot write {run / 'events.jsonl'}: file too large; free some space")
    assert (run / "events.jsonl").read_bytes().endswith(b"\n")
    assert len(list(rundir.read_events(run))) == int(count) > 0
    rundir.rebuild(run, judgement())
    with rundir.reopen(run) as writer:
        assert writer.append(next(whole_run())) == next(whole_run())


def test_a_device_without_space_names_the_path_and_the_way_out() -> None:
    file = disk.AppendFile(Path("/dev/full"), fresh=False)
    with pytest.raises(CannotJudgeError, match=r"^cannot write /dev/full: no space left on device; free some space"):
        file.write(b"row\n")
    file.close()


def test_a_table_that_cannot_grow_does_not_cost_the_event(tmp_path: Path) -> None:
    run = tmp_path / "run"
    rundir.create(run, manifest()).close()
    (run / "requests.csv.new").symlink_to("/dev/full")
    with pytest.raises(CannotJudgeError, match=r"cannot write .*requests\.csv\.new: no space left"):
        rundir.rebuild(run, judgement())
    rundir.rebuild(run, judgement())
    assert Path("/dev/full").is_char_device()


def test_a_directory_that_forbids_writing_names_itself() -> None:
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        closed = Path(place) / "closed"
        closed.mkdir(mode=0o555)
        new, existing = _run(_FORBIDDEN, str(closed / "run"), str(closed))
    assert new == f"cannot create {closed / 'run'}: permission denied; make it writable or choose another directory"
    assert existing.startswith(f"cannot write {closed / 'manifest.json'}: permission denied; make it writable")


def test_a_failed_replacement_keeps_the_old_file_and_leaves_no_other(tmp_path: Path) -> None:
    (tmp_path / "verdict.json").write_bytes(b"old")
    (tmp_path / ".verdict.json.new").symlink_to("/dev/full")
    with pytest.raises(CannotJudgeError, match="no space left"):
        disk.replace(tmp_path / "verdict.json", b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"verdict.json": b"old"}


def test_nothing_stays_open_after_a_close(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")  # noqa: PTH208
    with rundir.create(tmp_path / "run", manifest(), record="full") as writer:
        writer.body("r", b"{}")
        writer.append(next(whole_run()))
    writer.close()
    assert len(os.listdir("/proc/self/fd")) == len(before)  # noqa: PTH208
