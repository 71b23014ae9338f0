"""Lloyd's iteration on features: rows go to the nearest center, centers to the mean of their rows.

One pass over the rows is one sum: the weight and the sum of the features of each cluster, and the scores that make the
inertia. Several starts share each pass, so that features are computed once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.engines import Block, Engine, empty_rows
from mercer.features import Features
from mercer.io.archive import storable
from mercer.statistics import DistinctRows, row_hashes
from mercer.statistics.shifts import point_near

__all__ = [
    "Assign",
    "Centers",
    "ClusterSums",
    "Clustering",
    "Draw",
    "FeatureClusters",
    "best_of",
    "feature_tiles",
    "first_of_least",
    "lloyd",
    "nearest",
    "tiles_beside",
]

Array = np.ndarray
# Rows whose features one thread computes and sums while they are in its cache.
TILE_ROWS = 512
# Differences of so many units of rounding are none: equal distances stay equal however products were rounded.
ROUNDING_UNITS = 16


@dataclass(frozen=True)
class Draw:
    """A drawn map, cast to each dtype of rows once."""

    features: Features
    _casts: dict[Any, Features] = field(default_factory=dict, compare=False, repr=False)

    def __call__(self, dtype: Any) -> Features:
        if dtype not in self._casts:
            self._casts[dtype] = self.features.astype(dtype)
        return self._casts[dtype]

    def of(self, X: Any) -> Array:
        """Return the features of a few rows, in float64."""
        features = self(X.dtype)
        out = np.empty((X.shape[0], features.n_components), features.output_dtype(X.dtype))
        features(X, out)
        return out.astype(np.float64, copy=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return Draw, (self.features,)


def feature_tiles(draw: Draw, block: Block) -> Iterator[tuple[slice, Array]]:
    """Yield the features of a few rows at a time, in a buffer that is used again.

    Features that were kept are targets of the block.
    """
    if block.y is None:
        features, dtype = draw(block.X.dtype), block.X.dtype
        buffer = empty_rows(min(TILE_ROWS, len(block)), features.n_components, features.output_dtype(dtype))
    for start in range(0, len(block), TILE_ROWS):
        rows = slice(start, min(start + TILE_ROWS, len(block)))
        if block.y is not None:
            yield rows, block.y[rows]
        else:
            Z = buffer[: rows.stop - rows.start]
            features(block.X[rows], Z)
            yield rows, Z


class Centers:
    """Centers made ready for the features of one dtype.

    Both are taken less a point: products of features that lie far from zero would be mostly their rounding.

    Parameters
    ----------
    centers : ndarray of shape (k, D)
        Centers.
    dtype : dtype
        Of the features.
    point : ndarray of shape (D,), default=None
        What `near` takes off; None means the mean of these centers if it lies far from zero, and zero otherwise.
    """

    def __init__(self, centers: Array, dtype: Any, point: Array | None = None) -> None:
        self.point = point_near(centers) if point is None else point
        self._shift = self.point.astype(dtype) if self.point.any() else None
        centers = centers - self.point
        self.norms = np.einsum("ij,ij->i", centers, centers)
        self.eps = ROUNDING_UNITS * float(np.finfo(dtype).eps)
        # Features were rounded before the point was taken off: closer rows cannot be told apart.
        self._least = float(np.square(np.finfo(dtype).eps * np.linalg.norm(self.point)))
        self._right = np.ascontiguousarray(-2 * centers.T, dtype=dtype)

    def near(self, Z: Array) -> Array:
        """Return features less the point: what the other methods take."""
        return Z if self._shift is None else Z - self._shift

    def scores(self, Z: Array) -> Array:
        """Return |c|^2 - 2 z'c, which orders the centers c as their distances to z do: (centers, rows)."""
        scores = np.ascontiguousarray((Z @ self._right).T, dtype=np.float64)
        scores += self.norms[:, None]
        return scores

    def distances(self, Z: Array) -> Array:
        """Return |z - c|^2, (centers, rows); what is zero but for rounding is zero."""
        squares = squares_of(Z)
        distances = self.scores(Z)
        distances += squares
        distances[distances <= self.eps * (squares + self.norms[:, None]) + self._least] = 0.0
        return distances


def tiles_beside(
    centers: Array, draw: Draw, block: Block, point: Array | None = None
) -> Iterator[tuple[slice, Array, Centers]]:
    """Yield the features of a few rows at a time, near centers that are made ready once."""
    ready: Centers | None = None
    for rows, Z in feature_tiles(draw, block):
        ready = Centers(centers, Z.dtype, point) if ready is None else ready
        yield rows, ready.near(Z), ready


def nearest(scores: Array, norms: Array, eps: float) -> tuple[Array, Array]:
    """Return the nearest center of each row and its score; of centers equally near, the first."""
    least = scores.min(axis=0)
    labels = (scores <= least + eps * (np.abs(least) + norms.max())).argmax(axis=0)
    return labels.astype(np.int32), least


def squares_of(Z: Array) -> Array:
    """Return |z|^2 of all rows."""
    return np.einsum("ij,ij->i", Z, Z).astype(np.float64, copy=False)


@storable
@dataclass(frozen=True)
class ClusterSums:
    """All that a step of s starts of k clusters needs to know of the rows."""

    rows: int
    weight: Array  # (s, k)
    sums: Array  # (s, k, D), sums of w z
    scores: Array  # (s,), sums of w min(|c|^2 - 2 z'c), about a point: the inertia less the sum of w |z|^2
    squares: float  # sum of w |z|^2 about the same point, or zero where it was not asked for

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
        """The sum of squared distances to the nearest center, for each start; needs `squares`."""
        return np.maximum(self.squares + self.scores, 0.0)


@dataclass(frozen=True)
class Assign:
    """The term of a step: each row goes to the nearest of the centers."""

    draw: Draw
    centers: Array  # (s, k, D)
    with_squares: bool = True
    point: Array | None = None  # as in `Centers`

    def __call__(self, block: Block) -> ClusterSums:
        s, k, D = self.centers.shape
        parts = (
            self._tile(Z, None if block.weight is None else block.weight[rows], centers)
            for rows, Z, centers in tiles_beside(self.centers.reshape(s * k, D), self.draw, block, self.point)
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
            # One column a row, with its weight at its cluster: this product adds rows at the speed of memory.
            indicators = sp.csc_array((w.astype(Z.dtype, copy=False), labels, np.arange(n + 1)), shape=(k, n))
            weights[i] = np.bincount(labels, w, k)
            sums[i] = indicators @ Z
            sums[i] += weights[i][:, None] * centers.point
            totals[i] = w @ least
        return ClusterSums(n, weights, sums, totals, float(w @ squares_of(Z)) if self.with_squares else 0.0)


@dataclass(frozen=True)
class Farthest:
    """The term that finds the distinct rows farthest from their centers."""

    draw: Draw
    centers: Array  # (k, D)
    size: int

    def __call__(self, block: Block) -> DistinctRows:
        keys = np.empty(len(block))
        for rows, Z, centers in tiles_beside(self.centers, self.draw, block):
            distances = centers.distances(Z).min(axis=0)
            keys[rows] = np.where(distances > 0, -rounded(distances), np.inf)
        return DistinctRows.of(block, row_hashes(block.X), keys, size=self.size)


def rounded(values: Array) -> Array:
    """Return numbers rounded to 40 bits, so that distances that are equal but for rounding are equal."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.round(mantissa * 2.0**40), exponent - 40)


@dataclass(frozen=True)
class Clustering:
    """Where an iteration has come from one start."""

    centers: Array  # (k, D)
    weight: Array  # (k,)
    inertia: float
    path: tuple[float, ...]  # the inertia at each pass
    n_iter: int  # passes in which centers moved, or were found to stay
    converged: bool


def lloyd(
    engine: Engine,
    draw: Draw,
    starts: Array,
    *,
    max_iter: int,
    tol: float,
    report: Callable[[int, int], None] = lambda *_: None,
) -> Clustering:
    """Iterate from all starts (s, k, D) at once and return the best result.

    A start is finished when moving its centers lowers the inertia by no more than a share `tol`, or not at all.
    `report` is called after each pass with the rows of a pass and the number of passes.
    """
    runs = [Run(np.array(start, dtype=np.float64)) for start in starts]
    squares, passes, point = None, 0, point_near(np.concatenate(starts))
    while (going := [run for run in runs if not run.ended]) and passes < max_iter:
        found = engine.sum(Assign(draw, np.array([run.centers for run in going]), squares is None, point))
        squares, passes = found.squares if squares is None else squares, passes + 1
        report(found.rows, passes)
        for run, weight, sums, scores in zip(going, found.weight, found.sums, found.scores, strict=True):
            if run.arrive(weight, squares + float(scores)):
                run.move(means(engine, draw, run.centers, weight, sums), tol)
    if open_ended := [run for run in runs if not run.settled]:
        found = engine.sum(Assign(draw, np.array([run.centers for run in open_ended]), point=point))
        for run, weight, inertia in zip(open_ended, found.weight, found.inertia, strict=True):
            run.take(weight, float(inertia))
    best = runs[first_of_least(np.array([run.path[-1] for run in runs]))]
    n_iter = len(best.path) - (not best.settled)
    return Clustering(best.centers, best.weight, best.path[-1], tuple(best.path), n_iter, best.ended)


class Run:
    """One start on its way."""

    def __init__(self, centers: Array) -> None:
        self.centers = self._before = centers
        self.weight = np.zeros(len(centers))
        self.path: list[float] = []
        self.ended = False  # there is nothing left to gain, or too little
        self.settled = False  # and the last inertia is that of the centers as they are

    def arrive(self, weight: Array, inertia: float) -> bool:
        """Take note of a pass with the centers as they are, and return whether to go on."""
        self.ended = self.settled = not self.take(weight, inertia)
        return not self.ended

    def take(self, weight: Array, inertia: float) -> bool:
        """Take the centers as they are, or go back to those before if nothing was gained; return which."""
        inertia = max(inertia, 0.0)
        gained = not self.path or inertia < self.path[-1]
        if gained:
            self.weight, self.path = weight, [*self.path, inertia]
        else:  # only rounding has moved them
            self.centers, self.path = self._before, [*self.path, self.path[-1]]
        return gained

    def move(self, centers: Array, tol: float) -> None:
        """Move the centers, and see whether that was worth it."""
        gain = float(self.weight @ np.square(centers - self.centers).sum(axis=1))
        revived = bool((centers != self.centers)[self.weight == 0].any())  # an empty cluster has got a row
        self._before, self.centers = self.centers, centers
        self.settled = gain == 0 and not revived
        self.ended = gain <= tol * self.path[-1] and not revived


def first_of_least(inertias: Array) -> int:
    """Return the first start that comes within a millionth of the best.

    Starts that end in the same clusters differ by rounding, which must not decide on the numbers of the clusters.
    """
    return int((inertias <= inertias.min() * (1 + 1e-6)).argmax())


def best_of(engine: Engine, draw: Draw, starts: Array) -> Array:
    """Return the start of least inertia."""
    return starts[0] if len(starts) == 1 else starts[first_of_least(engine.sum(Assign(draw, starts)).inertia)]


def means(engine: Engine, draw: Draw, centers: Array, weight: Array, sums: Array) -> Array:
    """Return the means of the clusters; an empty one begins anew at one of the rows farthest from their centers."""
    empty = weight == 0
    moved = np.where(empty[:, None], centers, sums / np.where(empty, 1.0, weight)[:, None])
    if empty.any():
        far = engine.sum(Farthest(draw, centers, int(empty.sum())))
        order = np.argsort(far.key, kind="stable")
        places = np.flatnonzero(empty)[: len(order)]
        if len(places):
            moved[places] = draw.of(far.X[order])
    return moved


@dataclass(frozen=True)
class FeatureClusters:
    """Centers in the space of the features, ready for new rows."""

    draw: Draw
    centers: Array  # (k, D)

    @property
    def width(self) -> int:
        """Return the columns that a row of the matrices worked with has."""
        return self.centers.shape[1]

    def labels(self, X: Any) -> Array:
        """Return the nearest center of each row."""
        out = np.empty(X.shape[0], np.int32)
        for rows, Z, centers in tiles_beside(self.centers, self.draw, Block(0, X)):
            out[rows], _ = nearest(centers.scores(Z), centers.norms, centers.eps)
        return out

    def distances(self, X: Any) -> Array:
        """Return squared distances, (rows, k)."""
        out = np.empty((X.shape[0], len(self.centers)))
        for rows, Z, centers in tiles_beside(self.centers, self.draw, Block(0, X)):
            out[rows] = centers.distances(Z).T
        return out
