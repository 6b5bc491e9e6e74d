"""Exit codes as `git bisect run` reads them: to git, our "wrong call" would mean that the commit is bad.

Git takes 1 to 127 for bad, but for 125, which skips the commit; from 128 on it stops. A mistyped flag exits
with 2 at every commit, so a bisection would blame an innocent one and never say why. Even `--git-bisect`
itself can be mistyped; hence a wrong call is 128 whenever a bisection is going on where we are called.
"""

from collections.abc import Sequence
from pathlib import Path

GIT_ABORTS = 128
_WRONG_CALL, _CANNOT_JUDGE = 2, 125


def code_for_git(code: str | int | None, argv: Sequence[str], *, fault: bool = False) -> str | int | None:
    """`code`, or 128 where git would misread it. `fault`: an error of ours ended the command, not its own verdict."""
    asked = "--git-bisect" in argv
    wrong = code == _WRONG_CALL and (asked or bisecting(Path.cwd()))
    return GIT_ABORTS if wrong or (fault and asked and code == _CANNOT_JUDGE) else code


def bisecting(folder: Path) -> bool:
    """Whether a bisection is going on in the git work tree that `folder` is in."""
    for parent in (folder, *folder.parents):
        found = parent / ".git"
        if found.is_file():
            # A linked work tree: the file names the directory that holds its state.
            named = found.read_text(encoding="utf-8", errors="replace").removeprefix("gitdir:").strip()
            found = parent / named
        if found.is_dir():
            return (found / "BISECT_LOG").exists()
    return False
