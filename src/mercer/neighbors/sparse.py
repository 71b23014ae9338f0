"""Exact search among sparse rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.engines.base import Report, report_step, workers
from mercer.neighbors.base import NeighborIndex, Queries, nearest_of

__all__ = ["SparseIndex"]

Array = np.ndarray
# Number of distances that a thread computes at a time.
BLOCK_DISTANCES = 2**21


class SparseIndex(NeighborIndex):
    """Exact search among sparse rows, by inner products in float64, and by differences where these lose digits."""

    def __init__(self, rows: Any) -> None:
        super().__init__(*rows.shape, sparse=True, search="exact")
        self._rows = rows.astype(np.float64, copy=False)
        self._transposed = self._rows.T.tocsr()
        self._squares = np.asarray(self._rows.multiply(self._rows).sum(axis=1), dtype=np.float64).ravel()

    def _search(self, queries: Queries, indices: Array, squares: Array, threads: int, report: Report | None) -> None:
        step = max(1, BLOCK_DISTANCES // self.n_rows)

        def fill(start: int) -> int:
            part = slice(start, start + step)
            indices[part], squares[part] = self._nearest(queries[part])
            return min(start + step, len(queries))

        with workers(threads) as team:
            for done in team.in_order(fill, range(0, len(queries), step)):
                report_step(report, done, len(queries), unit="rows")

    def _nearest(self, queries: Queries) -> tuple[Array, Array]:
        """Return the neighbors of a block of queries, and their squared distances."""
        X, count = queries.X.astype(np.float64, copy=False), queries.count
        lengths = np.asarray(X.multiply(X).sum(axis=1)).ravel()
        values = -2.0 * (X @ self._transposed).toarray()
        values += self._squares
        values += lengths[:, None]
        # An inner product has at most this many terms, each with a rounding error relative to the squared lengths.
        terms = max(8.0, float(np.diff(X.indptr).max(initial=0)) + 8.0)
        rounding = terms * np.finfo(np.float64).eps * (lengths[:, None] + self._squares)
        low, high = np.maximum(values - rounding, 0.0), np.maximum(values + rounding, 0.0)
        _, upper = nearest_of(high, count, queries.own, queries.before)
        low[np.isinf(high)] = np.inf
        # Every neighbor is among the rows whose least possible distance is at most the largest of these.
        row, column = np.nonzero(low <= np.where(np.isinf(upper[:, -1:]), np.finfo(np.float64).max, upper[:, -1:]))
        gap = X[row] - self._rows[column]
        refined = np.full(low.shape, np.inf)
        refined[row, column] = np.asarray(gap.multiply(gap).sum(axis=1)).ravel()
        return nearest_of(refined, count, None, None)
