r"""The roughness :math:`\Phi^\top M \Phi` of features on a graph, :math:`M = \alpha L^c`, by sparse products.

Let :math:`L^c = R L^{odd} R`, where R is an integer power of L or a polynomial in L, and odd is 0 or 1. The columns of
:math:`\Phi` are processed in panels that are as wide as `max_bytes` allows. A panel P holds some columns of the
features of all rows:

1. P is overwritten by R P. The products :math:`P^\top L^{odd} P` are the diagonal block of the result that belongs to
   the columns of the panel.
2. P is overwritten by :math:`L^c` times the original panel. Its products with all later columns of :math:`\Phi` are the
   part of the result to the right of the diagonal block. The later columns are computed again, block by block of rows.

If one panel holds all columns, the features are computed only once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mercer.engines import Report, Workers, block_rows_for, empty_rows, report_step
from mercer.engines.base import workers
from mercer.features import Features
from mercer.graphs.laplacian import LaplacianRoot
from mercer.linalg import sparse_product
from mercer.statistics import add_products

__all__ = ["sum_roughness"]

Array = np.ndarray
# Number of rows whose features one thread computes at a time.
SLICE_ROWS = 256
# Number of columns that are multiplied by L together. With 60,000 rows, they and the products stay in cache. With more
# rows they do not, but reading several adjacent cache lines per row is more efficient than reading one, and the
# products take little memory compared with the panel.
NARROW_COLUMNS = 64
# Number of rows of a product with L that one thread computes at a time.
TASK_ROWS = 2048
# Number of unused columns of a buffer; see `with_spare_columns`.
SPARE = 16
# Relative rounding error of a sum of squares over a block of rows in float32, as BLAS computes it.
ROUNDING = 32 * float(np.finfo(np.float32).eps)
# Largest acceptable rounding error of U, compared with the identity in I + U.
MAX_ROUNDING = 0.1
# Number of columns whose roughness is computed first, to detect early that float32 is not accurate enough.
PILOT_COLUMNS = 16


def sum_roughness(
    features: Features,
    X: Any,
    root: LaplacianRoot,
    *,
    strength: float,
    max_bytes: int,
    n_jobs: int | None,
    report: Report | None = None,
) -> Array:
    """Return strength * Phi' L^c Phi for the features Phi (n, D) of the nodes of a graph with the Laplacian L.

    Parameters
    ----------
    features : Features
        The features of a fitted map, which must be real.
    X : ndarray or CSR of shape (n, d)
        The nodes of the graph.
    root : LaplacianRoot
        The factors of L^c.
    strength : float
        Weight of the roughness.
    max_bytes : int
        Largest number of bytes of a panel, which holds some columns of the features of all rows.
    n_jobs : int or None
        Number of threads; the result does not depend on it.
    report : callable or None, default=None
        Receives the number of columns of the features that are done.

    Returns
    -------
    ndarray of shape (D, D)
        A float64 matrix of which only the upper triangle is valid.

    Notes
    -----
    Products are computed in the dtype of the rows and summed in float64 over blocks of rows. If the rounding error of
    products in float32 is not small compared with the identity that a deformation adds, the sum is computed again in
    float64. This is usually detected on a few columns before the first dense product, and otherwise after the first
    panel whose diagonal block is too large.
    """
    with workers(n_jobs) as team:
        limit = MAX_ROUNDING / ROUNDING / strength if X.dtype == np.float32 and strength > 0 else np.inf
        total = _Sum(features, X, root, X.dtype, team, report).result(max_bytes, limit)
        if total is None:
            total = _Sum(features, X, root, np.dtype(np.float64), team, report).result(max_bytes)
        total *= strength
    return total


class _Sum:
    """The computation of Phi' L^c Phi with products of one dtype."""

    def __init__(
        self,
        features: Features,
        X: Any,
        root: LaplacianRoot,
        dtype: np.dtype,
        team: Workers,
        report: Report | None = None,
    ) -> None:
        self.report = report
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

    def result(self, max_bytes: int, limit: float = np.inf) -> Any:
        """Return Phi' L^c Phi, or None as soon as an entry of its diagonal exceeds `limit`."""
        total = np.zeros((self.width, self.width))
        columns = max(1, min(self.width, max_bytes // (self.n * self.dtype.itemsize)))
        count = -(-self.width // columns)
        edges = np.linspace(0, self.width, count + 1).astype(int)
        self.products, self.finished = 2 * count - 1, 0
        buffer = with_spare_columns(self.n, int(np.diff(edges).max()), self.dtype)
        self.narrow = min(self.narrow, buffer.shape[1])
        self.images = empty_rows(self.n, self.narrow, self.dtype)
        for start, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            panel = buffer[:, : stop - start]
            self._fill(panel, start, stop)
            if start == 0 and limit < np.inf and self._pilot_diagonal(panel).max() > limit:
                return None
            self._replace(panel, self.root.half_power)
            self._add_diagonal(panel, total[start:stop, start:stop])
            if np.diagonal(total)[start:stop].max() > limit:
                return None
            if stop < self.width:
                self._replace(panel, self.root.half_power + self.root.odd)
                self._add_right(panel, total[start:stop, stop:], stop)
        return total

    def _tell(self, rows: int) -> None:
        """Report that one of the products, of which there are `self.products`, is done up to a row."""
        report_step(self.report, self.finished * self.n + rows, self.products * self.n, unit="rows")
        self.finished += rows == self.n

    def _fill(self, panel: Array, start: int, stop: int) -> None:
        """Write the columns `start` to `stop` - 1 of the features of all rows into a panel."""
        all_columns = stop - start == self.width and self.dtype == self.X.dtype

        def compute(i: int) -> None:
            rows = slice(i, i + SLICE_ROWS)
            if all_columns:
                self.features(self.X[rows], panel[rows])
            else:
                panel[rows] = self._features(rows)[:, start:stop]

        self.team.run(compute, range(0, self.n, SLICE_ROWS))

    def _features(self, rows: slice) -> Array:
        block = self.X[rows]
        out = np.empty((block.shape[0], self.width), self.features.output_dtype(block.dtype))
        self.features(block, out)
        return out

    def _pilot_diagonal(self, panel: Array) -> Array:
        """Return the diagonal entries of Phi' L^c Phi for a few columns of a panel, which is not modified."""
        some = panel[:, :: -(-panel.shape[1] // PILOT_COLUMNS)].copy()
        self._replace(some, self.root.half_power)
        image = some
        if self.root.odd:
            image = np.empty_like(some)
            self._multiply(some, image)
        return np.einsum("ij,ij->j", some, image, dtype=np.float64)

    def _replace(self, panel: Array, times: int) -> None:
        """Overwrite a panel P by L^times P, or by p(L) P with the polynomial p of a fractional power."""
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

    def _multiply(self, columns: Array, out: Array, first: int = 0) -> None:
        """Write len(out) rows of L @ columns, from row `first` on, into `out`."""
        starts, indices, values = self.entries

        def apply(part: slice) -> None:
            sparse_product(starts[first + part.start : first + part.stop + 1], indices, values, columns, out[part])

        self._in_parallel(apply, len(out))

    def _copy(self, source: Array, target: Array) -> None:
        def apply(rows: slice) -> None:
            target[rows] = source[rows]

        self._in_parallel(apply, len(target))

    def _in_parallel(self, function: Callable[[slice], Any], rows: int) -> None:
        self.team.run(function, slices(rows, TASK_ROWS))

    def _add_diagonal(self, panel: Array, total: Array) -> None:
        """Add P' L^odd P to `total`, for a panel P and odd = 0 or 1."""
        buffer = with_spare_columns(min(self.n, self.block_rows) * self.root.odd, panel.shape[1], self.dtype)
        for rows in slices(self.n, self.block_rows):
            block = image = panel[rows]
            if self.root.odd:
                image = buffer[: len(block)]
                self._multiply(panel, image, rows.start)
            add_products(total, block, image, self.team, upper=True)
            self._tell(rows.stop)

    def _add_right(self, panel: Array, total: Array, stop: int) -> None:
        """Add P' F to `total`, for a panel P and the columns F of the features of all rows from `stop` on."""
        buffer = with_spare_columns(min(self.n, self.block_rows), self.width - stop, self.dtype)
        for rows in slices(self.n, self.block_rows):
            later = buffer[: rows.stop - rows.start]

            def compute(part: slice, rows: slice = rows, later: Array = later) -> None:
                later[part] = self._features(slice(rows.start + part.start, rows.start + part.stop))[:, stop:]

            self.team.run(compute, slices(len(later), SLICE_ROWS))
            add_products(total, panel[rows], later, self.team, upper=False)
            self._tell(rows.stop)


def with_spare_columns(rows: int, columns: int, dtype: np.dtype) -> Array:
    """Return an uninitialized matrix whose row stride is not a power of two.

    With a power of two as stride, the entries of a column would share few cache sets.
    """
    return empty_rows(rows, columns + SPARE, dtype)[:, :columns]


def slices(size: int, step: int) -> Iterator[slice]:
    """Return consecutive slices of at most `step` indices that cover range(size)."""
    return (slice(i, min(i + step, size)) for i in range(0, size, step))
