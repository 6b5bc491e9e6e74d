"""A judgement as the two files that other programs read: verdict.json and findings.jsonl.

The bytes follow from the judgement alone (no time, no host, no path), so that judging a stored
run again can be checked with `cmp`.
"""

import json
from typing import Any

from kvstress.core.verdict import Finding, Judgement

SCHEMA_VERSION = 1


def verdict(judgement: Judgement) -> dict[str, Any]:
    """verdict.json as JSON values, which is also what `--json` prints."""
    first, fill = judgement.first_failure, judgement.pool_fill
    return {
        "schema_version": SCHEMA_VERSION,
        "verdict": judgement.verdict.name,
        "why": judgement.why,
        "stopped": judgement.stopped,
        "steps": judgement.steps,
        "first_failure": {
            "step": first.step,
            "phase": first.phase,
            "signature": first.signature,
            "session": first.session,
            "turn": first.turn,
        }
        if first
        else None,
        "censored_at": judgement.censored_at,
        "pool_fill": {"step": fill.step, "how": fill.how} if fill else None,
        "coverage": dict(judgement.coverage),
        "findings": [_short(finding) for finding in judgement.findings],
        "requests": dict(judgement.requests),
    }


def verdict_json(judgement: Judgement) -> bytes:
    """The content of verdict.json."""
    return _json(verdict(judgement), indent=2)


def findings_jsonl(judgement: Judgement) -> bytes:
    """The content of findings.jsonl: one finding a line, with its evidence."""
    return b"".join(_json(_long(finding)) for finding in judgement.findings)


def _short(finding: Finding) -> dict[str, Any]:
    return {
        "oracle": finding.oracle,
        "verdict": finding.verdict.name,
        "signature": finding.signature,
        "step": finding.step,
        "summary": finding.summary,
    }


def _long(finding: Finding) -> dict[str, Any]:
    return _short(finding) | {
        "phase": finding.phase,
        "measured": finding.measured,
        "limit": finding.limit,
        "evidence": list(finding.evidence),
    }


def _json(value: Any, indent: int | None = None) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=indent) + "\n").encode("utf-8", "replace")
