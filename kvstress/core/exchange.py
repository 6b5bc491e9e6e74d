"""An Exchange is what the wire showed for one request, and nothing that was concluded from it.

All times are seconds of one monotonic clock, counted from the start of the run, so that a
stored run can be judged again on another machine. What was not observed is None.
"""

from dataclasses import dataclass

from kvstress.core.outcome import OUTCOME_OF, Kind, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts as the server reported them; a count it left out is None."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprob:
    """One generated token with its log-probability (nat) and its alternatives, as received."""

    token: str
    logprob: float | None
    top: tuple[tuple[str, float | None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One answer of a request (n > 1 gives several), assembled from the deltas in the order they came."""

    index: int
    text: str = ""
    reasoning: str = ""
    tool_calls: str = ""
    finish_reason: str | None = None
    logprobs: tuple[TokenLogprob, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """Wire facts of one request.

    `due`, `sent`, `headers_at`, `ended`: seconds since the run's start. `chunk_at` and
    `chunk_bytes` have one entry per read that carried content (generated text, reasoning or
    tool arguments), which is not the same as one per token. `server_words` are the server's own words about an
    error (capped, never interpreted); `error_bytes` the raw bytes they stood in, decoded
    with replacement. `violations` name protocol faults that did not end the exchange.
    """

    request: str
    due: float
    sent: float
    headers_at: float | None = None
    ended: float
    kind: Kind
    status: int | None = None
    chunk_at: tuple[float, ...] = ()
    chunk_bytes: tuple[int, ...] = ()
    body_bytes: int = 0
    choices: tuple[Choice, ...] = ()
    usage: Usage | None = None
    model: str | None = None
    server_words: str | None = None
    error_bytes: str | None = None
    violations: tuple[str, ...] = ()
    retry_after: str | None = None

    @property
    def outcome(self) -> Outcome:
        """The outcome that this exchange's kind belongs to."""
        return OUTCOME_OF[self.kind]

    @property
    def finished(self) -> bool:
        """True when there is an answer and every choice of it has a finish reason."""
        return bool(self.choices) and all(choice.finish_reason for choice in self.choices)

    @property
    def text(self) -> str:
        """The first choice's text; empty when there was none."""
        return self.choices[0].text if self.choices else ""
