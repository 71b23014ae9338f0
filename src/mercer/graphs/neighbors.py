"""Nearest-neighbor search and detection of equal rows."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from mercer.engines import Report
from mercer.engines.base import count_threads
from mercer.errors import DataError, MercerWarning, MissingPackageError
from mercer.neighbors import NeighborIndex, neighbor_index
from mercer.neighbors.dense import DenseIndex
from mercer.statistics.distinct import row_hashes

__all__ = ["distances", "distinct_rows", "nearest_neighbors", "radii_of", "self_tuned_weights"]

Array = np.ndarray
# From this number of rows on, "auto" may be approximate. Sparse rows are then always compared with all others; the cost
# of dense ones depends on how many cells an exact search skips, which is estimated.
MANY_ROWS = 100_000
# Most rows that an exact search may compare with each row, on average, instead of a descent. A descent costs about as
# much as 135,000 comparisons per row; see `search_cost`.
MOST_COMPARED = 135_000
# Least number of neighbors per row that nearest-neighbor descent maintains. It searches among the neighbors of
# neighbors, and misses many if it maintains few: of the ten nearest neighbors of 20,000 normal rows with 20 features,
# it finds 83 % if it maintains 11 neighbors and 99.7 % if it maintains 30, in the same time.
MIN_DESCENT_NEIGHBORS = 30
# Number of entries of rows that are compared at a time.
CHUNK_ENTRIES = 2**22
# Rows are centered if their mean is farther from zero than this multiple of their spread, since distances are computed
# from inner products, which lose digits if rows are far from zero.
FAR_FROM_ZERO = 100.0
# Cost of the compilation of nearest-neighbor descent, which the first search of a process takes half a minute for, in
# the unit of `search_cost`.
COMPILATION = 5e11
# Relative rounding error of a distance in float32 above which neighbors are uncertain: at this error, an approximate
# search finds 97 to 99 % of them.
MAX_FLOAT32_ROUNDING = 0.05
# Fraction of rows with uncertain neighbors above which a warning is issued.
MAX_UNCERTAIN = 0.01


def nearest_neighbors(
    X: Any,
    count: int,
    *,
    search: Literal["auto", "exact", "approximate"],
    seed: int,
    n_jobs: int | None = None,
    report: Report | None = None,
) -> tuple[Array, str]:
    """Return the indices of the nearest neighbors of each row, and whether the search was exact or approximate.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, d)
        The rows.
    count : int
        Number of neighbors of each row, less than n.
    search : {"auto", "exact", "approximate"}
        "exact" uses `mercer.neighbors`; "approximate" uses nearest-neighbor descent, which needs pynndescent. "auto" is
        approximate if pynndescent is installed and there are 100,000 rows or more, which are sparse, or each of which
        an exact search would compare with more than 135,000 others. The search is always exact if there are so few
        rows that a descent would compare all pairs.
    seed : int
        Seed of the approximate search.
    n_jobs : int or None, default=None
        Number of threads; None means all cores.
    report : callable or None, default=None
        Receives the number of rows whose neighbors are found by an exact search.

    Returns
    -------
    indices : ndarray of shape (n, count)
        Indices of the neighbors; -1 for neighbors that an approximate search missed.
    search : {"exact", "approximate"}
        The kind of search that was used.

    Warns
    -----
    MercerWarning
        If an approximate search, which is in float32, cannot distinguish many rows from their neighbors.
    """
    installed = importlib.util.find_spec("pynndescent") is not None
    if search == "approximate" and not installed:
        msg = (
            "NeighborGraph: search='approximate' needs pynndescent, which is not installed. Install mercer[graph], or "
            "use search='exact'."
        )
        raise MissingPackageError(msg)
    largest = largest_entry(X)
    if largest > np.sqrt(np.finfo(np.float64).max / (4 * X.shape[1])):
        msg = f"NeighborGraph: distances of rows with entries up to {largest:.3g} overflow. Scale the rows down."
        raise DataError(msg)
    threads = count_threads(n_jobs)
    few = X.shape[0] <= max(count + 1, MIN_DESCENT_NEIGHBORS)
    many = search == "auto" and installed and X.shape[0] >= MANY_ROWS
    index: NeighborIndex | None = None
    if few or not (search == "approximate" or (many and sp.issparse(X))):
        index = neighbor_index(X, search="exact", seed=seed, n_jobs=threads)
        if many and isinstance(index, DenseIndex):
            compared = index.rows_compared(X, count, seed=seed, n_jobs=threads)
            index = index if compared <= MOST_COMPARED else None
    if index is not None:
        found, _ = index.query(X, count, own=np.arange(X.shape[0]), n_jobs=threads, report=report)
        return found, "exact"
    X = near_zero(X)
    found = _descent(X, count, seed, threads)
    uncertain = int((np.finfo(np.float32).eps * lengths_over_distances(X, found) > MAX_FLOAT32_ROUNDING).sum())
    if uncertain > MAX_UNCERTAIN * X.shape[0]:
        msg = (
            f"NeighborGraph: {uncertain} of {X.shape[0]} rows are so close to their neighbors, compared with the size "
            "of their entries, that an approximate search, which is in float32, cannot distinguish them, and their "
            "neighbors may be wrong. Use search='exact', or scale down the features in which groups of rows are far "
            "apart."
        )
        warnings.warn(msg, MercerWarning, stacklevel=3)
    return found, "approximate"


def search_cost(n: int, d: int, *, search: Literal["auto", "exact", "approximate"]) -> float:
    """Return the approximate cost of `nearest_neighbors` in multiplications and additions, for displays of progress."""
    # Cells that are too far from a row are skipped, which is nearly all of them if there are few features.
    # Far fewer columns than overflow the power make all rows candidates.
    exact = float(n) * (d + 20) * min(n, 100 * np.sqrt(n) * 1.2 ** min(d, 200))
    descent = 150.0 * n * MIN_DESCENT_NEIGHBORS**2 * d + (0.0 if "pynndescent" in sys.modules else COMPILATION)
    if search == "approximate":
        return descent
    installed = importlib.util.find_spec("pynndescent") is not None
    return min(exact, descent) if search == "auto" and installed and n >= MANY_ROWS else exact


def lengths_over_distances(X: Any, found: Array) -> Array:
    """Return |x| / r for each row x, where r is the largest distance to its neighbors. The result is 0 where r is 0.

    `found` (n, count) holds the indices of the neighbors; -1 is ignored.
    """
    row, position = np.nonzero(found >= 0)
    farthest = np.zeros(len(found))
    np.maximum.at(farthest, row, distances(X, row, found[row, position]))
    squares = X.multiply(X).sum(axis=1) if sp.issparse(X) else np.einsum("ij,ij->i", X, X, dtype=np.float64)
    lengths = np.sqrt(np.asarray(squares, dtype=np.float64).ravel())
    return np.divide(lengths, farthest, out=np.zeros_like(lengths), where=farthest > 0)


def largest_entry(X: Any) -> float:
    """Return the largest absolute value of the entries of `X`."""
    values = X.data if sp.issparse(X) else X
    return float(max(values.max(initial=0.0), -values.min(initial=0.0)))


def near_zero(X: Any) -> Any:
    """Return dense rows minus their mean, if the norm of the mean is large compared with the spread of the rows.

    Otherwise the rows are returned unchanged. Sparse rows are always returned unchanged.
    """
    if sp.issparse(X):
        return X
    mean = X.mean(axis=0, dtype=np.float64)
    some = X[:: max(1, len(X) // 1000)] - mean
    if np.linalg.norm(mean) <= FAR_FROM_ZERO * np.sqrt(np.square(some).sum(axis=1).mean()):
        return X
    return X - mean.astype(X.dtype)


def _descent(X: Any, count: int, seed: int, threads: int) -> Array:
    """Return the indices (n, count) of the nearest neighbors by an approximate descent; -1 is a missed neighbor."""
    import numba
    from pynndescent import NNDescent

    # The descent is in float32, whose squares overflow far below those of float64.
    largest = largest_entry(X)
    X = (X / largest if largest > 0 else X).astype(np.float32)
    threads = min(threads, vars(numba.config)["NUMBA_NUM_THREADS"])
    # One more than requested, because every row also finds itself.
    wanted = min(max(count + 1, MIN_DESCENT_NEIGHBORS), X.shape[0])
    with warnings.catch_warnings():
        # Missed neighbors are -1 in the result, which the caller handles.
        warnings.filterwarnings("ignore", "Failed to correctly find n_neighbors", UserWarning)
        index = NNDescent(X, n_neighbors=wanted, random_state=seed % 2**31, n_jobs=threads)
        found, _ = index.neighbor_graph  # sorted by distance
    others = found != np.arange(len(found))[:, None]
    others[others.all(axis=1), -1] = False
    return found[others].reshape(len(found), wanted - 1)[:, :count]


def distances(X: Any, i: Array, j: Array) -> Array:
    """Return the distances |X[i] - X[j]| in float64, computed from differences, so that equal rows have distance 0."""
    out = np.empty(len(i))
    step = max(1, CHUNK_ENTRIES // X.shape[1]) if not sp.issparse(X) else 2**16
    for start in range(0, len(i), step):
        part = slice(start, start + step)
        gap = X[i[part]].astype(np.float64) - X[j[part]].astype(np.float64)
        squares = gap.multiply(gap).sum(axis=1) if sp.issparse(gap) else np.einsum("ij,ij->i", gap, gap)
        out[part] = np.sqrt(np.asarray(squares).ravel())
    return out


def radii_of(X: Any, found: Array) -> Array:
    """Return the distance (n,) of each row from the farthest of its neighbors `found` (n, count); -1 is no neighbor."""
    last = np.maximum((found >= 0).sum(axis=1) - 1, 0)
    farthest = found[np.arange(len(found)), last]
    return np.where(farthest >= 0, distances(X, np.arange(len(found)), np.maximum(farthest, 0)), 0.0)


def self_tuned_weights(distances: Array, radii: Array) -> Array:
    """Return exp(-4 r^2) for the ratios r of distances and radii, and one where a radius is zero."""
    distances, radii = np.broadcast_arrays(distances, radii)
    return np.exp(-4.0 * np.square(np.divide(distances, radii, out=np.zeros(radii.shape), where=radii > 0)))


def distinct_rows(X: Any) -> Array | None:
    """Return the ascending indices of rows that differ from all earlier rows, or None if no two rows are equal."""
    step = max(1, CHUNK_ENTRIES // max(1, X.shape[1]))
    hashes = np.concatenate([row_hashes(X[start : start + step]) for start in range(0, X.shape[0], step)])
    order = np.argsort(hashes, kind="stable")
    same = np.zeros(len(hashes), dtype=bool)
    same[1:] = hashes[order][1:] == hashes[order][:-1]
    if not same.any():
        return None
    # Different rows may have equal hashes, so each row is compared with the first row of its hash.
    first = order[np.maximum.accumulate(np.where(same, 0, np.arange(len(hashes))))]
    suspects, firsts = order[same], first[same]
    equal = distances(X, suspects, firsts) == 0
    keep = np.ones(len(hashes), dtype=bool)
    keep[suspects[equal]] = False
    return np.flatnonzero(keep)
