"""The run as JUnit XML: one test case a prompt, so that a CI page names the prompt that failed.

XML has no way to write most control characters, not even as references, so hostile text is
spelt out before it is escaped. Whether a prompt failed is the judge's word alone: an error
that the oracles allowed is not a failure here either.
"""

from array import array
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape, quoteattr

from kvstress.core.events import Event, StepEnded, StepStarted
from kvstress.core.manifest import Manifest
from kvstress.core.verdict import Finding, Judgement, Verdict
from kvstress.report.hostile import line, tame

# A label and, once the step has ended, its seconds.
Steps = dict[int, tuple[str, float | None]]

# No CI page shows a million cases, and reading them costs the memory of a million.
MOST_CASES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """One `<testsuite>`: its cases as XML and how many are what. `started` is ISO 8601, `seconds` all its time."""

    name: str
    started: str
    cases: tuple[str, ...]
    failures: int = 0
    errors: int = 0
    skipped: int = 0
    seconds: float = 0.0
    properties: Mapping[str, str] = field(default_factory=dict)


def junit(manifest: Manifest, judgement: Judgement, events: Iterable[Event]) -> str:
    """One case a step, and one for the verdict where no step carries it."""
    return document([run_suite(line(manifest.workload, 80), manifest, judgement, events)])


def document(suites: Sequence[Suite]) -> str:
    """`suites` as one JUnit file."""
    whole = _counts(suites)
    opening = f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites {whole}>'
    return "\n".join([opening, *map(_suite, suites), "</testsuites>", ""])


def run_suite(
    name: str, manifest: Manifest, judgement: Judgement, events: Iterable[Event], *, known: bool = False
) -> Suite:
    """The suite of a run; `known` failures are skipped cases: the baseline has them too, and the gate holds."""
    failures = _failures(judgement.findings)
    steps, unlisted = _steps(events, failures)
    for step in failures:
        steps.setdefault(step, ("", None))
    # A step that never ended failed nothing, unless the judge says so: the run was killed in it.
    skipped = sum(1 for step, (_, seconds) in steps.items() if seconds is None and step not in failures)
    cases = [_case(name, step, *steps[step], failures.get(step, ()), known) for step in sorted(steps)]
    whole, failed, errors = _whole(name, judgement, bool(failures), known)
    return Suite(
        name=name,
        started=manifest.started,
        cases=(*cases, *whole),
        failures=0 if known else len(failures) + failed,
        errors=errors,
        skipped=skipped + (len(failures) + failed if known else 0),
        seconds=sum((seconds or 0.0 for _, seconds in steps.values()), start=sum(unlisted)),
        properties=_facts(manifest) | _left_off(len(unlisted)),
    )


def _counts(suites: Sequence[Suite]) -> str:
    totals = {
        "tests": sum(len(suite.cases) for suite in suites),
        "failures": sum(suite.failures for suite in suites),
        "errors": sum(suite.errors for suite in suites),
        "skipped": sum(suite.skipped for suite in suites),
    }
    counted = " ".join(f'{name}="{count}"' for name, count in totals.items())
    return f'{counted} time="{sum(suite.seconds for suite in suites):.3f}"'


def _suite(suite: Suite) -> str:
    values = suite.properties.items()
    inner = "".join(f"<property name={_attribute(name)} value={_attribute(value)}/>" for name, value in values)
    opening = f"<testsuite name={_attribute(suite.name)} timestamp={_attribute(suite.started)} {_counts([suite])}>"
    return "\n".join([opening, f"<properties>{inner}</properties>", *suite.cases, "</testsuite>"])


def _attribute(text: str) -> str:
    return quoteattr(line(text, 400))


def _steps(events: Iterable[Event], failures: Container[int]) -> tuple[Steps, "array[float]"]:
    """The steps to list: the first ones, and all with failures; and the seconds of the others."""
    steps: Steps = {}
    unlisted = array("d")
    for event in events:
        if isinstance(event, StepStarted) and (len(steps) < MOST_CASES or event.step in failures):
            steps[event.step] = (event.label, None)
        elif isinstance(event, StepEnded):
            if event.step in steps or len(steps) < MOST_CASES or event.step in failures:
                steps[event.step] = (event.label, event.seconds)
            else:
                unlisted.append(event.seconds)
    return steps, unlisted


def _left_off(count: int) -> dict[str, str]:
    return {"prompts not listed": f"{count:,}, none of which failed"} if count else {}


def _failures(findings: Sequence[Finding]) -> Mapping[int, list[Finding]]:
    by_step: defaultdict[int, list[Finding]] = defaultdict(list)
    for finding in findings:
        if finding.verdict is Verdict.FAIL and finding.step is not None:
            by_step[finding.step].append(finding)
    return by_step


def _case(suite: str, step: int, label: str, seconds: float | None, found: Sequence[Finding], known: bool) -> str:
    name = f"prompt {step} {label}".strip()
    if found:
        words = "\n".join(f"{f.oracle}: {f.summary}\n{f.signature}" for f in found[:20])
        return case(suite, name, _failed(found[0].summary, words, known), seconds or 0.0)
    return case(suite, name, '<skipped message="the run ended in it"/>' if seconds is None else "", seconds or 0.0)


def _whole(suite: str, judgement: Judgement, carried: bool, known: bool) -> tuple[list[str], int, int]:
    """The verdict's own case, with how many failures and errors it adds."""
    if judgement.verdict is Verdict.FAIL and carried:
        return [], 0, 0
    if judgement.verdict is Verdict.PASS:
        return [case(suite, "verdict")], 0, 0
    message = f"{judgement.verdict.name}: {judgement.why}"
    if judgement.verdict is Verdict.FAIL:
        return [case(suite, "verdict", _failed(message, judgement.why, known))], 1, 0
    return [case(suite, "verdict", outcome("error", message, judgement.why))], 0, 1


def _failed(message: str, words: str, known: bool) -> str:
    return (
        outcome("skipped", f"known, the baseline has it too: {message}")
        if known
        else outcome("failure", message, words)
    )


def case(suite: str, name: str, inside: str = "", seconds: float = 0.0) -> str:
    """One `<testcase>` around the XML `inside`."""
    opening = f'<testcase classname={_attribute(suite)} name={_attribute(name)} time="{seconds:.3f}"'
    return f"{opening}>{inside}</testcase>" if inside else f"{opening}/>"


def outcome(tag: str, message: str, words: str = "") -> str:
    """What is inside a case that is not green: `tag` failure, error or skipped."""
    return f"<{tag} message={_attribute(message)}>{escape(tame(words))}</{tag}>"


def _facts(manifest: Manifest) -> dict[str, str]:
    target = manifest.target
    return {
        "server": target.url,
        "model": target.model or "not given",
        "embedded reference server": "yes" if target.embedded else "no",
        "stand-in prompts": "yes" if manifest.stand_in else "no",
        "plan digest": manifest.plan_digest,
        "commit": manifest.commit or "not given",
        "command": manifest.command,
    }
