"""repro.py: a reproducer that needs nothing but Python, for the engineer who will not install a tester first.

The program is `sender.py` of this folder, read as text, with the case written into it; so what is shipped is the file
that the tests run, and not a string that nobody could check.
"""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pprint import pformat
from typing import Any

from kvstress.core.plan import Expect

_HOLE = "CASE: dict[str, Any] = {}\n"
_TOLD = ("signature", "oracle", "summary", "phase", "words", "also")


def script(values: Mapping[str, Any]) -> str:
    """The program for `values`, the content of repro.json."""
    case = {
        "failure": {key: values["failure"].get(key) for key in _TOLD},
        "timeout": values["facts"]["timeout"],
        "sends_done": values["facts"]["sends_done"],
        "probes": [values["failed"], values["probes"]],
        "lanes": values["case"]["schedule"]["lanes"],
        "texts": values["case"]["texts"],
        "withheld": list(values["withheld"]),
        "steps": [[_plain(request) for request in step["requests"]] for step in values["case"]["steps"]],
    }
    return _program().replace(_HOLE, f"CASE: dict[str, Any] = {pformat(case, width=110, sort_dicts=False)}\n", 1)


def _plain(request: Mapping[str, Any]) -> dict[str, Any]:
    """What the program needs of a request."""
    wanted = ("id", "endpoint", "body", "beside", "delay", "cancel")
    refusable = {"refusable": True} if request.get("expect") == Expect.ANSWER_OR_REFUSAL else {}
    return {key: request[key] for key in wanted if request.get(key)} | refusable


@cache
def _program() -> str:
    return files("kvstress.report").joinpath("sender.py").read_text(encoding="utf-8")
