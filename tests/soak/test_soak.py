"""The short form of a day's soak, in virtual time: probes on their minute, all oracles armed, and an ageing server."""

from itertools import pairwise
from pathlib import Path

import pytest

from kvstress.core.events import Event, RequestSent, Stop
from kvstress.core.verdict import Verdict
from tests.soak.virtual import soak

QUICK = {"contexts": "100,200", "probe": "200"}


def test_two_hours_pass_and_the_probe_is_sent_every_minute_to_an_idle_server(tmp_path: Path) -> None:
    probes: list[float] = []
    open_now: set[str] = set()

    def watch(event: Event) -> None:
        if isinstance(event, RequestSent):
            if event.phase == "probe":
                assert not open_now, "the load pauses for the probe"
                probes.append(event.at)
            open_now.add(event.request)
        else:
            open_now.discard(getattr(event, "request", ""))

    settings = {**QUICK, "schedule.every": "10s", "max_duration": "2h"}
    done = soak(tmp_path / "run", settings, service=lambda now: 6.0, watch=watch)
    assert (done.judgement.verdict, done.stop) == (Verdict.PASS, Stop.DURATION), done.judgement.why
    assert done.seconds == pytest.approx(2 * 3600, abs=60)
    assert len(probes) == 120 and done.judgement.steps > 700
    # A probe that waits for the load under way is late; the next one is due on its own minute all the same.
    assert all(0 <= at - 60 * number < 120 for number, at in enumerate(probes))
    assert sum(later - earlier for earlier, later in pairwise(probes)) / 119 == pytest.approx(60, rel=0.02)


def test_a_server_that_ages_fails_at_a_probe(tmp_path: Path) -> None:
    settings = {**QUICK, "schedule.every": "60s", "max_duration": "6h"}
    done = soak(tmp_path / "run", settings, service=lambda now: 2.0 * (1 + now / 3600))
    first = done.judgement.first_failure
    assert done.judgement.verdict is Verdict.FAIL and first is not None
    assert (first.signature, first.phase) == ("TREND:slower", "probe")
    assert 3600 < done.seconds < 3 * 3600
