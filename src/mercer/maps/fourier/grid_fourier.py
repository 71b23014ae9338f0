"""Fourier features with frequencies on an equispaced grid, for rows of one to three columns: the map `GridFourier`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import partial, reduce
from itertools import pairwise
from operator import add
from typing import Any, ClassVar, Literal, Self

import numpy as np

from mercer._docs import doc
from mercer.engines import Engine, Report, enter_stage
from mercer.errors import DataError, MercerWarning, ParameterError
from mercer.kernels import Gaussian, Kernel, Transformed
from mercer.kernels.spectral import MEDIAN_ROWS
from mercer.maps.base import BaseMap, check_replayable, fresh_copy, given_kernel
from mercer.maps.fourier.frequency_grids import (
    NEEDS,
    Box,
    GridFeatures,
    Summand,
    lowest_parts,
    margin_of,
    summands_of,
)
from mercer.parameters import Choice, Domain, Integer, Interval, check_parameter, check_parameters
from mercer.statistics import RowSample
from mercer.statistics.grid_sums import bounds_of_block
from mercer.statistics.occupied import gaps_between, occupied_by_block
from mercer.statistics.sample import seed_of

__all__ = ["Coordinates", "GridFourier", "boxes_of", "grouped_kernel"]

Array = np.ndarray
# A warning is issued if the bound on the error of the kernel exceeds this multiple of the value of the kernel at zero.
LARGE_ERROR = 0.1
ColumnGroups = Sequence[Sequence[int]] | Literal["each"] | None
BOX = "bounds must be None or two sequences of one number per column, the least and the largest values, got {}."


@doc
class GridFourier(BaseMap):
    r"""Fourier features with frequencies on an equispaced grid, for rows of one to three columns.

    The features are cosines and sines of all lowest frequencies of a grid, with weights from the spectral density of
    the kernel: a quadrature rule of the Fourier integral, not a random sample of it. The map is deterministic, and for
    few columns its error decreases much faster with the number of components than that of random features [1]_.

    Parameters
    ----------
    kernel : Kernel, default=None
        `Gaussian`, `Matern`, multiples of them, and sums of such kernels, each of one to three columns; None means
        ``Gaussian(lengthscale="median")``. The smoothness of `Matern` must be at least half the number of columns.
    n_components : int, default=1024
        Number of components. Those of largest weights are chosen.
    column_groups : sequence of sequences of int, "each" or None, default=None
        Groups of one to three columns. The kernel is then the mean of the kernel over the groups, an additive kernel,
        which carries grids to rows of more columns. "each" means one group per column. None means that the kernel is
        that of all columns.
    tolerance : float, default=1e-4
        Largest value of a periodic image of the kernel, for a kernel that is one at zero. It determines the spacing.
    bounds : tuple of two sequences of float or None, default=None
        Least and largest values of each column. None means those of the rows of `fit`.
    random_state : ignored
        Present for compatibility with other maps: there is nothing random.
    %(n_jobs)s

    Attributes
    ----------
    error_bound_ : float
        Bound on the absolute error of the approximate kernel for any two rows of the fit; see
        `mercer.theory.grid_error`.
    features_ : GridFeatures
        The features: a function from rows to features.
    %(kernel_)s
    %(signs_none)s
    %(n_features_in_)s

    See Also
    --------
    GridGaussianProcessRegressor : A Gaussian process on a grid, whose size it chooses, for any number of rows.
    RandomFourier : Random frequencies, for any number of columns.

    Notes
    -----
    Features are periodic, so a grid belongs to a box of rows. Rows that lie outside of the box of the fit are far from
    all rows of the fit if the kernel at their distance from the box is below 0.01. Their features are zero, so that a
    linear function of the features returns to zero, and a periodic image never appears. Rows closer to the box have
    features of the same accuracy as rows inside.

    `KernelRidge` and other learners take the map like any other map. The second moments of its features are computed by
    non-uniform fast Fourier transforms where a learner asks for them and the kernel has a single summand, so that a fit
    takes time that does not grow with the number of components times the number of rows.

    References
    ----------
    .. [1] Greengard, Rachh, Barnett (2022), Equispaced Fourier representations for efficient Gaussian process
       regression from a billion data points, arXiv:2210.10210.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Gaussian, GridFourier
    >>> X = np.random.default_rng(0).uniform(size=(500, 2))
    >>> feature_map = GridFourier(Gaussian(0.2), n_components=301).fit(X)
    >>> error = abs(feature_map.gram(X) - Gaussian(0.2)(X)).max()
    >>> bool(error < feature_map.error_bound_ < 1e-3)
    True
    """

    needs: ClassVar[str] = NEEDS
    scales_columns: ClassVar[bool] = False
    parameter_domains: ClassVar[Mapping[str, Domain]] = {
        "n_components": Integer(1),
        "tolerance": Interval(0, 1, closed="neither"),
    }
    kernel: Kernel | None
    kernel_: Kernel
    features_: GridFeatures
    error_bound_: float

    def __init__(
        self,
        kernel: Kernel | None = None,
        n_components: int = 1024,
        *,
        column_groups: ColumnGroups = None,
        tolerance: float = 1e-4,
        bounds: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.column_groups = column_groups
        self.tolerance = tolerance
        self.bounds = bounds
        self.random_state = random_state
        self.n_jobs = n_jobs

    # ---- the contract of BaseMap --------------------------------------------------------------

    @property
    def unbiased(self) -> bool | str:
        return "frequencies on a grid are not random: a finite sum approximates the Fourier integral"

    @property
    def width(self) -> int:
        return self.n_components

    @property
    def refuses_rows(self) -> str | None:
        return None

    def check(self) -> None:
        check_parameters(self, self.parameter_domains)
        summands_of(self._kernel(), type(self).__name__)
        if not (self.column_groups is None or isinstance(self.column_groups, str)):
            check_groups(type(self).__name__, self.column_groups)
        elif self.column_groups is not None:
            check_parameter(type(self).__name__, "column_groups", self.column_groups, Choice("each", None))

    def needs_rows(self) -> bool:
        return self.bounds is None or self._kernel().needs_rows

    def with_kernel(self, kernel: Kernel) -> Self:
        return fresh_copy(self, kernel=kernel)

    def _kernel(self) -> Kernel:
        return given_kernel(self, self.kernel, Gaussian(lengthscale="median"))

    def _variance(self, X: Any, Y: Any) -> Array:
        return np.zeros((X.shape[0], (X if Y is None else Y).shape[0]))

    def grown(self, engine: Engine) -> tuple[Self, Array | None]:
        for part in self.features_.parts:
            seen = engine.sum(partial(bounds_of_block, coordinates=part.summand.coordinates, targets=False))
            if seen.weight > 0:
                part.check_bounds(seen.low, seen.high)
        return self, None

    # ---- fitting ------------------------------------------------------------------------------

    def _fit_costs(self, n: int, d: int) -> dict[str, float]:
        return {"fit map": float(n * d)}

    def fit_engine(self, engine: Engine, report: Report | None = None) -> Self:
        self.check()
        enter_stage(report, "fit map")
        first = engine.first().X
        d = first.shape[1]
        if self.needs_rows():
            check_replayable(self, engine, ", or give bounds= and the lengthscale as a number")
        kernel = grouped_kernel(type(self).__name__, self._kernel(), self.column_groups, d)
        if kernel.needs_rows:
            seed = seed_of(self.random_state, "map")
            term = partial(RowSample.of, size=MEDIAN_ROWS, seed=seed, by_weight=True, targets=False)
            sample = engine.sum(term, report)
            kernel = kernel.resolve(sample.X, sample.weight if sample.is_complete else None)
        else:
            kernel.diag(first[:1])  # raises if the kernel is not defined for these rows
        constant, summands = summands_of(kernel, type(self).__name__, d)
        boxes = boxes_of(type(self).__name__, engine, summands, self.bounds, d, self.tolerance, report)
        # With fewer components than summands, the last summands have none.
        room = self.n_components - (constant > 0)
        some = slice(None, max(room, 0))
        parts = lowest_parts(summands[some], boxes[some], room, self.tolerance)
        self._set_fitted(kernel, GridFeatures(parts, float(np.sqrt(constant)), self.n_components), d)
        self.error_bound_ += sum(summand.mass for summand in summands[len(parts) :])
        mass = constant + sum(summand.mass for summand in summands)
        if self.error_bound_ > LARGE_ERROR * mass:
            msg = (
                f"{type(self).__name__}: the error of the kernel may be up to {self.error_bound_:.2g}, since "
                f"n_components={self.n_components} is small for the widths of the columns in lengthscales, "
                f"{', '.join(f'{2 * h:.3g}' for part in parts for h in part.half)}. Raise n_components, or the "
                "lengthscale."
            )
            warnings.warn(msg, MercerWarning, stacklevel=3)
        return self

    def _set_fitted(self, kernel: Kernel, features: GridFeatures, n_features: int) -> None:
        self.n_features_in_ = n_features
        self.kernel_ = kernel
        self.features_ = features
        self.error_bound_ = sum(part.error_bound() for part in features.parts)
        self.signs_ = None
        self._n_features_out = features.n_components


class Coordinates:
    """Picklable function of rows that returns the coordinates of all summands of a kernel, side by side."""

    def __init__(self, summands: Sequence[Summand]) -> None:
        self.summands = tuple(summands)

    def __call__(self, X: Any) -> Array:
        return np.column_stack([summand.coordinates(X) for summand in self.summands])


def boxes_of(
    owner: str,
    engine: Engine,
    summands: Sequence[Summand],
    bounds: Any,
    n_features: int,
    tolerance: float,
    report: Report | None = None,
    *,
    ends: Array | None = None,
    sample: Any = None,
) -> list[Box]:
    """Return the boxes of the coordinates of rows, one per summand: of given bounds of columns, or of all rows.

    Boxes of all rows have the gaps between rows that are longer than twice the margin of the period. They take a pass
    over the rows if there may be such gaps. What is known of the rows saves passes: `ends` are the least and the
    largest values of their columns, and `sample` is a tuple of some rows of positive weight, and whether these are all.
    """
    if not summands:
        return []
    widths = [summand.axes(n_features) for summand in summands]
    cuts = np.cumsum(widths)[:-1]
    coordinates = Coordinates(summands)
    mixed = any(affine.matrix is not None for summand in summands for affine in summand.inputs)
    if bounds is not None:
        given = checked_bounds(owner, bounds, n_features)
        if mixed:
            msg = (
                f"{owner}: bounds cannot be given for a kernel of columns that are multiplied by a matrix. "
                "Use bounds=None."
            )
            raise ParameterError(msg)
        low, high = coordinates(given)
        check_range(owner, low, high)
        return [Box(a, b) for a, b in zip(np.split(low, cuts), np.split(high, cuts), strict=True)]
    if ends is None or mixed:
        seen = engine.sum(partial(bounds_of_block, coordinates=coordinates, targets=False), report)
        low, high = seen.low, seen.high
    else:
        low, high = coordinates(ends)
    check_range(owner, low, high)
    least = 2 * np.repeat([margin_of(summand, tolerance) for summand in summands], widths)
    some = np.zeros((0, len(low))) if sample is None else coordinates(sample[0])
    gaps = [gaps_between(np.append(u, [a, b]), c) for u, a, b, c in zip(some.T, low, high, least, strict=True)]
    if any(len(g) for g in gaps) and not (sample is not None and sample[1]):
        occupied = engine.sum(partial(occupied_by_block, coordinates=coordinates, unit=least / 16), report)
        gaps = [occupied.gaps(axis, c) for axis, c in enumerate(least)]
    firsts = np.append(0, np.cumsum(widths))
    return [
        Box(low[i:j], high[i:j], tuple(gaps[i:j]) if any(len(g) for g in gaps[i:j]) else ())
        for i, j in pairwise(firsts)
    ]


def check_range(owner: str, low: Array, high: Array) -> None:
    """Raise if the differences of coordinates are not finite."""
    if not np.isfinite(high - low).all():
        msg = f"{owner}: there is no row with a positive weight, or columns exceed the range of float64."
        raise DataError(msg)


def checked_bounds(owner: str, bounds: Any, n_features: int) -> Array:
    """Return given bounds of columns as an array of shape (2, n_features); raise if they are not."""
    try:
        ends = np.asarray(bounds, dtype=np.float64)
    except (TypeError, ValueError):
        ends = np.zeros(0)
    if ends.shape != (2, n_features) or not np.isfinite(ends).all() or (ends[0] > ends[1]).any():
        msg = f"{owner}: {BOX.format(repr(bounds))} The rows have {n_features} columns."
        raise ParameterError(msg)
    return ends


def grouped_kernel(owner: str, kernel: Kernel, column_groups: ColumnGroups, n_features: int) -> Kernel:
    """Return the mean of a kernel over groups of columns, or the kernel itself if there are no groups."""
    if column_groups is None:
        return kernel
    groups = [(i,) for i in range(n_features)] if isinstance(column_groups, str) else check_groups(owner, column_groups)
    last = max(max(group) for group in groups)
    if last >= n_features:
        msg = f"{owner}: column_groups has the index {last}, but the rows have {n_features} features."
        raise DataError(msg)
    terms = [(1 / len(groups)) * Transformed(kernel, columns=group) for group in groups]
    return reduce(add, terms)


def check_groups(owner: str, column_groups: Any) -> list[tuple[int, ...]]:
    """Return groups of columns as tuples; raise if they are not sequences of one to three different indices."""
    try:
        groups = [tuple(int(i) for i in group) for group in column_groups]
        exact = all(i == int(i) for group in column_groups for i in group)
    except (TypeError, ValueError):
        groups, exact = [], False
    if not exact or not groups or not all(1 <= len(set(g)) == len(g) <= 3 and min(g) >= 0 for g in groups):
        msg = (
            f"{owner}: column_groups must be None, 'each', or a sequence of groups of one to three different column "
            f"indices >= 0, got {column_groups!r}."
        )
        raise ParameterError(msg)
    return groups
