"""Products of tall matrices, summed over blocks of rows: the matrix of second moments of features."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.engines.base import Workers
from mercer.engines.memory import empty_rows

__all__ = ["GramSum", "add_products"]

Array = np.ndarray


def add_products(total: Array, left: Array, right: Array, workers: Workers, *, upper: bool) -> None:
    """Add ``left.T @ right`` to a float64 matrix in place; if `upper`, only the tiles on its diagonal and above.

    Products run in the dtype of the rows. A tile is the work of one thread, and tiles depend on the widths alone, so
    the number of threads changes no bit.
    """
    rows, columns = (panels(width) for width in total.shape)
    if upper:
        # Tiles off the diagonal first: they are twice the work, and the small ones fill the gaps at the end.
        tiles = [(a, b) for i, a in enumerate(rows) for b in columns[i + 1 :]]
        tiles += list(zip(rows, columns, strict=True))
    else:
        tiles = [(a, b) for a in rows for b in columns]

    def update(tile: tuple[slice, slice]) -> None:
        a, b = tile
        total[a, b] += left[:, a].T @ right[:, b]

    workers.run(update, tiles)


def panels(width: int) -> list[slice]:
    """Cut columns into panels, whose products are the work of one thread each."""
    step = int(np.clip(-(-width // 8), 64, 512))
    return [slice(i, min(i + step, width)) for i in range(0, width, step)]


class GramSum:
    """The matrix of second moments of features, added up tile by tile in place.

    Products run in the dtype of the features, over one block, and are added in float64: the error does not grow with
    the number of blocks. A tile is the work of one thread, and tiles depend on the width alone, so the number of
    threads changes no bit.
    """

    def __init__(self, n_components: int) -> None:
        self._width = n_components
        self._gram: Array | None = None  # made with the first rows: an empty sum is small wherever it is sent
        self._buffers: dict[Any, Array] = {}

    def room(self, rows: int, dtype: Any) -> Array:
        """Return a buffer for the features of a block, the same one again for the next."""
        D = self._width
        buffer = self._buffers.get(dtype)
        if buffer is None or len(buffer) < rows:
            # A few spare columns keep rows from lying a power of two apart, which would crowd them into few cache sets.
            buffer = self._buffers[dtype] = empty_rows(rows, D + 16, dtype)
        return buffer[:rows, :D]

    def add(self, Z: Array, workers: Workers) -> None:
        """Add z z' for all rows of `Z`, already multiplied by the roots of their weights."""
        add_products(self.result(), Z, Z, workers, upper=True)

    def result(self) -> Array:
        """Return the matrix, of which the upper triangle counts."""
        if self._gram is None:
            self._gram = np.zeros((self._width, self._width))
        return self._gram

    def restore(self, gram: Array) -> None:
        """Go on from a matrix that `result` returned."""
        self._gram = np.array(gram)  # a copy: blocks are added in place
