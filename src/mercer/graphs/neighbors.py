"""Nearest-neighbor search and detection of equal rows."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

from mercer.engines import Report, report_step
from mercer.engines.base import count_threads
from mercer.errors import DataError, MercerWarning, MissingPackageError
from mercer.statistics.distinct import row_hashes

__all__ = ["distances", "distinct_rows", "nearest_neighbors"]

Array = np.ndarray
# From this number of rows on, an exact search, whose cost is quadratic, takes minutes, and "auto" is approximate.
MANY_ROWS = 20_000
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
# Number of rows whose neighbors are searched at a time by a tree.
TREE_ROWS = 1024
# Rows with more features than this are compared by inner products, as in scikit-learn, instead of by a tree.
MAX_TREE_FEATURES = 15
# Relative rounding error of a squared distance above which the neighbors of a row are searched again by differences.
MAX_ROUNDING = 1e-3
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
        "exact" uses scikit-learn; "approximate" uses nearest-neighbor descent, which needs pynndescent. "auto" is
        approximate for 20,000 rows or more if pynndescent is installed. The search is always exact if there are so few
        rows that a descent would compare all pairs.
    seed : int
        Seed of the approximate search.
    n_jobs : int or None, default=None
        Number of threads; None means all cores.
    report : callable or None, default=None
        Receives the number of rows whose neighbors are found, if they are searched by a tree.

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

    Notes
    -----
    Distances that are computed from inner products lose digits if rows are much closer to each other than to zero, even
    after their mean is subtracted, as in groups that are far apart. Where rounding may have determined the neighbors,
    an exact search is repeated with distances that are computed from differences.
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
    X, threads = near_zero(X), count_threads(n_jobs)
    few = X.shape[0] <= max(count + 1, MIN_DESCENT_NEIGHBORS)
    if few or not (search == "approximate" or (search == "auto" and installed and X.shape[0] >= MANY_ROWS)):
        return _exact(X, count, threads, report), "exact"
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


def search_cost(n: int, d: int, count: int, *, search: Literal["auto", "exact", "approximate"]) -> float:
    """Return the approximate cost of `nearest_neighbors` in multiplications and additions, for displays of progress."""
    installed = importlib.util.find_spec("pynndescent") is not None
    if search == "approximate" or (search == "auto" and installed and n >= MANY_ROWS):
        compiling = 0.0 if "pynndescent" in sys.modules else COMPILATION
        return compiling + 150.0 * n * MIN_DESCENT_NEIGHBORS**2 * d
    if d > MAX_TREE_FEATURES:
        return float(n * n * (d + 20))
    # A tree compares a row with those in the cells around it, whose number grows by a factor of two with each feature.
    return 30.0 * n * d * min(n, 4 * (count + 1) * 2**d)


def _exact(X: Any, count: int, threads: int, report: Report | None = None) -> Array:
    """Return the indices (n, count) of the nearest neighbors of all rows, by an exact search with scikit-learn."""
    from sklearn.neighbors import NearestNeighbors

    n, d = X.shape
    by_products = sp.issparse(X) or d > MAX_TREE_FEATURES or 2 * count >= n
    search = NearestNeighbors(n_neighbors=count, n_jobs=threads, algorithm="brute" if by_products else "kd_tree")
    with threadpool_limits(threads):
        search.fit(X)
        found = search.kneighbors(return_distance=False) if by_products else _by_tree(search, X, count, report)
    if by_products:
        # Rounding error of the squared distance |x|^2 - 2 x'y + |y|^2, relative to |x|^2.
        rounding = (8 + 2 * np.sqrt(d)) * np.finfo(np.float64).eps
        uncertain = np.flatnonzero(rounding * np.square(lengths_over_distances(X, found)) > MAX_ROUNDING)
        found[uncertain] = nearest_by_differences(X, uncertain, count)
    return found


def _by_tree(search: Any, X: Array, count: int, report: Report | None) -> Array:
    """Return the neighbors of all rows by a fitted tree, as ``search.kneighbors(return_distance=False)`` does.

    Rows are searched in parts, so that progress can be reported. The neighbors of a row do not depend on the others.
    """
    out = np.empty((len(X), count), dtype=np.intp)
    for start in range(0, len(X), TREE_ROWS):
        rows = np.arange(start, min(start + TREE_ROWS, len(X)))
        found = search.kneighbors(X[rows], count + 1, return_distance=False)
        others = found != rows[:, None]
        others[others.all(axis=1), 0] = False  # the row is not among its many equals
        out[rows] = found[others].reshape(len(rows), count)
        report_step(report, int(rows[-1]) + 1, len(X), unit="rows")
    return out


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


def nearest_by_differences(X: Any, rows: Array, count: int) -> Array:
    """Return the indices (m, count) of the nearest neighbors of the rows with indices `rows` (m,).

    Distances |x - y| are computed from the differences x - y. In contrast to distances from inner products, they do not
    lose digits.
    """
    out = np.empty((len(rows), count), dtype=int)
    everything = np.arange(X.shape[0])
    dense = None if sp.issparse(X) else X.astype(np.float64, copy=False)
    step = max(1, CHUNK_ENTRIES // X.shape[0])
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        if dense is None:
            apart = np.stack([distances(X, np.full(len(everything), i), everything) for i in some])
        else:
            apart = cdist(dense[some], dense, "sqeuclidean")
        apart[np.arange(len(some)), some] = np.inf
        out[start : start + step] = np.argpartition(apart, count - 1, axis=1)[:, :count]
    return out


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
