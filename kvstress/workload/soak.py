"""A fixed probe among a load that goes on for hours: what ages, drifts or leaks shows where the same is asked again.

The load is drawn anew for ever, with some of it sent again, so that pages come and go as they do in production; the
probe is the same prompt every time, and its answers and its times are held against its first ones. It waits until the
load under way has ended: what it then takes says something about the server, and not about the queue.
"""

from collections.abc import Iterator
from itertools import count

from kvstress.core.sizing import Sizing
from kvstress.workload import draws, text
from kvstress.workload.body import user
from kvstress.workload.format import Spec
from kvstress.workload.markers import facts
from kvstress.workload.pacing import dues
from kvstress.workload.prompt import Content, Prompt, label
from kvstress.workload.sources import Soak

LOAD, PROBE = "load", "probe"
# A prompt is sent again out of so many before it.
_BACK = 16


def soak(source: Soak, spec: Spec, key: str, sizing: Sizing) -> Content:
    """Load and probes in the order in which they are due; they never end."""
    return Content(
        prompts=lambda: _merged(_loads(source, spec, key, sizing), _probes(source, key, sizing)),
        total=None,
        sentence=f"generated code-like text: one fixed probe of {label(source.probe)} tokens every "
        f"{source.probe_every:g} s over a load of distinct prompts, {100 * source.again:.0f} % of them sent again",
    )


def _merged(loads: Iterator[Prompt], probes: Iterator[Prompt]) -> Iterator[Prompt]:
    load, probe = next(loads), next(probes)
    while True:
        if (probe.due or 0.0) <= (load.due or 0.0):
            yield probe
            probe = next(probes)
        else:
            yield load
            load = next(loads)


def _probes(source: Soak, key: str, sizing: Sizing) -> Iterator[Prompt]:
    # Number 0 is the probe's; its text is made once, because nothing of it ever changes.
    words, recipe = _made(source, f"{key}/probe", 0, source.probe, sizing)
    for number in count():
        yield Prompt(
            label=PROBE,
            messages=user(words),
            recipe=recipe,
            tokens=source.probe,
            phase=PROBE,
            due=number * source.probe_every,
            barrier=True,
        )


def _loads(source: Soak, spec: Spec, key: str, sizing: Sizing) -> Iterator[Prompt]:
    for number, due in enumerate(dues(spec.schedule, key, sizing.alone)):
        which = _which(source, key, number)
        context = source.contexts[which % len(source.contexts)]
        tokens = context - round(context * source.spread * draws.fraction(f"{key}/{which}/length"))
        words, recipe = _made(source, f"{key}/{which}", which + 1, tokens, sizing)
        yield Prompt(label=label(context), messages=user(words), recipe=recipe, tokens=tokens, phase=LOAD, due=due)


def _which(source: Soak, key: str, number: int) -> int:
    """The prompt that load `number` sends: its own, or that of one a short while before it."""
    # What is gone back to may itself have gone back: the prompt is that of the first of them.
    while number > 0 and draws.fraction(f"{key}/{number}/again") < source.again:
        number -= 1 + int(draws.fraction(f"{key}/{number}/which") * min(number, _BACK))
    return number


def _made(source: Soak, name: str, number: int, tokens: int, sizing: Sizing) -> tuple[str, str]:
    """The words of a prompt and its recipe. Its number comes first, so that no two have a beginning in common."""
    told = facts(name.rpartition("/")[0], number) if source.facts else None
    units = sizing.units(tokens)
    words = text.prompt(name, f"{number:x}", units, told)
    return words, f"generated text {name} units={units}" + (f" {told.recipe}" if told else "")
