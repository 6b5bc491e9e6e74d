"""Each engine in a virtual environment of its own outside the tree, made once and kept.

Engines pin each other's dependencies away, so none can share an environment with kvstress. A folder's name carries a
digest of what was installed into it: a new version gets a new folder, and an installation that was cut off, which
lacks the stamp written last, is made again.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

_HERE = Path(__file__).parent
_INSTALL, _MAKE = 1_800.0, 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What an engine's environment holds: packages, packages that must go again, and scripts that make its models.

    `own` are packages of this folder; a change to one of their files makes a new environment. `makes` maps a file or
    folder in the environment to the words after `python` that make it; `{here}` is this folder, `{made}` what is made.
    """

    name: str
    version: str
    packages: tuple[str, ...]
    unwanted: tuple[str, ...] = ()
    makes: tuple[tuple[str, tuple[str, ...]], ...] = ()
    own: tuple[str, ...] = ()


class NotInstalledError(Exception):
    """The engine cannot be installed here; the message is pip's last line."""


def cache() -> Path:
    """Where the environments are kept: `KVSTRESS_LIVE_CACHE`, else the user's cache folder."""
    named = os.environ.get("KVSTRESS_LIVE_CACHE")
    return (
        Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "kvstress" / "live"
    )


def environment(recipe: Recipe) -> Path:
    """The engine's environment, made if need be. Raises NotInstalledError."""
    digest = sha256(repr(recipe).encode() + _content(recipe.own)).hexdigest()[:8]
    folder = cache() / f"{recipe.name}-{recipe.version}-{digest}"
    stamp = folder / "complete"
    if not stamp.exists():
        shutil.rmtree(folder, ignore_errors=True)
        print(f"installing {recipe.name} {recipe.version} into {folder} (once) …", flush=True)
        _install(recipe, folder)
        stamp.touch()
    return folder


def _content(packages: tuple[str, ...]) -> bytes:
    files = sorted(file for name in packages for file in (_HERE / name).rglob("*.py"))
    return b"".join(file.read_bytes() for file in files)


def _install(recipe: Recipe, folder: Path) -> None:
    _run(recipe, _INSTALL, sys.executable, "-m", "venv", str(folder))
    python = str(folder / "bin" / "python")
    pip = (python, "-m", "pip", "--disable-pip-version-check", "--quiet")
    _run(recipe, _INSTALL, *pip, "install", *recipe.packages)
    if recipe.unwanted:
        _run(recipe, _INSTALL, *pip, "uninstall", "--yes", *recipe.unwanted)
    for name in recipe.own:
        copy = folder / name
        # Building beside the sources would leave files in the tree.
        shutil.copytree(_HERE / name, copy)
        _run(recipe, _INSTALL, *pip, "install", "--no-deps", "--no-build-isolation", str(copy))
    for made, words in recipe.makes:
        filled = [word.format(here=_HERE, made=folder / made) for word in words]
        _run(recipe, _MAKE, python, *filled)


def _run(recipe: Recipe, limit: float, *command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise NotInstalledError(f"{recipe.name} {recipe.version}: {problem}") from problem
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        raise NotInstalledError(f"{recipe.name} {recipe.version}: exit {done.returncode}: {last[:300]}")
