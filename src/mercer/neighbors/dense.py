"""Exact search among dense rows."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from scipy.spatial.distance import cdist

from mercer.engines.base import Report, report_step, workers
from mercer.neighbors.base import NeighborIndex, Queries, nearest_of

__all__ = ["DenseIndex"]

Array = np.ndarray
# Number of distances that a thread computes at a time.
BLOCK_DISTANCES = 2**22


class DenseIndex(NeighborIndex):
    """Exact search among dense rows."""

    search: ClassVar[Literal["exact", "approximate"]] = "exact"

    def __init__(self, rows: Array) -> None:
        super().__init__(*rows.shape, sparse=False)
        self._rows = rows.astype(np.float64, copy=False)

    def _search(self, queries: Queries, indices: Array, squares: Array, threads: int, report: Report | None) -> None:
        step = max(1, BLOCK_DISTANCES // self.n_rows)

        def fill(start: int) -> int:
            part = slice(start, start + step)
            some = queries[part]
            apart = cdist(some.X.astype(np.float64, copy=False), self._rows, "sqeuclidean")
            indices[part], squares[part] = nearest_of(apart, some.count, some.own, some.before)
            return min(start + step, len(queries))

        with workers(threads) as team:
            for done in team.in_order(fill, range(0, len(queries), step)):
                report_step(report, done, len(queries), unit="rows")
