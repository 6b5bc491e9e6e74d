"""How many of the server's own tokens a unit of generated text costs.

"16k" must mean 16,000 tokens of the model under test; a stand-in prompt is therefore a
number of text units, and that number follows from what the server itself counted for a few
short prompts before step 0.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """A straight line: prompt_tokens ≈ overhead + per_unit × units.

    `how` is measured (from `usage.prompt_tokens`), tokenize (a tokenize endpoint), given (a file) or
    assumed (nothing could be measured; the line is a rough guess and reports say so). `forms` are those of the prompts
    that the server was seen to take: a chat, the text of a plain completion, its token ids. `capacity` is the KV pool
    in tokens as the server told it. `alone` is how many seconds it took for an answer like the workload's when nothing
    else ran. None where those were not told or measured.

    Where lengths are exact to the token: `block` is the block size that cached tokens told, `pad` a word that costs one
    token, `pads` how many of it each prompt takes, and `off` by how much each then still differs from its plan (empty:
    nothing could be counted).
    """

    overhead: float
    per_unit: float
    how: str
    forms: tuple[str, ...] = ("chat",)
    capacity: float | None = None
    alone: float | None = None
    block: int | None = None
    pad: str | None = None
    pads: tuple[int, ...] = ()
    off: tuple[int, ...] = ()

    def units(self, tokens: int) -> int:
        """Units of text that come closest to `tokens` prompt tokens; at least 1."""
        return max(1, round((tokens - self.overhead) / self.per_unit))


# About what most byte-pair vocabularies make of the generated text.
ASSUMED = Sizing(overhead=25.0, per_unit=1.1, how="assumed")


def fit(points: tuple[tuple[int, int], ...], how: str) -> Sizing:
    """Least squares through (units, tokens) points; needs two different unit counts.

    Raises ValueError when the line would have no positive slope: the server's counts then
    do not grow with the text, and nothing can be sized by them.
    """
    count = len(points)
    mean_units = sum(units for units, _ in points) / count
    mean_tokens = sum(tokens for _, tokens in points) / count
    spread = sum((units - mean_units) ** 2 for units, _ in points)
    if spread == 0:
        raise ValueError("sizing needs prompts of two different lengths")
    slope = sum((units - mean_units) * (tokens - mean_tokens) for units, tokens in points) / spread
    if slope <= 0:
        raise ValueError("the server's prompt_tokens do not grow with the prompt")
    return Sizing(overhead=mean_tokens - slope * mean_units, per_unit=slope, how=how)
