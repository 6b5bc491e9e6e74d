"""Plans: what their digest covers, and how holes for live answers are filled."""

from kvstress.core.plan import Answer, Limits, Plan, Request, Schedule, resolve


def _plan(**changes: object) -> Plan:
    settings: dict[str, object] = {
        "workload": "w",
        "hunts": "h",
        "seed": 1,
        "parameters": {"tokens": 16_000, "max_steps": 9},
        "traffic": {"tokens": 16_000},
        "schedule": Schedule(),
        "limits": Limits(),
        "phases": ("prime",),
        "total_steps": None,
        "content": "c",
        "stand_in": True,
        "coverage": (),
        "oracles": (),
        "aside_when": "after",
        "steps": lambda: iter(()),
    }
    return Plan(**(settings | changes))  # type: ignore[arg-type]


def test_the_digest_covers_what_decides_the_traffic_and_nothing_else() -> None:
    base = _plan().digest()
    assert _plan(hunts="other words", coverage=("hit",), parameters={"max_steps": 2}).digest() == base
    changed: list[dict[str, object]] = [
        {"seed": 2},
        {"traffic": {"tokens": 1}},
        {"workload": "v"},
        {"sources": ({"sha256": "a"},)},
    ]
    assert all(_plan(**change).digest() != base for change in changed)


def test_a_hole_is_filled_from_the_transcript_and_stays_empty_when_nothing_answered() -> None:
    messages = [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": Answer(step=0, phase="turn")},
        {"role": "assistant", "content": Answer(step=1, phase="turn")},
    ]
    request = Request(id="r", step=2, phase="turn", body={"messages": messages})
    body = resolve(request, {(0, "turn"): "hi"}).body
    assert [message["content"] for message in body["messages"]] == ["hello", "hi", ""]
