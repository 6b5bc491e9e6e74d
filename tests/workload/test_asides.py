"""The probe after the last step, and when it stays away."""

import pytest

from kvstress.core.plan import Origin
from kvstress.workload.asides import after
from kvstress.workload.spec import Spec, override


def test_one_short_tagged_request_asks_whether_the_server_still_generates(spec: Spec) -> None:
    (probe,) = after("model", spec)
    assert (probe.id, probe.origin, probe.step) == ("aside.health", Origin.ASIDE, None)
    assert probe.body["max_tokens"] == 1
    assert probe.body["model"] == "model"


@pytest.mark.parametrize(("key", "text"), [("aside.when", "never"), ("max_requests", "0")])
def test_a_workload_can_forbid_it(spec: Spec, key: str, text: str) -> None:
    assert after("model", override(spec, {key: text})) == ()
