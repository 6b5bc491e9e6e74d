"""A fixed probe among a load: when each is due, what is the same for ever, and how a load is said in per cent."""

from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from statistics import mean

import pytest

from kvstress.core.errors import UsageError
from kvstress.core.plan import Step
from kvstress.core.sizing import Sizing
from kvstress.workload.build import plan
from kvstress.workload.spec import override, parse

TEXT = (Path(__file__).parents[2] / "workloads" / "soak.toml").read_text()
SIZING = Sizing(overhead=84.0, per_unit=1.25, how="measured", alone=0.3)


def steps(count: int, sizing: Sizing = SIZING, **settings: str) -> list[Step]:
    spec = override(parse(TEXT, "soak.toml"), {"contexts": "100,200", **settings})
    return list(islice(plan(spec, seed=3, model="m", stream=None, sizing=sizing, data=None).steps(), count))


def test_probes_are_due_on_their_minute_and_never_change() -> None:
    seen = steps(2_000, SIZING, **{"schedule.every": "1s"})
    probes = [step for step in seen if step.requests[0].phase == "probe"]
    assert [step.due for step in probes] == [60.0 * number for number in range(len(probes))]
    assert len(probes) > 30 and all(step.barrier for step in probes)
    assert len({str(step.requests[0].body) for step in probes}) == 1
    assert all((before.due or 0.0) <= (after.due or 0.0) for before, after in pairwise(seen))
    assert all(len(step.requests) == 1 for step in seen)


def test_a_load_in_per_cent_follows_from_what_one_answer_takes_alone() -> None:
    def gap(sizing: Sizing) -> float:
        loads = [step.due or 0.0 for step in steps(3_000, sizing) if step.requests[0].phase == "load"]
        return mean(after - before for before, after in pairwise(loads))

    assert gap(SIZING) == pytest.approx(0.3 / 0.6, rel=0.1)
    assert gap(replace(SIZING, alone=None)) == pytest.approx(1.0 / 0.6, rel=0.1)


def test_a_quarter_of_the_load_was_sent_a_short_while_before() -> None:
    loads = [step.requests[0].recipe for step in steps(2_000) if step.requests[0].phase == "load"]
    again = [recipe in loads[max(0, place - 100) : place] for place, recipe in enumerate(loads)]
    assert mean(again) == pytest.approx(0.25, abs=0.05)


def test_a_soak_without_its_two_phases_or_a_rate_is_refused() -> None:
    with pytest.raises(UsageError, match="load and probe"):
        parse(TEXT.replace('name = "probe"', 'name = "other"'), "soak.toml")
    with pytest.raises(UsageError, match="mean time between steps"):
        parse(TEXT.replace("load = 0.6", ""), "soak.toml")
