"""Three defects inside a real vLLM, one armed at a time; disarmed, the plug-in changes nothing.

`KVSTRESS_PLANTED` names the defect and `KVSTRESS_PLANTED_LOG` the file that is told whenever it fired. kvstress never
reads that file: a find counts only if the defect fired, so whoever runs the case looks there.
"""

import os
from pathlib import Path

from kvstress_planted import dirty_pages, lost_slots, stale_hash

_DEFECTS = {"stale-hash": stale_hash.plant, "dirty-pages": dirty_pages.plant, "lost-slots": lost_slots.plant}


def register() -> None:
    """vLLM calls this in each of its processes."""
    name = os.environ.get("KVSTRESS_PLANTED", "none")
    if name != "none":
        _DEFECTS[name](_fired)


def _fired(what: str) -> None:
    with Path(os.environ["KVSTRESS_PLANTED_LOG"]).open("a") as log:
        log.write(what + "\n")
