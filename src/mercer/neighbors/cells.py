"""Rows in cells around centers, and the search for neighbors among them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.spatial.distance import cdist

from mercer.engines.base import Workers, workers
from mercer.linalg.row_search import PANEL_ROWS, PackedRows, nearest_rows, pack_rows
from mercer.neighbors.base import Queries

__all__ = ["cells_within", "in_cells", "packed_centers", "search_cells"]

Array = np.ndarray
# With fewer rows than this there is one cell: visiting cells takes longer than comparing all rows.
MIN_ROWS = 5000
# Rows of the sample for each cell, and iterations, of the clustering that finds the centers.
SAMPLE_PER_CELL = 32
ITERATIONS = 3
# Cells that are compared with a query before all others; then few other cells can have neighbors.
FIRST_VISITS = 6
# Queries that are searched together, and the largest number of bytes for their candidates and for a block of rows.
BLOCK_QUERIES = 128
BLOCK_BYTES = 2**26
# Rows whose nearest center is searched at a time, and cells that are packed at a time.
BLOCK_ROWS = 1024
BLOCK_CELLS = 16


def in_cells(rows: Array, seed: int, team: Workers) -> PackedRows:
    """Partition rows into cells: each row belongs to the nearest of the centers that a sample of the rows has."""
    n = len(rows)
    # Of a Fortran array, rows are gathered from memory that is far apart, so it is copied once.
    rows = np.ascontiguousarray(rows)
    n_cells = int(np.sqrt(n) / 2) if n >= MIN_ROWS else 1
    if n_cells == 1:
        return _one_cell(rows, team)
    centers = _centers(rows, n_cells, np.random.default_rng(seed), team)
    cell, squares = _nearest_centers(rows, _one_cell(centers, team), team)
    used, cell = np.unique(cell, return_inverse=True)
    return _packed(rows, cell, squares, centers[used], _scale(rows, centers[used].mean(axis=0)), team)


def search_cells(
    packed: PackedRows,
    queries: Queries,
    indices: Array,
    squares: Array,
    team: Workers,
    reach: float,
    centers: PackedRows | None,
) -> Iterator[int]:
    """Fill `indices` and `squares` with the neighbors of queries, and yield how many queries are done.

    `centers` is what `packed_centers` returns for `packed`.
    """
    X, count = queries.X, queries.count
    if centers is None:
        homes, order = np.zeros(len(X), dtype=np.int64), np.arange(len(X))
    else:
        homes, _ = _nearest_centers(X, centers, team)
        order = np.argsort(homes, kind="stable")
    step = int(np.clip(BLOCK_BYTES // (50 * count), 1, BLOCK_QUERIES))

    def fill(start: int) -> int:
        part = order[start : start + step]
        some = queries[part]
        rows = np.ascontiguousarray(some.X, dtype=packed.rows.dtype)
        found = np.full((len(part), count), -1, dtype=np.int64), np.full((len(part), count), np.inf)
        nearest_rows(
            rows,
            homes[part],
            packed,
            *found,
            own=some.own,
            before=some.before,
            first_visits=FIRST_VISITS,
            reach=reach,
        )
        indices[part], squares[part] = found
        return start + len(part)

    return team.in_order(fill, range(0, len(X), step))


def cells_within(packed: PackedRows, X: Array, squares: Array) -> Array:
    """Return which cells (m, n_cells) may have rows within the squared distances (m,) of queries.

    These are the cells that an exact search compares with a query whose farthest neighbor has this distance: its ball,
    and the plane between its center and that of the home of the query, are nearer.
    """
    reach = np.sqrt(squares)[:, None] * packed.scale
    gaps = cdist(X.astype(np.float64) * packed.scale, packed.centers)
    homes = gaps.argmin(axis=1)
    between = cdist(packed.centers[homes], packed.centers)
    nearest = gaps[np.arange(len(X)), homes][:, None]
    return (gaps - packed.radii <= reach) & (gaps**2 - nearest**2 <= 2 * between * reach)


def packed_centers(packed: PackedRows) -> PackedRows | None:
    """Return the centers of cells as the rows of one cell, or None if there is one center."""
    if len(packed.centers) == 1:
        return None
    with workers(1) as team:
        return _one_cell(packed.centers / packed.scale, team)


def _scale(rows: Array, origin: Array) -> float:
    """Return a power of two times which the largest entry of ``rows - origin`` is about 1."""
    high, low = rows.max(axis=0).astype(np.float64), rows.min(axis=0).astype(np.float64)
    largest = float(np.maximum(high - origin, origin - low).max(initial=0.0))
    return 2.0 ** float(np.clip(-np.frexp(largest)[1], -500, 500)) if largest > 0 else 1.0


def _one_cell(rows: Array, team: Workers) -> PackedRows:
    """Return rows in one cell around their mean."""
    mean = rows.mean(axis=0, dtype=np.float64)
    squares = np.concatenate(
        [np.square(rows[i : i + BLOCK_ROWS] - mean).sum(axis=1) for i in range(0, len(rows), BLOCK_ROWS)]
    )
    return _packed(rows, np.zeros(len(rows), dtype=np.intp), squares, mean[None], _scale(rows, mean), team)


def _centers(rows: Array, n_cells: int, rng: np.random.Generator, team: Workers) -> Array:
    """Return the centers that Lloyd's iteration finds in a sample of the rows, from random rows on."""
    sample = rows[rng.choice(len(rows), size=min(len(rows), SAMPLE_PER_CELL * n_cells), replace=False)]
    sample = sample.astype(np.float64)
    centers = sample[:n_cells].copy()
    for _ in range(ITERATIONS):
        cell, _ = _nearest_centers(sample, _one_cell(centers, team), team)
        order = np.argsort(cell, kind="stable")
        used, starts, counts = np.unique(cell[order], return_index=True, return_counts=True)
        centers[used] = np.add.reduceat(sample[order], starts, axis=0) / counts[:, None]
    return centers


def _nearest_centers(rows: Array, centers: PackedRows, team: Workers) -> tuple[Array, Array]:
    """Return the nearest center of each row, and the squared distance to it."""
    cell, squares = np.empty((len(rows), 1), dtype=np.int64), np.empty((len(rows), 1))

    def fill(start: int) -> None:
        part = slice(start, start + BLOCK_ROWS)
        some = np.ascontiguousarray(rows[part], dtype=np.float64)
        nearest_rows(some, np.zeros(len(some), dtype=np.int64), centers, cell[part], squares[part])

    team.run(fill, range(0, len(rows), BLOCK_ROWS))
    return cell[:, 0], squares[:, 0]


def _packed(rows: Array, cell: Array, squares: Array, centers: Array, scale: float, team: Workers) -> PackedRows:
    """Return rows in the order of their cells and, within each, of their distance to the center."""
    (n, d), n_cells = rows.shape, len(centers)
    counts = np.bincount(cell, minlength=n_cells)
    starts = np.concatenate([[0], np.cumsum(-(-counts // PANEL_ROWS))]).astype(np.int64)
    n_panels = int(starts[-1])
    n_positions = n_panels * PANEL_ROWS
    index = np.full(n_positions, -1, dtype=np.int64)
    within = np.arange(n) - np.repeat(np.cumsum(counts) - counts, counts)
    index[np.repeat(starts[:-1] * PANEL_ROWS, counts) + within] = np.lexsort((squares, cell))
    packed = PackedRows(
        starts,
        centers * scale,
        index,
        scale,
        rows=np.empty((n_positions, d), dtype=rows.dtype),
        panels=np.empty((n_panels, d * PANEL_ROWS), dtype=np.float32),
        lows=np.empty(n_positions, dtype=np.float32),
        lengths=np.empty((n_panels, 2)),
        radii=np.empty(n_cells),
    )
    team.run(lambda i: pack_rows(rows, packed, i, min(i + BLOCK_CELLS, n_cells)), range(0, n_cells, BLOCK_CELLS))
    packed.radii[:] = np.maximum.reduceat(packed.lengths[:, 1], starts[:-1])
    return packed
