"""Nearest rows of queries, among rows that are packed in cells."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.linalg import dispatch
from mercer.linalg.numpy_kernels import PANEL_ROWS, FloatArray

__all__ = ["PANEL_ROWS", "PackedRows", "nearest_rows", "pack_rows"]


class PackedRows(NamedTuple):
    """Rows in cells, each around a center. The rows of a cell are at consecutive positions, in panels.

    Lengths and centers are multiplied by `scale`, a power of two that makes squared lengths fit into float32.

    Attributes
    ----------
    starts : ndarray of shape (n_cells + 1,), int64
        The panels of cell i are ``starts[i]`` to ``starts[i + 1] - 1``, each with `PANEL_ROWS` positions.
    centers : ndarray of shape (n_cells, d), float64
        Centers. Each row is in the cell of the nearest center.
    order : ndarray of shape (positions,), int64
        Index of the row at each position, -1 at positions without a row.
    scale : float
        The power of two.
    rows : ndarray of shape (positions, d)
        The rows, float32 or float64, unscaled.
    panels : ndarray of shape (panels, d * PANEL_ROWS), float32
        Scaled differences between rows and their center. Rows are interleaved in a panel.
    lows : ndarray of shape (positions,), float32
        Lower bounds of the squared lengths of these differences; infinity at positions without a row.
    lengths : ndarray of shape (panels, 2), float64
        Lower bound of the least, and upper bound of the largest, of these lengths in each panel.
    radii : ndarray of shape (n_cells,), float64
        Upper bounds of these lengths in each cell.
    """

    starts: NDArray[np.int64]
    centers: NDArray[np.float64]
    order: NDArray[np.int64]
    scale: float
    rows: FloatArray
    panels: NDArray[np.float32]
    lows: NDArray[np.float32]
    lengths: NDArray[np.float64]
    radii: NDArray[np.float64]


def pack_rows(X: FloatArray, packed: PackedRows, first: int, last: int) -> None:
    """Fill the arrays `rows`, `panels`, `lows` and `lengths` for the cells from `first` to ``last - 1``.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows, in the dtype of ``packed.rows``.
    packed : PackedRows
        The arrays `starts`, `centers`, `order` and `scale` are set.
    first, last : int
        Range of cells. Threads may fill disjoint ranges at the same time.
    """
    dispatch.check_array("pack_rows", "X", X, 2, packed.rows.dtype)
    starts, centers, order, scale, rows, panels, lows, lengths, _ = packed
    dispatch.kernels.pack_rows(X, starts, centers, order, scale, first, last, rows, panels, lows, lengths)


def nearest_rows(
    X: FloatArray,
    homes: NDArray[np.int64],
    packed: PackedRows,
    indices: NDArray[np.int64],
    squares: NDArray[np.float64],
    *,
    own: NDArray[np.int64] | None = None,
    before: NDArray[np.int64] | None = None,
    first_visits: int = 1,
    reach: float = 1.0,
) -> None:
    """Find the nearest rows of queries.

    The result is exact if `reach` is 1: cells and rows are skipped only if bounds of their distances, which include all
    rounding errors, show that they have no neighbors. The result does not depend on `homes` and `first_visits` then.

    Parameters
    ----------
    X : ndarray of shape (m, d)
        Queries, in the dtype of the rows. The time is least if queries with the same home follow each other.
    homes : ndarray of shape (m,), int64
        Cell of the nearest center of each query.
    packed : PackedRows
        The rows.
    indices : ndarray of shape (m, count), int64
        Filled with the indices of the nearest rows, sorted by distance, ties by index. Entries for which there is no
        row are unchanged.
    squares : ndarray of shape (m, count), float64
        Filled with their squared distances, computed from differences in float64.
    own, before : ndarray of shape (m,), int64, default=None
        Row that is not a neighbor, and number of first rows that may be neighbors.
    first_visits : int, default=1
        Number of cells that are compared first, in the order of the distances between their centers and that of the
        home.
    reach : float, default=1.0
        A cell is skipped if the lower bound of its distance exceeds this multiple of the distance of the farthest
        candidate. Less than 1 is faster and misses neighbors. The NumPy implementation misses none.
    """
    name = "nearest_rows"
    dispatch.check_array(name, "X", X, 2, packed.rows.dtype)
    for what, array in (("homes", homes), ("own", own), ("before", before)):
        if array is not None:
            dispatch.check_array(name, what, array, 1, np.dtype(np.int64))
            if len(array) != len(X):
                msg = f"{name}: {what} must have length m = {len(X)}, got {len(array)}"
                raise ValueError(msg)
    dispatch.check_array(name, "indices", indices, 2, np.dtype(np.int64))
    dispatch.check_array(name, "squares", squares, 2, np.dtype(np.float64))
    if indices.shape != squares.shape or len(indices) != len(X) or not indices.shape[1]:
        msg = f"{name}: indices and squares must have shape ({len(X)}, count), got {indices.shape} and {squares.shape}"
        raise ValueError(msg)
    if not len(packed.starts) or packed.starts[-1] != len(packed.order) // PANEL_ROWS:
        msg = (
            f"{name}: the cells of packed must have all of the {len(packed.order) // PANEL_ROWS} panels, got starts up "
            f"to {packed.starts.max(initial=0)}"
        )
        raise ValueError(msg)
    dispatch.kernels.nearest_rows(X, homes, *packed, own, before, first_visits, reach, indices, squares)
