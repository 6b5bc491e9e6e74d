"""How much of a run is kept: everything, the answers but not the questions, or only the facts.

A prompt is rebuilt from its recipe, so the default stores no bodies. Whoever tests with
confidential data keeps no answers either: a text is then replaced by a notice of its length,
never by an empty text, because an empty answer is something that a judge looks for.
"""

from dataclasses import replace

from kvstress.core.events import Event
from kvstress.core.exchange import Choice, Exchange, TokenLogprob
from kvstress.core.record import Record


def kept(event: Event, record: Record) -> Event:
    """`event` as `record` allows it to be stored."""
    if record != Record.FACTS or not isinstance(event, Exchange) or not event.choices:
        return event
    return replace(event, choices=tuple(_without_text(choice) for choice in event.choices))


def _without_text(choice: Choice) -> Choice:
    return replace(
        choice,
        text=_notice(choice.text),
        reasoning=_notice(choice.reasoning),
        tool_calls=_notice(choice.tool_calls),
        logprobs=None if choice.logprobs is None else tuple(_without_token(token) for token in choice.logprobs),
    )


def _without_token(token: TokenLogprob) -> TokenLogprob:
    return TokenLogprob(token="", logprob=token.logprob, top=tuple(("", logprob) for _, logprob in token.top))


def _notice(text: str) -> str:
    return f"[{len(text):,} characters not recorded]" if text else ""
