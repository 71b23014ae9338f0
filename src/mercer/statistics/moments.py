"""Second moments of features and targets: what least squares needs to know of the rows it has seen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from math import isqrt
from operator import add
from typing import Any, Protocol, Self

import numpy as np

from mercer.engines import Block, Workers, block_rows_for
from mercer.features import Features, features_of
from mercer.io import storable
from mercer.statistics import GramSum
from mercer.statistics.shifts import far_mean, moved_gram

__all__ = [
    "MomentSum",
    "Moments",
    "TargetMoments",
    "Triangular",
    "joint_rounding",
    "pack_upper",
    "symmetric",
    "unpack_upper",
]

Array = np.ndarray
# Rows whose features one thread computes and sums while they are in its cache.
SLICE_ROWS = 256
EPS = float(np.finfo(np.float64).eps)
# Products with a vector that tell the largest eigenvalue of a matrix well enough for a bound.
ITERATIONS = 20


@storable
@dataclass(frozen=True)
class TargetMoments:
    """Moments in which targets take part, around the means: targets may sit far from zero."""

    rows: int
    weight: float
    feature_sum: Array  # (D,), sum of w z
    target_mean: Array  # (t,)
    cross: Array  # (D, t), sum of w (z - mean) (y - mean)'
    target_scatter: Array  # (t,), sum of w (y - mean)^2

    @classmethod
    def of(cls, Z: Array, targets: Array, weight: Array | None = None) -> Self:
        """Return the moments of some rows, in float64 whatever the dtype of the features."""
        w = np.ones(len(Z)) if weight is None else weight
        total = float(w.sum())
        mean = (w @ targets / total) if total > 0 else np.zeros(targets.shape[1])
        centered = targets - mean
        # The targets sum to zero around their mean, so the features need no centering here. One product gives the cross
        # moments and, in its last column, the sum of the features.
        right = np.column_stack([w[:, None] * centered, w])
        size = np.abs(right).max(axis=0, initial=0.0)
        size = np.where(size > 0, size, 1.0)  # in units of the largest, targets of any size fit into float32
        product = (Z.T @ (right / size).astype(Z.dtype, copy=False)) * size
        with np.errstate(over="ignore"):  # whoever needs the squares looks whether they are finite
            scatter = w @ np.square(centered)
        return cls(len(Z), total, product[:, -1], mean, product[:, :-1], scatter)

    def __add__(self, other: TargetMoments) -> TargetMoments:
        weight = self.weight + other.weight
        # Chan, Golub, LeVeque (1979): means are joined, and the moments around them get a correction of rank one.
        share = other.weight / weight if weight > 0 else 0.0
        step = other.target_mean - self.target_mean
        shift = (1 - share) * other.feature_sum - share * self.feature_sum
        return TargetMoments(
            rows=self.rows + other.rows,
            weight=weight,
            feature_sum=self.feature_sum + other.feature_sum,
            target_mean=self.target_mean + step * share,
            cross=self.cross + other.cross + np.outer(shift, step),
            target_scatter=self.target_scatter + other.target_scatter + np.square(step) * (share * self.weight),
        )

    def transformed(self, matrix: Array) -> TargetMoments:
        """Return the moments of features times a matrix."""
        return replace(self, feature_sum=matrix.T @ self.feature_sum, cross=matrix.T @ self.cross)


class Triangular:
    """A statistic of whose symmetric matrix `gram` the upper triangle counts: pickles carry that alone."""

    gram: Array

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "gram": pack_upper(self.gram)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, gram=unpack_upper(state["gram"]))


@storable
@dataclass(frozen=True)
class Moments(Triangular):
    """All that ridge regression needs to know of the rows it has seen.

    Second moments are about a point: zero, or where the first features lie if that is far from zero. Of the symmetric
    matrix only the upper triangle counts; what stands below it is not defined.
    """

    gram: Array  # (D, D), sum of w (z - shift) (z - shift)', upper triangle
    targets: TargetMoments
    roundoff: float = EPS  # of the products behind it
    shift: Array | None = None  # (D,), None means zero
    blur: Array | None = None  # (D, D), the rounding of features that were transformed; None: alike in all directions

    @property
    def rows(self) -> int:
        return self.targets.rows

    def __add__(self, other: Moments) -> Moments:
        gram = self.gram + other.about(self.shift)
        roundoff, blur = joint_rounding(gram, self, other)
        return Moments(gram, self.targets + other.targets, roundoff, self.shift, blur)

    def transformed(self, matrix: Array) -> Moments:
        """Return the moments of features times a matrix, of which the old rounding is a larger part if they shrink.

        Rounding is transformed with them: what one matrix magnifies the next may shrink, where bounds would pile up.
        """
        gram = matrix.T @ symmetric(self.gram) @ matrix
        size, after = upper_norm(self.gram), upper_norm(gram)
        square = matrix.T @ matrix
        blur = self.roundoff * size * square if self.blur is None else matrix.T @ self.blur @ matrix
        blur[np.diag_indices_from(blur)] += EPS * size * largest_eigenvalue(square)  # of the products above
        roundoff = max(EPS, largest_eigenvalue(blur) / after) if after > 0 else self.roundoff
        shift = None if self.shift is None else matrix.T @ self.shift
        return Moments(gram, self.targets.transformed(matrix), roundoff, shift, blur)

    @property
    def rounding(self) -> float:
        """About how large the rounding of the matrix is, by its spectral norm: penalties below that fit rounding.

        Products of blocks are rounded by chance, each on its own, so that many blocks are better than one.
        """
        blocks = max(1.0, self.rows / block_rows_for(len(self.gram), np.dtype(np.float32).itemsize))
        return self.roundoff * upper_norm(self.gram) / np.sqrt(blocks)

    def about(self, point: Array | None) -> Array:
        """Return the second moments about a point, None meaning zero: the upper triangle."""
        if same_point(self.shift, point):
            return self.gram
        to = np.zeros(len(self.gram)) if point is None else point
        return moved_gram(self.gram, self.targets.feature_sum, self.targets.weight, self.shift, to)


class Rounded(Protocol):
    """Second moments that know their rounding."""

    @property
    def gram(self) -> Array: ...
    @property
    def roundoff(self) -> float: ...
    @property
    def blur(self) -> Array | None: ...


def joint_rounding(gram: Array, one: Rounded, other: Rounded) -> tuple[float, Array | None]:
    """Return the rounding of the sum of two moments, relative to it, and by directions if it is known so of one."""
    if one.blur is None and other.blur is None:
        return max(one.roundoff, other.roundoff), None
    blur = np.zeros_like(gram)
    for part in (one, other):
        if part.blur is not None:
            blur += part.blur
        else:
            blur[np.diag_indices_from(blur)] += part.roundoff * upper_norm(part.gram)
    size = upper_norm(gram)
    return max(EPS, largest_eigenvalue(blur) / size) if size > 0 else max(one.roundoff, other.roundoff), blur


def largest_eigenvalue(matrix: Array) -> float:
    """Return about the largest eigenvalue of a positive semi-definite matrix, by powers of it."""
    vector = np.sqrt(np.maximum(np.diagonal(matrix), 0.0))
    vector = vector + vector.max(initial=0.0) * np.random.default_rng(0).random(len(vector))
    value = 0.0
    for _ in range(ITERATIONS):
        length = float(np.linalg.norm(vector))
        if length == 0 or not np.isfinite(length):
            return length
        vector = matrix @ (vector / length)
        value = float(np.linalg.norm(vector))
    return value


def same_point(a: Array | None, b: Array | None) -> bool:
    """Return whether two points, None meaning zero, are known to be the same."""
    return a is b or (a is not None and b is not None and np.array_equal(a, b))


class MomentSum:
    """Adds features and targets of blocks: the features of a block are computed once, into a buffer that is reused.

    Parameters
    ----------
    features : Features
        The drawn map.
    double : bool
        Whether products run in float64 also for float32 features. Twice the time, and needed where small eigenvalues of
        the moments count: next to a penalty far below the largest, products in float32 are mostly rounding.
    centered : bool
        Whether the moments will be taken about the means. Then features whose first rows lie far from zero, beside
        which they vary little, are taken less a point near their mean: moments about zero would be mostly that.
    """

    def __init__(self, features: Features, *, double: bool = False, centered: bool = False) -> None:
        self._features: dict[Any, Features] = {}
        self._draw = features
        self._double = double
        self._undecided = centered
        self._shift: Array | None = None
        self._gram = GramSum(features.n_components)
        self.roundoff = float(np.finfo(np.float64).eps)

    def add(self, block: Block, targets: Array, workers: Workers) -> TargetMoments:
        """Add the block to the matrix of second moments and return its other moments."""
        dtype = block.X.dtype
        if dtype not in self._features:
            self._features[dtype] = self._draw.astype(dtype)
        features = self._features[dtype]
        products = np.dtype(np.float64) if self._double else dtype
        self.roundoff = max(self.roundoff, float(np.finfo(products).eps))
        Z = self._gram.room(len(block), products)
        if self._undecided:
            self._shift = far_mean(features_of(features, block.X[:SLICE_ROWS]))
            self._undecided = False
        shift = None if self._shift is None else self._shift.astype(products)

        def compute(start: int) -> TargetMoments:
            rows = slice(start, start + SLICE_ROWS)
            weight = None if block.weight is None else block.weight[rows]
            if products == dtype:
                features(block.X[rows], Z[rows])
            else:
                Z[rows] = features_of(features, block.X[rows])
            if shift is not None:
                Z[rows] -= shift
            part = TargetMoments.of(Z[rows], targets[rows], weight)
            if weight is not None:
                Z[rows] *= np.sqrt(weight).astype(products)[:, None]
            return part

        total = reduce(add, workers.in_order(compute, range(0, len(block), SLICE_ROWS)))
        self._gram.add(Z, workers)
        if self._shift is not None:
            total = replace(total, feature_sum=total.feature_sum + total.weight * self._shift)
        return total

    def moments(self, targets: TargetMoments) -> Moments:
        """Return the moments of all blocks, given the sum of what `add` returned."""
        return Moments(self._gram.result(), targets, self.roundoff, self._shift)

    def restore(self, gram: Array, roundoff: float, shift: Array | None = None) -> None:
        """Go on from the moments of blocks that were added before."""
        self._gram.restore(gram)
        self.roundoff, self._shift, self._undecided = roundoff, shift, False


def pack_upper(matrix: Array) -> Array:
    """Return the upper triangle of a square matrix, row after row: D (D + 1) / 2 numbers."""
    return np.concatenate([row[i:] for i, row in enumerate(matrix)] or [np.zeros(0, matrix.dtype)])


def unpack_upper(packed: Array) -> Array:
    """Return the square matrix whose upper triangle was packed; zeros stand below it."""
    D = (isqrt(8 * len(packed) + 1) - 1) // 2
    matrix = np.zeros((D, D), packed.dtype)
    start = 0
    for i, row in enumerate(matrix):
        row[i:] = packed[start : start + D - i]
        start += D - i
    return matrix


def upper_norm(upper: Array) -> float:
    """Return the Frobenius norm of the positive semi-definite matrix of an upper triangle."""
    diagonal = np.diagonal(upper)
    unit = float(diagonal.max(initial=0.0))  # no entry is larger, and in its units no square overflows
    if unit == 0 or not np.isfinite(unit):
        return unit
    squares = sum(float(np.square(row[i:] / unit).sum()) for i, row in enumerate(upper))
    return unit * float(np.sqrt(2 * squares - np.square(diagonal / unit).sum()))


def symmetric(upper: Array) -> Array:
    """Return the whole matrix of an upper triangle."""
    return np.triu(upper) + np.triu(upper, 1).T
