"""The run as JUnit XML: one test case a prompt, so that a CI page names the prompt that failed.

XML has no way to write most control characters, not even as references, so hostile text is
spelt out before it is escaped. Whether a prompt failed is the judge's word alone: an error
that the oracles allowed is not a failure here either.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from xml.sax.saxutils import escape, quoteattr

from kvstress.core.events import Event, StepEnded, StepStarted
from kvstress.core.manifest import Manifest
from kvstress.core.verdict import Finding, Judgement, Verdict
from kvstress.report.hostile import line, tame

# A label and, once the step has ended, its seconds.
Steps = dict[int, tuple[str, float | None]]


def junit(manifest: Manifest, judgement: Judgement, events: Iterable[Event]) -> str:
    """One case a step, and one for the verdict where no step carries it."""
    steps = _steps(events)
    failures = _failures(judgement.findings)
    for step in failures:
        steps.setdefault(step, ("", None))
    suite = line(manifest.workload, 80)
    # A step that never ended failed nothing, unless the judge says so: the run was killed in it.
    skipped = sum(1 for step, (_, seconds) in steps.items() if seconds is None and step not in failures)
    cases = [_case(suite, step, *steps[step], failures.get(step, ())) for step in sorted(steps)]
    whole, failed, errors = _whole(suite, judgement, bool(failures))
    counts = (
        f'tests="{len(cases) + len(whole)}" failures="{len(failures) + failed}" errors="{errors}" skipped="{skipped}" '
        f'time="{sum(seconds or 0.0 for _, seconds in steps.values()):.3f}"'
    )
    head = f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites {counts}>\n<testsuite name={_attribute(suite)} '
    opening = f"{head}timestamp={_attribute(manifest.started)} {counts}>"
    return "\n".join([opening, _properties(manifest), *cases, *whole, "</testsuite>", "</testsuites>", ""])


def _attribute(text: str) -> str:
    return quoteattr(line(text, 400))


def _steps(events: Iterable[Event]) -> Steps:
    steps: Steps = {}
    for event in events:
        if isinstance(event, StepStarted):
            steps[event.step] = (event.label, None)
        elif isinstance(event, StepEnded):
            steps[event.step] = (event.label, event.seconds)
    return steps


def _failures(findings: Sequence[Finding]) -> Mapping[int, list[Finding]]:
    by_step: defaultdict[int, list[Finding]] = defaultdict(list)
    for finding in findings:
        if finding.verdict is Verdict.FAIL and finding.step is not None:
            by_step[finding.step].append(finding)
    return by_step


def _case(suite: str, step: int, label: str, seconds: float | None, found: Sequence[Finding]) -> str:
    name = f"prompt {step} {label}".strip()
    opening = f'<testcase classname={_attribute(suite)} name={_attribute(name)} time="{seconds or 0.0:.3f}"'
    if found:
        words = "\n".join(f"{f.oracle}: {f.summary}\n{f.signature}" for f in found[:20])
        return f"{opening}>{_verdict('failure', found[0].summary, words)}</testcase>"
    return f'{opening}><skipped message="the run ended in it"/></testcase>' if seconds is None else f"{opening}/>"


def _whole(suite: str, judgement: Judgement, carried: bool) -> tuple[list[str], int, int]:
    """The verdict's own case, with how many failures and errors it adds."""
    if judgement.verdict is Verdict.FAIL and carried:
        return [], 0, 0
    opening = f'<testcase classname={_attribute(suite)} name="verdict" time="0"'
    if judgement.verdict is Verdict.PASS:
        return [f"{opening}/>"], 0, 0
    failed = judgement.verdict is Verdict.FAIL
    body = _verdict("failure" if failed else "error", f"{judgement.verdict.name}: {judgement.why}", judgement.why)
    return [f"{opening}>{body}</testcase>"], int(failed), int(not failed)


def _verdict(tag: str, message: str, words: str) -> str:
    return f"<{tag} message={_attribute(message)}>{escape(tame(words))}</{tag}>"


def _properties(manifest: Manifest) -> str:
    target = manifest.target
    values = {
        "server": target.url,
        "model": target.model or "not given",
        "embedded reference server": "yes" if target.embedded else "no",
        "stand-in prompts": "yes" if manifest.stand_in else "no",
        "plan digest": manifest.plan_digest,
        "commit": manifest.commit or "not given",
        "command": manifest.command,
    }
    inner = "".join(f"<property name={_attribute(name)} value={_attribute(value)}/>" for name, value in values.items())
    return f"<properties>{inner}</properties>"
