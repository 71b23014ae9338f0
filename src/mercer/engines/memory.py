"""Rows in memory (or in a memory-mapped file), cut into blocks of fixed size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.engines.base import BEGIN, Block, Engine, Place, count_threads, row_blocks, workers
from mercer.engines.buffers import recycled_bytes
from mercer.errors import ParameterError
from mercer.io.digests import digest_of

__all__ = ["MemoryEngine", "block_rows_for", "empty_rows", "fill_rows"]

# A block of features of this size keeps matrix products at full speed and D x D additions rare.
BLOCK_BYTES = 128 * 2**20
# Of narrow features so many rows do that already; more would only make a fit touch more fresh memory.
BLOCK_ROWS = 8192
# A block of a transform: small enough to stay in cache and to share out evenly, large enough for a matrix product at
# full speed and for what is done once a block (packing the draw, checking arguments) not to count.
TRANSFORM_BYTES = 8 * 2**20
CACHE_LINE = 64


def block_rows_for(n_components: int, itemsize: int = 8) -> int:
    """Return how many rows make a block of features of `n_components` columns.

    It depends on the width alone, so that equal rows give equal bits on every machine.
    """
    return int(np.clip(BLOCK_BYTES // max(1, n_components * itemsize), 256, BLOCK_ROWS))


class MemoryEngine(Engine):
    """An engine over arrays: `X`, and optionally `y` and `weight`, with equal numbers of rows."""

    replayable = True
    resumable = True

    def __init__(
        self,
        X: Any,
        y: np.ndarray | None = None,
        weight: np.ndarray | None = None,
        *,
        block_rows: int,
        n_jobs: int | None = None,
        start: int = 0,
    ) -> None:
        if block_rows < 1:
            msg = f"block_rows must be at least 1, got {block_rows}."
            raise ParameterError(msg)
        self.X = X
        self.n_rows = int(X.shape[0])
        self.y = y
        self.weight = weight
        self.block_rows = block_rows
        self.n_jobs = n_jobs
        self.start = start

    def facts(self) -> dict[str, str]:
        return {**super().facts(), "digest of all rows": digest_of([self.X, self.y, self.weight])}

    def blocks(self, since: Place = BEGIN) -> Iterator[Block]:
        return row_blocks(Block(self.start, self.X, self.y, self.weight), self.block_rows, since.row - self.start)


def empty_rows(n: int, columns: int, dtype: Any, *, recycled: bool = False) -> np.ndarray:
    """Return a matrix to be filled whose memory begins with a cache line.

    NumPy's own begins 16 bytes after one, so that every store of a wide register would touch two lines. `recycled` is
    for results that are made again and again: their memory may be that of an earlier one.
    """
    dtype = np.dtype(dtype)
    size = n * columns * dtype.itemsize
    memory = recycled_bytes(size + CACHE_LINE) if recycled else np.empty(size + CACHE_LINE, np.uint8)
    start = -memory.ctypes.data % CACHE_LINE
    return memory[start : start + size].view(np.ndarray).view(dtype).reshape(n, columns)


def fill_rows(
    function: Callable[[Any, np.ndarray], None],
    X: Any,
    out: np.ndarray,
    *,
    n_jobs: int | None,
    width: int | None = None,
) -> None:
    """Call ``function(rows of X, the same rows of out)`` for blocks of rows, on several threads.

    `width` is the number of columns that the function works with, by default those of `out`. The blocks depend on
    it and on the width of `X` alone, so the bits do not depend on the number of threads.
    """
    columns = out.shape[1] if width is None else width
    if not sp.issparse(X):  # of sparse rows only a small part of the width is there
        columns = max(columns, X.shape[1])
    step = max(16, TRANSFORM_BYTES // max(1, X.dtype.itemsize * columns))
    slices = [slice(i, i + step) for i in range(0, X.shape[0], step)]
    with workers(min(count_threads(n_jobs), max(1, len(slices)))) as team:
        team.run(lambda rows: function(X[rows], out[rows]), slices)
