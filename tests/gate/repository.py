"""A small git repository with a server in it: some commits have the fix, some do not, some do not even build.

The server is the reference server at a pool so small that prompt 3 is the first after it filled; each commit says in
the file `state` whether it is good, bad (without the fix), unbuildable, or dead (its server ends at once).
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.cli.running import KVSTRESS

SERVER = """
import os
import sys
from pathlib import Path

state = Path(__file__).with_name("state").read_text().split()[0]
if state == "dead":
    sys.exit("no such weights")
fix = ["--fix", "inert-mask"] if state == "good" else []
python = [sys.executable, "-m", "kvstress.refserver", "--host", "127.0.0.1", "--port", sys.argv[1]]
os.execv(sys.executable, [*python, "--memory-limit", "37G", *fix])
"""
BUILD = '#!/bin/sh\ngrep -q unbuildable state && { echo "error: expected ;" >&2; exit 2; }\nexit 0\n'
# What shows the bug in two seconds: short prompts, and no probe of an idle server at the end.
QUICK = "--set contexts=1k,2k --max-steps 6"


def git(folder: Path, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Git with nobody's configuration but its own."""
    mine = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "LC_ALL": "C"}
    who = {f"GIT_{role}_{what}": "test@localhost" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = {**os.environ, **mine, **who, "PATH": f"{KVSTRESS.parent}:{os.environ['PATH']}"}
    return subprocess.run(
        ["git", *words], cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=check
    )


def repository(folder: Path, states: Sequence[str]) -> list[str]:
    """A repository in `folder` with one commit a state; their hashes, the oldest first."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "server.py").write_text(SERVER)
    (folder / "build.sh").write_text(BUILD)
    hashes = []
    for number, state in enumerate(states):
        (folder / "state").write_text(f"{state} {number}\n")
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", f"Change {number}")
        hashes.append(git(folder, "rev-parse", "HEAD").stdout.strip())
    return hashes


def launch() -> str:
    """The --launch of the repository's server."""
    return f"{sys.executable} server.py {{port}}"
