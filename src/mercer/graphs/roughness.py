r"""The roughness of features on a graph, Phi' M Phi with :math:`M = \alpha L^c`, without a matrix of all pairs of rows.

L acts on every column of the features by itself. So a panel of columns of all rows is kept, as wide as the memory
allows; with :math:`L^c = R L^{odd} R` it is replaced by its image under R, whose products are the block of the result
on the diagonal; then by that under :math:`L^c`, whose products with the features of all later columns, computed again
block by block of rows, are the blocks beside it. With room for all columns the features are computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mercer.engines import Workers, block_rows_for, empty_rows
from mercer.engines.base import workers
from mercer.features import Features
from mercer.graphs.laplacian import LaplacianRoot
from mercer.linalg import sparse_product
from mercer.statistics import add_products

__all__ = ["sum_roughness"]

Array = np.ndarray
# Rows whose features one thread computes at a time.
SLICE_ROWS = 256
# Columns that go through sparse products together: of 60,000 rows they stay in cache with their images; of more rows,
# pieces of a few cache lines are read faster than shorter ones, and take little memory beside the panel.
NARROW_COLUMNS = 64
# Rows of such columns that are the work of one thread.
TASK_ROWS = 2048
# Columns beside those of a panel.
SPARE = 16
# Rounding of a sum of squares in float32, in units of the sum: of a block of rows, as BLAS adds them up.
ROUNDING = 32 * float(np.finfo(np.float32).eps)
# How large it may be beside the identity that is added.
MOST_ROUNDING = 0.1
# Columns whose roughness tells beforehand that it will be too large.
LOOK_COLUMNS = 16


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
    in float32 would not be small beside the identity that a deformation adds, they run in float64: a few columns tell
    before the first product, as a rule, and every panel of columns after its own.
    """
    with workers(n_jobs) as team:
        limit = MOST_ROUNDING / ROUNDING / alpha if X.dtype == np.float32 and alpha > 0 else np.inf
        total = _Sum(features, X, root, X.dtype, team).result(memory, limit)
        if total is None:
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
        L = self.root.laplacian.matrix
        self.entries = L.indptr.astype(np.int32), L.indices.astype(np.int32), L.data
        self.dtype = dtype
        self.team = team
        self.block_rows = block_rows_for(max(self.width, X.shape[1]), dtype.itemsize)
        self.narrow = NARROW_COLUMNS

    def result(self, memory: int, limit: float = np.inf) -> Any:
        """Return the sum, or None as soon as an entry of its diagonal is seen to be above `limit`."""
        total = np.zeros((self.width, self.width))
        most = max(1, min(self.width, memory // (self.n * self.dtype.itemsize)))
        count = -(-self.width // most)
        edges = np.linspace(0, self.width, count + 1).astype(int)
        room = with_spare_columns(self.n, int(np.diff(edges).max()), self.dtype)
        self.narrow = min(self.narrow, room.shape[1])
        self.images = empty_rows(self.n, self.narrow, self.dtype)
        for start, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            panel = room[:, : stop - start]
            self._keep(panel, start, stop)
            if start == 0 and limit < np.inf and self._entries(panel).max() > limit:
                return None
            self._replace(panel, self.root.whole)
            self._add_diagonal(panel, total[start:stop, start:stop])
            if np.diagonal(total)[start:stop].max() > limit:
                return None
            if stop < self.width:
                self._replace(panel, self.root.whole + self.root.odd)
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

    def _entries(self, panel: Array) -> Array:
        """Return the entries on the diagonal of the sum of some columns of a panel, which is left as it is."""
        some = panel[:, :: -(-panel.shape[1] // LOOK_COLUMNS)].copy()
        self._replace(some, self.root.whole)
        beside = some
        if self.root.odd:
            beside = np.empty_like(some)
            self._multiply(some, beside)
        return np.einsum("ij,ij->j", some, beside, dtype=np.float64)

    def _replace(self, panel: Array, times: int) -> None:
        """Replace columns by their images under L, some times over, or under the polynomial that stands for it."""
        if self.root.coefficients is not None:

            def apply(columns: slice) -> None:
                panel[:, columns] = self.root(np.ascontiguousarray(panel[:, columns]))

            self.team.run(apply, slices(panel.shape[1], self.narrow))
            return
        for columns in slices(panel.shape[1], self.narrow):
            here, there = panel[:, columns], self.images[:, : columns.stop - columns.start]
            for _ in range(times):
                self._multiply(here, there)
                here, there = there, here
            if times % 2:
                self._copy(here, there)

    def _multiply(self, columns: Array, out: Array, begin: int = 0) -> None:
        """Write rows of L times columns of all rows: as many as there is room for, from one on."""
        starts, indices, values = self.entries

        def apply(part: slice) -> None:
            sparse_product(starts[begin + part.start : begin + part.stop + 1], indices, values, columns, out[part])

        self._in_parallel(apply, len(out))

    def _copy(self, source: Array, target: Array) -> None:
        def apply(rows: slice) -> None:
            target[rows] = source[rows]

        self._in_parallel(apply, len(target))

    def _in_parallel(self, function: Callable[[slice], Any], rows: int) -> None:
        self.team.run(function, slices(rows, TASK_ROWS))

    def _add_diagonal(self, panel: Array, total: Array) -> None:
        """Add the products of a panel with itself, or with its image under L where the power is odd."""
        image = with_spare_columns(min(self.n, self.block_rows) * self.root.odd, panel.shape[1], self.dtype)
        for rows in slices(self.n, self.block_rows):
            block = beside = panel[rows]
            if self.root.odd:
                beside = image[: len(block)]
                self._multiply(panel, beside, rows.start)
            add_products(total, block, beside, self.team, upper=True)

    def _add_beside(self, panel: Array, total: Array, stop: int) -> None:
        """Add the products of a panel with the features of all later columns."""
        room = with_spare_columns(min(self.n, self.block_rows), self.width - stop, self.dtype)
        for rows in slices(self.n, self.block_rows):
            later = room[: rows.stop - rows.start]

            def compute(part: slice, rows: slice = rows, later: Array = later) -> None:
                later[part] = self._features(slice(rows.start + part.start, rows.start + part.stop))[:, stop:]

            self.team.run(compute, slices(len(later), SLICE_ROWS))
            add_products(total, panel[rows], later, self.team, upper=False)


def with_spare_columns(rows: int, columns: int, dtype: np.dtype) -> Array:
    """Return a matrix to be filled, whose rows do not lie a power of two apart: that would crowd few cache sets."""
    return empty_rows(rows, columns + SPARE, dtype)[:, :columns]


def slices(size: int, step: int) -> Iterator[slice]:
    """Cut range(size) into consecutive slices."""
    return (slice(i, min(i + step, size)) for i in range(0, size, step))
