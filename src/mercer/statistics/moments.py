"""Second moments of features and targets: the sufficient statistic of least squares.

Gram matrices of features are sums of outer products over blocks of rows, about any point. Products of features of
norm r that vary by s are r^2 / s^2 times larger than what varies, and so is their rounding error; about a point near
the mean they are not. Sums about different points can still be added, since moving from one point to another is a
correction of rank two, in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from math import isqrt
from operator import add
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from mercer.engines import Accumulator, Block, Workers, block_rows_for
from mercer.engines.memory import empty_rows
from mercer.features import Features, features_of
from mercer.io import storable
from mercer.statistics.sample import RowSample

__all__ = [
    "GramSum",
    "MomentSum",
    "Moments",
    "TargetMoments",
    "TargetRule",
    "Triangular",
    "add_products",
    "far_mean",
    "label_indicators",
    "moved_gram",
    "no_targets",
    "numeric_targets",
    "pack_upper",
    "point_near",
    "rows_as_targets",
    "symmetric",
    "unpack_upper",
    "upper_norm",
]

Array = np.ndarray
# A mean counts as far from zero if its square is this many times the mean square of the deviations from it.
FAR = 8.0
# Rows of a matrix that are processed at a time: few enough to be in cache when they are used again.
PANEL_ROWS = 64


def add_products(total: Array, left: Array, right: Array, workers: Workers, *, upper: bool) -> None:
    """Add ``left.T @ right`` to a float64 matrix in place; with `upper`, only the tiles on its diagonal and above.

    Products are computed in the dtype of the rows. Each tile is computed by one thread, and the tiles depend on the
    widths alone, so the number of threads changes no bit.
    """
    rows, columns = (panels(width) for width in total.shape)
    if upper:
        # Tiles off the diagonal first: they are twice the work, and the small ones fill the gaps at the end.
        tiles = [(a, b) for i, a in enumerate(rows) for b in columns[i + 1 :]]
        tiles += list(zip(rows, columns, strict=True))
    else:
        tiles = [(a, b) for a in rows for b in columns]

    def update(tile: tuple[slice, slice]) -> None:
        a, b = tile
        total[a, b] += left[:, a].T @ right[:, b]

    workers.run(update, tiles)


def panels(width: int) -> list[slice]:
    """Return slices that divide columns into panels; the product of two panels is computed by one thread."""
    step = int(np.clip(-(-width // 8), 64, 512))
    return [slice(i, min(i + step, width)) for i in range(0, width, step)]


class GramSum:
    """Gram matrix of features, summed tile by tile in place.

    The products of a block are computed in the dtype of its features and added in float64, so the error does not grow
    with the number of blocks. Each tile is computed by one thread, and the tiles depend on the width alone, so the
    number of threads changes no bit.
    """

    def __init__(self, n_components: int) -> None:
        self._width = n_components
        self._gram: Array | None = None  # allocated with the first rows, so that an empty sum is small to send
        self._buffers: dict[Any, Array] = {}

    def buffer(self, rows: int, dtype: Any) -> Array:
        """Return a buffer for the features of a block, which is reused for the next block."""
        D = self._width
        buffer = self._buffers.get(dtype)
        if buffer is None or len(buffer) < rows:
            # A few spare columns keep rows from lying a power of two apart, which would crowd them into few cache sets.
            buffer = self._buffers[dtype] = empty_rows(rows, D + 16, dtype)
        return buffer[:rows, :D]

    def add(self, Z: Array, workers: Workers) -> None:
        """Add z z' for all rows of `Z`, which are already multiplied by the square roots of their weights."""
        add_products(self.result(), Z, Z, workers, upper=True)

    def result(self) -> Array:
        """Return the matrix; only its upper triangle is defined."""
        if self._gram is None:
            self._gram = np.zeros((self._width, self._width))
        return self._gram

    def restore(self, gram: Array) -> None:
        """Continue from a matrix that `result` returned."""
        self._gram = np.array(gram)  # a copy: blocks are added in place


def far_mean(Z: Array) -> Array | None:
    """Return the mean of some features if it is far from zero, and None if subtracting it would gain little.

    The mean is rounded to float32, so that exactly the same point can be subtracted from features of every dtype.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        mean = Z.mean(axis=0, dtype=np.float64).astype(np.float32).astype(np.float64)
        spread = float(np.square(Z - mean).sum(axis=1, dtype=np.float64).mean())
        far = float(mean @ mean) > FAR * spread  # never if something overflowed
    return mean if far else None


def point_near(Z: Array) -> Array:
    """Return the mean of some features if it is far from zero, and zero otherwise."""
    mean = far_mean(Z)
    return np.zeros(Z.shape[1]) if mean is None else mean


def moved_gram(gram: Array, feature_sum: Array, weight: float, shift: Array | None, to: Array) -> Array:
    """Return the upper triangle of the sum of w (z - to) (z - to)', given that about `shift`; None means zero.

    `feature_sum` is the sum of w z. Entries below the diagonal are not defined.
    """
    step = -to if shift is None else shift - to
    about = feature_sum if shift is None else feature_sum - weight * shift
    # G + d m' + m d' + W d d', with m the sum about the old point: two products of columns.
    left, right = np.stack([step, about + weight / 2 * step]), np.stack([about + weight / 2 * step, step])
    moved = np.empty_like(gram)
    for i in range(0, len(gram), PANEL_ROWS):  # the complete product would need another matrix of that size
        rows, columns = slice(i, i + PANEL_ROWS), slice(i, None)
        np.matmul(left[:, rows].T, right[:, columns], out=moved[rows, columns])
        moved[rows, columns] += gram[rows, columns]
    return moved


class Triangular:
    """A statistic with a symmetric matrix `gram`, of which only the upper triangle is defined and pickled."""

    gram: Array

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "gram": pack_upper(self.gram)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, gram=unpack_upper(state["gram"]))


def pack_upper(matrix: Array) -> Array:
    """Return the D (D + 1) / 2 entries of the upper triangle of a square matrix, row after row."""
    return np.concatenate([row[i:] for i, row in enumerate(matrix)] or [np.zeros(0, matrix.dtype)])


def unpack_upper(packed: Array) -> Array:
    """Return the square matrix of a packed upper triangle, with zeros below the diagonal."""
    D = (isqrt(8 * len(packed) + 1) - 1) // 2
    matrix = np.zeros((D, D), packed.dtype)
    start = 0
    for i, row in enumerate(matrix):
        row[i:] = packed[start : start + D - i]
        start += D - i
    return matrix


def upper_norm(upper: Array) -> float:
    """Return the Frobenius norm of a positive semi-definite matrix, given its upper triangle."""
    diagonal = np.diagonal(upper)
    unit = float(diagonal.max(initial=0.0))  # no entry is larger, and in its units no square overflows
    if unit == 0 or not np.isfinite(unit):
        return unit
    squares = sum(float(np.square(row[i:] / unit).sum()) for i, row in enumerate(upper))
    return unit * float(np.sqrt(2 * squares - np.square(diagonal / unit).sum()))


def symmetric(upper: Array) -> Array:
    """Return the symmetric matrix of an upper triangle."""
    return np.triu(upper) + np.triu(upper, 1).T


# Rows whose features one thread computes and sums while they are in its cache.
SLICE_ROWS = 256
EPS = float(np.finfo(np.float64).eps)
# Power iterations that estimate the largest eigenvalue well enough for a bound.
ITERATIONS = 20


@storable
@dataclass(frozen=True)
class TargetMoments:
    """First and second moments that involve targets, about the means, since targets may be far from zero.

    Where targets are indicators of labels, `labels` has the label of each column, and moments with different labels
    can be added: the union of the labels is taken.
    """

    rows: int
    weight: float
    feature_sum: Array  # (D,), sum of w z
    target_mean: Array  # (t,)
    cross: Array  # (D, t), sum of w (z - mean) (y - mean)'
    target_scatter: Array  # (t,), sum of w (y - mean)^2
    labels: Array | None = None  # (t,), sorted

    @classmethod
    def of(cls, Z: Array, targets: Array, weight: Array | None = None, labels: Array | None = None) -> Self:
        """Return the moments of some rows, in float64 whatever the dtype of the features."""
        w = np.ones(len(Z)) if weight is None else weight
        total = float(w.sum())
        mean = (w @ targets / total) if total > 0 else np.zeros(targets.shape[1])
        centered = targets - mean
        # The targets sum to zero about their mean, so the features need no centering here. One product gives the cross
        # moments and, in its last column, the sum of the features.
        right = np.column_stack([w[:, None] * centered, w])
        size = np.abs(right).max(axis=0, initial=0.0)
        size = np.where(size > 0, size, 1.0)  # in units of the largest, targets of any size fit into float32
        product = (Z.T @ (right / size).astype(Z.dtype, copy=False)) * size
        with np.errstate(over="ignore"):  # solvers that need the squares check that they are finite
            scatter = w @ np.square(centered)
        return cls(len(Z), total, product[:, -1], mean, product[:, :-1], scatter, labels)

    def __add__(self, other: TargetMoments) -> TargetMoments:
        one, two = self, other
        if self.labels is not None and other.labels is not None:
            one, two = self.with_labels(other.labels), other.with_labels(self.labels)
        weight = one.weight + two.weight
        # Chan, Golub, LeVeque (1979): means are joined, and the moments about them get a correction of rank one.
        share = two.weight / weight if weight > 0 else 0.0
        step = two.target_mean - one.target_mean
        shift = (1 - share) * two.feature_sum - share * one.feature_sum
        return TargetMoments(
            rows=one.rows + two.rows,
            weight=weight,
            feature_sum=one.feature_sum + two.feature_sum,
            target_mean=one.target_mean + step * share,
            cross=one.cross + two.cross + np.outer(shift, step),
            target_scatter=one.target_scatter + two.target_scatter + np.square(step) * (share * one.weight),
            labels=one.labels,
        )

    def transformed(self, matrix: Array) -> TargetMoments:
        """Return the moments of features times a matrix."""
        return replace(self, feature_sum=matrix.T @ self.feature_sum, cross=matrix.T @ self.cross)

    def with_labels(self, labels: Array) -> TargetMoments:
        """Return the moments with further labels; the indicators of labels without rows are zero."""
        assert self.labels is not None
        union = np.union1d(self.labels, labels)
        if len(union) == len(self.labels):
            return self
        columns = np.searchsorted(union, self.labels)

        def spread(values: Array) -> Array:
            out = np.zeros((*values.shape[:-1], len(union)))
            out[..., columns] = values
            return out

        return replace(
            self,
            target_mean=spread(self.target_mean),
            cross=spread(self.cross),
            target_scatter=spread(self.target_scatter),
            labels=union,
        )

    def signed(self) -> TargetMoments:
        """Return the moments of targets +1 for the label of a column and -1 otherwise; two labels have one column."""
        assert self.labels is not None
        columns = slice(1, None) if len(self.labels) == 2 else slice(None)
        return replace(
            self,
            target_mean=2 * self.target_mean[columns] - 1,
            cross=2 * self.cross[:, columns],
            target_scatter=4 * self.target_scatter[columns],
            labels=None,
        )


@storable
@dataclass(frozen=True)
class Moments(Triangular):
    """Second moments of features, moments of targets, and possibly a sample of rows.

    Second moments of features are about a point: zero, or the mean of the first features if that is far from zero.
    Only the upper triangle of the symmetric matrix is defined.
    """

    gram: Array  # (D, D), sum of w (z - shift) (z - shift)', upper triangle
    targets: TargetMoments
    roundoff: float = EPS  # unit roundoff of the products
    shift: Array | None = None  # (D,), None means zero
    blur: Array | None = None  # (D, D), covariance-like bound on the rounding error of transformed features
    sample: RowSample | None = None

    @property
    def rows(self) -> int:
        return self.targets.rows

    @property
    def labels(self) -> Array | None:
        """Labels, sorted, where targets are indicators of labels."""
        return self.targets.labels

    def __add__(self, other: Moments) -> Moments:
        gram = self.gram + other.about(self.shift)
        roundoff, blur = joint_rounding(gram, self, other)
        sample = None if self.sample is None or other.sample is None else self.sample + other.sample
        return Moments(gram, self.targets + other.targets, roundoff, self.shift, blur, sample)

    def with_labels(self, labels: Array) -> Moments:
        """Return the moments with further labels, which no row has."""
        return replace(self, targets=self.targets.with_labels(labels))

    def signed(self) -> Moments:
        """Return the moments of targets +1 for the label of a column and -1 otherwise; two labels have one column."""
        return replace(self, targets=self.targets.signed())

    def transformed(self, matrix: Array) -> Moments:
        """Return the moments of features times a matrix, with a bound on their rounding error.

        The bound is a matrix and is transformed with the features: what one matrix magnifies the next may shrink, so
        that a scalar bound would grow without need.
        """
        gram = matrix.T @ symmetric(self.gram) @ matrix
        size, after = upper_norm(self.gram), upper_norm(gram)
        square = matrix.T @ matrix
        blur = self.roundoff * size * square if self.blur is None else matrix.T @ self.blur @ matrix
        blur[np.diag_indices_from(blur)] += EPS * size * largest_eigenvalue(square)  # of the products above
        roundoff = max(EPS, largest_eigenvalue(blur) / after) if after > 0 else self.roundoff
        shift = None if self.shift is None else matrix.T @ self.shift
        return Moments(gram, self.targets.transformed(matrix), roundoff, shift, blur, self.sample)

    @property
    def rounding(self) -> float:
        """Estimate of the spectral norm of the rounding error of the matrix; smaller penalties would fit that error.

        Rounding errors of different blocks are independent, so the relative error falls with the number of blocks.
        """
        blocks = max(1.0, self.rows / block_rows_for(len(self.gram), np.dtype(np.float32).itemsize))
        return self.roundoff * upper_norm(self.gram) / np.sqrt(blocks)

    def about(self, point: Array | None) -> Array:
        """Return the upper triangle of the second moments about a point; None means zero."""
        if same_point(self.shift, point):
            return self.gram
        to = np.zeros(len(self.gram)) if point is None else point
        return moved_gram(self.gram, self.targets.feature_sum, self.targets.weight, self.shift, to)


def joint_rounding(gram: Array, one: Moments, other: Moments) -> tuple[float, Array | None]:
    """Return the relative rounding error of the sum of two moments, and its bound by directions if one has such."""
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
    """Estimate the largest eigenvalue of a positive semi-definite matrix by power iteration."""
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
    """Return whether two points, None meaning zero, are known to be equal."""
    return a is b or (a is not None and b is not None and np.array_equal(a, b))


#: Given a block, its targets (n, t) in float64, and the labels of their columns if they are indicators of labels.
TargetRule = Callable[[Block], tuple[Array, Array | None]]


def numeric_targets(block: Block) -> tuple[Array, None]:
    """Return the numeric targets of a block."""
    return block.y, None


def label_indicators(block: Block) -> tuple[Array, Array]:
    """Return the indicators of the labels of a block, one per column, and the labels of rows with a positive weight."""
    labels = np.unique(block.y if block.weight is None else block.y[block.weight > 0])
    return (block.y[:, None] == labels).astype(np.float64), labels


def rows_as_targets(block: Block) -> tuple[Array, None]:
    """Return the rows of a block themselves, for a regression from features back to rows."""
    return (block.X.toarray() if sp.issparse(block.X) else block.X).astype(np.float64, copy=False), None


def no_targets(block: Block) -> tuple[Array, None]:
    """Return targets without columns."""
    return np.empty((len(block), 0)), None


class MomentSum(Accumulator[Moments]):
    """Accumulates moments of blocks; the features of a block are computed once, into a buffer that is reused.

    Parameters
    ----------
    features : Features
        The drawn map.
    targets : TargetRule, default=numeric_targets
        Returns the targets of a block.
    double : bool, default=False
        Whether products are computed in float64 also for float32 features. It takes twice the time, and is needed where
        small eigenvalues of the moments matter: beside a penalty far below the largest eigenvalue, products in float32
        are mostly rounding error.
    centered : bool, default=False
        Whether the moments will be taken about the means. Then features whose first rows are far from zero, compared
        with their variation, are shifted by a point near their mean.
    sample : callable, default=None
        Given a block, a `RowSample` of it; None keeps no rows.
    """

    def __init__(
        self,
        features: Features,
        targets: TargetRule = numeric_targets,
        *,
        double: bool = False,
        centered: bool = False,
        sample: Callable[[Block], RowSample] | None = None,
    ) -> None:
        self._casts: dict[Any, Features] = {}
        self._features = features
        self._rule = targets
        self._double = double
        self._undecided = centered
        self._sample_of = sample
        self._gram = GramSum(features.n_components)
        self._shift: Array | None = None
        self._roundoff = EPS
        self._targets: TargetMoments | None = None
        self._sample: RowSample | None = None

    def add(self, block: Block, workers: Workers) -> None:
        dtype = block.X.dtype
        if dtype not in self._casts:
            self._casts[dtype] = self._features.astype(dtype)
        features = self._casts[dtype]
        products = np.dtype(np.float64) if self._double else dtype
        self._roundoff = max(self._roundoff, float(np.finfo(products).eps))
        Z = self._gram.buffer(len(block), products)
        if self._undecided:
            self._shift = far_mean(features_of(features, block.X[:SLICE_ROWS]))
            self._undecided = False
        shift = None if self._shift is None else self._shift.astype(products)
        targets, labels = self._rule(block)

        def compute(start: int) -> TargetMoments:
            rows = slice(start, start + SLICE_ROWS)
            weight = None if block.weight is None else block.weight[rows]
            if products == dtype:
                features(block.X[rows], Z[rows])
            else:
                Z[rows] = features_of(features, block.X[rows])
            if shift is not None:
                Z[rows] -= shift
            part = TargetMoments.of(Z[rows], targets[rows], weight, labels)
            if weight is not None:
                Z[rows] *= np.sqrt(weight).astype(products)[:, None]
            return part

        part = reduce(add, workers.in_order(compute, range(0, len(block), SLICE_ROWS)))
        self._gram.add(Z, workers)
        if self._shift is not None:
            part = replace(part, feature_sum=part.feature_sum + part.weight * self._shift)
        self._targets = part if self._targets is None else self._targets + part
        if self._sample_of is not None:
            sample = self._sample_of(block)
            self._sample = sample if self._sample is None else self._sample + sample

    def result(self) -> Moments:
        assert self._targets is not None
        return Moments(self._gram.result(), self._targets, self._roundoff, self._shift, sample=self._sample)

    def restore(self, state: Moments) -> None:
        self._gram.restore(state.gram)
        self._roundoff, self._shift, self._undecided = state.roundoff, state.shift, False
        self._targets, self._sample = state.targets, state.sample
