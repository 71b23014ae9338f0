"""The engine for rows in memory or in a memory-mapped file, cut into blocks of fixed size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.engines.base import NO_ROWS, START, Block, LocalEngine, Position, count_threads, row_blocks, workers
from mercer.engines.buffers import recycled_bytes
from mercer.errors import DataError, ParameterError
from mercer.features import Features
from mercer.io.digests import digest_of

__all__ = ["MemoryEngine", "block_rows_for", "empty_rows", "fill_rows", "linear_values"]

# Size of the features of a block: large enough for matrix products at full speed and for few D x D additions.
BLOCK_BYTES = 128 * 2**20
# Maximum number of rows of a block. With few components, more rows are not faster, and would take more new memory.
BLOCK_ROWS = 8192
# Size of a block of a transform: small enough to stay in cache and to divide the work evenly among threads, large
# enough for matrix products at full speed and for a small fixed cost per block (packing of the random parameters,
# checks of arguments).
TRANSFORM_BYTES = 8 * 2**20
CACHE_LINE = 64


def block_rows_for(n_components: int, itemsize: int = 8) -> int:
    """Return the number of rows of a block, for features with `n_components` components of `itemsize` bytes.

    This number does not depend on the machine, so that the same rows are summed in the same order on every machine.
    """
    return int(np.clip(BLOCK_BYTES // max(1, n_components * itemsize), 256, BLOCK_ROWS))


class MemoryEngine(LocalEngine):
    """An engine over arrays `X`, `y` and `weight` in memory or memory-mapped files; `y` and `weight` may be None.

    `block_rows` is the number of rows of a block, and `start` the index of the first row.
    """

    replayable = True

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
        self.in_memory: Block = Block(start, X, y, weight)
        self.n_rows = len(self.in_memory)
        self.block_rows = block_rows
        self.n_jobs = n_jobs

    def first(self) -> Block:
        if not self.n_rows:
            raise DataError(NO_ROWS)
        return next(self.blocks())

    def blocks(self, since: Position = START) -> Iterator[Block]:
        return row_blocks(self.in_memory, self.block_rows, since.row - self.in_memory.start)

    def position(self, row: int) -> Position:
        return Position(row)

    def fingerprint(self) -> dict[str, str]:
        rows = self.in_memory
        return {"number of rows": str(self.n_rows), "digest of all rows": digest_of([rows.X, rows.y, rows.weight])}


def empty_rows(n: int, columns: int, dtype: Any, *, recycled: bool = False) -> np.ndarray:
    """Return an uninitialized matrix of shape (n, columns) whose memory is aligned to a cache line.

    NumPy aligns arrays to 16 bytes only, so that writing a wide register may touch two cache lines. If `recycled` is
    True, the memory of an earlier result that is no longer referenced may be reused; see `mercer.engines.buffers`.
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
    """Fill `out` by calling ``function(X[rows], out[rows])`` for slices `rows`, on several threads.

    `width` is the number of columns of the intermediate matrices in `function`; None means that of `out`. The number of
    rows of a slice depends only on `width` and on the width and dtype of `X`, so the result is bitwise the same for any
    number of threads.
    """
    columns = out.shape[1] if width is None else width
    if not sp.issparse(X):  # sparse rows store few of their entries
        columns = max(columns, X.shape[1])
    step = max(16, TRANSFORM_BYTES // max(1, X.dtype.itemsize * columns))
    slices = [slice(i, i + step) for i in range(0, X.shape[0], step)]
    with workers(min(count_threads(n_jobs), max(1, len(slices)))) as team:
        team.run(lambda rows: function(X[rows], out[rows]), slices)


def linear_values(features: Features, X: Any, coef: np.ndarray, *, n_jobs: int | None) -> np.ndarray:
    """Return features @ coef (n, t) for rows, computed in slices to limit memory.

    The result is in float64 for rows of any dtype, since terms with large coefficients may cancel.
    """
    features = features.astype(X.dtype)
    form, dtype = features.linear_form, X.dtype
    # Coefficients of the inner features are as accurate if W is not too ill-conditioned. With few rows, computing them
    # takes longer than it saves.
    if form is not None and form.share > 0 and X.shape[0] > coef.shape[1]:
        features, coef, dtype = form.inner, form.matrix @ coef, np.dtype(np.float64)
    out = np.empty((X.shape[0], coef.shape[1]))

    def fill(rows: Any, target: np.ndarray) -> None:
        values = np.empty((rows.shape[0], features.n_components), dtype)
        features(rows, values)
        np.matmul(values, coef, out=target)

    fill_rows(fill, X, out, n_jobs=n_jobs, width=features.n_components)
    return out
