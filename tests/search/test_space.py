"""Values are exact, units are what they say, and what cannot be meant is refused in one sentence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstress.core.errors import UsageError
from kvstress.search.space import space


@pytest.mark.parametrize(
    ("low", "high", "resolution", "form", "count", "texts"),
    [
        ("40G", "96G", None, None, 57, ("40G", "41G", "96G")),
        ("40GiB", "44GB", "512M", None, 9, ("40960M", "41472M", "45056M")),
        ("64M", "1G", "64M", "{bytes}", 16, ("67108864", "134217728", "1073741824")),
        ("40G", "42G", None, "{G}GiB", 3, ("40GiB", "41GiB", "42GiB")),
        ("16k", "64k", "16k", None, 4, ("16000", "32000", "64000")),
        ("128", "1000", "256", None, 5, ("128", "384", "1000")),
        ("0.5", "0.9", None, None, 41, ("0.5", "0.51", "0.9")),
        ("0.5", "0.9", "0.1", "--fraction={value}", 5, ("--fraction=0.5", "--fraction=0.6", "--fraction=0.9")),
    ],
)
def test_a_grid_is_written_as_the_server_reads_it(
    low: str, high: str, resolution: str | None, form: str | None, count: int, texts: tuple[str, str, str]
) -> None:
    grid = space(low, high, resolution, form)
    assert grid.count == count
    assert (grid.text(0), grid.text(1), grid.text(count - 1)) == texts


def test_memory_is_binary_and_tokens_are_decimal() -> None:
    assert space("50G", "51G").value(0) == 50 * 2**30
    assert space("16k", "17k").value(0) == 16_000


@given(st.integers(1, 500), st.integers(1, 500), st.integers(1, 40))
def test_every_value_is_found_again_by_what_is_shown(low: int, span: int, step: int) -> None:
    grid = space(f"{low}M", f"{low + span + step}M", f"{step}M")
    assert [grid.find(grid.show(index)) for index in range(grid.count)] == list(range(grid.count))
    assert grid.find(f"{low + span + step + 1}M") is None


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("40G", "96"), "--low 40G is a memory size and --high 96 is a plain number: give both in one unit"),
        (("40G", "96k"), "--high 96k is a token count"),
        (("40G", "96G", "512"), "--resolution 512 is a plain number"),
        (("96G", "40G"), "--low 96G is not below --high 40G"),
        (("40G", "40G"), "is not below"),
        (("40 Q", "96G"), "cannot read --low '40 Q'"),
        (("-4", "96"), "cannot read --low"),
        (("1", "9", "0"), "--resolution must be above 0"),
        (("1", "9", "20"), "no larger than the range"),
        (("0", "1000000000000"), "choose a coarser one"),
        (("1", "9", None, "size"), "--knob-format 'size' never uses the value"),
        (("1", "9", None, "{gigs}"), r"has no field \{gigs\}"),
    ],
)
def test_what_cannot_be_meant_is_refused(words: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        space(*words)
