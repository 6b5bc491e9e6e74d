"""Everything about a run that can be known, and refused, before a server is touched."""

import os
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from kvstress import __version__
from kvstress.client.address import address
from kvstress.core.errors import UsageError
from kvstress.core.manifest import Manifest, Target
from kvstress.core.plan import Plan
from kvstress.core.sizing import ASSUMED, Sizing
from kvstress.gate.sentence import of_workload
from kvstress.harness import inputs
from kvstress.harness.options import RunOptions, shown_command
from kvstress.harness.target import target
from kvstress.metrics.dialects import named
from kvstress.oracles.judge import ORACLES
from kvstress.workload import build
from kvstress.workload.content import Data
from kvstress.workload.sources import Trace
from kvstress.workload.spec import Spec, override, parse


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A workload read and its data loaded, with a draft plan whose prompts are not yet sized.

    `fixed` makes a plan whose bodies are known already, for the model of the server; nothing is then measured first,
    and `sends_done` says what a healthy stream ends with. `pages` is False where only the judgement is wanted.
    """

    options: RunOptions
    spec: Spec
    data: Data | None
    plan: Plan
    path: Path
    started: str
    restarts_of: str | None = None
    fixed: Callable[[str | None], Plan] | None = None
    sends_done: bool | None = None
    pages: bool = True
    command: str | None = None

    @property
    def ends_at_refusal(self) -> bool:
        """True for workloads that look for the first prompt that does not fit."""
        return self.spec.stop.on_refusal

    @property
    def streams(self) -> bool:
        """True when any of the workload's requests is streamed."""
        return bool(self.plan.parameters["stream"]) or any(phase.stream for phase in self.spec.phases)

    @property
    def probes(self) -> bool:
        """False when bodies are known byte for byte, and there is no stream to learn the ending of."""
        return self.fixed is None and (self.data is None or self.streams)

    @property
    def tells(self) -> bool:
        """True when prompts carry planted facts."""
        return self.data is None and bool(getattr(self.spec.source, "facts", False))

    def plan_for(self, model: str | None, sizing: Sizing) -> Plan:
        """The plan in the server's own tokens; its digest is the draft's."""
        if self.fixed is not None:
            return self.fixed(model)
        return build.plan(
            self.spec, seed=self.options.seed, model=model, stream=self.options.stream, sizing=sizing, data=self.data
        )


def prepare(options: RunOptions) -> Prepared:
    """Read workload and data. Raises UsageError naming the file, the key or the row."""
    _check_key(options)
    _check_target(options)
    text, origin = inputs.workload_text(options.workload)
    spec = override(parse(text, origin), settings(options))
    _check_oracles(spec)
    of_workload(spec.gate)
    data = _data(options, spec)
    draft = build.plan(spec, seed=options.seed, model=options.model, stream=options.stream, sizing=ASSUMED, data=data)
    now = datetime.now(UTC)
    path = options.out or Path("reports") / "runs" / f"{draft.workload}-{now:%Y%m%d-%H%M%S}"
    return Prepared(
        options=options, spec=spec, data=data, plan=draft, path=path, started=now.isoformat(timespec="seconds")
    )


def settings(options: RunOptions) -> dict[str, str]:
    """`--set` pairs with the flags that are short for one of them."""
    given = dict(options.settings)
    if options.max_steps is not None:
        given["stop.max_steps"] = str(options.max_steps)
    if options.max_duration is not None:
        given["stop.max_duration"] = f"{options.max_duration}s"
    return given


def _check_target(options: RunOptions) -> None:
    """What would only be found out when the server is reached, which may be minutes after it was launched."""
    if options.twin and options.twin_launch:
        raise UsageError("both --twin and --twin-launch given: one twin is enough")
    if options.dialect is not None:
        named(options.dialect)
    if options.ca_file is not None and not options.ca_file.is_file():
        raise UsageError(f"--ca-file {options.ca_file}: no such file")
    if options.server and options.reference_args is None:
        address(options.server, options.headers)


def _check_oracles(spec: Spec) -> None:
    known = [name for name, _ in ORACLES]
    unknown = [name for name in spec.oracles.arm if name not in known]
    if unknown:
        raise UsageError(f"{spec.name}: oracles.arm: no oracle named {unknown[0]!r}; there are {', '.join(known)}")


def _check_key(options: RunOptions) -> None:
    name = options.api_key_env
    if name is not None and not os.environ.get(name):
        raise UsageError(f"--api-key-env {name}: that environment variable is not set")


def _data(options: RunOptions, spec: Spec) -> Data | None:
    if options.data is not None and not build.data_stems(spec):
        raise UsageError(f"--data was given, but workload {spec.name!r} reads no data files")
    folder = options.data
    if folder is None and isinstance(spec.source, Trace):
        folder = Path(options.workload).parent
    return None if folder is None else inputs.data_files(spec, folder)


def manifest(prepared: Prepared, plan: Plan, server: Target) -> Manifest:
    """The run's manifest; `server` may still be unknown in parts."""
    options = prepared.options
    return Manifest(
        run=prepared.path.name,
        started=prepared.started,
        workload=plan.workload,
        hunts=plan.hunts,
        plan_digest=plan.digest(),
        seed=plan.seed,
        parameters=plan.parameters,
        phases=plan.phases,
        lanes=plan.schedule.lanes,
        total_steps=plan.total_steps,
        max_steps=plan.limits.max_steps,
        max_duration=plan.limits.max_duration,
        keep_going=options.keep_going,
        content=plan.content,
        stand_in=plan.stand_in,
        sources=plan.sources,
        coverage=plan.coverage,
        oracles=plan.oracles,
        target=server,
        timeout=options.timeout,
        stream=bool(plan.parameters.get("stream", False)),
        scrape_interval=options.scrape_interval,
        asides=options.asides,
        versions=_versions(),
        host=_host(),
        commit=options.commit,
        hardware=options.hardware,
        command=prepared.command or shown_command(options),
        restarts_of=prepared.restarts_of,
        time_scale=options.time_scale,
    )


def draft_manifest(prepared: Prepared) -> Manifest:
    """The manifest as far as the command line tells, for the moment before the first byte leaves."""
    options = prepared.options
    url = options.server if options.reference_args is None else None
    return manifest(prepared, prepared.plan, target(options, url, None))


def _versions() -> dict[str, str]:
    names = ("httpx", "httpx-aiohttp", "aiohttp", "uvloop", "msgspec")
    return {"kvstress": __version__, "python": platform.python_version(), **{name: version(name) for name in names}}


def _host() -> dict[str, str]:
    return {"system": platform.platform(), "cpus": str(os.cpu_count()), "argv0": Path(sys.argv[0]).name}
