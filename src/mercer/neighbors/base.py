"""Base class of indexes of rows, in which the nearest neighbors of queries are searched."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from mercer.engines.base import Report, count_threads
from mercer.errors import DataError
from mercer.parameters import Integer, check_parameter

__all__ = ["NeighborIndex", "Queries", "check_rows", "nearest_of"]

Array = np.ndarray


class Queries:
    """Validated arguments of a search: queries, the number of neighbors, and which rows qualify for each query.

    Attributes
    ----------
    X : ndarray or CSR of shape (m, d)
        The queries.
    count : int
        Number of neighbors, at most the number of rows.
    own : ndarray of shape (m,) or None
        Index of the row that does not qualify for each query; -1 excludes no row.
    before : ndarray of shape (m,) or None
        Only rows with a smaller index qualify.
    """

    def __init__(self, X: Any, count: int, own: Array | None, before: Array | None) -> None:
        self.X = X
        self.count = count
        self.own = own
        self.before = before

    def __len__(self) -> int:
        return self.X.shape[0]

    def __getitem__(self, part: Any) -> Queries:
        own = None if self.own is None else self.own[part]
        before = None if self.before is None else self.before[part]
        return Queries(self.X[part], self.count, own, before)


class NeighborIndex(ABC):
    """Base class of indexes of rows, in which the nearest neighbors of queries are searched.

    An index does not change after it is built, and it can be pickled. The neighbors of a query depend neither on the
    other queries nor on the number of threads.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    n_features : int
        Number of features of each row.
    sparse : bool
        Whether rows and queries are CSR matrices.
    search : {"exact", "approximate"}
        Whether all nearest neighbors are found, or nearly all of them.
    """

    def __init__(self, n_rows: int, n_features: int, *, sparse: bool, search: Literal["exact", "approximate"]) -> None:
        self.n_rows = n_rows
        self.n_features = n_features
        self.sparse = sparse
        self.search = search

    def query(
        self,
        X: Any,
        count: int,
        *,
        own: Any = None,
        before: Any = None,
        n_jobs: int | None = None,
        report: Report | None = None,
    ) -> tuple[Array, Array]:
        """Return the nearest rows of each query, and their Euclidean distances.

        Parameters
        ----------
        X : ndarray or CSR of shape (m, d)
            The queries, of the same kind as the rows.
        count : int
            Number of neighbors of each query.
        own : array-like of shape (m,), default=None
            Index of a row that is not a neighbor of this query, for instance the query itself; -1 excludes no row.
        before : array-like of shape (m,), default=None
            Only rows with an index smaller than this are neighbors of the query.
        n_jobs : int or None, default=None
            Number of threads; None means all cores.
        report : callable or None, default=None
            Receives the number of queries whose neighbors are found.

        Returns
        -------
        indices : ndarray of shape (m, count), intp
            Indices of the neighbors, sorted by distance; neighbors at equal distances are sorted by index. -1 where
            there are fewer neighbors than `count`.
        distances : ndarray of shape (m, count), float64
            Distances, computed from differences in float64, so that equal rows have distance 0. Infinity where there
            are fewer neighbors than `count`.
        """
        name = type(self).__name__
        check_parameter(name, "count", count, Integer(1))
        threads = count_threads(n_jobs)
        X = check_rows(name, "X", X)
        if sp.issparse(X) != self.sparse:
            kind, other = ("a CSR matrix", "an array") if self.sparse else ("an array", "a CSR matrix")
            msg = f"{name}: X must be {kind}, as the rows are, got {other}. Convert the queries or the rows."
            raise DataError(msg)
        if X.shape[1] != self.n_features:
            msg = f"{name}: X must have {self.n_features} features, as the rows have, got {X.shape[1]}."
            raise DataError(msg)
        m, found = X.shape[0], min(int(count), self.n_rows)
        indices, distances = np.full((m, count), -1, dtype=np.intp), np.full((m, count), np.inf)
        if m and found:
            queries = Queries(X, found, self._limits("own", own, m, -1), self._limits("before", before, m, 0))
            self._search(queries, indices[:, :found], distances[:, :found], threads, report)
            np.sqrt(distances, out=distances)
        return indices, distances

    def _limits(self, name: str, values: Any, m: int, least: int) -> Array | None:
        """Return the argument `own` or `before` as an array of indices."""
        if values is None:
            return None
        given = np.asarray(values)
        if given.shape != (m,) or given.dtype.kind not in "iu":
            msg = (
                f"{type(self).__name__}: {name} must be an array of {m} integers, one per query, got an array of shape "
                f"{given.shape} and type {given.dtype}."
            )
            raise DataError(msg)
        most = self.n_rows if name == "before" else self.n_rows - 1
        if given.size and not (least <= given.min() and given.max() <= most):
            msg = (
                f"{type(self).__name__}: {name} must hold integers from {least} to {most}, got "
                f"{given.min()} to {given.max()}."
            )
            raise DataError(msg)
        return np.ascontiguousarray(given, dtype=np.int64)

    @abstractmethod
    def _search(self, queries: Queries, indices: Array, squares: Array, threads: int, report: Report | None) -> None:
        """Fill `indices` and `squares` (m, count) with the neighbors and their squared distances.

        The arrays are -1 and infinity where they are not filled.
        """


def check_rows(owner: str, name: str, X: Any) -> Any:
    """Return rows as an array or CSR matrix of float32 or float64. Raise DataError if distances of them overflow."""
    if sp.issparse(X):
        X = X if X.format == "csr" else X.tocsr()
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        values = X.data
    else:
        X = values = np.asarray(X)
    if X.ndim != 2:
        msg = f"{owner}: {name} must have two dimensions, rows and features, got {X.ndim}."
        raise DataError(msg)
    if not X.shape[1]:
        msg = f"{owner}: {name} must have at least one feature, got none."
        raise DataError(msg)
    if X.dtype not in (np.float32, np.float64):
        msg = f"{owner}: {name} must be float32 or float64, got {X.dtype}."
        raise DataError(msg)
    low, high = values.min(initial=0.0), values.max(initial=0.0)
    if not (np.isfinite(low) and np.isfinite(high)):
        msg = f"{owner}: {name} must be finite, got NaN or infinity. Remove such rows or impute their values."
        raise DataError(msg)
    largest = float(max(high, -low))
    if largest > np.sqrt(np.finfo(np.float64).max / (4 * X.shape[1])):
        msg = f"{owner}: distances of rows with entries up to {largest:.3g} overflow. Scale the rows down."
        raise DataError(msg)
    return X


def nearest_of(squares: Array, count: int, own: Array | None, before: Array | None) -> tuple[Array, Array]:
    """Return the `count` columns with the least values in each row, sorted, ties by the column, and these values.

    `own` and `before` exclude columns; `squares` is overwritten by infinity there. -1 is returned for excluded columns.
    """
    if own is not None:
        with_own = np.flatnonzero(own >= 0)
        squares[with_own, own[with_own]] = np.inf
    if before is not None:
        squares[np.arange(squares.shape[1]) >= before[:, None]] = np.inf
    # All values below the largest of the `count` least, then the first of those equal to it.
    last = np.partition(squares, count - 1, axis=1)[:, count - 1, None]
    chosen, ties = squares < last, squares == last
    missing = count - chosen.sum(axis=1, keepdims=True)
    chosen |= ties & (np.cumsum(ties, axis=1) <= missing)
    columns = np.nonzero(chosen)[1].reshape(len(squares), count)
    values = np.take_along_axis(squares, columns, axis=1)
    order = np.argsort(values, axis=1, kind="stable")
    columns, values = np.take_along_axis(columns, order, axis=1), np.take_along_axis(values, order, axis=1)
    columns[np.isinf(values)] = -1
    return columns, values
