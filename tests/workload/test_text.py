"""Stand-in text: low entropy, distinct from the first token on, and the same number of tokens per unit everywhere."""

import re
import zlib
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstress.core.sizing import fit
from kvstress.workload import sizing, text

Tokenize = Callable[[str], list[str]]

TOKENIZERS: dict[str, Tokenize] = {
    "a byte is a token": lambda prompt: [*prompt],
    "words and digits, spaces apart": lambda prompt: re.findall(r"[a-zA-Z]+|\d|\s+|[^\w\s]", prompt),
    "words take their space along": lambda prompt: re.findall(r" ?[a-zA-Z]+|\d|\s|[^\w\s]", prompt),
    "punctuation runs are one token": lambda prompt: re.findall(r" ?[a-zA-Z]+|\d{1,3}| ?[^\w\s]+\s*|\s+", prompt),
    "three letters at most": lambda prompt: re.findall(r"[a-zA-Z]{1,3}|\d|\s|[^\w\s]", prompt),
    "four characters at most": lambda prompt: re.findall(r".{1,4}", prompt, re.DOTALL),
    "what spaces divide": lambda prompt: prompt.split(),
}


def prompt(seed: int, index: int, units: int) -> str:
    key = f"speedbench/{seed}"
    return text.prompt(f"{key}/{index}", text.Marks(key)[index], units)


@pytest.mark.parametrize("tokens", [2_000, 16_000, 32_000])
@pytest.mark.parametrize("tokenize", TOKENIZERS.values(), ids=TOKENIZERS.keys())
def test_a_prompt_is_within_one_percent_of_its_size_once_the_server_has_counted(
    tokenize: Tokenize, tokens: int
) -> None:
    asked = [str(request.body["messages"][0]["content"]) for request in sizing.requests(None, seed=0)]
    line = fit(tuple(zip(sizing.UNITS, (len(tokenize(one)) for one in asked), strict=True)), "measured")
    assert len(tokenize(prompt(0, 3, line.units(tokens)))) == pytest.approx(tokens, rel=0.01)


@pytest.mark.parametrize("units", [2_000, 16_000, 32_000])
def test_the_text_compresses_to_less_than_a_quarter(units: int) -> None:
    written = prompt(0, 0, units).encode()
    assert len(zlib.compress(written)) < len(written) / 4


def test_the_vocabulary_is_small_and_fixed() -> None:
    words = set(re.findall(r"\w+", text.program("a", 50_000)))
    assert words == {*text.VERBS, *"0123456789"}


@given(st.integers(1, 500), st.integers(0, 500))
def test_a_shorter_program_is_the_beginning_of_a_longer_one(units: int, more: int) -> None:
    assert text.program("key", units + more).startswith(text.program("key", units))


def test_prompts_with_other_keys_part_early() -> None:
    beginnings = {text.program(f"speedbench/0/{step}", 60) for step in range(500)}
    assert len(beginnings) == 500


def test_a_prompt_ends_with_a_question() -> None:
    assert "?" in prompt(0, 0, 100)[-60:]


@pytest.mark.parametrize("seed", range(5))
def test_no_two_of_52_prompts_share_their_first_character(seed: int) -> None:
    assert len({prompt(seed, index, 10)[0] for index in range(52)}) == 52


@pytest.mark.parametrize("seed", range(5))
def test_no_two_of_1352_prompts_share_their_first_two_characters(seed: int) -> None:
    marks = text.Marks(f"speedbench/{seed}")
    assert len({marks[index][:2] for index in range(1352)}) == 1352


def test_every_mark_is_unlike_every_other_and_none_begins_another_prompt() -> None:
    marks = text.Marks("key")
    begun = sorted(f"{marks[index]}:" for index in range(40_000))
    assert not any(later.startswith(earlier) for earlier, later in pairwise(begun))


def test_sizing_prompts_begin_like_no_step() -> None:
    assert all(str(one.body["messages"][0]["content"])[0].isdigit() for one in sizing.requests(None, seed=0))


def test_another_seed_gives_another_order_and_another_text() -> None:
    assert prompt(0, 0, 500)[2:] != prompt(1, 0, 500)[2:]
    assert [text.Marks("a/0")[index] for index in range(52)] != [text.Marks("a/1")[index] for index in range(52)]
