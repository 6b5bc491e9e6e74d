"""DEGEN: did answers turn into noise?

Compares the statistics of each answer with limits that language keeps (one token or character 64 times in a row, nine
tenths white space or a tail of 200 blanks, reserved tokens spelt out, text that packs to a twelfth, one token three
fifths of 128) and then with *this server's own* earlier answers. Source: text, and tokens where log-probabilities list
them.

Threshold: answers were clean (eight at least) and since some moment are not, by Fisher's test at 0.001 (`shift.py`),
floods counted apart, because a model that now and then loops hides no flood;
or two prompts whose warm answers are noise are answered clean when they are asked cold, and none is noise cold.
Noisy when: a small greedy model loops by itself, which it does from the start and so is no change; when a grammar
allows endless white space (such answers are not looked at); when the workload itself turns to repetitive text.
"""

import re
import zlib
from itertools import groupby

from kvstress.core.cold import means
from kvstress.core.events import Event, RequestSent
from kvstress.core.exchange import Choice, Exchange
from kvstress.core.manifest import Manifest
from kvstress.core.outcome import Outcome
from kvstress.core.plan import Origin
from kvstress.core.verdict import Finding, Verdict
from kvstress.oracles.arms import ColdArm
from kvstress.oracles.oracle import found, options
from kvstress.oracles.shift import Shift

NAME = "DEGEN"

RUN, _BLANK, _TAIL, _PACKED, _PACKED_CHARS, _SHARE, _SHARE_TOKENS = 64, 0.9, 200, 12.0, 512, 0.6, 128
_LONG = 48
_RESERVED = re.compile(r"<\|(reserved|unused|extra_id|dummy)|<unused\d+>|<pad>", re.IGNORECASE)
# A long answer is judged by its first part: a flood floods there too, and memory and time stay bounded.
_MOST = 20_000


class Degen:
    """Counts clean answers and degenerate ones, and floods once more by themselves."""

    def __init__(self, manifest: Manifest) -> None:
        del manifest
        self._noise, self._floods = Shift(), Shift()
        self._cold = ColdArm()
        self._told = False

    def see(self, event: Event, asked: RequestSent | None) -> tuple[Finding, ...]:
        if not isinstance(event, Exchange) or asked is None or event.outcome is not Outcome.COMPLETED:
            return ()
        if asked.origin is Origin.SIZING or _shaped(asked):
            return ()
        texts = [choice for choice in event.choices if len(choice.text) >= _LONG or len(choice.logprobs or ()) >= _LONG]
        if not texts or self._told:
            return ()
        floods = [flood(choice) for choice in texts]
        found_in = zip(texts, floods, strict=True)
        faults = [fault for choice, flooded in found_in if (fault := flooded or _repeats(choice))]
        turned = self._turned(any(floods), bool(faults)) if means(asked.phase) is None else None
        against = self._cold.add(asked, bool(faults))
        if turned is None and not against:
            return ()
        self._told = True
        share = f"{turned.bad} of the last {turned.since} answers, none of {turned.clean} before" if turned else ""
        limit = "as clean as before, and as cold"
        if against:
            share = f"{against} prompts answered clean when they were asked cold"
        what = f"answers turned into noise: {faults[0] if faults else 'warm ones'} ({share})"
        return (found(NAME, Verdict.FAIL, "noise", what, asked=asked, measured=share, limit=limit),)

    def _turned(self, flooding: bool, noisy: bool) -> Shift | None:
        """The count by which answers have turned into noise, if they have."""
        flooded = self._floods.add(flooding)
        if self._noise.add(noisy):
            return self._noise
        return self._floods if flooded else None


def degenerate(choice: Choice) -> str | None:
    """What is wrong with the answer's statistics, in words; None for text that could be language."""
    return flood(choice) or _repeats(choice)


def _repeats(choice: Choice) -> str | None:
    tokens = [token.token for token in choice.logprobs or ()][:_MOST]
    return _packs(choice.text[:_MOST]) or _one_token(tokens)


def flood(choice: Choice) -> str | None:
    """What no language model says, not even one that loops over a phrase; None for the rest."""
    text, tokens = choice.text[:_MOST], [token.token for token in choice.logprobs or ()][:_MOST]
    packed = text.replace(" ", "").replace("\n", "")
    if (run := max(_longest(tokens), _longest(packed) if _may_run(packed) else 0)) >= RUN:
        return f"one token {run} times in a row"
    if "<" in text and _RESERVED.search(text):
        return "a reserved token spelt out"
    blanks = len(text) - sum(map(len, text.split()))
    if text and (blanks >= _BLANK * len(text) or len(text) - len(text.rstrip()) > _TAIL):
        return f"{blanks} of {len(text)} characters are white space"
    return None


def _may_run(text: str) -> bool:
    """False only if no character of `text` comes RUN times in a row.

    Counting every run costs more than receiving the answer did. A run of RUN covers one of these blocks whole.
    """
    half = RUN // 2
    return any(text[place] * half == text[place : place + half] for place in range(0, len(text) - half + 1, half))


def _longest(items: list[str] | str) -> int:
    return max((sum(1 for _ in run) for _, run in groupby(items)), default=0)


def _packs(text: str) -> str | None:
    if len(text) < _PACKED_CHARS:
        return None
    raw = text.encode("utf-8", "replace")
    ratio = len(raw) / len(zlib.compress(raw))
    return f"it packs to 1/{ratio:.0f}" if ratio > _PACKED else None


def _one_token(tokens: list[str]) -> str | None:
    if len(tokens) < _SHARE_TOKENS:
        return None
    most = max(tokens.count(token) for token in set(tokens))
    return f"one token is {most} of {len(tokens)}" if most > _SHARE * len(tokens) else None


def _shaped(asked: RequestSent) -> bool:
    wanted = options(asked)
    return any(wanted.get(key) for key in ("response_format", "tools", "grammar", "guided_json"))
