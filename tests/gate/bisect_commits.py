"""`make bisect-commits`: a bisection over 32 commits, one of which took the fix out, with every probe timed.

One commit does not build and one's server ends at once, away from the planted one, as histories are.
"""

import re
import shlex
import sys
import tempfile
import time
from pathlib import Path

from tests.gate.repository import QUICK, git, launch, repository

COMMITS = 32


# Where git looks first: a commit that does not build, and one whose server ends at once.
ODD = {16: "unbuildable", 20: "dead"}


def states(planted: int) -> list[str]:
    """What each commit is; 0 is the one known to be good, the last the one known to be bad."""
    # Beside the planted commit, nobody could tell which of the two it was.
    odd = {number: state for number, state in ODD.items() if number not in (planted - 1, planted, COMMITS)}
    return [odd.get(number, "good" if number < planted else "bad") for number in range(COMMITS + 1)]


def main(planted: int) -> int:
    """Plant, bisect, print each probe; 0 when the planted commit was found."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "engine"
        hashes = repository(folder, states(planted))
        git(folder, "bisect", "start", hashes[-1], hashes[0])
        words = [
            "--out",
            str(Path(temporary) / "gate"),
            "--build",
            "sh build.sh",
            "--launch",
            launch(),
            *shlex.split(QUICK),
        ]
        began = time.perf_counter()
        done = git(folder, "bisect", "run", "kvstress", "gate", "--git-bisect", *words, check=False)
        seconds = time.perf_counter() - began
        log = git(folder, "bisect", "log").stdout
    probes = re.findall(r"^git bisect (good|bad|skip) ([0-9a-f]{40})", log, re.M)
    for verdict, commit in probes:
        print(f"change {hashes.index(commit):>2}: {verdict}")
    found = re.search(r"^([0-9a-f]{40}) is the first bad commit", done.stdout, re.M)
    right = found is not None and found[1] == hashes[planted]
    skipped = sum(verdict == "skip" for verdict, _ in probes)
    print(f"planted {planted}: {'found' if right else 'NOT FOUND'} among {COMMITS} commits")
    print(f"{len(probes) - skipped} probes and {skipped} skipped, {seconds:.1f} s")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(max(main(int(word)) for word in sys.argv[1:] or ["23"]))
