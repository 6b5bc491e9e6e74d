"""One rank: the bytes of its share of every page and row, and the arithmetic on them.

A rank knows nothing of owners, requests or caches. It is told which pages and rows to write, copy, read or clear, as
an accelerator is, and whatever lies in those bytes it uses. Snapshot rows are float32 views of the same buffer the FP8
pages live in.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kvstress.refserver import kernels, model
from kvstress.refserver.geometry import PAGE_BYTES, PAGE_TOKENS, ROW_BYTES, Geometry
from kvstress.refserver.model import CODE_DIM, F32, HEAD_DIM, HISTORY, I32, KV_HEADS, U8


@dataclass(frozen=True, slots=True, kw_only=True)
class RankConfig:
    """What a rank needs to know to hold its share: picklable, so that a rank may be another process."""

    geometry: Geometry
    rank: int = 0
    ranks: int = 1
    kv_format: str = "fp8"
    inert_mask: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Partial:
    """A rank's share of a forward pass: `attention` (rows, 32 × its heads) and `recurrent` (rows, 64)."""

    attention: F32
    recurrent: F32


@dataclass(slots=True, kw_only=True)
class Working:
    """What one running request has in registers: its recurrent state, and the KV pages it has loaded.

    `keys` is (heads, 32, positions) and `values` (heads, positions, 32), each as the product that reads it wants it.
    """

    state: F32
    keys: F32
    values: F32
    versions: I32 = field(default_factory=lambda: np.zeros(0, np.int32))


class Rank:
    """The share `config.rank` of the pool: pages (pages, heads, 128, 64) bytes, rows (4736 / ranks, 32) float32."""

    def __init__(self, config: RankConfig) -> None:
        self.geometry = config.geometry
        self.ranks = config.ranks
        self.inert = config.inert_mask
        self.format = kernels.KV_FORMATS[config.kv_format]
        share = KV_HEADS // config.ranks
        self.heads = range(config.rank * share, (config.rank + 1) * share)
        self.buffer: U8 = np.zeros(config.geometry.pool_bytes // config.ranks, np.uint8)
        self.pages = self.buffer.reshape(config.geometry.pages, share, PAGE_TOKENS, CODE_DIM)
        # Counts the writes to each page, so that a loaded copy is refreshed whoever wrote, a stray writer included.
        self.versions = np.ones(config.geometry.pages, np.int32)
        self.inputs = model.state_inputs(config.rank, config.ranks)
        self.decay = model.state_decay(config.rank, config.ranks)
        codes = np.hstack([model.token_codes()[:, head * 32 : head * 32 + 32] for head in self.heads])
        self.value_bytes = self.format.encode(codes).reshape(-1, share, 32)
        self.working: dict[int, Working] = {}

    def begin(self, request: int, slot: int | None) -> None:
        """Give `request` a recurrent state: zero, or the row of `slot` as it lies in the pool."""
        state = np.zeros_like(self.inputs) if slot is None else self.row(slot).copy()
        keys, values = self._room(0)
        self.working[request] = Working(state=state, keys=keys, values=values)

    def forget(self, request: int) -> None:
        """Drop what `request` had in registers."""
        self.working.pop(request, None)

    def row(self, slot: int) -> F32:
        """The row of `slot`: a view of pool bytes as float32, (rows, 32)."""
        start = self.geometry.row_start(slot) // self.ranks
        return self.buffer[start : start + ROW_BYTES // self.ranks].view(np.float32).reshape(self.inputs.shape)

    def save(self, request: int, slot: int) -> None:
        """Write the recurrent state of `request` into the row of `slot`."""
        self.row(slot)[:] = self.working[request].state
        pages = self.geometry.slot_pages(slot)
        self.versions[pages.start : pages.stop] += 1

    def copy_page(self, source: int, target: int) -> None:
        """Copy all bytes of a page, those of dead positions too."""
        self.pages[target] = self.pages[source]
        self.versions[target] += 1

    def clear(self, pages: list[int], first_position: int = 0) -> None:
        """Zero `pages` from `first_position` on."""
        self.pages[pages, :, first_position:] = 0
        self.versions[pages] += 1

    def nonzero(self, pages: list[int]) -> list[int]:
        """Those of `pages` that hold a byte other than 0."""
        return [page for page in pages if self.pages[page].any()]

    def prefill(self, request: int, tokens: I32, start: int, pages: list[int]) -> None:
        """Write the KV of `tokens` (which has `HISTORY` more in front) from position `start`, and advance the state."""
        self._write(tokens, start, pages)
        model.advance(self.working[request].state, tokens, start, self.inputs, self.decay)

    def prefill_output(self, request: int, length: int, context: I32, pages: list[int], token: int) -> Partial:
        """The output after the last prompt token, from live positions only; `context` is (1, HISTORY)."""
        working = self.working[request]
        keys, values = self._room(len(pages))
        self._decode(pages, keys, values)
        keys[:, :, length:], values[:, length:] = 0, 0
        recurrent = model.readout(working.state, token).reshape(1, -1)
        return Partial(attention=self._attend(keys, values, context, [length]), recurrent=recurrent)

    def decode(self, request: int, tokens: I32, start: int, contexts: I32, pages: list[int]) -> Partial:
        """One round: write the KV of the new tokens, read whole pages. The state is left as it was; see `commit`.

        `tokens` is (HISTORY + rows,), `contexts` (rows, HISTORY); row i is the output after position start + i.
        """
        self._write(tokens, start, pages)
        working = self.working[request]
        self._load(working, pages)
        lengths = [start + row + 1 for row in range(contexts.shape[0])]
        end = len(pages) * PAGE_TOKENS
        attention = self._attend(working.keys[:, :, :end], working.values[:, :end], contexts, lengths)
        return Partial(attention=attention, recurrent=self._look_ahead(working.state, tokens, start))

    def commit(self, request: int, tokens: I32, start: int) -> None:
        """Advance the state over the tokens that verification kept, (HISTORY + kept,)."""
        model.advance(self.working[request].state, tokens, start, self.inputs, self.decay)

    def _look_ahead(self, state: F32, tokens: I32, start: int) -> F32:
        state = state.copy()
        rows = []
        for row, (feature, value) in enumerate(zip(*model.state_entries(tokens), strict=True)):
            model.advance_one(state, feature, value, start + row, self.inputs, self.decay)
            rows.append(model.readout(state, int(tokens[row + HISTORY])))
        return np.stack(rows)

    def _attend(self, keys: F32, values: F32, contexts: I32, lengths: list[int]) -> F32:
        outputs = [
            kernels.attend(keys[index], values[index], model.query(contexts, head), lengths, self.inert)
            for index, head in enumerate(self.heads)
        ]
        return np.hstack(outputs)

    def _write(self, tokens: I32, start: int, pages: list[int]) -> None:
        new = tokens[HISTORY:]
        positions = np.arange(start, start + new.size)
        targets = np.array(pages, np.int32)[positions // PAGE_TOKENS]
        offsets = positions % PAGE_TOKENS
        for index, head in enumerate(self.heads):
            self.pages[targets, index, offsets, :32] = self.format.encode(model.key(tokens, head))
            self.pages[targets, index, offsets, 32:] = self.value_bytes[new, index]
        self.versions[targets] += 1

    def _load(self, working: Working, pages: list[int]) -> None:
        """Bring the loaded copy up to date with the bytes in the pool, page by page."""
        self._grow(working, len(pages))
        current = self.versions[pages]
        stale = np.flatnonzero(working.versions[: len(pages)] != current)
        if stale.size == len(pages):
            self._decode(pages, working.keys, working.values)
        for place in stale if stale.size < len(pages) else ():
            positions = slice(place * PAGE_TOKENS, (place + 1) * PAGE_TOKENS)
            page = self.format.decode(self.pages[pages[place]])
            working.keys[:, :, positions] = page[:, :, :HEAD_DIM].swapaxes(1, 2)
            working.values[:, positions] = page[:, :, HEAD_DIM:]
        working.versions[stale] = current[stale]

    def _grow(self, working: Working, pages: int) -> None:
        have = working.versions.size
        if pages <= have:
            return
        keys, values = self._room(max(pages, have * 5 // 4))
        keys[:, :, : have * PAGE_TOKENS], values[:, : have * PAGE_TOKENS] = working.keys, working.values
        working.keys, working.values = keys, values
        working.versions = np.pad(working.versions, (0, keys.shape[2] // PAGE_TOKENS - have))

    def _room(self, pages: int) -> tuple[F32, F32]:
        """Keys and values of so many pages, all 0."""
        heads, positions = len(self.heads), pages * PAGE_TOKENS
        return np.zeros((heads, HEAD_DIM, positions), np.float32), np.zeros((heads, positions, HEAD_DIM), np.float32)

    def _decode(self, pages: list[int], keys: F32, values: F32) -> None:
        """The meaning of all bytes of `pages`, dead positions too, into the first positions of `keys` and `values`."""
        end = len(pages) * PAGE_TOKENS
        for index in range(len(self.heads)):
            raw = self.pages[pages, index].reshape(end, CODE_DIM)
            # Bytes are turned round before they are decoded: they are a quarter of the size then.
            keys[index, :, :end] = self.format.decode(np.ascontiguousarray(raw[:, :HEAD_DIM].T))
            values[index, :end] = self.format.decode(raw[:, HEAD_DIM:])


assert PAGE_BYTES == KV_HEADS * PAGE_TOKENS * CODE_DIM
