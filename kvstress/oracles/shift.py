"""Did something that never happened begin to happen? A change is told from a habit by one exact test.

Small models loop, uniform ones babble, and a rule with a fixed limit would call each of them broken. What a bug adds
is a *change* on the same server: answers were clean until some moment and are not since. Fisher's exact test (one
sided, hypergeometric) compares the share before the first bad one with the share from it on; because the
data chose that moment, the level is a tenth of the usual one.
"""

from math import exp, lgamma

LEVEL = 0.001


def fisher(bad: int, of: int, clean_bad: int, clean_of: int) -> float:
    """P that `bad` or more of `of` are bad, if `bad` + `clean_bad` are spread over all `of` + `clean_of` by chance."""
    total, marked = of + clean_of, bad + clean_bad
    upper = min(of, marked)
    return min(1.0, sum(exp(_log_share(k, of, marked, total)) for k in range(bad, upper + 1)))


def _log_share(k: int, of: int, marked: int, total: int) -> float:
    if k < 0 or marked - k > total - of or marked - k < 0:
        return float("-inf")
    return _choose(of, k) + _choose(total - of, marked - k) - _choose(total, marked)


def _choose(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)


class Shift:
    """Counts good and bad in order; `changed` once those since the first bad one are worse than chance allows.

    Later ones can also make it unchanged again, so ask at each. Needs 8 good ones before.
    """

    def __init__(self, *, before: int = 8, level: float = LEVEL) -> None:
        self._need = before
        self._level = level
        self.clean = 0
        self.bad = 0
        self.since = 0

    def add(self, bad: bool) -> bool:
        """Count one; whether a change shows now."""
        if not bad and not self.bad:
            self.clean += 1
            return False
        self.bad += bad
        self.since += 1
        if self.clean < self._need:
            return False
        return bad and fisher(self.bad, self.since, 0, self.clean) < self._level
