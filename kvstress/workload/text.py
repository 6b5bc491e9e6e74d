"""Stand-in prompts: low-entropy, code-like text that costs nearly the same number of tokens per unit on any tokenizer.

A prompt is a program of calls such as `swap(3,7); keep(1,4);` that sort ten items. A unit is
one lexeme of it, a little over a token: names never change and digits stand alone between
punctuation, so that a tokenizer splits every line of the program alike, and units convert to
tokens by a straight line. Only the digits are drawn. What makes a prompt distinct from its first
token on is the mark it begins with.
"""

from string import ascii_letters, ascii_lowercase

from kvstress.workload import draws
from kvstress.workload.markers import Facts, planted

VERBS = ("swap", "keep", "move", "push")
UNITS_PER_CALL = 6
UNITS_PER_LINE = UNITS_PER_CALL * len(VERBS)
VOWELS = "aeiou"
QUESTION = "\nWhich call comes next? Answer with the calls only."
_LINE = "; ".join(f"{verb}(0,0)" for verb in VERBS).encode() + b";\n"
_PLACES = tuple(place for place, letter in enumerate(_LINE) if letter == ord("0"))
_ASCII = bytes(ord("0") + value % 10 for value in range(256))
_HEADING = ": calls that sort ten items\n"


def prompt(key: str, mark: str, units: int, facts: Facts | None = None) -> str:
    """A prompt of `units` lexemes drawn from `key`, begun with `mark` and ended with a short question.

    With `facts` it carries them, and the question is about one of them.
    """
    if facts is None:
        return f"{mark}{_HEADING}{program(key, units)}{QUESTION}"
    return f"{mark}{_HEADING}{planted(program(key, units), facts)}{facts.question}"


def mark_of(words: str) -> str | None:
    """The mark of a prompt made here; None for any other text."""
    mark, heading, _ = words.partition(_HEADING)
    return mark if heading and len(mark) <= 16 else None


def program(key: str, units: int) -> str:
    """The first `units` lexemes of the key's program; a shorter program is a prefix of a longer one."""
    calls = -(-units // UNITS_PER_CALL)
    drawn = draws.digits(key, 2 * calls)
    # Whole lines at once: a prompt of 128 KB took longer to write lexeme by lexeme than to send.
    lines = units // UNITS_PER_LINE
    written = bytearray(_LINE * lines)
    for number, place in enumerate(_PLACES):
        written[place :: len(_LINE)] = bytes(drawn[number : len(_PLACES) * lines : len(_PLACES)]).translate(_ASCII)
    lexemes: list[str] = []
    for call in range(len(VERBS) * lines, calls):
        place = call % len(VERBS)
        end = ");\n" if place == len(VERBS) - 1 else "); "
        lexemes += (VERBS[place], "(", str(drawn[2 * call]), ",", str(drawn[2 * call + 1]), end)
    return written.decode() + "".join(lexemes[: units - UNITS_PER_LINE * lines])


class Marks:
    """The marks of one seed: mark k differs from all 51 before it in its first character, from 1,351 in its first two.

    A tokenizer that cuts after one letter can see no sooner than that. Vowels come second before consonants do,
    because most tokenizers have `Ba` as one token and many lack `Bq`. From 1,352 on marks grow longer.
    """

    def __init__(self, key: str) -> None:
        self._first = draws.shuffled(f"{key}/first", list(ascii_letters))
        self._second = {letter: _second(f"{key}/{letter}") for letter in self._first}

    def __getitem__(self, index: int) -> str:
        turn, place = divmod(index, len(self._first))
        letter = self._first[place]
        further, second = divmod(turn, len(ascii_lowercase))
        return letter + self._second[letter][second] + _letters(further)


def _second(key: str) -> list[str]:
    return draws.shuffled(key, list(VOWELS)) + draws.shuffled(key, [x for x in ascii_lowercase if x not in VOWELS])


def _letters(number: int) -> str:
    """`number` in bijective base 26: "", a, b, … z, aa, …"""
    text = ""
    while number:
        number, digit = divmod(number - 1, len(ascii_lowercase))
        text = ascii_lowercase[digit] + text
    return text
