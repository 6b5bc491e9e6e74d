import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kvstress.core.errors import CannotJudgeError, UsageError
from kvstress.core.sizing import Sizing
from kvstress.store import rundir
from kvstress.store.codec import encode
from tests.store.made import judgement, manifest, one_step, whole_run


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "run"
    with rundir.create(path, manifest()) as writer:
        for event in whole_run():
            writer.append(event)
        writer.conclude(judgement())
    yield path


def _contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_a_run_reads_back_as_it_was_written(run: Path) -> None:
    assert rundir.read_manifest(run) == manifest()
    assert list(rundir.read_events(run)) == list(whole_run())


def test_the_manifest_is_there_before_any_event(tmp_path: Path) -> None:
    with rundir.create(tmp_path / "deep" / "er", manifest()) as writer:
        assert rundir.read_manifest(writer.path) == manifest()
        assert list(rundir.read_events(writer.path)) == []
        assert writer.events == 0


def test_an_amended_manifest_keeps_what_is_recorded(tmp_path: Path) -> None:
    sized = replace(manifest(), sizing=Sizing(overhead=9.0, per_unit=1.25, how="measured"), resumed_at=(3,))
    with rundir.create(tmp_path / "run", manifest(), record="facts") as writer:
        writer.amend(sized)
    assert rundir.read_manifest(tmp_path / "run") == sized
    with rundir.reopen(tmp_path / "run") as writer:
        assert writer.record == rundir.Record.FACTS


def test_every_view_can_be_deleted_and_comes_back_byte_for_byte(run: Path) -> None:
    before = _contents(run)
    for path in run.iterdir():
        if path.name not in ("manifest.json", "events.jsonl"):
            path.unlink()
    rundir.rebuild(run, judgement())
    assert _contents(run) == before
    assert set(before) == {
        "manifest.json", "events.jsonl", "prompts.csv", "requests.csv", "metrics.csv", "findings.jsonl", "verdict.json",
    }  # fmt: skip


def test_an_existing_run_is_refused_and_untouched(run: Path) -> None:
    before = _contents(run)
    with pytest.raises(UsageError, match=r"already holds a run.*--overwrite"):
        rundir.create(run, manifest())
    assert _contents(run) == before


def test_overwriting_replaces_the_run_and_leaves_other_files_alone(run: Path) -> None:
    (run / "notes.txt").write_text("mine")
    (run / "report.html").write_text("old page")
    with rundir.create(run, replace(manifest(), seed=8), overwrite=True):
        pass
    assert rundir.read_manifest(run).seed == 8
    assert list(rundir.read_events(run)) == []
    assert (run / "notes.txt").read_text() == "mine"
    assert not (run / "verdict.json").exists() and not (run / "report.html").exists()


@pytest.mark.parametrize("content", ['{"name": "a web page", "schema_version": 1}', "not json", "[]", ""])
def test_overwriting_refuses_a_directory_that_is_no_run_of_ours(tmp_path: Path, content: str) -> None:
    (tmp_path / "manifest.json").write_text(content)
    (tmp_path / "events.jsonl").write_text("precious")
    before = _contents(tmp_path)
    with pytest.raises(UsageError, match="not a kvstress run"):
        rundir.create(tmp_path, manifest(), overwrite=True)
    assert _contents(tmp_path) == before


def test_an_empty_directory_is_used(tmp_path: Path) -> None:
    rundir.create(tmp_path, manifest()).close()
    assert rundir.read_manifest(tmp_path) == manifest()


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="is a file"):
        rundir.create(tmp_path / "file", manifest())
    with pytest.raises(CannotJudgeError, match=r"cannot create .*not a directory"):
        rundir.create(tmp_path / "file" / "below", manifest())


def test_only_one_writer_at_a_time(run: Path) -> None:
    with rundir.reopen(run):
        with pytest.raises(CannotJudgeError, match="another kvstress is writing"):
            rundir.reopen(run)
        with pytest.raises(CannotJudgeError, match="another kvstress is writing"):
            rundir.create(run, manifest(), overwrite=True)
        with pytest.raises(CannotJudgeError, match="another kvstress is writing"):
            rundir.rebuild(run, judgement())
    rundir.reopen(run).close()


def test_another_process_is_locked_out_too(run: Path) -> None:
    code = (
        "import sys, pathlib\nfrom kvstress.store import rundir\nfrom kvstress.core.errors import CannotJudgeError\n"
        "try: rundir.reopen(pathlib.Path(sys.argv[1]))\nexcept CannotJudgeError as problem: print(problem)\n"
    )
    with rundir.reopen(run):
        done = subprocess.run(
            [sys.executable, "-c", code, str(run)], capture_output=True, text=True, timeout=60, check=True
        )
    assert "another kvstress is writing" in done.stdout


def test_a_refused_call_gives_the_lock_back(run: Path) -> None:
    for _ in range(3):
        with pytest.raises(UsageError):
            rundir.create(run, manifest())
    rundir.reopen(run).close()


def test_a_directory_without_a_manifest_is_not_a_run(tmp_path: Path) -> None:
    for read in (rundir.read_manifest, rundir.reopen):
        with pytest.raises(UsageError, match=r"is not a kvstress run.*--out"):
            read(tmp_path)


def test_a_damaged_manifest_is_named(run: Path) -> None:
    (run / "manifest.json").write_bytes((run / "manifest.json").read_bytes()[:100])
    with pytest.raises(CannotJudgeError, match=r"manifest\.json is damaged"):
        rundir.read_manifest(run)


def test_a_newer_run_asks_for_a_newer_kvstress(run: Path) -> None:
    path = run / "manifest.json"
    path.write_text(path.read_text().replace('"schema_version": 1', '"schema_version": 99'))
    with pytest.raises(CannotJudgeError, match="schema version 99"):
        rundir.read_manifest(run)


def test_a_run_without_events_is_named(run: Path) -> None:
    (run / "events.jsonl").unlink()
    with pytest.raises(CannotJudgeError, match=r"cannot read .*events\.jsonl: no such file"):
        list(rundir.read_events(run))


def test_a_corrupt_line_in_the_middle_is_named_and_changes_nothing(run: Path) -> None:
    lines = (run / "events.jsonl").read_bytes().splitlines(keepends=True)
    lines[6] = lines[6][: len(lines[6]) // 2] + b"\n"
    (run / "events.jsonl").write_bytes(b"".join(lines))
    before = _contents(run)
    uses: tuple[Callable[[], object], ...] = (
        lambda: list(rundir.read_events(run)),
        lambda: rundir.rebuild(run, judgement()),
        lambda: rundir.reopen(run),
    )
    for use in uses:
        with pytest.raises(CannotJudgeError, match=r"events\.jsonl, line 7 is not an event .*head -n 6"):
            use()
    assert _contents(run) == before


@pytest.mark.parametrize(
    "tail", [b'{"type":"exch', b"{", b"\x00" * 5000, b'{"type":"run-ended","at":9.0,"stop":"plan completed"}']
)
def test_a_torn_last_line_is_ignored_and_cut_off_before_going_on(run: Path, tail: bytes) -> None:
    with (run / "events.jsonl").open("ab") as file:
        file.write(tail)
    assert list(rundir.read_events(run)) == list(whole_run())
    with rundir.reopen(run) as writer:
        for event in one_step(3):
            writer.append(event)
    assert list(rundir.read_events(run)) == [*whole_run(), *one_step(3)]


def test_a_torn_line_longer_than_a_block_is_cut_off(run: Path) -> None:
    with (run / "events.jsonl").open("ab") as file:
        file.write(b"x" * 200_000)
    rundir.reopen(run).close()
    assert (run / "events.jsonl").read_bytes() == b"".join(encode(event) for event in whole_run())


def test_conclusions_stay_until_the_resumed_run_goes_on(run: Path) -> None:
    with rundir.reopen(run) as writer:
        assert (run / "verdict.json").exists()
        writer.append(next(one_step(3)))
        assert not (run / "verdict.json").exists()


def test_a_run_in_which_nothing_happened_leaves_nothing(tmp_path: Path) -> None:
    rundir.create(tmp_path / "run", manifest()).discard()
    assert not (tmp_path / "run").exists()


def test_discarding_leaves_what_others_wrote(tmp_path: Path) -> None:
    writer = rundir.create(tmp_path / "run", manifest())
    (tmp_path / "run" / "server.log").write_text("said the server")
    writer.discard()
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["server.log"]


def test_what_a_kill_leaves_of_a_first_manifest_does_not_bar_the_directory(tmp_path: Path) -> None:
    (tmp_path / ".manifest.json.new").write_text("{")
    rundir.create(tmp_path, manifest()).close()
    assert rundir.read_manifest(tmp_path) == manifest()
