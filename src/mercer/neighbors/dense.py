"""Exact search among dense rows."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from mercer.engines.base import Report, report_step, workers
from mercer.neighbors.base import NeighborIndex, Queries
from mercer.neighbors.cells import BLOCK_BYTES, BLOCK_QUERIES, _nearest_center, build_cells, search_cells

__all__ = ["DenseIndex"]

Array = np.ndarray


class DenseIndex(NeighborIndex):
    """Exact search among dense rows."""

    search: ClassVar[Literal["exact", "approximate"]] = "exact"

    def __init__(self, rows: Array, seed: int, n_jobs: int | None, n_cells=None) -> None:
        super().__init__(*rows.shape, sparse=False)
        self._cells = build_cells(rows, seed, n_jobs, n_cells)

    def _search(self, queries: Queries, indices: Array, squares: Array, threads: int, report: Report | None) -> None:
        dtype = self._cells.rows.dtype
        X = queries.X
        m = len(X)
        X = np.ascontiguousarray(X, dtype=dtype)
        with workers(threads) as team:
            if len(self._cells.centers) > 1:
                homes, _ = _nearest_center(X, self._cells.centers / self._cells.scale, team)
                order = np.argsort(homes, kind="stable")
            else:
                homes, order = np.zeros(m, dtype=np.int64), np.arange(m)
            step = int(np.clip(BLOCK_BYTES // (24 * (2 * queries.count + 24)), 1, BLOCK_QUERIES))

            def fill(start: int) -> int:
                part = order[start : start + step]
                own = None if queries.own is None else queries.own[part]
                before = None if queries.before is None else queries.before[part]
                found = np.full((len(part), queries.count), -1, dtype=np.int64)
                apart = np.full((len(part), queries.count), np.inf)
                search_cells(self._cells, X[part], own, before, homes[part], found, apart)
                indices[part], squares[part] = found, apart
                return min(start + step, m)

            for done in team.in_order(fill, range(0, m, step)):
                report_step(report, done, m, unit="rows")
