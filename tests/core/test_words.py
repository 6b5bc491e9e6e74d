"""Signatures keep what identifies a failure and drop what changes from request to request."""

import pytest

from kvstress.core.exchange import Exchange
from kvstress.core.outcome import OUTCOME_OF, Kind
from kvstress.core.words import cap, identity, status_cell


def test_small_numbers_stay_because_error_6_is_not_error_7() -> None:
    assert identity("prepared model reported device error 6") != identity("prepared model reported device error 7")


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("request 627c4389-79a7-410c-8efd-2bef074feba0: dead", "request 81a7b969-415a-4c42-b01a-88fdc4e57823: dead"),
        ("request (18024 tokens) exceeds 16384", "request (20111 tokens) exceeds 16384"),
        ("id chatcmpl-HP1dCKHU8pR2 failed", "id chatcmpl-Kd9iCKotpoVe failed"),
        ("took 1.25 s", "took 0.75 s"),
        ("at 0x7ffd12345678", "at 0x7ffd87654321"),
    ],
)
def test_volatile_parts_do_not_make_a_new_failure(left: str, right: str) -> None:
    assert identity(left) == identity(right)


def test_capped_text_says_how_much_is_missing() -> None:
    assert cap("x" * 2_500) == "x" * 2_000 + "… [500 more characters]"


def test_a_failed_cell_holds_the_first_120_characters_of_the_body() -> None:
    failed = Exchange(request="r", due=0.0, sent=0.0, ended=1.0, kind=Kind.SERVER_ERROR, error_bytes="e" * 500)
    assert status_cell(failed) == "fail: " + "e" * 120
    assert status_cell(Exchange(request="r", due=0.0, sent=0.0, ended=1.0, kind=Kind.OK)) == "ok"


def test_every_kind_has_an_outcome() -> None:
    assert set(OUTCOME_OF) == set(Kind)
