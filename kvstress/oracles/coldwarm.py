"""COLDWARM: does a prompt answered out of the cache get the answer that it gets without?

Compares, token by token, a greedy answer with log-probabilities to a prompt that was sent before with a cold answer to
the same prompt: a twin process's, one under a salt, after a reset, with the cache off or plain where nothing is cached
(asides, after the traffic), or the prompt's first sending. Source: log-probabilities and `cached_tokens`; the recipe
says that prompts are the same.

Threshold: a token that differs where the cold answer preferred its own by more than 0.5 nat (1.0 where other requests
ran beside, 1.5 times the largest gap at which two cold answers parted), or a log-probability more than 1 nat off up to
where they part (five times the 99th percentile between two cold answers). Differences of text alone never count.
Noisy when: batches differ, mixture-of-experts routes and speculation add their own noise (asking cold twice measures
it). Without log-probabilities CANARY answers; without a cold answer this is INCONCLUSIVE.
"""

from collections import deque
from dataclasses import dataclass, field

from kvstress.core.cold import MEANS, RESENT, means, unsalted
from kvstress.core.events import Event, RequestSent, RunEnded
from kvstress.core.exchange import Exchange
from kvstress.core.manifest import Manifest
from kvstress.core.outcome import Outcome
from kvstress.core.plan import Origin
from kvstress.core.verdict import Finding, Verdict
from kvstress.oracles.arms import Company, Parting, Token, greedy, parting, tokens
from kvstress.oracles.oracle import found, options

NAME = "COLDWARM"

_GAP, _GAP_BESIDE, _DRIFT = 0.5, 1.0, 1.0
_PROMPTS, _WARM, _PAIRS = 1_024, 4, 256
# Two sendings that went wrong the same way may say the same for a hundred tokens before they part.
_LONGEST, _KEPT = 512, 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    asked: RequestSent
    tokens: tuple[Token, ...]
    beside: bool


@dataclass(slots=True)
class _Prompt:
    """`cold` is the best cold answer and `how` its means; `warm` the last warm ones."""

    cold: _Said | None = None
    how: str = ""
    warm: deque[_Said] = field(default_factory=lambda: deque(maxlen=_WARM))

    @property
    def kept(self) -> int:
        """The tokens held."""
        return sum(len(one.tokens) for one in self.warm) + (len(self.cold.tokens) if self.cold else 0)


class ColdWarm:
    """Keeps the answers to the last 1,024 prompts: the first 512 tokens of each, 65,536 in all."""

    def __init__(self, manifest: Manifest) -> None:
        del manifest
        self._prompts: dict[str, _Prompt] = {}
        self._kept = 0
        self._company = Company()
        self._cold_drifts: deque[float] = deque(maxlen=_PAIRS)
        self._cold_gap = 0.0
        self._compared: dict[str, int] = {}
        self._alone = 0

    def see(self, event: Event, asked: RequestSent | None) -> tuple[Finding, ...]:
        beside = self._company.see(event)
        if isinstance(event, RunEnded):
            return self._ended()
        if not isinstance(event, Exchange) or asked is None or event.outcome is not Outcome.COMPLETED:
            return ()
        said = tokens(event, _LONGEST) if asked.recipe and greedy(asked) else ()
        aside = _means(event, asked) if asked.origin is Origin.ASIDE else None
        if not said or (asked.origin is not Origin.STEP and aside is None):
            return ()
        prompt = self._prompt(asked)
        one = _Said(asked=asked, tokens=said, beside=beside)
        how = aside or self._first(event, asked, prompt)
        before = prompt.kept
        findings = self._warm(prompt, one) if how is None else self._cold(prompt, one, how)
        self._kept += prompt.kept - before
        self._forget()
        return findings

    def _prompt(self, asked: RequestSent) -> _Prompt:
        key = f"{asked.recipe} {sorted(unsalted(options(asked)).items())}"
        prompt = self._prompts.pop(key, None) or _Prompt()
        self._prompts[key] = prompt
        return prompt

    def _forget(self) -> None:
        """Drop the prompts not seen for longest, but never the one just seen."""
        while len(self._prompts) > 1 and (len(self._prompts) > _PROMPTS or self._kept > _KEPT):
            self._kept -= self._prompts.pop(next(iter(self._prompts))).kept

    def _first(self, exchange: Exchange, asked: RequestSent, prompt: _Prompt) -> str | None:
        """A first sending is cold unless the server says that it had a tenth of it, or the turns before were sent."""
        if prompt.cold is not None or prompt.warm:
            return None
        usage = exchange.usage
        cached, length = (usage.cached_tokens, usage.prompt_tokens) if usage else (None, None)
        if cached is None:
            return None if (asked.turn or 0) > 0 else "first"
        return "first" if cached * 10 < (length or 0) or cached <= 1 else None

    def _cold(self, prompt: _Prompt, one: _Said, how: str) -> tuple[Finding, ...]:
        before, was = prompt.cold, prompt.how
        if before is not None and "first" not in (how, was):
            self._calibrate(parting(before.tokens, one.tokens))
            return ()
        prompt.cold, prompt.how = one, how
        # A better reference came: the first sending is judged by it as warm ones are.
        doubted = [*([before] if before else []), *prompt.warm]
        return tuple(finding for warm in doubted for finding in self._against(prompt, one, warm))[:1]

    def _calibrate(self, between: Parting) -> None:
        self._cold_drifts.append(max(between.drift, between.apart))
        self._cold_gap = max(self._cold_gap, between.gap or 0.0)

    def _warm(self, prompt: _Prompt, one: _Said) -> tuple[Finding, ...]:
        prompt.warm.append(one)
        if prompt.cold is None:
            self._alone += 1
            return ()
        return self._against(prompt, prompt.cold, one)

    def _against(self, prompt: _Prompt, cold: _Said, warm: _Said) -> tuple[Finding, ...]:
        self._compared[prompt.how] = self._compared.get(prompt.how, 0) + 1
        found_in = parting(cold.tokens, warm.tokens)
        gap, drift = self._limits(cold.beside or warm.beside)
        if found_in.gap is not None and found_in.gap > gap:
            what = f"token {found_in.place} differs from the cold answer's, which preferred its own by"
            return (self._finding(prompt, warm.asked, "differs", what, found_in.gap, gap),)
        if found_in.apart > drift:
            what = f"at token {found_in.place}, where it leaves the cold answer, a log-probability is off that one's by"
            return (self._finding(prompt, warm.asked, "differs", what, found_in.apart, drift),)
        if found_in.drift > drift:
            what = f"within {found_in.compared} equal tokens a log-probability is off the cold answer's by"
            return (self._finding(prompt, warm.asked, "differs", what, found_in.drift, drift),)
        return ()

    def _limits(self, beside: bool) -> tuple[float, float]:
        """The gap and the drift, in nats, up to which a difference is noise."""
        ordered = sorted(self._cold_drifts)
        usual = ordered[int(0.99 * (len(ordered) - 1))] if ordered else 0.0
        return max(_GAP_BESIDE if beside else _GAP, 1.5 * self._cold_gap), max(_DRIFT, 5 * usual)

    def _finding(
        self, prompt: _Prompt, asked: RequestSent, key: str, what: str, measured: float, limit: float
    ) -> Finding:
        return found(
            NAME,
            Verdict.FAIL,
            key,
            f"{what} {measured:.2f} nat (cold: {MEANS[prompt.how]})",
            asked=asked,
            measured=f"{measured:.2f} nat",
            limit=f"at most {limit:.2f} nat",
            evidence=(asked.request, *((prompt.cold.asked.request,) if prompt.cold else ())),
        )

    def _ended(self) -> tuple[Finding, ...]:
        """Which references there were belongs to the result; that there were none even more."""
        if self._compared:
            gap, drift = self._limits(False)
            counts = "; ".join(f"{count} with {MEANS[how]}" for how, count in self._compared.items())
            tolerance = f"gap {gap:.2f} nat, drift {drift:.2f} nat, {len(self._cold_drifts)} cold pairs"
            what = f"warm answers compared with cold ones: {counts}"
            return (found(NAME, Verdict.PASS, "compared", what, measured=tolerance),)
        if not self._alone:
            return ()
        what = (
            f"{self._alone} warm answers with log-probabilities, and no cold answer to hold one against: "
            "name a second process of the server with --twin"
        )
        return (found(NAME, Verdict.INCONCLUSIVE, "no cold answer", what, measured="no cold answer"),)


def _means(exchange: Exchange, asked: RequestSent) -> str | None:
    """How this aside was made cold; a prompt sent again and not so after all counts for nothing."""
    how = means(asked.phase)
    cached = exchange.usage.cached_tokens if exchange.usage else None
    return None if how == RESENT and cached != 0 else how
