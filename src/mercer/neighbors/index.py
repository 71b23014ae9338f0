"""Choice of an index for rows."""

from __future__ import annotations

from typing import Any, Literal

import scipy.sparse as sp

from mercer.neighbors.base import NeighborIndex, check_rows
from mercer.neighbors.dense import DenseIndex
from mercer.neighbors.sparse import SparseIndex
from mercer.parameters import Choice, Integer, check_parameter

__all__ = ["neighbor_index"]

# Number of entries of the rows up to which "auto" is exact: with them, a query takes about a millisecond, or less
# where the triangle inequality excludes most rows.
MAX_EXACT_ENTRIES = 10**8


def neighbor_index(
    rows: Any,
    *,
    search: Literal["auto", "exact", "approximate"] = "auto",
    seed: int = 0,
    n_jobs: int | None = None,
) -> NeighborIndex:
    """Return an index of rows, in which the nearest neighbors of queries are searched.

    Parameters
    ----------
    rows : ndarray or CSR of shape (n, d)
        The rows, float32 or float64.
    search : {"auto", "exact", "approximate"}, default="auto"
        "exact" finds all nearest neighbors, up to rounding errors of distances in float64. "approximate" finds about
        98 % of them, in less time. "auto" is exact up to 10^8 entries of the rows, where one query takes milliseconds.
        The search among sparse rows is always exact; the attribute `search` of the result reports which it is.
    seed : int, default=0
        Seed of what is random in the index.
    n_jobs : int or None, default=None
        Number of threads that build the index; None means all cores.

    Returns
    -------
    NeighborIndex
        The index. It may refer to the memory of `rows`, which must not be changed while it is in use.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.neighbors import neighbor_index
    >>> index = neighbor_index(np.array([[0.0], [1.0], [3.0]]))
    >>> indices, distances = index.query(np.array([[0.75]]), 2)
    >>> indices, distances
    (array([[1, 0]]), array([[0.25, 0.75]]))
    """
    check_parameter("neighbor_index", "search", search, Choice("auto", "exact", "approximate"))
    check_parameter("neighbor_index", "seed", seed, Integer(0))
    rows = check_rows("neighbor_index", "rows", rows)
    if sp.issparse(rows):
        return SparseIndex(rows)
    if search == "auto":
        search = "exact" if rows.size <= MAX_EXACT_ENTRIES else "approximate"
    return DenseIndex(rows, search, seed, n_jobs)
