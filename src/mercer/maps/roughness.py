r"""The roughness of features on a graph, Phi' M Phi with :math:`M = \alpha L^c`, without a matrix of all pairs of rows.

L acts on every column of the features by itself. So a panel of columns of all rows is kept, as wide as the memory
allows, and replaced by its image under all factors of L but one (:math:`L^c = R L^{odd} R`). That one is applied to
blocks of rows, whose products are summed up while they are at hand: the block of the result on the diagonal. Then the
panel is replaced by its image under :math:`L^c`, whose products with the features of all later columns, computed again
block by block of rows, are the blocks beside it. With room for all columns the features are computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mercer.engines import Workers, add_products, block_rows_for, empty_rows
from mercer.engines.base import workers
from mercer.maps.base import Features
from mercer.maps.laplacian import LaplacianRoot

__all__ = ["sum_roughness"]

Array = np.ndarray
# Rows whose features one thread computes at a time.
SLICE_ROWS = 256
# Columns that go through sparse products together: few enough that what rows of them are near is in cache.
NARROW_BYTES = 16 * 2**20
NARROW_COLUMNS = 64
# Columns beside those of a panel.
SPARE = 16
# Rounding of a sum of squares in float32, in units of the sum: of a block of rows, as BLAS adds them up.
ROUNDING = 32 * float(np.finfo(np.float32).eps)
# How large it may be beside the identity that is added.
MOST_ROUNDING = 0.1


def sum_roughness(
    features: Features, X: Any, root: LaplacianRoot, *, alpha: float, memory: int, n_jobs: int | None
) -> Array:
    """Return alpha Phi' L^c Phi in float64; only the upper triangle counts.

    Parameters
    ----------
    features : Features
        The drawn map, of real features.
    X : ndarray or CSR of shape (n, d)
        The nodes of the graph.
    root : LaplacianRoot
        The factors of L^c.
    alpha : float
        Weight of the roughness.
    memory : int
        Bytes of the panel of features of all rows.
    n_jobs : int or None
        Threads; the result does not depend on them.

    Returns
    -------
    ndarray of shape (D, D)

    Notes
    -----
    Products run in the dtype of the rows and are added in float64 over blocks of them. Where the rounding of products
    in float32 would not be small beside the identity that a deformation adds, they run in float64.
    """
    with workers(n_jobs) as team:
        total = _Sum(features, X, root, X.dtype, team).result(memory)
        total *= alpha
        if X.dtype == np.float32 and ROUNDING * np.diagonal(total).max(initial=0.0) > MOST_ROUNDING:
            del total
            total = _Sum(features, X, root, np.dtype(np.float64), team).result(memory)
            total *= alpha
    return total


class _Sum:
    """One sum, in products of one dtype."""

    def __init__(self, features: Features, X: Any, root: LaplacianRoot, dtype: np.dtype, team: Workers) -> None:
        self.features = features.astype(X.dtype)
        self.X = X
        self.n = X.shape[0]
        self.width = features.n_components
        self.root = root.astype(dtype)
        self.dtype = dtype
        self.team = team
        self.block_rows = block_rows_for(max(self.width, X.shape[1]), dtype.itemsize)
        self.narrow = int(np.clip(NARROW_BYTES // max(1, self.n * dtype.itemsize), 16, NARROW_COLUMNS))

    def result(self, memory: int) -> Array:
        total = np.zeros((self.width, self.width))
        most = max(1, min(self.width, memory // (self.n * self.dtype.itemsize)))
        count = -(-self.width // most)
        edges = np.linspace(0, self.width, count + 1).astype(int)
        # A few spare columns keep rows from lying a power of two apart, which would crowd them into few cache sets.
        self.room = empty_rows(self.n, int(np.diff(edges).max()) + SPARE, self.dtype)
        self.room[:, -SPARE:] = 0.0  # they go through sparse products
        for start, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            panel = self.room[:, : stop - start]
            self._keep(panel, start, stop)
            self._replace(panel, self.root.first)
            self._add_diagonal(panel, total[start:stop, start:stop])
            if stop < self.width:
                self._replace(panel, self.root.rest)
                self._add_beside(panel, total[start:stop, stop:], stop)
        return total

    def _keep(self, panel: Array, start: int, stop: int) -> None:
        """Compute the features of all rows and keep some columns."""
        whole = stop - start == self.width and self.dtype == self.X.dtype

        def compute(i: int) -> None:
            rows = slice(i, i + SLICE_ROWS)
            if whole:
                self.features(self.X[rows], panel[rows])
            else:
                panel[rows] = self._features(rows)[:, start:stop]

        self.team.run(compute, range(0, self.n, SLICE_ROWS))

    def _features(self, rows: slice) -> Array:
        block = self.X[rows]
        out = np.empty((block.shape[0], self.width), self.features.output_dtype(block.dtype))
        self.features(block, out)
        return out

    def _replace(self, panel: Array, function: Callable[[Array], Array]) -> None:
        """Replace columns by their images under a product with a matrix of all pairs of rows."""

        def apply(columns: slice) -> None:
            panel[:, columns] = function(np.ascontiguousarray(panel[:, columns]))

        self.team.run(apply, slices(panel.shape[1], self.narrow))

    def _add_diagonal(self, panel: Array, total: Array) -> None:
        """Add the products of a panel with itself, the last factor of L applied to blocks of rows."""
        width = panel.shape[1]
        image = empty_rows(min(self.n, self.block_rows), self.room.shape[1], self.dtype)
        for rows in slices(self.n, self.block_rows):
            block = panel[rows]
            if self.root.last is None:
                add_products(total, block, block, self.team, upper=True)
                continue
            beside = image[: rows.stop - rows.start]

            def apply(part: slice, start: int = rows.start, beside: Array = beside) -> None:
                # All columns of the room: a part of them would be copied first.
                beside[part] = self.root.last[start + part.start : start + part.stop] @ self.room

            self.team.run(apply, slices(len(beside), SLICE_ROWS))
            beside = beside[:, :width]
            add_products(total, block if self.root.odd else beside, beside, self.team, upper=True)

    def _add_beside(self, panel: Array, total: Array, stop: int) -> None:
        """Add the products of a panel with the features of all later columns."""
        room = empty_rows(min(self.n, self.block_rows), self.width - stop + SPARE, self.dtype)
        for rows in slices(self.n, self.block_rows):
            later = room[: rows.stop - rows.start, : self.width - stop]

            def compute(part: slice, rows: slice = rows, later: Array = later) -> None:
                later[part] = self._features(slice(rows.start + part.start, rows.start + part.stop))[:, stop:]

            self.team.run(compute, slices(len(later), SLICE_ROWS))
            add_products(total, panel[rows], later, self.team, upper=False)


def slices(size: int, step: int) -> Iterator[slice]:
    """Cut range(size) into consecutive slices."""
    return (slice(i, min(i + step, size)) for i in range(0, size, step))
