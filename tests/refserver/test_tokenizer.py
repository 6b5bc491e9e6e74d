"""The tokenizer loses nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kvstress.refserver import tokenizer
from tests.refserver.running import low_entropy


@given(st.text())
def test_decoding_what_was_encoded_gives_the_text_back(text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text


@given(st.text(), st.lists(st.integers(1, 5), max_size=20))
def test_a_stream_of_tokens_says_what_the_whole_says(text: str, cuts: list[int]) -> None:
    tokens, stream, said = tokenizer.encode(text), tokenizer.TextStream(), ""
    for cut in cuts:
        said, tokens = said + stream.feed(tokens[:cut]), tokens[cut:]
    assert said + stream.feed(tokens) + stream.close() == text


def test_no_text_makes_a_special_token() -> None:
    tokens = tokenizer.encode("".join(tokenizer.SPECIALS))
    assert min(tokens) >= tokenizer.FIRST_BYTE


def test_ordinary_text_takes_about_four_bytes_a_token() -> None:
    text = low_entropy("ordinary", 100_000)
    assert 3.5 < len(text) / len(tokenizer.encode(text)) < 6
