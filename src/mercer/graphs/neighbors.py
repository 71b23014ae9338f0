"""Nearest neighbors and distinct rows. The only module of maps, beside the base, that calls scikit-learn."""

from __future__ import annotations

import importlib.util
import warnings
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

from mercer.engines.base import count_threads
from mercer.errors import DataError, MercerWarning, MissingPackageError

__all__ = ["distances", "distinct_rows", "nearest_neighbors"]

Array = np.ndarray
# From so many rows on an exact search, quadratic in them, takes minutes, and an approximate one is worth its error.
MANY_ROWS = 20_000
# An approximate search goes from neighbor to neighbor, and misses many if it may follow few: of the ten nearest of
# 20,000 normal rows in 20 columns it finds 83 % with 11 and 99.7 % with 30, in the same time.
FEWEST_SEARCHED = 30
# Entries of rows that are compared at a time.
CHUNK_ENTRIES = 2**22
# How much farther from zero than from each other rows may be: distances come from products, which lose that much.
FAR_FROM_ZERO = 100.0
# Rows of more columns than this are compared by products, as scikit-learn does, not by a tree.
TREE_COLUMNS = 15
# Rounding of a squared distance, and of one from rows in float32, beside which neighbors are looked at again, or told
# of: an approximate search with a rounding of a twentieth finds 97 to 99 % of neighbors.
MOST_ROUNDING = 1e-3
MOST_BLUR = 0.05
# The share of such rows from which on it is said.
MOST_BLURRED = 0.01


def nearest_neighbors(
    X: Any, count: int, *, search: Literal["auto", "exact", "approximate"], seed: int, n_jobs: int | None = None
) -> tuple[Array, str]:
    """Return the indices of the nearest other rows of each row, and how they were found: "exact" or "approximate".

    An approximate search may find fewer than asked for: -1 stands for those that it missed.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, d)
        Rows.
    count : int
        Neighbors of each, fewer than n.
    search : {"auto", "exact", "approximate"}
        Exact by scikit-learn; approximate by nearest-neighbor descent, which needs pynndescent. "auto" takes it for
        many rows, if it is installed. Of so few rows that a descent would compare all pairs, the search is exact.
    seed : int
        Seed of the approximate search.
    n_jobs : int or None, default=None
        Threads; None means all cores.

    Returns
    -------
    tuple of ndarray of shape (n, count) and str

    Notes
    -----
    Rows that are far closer to each other than to zero, also after their mean is taken off, as those of groups far
    apart, lose their digits in products: where rounding may have chosen neighbors, they are searched again by
    differences. An approximate search is in float32, and a `MercerWarning` says where it cannot tell rows apart.
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
    few = X.shape[0] <= max(count + 1, FEWEST_SEARCHED)
    if few or not (search == "approximate" or (search == "auto" and installed and X.shape[0] >= MANY_ROWS)):
        return _exact(X, count, threads), "exact"
    found = _descent(X, count, seed, threads)
    blurred = int((np.finfo(np.float32).eps * lengths_over_distances(X, found) > MOST_BLUR).sum())
    if blurred > MOST_BLURRED * X.shape[0]:
        msg = (
            f"NeighborGraph: {blurred} of {X.shape[0]} rows are so close to their neighbors, beside the size of "
            "their entries, that float32, in which an approximate search works, cannot tell them apart: neighbors may "
            "be wrong. Use search='exact', or scale down the columns that set groups of rows so far apart."
        )
        warnings.warn(msg, MercerWarning, stacklevel=3)
    return found, "approximate"


def _exact(X: Any, count: int, threads: int) -> Array:
    from sklearn.neighbors import NearestNeighbors

    n, d = X.shape
    by_products = sp.issparse(X) or d > TREE_COLUMNS or 2 * count >= n
    search = NearestNeighbors(n_neighbors=count, n_jobs=threads, algorithm="brute" if by_products else "kd_tree")
    with threadpool_limits(threads):
        found = search.fit(X).kneighbors(return_distance=False)
    if by_products:
        # By so much of |x|^2 the squared distance |x|^2 - 2 x'y + |y|^2 is off.
        rounding = (8 + 2 * np.sqrt(d)) * np.finfo(np.float64).eps
        doubt = np.flatnonzero(rounding * np.square(lengths_over_distances(X, found)) > MOST_ROUNDING)
        found[doubt] = nearest_by_differences(X, doubt, count)
    return found


def lengths_over_distances(X: Any, found: Array) -> Array:
    """Return the length of each row in units of its distance from the farthest of the neighbors that were found."""
    row, place = np.nonzero(found >= 0)
    farthest = np.zeros(len(found))
    np.maximum.at(farthest, row, distances(X, row, found[row, place]))
    squares = X.multiply(X).sum(axis=1) if sp.issparse(X) else np.einsum("ij,ij->i", X, X, dtype=np.float64)
    lengths = np.sqrt(np.asarray(squares, dtype=np.float64).ravel())
    return np.divide(lengths, farthest, out=np.zeros_like(lengths), where=farthest > 0)


def nearest_by_differences(X: Any, rows: Array, count: int) -> Array:
    """Return the indices of the nearest others of some rows, from differences, which lose no digits."""
    out = np.empty((len(rows), count), dtype=int)
    everyone = np.arange(X.shape[0])
    dense = None if sp.issparse(X) else X.astype(np.float64, copy=False)
    step = max(1, CHUNK_ENTRIES // X.shape[0])
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        if dense is None:
            apart = np.stack([distances(X, np.full(len(everyone), i), everyone) for i in some])
        else:
            apart = cdist(dense[some], dense, "sqeuclidean")
        apart[np.arange(len(some)), some] = np.inf
        out[start : start + step] = np.argpartition(apart, count - 1, axis=1)[:, :count]
    return out


def largest_entry(X: Any) -> float:
    """Return the size of the largest entry."""
    values = X.data if sp.issparse(X) else X
    return float(max(values.max(initial=0.0), -values.min(initial=0.0)))


def near_zero(X: Any) -> Any:
    """Return rows whose distances are those of the given ones, about their mean if that is far away, unless sparse."""
    if sp.issparse(X):
        return X
    mean = X.mean(axis=0, dtype=np.float64)
    some = X[:: max(1, len(X) // 1000)] - mean
    if np.linalg.norm(mean) <= FAR_FROM_ZERO * np.sqrt(np.square(some).sum(axis=1).mean()):
        return X
    return X - mean.astype(X.dtype)


def _descent(X: Any, count: int, seed: int, threads: int) -> Array:
    import numba
    from pynndescent import NNDescent

    # It works in float32, whose squares overflow far below those of float64.
    largest = largest_entry(X)
    X = (X / largest if largest > 0 else X).astype(np.float32)
    threads = min(threads, numba.config.NUMBA_NUM_THREADS)
    # At least one more than asked for: a row finds itself, too.
    wanted = min(max(count + 1, FEWEST_SEARCHED), X.shape[0])
    with warnings.catch_warnings():
        # Neighbors that it missed are -1, for whoever asked to see.
        warnings.filterwarnings("ignore", "Failed to correctly find n_neighbors", UserWarning)
        index = NNDescent(X, n_neighbors=wanted, random_state=seed % 2**31, n_jobs=threads)
        found, _ = index.neighbor_graph  # the nearest first
    others = found != np.arange(len(found))[:, None]
    others[others.all(axis=1), -1] = False
    return found[others].reshape(len(found), wanted - 1)[:, :count]


def distances(X: Any, i: Array, j: Array) -> Array:
    """Return the distances of pairs of rows in float64, from their differences: those of equal rows are zero."""
    out = np.empty(len(i))
    step = max(1, CHUNK_ENTRIES // X.shape[1]) if not sp.issparse(X) else 2**16
    for start in range(0, len(i), step):
        part = slice(start, start + step)
        gap = X[i[part]].astype(np.float64) - X[j[part]].astype(np.float64)
        squares = gap.multiply(gap).sum(axis=1) if sp.issparse(gap) else np.einsum("ij,ij->i", gap, gap)
        out[part] = np.sqrt(np.asarray(squares).ravel())
    return out


def distinct_rows(X: Any) -> Array | None:
    """Return the indices of the first of all equal rows, ascending, or None if no two rows are equal."""
    keys = row_keys(X)
    order = np.argsort(keys, kind="stable")
    same = np.zeros(len(keys), dtype=bool)
    same[1:] = keys[order][1:] == keys[order][:-1]
    if not same.any():
        return None
    # The first row of each run of equal keys; keys of 64 bits may agree by chance, so the rows themselves decide.
    first = order[np.maximum.accumulate(np.where(same, 0, np.arange(len(keys))))]
    suspects, firsts = order[same], first[same]
    equal = distances(X, suspects, firsts) == 0
    keep = np.ones(len(keys), dtype=bool)
    keep[suspects[equal]] = False
    return np.flatnonzero(keep)


def row_keys(X: Any) -> Array:
    """Return a number of 64 bits for each row, equal for equal rows, dense or sparse."""
    factors = np.random.default_rng(0).integers(0, 2**64, X.shape[1], dtype=np.uint64) | np.uint64(1)
    bits = np.uint32 if X.dtype == np.float32 else np.uint64
    keys = np.zeros(X.shape[0], dtype=np.uint64)
    step = max(1, CHUNK_ENTRIES // max(1, X.shape[1]))
    for start in range(0, X.shape[0], step):
        rows = X[start : start + step]
        if sp.issparse(rows):
            rows = rows.tocsr().copy()
            rows.sum_duplicates()
            rows.data = rows.data + 0.0  # -0.0 is 0.0
            terms = stirred(rows.data.view(bits)) * factors[rows.indices]
            sums = np.concatenate([[np.uint64(0)], np.cumsum(terms, dtype=np.uint64)])
            keys[start : start + step] = sums[rows.indptr[1:]] - sums[rows.indptr[:-1]]
        else:
            rows = np.ascontiguousarray(rows + 0.0)
            keys[start : start + step] = (stirred(rows.view(bits)) * factors).sum(axis=1, dtype=np.uint64)
    return keys


def stirred(bits: Array) -> Array:
    """Spread the bits of numbers over 64, zero for zero: those of round numbers are all in front."""
    z = bits.astype(np.uint64)
    z ^= z >> np.uint64(32)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(29)
    return z
