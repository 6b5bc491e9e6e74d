"""A server without a process: what it fails at is planted, so that what a search finds can be compared with it."""

import random
from collections.abc import Collection, Sequence

from kvstress.core.case import Case, Piece, Text
from kvstress.core.plan import Request, Step
from kvstress.search.keeper import Shown, Shows


def numbered(count: int, phases: Sequence[str] = ("send",), units: int = 600) -> Case:
    """A case of `count` prompts of `units`, each sent once a phase."""
    steps = tuple(
        Step(
            index=index,
            label="16k",
            requests=tuple(
                Request(id=f"s{index}.{phase}", step=index, phase=phase, body=_body(index)) for phase in phases
            ),
        )
        for index in range(count)
    )
    texts = {f"t{index}": Text(key=f"k/{index}", mark="A", units=units) for index in range(count)}
    return Case(steps=steps, texts=texts)


def _body(index: int) -> dict[str, object]:
    return {
        "model": "m",
        "messages": [{"role": "user", "content": Piece(name=f"t{index}")}],
        "max_tokens": 64,
        "temperature": 1.0,
        "stream": True,
        "top_p": 0.9,
    }


class Planted:
    """Fails at the last of the requests `cause` once all of them were sent in order, with probability `rate`."""

    def __init__(self, cause: Collection[str], rate: float = 1.0, seed: int = 0) -> None:
        self.cause = list(cause)
        self.probes = 0
        self._rate = rate
        self._draw = random.Random(seed)

    async def __call__(self, case: Case) -> Shown:
        self.probes += 1
        left = list(self.cause)
        for place, step in enumerate(case.steps):
            for request in step.requests:
                if left and request.id == left[0]:
                    left.pop(0)
                if not left:
                    return self._shown(case, place)
        return Shown(shows=Shows.PASSED, sent=len(case.steps))

    def _shown(self, case: Case, place: int) -> Shown:
        if self._draw.random() >= self._rate:
            return Shown(shows=Shows.PASSED, sent=len(case.steps))
        return Shown(shows=Shows.SAME, sent=place + 1, at=place)


class Pool:
    """Fails at the first prompt that is sent again once `capacity` units were taken by distinct prompts."""

    def __init__(self, capacity: int, sharing: bool = True) -> None:
        self.capacity = capacity
        self.probes = 0
        self._sharing = sharing

    async def __call__(self, case: Case) -> Shown:
        self.probes += 1
        taken, met = 0, set[str]()
        room = self.capacity if case.value is None else self.capacity * case.value // 50
        for place, step in enumerate(case.steps):
            for request in step.requests:
                names = [name for name in case.texts if name in repr(request.body)]
                again = all(name in met for name in names)
                answers = 1 if self._sharing else int(request.body.get("n", 1))
                taken += 0 if again else answers * sum(case.texts[name].units for name in names)
                met.update(names)
                if again and taken >= room > 0:
                    return Shown(shows=Shows.SAME, sent=place + 1, at=place)
        return Shown(shows=Shows.PASSED, sent=len(case.steps))


class Racy:
    """A pool that answers share nothing of; where a request asks for several at once it fails in half of its probes."""

    def __init__(self, capacity: int, seed: int) -> None:
        self._pool = Pool(capacity, sharing=False)
        self._draw = random.Random(seed)

    async def __call__(self, case: Case) -> Shown:
        shown = await self._pool(case)
        if case.breadth > 1 and self._draw.random() < 0.5:
            return Shown(shows=Shows.PASSED, sent=len(case.steps))
        return shown
