"""Lloyd's algorithm on features: assign rows to the nearest center, move centers to the mean of their rows.

Each pass over the rows computes a `ClusterSums`: for each cluster, the total weight and the sum of the features of its
rows; and the inertia, which is the weighted sum over all rows of the squared distance to the nearest center. A start is
a choice of k initial centers. Several starts share each pass, so that features are computed once for all starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.engines import Block, Engine
from mercer.io.archive import storable
from mercer.statistics import DistinctRows, row_hashes
from mercer.statistics.feature_cache import RowFeatures
from mercer.statistics.moments import point_near

__all__ = [
    "Assign",
    "Centers",
    "ClusterSums",
    "Clustering",
    "FeatureClusters",
    "best_of",
    "first_of_least",
    "lloyd",
    "nearest",
    "tiles_beside",
]

Array = np.ndarray
# Distances that differ by fewer units of roundoff are treated as equal, so that rounding does not affect assignments.
ROUNDING_UNITS = 16


class Centers:
    """Cluster centers, prepared for the computation of distances to features of one dtype.

    Distances are computed from inner products, which lose digits if the features are far from zero. A point near the
    features is therefore subtracted from features and centers.

    Parameters
    ----------
    centers : ndarray of shape (k, D)
        Centers.
    dtype : dtype
        The dtype of the features.
    point : ndarray of shape (D,), default=None
        The point that `near` subtracts; None means the mean of the centers if that is far from zero, otherwise zero.
    """

    def __init__(self, centers: Array, dtype: Any, point: Array | None = None) -> None:
        self.point = point_near(centers) if point is None else point
        self._shift = self.point.astype(dtype) if self.point.any() else None
        centers = centers - self.point
        self.norms = np.einsum("ij,ij->i", centers, centers)
        self.eps = ROUNDING_UNITS * float(np.finfo(dtype).eps)
        # Features were rounded before the point was subtracted: smaller squared distances are rounding errors.
        self._least = float(np.square(np.finfo(dtype).eps * np.linalg.norm(self.point)))
        self._right = np.ascontiguousarray(-2 * centers.T, dtype=dtype)

    def near(self, Z: Array) -> Array:
        """Return features minus `point`, the argument that `scores` and `distances` require."""
        return Z if self._shift is None else Z - self._shift

    def scores(self, Z: Array) -> Array:
        """Return |c|^2 - 2 z'c for all centers c and rows z, (k, n): the squared distances minus |z|^2."""
        scores = np.ascontiguousarray((Z @ self._right).T, dtype=np.float64)
        scores += self.norms[:, None]
        return scores

    def distances(self, Z: Array) -> Array:
        """Return |z - c|^2 for all centers c and rows z, (k, n), where values below the rounding error are zero."""
        squares = squares_of(Z)
        distances = self.scores(Z)
        distances += squares
        distances[distances <= self.eps * (squares + self.norms[:, None]) + self._least] = 0.0
        return distances


def tiles_beside(
    centers: Array, features: RowFeatures, block: Block, point: Array | None = None
) -> Iterator[tuple[slice, Array, Centers]]:
    """Yield triples for a few rows of a block at a time: slice of the rows, features minus `point`, `Centers`.

    The parameter `point` is as in `Centers`, and the features are ready for `Centers.scores` and `Centers.distances`.
    """
    ready: Centers | None = None
    for rows, Z in features.tiles(block):
        ready = Centers(centers, Z.dtype, point) if ready is None else ready
        yield rows, ready.near(Z), ready


def nearest(scores: Array, norms: Array, eps: float) -> tuple[Array, Array]:
    """Return the index of the nearest center of each row (n,), and the score of that center (n,).

    Scores (k, n) are squared distances, up to a constant for each row. If the distances to several centers are equal up
    to rounding error, the first of these centers is returned.
    """
    least = scores.min(axis=0)
    labels = (scores <= least + eps * (np.abs(least) + norms.max())).argmax(axis=0)
    return labels.astype(np.int32), least


def squares_of(Z: Array) -> Array:
    """Return the squared norm |z|^2 of each row z of a matrix."""
    return np.einsum("ij,ij->i", Z, Z).astype(np.float64, copy=False)


@storable
@dataclass(frozen=True)
class ClusterSums:
    """The result of one pass of k-means: sums over the rows of each cluster, for s starts with k clusters each."""

    rows: int
    weight: Array  # (s, k), total weights
    sums: Array  # (s, k, D), sums of w z
    scores: Array  # (s,), sums of w min_c(|c|^2 - 2 z'c): the inertia minus `squares`, for z and c minus a point
    squares: float  # sum of w |z|^2, for z minus the same point; zero if it was not requested

    def __add__(self, other: ClusterSums) -> ClusterSums:
        return ClusterSums(
            self.rows + other.rows,
            self.weight + other.weight,
            self.sums + other.sums,
            self.scores + other.scores,
            self.squares + other.squares,
        )

    @property
    def inertia(self) -> Array:
        """The weighted sum over rows of the squared distance to the nearest center, for each start (s,).

        It is valid only if `squares` was computed.
        """
        return np.maximum(self.squares + self.scores, 0.0)


@dataclass(frozen=True)
class Assign:
    """Function of a block of rows that assigns each row to its nearest center and returns the block's `ClusterSums`.

    Rows are assigned separately for each of s starts with k centers.
    """

    features: RowFeatures
    centers: Array  # (s, k, D)
    with_squares: bool = True  # whether `ClusterSums.squares` is computed
    point: Array | None = None  # as in `Centers`

    def __call__(self, block: Block) -> ClusterSums:
        s, k, D = self.centers.shape
        parts = (
            self._tile(Z, None if block.weight is None else block.weight[rows], centers)
            for rows, Z, centers in tiles_beside(self.centers.reshape(s * k, D), self.features, block, self.point)
        )
        return reduce(add, parts)

    def _tile(self, Z: Array, weight: Array | None, centers: Centers) -> ClusterSums:
        s, k, D = self.centers.shape
        n = len(Z)
        w = np.ones(n) if weight is None else weight
        scores, norms = centers.scores(Z).reshape(s, k, n), centers.norms.reshape(s, k)
        sums, weights, totals = np.empty((s, k, D)), np.empty((s, k)), np.empty(s)
        for i in range(s):
            labels, least = nearest(scores[i], norms[i], centers.eps)
            # The sparse matrix has one entry per row of Z, its weight; the product sums the rows of each cluster.
            indicators = sp.csc_array((w.astype(Z.dtype, copy=False), labels, np.arange(n + 1)), shape=(k, n))
            weights[i] = np.bincount(labels, w, k)
            sums[i] = indicators @ Z
            sums[i] += weights[i][:, None] * centers.point
            totals[i] = w @ least
        return ClusterSums(n, weights, sums, totals, float(w @ squares_of(Z)) if self.with_squares else 0.0)


@dataclass(frozen=True)
class Farthest:
    """Function of a block of rows that returns the `size` distinct rows farthest from their nearest centers."""

    features: RowFeatures
    centers: Array  # (k, D)
    size: int

    def __call__(self, block: Block) -> DistinctRows:
        keys = np.empty(len(block))
        for rows, Z, centers in tiles_beside(self.centers, self.features, block):
            distances = centers.distances(Z).min(axis=0)
            keys[rows] = np.where(distances > 0, -rounded(distances), np.inf)
        return DistinctRows.of(block, row_hashes(block.X), keys, size=self.size)


def rounded(values: Array) -> Array:
    """Return numbers rounded to 40 significant bits, so that distances equal up to rounding error become equal."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.round(mantissa * 2.0**40), exponent - 40)


@dataclass(frozen=True)
class Clustering:
    """The result of Lloyd's algorithm from one choice of initial centers."""

    centers: Array  # (k, D)
    weight: Array  # (k,), total weight of the rows of each cluster
    inertia: float
    path: tuple[float, ...]  # the inertia at each pass
    n_iter: int  # number of passes, without a last one that only computes the inertia
    converged: bool


def lloyd(
    engine: Engine,
    features: RowFeatures,
    starts: Array,
    *,
    max_iter: int,
    tol: float,
    report: Callable[[int, int], None] = lambda *_: None,
) -> Clustering:
    """Run Lloyd's algorithm from several starts at once, and return the result of the start with the least inertia.

    `starts` (s, k, D) holds the k initial centers of each of s starts. The inertia is the weighted sum over rows of the
    squared distance to the nearest center. The iteration from a start ends when a move of its centers lowers its
    inertia by at most the fraction `tol`, or after `max_iter` passes over the rows. `report` is called after each pass
    with the number of rows and the number of passes.
    """
    runs = [Run(np.array(start, dtype=np.float64)) for start in starts]
    squares, passes, point = None, 0, point_near(np.concatenate(starts))
    while (going := [run for run in runs if not run.ended]) and passes < max_iter:
        found = engine.sum(Assign(features, np.array([run.centers for run in going]), squares is None, point))
        squares, passes = found.squares if squares is None else squares, passes + 1
        report(found.rows, passes)
        for run, weight, sums, scores in zip(going, found.weight, found.sums, found.scores, strict=True):
            if run.arrive(weight, squares + float(scores)):
                run.move(means(engine, features, run.centers, weight, sums), tol)
    if open_ended := [run for run in runs if not run.settled]:
        found = engine.sum(Assign(features, np.array([run.centers for run in open_ended]), point=point))
        for run, weight, inertia in zip(open_ended, found.weight, found.inertia, strict=True):
            run.take(weight, float(inertia))
    best = runs[first_of_least(np.array([run.path[-1] for run in runs]))]
    n_iter = len(best.path) - (not best.settled)
    return Clustering(best.centers, best.weight, best.path[-1], tuple(best.path), n_iter, best.ended)


class Run:
    """The state of Lloyd's algorithm from one choice of initial centers."""

    def __init__(self, centers: Array) -> None:
        self.centers = self._before = centers
        self.weight = np.zeros(len(centers))
        self.path: list[float] = []
        self.ended = False  # the inertia decreases no more, or too little
        self.settled = False  # the last inertia is that of the current centers

    def arrive(self, weight: Array, inertia: float) -> bool:
        """Record the cluster weights and the inertia of the current centers. Return False if the iteration ends."""
        self.ended = self.settled = not self.take(weight, inertia)
        return not self.ended

    def take(self, weight: Array, inertia: float) -> bool:
        """Record the cluster weights and the inertia of the current centers, and return whether they are accepted.

        They are accepted if the inertia decreased. Otherwise the previous centers are restored.
        """
        inertia = max(inertia, 0.0)
        gained = not self.path or inertia < self.path[-1]
        if gained:
            self.weight, self.path = weight, [*self.path, inertia]
        else:  # only rounding has moved them
            self.centers, self.path = self._before, [*self.path, self.path[-1]]
        return gained

    def move(self, centers: Array, tol: float) -> None:
        """Replace the centers, and end the iteration if this lowers the inertia by at most the fraction `tol`."""
        gain = float(self.weight @ np.square(centers - self.centers).sum(axis=1))
        revived = bool((centers != self.centers)[self.weight == 0].any())  # an empty cluster was moved to a row
        self._before, self.centers = self.centers, centers
        self.settled = gain == 0 and not revived
        self.ended = gain <= tol * self.path[-1] and not revived


def first_of_least(inertias: Array) -> int:
    """Return the index of the first start whose inertia is at most 1 + 1e-6 times the least inertia.

    Starts that end in the same clusters have inertias that differ by rounding error, but number the clusters in
    different orders. Rounding error must not determine which of these starts is returned.
    """
    return int((inertias <= inertias.min() * (1 + 1e-6)).argmax())


def best_of(engine: Engine, features: RowFeatures, starts: Array) -> Array:
    """Return the initial centers (k, D) of the start with the least inertia, given those of s starts (s, k, D)."""
    return starts[0] if len(starts) == 1 else starts[first_of_least(engine.sum(Assign(features, starts)).inertia)]


def means(engine: Engine, features: RowFeatures, centers: Array, weight: Array, sums: Array) -> Array:
    """Return the updated centers (k, D): the cluster means, given cluster weights (k,) and sums of features (k, D).

    The center of an empty cluster is moved to one of the rows that are farthest from their nearest centers.
    """
    empty = weight == 0
    moved = np.where(empty[:, None], centers, sums / np.where(empty, 1.0, weight)[:, None])
    if empty.any():
        far = engine.sum(Farthest(features, centers, int(empty.sum())))
        order = np.argsort(far.key, kind="stable")
        moving = np.flatnonzero(empty)[: len(order)]
        if len(moving):
            moved[moving] = features.of(far.X[order])
    return moved


@dataclass(frozen=True)
class FeatureClusters:
    """Cluster centers in the space of the features, with methods that compute labels and distances of new rows."""

    features: RowFeatures
    centers: Array  # (k, D)

    @property
    def width(self) -> int:
        """Number of columns of the intermediate matrices: the number of features D."""
        return self.centers.shape[1]

    def labels(self, X: Any) -> Array:
        """Return the index of the nearest center of each row (n,)."""
        out = np.empty(X.shape[0], np.int32)
        for rows, Z, centers in tiles_beside(self.centers, self.features, Block(0, X)):
            out[rows], _ = nearest(centers.scores(Z), centers.norms, centers.eps)
        return out

    def distances(self, X: Any) -> Array:
        """Return the squared distances of all rows to all centers, (n, k)."""
        out = np.empty((X.shape[0], len(self.centers)))
        for rows, Z, centers in tiles_beside(self.centers, self.features, Block(0, X)):
            out[rows] = centers.distances(Z).T
        return out
