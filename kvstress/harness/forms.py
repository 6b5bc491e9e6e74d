"""Which forms of a prompt does this server take? Asked before the traffic, because a refused form is no failure.

A chat is taken for granted. The text of a plain completion, and its token ids, are part of the API and missing from
many servers; one short request each tells.
"""

from dataclasses import replace

from kvstress.core.outcome import Outcome
from kvstress.core.sizing import Sizing
from kvstress.harness.asides import Asking
from kvstress.workload import asides
from kvstress.workload.format import Spec
from kvstress.workload.sources import Fuzz


async def forms_taken(asking: Asking, spec: Spec, model: str | None, sizing: Sizing) -> Sizing:
    """`sizing` with the forms that the server was seen to take, of those that the workload sends."""
    if not isinstance(spec.source, Fuzz) or spec.aside.when == "never":
        return sizing
    taken = ["chat"]
    for form in ("text", "ids"):
        if form in spec.source.forms:
            answer = await asking.ask(asides.form(model, spec.source, form))
            taken += [form] * (answer.outcome is Outcome.COMPLETED)
    return replace(sizing, forms=tuple(taken))
