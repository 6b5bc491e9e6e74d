"""requests.csv: one row per request that left, sizing and asides included, whatever became of it.

The row is written when the answer ends. A request that never got one was in flight when the run
was killed: nobody knows what the server made of it, so its outcome is lost and its times are
empty.
"""

from collections.abc import Callable

from kvstress.core import latency
from kvstress.core.events import RequestSent
from kvstress.core.exchange import Exchange, Usage
from kvstress.core.outcome import OUTCOME_OF, Kind
from kvstress.store import cells

_Of = Callable[[RequestSent], str]
_From = Callable[[Exchange], str]

_SENT: tuple[tuple[str, _Of], ...] = (
    ("step", lambda sent: cells.number(sent.step)),
    ("phase", lambda sent: cells.text(sent.phase)),
    ("session", lambda sent: cells.text(sent.session)),
    ("turn", lambda sent: cells.number(sent.turn)),
    ("origin", lambda sent: sent.origin.value),
    ("endpoint", lambda sent: cells.text(sent.endpoint)),
    ("expect", lambda sent: sent.expect.value),
    ("stream", lambda sent: "true" if sent.stream else "false"),
    ("planned_tokens", lambda sent: cells.number(sent.tokens)),
    ("max_tokens", lambda sent: cells.number(sent.max_tokens)),
    ("request_bytes", lambda sent: cells.number(sent.body_bytes)),
    ("request_sha256", lambda sent: cells.text(sent.body_sha256)),
    ("recipe", lambda sent: cells.text(sent.recipe)),
    ("at_s", lambda sent: cells.seconds(sent.at)),
)

_ANSWERED: tuple[tuple[str, _From], ...] = (
    ("status", lambda answer: cells.number(answer.status)),
    ("due_s", lambda answer: cells.seconds(answer.due)),
    ("sent_s", lambda answer: cells.seconds(answer.sent)),
    ("headers_s", lambda answer: cells.seconds(answer.headers_at)),
    ("ended_s", lambda answer: cells.seconds(answer.ended)),
    ("e2e_s", lambda answer: cells.seconds(latency.e2e(answer))),
    ("ttft_s", lambda answer: cells.seconds(latency.ttft(answer))),
    ("ttft_from_due_s", lambda answer: cells.seconds(latency.ttft_from_due(answer))),
    ("tpot_s", lambda answer: cells.seconds(latency.tpot(answer))),
    ("itl_max_s", lambda answer: cells.seconds(max(latency.itl(answer), default=None))),
    ("chunks", lambda answer: cells.number(len(answer.chunk_at))),
    ("answer_bytes", lambda answer: cells.number(answer.body_bytes)),
    ("prompt_tokens", lambda answer: cells.number(_usage(answer).prompt_tokens)),
    ("cached_tokens", lambda answer: cells.number(_usage(answer).cached_tokens)),
    ("completion_tokens", lambda answer: cells.number(_usage(answer).completion_tokens)),
    ("reasoning_tokens", lambda answer: cells.number(_usage(answer).reasoning_tokens)),
    ("total_tokens", lambda answer: cells.number(_usage(answer).total_tokens)),
    ("finish_reason", lambda answer: cells.text(answer.choices[0].finish_reason if answer.choices else None)),
    ("model", lambda answer: cells.text(answer.model)),
    ("retry_after", lambda answer: cells.text(answer.retry_after)),
    ("violations", lambda answer: cells.text(" | ".join(answer.violations))),
    ("server_words", lambda answer: cells.text(answer.server_words)),
)

COLUMNS = ("request", *(name for name, _ in _SENT), "kind", "outcome", *(name for name, _ in _ANSWERED))


def header() -> bytes:
    """The first line of requests.csv."""
    return cells.row(COLUMNS)


def line(sent: RequestSent | None, answer: Exchange | None) -> bytes:
    """The row of one request; at least one of the two is given. Without an answer it was lost in a kill."""
    known = sent or answer
    kind = answer.kind if answer else Kind.KILLED
    return cells.row(
        [
            cells.text(known.request if known else None),
            *(of(sent) if sent else "" for _, of in _SENT),
            kind.value,
            OUTCOME_OF[kind].value,
            *(of(answer) if answer else "" for _, of in _ANSWERED),
        ]
    )


def _usage(answer: Exchange) -> Usage:
    return answer.usage or Usage()
