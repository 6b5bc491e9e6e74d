"""Wire tests run on both event loops, whose transports report the end of a connection differently."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
import uvloop


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Any:
    """Runs a coroutine on each of the two event loops, whose transports report their ends differently."""
    factory = uvloop.new_event_loop if request.param == "uvloop" else None

    def runner(main: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=factory) as it:
            return it.run(main)

    return runner
