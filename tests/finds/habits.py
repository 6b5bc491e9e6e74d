"""Harmless habits that real servers have, one a row: each was once taken for a bug, and none may raise an alarm.

They are played by one small server without a model (`habit_server.py`), because the reference server is too
well-behaved to show most of them. The first word of `control` is the number of the negative control.
"""

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Habit:
    """What this server does otherwise than the plainest one. Times in seconds.

    `block`: cached tokens come in multiples of it, `lost` blocks fewer than could be; `template` tokens hit for
    everybody. `usage`: what the cache gauge counts. `counted`: how often the books count an answer. `a_chunk`:
    tokens per event. `text`: what answers look like. `differs`: when the text of an answer changes.
    """

    control: str
    block: int = 16
    lost: int = 0
    template: int = 0
    first_call: float = 0.0
    a_token: float = 0.0
    dark: bool = False
    usage: Literal["cached", "running", "frozen"] = "cached"
    counted: int = 1
    a_chunk: int = 1
    text: Literal["words", "junk", "loop", "blank"] = "words"
    differs: Literal["never", "warm", "beside", "each"] = "never"
    masked: bool = False
    framing: bool = False


HABITS: dict[str, Habit] = {
    "near-tie": Habit(control="1 a warm answer differs from the cold one where two tokens nearly tie", differs="warm"),
    "quantised": Habit(control="2 cached tokens in steps of 832, none below", block=832, lost=1),
    "bos": Habit(control="2 n - 1 tokens cached on a resend, and 1 for an unrelated prompt", block=1, template=1),
    "first-call": Habit(control="3 the first call compiles", first_call=2.0),
    "running-gauge": Habit(control="4 usage counts only running requests", usage="running"),
    "cached-gauge": Habit(control="4 usage counts pages that could be evicted"),
    "frozen-gauge": Habit(control="4 gauges stand still after an abort until the next request", usage="frozen"),
    "sequences": Habit(control="5 the books count sequences and not requests", counted=2),
    "masked": Habit(control="6 masked tokens have a log-probability of -9999", masked=True),
    "template": Habit(control="7 blocks of the chat template hit for everybody", template=48),
    "sampled": Habit(control="7 an answer at temperature depends on earlier traffic", differs="each"),
    "dark-health": Habit(control="8 /health is 503 while a prompt is read", dark=True, a_token=0.05),
    "blank": Habit(control="9 a grammar without bounds floods white space", text="blank"),
    "framing": Habit(control="10 streams framed in odd but legal ways", framing=True),
    "chunks": Habit(control="11 three tokens a chunk", a_chunk=3),
    "lost-block": Habit(control="12 drafting costs one block of reuse", block=64, lost=1),
    "slow": Habit(control="13 slow", a_token=0.12),
    "uniform": Habit(control="14 dummy weights: every token as likely as any other", text="junk"),
    "loop": Habit(control="15 a small model that loops from its first answer on", text="loop"),
    "batch-noise": Habit(control="16 answers differ beside others", differs="beside"),
}


def command(name: str, log: Path) -> str:
    """The command that starts a server with this habit; it writes to `log` each time that the habit shows."""
    return f"{shlex.join([sys.executable, '-m', 'tests.finds.habit_server', name, str(log)])} {{port}}"
