"""Prompts whose last block is filled to every edge, each after each: tails are where masks and page copies go wrong.

Lengths are blocks and a residue; a residue's neighbours are all residues, because what a prompt leaves in a page shows
in the one that comes next. A circuit through the complete graph of residues visits each pair once, so that 64 pairs
take 65 prompts and not 128. Padding words of one token each make a length exact; how many each prompt needs is in the
sizing, because only the server can count.
"""

from kvstress.core.sizing import Sizing
from kvstress.workload import text
from kvstress.workload.body import user
from kvstress.workload.markers import Facts, facts
from kvstress.workload.prompt import Content, Prompt, label
from kvstress.workload.sources import Residue

# Where nobody tells the block size: 0, 1, 2, 4, B − 2 and B − 1 of it are these of 16, 32 and 64 tokens too.
BLOCK = 128
PAD = " the"


def residue(source: Residue, key: str, sizing: Sizing) -> Content:
    """The sweep; its length does not depend on the server, its sizes do."""
    wanted = targets(source, sizing)
    return Content(
        prompts=lambda: (_prompt(source, key, sizing, number, tokens) for number, tokens in enumerate(wanted)),
        total=len(wanted),
        sentence=f"generated code-like text, {len(wanted)} prompts whose tails pass every pair of eight residues of "
        f"{block(source, sizing)}, at {len(source.blocks)} lengths, and {len(source.edges)} edges ±1",
    )


def block(source: Residue, sizing: Sizing) -> int:
    """Tokens of a block: as the file says, else as the server's counts told, else a guess."""
    return source.block or sizing.block or BLOCK


def targets(source: Residue, sizing: Sizing) -> list[int]:
    """The planned prompt tokens of each step: a circuit for each number of blocks, then the edges ±1."""
    size = block(source, sizing)
    edges = (0, 1, 2, 4, size // 4, size // 2, size - 2, size - 1)
    order = [edges[place] % size for place in circuit(len(edges))]
    least = -(-round(sizing.overhead + 2 * _slack(sizing)) // size) * size
    swept = [least + many * size + tail for many in source.blocks for tail in order]
    return swept + [edge + beside for edge in source.edges for beside in (-1, 0, 1)]


def circuit(size: int) -> list[int]:
    """A walk over 0 … size − 1 that takes each ordered pair, also of a number and itself, exactly once.

    It is the de Bruijn sequence of order 2 with its first number again at the end (Fredricksen and Maiorana 1978).
    """
    walk = [number for i in range(size) for number in (i, *(x for j in range(i + 1, size) for x in (i, j)))]
    return [*walk, walk[0]]


def words(source: Residue, key: str, sizing: Sizing, number: int, tokens: int, pads: int) -> str:
    """Prompt `number`, made to about `tokens` tokens without its `pads` padding words, which follow its first line."""
    units = max(1, int((tokens - sizing.overhead - _slack(sizing)) / sizing.per_unit))
    made = text.prompt(f"{key}/{number}", text.Marks(key)[number], units, _facts(source, key, number))
    first, _, rest = made.partition("\n")
    return f"{first}\nNote:{(sizing.pad or PAD) * pads}\n{rest}"


def _prompt(source: Residue, key: str, sizing: Sizing, number: int, tokens: int) -> Prompt:
    pads = sizing.pads[number] if number < len(sizing.pads) else max(0, round(_slack(sizing)) - 2)
    told = _facts(source, key, number)
    return Prompt(
        label=label(tokens),
        messages=user(words(source, key, sizing, number, tokens, pads)),
        recipe=f"residue text {key}/{number} tokens={tokens} pads={pads}" + (f" {told.recipe}" if told else ""),
        tokens=tokens,
    )


def _facts(source: Residue, key: str, number: int) -> Facts | None:
    return facts(key, number) if source.facts else None


def _slack(sizing: Sizing) -> float:
    """Tokens left to padding: codes cost a few more or less from prompt to prompt."""
    return 12 + sizing.overhead / 6
