"""The rules for a few runs a side: what comes again is a regression, and twice as far is better."""

import pytest

from kvstress.gate.change import Change, changed
from kvstress.gate.evidence import First, Seen


def failed(step: int, signature: str = "device error 6", plan: str = "p") -> Seen:
    return Seen(run="r", plan=plan, first=First(step=step, failed=True, signature=signature), levels={"pool_fill": 3.0})


def passed(steps: int, *, full: bool = True, plan: str = "p") -> Seen:
    levels = {"pool_fill": 3.0 if full else None}
    return Seen(run="r", plan=plan, first=First(step=steps, failed=False), levels=levels)


NOTHING = Seen(run="r", plan="p", first=None)


@pytest.mark.parametrize(
    ("base", "head", "expected"),
    [
        ([passed(143)], [failed(14), failed(14)], Change.REGRESSED),
        ([passed(143)], [failed(14), failed(20), passed(143)], Change.REGRESSED),
        ([passed(143)], [failed(14)], Change.CANNOT_TELL),
        ([passed(143)], [failed(14), failed(14, "reset")], Change.CANNOT_TELL),
        ([passed(10)], [failed(14), failed(14)], Change.CANNOT_TELL),
        ([passed(143), failed(12)], [failed(14), failed(14)], Change.CANNOT_TELL),
        ([failed(16)], [failed(10), failed(10)], Change.REGRESSED),
        ([failed(16)], [passed(32)], Change.IMPROVED),
        ([failed(16), failed(20)], [passed(143), passed(40)], Change.IMPROVED),
        ([failed(16), failed(20)], [passed(143), passed(39)], Change.CANNOT_TELL),
        ([failed(16)], [passed(143, full=False)], Change.CANNOT_TELL),
        ([failed(16)], [passed(143), failed(90)], Change.CANNOT_TELL),
        ([failed(16)], [passed(143), NOTHING], Change.CANNOT_TELL),
        ([passed(143)], [passed(143)], Change.CANNOT_TELL),
        ([passed(143), NOTHING], [failed(14), failed(14)], Change.CANNOT_TELL),
        ([passed(143, plan="other")], [failed(14), failed(14)], Change.CANNOT_TELL),
    ],
)
def test_it_is_called_by_rule(base: list[Seen], head: list[Seen], expected: Change) -> None:
    found = changed(tuple(base), tuple(head))
    assert found.change is expected and found.words.startswith(f"{expected}: ")


def test_where_nobody_can_tell_it_says_what_would() -> None:
    assert "one more run" in changed((passed(143),), (failed(14),)).said
    assert "it takes 32" in changed((failed(16),), (passed(20),)).said
    assert "at prompt 14" in changed((passed(143),), (failed(18), failed(14))).said
