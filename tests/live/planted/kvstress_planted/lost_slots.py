"""A request whose client hangs up takes its place in the batch with it.

Its blocks come back and its gauges go down, as in a healthy vLLM; only the number of requests that may be admitted at
a time is one smaller for ever. (The batch's own size must stay: vLLM asserts that the batch is within it, and an engine
that stops at its own assertion would be found for another reason.) It fires at each abort.
"""

from collections.abc import Callable

from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.request import RequestStatus


def plant(fired: Callable[[str], None]) -> None:
    """Arm it in this process."""
    finish = Scheduler.finish_requests

    def finish_requests(scheduler, request_ids, status):
        ended = finish(scheduler, request_ids, status)
        if status == RequestStatus.FINISHED_ABORTED and ended:
            scheduler.max_num_active_reqs = max(0, scheduler.max_num_active_reqs - len(ended))
            fired(f"{len(ended)} aborted, room for {scheduler.max_num_active_reqs} left")
        return ended

    Scheduler.finish_requests = finish_requests
