"""Lloyd's iteration on features: rows go to the nearest centre, centres to the mean of their rows.

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

from mercer.engines import Block, DistinctRows, Engine, empty_rows, row_hashes
from mercer.io.archive import storable
from mercer.learners.shifts import point_near
from mercer.maps.base import Features

__all__ = [
    "Assign",
    "Centres",
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


class Centres:
    """Centres made ready for the features of one dtype.

    Both are taken less a point: products of features that lie far from zero would be mostly their rounding.

    Parameters
    ----------
    centres : ndarray of shape (k, D)
        Centres.
    dtype : dtype
        Of the features.
    point : ndarray of shape (D,), default=None
        What `near` takes off; None means the mean of these centres if it lies far from zero, and zero otherwise.
    """

    def __init__(self, centres: Array, dtype: Any, point: Array | None = None) -> None:
        self.point = point_near(centres) if point is None else point
        self._shift = self.point.astype(dtype) if self.point.any() else None
        centres = centres - self.point
        self.norms = np.einsum("ij,ij->i", centres, centres)
        self.eps = ROUNDING_UNITS * float(np.finfo(dtype).eps)
        # Features were rounded before the point was taken off: closer rows cannot be told apart.
        self._least = float(np.square(np.finfo(dtype).eps * np.linalg.norm(self.point)))
        self._right = np.ascontiguousarray(-2 * centres.T, dtype=dtype)

    def near(self, Z: Array) -> Array:
        """Return features less the point: what the other methods take."""
        return Z if self._shift is None else Z - self._shift

    def scores(self, Z: Array) -> Array:
        """Return |c|^2 - 2 z'c, which orders the centres c as their distances to z do: (centres, rows)."""
        scores = np.ascontiguousarray((Z @ self._right).T, dtype=np.float64)
        scores += self.norms[:, None]
        return scores

    def distances(self, Z: Array) -> Array:
        """Return |z - c|^2, (centres, rows); what is zero but for rounding is zero."""
        squares = squares_of(Z)
        distances = self.scores(Z)
        distances += squares
        distances[distances <= self.eps * (squares + self.norms[:, None]) + self._least] = 0.0
        return distances


def tiles_beside(
    centres: Array, draw: Draw, block: Block, point: Array | None = None
) -> Iterator[tuple[slice, Array, Centres]]:
    """Yield the features of a few rows at a time, near centres that are made ready once."""
    ready: Centres | None = None
    for rows, Z in feature_tiles(draw, block):
        ready = Centres(centres, Z.dtype, point) if ready is None else ready
        yield rows, ready.near(Z), ready


def nearest(scores: Array, norms: Array, eps: float) -> tuple[Array, Array]:
    """Return the nearest centre of each row and its score; of centres equally near, the first."""
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
        """The sum of squared distances to the nearest centre, for each start; needs `squares`."""
        return np.maximum(self.squares + self.scores, 0.0)


@dataclass(frozen=True)
class Assign:
    """The term of a step: each row goes to the nearest of the centres."""

    draw: Draw
    centres: Array  # (s, k, D)
    with_squares: bool = True
    point: Array | None = None  # as in `Centres`

    def __call__(self, block: Block) -> ClusterSums:
        s, k, D = self.centres.shape
        parts = (
            self._tile(Z, None if block.weight is None else block.weight[rows], centres)
            for rows, Z, centres in tiles_beside(self.centres.reshape(s * k, D), self.draw, block, self.point)
        )
        return reduce(add, parts)

    def _tile(self, Z: Array, weight: Array | None, centres: Centres) -> ClusterSums:
        s, k, D = self.centres.shape
        n = len(Z)
        w = np.ones(n) if weight is None else weight
        scores, norms = centres.scores(Z).reshape(s, k, n), centres.norms.reshape(s, k)
        sums, weights, totals = np.empty((s, k, D)), np.empty((s, k)), np.empty(s)
        for i in range(s):
            labels, least = nearest(scores[i], norms[i], centres.eps)
            # One column a row, with its weight at its cluster: this product adds rows at the speed of memory.
            indicators = sp.csc_array((w.astype(Z.dtype, copy=False), labels, np.arange(n + 1)), shape=(k, n))
            weights[i] = np.bincount(labels, w, k)
            sums[i] = indicators @ Z
            sums[i] += weights[i][:, None] * centres.point
            totals[i] = w @ least
        return ClusterSums(n, weights, sums, totals, float(w @ squares_of(Z)) if self.with_squares else 0.0)


@dataclass(frozen=True)
class Farthest:
    """The term that finds the distinct rows farthest from their centres."""

    draw: Draw
    centres: Array  # (k, D)
    size: int

    def __call__(self, block: Block) -> DistinctRows:
        keys = np.empty(len(block))
        for rows, Z, centres in tiles_beside(self.centres, self.draw, block):
            distances = centres.distances(Z).min(axis=0)
            keys[rows] = np.where(distances > 0, -rounded(distances), np.inf)
        return DistinctRows.of(block, row_hashes(block.X), keys, size=self.size)


def rounded(values: Array) -> Array:
    """Return numbers rounded to 40 bits, so that distances that are equal but for rounding are equal."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.round(mantissa * 2.0**40), exponent - 40)


@dataclass(frozen=True)
class Clustering:
    """Where an iteration has come from one start."""

    centres: Array  # (k, D)
    weight: Array  # (k,)
    inertia: float
    path: tuple[float, ...]  # the inertia at each pass
    n_iter: int  # passes in which centres moved, or were found to stay
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

    A start is finished when moving its centres lowers the inertia by no more than a share `tol`, or not at all.
    `report` is called after each pass with the rows of a pass and the number of passes.
    """
    runs = [Run(np.array(start, dtype=np.float64)) for start in starts]
    squares, passes, point = None, 0, point_near(np.concatenate(starts))
    while (going := [run for run in runs if not run.ended]) and passes < max_iter:
        found = engine.sum(Assign(draw, np.array([run.centres for run in going]), squares is None, point))
        squares, passes = found.squares if squares is None else squares, passes + 1
        report(found.rows, passes)
        for run, weight, sums, scores in zip(going, found.weight, found.sums, found.scores, strict=True):
            if run.arrive(weight, squares + float(scores)):
                run.move(means(engine, draw, run.centres, weight, sums), tol)
    if open_ended := [run for run in runs if not run.settled]:
        found = engine.sum(Assign(draw, np.array([run.centres for run in open_ended]), point=point))
        for run, weight, inertia in zip(open_ended, found.weight, found.inertia, strict=True):
            run.take(weight, float(inertia))
    best = runs[first_of_least(np.array([run.path[-1] for run in runs]))]
    n_iter = len(best.path) - (not best.settled)
    return Clustering(best.centres, best.weight, best.path[-1], tuple(best.path), n_iter, best.ended)


class Run:
    """One start on its way."""

    def __init__(self, centres: Array) -> None:
        self.centres = self._before = centres
        self.weight = np.zeros(len(centres))
        self.path: list[float] = []
        self.ended = False  # there is nothing left to gain, or too little
        self.settled = False  # and the last inertia is that of the centres as they are

    def arrive(self, weight: Array, inertia: float) -> bool:
        """Take note of a pass with the centres as they are, and return whether to go on."""
        self.ended = self.settled = not self.take(weight, inertia)
        return not self.ended

    def take(self, weight: Array, inertia: float) -> bool:
        """Take the centres as they are, or go back to those before if nothing was gained; return which."""
        inertia = max(inertia, 0.0)
        gained = not self.path or inertia < self.path[-1]
        if gained:
            self.weight, self.path = weight, [*self.path, inertia]
        else:  # only rounding has moved them
            self.centres, self.path = self._before, [*self.path, self.path[-1]]
        return gained

    def move(self, centres: Array, tol: float) -> None:
        """Move the centres, and see whether that was worth it."""
        gain = float(self.weight @ np.square(centres - self.centres).sum(axis=1))
        revived = bool((centres != self.centres)[self.weight == 0].any())  # an empty cluster has got a row
        self._before, self.centres = self.centres, centres
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


def means(engine: Engine, draw: Draw, centres: Array, weight: Array, sums: Array) -> Array:
    """Return the means of the clusters; an empty one begins anew at one of the rows farthest from their centres."""
    empty = weight == 0
    moved = np.where(empty[:, None], centres, sums / np.where(empty, 1.0, weight)[:, None])
    if empty.any():
        far = engine.sum(Farthest(draw, centres, int(empty.sum())))
        order = np.argsort(far.key, kind="stable")
        places = np.flatnonzero(empty)[: len(order)]
        if len(places):
            moved[places] = draw.of(far.X[order])
    return moved


@dataclass(frozen=True)
class FeatureClusters:
    """Centres in the space of the features, ready for new rows."""

    draw: Draw
    centres: Array  # (k, D)

    @property
    def width(self) -> int:
        """Return the columns that a row of the matrices worked with has."""
        return self.centres.shape[1]

    def labels(self, X: Any) -> Array:
        """Return the nearest centre of each row."""
        out = np.empty(X.shape[0], np.int32)
        for rows, Z, centres in tiles_beside(self.centres, self.draw, Block(0, X)):
            out[rows], _ = nearest(centres.scores(Z), centres.norms, centres.eps)
        return out

    def distances(self, X: Any) -> Array:
        """Return squared distances, (rows, k)."""
        out = np.empty((X.shape[0], len(self.centres)))
        for rows, Z, centres in tiles_beside(self.centres, self.draw, Block(0, X)):
            out[rows] = centres.distances(Z).T
        return out
