"""A small workload, as text and as a Spec."""

from collections.abc import Callable

import pytest

from kvstress.workload.spec import Spec, parse

GOOD = """\
name = "small"
hunts = "a bug"

[source]
kind = "speedbench"
contexts = ["2k", 4000]

[[phases]]
name = "prime"
max_tokens = 1

[[phases]]
name = "warm"
max_tokens = 64

[stop]
max_duration = "25m"
"""


@pytest.fixture
def good() -> str:
    return GOOD


@pytest.fixture
def spec() -> Spec:
    return parse(GOOD, "small.toml")


@pytest.fixture
def with_change() -> Callable[[str, str], str]:
    """The workload's text with one part replaced, which must be there."""

    def change(old: str, new: str) -> str:
        assert old in GOOD
        return GOOD.replace(old, new)

    return change
