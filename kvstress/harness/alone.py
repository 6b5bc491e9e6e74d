"""How long does one answer take when nothing else runs? A load that is said in per cent of it needs to know.

A few requests like those of the load are asked one after the other before the traffic; the median counts, because
the first request on a real engine compiles.
"""

from dataclasses import replace
from statistics import median

from kvstress.core.latency import e2e
from kvstress.core.outcome import Outcome
from kvstress.core.sizing import Sizing
from kvstress.harness.asides import Asking
from kvstress.workload import asides
from kvstress.workload.format import Spec
from kvstress.workload.sources import Soak

_ASKED = 5


async def timed_alone(asking: Asking, spec: Spec, model: str | None, seed: int, sizing: Sizing) -> Sizing:
    """`sizing` with the seconds that an answer takes alone; as it is where no schedule asks for them."""
    source = spec.source
    if spec.schedule.load is None or spec.schedule.every is not None or not isinstance(source, Soak):
        return sizing
    answers = [
        await asking.ask(asides.alone(model, spec, source, seed, sizing, number), patience=60.0)
        for number in range(_ASKED)
    ]
    took = [e2e(answer) for answer in answers if answer.outcome is Outcome.COMPLETED]
    return replace(sizing, alone=median(took)) if took else sizing
