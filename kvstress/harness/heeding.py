"""A signal before the first prompt: a server may take minutes to come, or hang, and a person must be able to leave."""

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup

from kvstress.core.errors import Interrupted


@asynccontextmanager
async def heeding_signals() -> AsyncIterator[anyio.CancelScope]:
    """Until the scope is cancelled, a signal ends everything within, cleaned up. Raises Interrupted then.

    The plan heeds signals by itself, and ends in good order with a verdict.
    """
    heard, problem = False, None

    async def heed(tasks: TaskGroup, scope: anyio.CancelScope) -> None:
        nonlocal heard
        with scope, anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                heard = True
                tasks.cancel_scope.cancel()
                return

    async with anyio.create_task_group() as tasks:
        scope = anyio.CancelScope()
        tasks.start_soon(heed, tasks, scope)
        try:
            yield scope
        except Exception as error:  # noqa: BLE001 - raised again below: the group would wrap it, and callers name it
            problem = error
        scope.cancel()
    if heard:
        raise Interrupted("interrupted before the first prompt was sent: nothing was judged")
    if problem is not None:
        raise problem
