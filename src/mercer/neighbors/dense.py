"""Search among dense rows, exact and approximate."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

import numpy as np

from mercer.engines.base import Report, Workers, report_step, workers
from mercer.linalg.row_search import PANEL_ROWS, PackedRows
from mercer.neighbors.base import NeighborIndex, Queries
from mercer.neighbors.cells import BLOCK_QUERIES, cells_within, in_cells, packed_centers, search_cells

__all__ = ["DenseIndex"]

Array = np.ndarray
# An approximate search finds at least this fraction of the neighbors of sampled rows.
RECALL = 0.98
# Number of sampled rows and of their neighbors.
SAMPLED_ROWS = 256
SAMPLED_NEIGHBORS = 64
# Multiples of the distance of the farthest candidate beyond which an approximate search skips cells.
REACHES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


class DenseIndex(NeighborIndex):
    """Search among dense rows. They are stored in cells, and cells that are too far from a query are skipped.

    An exact search skips cells that cannot have neighbors. An approximate one also skips cells that probably have none:
    those beyond a multiple of the distance of the farthest candidate, which is chosen so that 98 % of the neighbors of
    a sample of the rows are found.
    """

    def __init__(self, rows: Array, search: Literal["exact", "approximate"], seed: int, n_jobs: int | None) -> None:
        super().__init__(*rows.shape, sparse=False, search=search)
        self._reach = 1.0
        if not len(rows):
            return
        with workers(n_jobs) as team:
            self._packed = in_cells(rows, seed, team)
            if search == "approximate" and len(self._packed.centers) > 1:
                self._reach = self._sufficient_reach(rows, seed, team)

    @cached_property
    def _centers(self) -> PackedRows | None:
        """The centers of the cells, in which the nearest one of each query is searched; None if there is one cell."""
        return packed_centers(self._packed)

    def rows_compared(self, rows: Array, count: int, *, seed: int = 0, n_jobs: int | None = None) -> float:
        """Return the mean number of rows that an exact search compares with one of the rows of the index.

        The estimate is that of a sample of the rows. Rows that are skipped within a cell are counted.

        Parameters
        ----------
        rows : ndarray of shape (n, d)
            The rows of the index.
        count : int
            Number of neighbors.
        seed : int, default=0
            Seed of the sample.
        n_jobs : int or None, default=None
            Number of threads; None means all cores.

        Returns
        -------
        float
        """
        packed = self._packed
        some = np.random.default_rng(seed).choice(len(rows), size=min(SAMPLED_ROWS, len(rows)), replace=False)
        queries = Queries(rows[some], min(count, len(rows) - 1), some.astype(np.int64), None)
        with workers(n_jobs) as team:
            farthest = self._found(queries, 1.0, team)[:, -1]
        sizes = np.add.reduceat(packed.order >= 0, packed.starts[:-1] * PANEL_ROWS)
        return float((cells_within(packed, rows[some], farthest) @ sizes).mean())

    def _sufficient_reach(self, rows: Array, seed: int, team: Workers) -> float:
        """Return the least of `REACHES` that finds enough of the neighbors of sampled rows, or 1."""
        some = np.random.default_rng(seed).choice(len(rows), size=min(SAMPLED_ROWS, len(rows)), replace=False)
        queries = Queries(rows[some], min(SAMPLED_NEIGHBORS, len(rows) - 1), some.astype(np.int64), None)
        farthest = self._found(queries, 1.0, team)[:, -1:]
        for reach in REACHES:
            if (self._found(queries, reach, team) <= farthest).mean() >= RECALL:
                return reach
        return 1.0

    def _found(self, queries: Queries, reach: float, team: Workers) -> Array:
        """Return the squared distances of the neighbors that are found."""
        shape = len(queries), queries.count
        indices, squares = np.empty(shape, dtype=np.intp), np.empty(shape)
        for _ in search_cells(self._packed, queries, indices, squares, team, reach, self._centers):
            pass
        return squares

    def _search(self, queries: Queries, indices: Array, squares: Array, threads: int, report: Report | None) -> None:
        # Starting threads takes longer than a search for few queries.
        with workers(min(threads, -(-len(queries) // BLOCK_QUERIES))) as team:
            for done in search_cells(self._packed, queries, indices, squares, team, self._reach, self._centers):
                report_step(report, done, len(queries), unit="rows")
