"""The sentences that page, summary and terminal share, so that a run is described once.

A run without a failure is right-censored: it says what failure rate is still possible, never
that the rate is zero. A value that nobody observed has words of its own and is never a number.
"""

import math

from kvstress.core.exchange import Exchange
from kvstress.core.manifest import Manifest
from kvstress.core.units import show_duration, show_tokens
from kvstress.core.verdict import Finding, FirstFailure, Judgement, PoolFill, Verdict
from kvstress.report.hostile import line

NOT_EXPORTED = "not exported"
NOT_REPORTED = "not reported"

_EXIT = {
    Verdict.PASS: "Exit code 0: no failure, and the run reached what it had to.",
    Verdict.FAIL: "Exit code 1: the server failed.",
    Verdict.INVALID: "Exit code 125: not a pass. The run never reached the state that the workload is about.",
    Verdict.INCONCLUSIVE: "Exit code 125: not a pass. What was seen is not enough to judge by.",
}

_HOW = {
    "measured-eviction": "measured: an eviction or preemption counter rose",
    "measured-level": "measured: from the pool's own levels",
    "derived": "derived: tokens sent against capacity, and a resend that missed",
    "unknown": "cannot be told on this server",
}

EMBEDDED = "Embedded reference server: this says nothing about a real engine."


def exit_meaning(judgement: Judgement) -> str:
    """What the process' exit code says, in a sentence."""
    if judgement.stopped == "interrupted":
        return "Exit code 130: interrupted. The verdict covers what had been seen by then."
    return _EXIT[judgement.verdict]


def percent(fraction: float) -> str:
    """A fraction 0–1 as a percentage, rounded down: a pool with one free token is not at 100 %."""
    tenths = math.floor(fraction * 1000 + 1e-9)
    return f"{tenths // 10} %" if tenths % 10 == 0 else f"{tenths / 10:.1f} %"


def bound(steps: int) -> str:
    """The 95 % upper bound of a failure rate after `steps` prompts without one, 1 − 0.05^(1/n), rounded up."""
    rate = 100 * -math.expm1(math.log(0.05) / steps)
    digits = max(0, 1 - math.floor(math.log10(rate)))
    return f"{math.ceil(rate * 10**digits - 1e-9) / 10**digits:.{digits}f} %"


def censored(steps: int | None) -> str:
    """What a run without a failure showed: the rate it leaves possible."""
    if not steps:
        return "no prompt was completed: nothing is known about failures"
    prompts = "prompt" if steps == 1 else "prompts"
    return f"no failure in {steps:,} {prompts}: below {bound(steps)} a prompt, 95 %"


def failure(first: FirstFailure) -> str:
    """Where the first failure was: `prompt 16, warm`, with session and turn where there are any."""
    place = f"prompt {first.step:,}" + (f", {line(first.phase, 40)}" if first.phase else "")
    if first.session is None:
        return place
    return f"{place} (session {line(first.session, 40)}, turn {first.turn if first.turn is not None else '?'})"


def fill(found: PoolFill | None) -> str:
    """Where the pool filled: `prompt 14`, or that it was not seen to fill."""
    return "not seen to fill" if found is None else f"prompt {found.step:,}"


def fill_how(found: PoolFill | None) -> str:
    """How the fill step is known."""
    return "no sample and no sum showed a full pool" if found is None else _HOW.get(found.how, line(found.how))


def deciding(judgement: Judgement) -> Finding | None:
    """The finding behind the first failure; without a failure, the gravest finding that is not a pass."""
    first = judgement.first_failure
    if first is None:
        grave = [f for f in judgement.findings if f.verdict > Verdict.PASS]
        return max(grave, key=lambda f: f.verdict, default=None)
    exact = [f for f in judgement.findings if f.signature == first.signature and f.step == first.step]
    there = [f for f in judgement.findings if f.verdict is Verdict.FAIL and f.step == first.step]
    return next(iter(exact + there), None)


def failing_request(judgement: Judgement) -> str | None:
    """The id of the request that failed first: the deciding finding's first evidence, else by step and phase."""
    first, finding = judgement.first_failure, deciding(judgement)
    if first is None:
        return None
    if finding is not None and finding.evidence:
        own = f"s{first.step}.{first.phase}"
        return own if own in finding.evidence else finding.evidence[0]
    return f"s{first.step}.{first.phase}" if first.phase else None


def result(exchange: Exchange) -> str:
    """A request's fate in three words: `ok`, `failed: HTTP 500`, `broken: reset`."""
    if exchange.outcome == "completed":
        return "ok"
    status = (
        f"HTTP {exchange.status}" if exchange.status is not None and exchange.status >= 400 else exchange.kind.value
    )
    return f"{exchange.outcome.value}: {status}"


def seconds(value: float | None, absent: str = "not measured") -> str:
    """Seconds for people; None in words."""
    return absent if value is None else show_duration(max(0.0, value))


def count(value: float | None, absent: str = NOT_EXPORTED) -> str:
    """A count with thousands separators; None in words, which is not 0."""
    return absent if value is None else show_tokens(value)


def target(manifest: Manifest) -> str:
    """Who was tested: the software if known, the model, the address."""
    seen = (manifest.target.software, manifest.target.model, manifest.target.url)
    return " · ".join(line(part, 120) for part in seen if part)
