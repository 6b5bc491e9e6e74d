"""From what was seen to one verdict and one sentence that a person can act on.

Each reason not to pass is a candidate with its own verdict; the worst candidate wins and its
sentence is the `why`. A pass has to be earned: an answered request, a run that came to an end of its own,
every declared coverage key reached, and no finding.
"""

from collections.abc import Iterator

from kvstress.core.events import RunEnded, Stop
from kvstress.core.verdict import Finding, FirstFailure, Judgement, PoolFill, Verdict
from kvstress.oracles.needs import evidence_for

_UNREACHED = {
    "hit": "no prefix-cache hit was seen (is prefix caching on, and reported in usage or metrics?)",
    "full": "the KV pool never filled (send more steps, longer prompts, or lower the server's memory limit)",
    "evicted": "no eviction was seen (send more steps, or lower the server's memory limit)",
    "aborted": "no abort reached the server",
    "speculating": "no speculative decoding was seen",
    "tier": "no tier round trip was seen",
}
_UNOBSERVABLE = "whether it was is not observable here: nothing that this server reports or exports could tell"


def conclude(
    *,
    steps: int,
    worst_finding: Verdict,
    first: FirstFailure | None,
    fill: PoolFill | None,
    coverage: dict[str, bool | None],
    findings: tuple[Finding, ...],
    requests: dict[str, int],
    answered: int,
    ended: RunEnded | None,
) -> Judgement:
    """Assemble the judgement.

    `answered` counts step requests that completed or failed (a refusal judges nothing); a killed run has no `ended`.
    """
    reasons = [
        *_failures(worst_finding, findings),
        *(_unreached(coverage, ended) if answered else ()),
        *_cut_off(steps, ended),
        *_doubts(findings),
        *_nothing_judged(answered),
    ]
    # max() keeps the first of equals, so reasons stand in the order in which they matter to a reader.
    verdict, why = max(reasons, key=lambda reason: reason[0], default=(Verdict.PASS, _passed(steps, ended)))
    return Judgement(
        verdict=verdict,
        why=why,
        steps=steps,
        first_failure=first,
        censored_at=steps if first is None and steps else None,
        pool_fill=fill,
        coverage=coverage,
        findings=findings,
        requests=requests,
        stopped=None if ended is None else ended.stop.value,
    )


Reason = tuple[Verdict, str]


def _failures(worst_finding: Verdict, findings: tuple[Finding, ...]) -> Iterator[Reason]:
    if worst_finding is Verdict.FAIL:
        failed = [finding for finding in findings if finding.verdict is Verdict.FAIL]
        # A server that fails while it is sized usually fails at prompt 0 too, and that is what to look at.
        first = next((finding for finding in failed if finding.step is not None), failed[0])
        yield Verdict.FAIL, f"{_place(first)}{first.summary}{_aftermath(first, findings)}"


def _aftermath(first: Finding, findings: tuple[Finding, ...]) -> str:
    """Whether the server still answered afterwards; a dead one often says only then what it died of."""
    failed = (finding for finding in findings if finding.verdict is Verdict.FAIL and finding is not first)
    probe = next((finding for finding in failed if finding.phase == "health"), None)
    return "" if probe is None else f" [afterwards a short probe failed too: {probe.summary}]"


def _place(finding: Finding) -> str:
    if finding.step is None:
        return f"{finding.phase}: " if finding.phase else ""
    return f"prompt {finding.step}, {finding.phase}: " if finding.phase else f"prompt {finding.step}: "


def _nothing_judged(answered: int) -> Iterator[Reason]:
    if answered == 0:
        yield Verdict.INCONCLUSIVE, "no request of the workload was answered, so nothing was judged"


def _came_to_its_end(ended: RunEnded | None) -> bool:
    return ended is not None and ended.stop not in (Stop.INTERRUPTED, Stop.SERVER_GONE)


def _unreached(coverage: dict[str, bool | None], ended: RunEnded | None) -> Iterator[Reason]:
    """A run that was cut off had no chance to reach everything: that it was cut off says more."""
    missing = [key for key, reached in coverage.items() if not reached]
    if missing and _came_to_its_end(ended):
        words = "; ".join(f"{key}: {_why_unreached(key, coverage[key])}" for key in missing)
        yield Verdict.INVALID, f"no failure, but the run did not reach what its workload is about: {words}"


def _why_unreached(key: str, reached: bool | None) -> str:
    if reached is None:
        lacking = evidence_for(key)
        return f"{_UNOBSERVABLE} ({lacking})" if lacking else _UNOBSERVABLE
    return _UNREACHED.get(key, "not reached")


def _cut_off(steps: int, ended: RunEnded | None) -> Iterator[Reason]:
    if ended is None:
        yield Verdict.INCONCLUSIVE, f"the run was cut off after {_count(steps)}; no failure until then"
    elif not _came_to_its_end(ended):
        yield Verdict.INCONCLUSIVE, f"{ended.stop.value} after {_count(steps)}; no failure until then"


def _doubts(findings: tuple[Finding, ...]) -> Iterator[Reason]:
    doubtful = (finding for finding in findings if finding.verdict in (Verdict.INCONCLUSIVE, Verdict.INVALID))
    yield from ((finding.verdict, f"{_place(finding)}{finding.summary}") for finding in doubtful)


def _passed(steps: int, ended: RunEnded | None) -> str:
    detail = f" ({ended.detail})" if ended and ended.detail else ""
    return f"no failure in {_count(steps)}{detail}"


def _count(steps: int) -> str:
    return "1 step" if steps == 1 else f"{steps} steps"
