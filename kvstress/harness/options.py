"""What the person asked of `kvstress run`, parsed but not yet looked at.

Header values are kept out of `repr` and out of the command that a report shows: a key typed
on the command line must not end in a file.
"""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from kvstress.core.errors import UsageError
from kvstress.core.record import Record
from kvstress.harness.launching import Launching
from kvstress.launch.command import quoted

REFERENCE = "reference"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of one run; None means "not given", so that the workload's own value holds."""

    server: str | None = field(default=None, repr=False)
    launch: str | None = field(default=None, repr=False)
    twin: str | None = field(default=None, repr=False)
    twin_launch: str | None = field(default=None, repr=False)
    workload: str
    model: str | None = None
    out: Path | None = None
    overwrite: bool = False
    max_steps: int | None = None
    max_duration: float | None = None
    keep_going: bool = False
    seed: int = 0
    settings: Mapping[str, str] = field(default_factory=dict)
    data: Path | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    api_key_env: str | None = None
    ca_file: Path | None = None
    timeout: float = 900.0
    stream: bool | None = None
    scrape_interval: float = 2.0
    dialect: str | None = None
    asides: bool = True
    resume: bool = False
    record: Record = Record.TEXT
    commit: str | None = None
    hardware: str | None = None
    trust_env: bool = False
    ready_timeout: float = 600.0
    time_scale: float = 1.0
    workers: int = 1
    launching: Launching = field(default_factory=Launching)

    def __post_init__(self) -> None:
        named = [name for name in (self.server, self.launch) if name]
        if len(named) != 1:
            problem = "no server named" if not named else "both --server and --launch given"
            raise UsageError(f"{problem}: {_THREE_WAYS}")
        self._check_launching()
        if self.twin_launch and "{port}" not in self.twin_launch:
            raise UsageError("--twin-launch needs a {port} in its command, where the twin's own port goes")
        if self.resume and self.out is None:
            raise UsageError("--resume needs --out, the directory of the run to continue")
        spans = {
            "--timeout": self.timeout,
            "--ready-timeout": self.ready_timeout,
            "--scrape-interval": self.scrape_interval,
            "--time-scale": self.time_scale,
        }
        wrong = next((name for name, value in spans.items() if not value > 0), None)
        if wrong:
            raise UsageError(f"{wrong} must be above 0")

    def _check_launching(self) -> None:
        """What only a server that kvstress starts can take must not be dropped without a word."""
        how = self.launching
        given = {
            "--env": how.env,
            "--cwd": how.cwd,
            "--stop": how.stop,
            "--log-file": how.log_file,
            "--log-pattern": how.patterns,
            "--on-failure": how.on_failure,
            "--hold": how.hold,
        }
        idle = next((flag for flag, value in given.items() if value), None)
        if idle and self.server and self.reference_args is None:
            raise UsageError(
                f"{idle} is about a server that kvstress starts (--launch); the one at --server runs already"
            )

    @property
    def reference_args(self) -> list[str] | None:
        """Arguments for the embedded server ("reference --memory-limit 50G"), None for any other server."""
        try:
            words = shlex.split(self.server) if self.server else []
        except ValueError as problem:
            raise UsageError(f"--server: cannot be read as a command ({str(problem).lower()})") from problem
        return words[1:] if words and words[0] == REFERENCE else None


_THREE_WAYS = (
    "say --server URL for one that runs, --launch 'COMMAND --port {port}' to have kvstress start one, "
    "or --server reference for the embedded server"
)


def shown_url(url: str) -> str:
    """`url` without user information, query and fragment: what may be printed and stored."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


# By the last word of a flag's or a variable's name: --max-num-batched-tokens and --tokenizer hold no secret.
_SECRET = re.compile(
    r"(?i)(?:^|[-_])(?:api-?key|key|token|secret|passw(?:or)?d|credentials?|auth(?:orization)?|bearer)$"
)
_IN_WORDS = (
    (re.compile(r"(?i)^([\w-]*(?:authorization|cookie|key|token|secret)\s*:\s*).+", re.DOTALL), r"\1***"),
    (re.compile(r"(?i)(\b(?:bearer|basic)\s+)\S+"), r"\1***"),
    (re.compile(r"(://)[^/@\s]+@"), r"\1***@"),
)


def shown_launch(command: str) -> str:
    """A launch command with what is named like a secret, and what looks like a header that holds one, as `***`."""
    shown: list[str] = []
    hide_next = False
    for word in shlex.split(command):
        name, sign, _ = word.partition("=")
        secret = _SECRET.search(name) is not None and (name.startswith("-") or name.isupper())
        shown.append("***" if hide_next else f"{name}=***" if secret and sign else _concealed(word))
        hide_next = secret and not sign and not hide_next
    return " ".join(map(quoted, shown))


def _concealed(word: str) -> str:
    for pattern, instead in _IN_WORDS:
        word = pattern.sub(instead, word)
    return word


def shown_command(options: RunOptions) -> str:
    """The command that repeats this run; header values are replaced by `***`."""
    words = ["kvstress", "run"]
    if options.server:
        words += ["--server", options.server if options.reference_args is not None else shown_url(options.server)]
    if options.twin and not options.twin_launch:
        words += ["--twin", shown_url(options.twin)]
    if options.twin_launch:
        words += ["--twin-launch", shown_launch(options.twin_launch)]
    if options.launch:
        words += ["--launch", shown_launch(options.launch)]
    words += ["--workload", options.workload, "--seed", str(options.seed)]
    for flag, value in _given(options):
        words += [flag] if value is None else [flag, value]
    return shlex.join(words)


def _given(options: RunOptions) -> list[tuple[str, str | None]]:
    """Flags that were given, in the order of the help page; None marks a flag without a value."""
    pairs: list[tuple[str, str | None]] = [("--set", f"{key}={value}") for key, value in options.settings.items()]
    pairs += [("--header", f"{name}: ***") for name in options.headers]
    valued = {
        "--model": options.model,
        "--max-steps": options.max_steps,
        "--max-duration": options.max_duration,
        "--data": options.data,
        "--api-key-env": options.api_key_env,
        "--ca-file": options.ca_file,
        "--dialect": options.dialect,
        "--workers": None if options.workers == 1 else options.workers,
        "--time-scale": None if options.time_scale == 1.0 else options.time_scale,
    }
    pairs += [(flag, str(value)) for flag, value in valued.items() if value is not None]
    if options.stream is not None:
        pairs.append(("--stream" if options.stream else "--no-stream", None))
    if options.keep_going:
        pairs.append(("--keep-going", None))
    if not options.asides:
        pairs.append(("--no-asides", None))
    return pairs
