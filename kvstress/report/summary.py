"""The run in a dozen lines of Markdown, for the page that a CI system shows beside a job.

That page renders Markdown and HTML, so whatever a server said goes into a code block whose
fence is longer than any run of backticks inside it.
"""

import re
from collections.abc import Sequence

from kvstress.core.manifest import Manifest
from kvstress.core.rates import Rate
from kvstress.core.verdict import Judgement, Verdict
from kvstress.report import phrases, rates
from kvstress.report.hostile import line, tame

_SIGNS = {Verdict.PASS: "✅", Verdict.FAIL: "❌"}
WORDS_SHOWN = 1_000


def markdown(manifest: Manifest, judgement: Judgement, measured: Sequence[Rate] = ()) -> str:
    """Verdict, headline facts, rates where they were `measured`, the server's words and how to run it again."""
    first, full = judgement.first_failure, judgement.pool_fill
    rows = [
        ("first failure", phrases.failure(first) if first else phrases.censored(judgement.censored_at)),
        ("pool full", f"{phrases.fill(full)} ({phrases.fill_how(full)})"),
        ("prompts completed", f"{judgement.steps:,}"),
        ("coverage", _coverage(judgement)),
        ("server", phrases.target(manifest)),
        ("commit", line(manifest.commit or "not given", 80)),
    ]
    head = f"## {_SIGNS.get(judgement.verdict, '⚠️')} {judgement.verdict.name}: {escape(line(manifest.workload, 80))}"
    notes = [f"> {escape(text)}" for text in _notes(manifest)]
    table = ["| | |", "|---|---|", *(f"| {name} | {escape(value)} |" for name, value in rows)]
    parts = [
        head,
        escape(line(judgement.why, 600)),
        "\n>\n".join(notes),
        "\n".join(table),
        _rates(measured),
        _words(judgement),
    ]
    parts.append(f"Run it again:\n\n{fenced(manifest.command or 'the command was not recorded')}")
    return "\n\n".join(part for part in parts if part) + "\n"


def _notes(manifest: Manifest) -> list[str]:
    stand_in = f"Stand-in prompts: {line(manifest.content, 300)}."
    return [phrases.EMBEDDED] * manifest.target.embedded + [stand_in] * manifest.stand_in


def _rates(measured: Sequence[Rate]) -> str:
    if not measured:
        return ""
    cells = [rates.HEADS, ("---",) * len(rates.HEADS), *(tuple(map(escape, row)) for row in rates.rows(measured))]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells) + f"\n\n{rates.note()}"


def _coverage(judgement: Judgement) -> str:
    words = {True: "reached", False: "not reached", None: "not observable"}
    return ", ".join(f"{line(key, 40)} {words[seen]}" for key, seen in judgement.coverage.items()) or "none declared"


def _words(judgement: Judgement) -> str:
    finding = phrases.deciding(judgement)
    return "" if finding is None else fenced(finding.summary)


def fenced(text: str) -> str:
    """`text` as a code block that nothing inside can end."""
    shown = tame(text, WORDS_SHOWN)
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{shown}\n{fence}"


def escape(text: str) -> str:
    """One line of `text` with all that Markdown, HTML or a mention could act on made literal."""
    entities = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    literal = re.sub(r"([\\`*_{}\[\]#|!~$])", r"\\\1", entities)
    # A hyphen, a plus or a number with a dot makes a list only where a line begins.
    literal = re.sub(r"^\s*[-+=]", lambda start: start[0][:-1] + f"&#{ord(start[0][-1])};", literal)
    literal = re.sub(r"^(\s*\d+)([.)])", r"\1\\\2", literal)
    # An entity rather than a backslash for `@`: a mention is found even behind a backslash. `://` would become a link.
    return literal.replace("@", "&#64;").replace("://", ":&#47;&#47;")
