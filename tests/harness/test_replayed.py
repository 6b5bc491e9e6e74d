"""What a replay still knows of prompts that were cut down: whose codes they tell."""

import pytest

from kvstress.core.markers import Markers
from kvstress.harness.replayed import told

MARKERS = Markers("fuzz/3")
MINE, OLDER = MARKERS.marker(7, 1), MARKERS.marker(4, 0)


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        (f"{OLDER} and {MINE}", " markers=4,7 asks=1"),
        (MINE, " markers=7 asks=1"),
        (MARKERS.marker(7, 2), " markers=7"),
        (OLDER, " markers=4"),
        ("nothing of it is left", ""),
    ],
    ids=["whole", "the older part is cut off", "the code asked for is cut off", "the later part is cut off", "made up"],
)
def test_a_prompt_tells_the_codes_that_it_still_holds(prompt: str, words: str) -> None:
    assert told("fuzz fuzz/3/9 text markers=4,7 asks=1", prompt, MARKERS) == words
