import csv
import subprocess
import sys
from pathlib import Path

from kvstress.store import rundir
from tests.store.made import judgement, one_step

# Says the number of each event once `append` returned; never closes, never ends by itself within the test.
_WRITER = """
import sys
from itertools import count
from pathlib import Path
from kvstress.store import rundir
from tests.store.made import manifest, one_step
writer = rundir.create(Path(sys.argv[1]), manifest())
for step in range(100_000):
    for event in one_step(step):
        writer.append(event)
        print(writer.events, flush=True)
"""


def _killed_after(events: int, run: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", _WRITER, str(run)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) >= events:
                break
    finally:
        process.kill()
        process.communicate(timeout=60)


def test_a_kill_loses_nothing_that_append_returned_from(tmp_path: Path) -> None:
    run = tmp_path / "run"
    _killed_after(25, run)
    events = list(rundir.read_events(run))
    assert len(events) >= 25
    assert events[:7] == list(one_step(0))
    live = (run / "prompts.csv").read_bytes()
    rundir.rebuild(run, judgement())
    assert (run / "prompts.csv").read_bytes().startswith(live) and live.count(b"\n") >= 4


def test_the_lock_of_a_killed_process_is_gone_and_the_run_goes_on(tmp_path: Path) -> None:
    run = tmp_path / "run"
    _killed_after(10, run)
    with rundir.reopen(run) as writer:
        for event in one_step(200_000):
            writer.append(event)
        writer.conclude(judgement())
    with (run / "prompts.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["i"] == "0" and "200000" in {row["i"] for row in rows}
