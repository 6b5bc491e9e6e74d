"""A stored run of any length, made without a server, and what judging and reporting it cost.

Answers differ and follow no pattern that an oracle could take for a fault. `make DIR N ORACLES`, then in a fresh
process each, so that peak memory is that of the one thing asked for: `judge DIR` (events to judgement), `report DIR`
(the pages), `judge-all DIR` (what `kvstress judge` does: both, and every table).
"""

import json
import sys
from hashlib import sha256
from pathlib import Path

from kvstress.core.events import RequestSent, RunEnded, StepEnded, StepStarted, Stop
from kvstress.core.exchange import Choice, Exchange, Usage
from kvstress.core.outcome import Kind
from kvstress.core.plan import Origin
from kvstress.harness.options import RunOptions
from kvstress.harness.prepare import draft_manifest, prepare
from kvstress.harness.stored import judge_run, write_pages
from kvstress.oracles.judge import judge
from kvstress.store import rundir
from tests.bench.cost import Meter

CHUNKS = 16
_WORDS = ("river", "amber", "sings", "over", "stone", "until", "nobody", "counts", "the", "light", "again", "slowly")


def _text(number: int) -> str:
    return " ".join(_WORDS[byte % len(_WORDS)] for byte in sha256(b"%d" % number).digest()[:CHUNKS])


def make(path: Path, requests: int, oracles: str) -> None:
    """A healthy run of `requests` streamed requests, one a step, armed like speedbench or with all oracles."""
    name = "speedbench" if oracles == "speedbench" else str(Path(__file__).parent / "workloads" / "burst.toml")
    prepared = prepare(RunOptions(server="http://127.0.0.1:1", workload=name, out=path))
    manifest = draft_manifest(prepared)
    phase = manifest.phases[0]
    with rundir.create(path, manifest) as writer:
        for step in range(requests):
            at = step * 0.01
            request = f"s{step}.{phase}"
            writer.append(StepStarted(at=at, step=step, label="64"))
            writer.append(
                RequestSent(
                    at=at,
                    request=request,
                    step=step,
                    phase=phase,
                    origin=Origin.STEP,
                    endpoint="/v1/chat/completions",
                    recipe=f"generated/speedbench/0/{step} 48 units",
                    body_sha256=sha256(request.encode()).hexdigest(),
                    body_bytes=400,
                    tokens=64,
                    max_tokens=CHUNKS,
                    stream=True,
                    options='{"temperature":1.0}',
                )
            )
            writer.append(
                Exchange(
                    request=request,
                    due=at,
                    sent=at + 1e-5,
                    headers_at=at + 1e-3,
                    ended=at + 0.009,
                    kind=Kind.OK,
                    status=200,
                    chunk_at=tuple(at + 0.001 + 0.0005 * chunk for chunk in range(CHUNKS)),
                    chunk_bytes=(190,) * CHUNKS,
                    body_bytes=190 * CHUNKS,
                    choices=(Choice(index=0, text=_text(step), finish_reason="length"),),
                    usage=Usage(prompt_tokens=64, completion_tokens=CHUNKS, total_tokens=64 + CHUNKS),
                    model="mock",
                )
            )
            writer.append(StepEnded(at=at + 0.0095, step=step, label="64", seconds=0.0095))
        writer.append(RunEnded(at=requests * 0.01, stop=Stop.PLAN))


def main() -> None:
    what, path = sys.argv[1], Path(sys.argv[2])
    meter = Meter()
    if what == "make":
        make(path, int(sys.argv[3]), sys.argv[4])
    elif what == "judge":
        judgement = judge(rundir.read_manifest(path), rundir.read_events(path))
        print(judgement.verdict.name, judgement.why)
    elif what == "judge-all":
        judge_run(path)
    else:
        manifest, judgement = rundir.read_manifest(path), judge(rundir.read_manifest(path), ())
        meter = Meter()
        write_pages(path, manifest, judgement)
    print(json.dumps(meter.cost()))


if __name__ == "__main__":
    main()
