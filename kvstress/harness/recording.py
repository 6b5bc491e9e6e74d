"""The one place where an event goes: to disk first, then to the judge, then to the eyes.

Disk first, because what was measured must survive whatever happens next; the judge before
the view, because the driver asks it whether to go on.
"""

from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from typing import Any

import anyio

from kvstress.client.wire import encode
from kvstress.core.events import Event, Lagged, RequestSent, Stop
from kvstress.core.exchange import Exchange
from kvstress.core.outcome import Kind
from kvstress.core.plan import Request
from kvstress.oracles.judge import Judge
from kvstress.store.rundir import RunWriter

Clock = Callable[[], float]
Watch = Callable[[Event], None]
# As `Wire.send`.
Send = Callable[..., Awaitable[Exchange]]


class Recorder:
    """Takes events in order. `stop()` answers the driver's question whether to go on."""

    def __init__(
        self, writer: RunWriter, judge: Judge, watch: Watch, *, keep_going: bool, ends_at_refusal: bool
    ) -> None:
        self._writer = writer
        self._judge = judge
        self._watch = watch
        self._keep_going = keep_going
        self._ends_at_refusal = ends_at_refusal
        self.refusal: Exchange | None = None
        self.interrupted = False

    @property
    def failed(self) -> bool:
        """Whether the server was seen to fail."""
        return self._judge.failed

    @property
    def steps(self) -> int:
        """How many steps have ended."""
        return self._judge.steps

    def emit(self, event: Event) -> None:
        """Record, judge and show one event. Raises CannotJudgeError when the disk takes no more."""
        stored = self._writer.append(event)
        # The judge sees what a later reader will see, so that judging again cannot come out differently.
        self._judge.see(stored)
        self._watch(stored)

    def body(self, request: str, body: bytes) -> None:
        """Record the bytes that are about to be sent, if the run keeps them."""
        self._writer.body(request, body)

    def note_refusal(self, exchange: Exchange) -> None:
        """Remember the first refusal of a step request that was too long: some workloads end there."""
        if self.refusal is None and exchange.kind is Kind.TOO_LONG:
            self.refusal = exchange

    def refusal_words(self) -> str:
        """The server's own words at the first refusal, and which request it was."""
        if self.refusal is None:
            return ""
        return f"{self.refusal.request} was refused as too long: {self.refusal.server_words or 'no words'}"

    def stop(self) -> Stop | None:
        """Why the driver should not go on, or None."""
        if self.interrupted:
            return Stop.INTERRUPTED
        if self._judge.failed and not self._keep_going:
            return Stop.FAILURE
        if self._ends_at_refusal and self.refusal is not None:
            return Stop.REFUSAL
        return None


def dispatcher(send: Send, recorder: Recorder, clock: Clock) -> Callable[[Request, float], Awaitable[Exchange]]:
    """A function that sends one request and records both its halves; a cancelled one is recorded as CANCELLED."""

    async def dispatch(request: Request, due: float) -> Exchange:
        body = encode(request.body)
        stream = bool(request.body.get("stream", False))
        recorder.body(request.id, body)
        recorder.emit(sent(request, body, stream, clock()))
        cancel = request.cancel
        try:
            exchange = await send(
                request.id,
                request.endpoint,
                body,
                stream=stream,
                due=due,
                cancel_after=cancel.after if cancel else None,
                cancel_chunks=cancel.chunks if cancel else None,
            )
        except anyio.get_cancelled_exc_class():
            now = clock()
            recorder.emit(Exchange(request=request.id, due=due, sent=due, ended=now, kind=Kind.CANCELLED))
            raise
        recorder.emit(exchange)
        if request.step is not None:
            recorder.note_refusal(exchange)
        return exchange

    return dispatch


LAG_TICK, LAG = 0.1, 0.5


async def notice_lag(emit: Callable[[Event], None], clock: Clock) -> None:
    """Emit a `Lagged` whenever this process stood still for half a second: what it timed meanwhile proves nothing."""
    while True:
        before = clock()
        await anyio.sleep(LAG_TICK)
        late = clock() - before - LAG_TICK
        if late > LAG:
            emit(Lagged(at=clock(), seconds=late))


def sent(request: Request, body: bytes, stream: bool, at: float) -> RequestSent:
    """The event that says that `request` leaves at `at`."""
    max_tokens = request.body.get("max_tokens")
    return RequestSent(
        at=at,
        request=request.id,
        step=request.step,
        phase=request.phase,
        origin=request.origin,
        endpoint=request.endpoint,
        recipe=request.recipe,
        body_sha256=sha256(body).hexdigest(),
        body_bytes=len(body),
        tokens=request.tokens,
        max_tokens=max_tokens if isinstance(max_tokens, int) else None,
        stream=stream,
        expect=request.expect,
        session=request.session,
        turn=request.turn,
        options=_options(request.body),
    )


# What is said elsewhere in the event, or what only the recipe may say.
_TOLD = frozenset({"model", "messages", "prompt", "max_tokens", "stream", "stream_options"})
_MOST_OPTIONS = 8_192


def _options(body: Mapping[str, Any]) -> str:
    """The body's other fields as JSON; without its tools when they are too long to keep for every request."""
    options = {key: value for key, value in body.items() if key not in _TOLD}
    text = encode(options).decode("utf-8", "replace")
    if len(text) > _MOST_OPTIONS:
        text = encode({key: value for key, value in options.items() if key != "tools"}).decode("utf-8", "replace")
    return text if len(text) <= _MOST_OPTIONS else ""
