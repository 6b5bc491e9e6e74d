"""Better, worse, the same, or nobody can tell: two sides of runs, row by row.

The primary row counts steps from pool fill to the first failure: a head with fewer pages fails earlier with no new
bug, so capacity and fill have rows of their own, which inform and decide nothing. Below FOUR runs a side no
p-value is shown, because none could be small (sixteen steps against 143 without a failure give 0.32); a rule
that needs the same failure twice, passed in, decides instead. From four on, permutation tests and intervals do,
Holm-adjusted over all rows, and only beyond a least effect.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, comb
from statistics import median as middle

from kvstress.stats import survival
from kvstress.stats.facts import Change, Comparison, Facts, Row, Side
from kvstress.stats.few import LEAST_SHARE, LEAST_STEPS
from kvstress.stats.multiple import holm
from kvstress.stats.survival import Time
from kvstress.stats.timing import pace_row, timing_rows

FOUR = 4
LEVEL = 0.05
PRIMARY, FROM_START = "steps from pool fill to first failure", "first failure"
_TELLS = (1.96 + 0.84) ** 2  # for 80 % power at 5 %

Rule = Callable[[Side, Side], tuple[Change, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """A row before its p-value is adjusted: what it will say if that stays below LEVEL, and what otherwise."""

    row: Row
    p: float | None = None
    otherwise: Change = Change.CANNOT_TELL


def compare(base: Side, head: Side, rule: Rule) -> Comparison:
    """`base` and `head` hold at least one run each. `rule` answers for the first failure where runs are too few."""
    rows = [
        _first_failure(base, head, rule),
        _from_start(base, head),
        _level("pool fill", base, head, lambda facts: facts.fill),
        _level("capacity", base, head, lambda facts: facts.capacity),
        *_findings(base, head),
        _errors(base, head),
        *(Tested(row=row, p=p) for row, p in (*timing_rows(base, head), *pace_row(base, head))),
    ]
    adjusted = iter(holm([tested.p for tested in rows if tested.p is not None]))
    told = tuple(_settled(tested, next(adjusted) if tested.p is not None else None) for tested in rows)
    return _concluded(told)


def _settled(tested: Tested, p: float | None) -> Row:
    row = replace(tested.row, p=p)
    if p is None or p < LEVEL or row.verdict not in (Change.REGRESSED, Change.IMPROVED):
        return row
    return replace(row, verdict=tested.otherwise)


def _concluded(rows: tuple[Row, ...]) -> Comparison:
    primary = rows[0]
    worse = [row for row in rows if row.decides and row.verdict is Change.REGRESSED]
    verdict = Change.REGRESSED if worse else primary.verdict
    deciding = worse[0] if worse else primary
    return Comparison(verdict=verdict, said=f"{deciding.metric}: {deciding.said}", rows=rows)


def _first_failure(base: Side, head: Side, rule: Rule) -> Tested:
    times = _times(base, lambda facts: facts.from_fill), _times(head, lambda facts: facts.from_fill)
    seen = [facts for facts in (*base, *head) if facts.from_fill is not None]
    if len(seen) == len(base) + len(head):
        return _survival(PRIMARY, times[0], times[1], lambda: rule(base, head))
    unseen = len(base) + len(head) - len(seen)
    whole = _times(base, lambda facts: facts.first), _times(head, lambda facts: facts.first)
    tested = _survival(FROM_START, whole[0], whole[1], lambda: rule(base, head))
    why = f"{_runs(unseen)} did not show when the pool was full"
    said = f"{tested.row.said}; counted from the start, for {why}"
    return replace(tested, row=replace(tested.row, said=said))


def _from_start(base: Side, head: Side) -> Tested:
    """Informs only: it moves with the pool's size."""
    times = _times(base, lambda facts: facts.first), _times(head, lambda facts: facts.first)
    row = Row(
        metric="steps from the start to first failure",
        base=_spoken(times[0]),
        head=_spoken(times[1]),
        verdict=Change.CANNOT_TELL,
        said="for information: a smaller pool fails earlier with no new bug",
        decides=False,
    )
    if times[0] and times[1]:
        reach = survival.horizon(*times)
        row = replace(row, ratio=_ratio(*(survival.restricted_mean(side, reach) for side in times)))
    return Tested(row=row)


def _times(side: Side, of: Callable[[Facts], Time | None]) -> tuple[Time, ...]:
    return tuple(time for facts in side if (time := of(facts)) is not None)


def _survival(
    metric: str, base: Sequence[Time], head: Sequence[Time], rule: Callable[[], tuple[Change, str]]
) -> Tested:
    row = Row(
        metric=metric, base=_spoken(base), head=_spoken(head), verdict=Change.CANNOT_TELL, said="no run to compare"
    )
    if not base or not head:
        return Tested(row=row)
    if not any(time.failed for time in (*base, *head)):
        return Tested(row=replace(row, verdict=Change.UNCHANGED, said="no failure on either side"))
    if min(len(base), len(head)) < FOUR:
        verdict, said = rule()
        return Tested(row=replace(row, verdict=verdict, said=said))
    return _tested(row, base, head)


def _tested(row: Row, base: Sequence[Time], head: Sequence[Time]) -> Tested:
    reach = survival.horizon(base, head)
    means = survival.restricted_mean(base, reach), survival.restricted_mean(head, reach)
    effect, p = means[1] - means[0], survival.log_rank(base, head)
    least = max(LEAST_STEPS, LEAST_SHARE * means[0])
    said = f"{means[0]:.1f} and {means[1]:.1f} steps survived of {reach:g}; log-rank p {p:.3f}, {_how(base, head)}"
    if abs(effect) < least:
        # Invariant of this word: the effect is small, and enough runs were seen that a large one would have shown.
        small = Change.UNCHANGED if _would_show(base, head, least) else Change.CANNOT_TELL
        return Tested(
            row=replace(row, verdict=small, said=f"{said}; less than {least:.1f} steps apart", ratio=_ratio(*means))
        )
    verdict = Change.REGRESSED if effect < 0 else Change.IMPROVED
    more = "" if p < LEVEL else f"; {_more(base, head, effect)}"
    return Tested(row=replace(row, verdict=verdict, said=said + more, ratio=_ratio(*means)), p=p)


def _how(base: Sequence[Time], head: Sequence[Time]) -> str:
    ways = comb(len(base) + len(head), len(head))
    return f"exact over {ways:,} ways" if ways <= survival.MOST_EXACT else f"{survival.DRAWN:,} draws"


def _spread(times: Sequence[Time]) -> float:
    """Standard deviation of the steps, failed or not: a lower bound of the survival times' own."""
    centre = sum(time.steps for time in times) / len(times)
    return float((sum((time.steps - centre) ** 2 for time in times) / max(1, len(times) - 1)) ** 0.5)


def _would_show(base: Sequence[Time], head: Sequence[Time], effect: float) -> bool:
    error = (_spread(base) ** 2 / len(base) + _spread(head) ** 2 / len(head)) ** 0.5
    return bool(effect >= _TELLS**0.5 * error)


def _more(base: Sequence[Time], head: Sequence[Time], effect: float) -> str:
    """How many runs a side would tell such an effect, by the normal approximation with 80 % power."""
    needed = ceil(_TELLS * (_spread(base) ** 2 + _spread(head) ** 2) / effect**2)
    missing = max(1, needed - min(len(base), len(head)))
    return f"about {missing} more runs a side would tell"


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def _spoken(times: Sequence[Time]) -> str:
    if not times:
        return "not observed"
    failed = sum(time.failed for time in times)
    longest = max(time.steps for time in times)
    if not failed:
        total = sum(time.steps for time in times)
        return f"no failure in {_runs(len(times))}, {total:g} steps" + (
            f": below {_bound(total)} a step" if total else ""
        )
    if len(times) == 1:
        return f"failed at {longest:g}"
    half = survival.median(times)
    return f"{failed} of {len(times)} failed, " + (
        f"half by {half:g}" if half is not None else f"fewer than half by {longest:g}"
    )


def _bound(steps: float) -> str:
    """The 95 % upper bound of a failure rate after so many steps without one: 1 − 0.05^(1/n)."""
    return f"{100 * (1 - 0.05 ** (1 / steps)):.2g} %"


def _level(metric: str, base: Side, head: Side, of: Callable[[Facts], float | None]) -> Tested:
    """A number a run; it informs and decides nothing."""
    sides = [[value for facts in side if (value := of(facts)) is not None] for side in (base, head)]
    row = Row(
        metric=metric,
        base=_middle(sides[0]),
        head=_middle(sides[1]),
        verdict=Change.CANNOT_TELL,
        said="",
        decides=False,
    )
    if not all(sides):
        return Tested(row=replace(row, said="not observed on both sides"))
    ratio = _ratio(middle(sides[0]), middle(sides[1]))
    apart = abs(middle(sides[1]) - middle(sides[0])) >= LEAST_SHARE * abs(middle(sides[0]))
    if not apart:
        return Tested(row=replace(row, verdict=Change.UNCHANGED, said="within 10 %", ratio=ratio))
    lower, higher = max(sides[1]) < min(sides[0]), min(sides[1]) > max(sides[0])
    verdict = Change.REGRESSED if lower else Change.IMPROVED if higher else Change.CANNOT_TELL
    said = "every run lower" if lower else "every run higher" if higher else "the sides overlap"
    return Tested(row=replace(row, verdict=verdict, said=said, ratio=ratio))


def _middle(values: Sequence[float]) -> str:
    return f"{middle(values):,.10g}" if values else "not observed"


def _ratio(base: float, head: float) -> float | None:
    return head / base if base else None


def _findings(base: Side, head: Side) -> list[Tested]:
    """New, gone and still there: a row for each signature that is not on both sides, and one for all that are."""
    counts = [Counter(sig for facts in side for sig in facts.signatures) for side in (base, head)]
    both = sorted(set(counts[0]) & set(counts[1]))
    still = Row(
        metric="findings still there",
        base=str(len(both)),
        head=str(len(both)),
        verdict=Change.UNCHANGED,
        said="; ".join(both[:5]) or "none",
        decides=False,
    )
    changed = sorted(set(counts[0]) ^ set(counts[1]))
    return [*(_finding(signature, counts, base, head) for signature in changed), Tested(row=still)]


def _finding(signature: str, counts: Sequence[Counter[str]], base: Side, head: Side) -> Tested:
    seen = counts[0][signature], counts[1][signature]
    new = seen[1] > 0
    row = Row(
        metric=f"finding {'new' if new else 'gone'}: {signature}",
        base=f"{seen[0]} of {len(base)} runs",
        head=f"{seen[1]} of {len(head)} runs",
        verdict=Change.REGRESSED if new else Change.IMPROVED,
        said="seen on one side only",
    )
    if min(len(base), len(head)) < FOUR:
        # Without a test only a failure that came again counts, and only where the base had as many chances.
        certain = max(seen) >= 2 and len(base if new else head) >= max(seen)
        return Tested(
            row=row if certain else replace(row, verdict=Change.CANNOT_TELL, said="seen once; one more run would tell")
        )
    return Tested(row=row, p=_fisher(seen[int(new)], len(head if new else base), len(base) + len(head)))


def _fisher(seen: int, side: int, runs: int) -> float:
    """One-sided p that all `seen` of `runs` runs are among the `side` of one side (Fisher's exact test)."""
    return comb(side, seen) / comb(runs, seen)


def _errors(base: Side, head: Side) -> Tested:
    """Requests that failed, broke or were lost, as shares a run; by permutation from four runs a side."""
    shares = [[facts.errors / facts.requests for facts in side if facts.requests] for side in (base, head)]
    sums = [(sum(f.errors for f in side), sum(f.requests for f in side)) for side in (base, head)]
    words = [f"{errors:,} of {requests:,} requests" for errors, requests in sums]
    row = Row(
        metric="errors",
        base=words[0],
        head=words[1],
        verdict=Change.UNCHANGED,
        said="as many on both sides",
        decides=False,
    )
    if not all(shares):
        return Tested(row=replace(row, verdict=Change.CANNOT_TELL, said="no request was answered on one side"))
    means = [sum(side) / len(side) for side in shares]
    if means[0] == means[1]:
        return Tested(row=row)
    said = "for information: the first failure ends a run, so errors count runs and not rates"
    return Tested(row=replace(row, verdict=Change.CANNOT_TELL, said=said, ratio=_ratio(*means)))
