"""Partition of rows into cells around centers, in the memory layout of the compiled search."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mercer.engines.base import Workers, workers
from mercer.linalg import nearest_rows, pack_rows
from mercer.linalg.row_search import PANEL_ROWS

__all__ = ["Cells", "build_cells", "search_cells"]

Array = np.ndarray
# With fewer rows than this there is one cell: visiting cells takes longer than comparing all rows.
MIN_ROWS = 5000
# Rows of the sample for each cell, and iterations, of the clustering that finds the centers.
SAMPLE_PER_CELL = 32
ITERATIONS = 3
# Queries that are searched together, and the largest number of bytes for their candidates.
BLOCK_QUERIES = 128
BLOCK_BYTES = 2**26


class Cells(NamedTuple):
    """Rows in cells. Lengths are multiplied by `scale`, a power of two; see `mercer.linalg.pack_rows`."""

    starts: Array  # (n_cells + 1,): first panel of each cell
    centers: Array  # (n_cells, d), float64, scaled
    radii: Array  # (n_cells,): largest distance of a row to its center, rounded up
    index: Array  # (positions,): row at each position, -1 for none
    scale: float
    rows: Array  # (positions, d)
    panels: Array  # (panels, d * PANEL_ROWS), float32
    lows: Array  # (positions,), float32
    lengths: Array  # (panels, 2)


def build_cells(rows: Array, seed: int, n_jobs: int | None, n_cells: int | None = None) -> Cells:
    """Partition rows into cells: each row belongs to the nearest of the centers of a sample."""
    n, d = rows.shape
    rows = np.ascontiguousarray(rows)
    mean = _mean(rows)
    with workers(n_jobs) as team:
        spread = max(_largest_gap(rows, mean), np.finfo(np.float64).tiny)
        scale = 2.0 ** float(np.clip(-np.frexp(spread)[1], -500, 500))
        one = (mean * scale)[None]
        if n_cells is None:
            n_cells = int(np.sqrt(n)) if n >= MIN_ROWS else 1
        if n_cells == 1:
            cell, squares = np.zeros(n, dtype=np.intp), np.square(rows.astype(np.float64) * scale - one[0]).sum(axis=1)
            return _packed(rows, cell, squares, one, scale, team)
        centers = _centers(rows, n_cells, np.random.default_rng(seed), team)
        cell, squares = _nearest_center(rows, centers, team)
        counts = np.bincount(cell, minlength=n_cells)
        used = np.flatnonzero(counts)
        renamed = np.zeros(n_cells, dtype=np.intp)
        renamed[used] = np.arange(len(used))
        return _packed(rows, renamed[cell], squares, centers[used] * scale, scale, team)


def search_cells(
    cells: Cells, X: Array, own: Array | None, before: Array | None, homes: Array, indices: Array, squares: Array
) -> None:
    """Fill `indices` and `squares` with the neighbors of queries, whose nearest cells are `homes`."""
    nearest_rows(X, homes, *cells, FIRST_VISITS, own, before, indices, squares)


FIRST_VISITS = 6


def _mean(rows: Array) -> Array:
    """Return the mean of the rows, computed from parts so that sums do not overflow."""
    return (rows.mean(axis=0, dtype=np.float64)) if len(rows) else np.zeros(rows.shape[1])


def _largest_gap(rows: Array, mean: Array) -> float:
    """Return the largest absolute difference of an entry and the mean of its column."""
    high, low = rows.max(axis=0).astype(np.float64), rows.min(axis=0).astype(np.float64)
    return float(np.maximum(high - mean, mean - low).max(initial=0.0))


def _centers(rows: Array, n_cells: int, rng: np.random.Generator, team: Workers) -> Array:
    """Return the centers that Lloyd's iteration finds in a sample of the rows, from random rows on."""
    some = rng.choice(len(rows), size=min(len(rows), SAMPLE_PER_CELL * n_cells), replace=False)
    sample = rows[some]
    centers = sample[:n_cells].astype(np.float64)
    for _ in range(ITERATIONS):
        cell, _ = _nearest_center(sample, centers, team)
        counts = np.bincount(cell, minlength=n_cells)
        order = np.argsort(cell, kind="stable")
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
        used = counts > 0
        sums = np.add.reduceat(sample[order].astype(np.float64), starts[used], axis=0)
        centers[used] = sums / counts[used, None]
    return centers


def _nearest_center(rows: Array, centers: Array, team: Workers) -> tuple[Array, Array]:
    """Return the nearest center of each row, and the squared distance to it."""
    mean = centers.mean(axis=0)
    spread = max(_largest_gap(centers, mean), np.finfo(np.float64).tiny)
    scale = 2.0 ** float(np.clip(-np.frexp(spread)[1], -500, 500))
    index = _packed(centers, np.zeros(len(centers), dtype=np.intp), None, (mean * scale)[None], scale, None)
    cell, squares = np.empty((len(rows), 1), dtype=np.int64), np.empty((len(rows), 1))
    step = 1024

    def fill(start: int) -> None:
        part = slice(start, start + step)
        X = np.ascontiguousarray(rows[part], dtype=np.float64)
        search_cells(index, X, None, None, np.zeros(len(X), dtype=np.int64), cell[part], squares[part])

    team.run(fill, range(0, len(rows), step))
    return cell[:, 0], squares[:, 0]


def _packed(
    rows: Array, cell: Array, squares: Array | None, centers: Array, scale: float, team: Workers | None
) -> Cells:
    """Return rows in the order of their cells and, within each, of their distance to the center."""
    n, d = rows.shape
    n_cells = len(centers)
    order = np.arange(n) if squares is None else np.lexsort((squares, cell))
    counts = np.bincount(cell, minlength=n_cells)
    n_panels = -(-counts // PANEL_ROWS)
    starts = np.concatenate([[0], np.cumsum(n_panels)]).astype(np.int64)
    positions = int(starts[-1]) * PANEL_ROWS
    index = np.full(positions, -1, dtype=np.int64)
    within = np.arange(n) - np.repeat(np.cumsum(counts) - counts, counts)
    index[np.repeat(starts[:-1] * PANEL_ROWS, counts) + within] = order
    ordered = np.empty((positions, d), dtype=rows.dtype)
    panels = np.empty((positions // PANEL_ROWS, d * PANEL_ROWS), dtype=np.float32)
    lows, lengths = np.empty(positions, dtype=np.float32), np.empty((positions // PANEL_ROWS, 2))

    def fill(first: int) -> None:
        last = min(first + 32, n_cells)
        pack_rows(rows, starts, centers, index, scale, first, last, ordered, panels, lows, lengths)

    if team is None:
        fill(0)
    else:
        team.run(fill, range(0, n_cells, 32))
    last = np.maximum(starts[1:] - 1, 0)
    radii = np.where(n_panels > 0, lengths[last, 1], 0.0)
    return Cells(starts, centers, np.ascontiguousarray(radii), index, scale, ordered, panels, lows, lengths)
