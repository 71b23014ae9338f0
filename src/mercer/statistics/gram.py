"""Gram matrices of features: sums of outer products over blocks of rows, about any point.

Products of features of norm r that vary by s are r^2 / s^2 times larger than what varies, and so is their rounding
error. About a point near the mean they are not. Sums about different points can still be added, since moving from one
point to another is a correction of rank two, in float64.
"""

from __future__ import annotations

from math import isqrt
from typing import Any

import numpy as np

from mercer.engines.base import Workers
from mercer.engines.memory import empty_rows

__all__ = [
    "GramSum",
    "Triangular",
    "add_products",
    "far_mean",
    "moved_gram",
    "pack_upper",
    "point_near",
    "symmetric",
    "unpack_upper",
    "upper_norm",
]

Array = np.ndarray
# A mean counts as far from zero if its square is this many times the mean square of the deviations from it.
FAR = 8.0
# Rows of a matrix that are processed at a time: few enough to be in cache when they are used again.
PANEL_ROWS = 64


def add_products(total: Array, left: Array, right: Array, workers: Workers, *, upper: bool) -> None:
    """Add ``left.T @ right`` to a float64 matrix in place; with `upper`, only the tiles on its diagonal and above.

    Products are computed in the dtype of the rows. Each tile is computed by one thread, and the tiles depend on the
    widths alone, so the number of threads changes no bit.
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
    """Return slices that divide columns into panels; the product of two panels is computed by one thread."""
    step = int(np.clip(-(-width // 8), 64, 512))
    return [slice(i, min(i + step, width)) for i in range(0, width, step)]


class GramSum:
    """Gram matrix of features, summed tile by tile in place.

    The products of a block are computed in the dtype of its features and added in float64, so the error does not grow
    with the number of blocks. Each tile is computed by one thread, and the tiles depend on the width alone, so the
    number of threads changes no bit.
    """

    def __init__(self, n_components: int) -> None:
        self._width = n_components
        self._gram: Array | None = None  # allocated with the first rows, so that an empty sum is small to send
        self._buffers: dict[Any, Array] = {}

    def buffer(self, rows: int, dtype: Any) -> Array:
        """Return a buffer for the features of a block, which is reused for the next block."""
        D = self._width
        buffer = self._buffers.get(dtype)
        if buffer is None or len(buffer) < rows:
            # A few spare columns keep rows from lying a power of two apart, which would crowd them into few cache sets.
            buffer = self._buffers[dtype] = empty_rows(rows, D + 16, dtype)
        return buffer[:rows, :D]

    def add(self, Z: Array, workers: Workers) -> None:
        """Add z z' for all rows of `Z`, which are already multiplied by the square roots of their weights."""
        add_products(self.result(), Z, Z, workers, upper=True)

    def result(self) -> Array:
        """Return the matrix; only its upper triangle is defined."""
        if self._gram is None:
            self._gram = np.zeros((self._width, self._width))
        return self._gram

    def restore(self, gram: Array) -> None:
        """Continue from a matrix that `result` returned."""
        self._gram = np.array(gram)  # a copy: blocks are added in place


def far_mean(Z: Array) -> Array | None:
    """Return the mean of some features if it is far from zero, and None if subtracting it would gain little.

    The mean is rounded to float32, so that exactly the same point can be subtracted from features of every dtype.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        mean = Z.mean(axis=0, dtype=np.float64).astype(np.float32).astype(np.float64)
        spread = float(np.square(Z - mean).sum(axis=1, dtype=np.float64).mean())
        far = float(mean @ mean) > FAR * spread  # never if something overflowed
    return mean if far else None


def point_near(Z: Array) -> Array:
    """Return the mean of some features if it is far from zero, and zero otherwise."""
    mean = far_mean(Z)
    return np.zeros(Z.shape[1]) if mean is None else mean


def moved_gram(gram: Array, feature_sum: Array, weight: float, shift: Array | None, to: Array) -> Array:
    """Return the upper triangle of the sum of w (z - to) (z - to)', given that about `shift`; None means zero.

    `feature_sum` is the sum of w z. Entries below the diagonal are not defined.
    """
    step = -to if shift is None else shift - to
    about = feature_sum if shift is None else feature_sum - weight * shift
    # G + d m' + m d' + W d d', with m the sum about the old point: two products of columns.
    left, right = np.stack([step, about + weight / 2 * step]), np.stack([about + weight / 2 * step, step])
    moved = np.empty_like(gram)
    for i in range(0, len(gram), PANEL_ROWS):  # the complete product would need another matrix of that size
        rows, columns = slice(i, i + PANEL_ROWS), slice(i, None)
        np.matmul(left[:, rows].T, right[:, columns], out=moved[rows, columns])
        moved[rows, columns] += gram[rows, columns]
    return moved


class Triangular:
    """A statistic with a symmetric matrix `gram`, of which only the upper triangle is defined and pickled."""

    gram: Array

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "gram": pack_upper(self.gram)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, gram=unpack_upper(state["gram"]))


def pack_upper(matrix: Array) -> Array:
    """Return the D (D + 1) / 2 entries of the upper triangle of a square matrix, row after row."""
    return np.concatenate([row[i:] for i, row in enumerate(matrix)] or [np.zeros(0, matrix.dtype)])


def unpack_upper(packed: Array) -> Array:
    """Return the square matrix of a packed upper triangle, with zeros below the diagonal."""
    D = (isqrt(8 * len(packed) + 1) - 1) // 2
    matrix = np.zeros((D, D), packed.dtype)
    start = 0
    for i, row in enumerate(matrix):
        row[i:] = packed[start : start + D - i]
        start += D - i
    return matrix


def upper_norm(upper: Array) -> float:
    """Return the Frobenius norm of a positive semi-definite matrix, given its upper triangle."""
    diagonal = np.diagonal(upper)
    unit = float(diagonal.max(initial=0.0))  # no entry is larger, and in its units no square overflows
    if unit == 0 or not np.isfinite(unit):
        return unit
    squares = sum(float(np.square(row[i:] / unit).sum()) for i, row in enumerate(upper))
    return unit * float(np.sqrt(2 * squares - np.square(diagonal / unit).sum()))


def symmetric(upper: Array) -> Array:
    """Return the symmetric matrix of an upper triangle."""
    return np.triu(upper) + np.triu(upper, 1).T
