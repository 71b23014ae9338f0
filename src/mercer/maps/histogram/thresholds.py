"""Threshold features: indicators of values above thresholds, whose inner products are minima."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp

from mercer.errors import DataError, ParameterError, UnsupportedKernelError
from mercer.features import Features
from mercer.kernels import Intersection, Kernel
from mercer.kernels.base import dense64
from mercer.kernels.histogram import ThresholdKernel, canonical, check_non_negative
from mercer.maps.base import DrawnMap
from mercer.maps.histogram.coordinates import Index, weighted_sum
from mercer.parameters import Choice, Domain
from mercer.theory.thresholds import indicator_variance, jittered_variance

__all__ = ["Indicators", "ThresholdColumns", "ThresholdFeatures"]

Array = np.ndarray
THRESHOLDS = ("jittered", "random", "stratified")
# Largest values are learned from all rows, however many: one that was left out would be beyond the thresholds.
ALL_ROWS = 2**62


class ThresholdFeatures(DrawnMap):
    r"""Threshold features for kernels of minima: `Intersection`, `Min`, and sums of them and constants.

    Maps x to indicators of :math:`t_j \le x_{i_j}`, scaled by the root of the length that a threshold stands for,
    because

    .. math:: \min(x, y) = \int_0^T 1\{t \le x\}\,1\{t \le y\}\,dt, \qquad 0 \le x, y \le T.

    Parameters
    ----------
    kernel : Kernel, default=None
        Kernel to approximate; None means ``Intersection()``. The product kernel `Min` of several columns takes
        indicators of boxes, with a threshold in every column: its variance grows with the volume of the box.
    n_components : int, default=512
        Width of the output, from 1 up. ``1 + kernel`` takes one exact column for the constant, if there are two.
    thresholds : {"jittered", "random", "stratified"}, default="jittered"
        One threshold drawn in each of equal strata; independent thresholds; or the mid-points of strata, which are
        not drawn at all. See Notes.
    upper : float or sequence of float, default=None
        The end T of the thresholds, for all columns or for each; None takes the largest value that `fit` sees in
        each column, and looks at all rows for it. Histograms of sum one need no more than 1.0. `transform` refuses
        values above it: their features would all be alike.
    random_state : int, Generator, RandomState or None, default=None
        Seed; an int makes repeated fits identical.
    n_jobs : int or None, default=None
        Threads of `transform`; None means all cores. The result does not depend on it.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel.
    features_ : ThresholdColumns
        The drawn map: a pure function of rows.
    upper_ : ndarray of shape (n_features_in_,)
        The end T of the thresholds of each column.
    error_bound_ : float or None
        For "stratified": no approximate kernel value is off by more than this.
    signs_ : None
        The approximate kernel is positive semi-definite.
    n_features_in_ : int
        Width of the rows seen in `fit`.

    Notes
    -----
    The intervals of all columns, one after another, make a line of length M, the sum of the :math:`T_i`; for `Min`, it
    is the volume of the box. With D columns of features:

    - "random": the variance is :math:`(M k - k^2) / D`.
    - "jittered": strata of length h = M / D. Only those that are partly below min(x, y) have a variance,
      :math:`h^2 p (1 - p)` if a part p is: for one column of X at most :math:`h^2 / 4` in all. Unbiased for any D.
    - "stratified": each column of X gets :math:`D_i \ge 1` mid-points, shared out to make the sure bound
      :math:`\sum_i T_i / (2 D_i)` least. Not unbiased, but never off by more; needs as many features as columns.

    Time O(n D) for dense rows; for sparse ones in proportion to their entries, except for `Min` of several columns.

    References
    ----------
    .. [1] Maji, Berg (2009), Max-margin additive classifiers for detection, ICCV.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Intersection, Min, ThresholdFeatures
    >>> X = np.random.default_rng(0).dirichlet(np.ones(8), size=100)
    >>> feature_map = ThresholdFeatures(Intersection(), n_components=1024, upper=1.0, random_state=0).fit(X)
    >>> bool(abs(feature_map.gram(X) - Intersection()(X)).max() < 0.05)
    True
    >>> splines = ThresholdFeatures(1 + Min(), n_components=101, thresholds="stratified", upper=2.0).fit([[0.0]])
    >>> splines.error_bound_
    0.01
    >>> splines.gram([[1.5]], [[1.75]]).round(2)
    array([[2.5]])
    """

    needs: ClassVar[str] = "a kernel of minima, Intersection() or Min(), or a sum of such and constants"
    default_kernel: ClassVar[Kernel] = Intersection()
    parameter_domains: ClassVar[Mapping[str, Domain]] = {"thresholds": Choice(*THRESHOLDS)}
    features_: ThresholdColumns
    upper_: Array
    error_bound_: float | None
    thresholds_: str

    def __init__(
        self,
        kernel: Kernel | None = None,
        n_components: int = 512,
        *,
        thresholds: Literal["jittered", "random", "stratified"] = "jittered",
        upper: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.thresholds = thresholds
        self.upper = upper
        self.random_state = random_state
        self.n_jobs = n_jobs

    @classmethod
    def accepts(cls, kernel: Kernel) -> bool:
        return weighted_sum(kernel, ThresholdKernel) is not None

    @property
    def unbiased(self) -> bool | str:
        if getattr(self, "thresholds_", self.thresholds) == "stratified":
            bound = getattr(self, "error_bound_", None)
            return "mid-points are not drawn: the error is the same in every fit, and at most " + (
                "error_bound_" if bound is None else f"{bound:.3g}"
            )
        return True

    def _rows_to_draw(self) -> int:
        return ALL_ROWS if self.upper is None else 1

    def _draw(self, kernel: Kernel, X: Any, weight: Array | None, rng: np.random.Generator) -> ThresholdColumns:  # noqa: ARG002
        upper = largest_values(X) if self.upper is None else given_upper(self.upper, X.shape[1])
        constant, boxes = split_constant(kernel, upper, self.n_components)
        width = self.n_components - (constant > 0)
        bound = None
        if not boxes:  # all rows are zero, and so are their features
            groups = [Indicators.always(0.0, width)]
        elif self.thresholds == "stratified":
            counts = self._share_out(boxes, width)
            groups = mid_points(boxes, counts, upper)
            bound = float(sum(box.mass / (2 * n) for box, n in zip(boxes, counts, strict=True)))
        else:
            strata = np.arange(width) if self.thresholds == "jittered" else 0
            line = np.sort((strata + rng.random(width)) / (width if self.thresholds == "jittered" else 1))
            groups = at_random(boxes, line, upper, rng)
        if constant:
            groups = [Indicators.always(np.sqrt(constant), 1), *groups]
        self.upper_, self.error_bound_, self.thresholds_ = upper, bound, self.thresholds
        return ThresholdColumns(upper, tuple(groups))

    def _share_out(self, boxes: list[Box], width: int) -> list[int]:
        """Return how many mid-points each box gets, at least one, to make the bound of the error least."""
        if any(len(box.columns) > 1 for box in boxes):
            msg = (
                f"thresholds='stratified' cannot approximate {self.kernel!r}.\n"
                "  needs: minima of single columns\n"
                "  got:   products of minima over several columns\n"
                "  try:   thresholds='jittered'"
            )
            raise UnsupportedKernelError(msg)
        if width < len(boxes):
            msg = (
                f"ThresholdFeatures: thresholds='stratified' needs a feature for each of {len(boxes)} columns that are "
                f"not all zero, got n_components={self.n_components}. Try thresholds='jittered': unbiased at any width."
            )
            raise ParameterError(msg)
        counts = [1] * len(boxes)
        gains = [(-box.mass / 2, b) for b, box in enumerate(boxes)]  # what one more would take off the bound
        heapq.heapify(gains)
        for _ in range(width - len(boxes)):
            b = gains[0][1]
            counts[b] += 1
            heapq.heapreplace(gains, (-boxes[b].mass / (counts[b] * (counts[b] + 1)), b))
        return counts

    def _variance(self, X: Any, Y: Any) -> Array:
        X = dense64(X)
        Y = X if Y is None else dense64(Y)
        for rows in (X, Y):
            check_upper(rows, self.upper_)
        constant, boxes = split_constant(self.kernel_, self.upper_, self.features_.n_components)
        width = self.features_.n_components - (constant > 0)
        shape = len(X), len(Y)
        if self.thresholds_ == "stratified" or not boxes:
            return np.zeros(shape)
        if self.thresholds_ == "random":
            k = self.kernel_(X, Y) - constant
            return np.maximum(indicator_variance(k, sum(box.mass for box in boxes)), 0.0) / width

        def covered(i: int) -> Array:
            return np.minimum(np.minimum.outer(X[:, i], Y[:, i]) / self.upper_[i], 1.0)

        segments = []
        for box in boxes:
            # The place on the line is the threshold in the first column; those in others are drawn apart.
            first = covered(box.columns[0]) if box.columns else np.ones(shape)
            others = np.ones(shape)
            for i in box.columns[1:]:
                others *= covered(i)
            segments.append((box.mass, first, others))
        return jittered_variance(segments, width)


@dataclass(frozen=True)
class Box:
    """A product of minima over some columns: none for a constant."""

    columns: tuple[int, ...]
    mass: float  # its largest value


def split_constant(kernel: Kernel, upper: Array, n_components: int) -> tuple[float, list[Box]]:
    """Return the constant that has an exact column, and the boxes that thresholds are put in, in order.

    A single column has no room for an exact constant: there it is drawn like any other box.
    """
    parts = weighted_sum(kernel, ThresholdKernel)
    assert parts is not None
    constant, leaves = parts
    weights: dict[tuple[int, ...], float] = {(): constant}
    for weight, leaf in leaves:
        for columns in leaf.boxes(len(upper)):
            weights[columns] = weights.get(columns, 0.0) + weight
    with np.errstate(over="ignore"):
        boxes = [Box(columns, float(weight * upper[list(columns)].prod())) for columns, weight in weights.items()]
    if not np.isfinite(sum(box.mass for box in boxes)):
        msg = f"ThresholdFeatures: {kernel!r} overflows at values up to {upper.max():.3g}. Scale the rows down."
        raise DataError(msg)
    others = [box for box in boxes[1:] if box.mass > 0]
    if n_components > 1 or not others or not constant:
        return constant, others
    return 0.0, [boxes[0], *others]


def mid_points(boxes: list[Box], counts: list[int], upper: Array) -> list[Indicators]:
    """Return `counts` evenly spaced thresholds in each box of one column."""
    columns = np.repeat(np.array([box.columns[0] for box in boxes], dtype=int), counts)
    fractions = np.concatenate([(np.arange(n) + 0.5) / n for n in counts])
    masses = np.repeat([box.mass / n for box, n in zip(boxes, counts, strict=True)], counts)
    return [Indicators(columns[:, None], (fractions * upper[columns])[:, None], np.sqrt(masses), len(upper))]


def at_random(boxes: list[Box], line: Array, upper: Array, rng: np.random.Generator) -> list[Indicators]:
    """Return thresholds for places on a line of length one, ascending, on which boxes lie in proportion to their mass.

    Columns that look at equally many columns of the rows come as one group.
    """
    edges = np.cumsum([box.mass for box in boxes])
    total = edges[-1]
    owner = np.minimum(np.searchsorted(edges, line * total, side="right"), len(boxes) - 1)
    masses = np.array([box.mass for box in boxes])
    fractions = np.clip((line * total - (edges - masses)[owner]) / masses[owner], 0.0, 1.0)
    groups = []
    sizes = np.array([len(box.columns) for box in boxes])[owner]
    for size in np.unique(sizes):
        mine = np.flatnonzero(sizes == size)
        columns = np.array([boxes[b].columns for b in owner[mine]], dtype=int).reshape(len(mine), size)
        places = rng.random((len(mine), size))
        places[:, :1] = fractions[mine, None][:, :size]
        groups.append(
            Indicators(columns, places * upper[columns], np.full(len(mine), np.sqrt(total / len(line))), len(upper))
        )
    return groups


@dataclass(frozen=True, eq=False)
class Indicators:
    """Columns that are `amplitudes` where all their thresholds are reached, and zero elsewhere."""

    columns: Array  # (m, size): which columns of the rows are looked at
    levels: Array  # (m, size): the thresholds there
    amplitudes: Array  # (m,)
    d: int

    @classmethod
    def always(cls, amplitude: float, m: int) -> Self:
        """Return columns that look at nothing."""
        return cls(np.zeros((m, 0), dtype=int), np.zeros((m, 0)), np.full(m, amplitude), 0)

    @cached_property
    def index(self) -> Index:
        return Index(self.columns[:, 0], self.d)

    def astype(self, dtype: Any) -> Self:
        """Return the same for rows of another dtype."""
        # Above zero in every dtype: a value of zero reaches no threshold.
        with np.errstate(over="ignore"):
            levels = np.maximum(self.levels.astype(dtype), np.finfo(dtype).smallest_subnormal)
            amplitudes = self.amplitudes.astype(dtype)
        if not np.isfinite(amplitudes).all():
            msg = f"ThresholdFeatures: features up to {self.amplitudes.max():.3g} overflow {dtype}. Pass float64."
            raise DataError(msg)
        return replace(self, levels=levels, amplitudes=amplitudes)

    def write(self, X: Any, out: Array) -> None:
        """Write the columns of some rows."""
        size = self.columns.shape[1]
        if sp.issparse(X) and size == 1:
            out[:] = 0.0
            rows, features, values = self.index.entries(X)
            hit = values >= self.levels[features, 0]
            out[rows[hit], features[hit]] = self.amplitudes[features[hit]]
            return
        X = X.toarray() if sp.issparse(X) and size else X
        reached = np.ones(out.shape, dtype=bool)
        for c in range(size):
            reached &= np.take(X, self.columns[:, c], axis=1) >= self.levels[:, c]
        np.multiply(reached, self.amplitudes, out=out)


@dataclass(frozen=True, eq=False)
class ThresholdColumns(Features):
    """Drawn threshold features: immutable, picklable, free of scikit-learn."""

    upper: Array  # (d,)
    groups: tuple[Indicators, ...]

    @property
    def n_components(self) -> int:
        """Return the number of columns."""
        return sum(len(group.amplitudes) for group in self.groups)

    def astype(self, dtype: Any) -> Self:
        """Return the same draw for rows of another dtype."""
        if dtype == self.groups[0].amplitudes.dtype:
            return self
        return replace(self, groups=tuple(group.astype(dtype) for group in self.groups))

    def __call__(self, X: Any, out: Array) -> None:
        """Write the features of the rows of `X` into `out`."""
        check_upper(X, self.upper)
        start = 0
        for group in self.groups:
            stop = start + len(group.amplitudes)
            group.write(X, out[:, start:stop])
            start = stop


def largest_values(X: Any) -> Array:
    """Return the largest value of each column."""
    largest = column_maxima(X)
    if X.dtype == np.float32:
        # The same rows in float64 may lie above what they were rounded to.
        largest = np.where(largest > 0, np.nextafter(largest, np.float32(np.inf)), largest)
    return largest.astype(np.float64)


def column_maxima(X: Any) -> Array:
    """Return the largest value of each column, at least zero, in the dtype of the rows."""
    X = canonical(X)
    largest = X.max(axis=0).toarray().ravel() if sp.issparse(X) else X.max(axis=0)
    return np.maximum(largest, 0)


def given_upper(upper: Any, d: int) -> Array:
    """Return the end of the thresholds of each of d columns; otherwise explain."""
    try:
        values = np.asarray(upper, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.zeros(0)
    if isinstance(upper, bool) or values.shape not in ((), (d,)) or not (np.isfinite(values) & (values > 0)).all():
        msg = (
            f"ThresholdFeatures: upper must be None, a finite number > 0, or {d} of them, one a column, got {upper!r}."
        )
        raise ParameterError(msg)
    return np.broadcast_to(values, d).copy()


def check_upper(X: Any, upper: Array) -> None:
    """Raise if a value is negative or beyond its thresholds."""
    if not X.shape[0]:
        return
    check_non_negative("ThresholdFeatures", X)
    largest = column_maxima(X)
    # In the dtype of the rows: rounding keeps the order, so what was within stays within.
    with np.errstate(over="ignore"):
        beyond = np.flatnonzero(largest > upper.astype(X.dtype))
    if len(beyond):
        j = beyond[0]
        msg = (
            f"ThresholdFeatures: values of column {j} must be at most {upper[j]:.6g}, where its thresholds end, got "
            f"{largest[j]:.6g}; larger ones would all look alike. Give upper={largest.max():.6g} or more, clip the "
            "rows, or fit on rows that reach as far."
        )
        raise DataError(msg)
