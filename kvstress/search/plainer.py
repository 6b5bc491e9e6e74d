"""Shorter prompts, fewer output tokens, plainer parameters: what makes a reproducer readable once it is short.

All at once is tried first, because most failures care about none of it; what is left is looked for one thing at a time,
with few probes each, because the last tenth of a length is not worth a launch.
"""

from dataclasses import replace
from functools import partial

from kvstress.core.case import Case, Text
from kvstress.core.plan import Request, Schedule
from kvstress.search.fewer import each
from kvstress.search.keeper import Attempt

LEAST_UNITS = 6
# Of a text's length: how near to the shortest that fails one wants to come, and how many probes that may take.
_NEAR, _HALVINGS = 0.15, 3


async def shorter(case: Case, still: Attempt) -> Case:
    """Each text as short as the failure allows: first all together, then one by one, the longest first."""
    case = await each(
        case, still, [partial(_resized, share=0.0), partial(_resized, share=0.25), partial(_resized, share=0.5)]
    )
    for name, _ in sorted(case.used().items(), key=lambda item: -item[1].size):
        if name in case.used():
            case = await _shortest(case, still, name)
    return case


def _resized(case: Case, share: float) -> Case:
    return replace(case, texts={name: _of_size(text, round(text.size * share)) for name, text in case.texts.items()})


async def _shortest(case: Case, still: Attempt, name: str) -> Case:
    low, high = 0, case.texts[name].size
    tried = LEAST_UNITS
    # Invariant: with `high` units it fails, with `low` it was seen to pass (or it would be no text).
    for _ in range(_HALVINGS):
        if high - low <= max(LEAST_UNITS, _NEAR * high):
            break
        kept = await still(_with_text(case, name, tried))
        if kept is None:
            low = tried
        elif name not in kept.used():
            return kept
        else:
            case, high = kept, tried
        tried = (low + high) // 2
    return case


def _with_text(case: Case, name: str, size: int) -> Case:
    return replace(case, texts={**case.texts, name: _of_size(case.texts[name], size)})


def _of_size(text: Text, size: int) -> Text:
    if size >= text.size:
        return text
    if text.words is None:
        return replace(text, units=max(LEAST_UNITS, size))
    return replace(text, words=text.words[: max(1, size)])


async def fewer_tokens(case: Case, still: Attempt) -> Case:
    """Fewer output tokens: one everywhere, then request by request one, an eighth, a half."""
    case = await each(case, still, [lambda c: c.with_requests(lambda r: _capped(r, 1))])
    for request in case.requests:
        now = request.body.get("max_tokens")
        if isinstance(now, int) and now > 1:
            case = await _fewest(case, still, request.id, now)
    return case


async def _fewest(case: Case, still: Attempt, request: str, now: int) -> Case:
    for most in (1, 2, now // 8, now // 2):
        if 1 <= most < now and (kept := await still(_with_cap(case, request, most))) is not None:
            return kept
    return case


def _with_cap(case: Case, request: str, most: int) -> Case:
    return case.with_requests(lambda r: _capped(r, most) if r.id == request else r)


def _capped(request: Request, most: int) -> Request:
    body = {key: min(value, most) if key in _CAPS else value for key, value in request.body.items()}
    return replace(request, body=body)


_CAPS = ("max_tokens", "max_completion_tokens")
# What a request cannot do without, or another pass is about.
_KEPT = frozenset({"model", "messages", "prompt", "temperature", "stream", "stream_options", *_CAPS})


async def simpler(case: Case, still: Attempt) -> Case:
    """Plainer requests, the same for all: greedy, whole answers, no options, one lane, no pauses, no cancellations."""
    options = dict.fromkeys(key for request in case.requests for key in request.body if key not in _KEPT)
    return await each(
        case,
        still,
        [
            _greedy,
            _whole,
            *(partial(_without_option, key=key) for key in options),
            lambda c: replace(c, schedule=Schedule()),
            lambda c: replace(c, schedule=replace(c.schedule, lanes=max(1, c.schedule.lanes // 2))),
            _patient,
            lambda c: c.with_requests(lambda r: replace(r, cancel=None)),
        ],
    )


def _greedy(case: Case) -> Case:
    return case.with_requests(
        lambda r: replace(r, body={k: 0.0 if k == "temperature" else v for k, v in r.body.items() if k != "top_p"})
    )


def _whole(case: Case) -> Case:
    return case.with_requests(
        lambda r: replace(
            r, body={k: False if k == "stream" else v for k, v in r.body.items() if k != "stream_options"}
        )
    )


def _without_option(case: Case, key: str) -> Case:
    return case.with_requests(lambda r: replace(r, body={k: v for k, v in r.body.items() if k != key}))


def _patient(case: Case) -> Case:
    """No pauses, no barriers, nothing that leaves beside another."""
    steps = tuple(replace(step, think=0.0, due=None, barrier=False) for step in case.steps)
    return replace(case, steps=steps).with_requests(lambda r: replace(r, delay=0.0, beside=False))
