"""Pieces of an answer put together, and judged: is this an answer at all?

A status line comes before the work is done, so a 200 is only a promise: an error may follow, the finish reason may be
missing, and what was begun may break off. Everything that was understood is kept beside the fault, because
where an answer broke is half of the evidence.
"""

from dataclasses import dataclass
from typing import Final

from kvstress.client.choice import FINISHED, Growing
from kvstress.client.shapes import JSON, Piece, UsageCounts
from kvstress.client.words import readable, spoken
from kvstress.core.exchange import Choice, Usage
from kvstress.core.outcome import Kind

_MOST_NOTES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What was understood. `kind` is OK or what is wrong, `fault` the bytes in which that stands, readable."""

    kind: Kind
    choices: tuple[Choice, ...] = ()
    usage: Usage | None = None
    model: str | None = None
    words: str | None = None
    fault: str | None = None
    violations: tuple[str, ...] = ()


class Assembly:
    """Takes decoded chunks or one body. The first fault decides the kind; what comes after it is still taken in."""

    def __init__(self, *, streamed: bool) -> None:
        self.kind: Kind | None = None
        self._prefix = "stream: " if streamed else ""
        self._notes: list[str] = []
        self._said_failed = Kind.STREAM_ERROR if streamed else Kind.ERROR_ENVELOPE
        self._choices: dict[int, Growing] = {}
        self._usage: UsageCounts | None = None
        self._model: str | None = None
        self._id: str | int | None = None
        self._ids_changed = False
        self._words: str | None = None
        self._fault: str | None = None

    def add(self, piece: Piece) -> bool:
        """Take one piece; True when it carried content."""
        if piece.id != self._id and piece.id is not None:
            self._ids_changed = self._id is not None
            self._id = piece.id
        if piece.usage is not None:
            self._usage = piece.usage
        if piece.model is not None:
            self._model = piece.model
        grown = False
        for part in piece.choices or ():
            choice = self._choices.get(part.index)
            if choice is None:
                choice = self._choices[part.index] = Growing(part.index)
            had_finished = choice.finish_reason is not None
            if choice.add(part):
                grown = True
                if had_finished:
                    self.note(f"choice {part.index} goes on after its finish_reason")
        return grown

    def note(self, violation: str) -> None:
        """Note a protocol fault that decides nothing: each once, a bounded number of them."""
        told = self._prefix + violation
        if told not in self._notes and len(self._notes) < _MOST_NOTES:
            self._notes.append(told)

    def fail(self, kind: Kind, violation: str, fault: bytes = b"", words: str | None = None) -> None:
        """Note a fault that decides the outcome, unless an earlier one did."""
        self.note(violation)
        if self.kind is None:
            self.kind, self._words, self._fault = kind, words, readable(fault) or None

    def say_failed(self, failure: JSON, fault: bytes) -> None:
        """The server itself says that it failed."""
        self.fail(self._said_failed, "an error object came with status 200", fault, spoken(failure))

    def check_finishes(self) -> None:
        """An answer has at least one choice, and each has one finish reason that means it was finished."""
        if not self._choices:
            self.fail(Kind.MISSING_FINISH, "no choice came")
        if self._ids_changed and len(self._choices) == 1:
            self.note("the id changed from chunk to chunk")
        for choice in self._choices.values():
            reason = choice.finish_reason
            if reason is None:
                self.fail(Kind.MISSING_FINISH, f"choice {choice.index} has no finish_reason")
            elif reason not in FINISHED:
                self.fail(self._said_failed, f"finish_reason {reason[:80]!r}", words=f"finish_reason {reason[:80]!r}")
            if choice.finishes > 1:
                self.note(f"choice {choice.index} has more than one finish_reason")

    def conclude(self) -> Answer:
        """The answer as it stands."""
        return Answer(
            kind=self.kind or Kind.OK,
            choices=tuple(self._choices[index].choice() for index in sorted(self._choices)),
            usage=_usage(self._usage),
            model=self._model,
            words=self._words,
            fault=self._fault,
            violations=tuple(self._notes),
        )


def _usage(sent: UsageCounts | None) -> Usage | None:
    if sent is None:
        return None
    prompt, completion = sent.prompt_tokens_details, sent.completion_tokens_details
    return Usage(
        prompt_tokens=sent.prompt_tokens,
        completion_tokens=sent.completion_tokens,
        total_tokens=sent.total_tokens,
        cached_tokens=prompt.cached_tokens if prompt else None,
        reasoning_tokens=completion.reasoning_tokens if completion else None,
    )
