"""Sentences carry their exposure and claim nothing that was not seen."""

from kvstress.search.conclusion import conclude
from kvstress.search.outcome import Cell, Outcome, Seen, Showing
from kvstress.search.space import space
from kvstress.search.words import Story, exposure, headline, sentence, shown

GRID = space("40G", "96G")
FAILED = Outcome(showing=Showing.FAILS, first_failure=36, pool_fill=35, exposure=37)
SURVIVED = Outcome(showing=Showing.SURVIVED, exposure=40, pool_fill=38)
IDLE = Outcome(showing=Showing.NOT_EXERCISED, exposure=40)
REFUSED = Outcome(showing=Showing.REFUSED, why="the server exited with code 2; its last log lines: too small")
MUTE = Outcome(showing=Showing.UNJUDGED, why="refused as too long")


def story(repeats: int = 1, **probes: Outcome) -> Story:
    """A story of probes given as `G60=FAILED`."""
    found = [(GRID.find(f"{name[1:]}G"), outcome) for name, outcome in probes.items()]
    seen = [Seen(cell=Cell(index=index), outcome=outcome) for index, outcome in found if index is not None]
    assert len(seen) == len(probes)
    answer = conclude(GRID.count, seen, repeats=repeats)
    return Story(knob="memory_limit", space=GRID, seen=seen, found=answer, q=0.5, steps=40)


def test_a_boundary_is_told_with_its_exposure() -> None:
    told = story(G40=FAILED, G60=FAILED, G61=SURVIVED, G96=IDLE)
    assert sentence(told).startswith(
        "fails within 40 steps below 61G: 60G FAILS at prompt 36, pool full at 35; "
        "61G SURVIVED 40 steps, pool full at 38"
    )
    assert headline(told) == "60G fails, 61G passes"
    assert exposure(told) == 40


def test_a_passing_value_whose_pool_never_filled_is_told_as_that() -> None:
    assert "61G NOT EXERCISED: 40 steps without a failure, the pool never filled" in sentence(
        story(G60=FAILED, G61=IDLE)
    )


def test_an_open_stretch_is_told() -> None:
    assert "what lies between the two was not judged" in sentence(story(G40=FAILED, G96=SURVIVED))


def test_refusals_and_silence_are_added_to_whatever_was_found() -> None:
    told = sentence(story(G40=REFUSED, G41=REFUSED, G42=FAILED, G60=MUTE, G61=SURVIVED, G96=REFUSED))
    assert "; refuses to start at 41G and starts at 42G" in told
    assert "; starts at 61G and refuses to start at 96G" in told
    assert told.endswith("; could not be judged at 60G")


def test_survived_and_not_exercised_are_told_apart() -> None:
    told = sentence(story(G40=SURVIVED, G96=IDLE))
    assert told == ("no failure found within 40 steps; survived at 40G; not exercised at 96G (the pool never filled)")


def test_a_ragged_edge_names_its_values() -> None:
    told = sentence(story(G40=FAILED, G68=FAILED, G69=SURVIVED, G70=FAILED, G71=SURVIVED))
    assert told.startswith(
        "not monotone: fails at 2 values from 40G to 68G, passes at 69G, fails at 70G, passes at 71G; "
        "there is no single"
    )


def test_a_server_that_never_starts_is_told_in_its_own_words() -> None:
    told = sentence(story(G40=REFUSED, G96=REFUSED))
    assert told == f"refused to start at every limit tried: {REFUSED.why}"


def test_an_outcome_without_a_step_says_that_it_failed_afterwards() -> None:
    assert shown(Outcome(showing=Showing.FAILS)) == "FAILS after its prompts, the pool was not seen to fill"
