"""Threshold features for kernels of minima: the map `ThresholdFeatures`.

A product of minima over some features i is the volume of the thresholds t with t_i <= x_i and t_i <= y_i. These lie in
the box of all t with 0 <= t_i <= T_i, where T_i is the largest value of feature i. `Intersection` has one box per
feature of X, and `Min` has one box for all features. This module places the thresholds in the boxes. The module
`indicators` evaluates the features.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from mercer._docs import doc
from mercer.errors import DataError, ParameterError, UnsupportedKernelError
from mercer.kernels import Intersection, Kernel
from mercer.kernels.base import dense64
from mercer.kernels.histogram import ThresholdKernel
from mercer.maps.base import DrawnMap
from mercer.maps.histogram.indicators import IndicatorFeatures, Indicators, check_upper, column_maxima
from mercer.maps.summands import weighted_sum
from mercer.parameters import Choice, Domain
from mercer.theory.thresholds import indicator_variance, jittered_variance

__all__ = ["ThresholdFeatures"]

Array = np.ndarray
THRESHOLDS = ("jittered", "random", "stratified")
# Number of rows that means all rows. The maximum over a sample is not enough: `transform` raises for larger values.
ALL_ROWS = 2**62


@doc
class ThresholdFeatures(DrawnMap):
    r"""Threshold features for kernels of minima: `Intersection`, `Min`, and sums of these and constants.

    A row x is mapped to indicators of :math:`t_j \le x_{i_j}` for thresholds :math:`t_j`, because

    .. math:: \min(x, y) = \int_0^T 1\{t \le x\}\,1\{t \le y\}\,dt, \qquad 0 \le x, y \le T.

    Each indicator is scaled by the square root of the length of the interval that its threshold represents. With the
    mid-points of equal intervals this is the unary encoding of quantized values of [1]_.

    Parameters
    ----------
    kernel : Kernel, default=None
        Kernel to approximate; None means ``Intersection()``. For the product kernel `Min` of several features, an
        indicator has a threshold for every feature, and the variance grows with the product of the T of all features.
    n_components : int, default=512
        Number of components of the map, at least 1. ``1 + kernel`` takes one exact component for the constant if
        `n_components` is at least 2.
    thresholds : {"jittered", "random", "stratified"}, default="jittered"
        "jittered": one random threshold in each of several intervals of equal length, called strata. "random":
        independent thresholds. "stratified": the mid-points of intervals, which are not random. See Notes.
    upper : float or sequence of float, default=None
        The upper end T of the thresholds: one number for all features, or one per feature. None means the largest value
        of each feature over all rows of `fit`. For histograms that sum to one, 1.0 is enough. `transform` raises for
        values above T, which the features could not distinguish.
    %(random_state)s
    %(n_jobs)s

    Attributes
    ----------
    upper_ : ndarray of shape (n_features,)
        The upper end T of the thresholds of each feature.
    error_bound_ : float or None
        For "stratified", a bound of the absolute error of every approximate kernel value; otherwise None.
    features_ : IndicatorFeatures
        The sampled features: a function from rows to features.
    %(kernel_)s
    %(signs_none)s
    %(n_features_in_)s

    See Also
    --------
    HomogeneousFeatures : Approximates homogeneous kernels such as `Chi2`, and also `Intersection`.

    Notes
    -----
    The intervals :math:`[0, T_i]` of all features, one after another, form a line of length M; for `Min`, M is the
    product of all :math:`T_i`. With D components for the kernel k:

    - "random": the variance is :math:`(M k - k^2) / D`.
    - "jittered": the line is divided into strata of length h = M / D. A stratum of which the fraction p is below
      min(x, y) adds :math:`h^2 p (1 - p)` to the variance, which is zero for p = 0 and p = 1. The variance for a single
      feature is at most :math:`h^2 / 4`. Unbiased for any D.
    - "stratified": feature i has :math:`D_i \ge 1` mid-points, whose numbers minimize the bound
      :math:`\sum_i T_i / (2 D_i)` of the absolute error. Biased; needs at least one component for each feature.

    `transform` takes O(n D) operations for dense rows. For sparse rows the cost is proportional to the number of
    nonzero entries, except for `Min` of several features.

    References
    ----------
    .. [1] Maji, Berg (2009), Max-margin Additive Classifiers for Detection, ICCV.

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
    features_: IndicatorFeatures
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
            return "mid-points are not random: the error is the same in every fit, and at most " + (
                "error_bound_" if bound is None else f"{bound:.3g}"
            )
        return True

    def _rows_to_draw(self) -> int:
        return ALL_ROWS if self.upper is None else 1

    def _draw(self, kernel: Kernel, X: Any, weight: Array | None, rng: np.random.Generator) -> IndicatorFeatures:  # noqa: ARG002
        upper = largest_values(X) if self.upper is None else given_upper(self.upper, X.shape[1])
        constant, boxes = split_constant(kernel, upper, self.n_components)
        width = self.n_components - (constant > 0)
        bound = None
        if not boxes:  # all values are zero, and so is the kernel
            groups = [Indicators.always(0.0, width)]
        elif self.thresholds == "stratified":
            counts = self._count_mid_points(boxes, width)
            groups = mid_points(boxes, counts, upper)
            bound = float(sum(box.mass / (2 * n) for box, n in zip(boxes, counts, strict=True)))
        else:
            strata = np.arange(width) if self.thresholds == "jittered" else 0
            line = np.sort((strata + rng.random(width)) / (width if self.thresholds == "jittered" else 1))
            groups = at_random(boxes, line, upper, rng)
        if constant:
            groups = [Indicators.always(np.sqrt(constant), 1), *groups]
        self.upper_, self.error_bound_, self.thresholds_ = upper, bound, self.thresholds
        return IndicatorFeatures(upper, tuple(groups))

    def _count_mid_points(self, boxes: list[Box], width: int) -> list[int]:
        """Return numbers n_b >= 1 of mid-points for the boxes b (terms of the kernel), with the sum `width`.

        They minimize the error bound sum_b mass_b / (2 n_b). Raise if a box has several features, or if `width` is less
        than the number of boxes.
        """
        if any(len(box.coordinates) > 1 for box in boxes):
            msg = (
                f"thresholds='stratified' cannot approximate {self.kernel!r}.\n"
                "  needs: minima of single features\n"
                "  got:   products of minima over several features\n"
                "  try:   thresholds='jittered'"
            )
            raise UnsupportedKernelError(msg)
        if width < len(boxes):
            msg = (
                f"ThresholdFeatures: thresholds='stratified' needs a component for each of the {len(boxes)} features "
                f"that are not all zero, got n_components={self.n_components}. Try thresholds='jittered', which takes "
                "any number."
            )
            raise ParameterError(msg)
        counts = [1] * len(boxes)
        gains = [(-box.mass / 2, b) for b, box in enumerate(boxes)]  # minus the gain of one more mid-point
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
            # The position within a segment determines the threshold of the first feature; the others are independent.
            first = covered(box.coordinates[0]) if box.coordinates else np.ones(shape)
            others = np.ones(shape)
            for i in box.coordinates[1:]:
                others *= covered(i)
            segments.append((box.mass, first, others))
        return jittered_variance(segments, width)


@dataclass(frozen=True)
class Box:
    """Term w * prod_i min(x_i, y_i) of a kernel, where i runs over the features of X in `coordinates`.

    If `coordinates` is empty, the term is the constant w. The thresholds for the term lie in the box of all t with
    0 <= t_i <= T_i, where T_i is the largest value of feature i.
    """

    coordinates: tuple[int, ...]
    mass: float  # largest value of the term: w times the volume prod_i T_i of the box


def split_constant(kernel: Kernel, upper: Array, n_components: int) -> tuple[float, list[Box]]:
    """Split a kernel into a constant, which gets an exact component, and terms (see `Box`), which get thresholds.

    Terms of mass zero are omitted. If `n_components` is 1, there is no exact component: the constant returned is 0, and
    the constant of the kernel is the first term. If it is the only nonzero term, it keeps the exact component.
    """
    parts = weighted_sum(kernel, ThresholdKernel)
    assert parts is not None
    constant, leaves = parts
    weights: dict[tuple[int, ...], float] = {(): constant}
    for weight, leaf in leaves:
        for coordinates in leaf.boxes(len(upper)):
            weights[coordinates] = weights.get(coordinates, 0.0) + weight
    with np.errstate(over="ignore"):
        boxes = [Box(box, float(weight * upper[list(box)].prod())) for box, weight in weights.items()]
    if not np.isfinite(sum(box.mass for box in boxes)):
        msg = f"ThresholdFeatures: {kernel!r} overflows at values up to {upper.max():.3g}. Scale the rows down."
        raise DataError(msg)
    others = [box for box in boxes[1:] if box.mass > 0]
    if n_components > 1 or not others or not constant:
        return constant, others
    return 0.0, [boxes[0], *others]


def mid_points(boxes: list[Box], counts: list[int], upper: Array) -> list[Indicators]:
    """Return indicators with counts[b] thresholds for box b, which has a single feature i.

    The thresholds are the mid-points of counts[b] equal intervals, which divide the interval from 0 to upper[i].
    """
    coordinates = np.repeat(np.array([box.coordinates[0] for box in boxes], dtype=int), counts)
    fractions = np.concatenate([(np.arange(n) + 0.5) / n for n in counts])
    masses = np.repeat([box.mass / n for box, n in zip(boxes, counts, strict=True)], counts)
    levels = (fractions * upper[coordinates])[:, None]
    return [Indicators(coordinates[:, None], levels, np.sqrt(masses), len(upper))]


def at_random(boxes: list[Box], line: Array, upper: Array, rng: np.random.Generator) -> list[Indicators]:
    """Return indicators with random thresholds, one for each number in `line`.

    The interval [0, 1] is divided among the boxes in proportion to their masses. Each number in `line` selects the box
    whose subinterval contains it. Its relative position in the subinterval, times `upper`, is the threshold of the
    first feature of the box. The thresholds of the other features are independent and uniform on [0, upper].

    Parameters
    ----------
    boxes : list of Box
        Boxes of positive mass.
    line : ndarray
        Numbers in [0, 1], ascending.
    upper : ndarray of shape (d,)
        Largest possible threshold of each feature of X.
    rng : Generator
        Source of randomness for the thresholds of all but the first feature of a box.

    Returns
    -------
    list of Indicators
        One group for each number of features that a selected box has.
    """
    edges = np.cumsum([box.mass for box in boxes])
    total = edges[-1]
    owner = np.minimum(np.searchsorted(edges, line * total, side="right"), len(boxes) - 1)
    masses = np.array([box.mass for box in boxes])
    fractions = np.clip((line * total - (edges - masses)[owner]) / masses[owner], 0.0, 1.0)
    groups = []
    sizes = np.array([len(box.coordinates) for box in boxes])[owner]
    for size in np.unique(sizes):
        mine = np.flatnonzero(sizes == size)
        coordinates = np.array([boxes[b].coordinates for b in owner[mine]], dtype=int).reshape(len(mine), size)
        positions = rng.random((len(mine), size))
        positions[:, :1] = fractions[mine, None][:, :size]
        amplitudes = np.full(len(mine), np.sqrt(total / len(line)))
        groups.append(Indicators(coordinates, positions * upper[coordinates], amplitudes, len(upper)))
    return groups


def largest_values(X: Any) -> Array:
    """Return max(0, largest value) of each column of `X`, in float64.

    For float32 rows, positive results are increased to the next float32 number.
    """
    largest = column_maxima(X)
    if X.dtype == np.float32:
        # The same rows in float64 may be above their rounded values.
        largest = np.where(largest > 0, np.nextafter(largest, np.float32(np.inf)), largest)
    return largest.astype(np.float64)


def given_upper(upper: Any, d: int) -> Array:
    """Return the parameter `upper` as an array (d,), one value per feature; raise a ParameterError if it is invalid."""
    try:
        values = np.asarray(upper, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        values = np.zeros(0)
    if isinstance(upper, bool) or values.shape not in ((), (d,)) or not (np.isfinite(values) & (values > 0)).all():
        msg = (
            f"ThresholdFeatures: upper must be None, a finite number > 0, or {d} of them, one per feature, got "
            f"{upper!r}."
        )
        raise ParameterError(msg)
    return np.broadcast_to(values, d).copy()
