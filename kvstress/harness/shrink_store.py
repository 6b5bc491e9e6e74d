"""What a search leaves: shrink.json to go on from, and the best reproducer so far in three forms.

repro.json is for kvstress, repro.py for whoever has only Python, ISSUE.md for the one who mends the server. A text that
came from somebody's data is in none of them unless that was asked for.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from kvstress.core.case import Case
from kvstress.core.errors import CannotJudgeError, UsageError
from kvstress.core.repro import Failure, Reproducer
from kvstress.core.sample import Sample
from kvstress.harness.options import RunOptions
from kvstress.report import issue, standalone
from kvstress.search.keeper import Keeper, Shows
from kvstress.store import disk, repro
from kvstress.store.rundir import read_events

if TYPE_CHECKING:
    from kvstress.harness.shrink import Search
    from kvstress.harness.shrink_probe import Prober, Stored

FILE, SCRIPT, ISSUE = "shrink.json", "repro.py", "ISSUE.md"


def identity(options: RunOptions, knob: str | None, reset: str | None, case: Case, failure: Failure) -> str:
    """A digest of what decides a probe's outcome; it shows nothing of the command."""
    how = options.launching
    decides = [
        options.launch, options.server, knob, reset, dict(how.env), str(how.cwd), case.digest(), failure.signature,
        options.timeout, options.time_scale, options.model,
    ]  # fmt: skip
    return sha256(json.dumps(decides, sort_keys=True, default=str).encode()).hexdigest()


def known(folder: Path, expected: str) -> "tuple[Stored, ...]":
    """The probes of an earlier call. UsageError when another search is stored there."""
    from kvstress.harness.shrink_probe import Stored

    path = folder / FILE
    if not path.exists():
        return ()
    try:
        stored = msgspec.json.decode(path.read_bytes())
        probes = msgspec.convert(stored["probes"], tuple[Stored, ...])
        whose = str(stored["identity"])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, KeyError, TypeError) as problem:
        raise CannotJudgeError(
            f"{path} cannot be read ({problem}): restore it, or begin again with --overwrite"
        ) from problem
    if whose != expected:
        raise UsageError(f"{folder} holds another search: choose another --out, or replace it with --overwrite")
    return probes


def write(search: "Search", probes: "Sequence[Stored]") -> None:
    """Write shrink.json anew."""
    with disk.writing(search.folder, "create"):
        search.folder.mkdir(parents=True, exist_ok=True)
    content = {"schema_version": 1, "identity": search.identity, "run": search.facts.run, "probes": list(probes)}
    disk.replace(search.folder / FILE, msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")


def keep(search: "Search", prober: "Prober", keeper: Keeper, case: Case) -> None:
    """Write the reproducer of `case` in its three forms."""
    digest = case.digest()
    failing = [one for one in prober.made if one.shows is Shows.SAME and one.cut == digest]
    sample = _last_sample(search.folder / "probes" / failing[-1].run) if failing else None
    failed, probes = keeper.tally(case)
    failure = search.found.failure
    failure = replace(failure, also=tuple(sorted(prober.signatures - {failure.signature})))
    found = _reproducer(search, case, failure, (failed, probes, prober.launches), sample)
    disk.replace(search.folder / repro.FILE, repro.text(found))
    disk.replace(search.folder / SCRIPT, standalone.script(repro.built(found)).encode())
    table = [(one.run, one.at, one.why) for one in failing]
    disk.replace(search.folder / ISSUE, issue.markdown(found, table, sample).encode("utf-8", "replace"))


def _reproducer(
    search: "Search", case: Case, failure: Failure, counted: tuple[int, int, int], sample: Sample | None
) -> Reproducer:
    used = case.used()
    hidden = search.found.private and not search.asked.keep_text
    withheld = tuple(name for name, text in used.items() if hidden and text.words is not None)
    capacity = sample.kv_capacity if sample else None
    return Reproducer(
        failure=failure,
        facts=replace(search.facts, value=search.value(case), capacity=capacity),
        case=replace(case, texts={name: text for name, text in used.items() if name not in withheld}),
        failed=counted[0],
        probes=counted[1],
        before=search.case.size(),
        after=case.size(),
        launches=counted[2],
        withheld=withheld,
    )


def _last_sample(run: Path) -> Sample | None:
    samples = (event for event in read_events(run) if isinstance(event, Sample) and event.problem is None)
    last = None
    for sample in samples:
        last = sample
    return last
