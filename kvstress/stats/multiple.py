"""Several questions asked of the same runs: without a correction one in twenty answers is a false alarm."""

from collections.abc import Sequence


def holm(values: Sequence[float]) -> tuple[float, ...]:
    """Holm's adjusted p-values (1979), in the order given; together they keep the family's error below the level."""
    order = sorted(range(len(values)), key=lambda place: values[place])
    adjusted, worst = [1.0] * len(values), 0.0
    for rank, place in enumerate(order):
        worst = max(worst, min(1.0, (len(values) - rank) * values[place]))
        adjusted[place] = worst
    return tuple(adjusted)
