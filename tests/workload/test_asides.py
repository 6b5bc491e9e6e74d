"""What may be asked beside the traffic, and when it stays away."""

import pytest

from kvstress.core.plan import Origin
from kvstress.core.sizing import ASSUMED, Sizing
from kvstress.workload.asides import capacity, health, health_rounds
from kvstress.workload.spec import Spec, override

MEASURED = Sizing(overhead=10, per_unit=1.0, how="measured")


def test_one_short_tagged_request_asks_whether_the_server_still_generates() -> None:
    probe = health("model", 0)
    assert (probe.id, probe.origin, probe.step) == ("aside.health", Origin.ASIDE, None)
    assert probe.body["max_tokens"] == 1
    assert probe.body["model"] == "model"


@pytest.mark.parametrize(("key", "text"), [("aside.when", "never"), ("max_requests", "0")])
def test_a_workload_can_forbid_it(spec: Spec, key: str, text: str) -> None:
    assert health_rounds(spec, 3) == 3
    assert health_rounds(override(spec, {key: text}), 3) == 0


def test_the_capacity_is_probed_only_where_it_is_asked_for_known_and_within_the_context(spec: Spec) -> None:
    wanted = override(spec, {"aside.capacity": "true"})
    probe = capacity("model", wanted, 0, MEASURED, pool=1000.0, context=None)
    assert probe is not None and probe.tokens == 900
    assert capacity("model", spec, 0, MEASURED, pool=1000.0, context=None) is None
    assert capacity("model", wanted, 0, ASSUMED, pool=1000.0, context=None) is None
    assert capacity("model", wanted, 0, MEASURED, pool=None, context=None) is None
    assert capacity("model", wanted, 0, MEASURED, pool=1000.0, context=950) is None
