"""An oracle that is not asked about an event would have done nothing with it; and what it remembers costs the same."""

import pickle

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvstress.core.events import Event, RequestSent, StepEnded, StepStarted
from kvstress.core.exchange import Exchange
from kvstress.oracles import recent
from kvstress.oracles.hearing import DEAF_TO
from kvstress.oracles.judge import ORACLES
from kvstress.oracles.recent import Recent
from tests.oracles.runs import manifest
from tests.oracles.story import any_events
from tests.oracles.test_all_oracles import ANY, EVERY

STEPS = st.one_of(
    st.builds(StepStarted, at=st.just(1.0), step=st.integers(0, 3), label=st.just("1k")),
    st.builds(StepEnded, at=st.just(2.0), step=st.integers(0, 3), label=st.just("1k"), seconds=st.just(1.0)),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(ANY, any_events()), st.lists(STEPS, min_size=1, max_size=4))
def test_what_an_oracle_does_not_hear_would_have_changed_nothing_in_it(events: list[Event], steps: list[Event]) -> None:
    for name, make in ORACLES:
        oracle, asked = make(manifest(EVERY)), dict[str, RequestSent]()
        for event in [*steps, *events, *steps]:
            request = asked.pop(event.request, None) if isinstance(event, Exchange) else None
            if isinstance(event, RequestSent):
                asked[event.request] = event
            if name not in DEAF_TO.get(type(event), ()):
                oracle.see(event, request)
                continue
            before = pickle.dumps(oracle)
            assert oracle.see(event, request) == (), name
            assert pickle.dumps(oracle) == before, name


def test_every_deaf_name_is_an_oracle_and_every_oracle_hears_something() -> None:
    assert set().union(*DEAF_TO.values()) <= set(EVERY)
    assert not frozenset.intersection(*DEAF_TO.values())


@given(st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=80), st.integers(1, 6), st.integers(1, 4))
def test_a_recent_dict_forgets_what_was_set_longest_ago(sets: list[tuple[int, bool]], most: int, gaps: int) -> None:
    kept, plain = Recent[int, int](), dict[int, int]()
    usual, recent._GAPS = recent._GAPS, gaps  # type: ignore[misc]
    try:
        for value, (key, anew) in enumerate(sets):
            for memory in (kept, plain):
                if anew:
                    memory.pop(key, None)
                memory[key] = value
            kept.trim(most)
            while len(plain) > most:
                del plain[next(iter(plain))]
            assert list(kept.items()) == list(plain.items())
    finally:
        recent._GAPS = usual  # type: ignore[misc]
