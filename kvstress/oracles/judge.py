"""The judge folds a run's events into its judgement, live and stored alike.

It joins exchanges with their requests, asks every armed oracle, and keeps the headlines:
first failure, pool fill, coverage, outcomes. It holds open requests and capped findings, never
the run.
"""

from collections import Counter
from collections.abc import Iterable

from kvstress.core.cold import is_at_twin
from kvstress.core.events import Event, RequestSent, RunEnded, StepEnded
from kvstress.core.exchange import Exchange
from kvstress.core.manifest import Manifest
from kvstress.core.outcome import Outcome
from kvstress.core.plan import Origin
from kvstress.core.verdict import Finding, FirstFailure, Judgement, Verdict
from kvstress.oracles.abort import Abort
from kvstress.oracles.admit import Admit
from kvstress.oracles.blast import Blast
from kvstress.oracles.cachedtok import CachedTokens
from kvstress.oracles.canary import Canary
from kvstress.oracles.coldwarm import ColdWarm
from kvstress.oracles.conclusion import conclude
from kvstress.oracles.coverage import CoverageFold
from kvstress.oracles.degen import Degen
from kvstress.oracles.empty import Empty
from kvstress.oracles.foreign import Foreign
from kvstress.oracles.health import Health
from kvstress.oracles.hearing import DEAF_TO
from kvstress.oracles.ledger import Ledger
from kvstress.oracles.liveness import Liveness
from kvstress.oracles.logprob import Logprob
from kvstress.oracles.metric import Metric
from kvstress.oracles.oracle import Oracle, OracleMaker
from kvstress.oracles.order import Order
from kvstress.oracles.pool_fill import PoolFillFold
from kvstress.oracles.pressure import Pressure
from kvstress.oracles.quiesce import Quiesce
from kvstress.oracles.reconcile import Reconcile
from kvstress.oracles.residue import Residue
from kvstress.oracles.seqbatch import SeqBatch
from kvstress.oracles.status import Status
from kvstress.oracles.stream import Stream
from kvstress.oracles.streameq import StreamEq
from kvstress.oracles.structure import Struct
from kvstress.oracles.survival import Survival
from kvstress.oracles.trend import Trend
from kvstress.oracles.usage import UsageSums

ORACLES: tuple[tuple[str, OracleMaker], ...] = (
    ("STATUS", Status),
    ("STREAM", Stream),
    ("LIVENESS", Liveness),
    ("SURVIVAL", Survival),
    ("HEALTH", Health),
    ("METRIC", Metric),
    ("USAGE", UsageSums),
    ("LOGPROB", Logprob),
    ("EMPTY", Empty),
    ("DEGEN", Degen),
    ("CACHEDTOK", CachedTokens),
    ("STRUCT", Struct),
    ("ADMIT", Admit),
    ("BLAST", Blast),
    ("ABORT", Abort),
    ("QUIESCE", Quiesce),
    ("RECONCILE", Reconcile),
    ("FOREIGN", Foreign),
    ("CANARY", Canary),
    ("COLDWARM", ColdWarm),
    ("STREAMEQ", StreamEq),
    ("SEQBATCH", SeqBatch),
    ("ORDER", Order),
    ("PRESSURE", Pressure),
    ("TREND", Trend),
    ("RESIDUE", Residue),
)

# What a twin answers is held against the server under test, and is no word about that server itself.
COMPARES = frozenset({"CANARY", "COLDWARM", "DEGEN"})

_FINDINGS_CAP = 500
_PER_SIGNATURE_CAP = 20


class Judge:
    """Feed it every event in order with `see`; ask `judgement()` at any time.

    `failed` turns true at the first FAIL finding and never back.
    """

    def __init__(self, manifest: Manifest) -> None:
        armed = set(manifest.oracles)
        self._oracles: list[tuple[str, Oracle]] = [(name, make(manifest)) for name, make in ORACLES if name in armed]
        self._hearing = {
            kind: [(name, oracle) for name, oracle in self._oracles if name not in deaf]
            for kind, deaf in DEAF_TO.items()
        }
        self._ledger = Ledger()
        self._fill = PoolFillFold(self._ledger)
        self._coverage = CoverageFold(manifest.coverage, self._ledger)
        self._open: dict[str, RequestSent] = {}
        self._findings: list[Finding] = []
        self._signatures: Counter[str] = Counter()
        self._outcomes: Counter[Outcome] = Counter()
        self._steps = 0
        self._first: FirstFailure | None = None
        self._worst = Verdict.PASS
        self._answered = 0
        self._ended: RunEnded | None = None

    @property
    def failed(self) -> bool:
        return self._worst is Verdict.FAIL

    @property
    def steps(self) -> int:
        return self._steps

    def see(self, event: Event) -> tuple[Finding, ...]:
        """Take in one event; returns the findings it led to."""
        asked = self._join(event)
        oracles = self._hearing.get(type(event), self._oracles)
        if _at_twin(event, asked):
            oracles = [(name, oracle) for name, oracle in oracles if name in COMPARES]
        else:
            answered = self._ledger.see(event)
            self._fill.take(event, answered)
            self._coverage.take(event, answered)
        findings: tuple[Finding, ...] = ()
        for name, oracle in oracles:
            try:
                findings += oracle.see(event, asked)
            except Exception as crash:  # noqa: BLE001 - a crashed oracle is "unknown", never a verdict about the server
                findings += (_crashed(name, crash, asked),)
        for finding in findings:
            self._keep(finding, asked)
        self._count(event, asked)
        return findings

    def judgement(self) -> Judgement:
        """What the events so far show."""
        outcomes = self._outcomes + Counter({Outcome.LOST: len(self._open)})
        return conclude(
            steps=self._steps,
            worst_finding=self._worst,
            first=self._first,
            fill=self._fill.fill,
            coverage=self._coverage.reached(self._fill.fill),
            findings=tuple(self._findings),
            requests={outcome.value: outcomes[outcome] for outcome in Outcome if outcomes[outcome]},
            answered=self._answered,
            ended=self._ended,
        )

    def _join(self, event: Event) -> RequestSent | None:
        if isinstance(event, RequestSent):
            # A request id seen again while open was in flight when an earlier kvstress was killed: nobody knows.
            if event.request in self._open:
                self._outcomes[Outcome.LOST] += 1
            self._open[event.request] = event
        return self._open.pop(event.request, None) if isinstance(event, Exchange) else None

    def _keep(self, finding: Finding, asked: RequestSent | None) -> None:
        # The first failure is kept whatever the caps say: the verdict's sentence is about it.
        first_failure = finding.verdict is Verdict.FAIL and not self.failed
        self._worst = max(self._worst, finding.verdict)
        self._signatures[finding.signature] += 1
        room = len(self._findings) < _FINDINGS_CAP and self._signatures[finding.signature] <= _PER_SIGNATURE_CAP
        if room or first_failure:
            self._findings.append(finding)
        if finding.verdict is Verdict.FAIL and finding.step is not None:
            self._first = self._first or self._first_failure(finding, finding.step, asked)

    def _first_failure(self, finding: Finding, step: int, asked: RequestSent | None) -> FirstFailure:
        return FirstFailure(
            step=step,
            phase=finding.phase,
            signature=finding.signature,
            session=asked.session if asked else None,
            turn=asked.turn if asked else None,
            exposure=self._steps,
            in_flight=tuple(self._open),
        )

    def _count(self, event: Event, asked: RequestSent | None) -> None:
        if isinstance(event, Exchange):
            self._outcomes[event.outcome] += 1
            judged = event.outcome in (Outcome.COMPLETED, Outcome.FAILED, Outcome.BROKEN)
            self._answered += asked is not None and asked.origin is Origin.STEP and judged
        elif isinstance(event, StepEnded):
            self._steps += 1
        elif isinstance(event, RunEnded):
            self._ended = event


def _crashed(name: str, crash: Exception, asked: RequestSent | None) -> Finding:
    return Finding(
        oracle=name,
        verdict=Verdict.INCONCLUSIVE,
        signature=f"{name}:crashed:{type(crash).__name__}",
        step=asked.step if asked else None,
        summary=f"the oracle itself failed and judged nothing here: {type(crash).__name__}: {crash}",
    )


def _at_twin(event: Event, asked: RequestSent | None) -> bool:
    request = event if isinstance(event, RequestSent) else asked
    return request is not None and is_at_twin(request.endpoint)


def judge(manifest: Manifest, events: Iterable[Event]) -> Judgement:
    """The judgement of a whole stored run."""
    fold = Judge(manifest)
    for event in events:
        fold.see(event)
    return fold.judgement()
