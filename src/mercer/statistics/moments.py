"""Second moments of features and targets: the sufficient statistic of least squares.

The second moments of features z with weights w are G(c) = sum of w (z - c)(z - c)' for a reference point c. If the
features have norm r but deviate from their mean by only about s, then with c = 0 the products z z' are about
r^2 / s^2 times larger than the variation of interest, and so is their rounding error. A reference point near the mean
avoids this. Second moments with different reference points can still be added: changing c is a rank-two update of G,
computed in float64 (`moved_gram`).
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
from mercer.features import Features, LinearForm, features_of
from mercer.io import storable
from mercer.linalg.triangular import times_triangle

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
# A mean m of features z is far from zero if |m|^2 > FAR * mean of |z - m|^2.
FAR = 8.0
# Number of matrix rows that are processed at a time: few enough to be still in cache when they are used again.
PANEL_ROWS = 64


def add_products(total: Array, left: Array, right: Array, workers: Workers, *, upper: bool) -> None:
    """Add ``left.T @ right`` to the float64 matrix `total` in place, tile by tile on several threads.

    With `upper`, only the tiles that intersect the upper triangle are computed. Products are computed in the dtype of
    `left` and `right`. Each tile is computed by one thread, and the tiles depend only on the shape of `total`, so the
    result is bitwise the same for any number of threads.
    """
    rows, columns = (panels(width) for width in total.shape)
    if upper:
        # Tiles off the diagonal first: those on the diagonal take less work and balance the threads at the end.
        tiles = [(a, b) for i, a in enumerate(rows) for b in columns[i + 1 :]]
        tiles += list(zip(rows, columns, strict=True))
    else:
        tiles = [(a, b) for a in rows for b in columns]

    def update(tile: tuple[slice, slice]) -> None:
        a, b = tile
        total[a, b] += left[:, a].T @ right[:, b]

    workers.run(update, tiles)


def panels(width: int) -> list[slice]:
    """Divide `width` columns into panels, and return the panels as slices.

    A tile is the product of two panels, which one thread computes.
    """
    step = int(np.clip(-(-width // 8), 64, 512))
    return [slice(i, min(i + step, width)) for i in range(0, width, step)]


class GramSum:
    """Gram matrix Z'Z of features, summed in place over blocks of rows; only its upper triangle is computed.

    The products of a block are computed in the dtype of its features and added in float64, so the relative error does
    not grow with the number of blocks. The result is bitwise the same for any number of threads; see `add_products`.
    """

    def __init__(self, n_components: int) -> None:
        self._width = n_components
        self._gram: Array | None = None  # allocated with the first block, so that an empty sum is small when pickled
        self._buffers: dict[Any, Array] = {}

    def buffer(self, rows: int, dtype: Any) -> Array:
        """Return an uninitialized matrix for the features of a block; its memory is reused for the next block."""
        D = self._width
        buffer = self._buffers.get(dtype)
        if buffer is None or len(buffer) < rows:
            # With spare columns, the stride between rows is not a power of two, which would map rows to few cache sets.
            buffer = self._buffers[dtype] = empty_rows(rows, D + 16, dtype)
        return buffer[:rows, :D]

    def add(self, Z: Array, workers: Workers) -> None:
        """Add Z'Z for the features `Z` of a block, whose rows are already multiplied by the square roots of weights."""
        add_products(self.result(), Z, Z, workers, upper=True)

    def result(self) -> Array:
        """Return the Gram matrix; only its upper triangle is defined. The next `add` modifies it in place."""
        if self._gram is None:
            self._gram = np.zeros((self._width, self._width))
        return self._gram

    def restore(self, gram: Array) -> None:
        """Set the Gram matrix to a copy of `gram`, an earlier `result`, to continue from it."""
        self._gram = np.array(gram)  # a copy: blocks are added in place


def far_mean(Z: Array) -> Array | None:
    """Return the mean m of the rows z of `Z`, or None if m is close to zero compared with the deviations z - m.

    The mean is returned if |m|^2 > FAR * (mean over the rows of |z - m|^2). Otherwise subtracting m would improve the
    accuracy little. m is rounded to float32, so that the same point is subtracted from float32 and float64 features.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        mean = Z.mean(axis=0, dtype=np.float64).astype(np.float32).astype(np.float64)
        spread = float(np.square(Z - mean).sum(axis=1, dtype=np.float64).mean())
        far = float(mean @ mean) > FAR * spread  # False if something overflowed
    return mean if far else None


def point_near(Z: Array) -> Array:
    """Return the mean of the rows of `Z` if it is far from zero (see `far_mean`), and the zero vector otherwise."""
    mean = far_mean(Z)
    return np.zeros(Z.shape[1]) if mean is None else mean


def moved_gram(gram: Array, feature_sum: Array, weight: float, shift: Array | None, to: Array) -> Array:
    """Change the reference point of second moments: return G(to), where G(c) = sum of w (z - c)(z - c)'.

    Parameters
    ----------
    gram : ndarray of shape (D, D)
        G(shift), of which only the upper triangle is used.
    feature_sum : ndarray of shape (D,)
        Sum of w z.
    weight : float
        Sum of w.
    shift : ndarray of shape (D,) or None
        Reference point of `gram`; None means zero.
    to : ndarray of shape (D,)
        New reference point.

    Returns
    -------
    ndarray of shape (D, D)
        G(to); entries below the diagonal are not defined.
    """
    step = -to if shift is None else shift - to
    about = feature_sum if shift is None else feature_sum - weight * shift
    # G(to) = G(shift) + d m' + m d' + W d d' with d = shift - to, m = sum of w (z - shift) and W = sum of w. The last
    # three terms are d a' + a d' with a = m + W d / 2.
    left, right = np.stack([step, about + weight / 2 * step]), np.stack([about + weight / 2 * step, step])
    moved = np.empty_like(gram)
    for i in range(0, len(gram), PANEL_ROWS):  # by panels, since the complete update would need another D x D matrix
        rows, columns = slice(i, i + PANEL_ROWS), slice(i, None)
        np.matmul(left[:, rows].T, right[:, columns], out=moved[rows, columns])
        moved[rows, columns] += gram[rows, columns]
    return moved


class Triangular:
    """Base class of statistics with a symmetric matrix `gram`, of which only the upper triangle is pickled."""

    gram: Array

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "gram": pack_upper(self.gram)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, gram=unpack_upper(state["gram"]))


def pack_upper(matrix: Array) -> Array:
    """Return the D (D + 1) / 2 entries of the upper triangle of a square matrix, row after row."""
    return np.concatenate([row[i:] for i, row in enumerate(matrix)] or [np.zeros(0, matrix.dtype)])


def unpack_upper(packed: Array) -> Array:
    """Return the square matrix that `pack_upper` packed, with zeros below the diagonal."""
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
    unit = float(diagonal.max(initial=0.0))  # no entry is larger, so entries divided by it can be squared
    if unit == 0 or not np.isfinite(unit):
        return unit
    squares = sum(float(np.square(row[i:] / unit).sum()) for i, row in enumerate(upper))
    return unit * float(np.sqrt(2 * squares - np.square(diagonal / unit).sum()))


def symmetric(upper: Array) -> Array:
    """Return the symmetric matrix with a given upper triangle; entries below the diagonal of `upper` are ignored."""
    return np.triu(upper) + np.triu(upper, 1).T


# Number of rows whose features one thread computes at a time: few enough to be still in cache when they are summed.
SLICE_ROWS = 256
EPS = float(np.finfo(np.float64).eps)
# Number of power iterations for an estimate of the largest eigenvalue.
ITERATIONS = 20
# Features Z = C W are summed as C (see `LinearForm`) if `share` is at least SAFE_SHARE. The relative rounding error of
# the second moments of Z is then about EPS / SAFE_SHARE = 2e-9 or less, far below their smallest eigenvalues, which are
# about `share` times the largest one or more. It has to be worth the products with W at the end, so that there are at
# least MANY_ROWS rows per component.
SAFE_SHARE = 1e-7
MANY_ROWS = 4


@storable
@dataclass(frozen=True)
class TargetMoments:
    """First moments of features and targets, and second moments that involve targets.

    Second moments are centered at the means, which limits rounding errors if targets are far from zero. If targets are
    the 0/1 indicators of labels, column j of the targets belongs to ``labels[j]``. Adding moments with different labels
    gives the moments for the union of the labels.
    """

    rows: int
    weight: float  # sum of w
    feature_sum: Array  # (D,), sum of w z
    target_mean: Array  # (t,), weighted
    cross: Array  # (D, t), sum of w (z - mean) (y - mean)'
    target_scatter: Array  # (t,), sum of w (y - mean)^2
    labels: Array | None = None  # (t,), sorted; None if targets are not indicators of labels

    @classmethod
    def of(cls, Z: Array, targets: Array, weight: Array | None = None, labels: Array | None = None) -> Self:
        """Return the moments of rows with features `Z` (n, D) and targets (n, t), in float64.

        The product of features and targets is computed in the dtype of the features.
        """
        w = np.ones(len(Z)) if weight is None else weight
        total = float(w.sum())
        mean = (w @ targets / total) if total > 0 else np.zeros(targets.shape[1])
        centered = targets - mean
        # The centered targets have weighted sum zero, so centering the features would not change the cross moments. One
        # matrix product gives the cross moments and, in its last column, the sum of the features.
        right = np.column_stack([w[:, None] * centered, w])
        size = np.abs(right).max(axis=0, initial=0.0)
        size = np.where(size > 0, size, 1.0)  # scaled to at most 1, columns of any size fit into float32
        product = (Z.T @ (right / size).astype(Z.dtype, copy=False)) * size
        with np.errstate(over="ignore"):  # solvers that need the squares check that they are finite
            scatter = w @ np.square(centered)
        return cls(len(Z), total, product[:, -1], mean, product[:, :-1], scatter, labels)

    def __add__(self, other: TargetMoments) -> TargetMoments:
        one, two = self, other
        if self.labels is not None and other.labels is not None:
            one, two = self.with_labels(other.labels), other.with_labels(self.labels)
        weight = one.weight + two.weight
        # Chan, Golub, LeVeque (1979): centered moments are added with a rank-one correction for the new means.
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
        """Return the moments for features ``Z @ matrix`` instead of ``Z``."""
        return replace(self, feature_sum=matrix.T @ self.feature_sum, cross=matrix.T @ self.cross)

    def with_labels(self, labels: Array) -> TargetMoments:
        """Return the moments for the union of the present labels and `labels`. No row has one of the new labels."""
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
        """Return the moments for targets +1 and -1 instead of the 0/1 indicators of labels.

        Column j is +1 for rows with label j and -1 for all other rows. With two labels, only the column of the second
        label is returned.
        """
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
    """Second moments of features, moments of targets, and optionally a sample of rows.

    The second moments of features z with weights w are sum of w (z - c)(z - c)' for a reference point c, which is zero,
    or near the mean of the features if that is far from zero. Only the upper triangle of this matrix is defined.

    Parameters
    ----------
    gram : ndarray of shape (D, D)
        Sum of w (z - shift)(z - shift)', upper triangle.
    targets : TargetMoments
        Moments that involve targets, and the sums of weights and features.
    roundoff : float
        Relative rounding error of `gram`: its rounding error E has a norm of about ``roundoff * norm(gram)``. If `gram`
        was not transformed, this is the machine epsilon of the dtype in which products were computed.
    shift : ndarray of shape (D,) or None
        The reference point c; None means zero.
    blur : ndarray of shape (D, D) or None
        Positive semi-definite matrix B that bounds the rounding error E of `gram` by direction: ``|v'Ev|`` is at most
        about v'Bv for all v. It is set by `transformed`. None means B = ``roundoff * norm(gram)`` times the identity.
    sample : RowSample, DistinctRows or None
        Random sample of the rows, or None if no sample was requested.
    """

    gram: Array
    targets: TargetMoments
    roundoff: float = EPS
    shift: Array | None = None
    blur: Array | None = None
    sample: Any = None

    @property
    def rows(self) -> int:
        return self.targets.rows

    @property
    def labels(self) -> Array | None:
        """Sorted labels of the columns of the targets, or None if targets are not indicators of labels."""
        return self.targets.labels

    def __add__(self, other: Moments) -> Moments:
        gram = self.gram + other.about(self.shift)
        roundoff, blur = joint_rounding(gram, self, other)
        sample = None if self.sample is None or other.sample is None else self.sample + other.sample
        return Moments(gram, self.targets + other.targets, roundoff, self.shift, blur, sample)

    def with_labels(self, labels: Array) -> Moments:
        """Return the moments for the union of the present labels and `labels`. No row has one of the new labels."""
        return replace(self, targets=self.targets.with_labels(labels))

    def signed(self) -> Moments:
        """Return the moments for targets +1 and -1 instead of the 0/1 indicators of labels.

        Column j is +1 for rows with label j and -1 for all other rows. With two labels, only the column of the second
        label is returned.
        """
        return replace(self, targets=self.targets.signed())

    def transformed(self, matrix: Array) -> Moments:
        """Return the moments for features ``Z @ matrix`` instead of ``Z``.

        The bound `blur` on the rounding error is transformed like the second moments, ``matrix.T @ blur @ matrix``. A
        scalar bound would grow with every transformation, although one matrix may shrink the directions that another
        has magnified.
        """
        gram = matrix.T @ symmetric(self.gram) @ matrix
        size, after = upper_norm(self.gram), upper_norm(gram)
        square = matrix.T @ matrix
        blur = self.roundoff * size * square if self.blur is None else matrix.T @ self.blur @ matrix
        blur[np.diag_indices_from(blur)] += EPS * size * largest_eigenvalue(square)  # rounding of `gram` above
        roundoff = max(EPS, largest_eigenvalue(blur) / after) if after > 0 else self.roundoff
        shift = None if self.shift is None else matrix.T @ self.shift
        return Moments(gram, self.targets.transformed(matrix), roundoff, shift, blur, self.sample)

    def whitened(self, form: LinearForm) -> Moments:
        """Return the moments for features C W, given those of C.

        This is `transformed` in less time, with a bound on the rounding error that is the same for all directions. It
        suits a single transformation by a well-conditioned matrix.
        """
        matrix, D = form.matrix, form.matrix.shape[1]
        half, product = np.empty((len(matrix), D)), np.empty((D, D))
        multiply = times_triangle if form.triangular else np.matmul
        multiply(symmetric(self.gram), matrix, half)
        multiply(half.T, matrix, product)
        size, after = upper_norm(self.gram), upper_norm(product)
        largest = largest_square(matrix)
        roundoff = max(EPS, self.roundoff * largest * size / after) if after > 0 else self.roundoff
        shift = None if self.shift is None else matrix.T @ self.shift
        return Moments(product, self.targets.transformed(matrix), roundoff, shift, sample=self.sample)

    @property
    def rounding(self) -> float:
        """Estimate of the spectral norm of the rounding error of `gram`.

        With a ridge penalty below this value, a fit would fit the rounding error.

        Rounding errors of different blocks are treated as independent, so the relative error decreases as
        1 / sqrt(number of blocks).
        """
        blocks = max(1.0, self.rows / block_rows_for(len(self.gram), np.dtype(np.float32).itemsize))
        return self.roundoff * upper_norm(self.gram) / np.sqrt(blocks)

    def about(self, point: Array | None) -> Array:
        """Return the upper triangle of the sum of w (z - point)(z - point)'. If `point` is None, it is zero."""
        if same_point(self.shift, point):
            return self.gram
        to = np.zeros(len(self.gram)) if point is None else point
        return moved_gram(self.gram, self.targets.feature_sum, self.targets.weight, self.shift, to)


def joint_rounding(gram: Array, one: Moments, other: Moments) -> tuple[float, Array | None]:
    """Return `roundoff` and `blur` of the sum of two `Moments`, whose second moments are `gram`.

    Both are fields of `Moments`, which describes them. The returned `blur` is None if it is None in both moments.
    """
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
    return power_iteration(lambda v: matrix @ v, vector)


def largest_square(matrix: Array) -> float:
    """Estimate the largest squared singular value of a matrix by power iteration."""
    return power_iteration(lambda v: matrix.T @ (matrix @ v), np.sqrt(np.square(matrix).sum(axis=0)))


def power_iteration(product: Callable[[Array], Array], vector: Array) -> float:
    """Estimate the largest eigenvalue of a positive semi-definite matrix, given its products and a first vector."""
    vector = vector + vector.max(initial=0.0) * np.random.default_rng(0).random(len(vector))
    value = 0.0
    for _ in range(ITERATIONS):
        length = float(np.linalg.norm(vector))
        if length == 0 or not np.isfinite(length):
            return length
        vector = product(vector / length)
        value = float(np.linalg.norm(vector))
    return value


def same_point(a: Array | None, b: Array | None) -> bool:
    """Return whether two reference points are both None, which means zero, or are equal arrays."""
    return a is b or (a is not None and b is not None and np.array_equal(a, b))


#: Function of a block of rows that returns targets of shape (n, t) in float64, and the labels of their t columns, or
#: None if the targets are not indicators of labels.
TargetRule = Callable[[Block], tuple[Array, Array | None]]


def numeric_targets(block: Block) -> tuple[Array, None]:
    """Return ``(y, None)`` for a block with numeric targets y; None means that they are not indicators of labels."""
    return block.y, None


def label_indicators(block: Block) -> tuple[Array, Array]:
    """Return the 0/1 indicators of the labels of a block, and the labels of their columns.

    There is one column for each label of a row with positive weight.
    """
    labels = np.unique(block.y if block.weight is None else block.y[block.weight > 0])
    return (block.y[:, None] == labels).astype(np.float64), labels


def rows_as_targets(block: Block) -> tuple[Array, None]:
    """Return ``(X, None)``: the rows of a block as its targets, for a regression from features to rows."""
    return (block.X.toarray() if sp.issparse(block.X) else block.X).astype(np.float64, copy=False), None


def no_targets(block: Block) -> tuple[Array, None]:
    """Return ``(y, None)`` with empty targets y of shape (n, 0), for moments of features alone."""
    return np.empty((len(block), 0)), None


class MomentSum(Accumulator[Moments]):
    """Accumulator that sums `Moments` over blocks. It computes the features of each block once, in a reused buffer.

    Parameters
    ----------
    features : Features
        Sampled features, which map rows to components.
    targets : TargetRule, default=numeric_targets
        Function of a block that returns its targets.
    double : bool, default=False
        Whether products are computed in float64 also for float32 features. This takes twice the time. It is needed if
        small eigenvalues of the moments matter, as with a penalty far below the largest eigenvalue: in float32, these
        eigenvalues are mostly rounding error.
    centered : bool, default=False
        Whether the moments will be centered at the means later. If so, the reference point of the second moments is the
        mean of the features of the first rows, provided that it is far from zero (see `far_mean`).
    sample : callable, default=None
        Function of a block that returns a `RowSample` or `DistinctRows` of its rows; None means that no rows are
        sampled.
    n_rows : int or None, default=0
        Number of rows that will be added; None means that it is not known. If there are many, moments of the linear
        form of the features are summed, which takes less time, and `finish` returns those of the features.
    """

    def __init__(
        self,
        features: Features,
        targets: TargetRule = numeric_targets,
        *,
        double: bool = False,
        centered: bool = False,
        sample: Callable[[Block], Any] | None = None,
        n_rows: int | None = 0,
    ) -> None:
        form = features.linear_form
        many = n_rows is None or n_rows >= MANY_ROWS * features.n_components
        if form is not None and (not many or form.share < SAFE_SHARE or form.matrix.shape[0] > form.matrix.shape[1]):
            form = None
        self._form = form
        features = features if form is None else form.inner
        self._casts: dict[Any, Features] = {}
        self._features = features
        self._rule = targets
        self._double = double or form is not None
        self._undecided = centered
        self._sample_of = sample
        self._gram = GramSum(features.n_components)
        self._shift: Array | None = None
        self._roundoff = EPS
        self._targets: TargetMoments | None = None
        self._sample: Any = None

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
            if products == dtype or self._form is not None:
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

    def finish(self, total: Moments) -> Moments:
        """Return the moments of the features, given the sum over all rows."""
        return total if self._form is None else total.whitened(self._form)

    def restore(self, state: Moments) -> None:
        self._gram.restore(state.gram)
        self._roundoff, self._shift, self._undecided = state.roundoff, state.shift, False
        self._targets, self._sample = state.targets, state.sample
