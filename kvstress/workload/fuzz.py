"""Random traffic that remembers what it sent: what nobody thought of, and the same again for the same seed.

Each operation is drawn with keys of its own from the seed, and says what it does to a prompt that was sent before:
send it again, go on from it, branch off inside it, roll it back, or leave it alone. Lengths fall on and beside
multiples of the sizes at which servers cut blocks, chunks and checkpoints, because that is where they count wrong by
one. Families of prompts begin without a word in common, also as plain text and as token ids, where no chat template
stands before them all and hides what a roll-back leaves behind.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from kvstress.core.plan import Cancel, CancelAt
from kvstress.core.sizing import Sizing
from kvstress.workload import asking, draws, text
from kvstress.workload.body import user
from kvstress.workload.markers import facts, planted
from kvstress.workload.prompt import Content, Prompt
from kvstress.workload.sources import Fuzz

# Of a hundred operations; a name is also what the context column shows.
WEIGHTS = {"new": 22, "resend": 18, "extend": 14, "branch": 16, "rollback": 10, "short": 8, "abort": 7, "burst": 5}
# Where a length lies beside a multiple of an edge, in tokens; 0 most often, for that is the edge.
_BESIDE = (0, 0, 0, -1, 1, -2, 2)
_SHORT = (4, 40)
# A prompt that is rolled back or branched off keeps at least so much of itself.
_LEAST_KEPT = 0.1
# Token ids come as words of a small dictionary, so that they repeat and a model can be sure of what comes next.
_WORDS, _WORD_IDS = 24, 6
_ABORTED_ANSWER = 256
# A call of the program, such as `swap(3,7); `, has so many characters for its units.
_CHARACTERS_A_UNIT = 11 / text.UNITS_PER_CALL


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """A prompt that was sent: its `words` (text or token ids), its name in recipes, whose markers it holds."""

    name: str
    form: str
    words: str | tuple[int, ...]
    told: tuple[int, ...] = ()


class _Fuzzer:
    """Draws one operation after the other; `known` holds the last prompts that later ones go back to."""

    def __init__(self, source: Fuzz, key: str, sizing: Sizing) -> None:
        self._source = source
        self._key = key
        self._sizing = sizing
        self._forms = tuple(form for form in source.forms if form in sizing.forms) or ("chat",)
        self._marks = text.Marks(key)
        self._made = 0
        self._known: deque[_Known] = deque(maxlen=source.remembered)

    def operation(self, number: int) -> Prompt:
        """The prompt of operation `number`, with those that leave beside it."""
        at = f"{self._key}/{number}"
        name = _drawn(WEIGHTS, f"{at}/operation")
        if name == "burst":
            count = 2 + _below(self._source.burst - 1, f"{at}/count")
            first, *others = (self._one(self._member(f"{at}/{one}"), f"{at}/{one}") for one in range(count))
            return replace(first, label=f"burst {count}", beside=tuple(others))
        return self._one(name, at)

    def _member(self, at: str) -> str:
        alone = {name: weight for name, weight in WEIGHTS.items() if name not in ("burst", "abort")}
        return _drawn(alone, f"{at}/operation")

    def _one(self, name: str, at: str) -> Prompt:
        cancel = _cancel(at) if name == "abort" else None
        if cancel is not None:
            name = ("new", "extend", "branch")[_below(3, f"{at}/aborted")]
        name = name if self._known else "new"
        made = _MAKE[name](self, at)
        if made not in self._known:
            # A prompt that is sent again would else crowd out the others, and in the end be the only one there is.
            self._known.append(made)
        return self._sent(made, name if cancel is None else f"abort {cancel.at.value}", cancel)

    def _sent(self, made: _Known, label: str, cancel: Cancel | None) -> Prompt:
        told = f" markers={','.join(map(str, made.told))}" if made.told else ""
        shared = Prompt(
            label=label,
            messages=user(made.words) if isinstance(made.words, str) else (),
            recipe=f"fuzz {self._key}/{made.name} {made.form}{told}",
            raw=None if made.form == "chat" else made.words,
            cancel=cancel,
        )
        return shared if cancel is None else replace(shared, max_tokens=_ABORTED_ANSWER, stream=True)

    def new(self, at: str) -> _Known:
        form = self._forms[_below(len(self._forms), f"{at}/form")]
        return self._grown(_Known(name="", form=form, words=() if form == "ids" else ""), self._length(at), at)

    def short(self, at: str) -> _Known:
        form = self._forms[_below(len(self._forms), f"{at}/form")]
        least, most = _SHORT
        made = self._more(form, least + _below(most - least, f"{at}/length"), at)
        return _Known(name=self._name(), form=form, words=made)

    def resend(self, at: str) -> _Known:
        return self._pick(at)

    def extend(self, at: str) -> _Known:
        earlier = self._pick(at)
        room = self._source.longest - self._tokens(earlier.words)
        return self._grown(earlier, min(room, self._length(at)), at) if room > 0 else earlier

    def branch(self, at: str) -> _Known:
        kept = self._cut(self._pick(at), at)
        room = max(1, self._source.longest - self._tokens(kept.words))
        return self._grown(kept, min(room, self._length(at)), at)

    def rollback(self, at: str) -> _Known:
        return replace(self._cut(self._pick(at), at), name=self._name())

    def _pick(self, at: str) -> _Known:
        return self._known[_below(len(self._known), f"{at}/which")]

    def _cut(self, earlier: _Known, at: str) -> _Known:
        """The beginning of an earlier prompt, to a depth that is now any, now beside an edge."""
        whole = len(earlier.words)
        share = _LEAST_KEPT + (1 - _LEAST_KEPT) * draws.fraction(f"{at}/depth")
        kept = max(1, int(whole * share))
        if draws.fraction(f"{at}/at edge") < 0.5:
            kept = max(1, min(kept, round(whole * self._length(f"{at}/cut") / max(1, self._tokens(earlier.words)))))
        return replace(earlier, words=earlier.words[:kept])

    def _grown(self, earlier: _Known, tokens: int, at: str) -> _Known:
        """`earlier` and some `tokens` more, which tell codes of their own where they are text."""
        number = self._made
        more = self._more(earlier.form, tokens, at, number)
        told = earlier.told if earlier.form == "ids" or not self._source.facts else (*earlier.told, number)
        words = earlier.words + more  # type: ignore[operator]
        return replace(earlier, name=self._name(), words=words, told=told)

    def _more(self, form: str, tokens: int, at: str, number: int | None = None) -> str | tuple[int, ...]:
        if form == "ids":
            return _ids(self._key, at, tokens, self._source.ids)
        mark, program = self._marks[self._made], text.program(at, self._sizing.units(tokens))
        if number is None or not self._source.facts:
            return f"{mark}: {program}{text.QUESTION}"
        told = facts(self._key, number)
        return f"{mark}: {planted(program, told)}{told.question}"

    def _name(self) -> str:
        self._made += 1
        return f"{self._made - 1}"

    def _length(self, at: str) -> int:
        """A number of tokens on or beside a multiple of an edge, or anywhere between the shortest and the longest."""
        shortest, longest = self._source.shortest, self._source.longest
        edge = self._source.edges[_below(len(self._source.edges), f"{at}/edge")]
        first, last = -(-shortest // edge), longest // edge
        if last < first or draws.fraction(f"{at}/between") < 0.25:
            return shortest + _below(longest - shortest + 1, f"{at}/length")
        multiple = edge * (first + _below(last - first + 1, f"{at}/multiple"))
        return max(1, multiple + _BESIDE[_below(len(_BESIDE), f"{at}/beside")])

    def _tokens(self, words: str | tuple[int, ...]) -> int:
        """About how many tokens `words` are."""
        per = 1.0 if isinstance(words, tuple) else self._sizing.per_unit / _CHARACTERS_A_UNIT
        return round(len(words) * per)


_MAKE: dict[str, Callable[[_Fuzzer, str], _Known]] = {
    "new": _Fuzzer.new,
    "short": _Fuzzer.short,
    "resend": _Fuzzer.resend,
    "extend": _Fuzzer.extend,
    "branch": _Fuzzer.branch,
    "rollback": _Fuzzer.rollback,
}


def fuzz(source: Fuzz, key: str, sizing: Sizing) -> Content:
    """The operations. Which forms of prompts the server takes is in `sizing`: it is asked at the same time."""
    return Content(
        prompts=lambda: _operations(source, key, sizing),
        total=source.operations,
        sentence=f"{source.operations} random operations on generated prompts of up to {source.longest} tokens, "
        f"{' and '.join(source.forms)}",
    )


def _operations(source: Fuzz, key: str, sizing: Sizing) -> Iterator[Prompt]:
    fuzzer = _Fuzzer(source, key, sizing)
    for number in range(source.operations):
        yield fuzzer.operation(number)


def _cancel(at: str) -> Cancel:
    places = tuple(CancelAt)
    return asking.cancelled(places[_below(len(places), f"{at}/phase")])


def _ids(key: str, at: str, count: int, between: tuple[int, int]) -> tuple[int, ...]:
    """`count` token ids: words of a dictionary of the run's own, in an order of this prompt's own."""
    first, last = between
    bytes_of = [draws.fraction(f"{key}/dictionary/{place}") for place in range(_WORDS * _WORD_IDS)]
    dictionary = [first + int(share * (last - first + 1)) for share in bytes_of]
    chosen = (_below(_WORDS, f"{at}/word/{place}") for place in range(-(-count // _WORD_IDS)))
    words = [identity for word in chosen for identity in dictionary[word * _WORD_IDS : (word + 1) * _WORD_IDS]]
    return tuple(words[:count])


def _below(count: int, key: str) -> int:
    """A whole number from 0 to `count` − 1."""
    return min(count - 1, int(draws.fraction(key) * count))


def _drawn(weights: dict[str, int], key: str) -> str:
    left = draws.fraction(key) * sum(weights.values())
    for name, weight in weights.items():
        if left < weight:
            return name
        left -= weight
    return next(reversed(weights))
