"""The command line of the reference server: a value that no server could have is told before anything is built."""

import pytest

from kvstress.refserver.build import parser


@pytest.mark.parametrize(
    ("flag", "value", "said"),
    [
        ("--port", "65536", "'65536' is no port"),
        ("--port", "-1", "'-1' is no port"),
        ("--max-running", "0", "'0' is no count"),
        ("--step-delay", "-1", "'-1' is no time"),
        ("--step-delay", "nan", "'nan' is no time"),
        ("--step-delay", "soon", "'soon' is no time"),
        ("--dedicated-snapshots", "5-1", "'5-1' is no range of slots"),
    ],
)
def test_a_value_that_cannot_be_is_a_wrong_call(
    flag: str, value: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args([flag, value])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_the_ends_of_each_range_are_taken() -> None:
    taken = parser().parse_args(
        ["--port", "65535", "--max-running", "1", "--step-delay", "0", "--dedicated-snapshots", "0-0"]
    )
    assert (taken.port, taken.max_running, taken.step_delay, taken.dedicated_snapshots) == (65535, 1, 0.0, (0, 0))
