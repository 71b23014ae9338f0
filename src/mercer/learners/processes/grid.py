"""Gaussian process regression for rows of one to three columns, on a grid of frequencies."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import partial, reduce
from operator import add
from typing import Any, ClassVar, Literal

import numpy as np

from mercer._docs import doc
from mercer.data.results import rowwise
from mercer.data.sources import Reader
from mercer.data.targets import validate_rows
from mercer.engines import Accumulator, Report, enter_stage, fill_rows
from mercer.engines.base import blas_threads_for
from mercer.errors import DataError, MercerWarning, ParameterError
from mercer.errors.memory import check_memory
from mercer.kernels import Constant, Kernel, Matern, Transformed
from mercer.kernels.base import dense64
from mercer.learners.base import Fit, Regressor
from mercer.maps.base import BaseMap, check_replayable, fresh_copy
from mercer.maps.fourier.frequency_grids import Box, GridFeatures, Summand, summands_of
from mercer.maps.fourier.grid_fourier import GridFourier, boxes_of, check_groups, grouped_kernel
from mercer.metric.scaled_columns import scaled_inputs
from mercer.parameters import Choice, Domain, Integer, Interval
from mercer.solvers.grid.boxes import EDGE, edge_level, error_level, parts_of_boxes
from mercer.solvers.grid.evidence import Evidence, evidence_of, lengthscale_slopes
from mercer.solvers.grid.posterior import MOST_DENSE, MOST_STORED, GridPosterior, coefficients_of
from mercer.solvers.grid.systems import System
from mercer.solvers.grid.tuning import GridTrial, Hyperparameters, PartAngles, tune_grid, with_factors
from mercer.solvers.grid.variance import RowVariances
from mercer.statistics.grid_sums import GridSum, GridSums, Survey, TargetScale, survey_of_block
from mercer.statistics.moments import Moments, MomentSum
from mercer.statistics.sample import RowSample, as_generator, seed_of

__all__ = ["GridGaussianProcessRegressor"]

Array = np.ndarray
# Rows of a block: large, so that the FFT of the grid takes little of the time of a transform.
BLOCK_ROWS = 262_144
# Conjugate gradients multiply vectors by matrices of this number of rows, for which one thread of BLAS is enough.
FEW_THREADS = 1000
# Number of rows of the sample that shows whether there may be long gaps between rows, if nothing is tuned.
GAP_ROWS = 1000
# Amplitude and noise at which a search starts, in the unit of the standard deviation of the targets.
FIRST_AMPLITUDE, FIRST_NOISE = 1.0, 0.3
# Relative error of sums over rows: largest and least.
MOST_EPS, LEAST_EPS = 1e-8, 1e-12
#: The kernel of rows whose columns are divided by their spread, if no kernel is given.
GRID_KERNEL = Matern(2.5, 1.0)


def grid_of_process(kernel: Kernel | None, *, n_rows: int | None = None, random_state: Any = None) -> GridFourier:  # noqa: ARG001
    """Return the unfitted map of the process, given a kernel or None."""
    return GridFourier(kernel, random_state=random_state)


@doc
class GridGaussianProcessRegressor(Regressor):
    r"""Gaussian process regression for rows of one to three columns, or sums over groups of as many columns.

    The process has the features of `GridFourier`, cosines and sines of all frequencies of an equispaced grid that
    matter for the given number of rows and noise, so that it agrees with the exact process to a small fraction of its
    standard deviation. A fit reads the rows two times, or one time if nothing is tuned and `bounds` are given. Its
    memory does not depend on the number of rows, and its time per row hardly depends on the number of frequencies: sums
    over rows are non-uniform fast Fourier transforms [1]_.

    Parameters
    ----------
    feature_map : GridFourier, Kernel or None, default=None
        The kernel, or a map with further parameters, such as `column_groups` for additive kernels, or `bounds`. Its
        number of components is chosen by the fit. None, also as the kernel of the map, means that columns are divided
        by their spread, so that their units do not matter, and a Matern kernel of smoothness 5/2.
    noise : float or "tune", default="tune"
        Standard deviation of the noise, in the unit of the targets; "tune" maximizes the evidence.
    amplitude : float or "tune", default="tune"
        Standard deviation of the function, for a kernel with k(x, x) = 1; "tune" maximizes the evidence. For a sum of
        kernels it also tunes the share of each.
    lengthscale_tuning : {"shared", "ard"} or None, default="shared"
        "shared" multiplies the lengthscales of the kernel by the factor of highest evidence; "ard" tunes one per
        column; None keeps the lengthscales of the kernel.
    normalize_y : bool, default=True
        Whether the mean of the targets is subtracted, and added to predictions; otherwise the prior mean is zero.
    max_components : int, default=100000
        Largest number of components. A warning is issued if the rows and the noise need more.
    tune_rows : int, default=10000
        Number of rows of the random sample on which hyperparameters are tuned.
    %(unlabeled_number)s
    block_size : int or None, default=None
        Number of rows that are processed at a time; None means 262,144, and fewer for sums of kernels. It changes the
        result by rounding error only.
    %(n_jobs)s
    random_state : int, Generator, RandomState or None, default=None
        Seed of the sample on which hyperparameters are tuned.
    %(progress)s

    Attributes
    ----------
    kernel_ : Kernel
        The kernel, without the amplitude.
    noise_, amplitude_ : float or ndarray of shape (t,)
        Standard deviations of the noise, and of the function far away from all rows.
    edge_ : float
        The ratio n d^2 / noise^2 of the first frequency that is left out, where d^2 is its weight in the kernel: at
        most 0.005, unless `max_components` is too small.
    n_outside_ : int
        Number of rows that are left out, since they lie far outside, and a grid for all rows would have more than
        `max_components` components. A warning is issued if there are any.
    n_steps_ : int
        Number of steps of conjugate gradients, or zero for a Cholesky factorization.
    coef_ : ndarray of shape (M,) or (t, M)
        Posterior mean of the coefficients of the features.
    log_marginal_likelihood_value_ : float
        Log marginal likelihood (evidence) of all rows, for at most 8000 components. It is computed at its first use.
    tuning_ : tuple of GridTrial
        Hyperparameters that were tried, in the unit of scaled targets.
    feature_map_ : GridFourier
        The fitted map.
    statistic_ : GridSums or Moments
        The sums over the rows; `partial_fit` adds to them.

    See Also
    --------
    GaussianProcessRegressor : For rows of any number of columns.
    GridFourier : The features, for all learners.

    Notes
    -----
    *Number of components.* An error bound of the kernel alone does not bound the error of the posterior
    mean: what matters is whether n rows determine a coefficient against the noise. So all frequencies are used whose
    weights d^2 have :math:`n d^2 / \sigma^2 > 0.005`. Kernels whose spectral density decays slowly need many of them:
    the smoothness of a Matern kernel must be at least half the number of columns.

    *Solver.* Up to 1500 components, by Cholesky factorization; beyond that by conjugate gradients, with products by
    fast Fourier transforms, and the exact block of the 1000 lowest components as preconditioner. The evidence takes a
    factorization of all components, at most 8000.

    *Standard deviations* take a factorization of up to 4000 components. Beyond that they take conjugate gradients, in
    which rows that are far from each other share a system, so that 1000 rows need less time per row than one. With more
    than 2000 rows at a time, or too few that share a system, they are approximate, and a warning states their error.
    Samples take one system for each sample, or for each row if there are fewer. A fit that has sampled all of its at
    most 5000 rows (`tune_rows`) stores them if the grid is that large, and then both are those of the exact process
    (samples for at most 2000 rows at a time).

    *Sums of kernels.* With several groups of columns, second moments are computed as matrix products, in time O(n M^2),
    and there are at most 4000 components.

    *Rows outside of the box of the fit* return to the prior: the features are periodic, but those of rows at which the
    kernel has decayed to 0.01 of its value on the box are zero.

    *Far rows.* Gaps between rows along a column that are long in lengthscales are shortened, so that a row or a cluster
    that is far from the others needs few components. If tails are so heavy that the grid of all rows has more than
    `max_components` components, about one row in a hundred is left out, with a warning.

    *Tuning* uses a sample of `tune_rows` rows, and grids of at most 1400 components, or, where more are needed, the
    evidence of at most ten blocks of 500 near rows. Lengthscales are at most the width
    of a column divided by one plus the number of columns, since longer ones need grids much wider than the rows, and
    the noise is at least one thousandth of the standard deviation of the targets. `partial_fit` tunes on, and chooses
    the grid for, the rows of its first call; later rows must lie in the same box, or in `bounds`.

    *finufft.* The transforms are those of the package finufft, if it is installed (``pip install mercer[grid]``), and
    otherwise of NumPy, which takes 5 to 30 times as long.

    Several columns of targets share the kernel, and the ratio of noise and amplitude.

    References
    ----------
    .. [1] Greengard, Rachh, Barnett (2022), Equispaced Fourier representations for efficient Gaussian process
       regression from a billion data points, arXiv:2210.10210.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import GridGaussianProcessRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform([5, 45], [15, 55], size=(1000, 2))  # longitude and latitude
    >>> y = np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.1 * rng.normal(size=1000)
    >>> model = GridGaussianProcessRegressor(random_state=0).fit(X, y)
    >>> bool(0.09 < model.noise_ < 0.11)
    True
    >>> mean, std = model.predict([[10.0, 50.0], [100.0, 0.0]], return_std=True)
    >>> bool(std[0] < 0.1 and abs(std[1] / model.amplitude_ - 1) < 1e-6)  # far away: the prior
    True
    """

    parameter_domains: ClassVar[Mapping[str, Domain]] = {
        "noise": Interval(0, closed="neither") | Choice("tune"),
        "amplitude": Interval(0, closed="neither") | Choice("tune"),
        "lengthscale_tuning": Choice("shared", "ard", None),
        "max_components": Integer(1),
        "tune_rows": Integer(1),
    }
    solved = frozenset({"posterior_", "noise_", "amplitude_", "coef_", "edge_", "n_outside_", "n_steps_"})
    default_map = grid_of_process
    tuning_: tuple[GridTrial, ...]
    posterior_: GridPosterior
    _rows_: RowSample | None = None  # the rows of the fit until it is solved, if they are few

    def __init__(
        self,
        feature_map: GridFourier | Kernel | None = None,
        *,
        noise: float | Literal["tune"] = "tune",
        amplitude: float | Literal["tune"] = "tune",
        lengthscale_tuning: Literal["shared", "ard"] | None = "shared",
        normalize_y: bool = True,
        max_components: int = 100_000,
        tune_rows: int = 10_000,
        unlabeled: Any = None,
        block_size: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: bool | Report = False,
    ) -> None:
        self.feature_map = feature_map
        self.noise = noise
        self.amplitude = amplitude
        self.lengthscale_tuning = lengthscale_tuning
        self.normalize_y = normalize_y
        self.max_components = max_components
        self.tune_rows = tune_rows
        self.unlabeled = unlabeled
        self.block_size = block_size
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress

    # ---- fitting ------------------------------------------------------------------------------

    def _several_passes(self) -> None:
        return None  # `_fit_map` checks that the rows can be read again, where it reads them

    def _tuning_costs(self) -> dict[str, None]:
        return {"tune lengthscales": None} if self._tunes else {}

    @property
    def _tunes(self) -> bool:
        return "tune" in (self.noise, self.amplitude) or self.lengthscale_tuning is not None

    def _given(self, name: str) -> float | None:
        value = getattr(self, name)
        return None if isinstance(value, str) else float(value)

    def _reader(self, width: int, *, fresh: bool) -> Reader:
        reader = super()._reader(width, fresh=fresh)
        if self.block_size is None and not self._has_groups():
            reader._block_size = BLOCK_ROWS
        return reader

    def _has_groups(self) -> bool:
        """Return whether the kernel is a sum over groups of columns, whose features are computed for blocks of rows."""
        feature_map = self.feature_map
        if isinstance(feature_map, GridFourier):
            if feature_map.column_groups is not None:
                return True
            feature_map = feature_map.kernel
        parts = feature_map.spectral_parts() if isinstance(feature_map, Kernel) else None
        return parts is not None and sum(bool(part.factors) for part in parts) > 1

    def _scales_columns(self, prototype: BaseMap) -> bool:
        return isinstance(prototype, GridFourier) and prototype.kernel is None

    def _fit_map(self, fit: Fit) -> BaseMap:
        owner, prototype = type(self).__name__, fit.feature_map
        if not isinstance(prototype, GridFourier):
            msg = (
                f"{owner}: feature_map must be a GridFourier, a kernel or None, got {prototype!r}. For other maps, use "
                "GaussianProcessRegressor."
            )
            raise ParameterError(msg)
        prototype.check()
        enter_stage(fit.report, "fit map")
        survey = self._survey(fit, prototype)
        d = survey.bounds.low.shape[0]
        kernel = self._kernel_of(prototype, survey, d)
        constant, summands = summands_of(kernel, owner, d)
        scale = self._target_scale(survey)
        total = sum(summand.mass for summand in summands)
        start = Hyperparameters(
            tuple(np.ones(summand.axes(d)) for summand in summands),
            np.array([summand.mass for summand in summands]) / max(total, 1e-300),
            FIRST_AMPLITUDE if self.amplitude == "tune" else float(self.amplitude) * np.sqrt(total) / scale.size[0],
            FIRST_NOISE if self.noise == "tune" else float(self.noise) / scale.size[0],
        )
        self.tuning_ = ()
        if self._tunes and summands:
            enter_stage(fit.report, "tune lengthscales")
            start = self._tuned(summands, start, survey, scale, prototype.tolerance, fit)
        summands = tuple(
            with_factor(summand, f, total * share)
            for summand, f, share in zip(summands, start.factors, start.shares, strict=True)
        )
        amplitude = start.amplitude / np.sqrt(total) if total else start.amplitude
        weight = survey.bounds.weight
        level, rest = edge_level(weight, amplitude, start.noise), error_level(weight, amplitude, start.noise)
        most = self.max_components if len(summands) == 1 else min(self.max_components, MOST_DENSE // 2)
        most = max(most - (constant > 0), len(summands))
        boxes, some = self._boxes(fit, prototype, survey, summands, d)
        parts, left = parts_of_boxes(summands, boxes, some, level, rest, prototype.tolerance, most)
        features = GridFeatures(
            parts, float(np.sqrt(constant)), sum(part.n_components for part in parts) + (constant > 0)
        )
        self._scale_, self._left_out_ = scale, left
        sample = survey.sample
        self._rows_ = sample if sample is not None and sample.is_complete and sample.seen <= MOST_STORED else None
        self._amplitude_, self._noise_ = amplitude, start.noise
        kernel = kernel_of(constant, summands)
        fitted = fresh_copy(prototype, kernel=kernel, n_components=features.n_components, column_groups=None)
        fitted._set_fitted(kernel, features, d)
        return fitted

    def _survey(self, fit: Fit, prototype: GridFourier) -> Survey:
        """Return bounds of columns, moments of targets and, where it is used, a sample of rows."""
        sampled = self._tunes or prototype.kernel is None or prototype._kernel().needs_rows
        term = partial(
            survey_of_block,
            coordinates=dense64,
            size=self.tune_rows if sampled else 0 if prototype.bounds is not None else GAP_ROWS,
            seed=seed_of(fit.random_state, "tune"),
        )
        engine = fit.labeled
        if prototype.bounds is not None and not sampled:
            first = term(engine.first())  # one pass: targets are scaled by those of the first rows
            if engine.n_rows is None:
                return first
            bounds = first.bounds
            return replace(
                first,
                bounds=replace(
                    bounds,
                    weight=bounds.weight * max(1.0, engine.n_rows / bounds.rows),
                    target_scatter=bounds.target_scatter * max(1.0, engine.n_rows / bounds.rows),
                ),
            )
        check_replayable(prototype, fit.engine, ", or give bounds=, noise, amplitude and the lengthscale as numbers")
        survey = engine.sum(term, fit.report)
        if survey.bounds.weight <= 0:
            msg = "All sample weights are zero: there is nothing to fit."
            raise DataError(msg)
        return survey

    def _kernel_of(self, prototype: GridFourier, survey: Survey, d: int) -> Kernel:
        """Return the kernel of rows, with numbers for all lengthscales, before they are tuned."""
        owner = type(self).__name__
        if prototype.kernel is not None:
            kernel = grouped_kernel(owner, prototype.kernel, prototype.column_groups, d)
            if kernel.needs_rows:
                assert survey.sample is not None
                sample = survey.sample
                kernel = kernel.resolve(sample.X, sample.weight if sample.is_complete else None)
            return kernel
        assert survey.sample is not None
        inputs = scaled_inputs(survey.sample)
        scales = inputs.full(inputs.scale)
        groups = prototype.column_groups
        if groups is None:
            chosen = [tuple(inputs.columns.tolist())]
        elif isinstance(groups, str):
            chosen = [(int(i),) for i in inputs.columns]
        else:
            grouped_kernel(owner, GRID_KERNEL, groups, d)  # raises if indices are too large
            varying = set(inputs.columns.tolist())
            chosen = [tuple(i for i in group if i in varying) for group in check_groups(owner, groups)]
            chosen = [group for group in chosen if group] or [chosen_column(inputs.columns)]
        terms = [
            (1 / len(chosen)) * Transformed(GRID_KERNEL, columns=group, lengthscales=[scales[i] for i in group])
            for group in chosen
        ]
        return terms[0].kernel if len(terms) == 1 else reduce(add, terms)

    def _target_scale(self, survey: Survey) -> TargetScale:
        bounds = survey.bounds
        spread = np.sqrt(bounds.target_scatter / max(bounds.weight, 1e-300))
        center = bounds.target_mean
        if not np.isfinite(spread).all():
            msg = f"{type(self).__name__}: squares of targets exceed the range of float64. Divide them by a number."
            raise DataError(msg)
        if not self.normalize_y:
            spread = np.hypot(spread, center)
        # Up to rounding of the mean, targets are equal.
        spread = np.where(spread > 1e-14 * np.abs(center), spread, 0.0)
        if self._given("noise") is not None or self._given("amplitude") is not None:
            # A number is in the unit of all targets, which then have a common scale.
            spread = np.full(len(spread), np.sqrt(np.square(spread).mean()))
        # Of equal targets, or of one, no more is known than their size.
        size = np.where(center != 0, np.abs(center), 1.0)
        # Rounded, so that rounding errors of means, which differ between engines, do not change the sums.
        with np.errstate(over="ignore", under="ignore"):
            center, rounded = (values.astype(np.float32).astype(np.float64) for values in (center, spread))
        whole = np.isfinite(center) & np.isfinite(rounded) & (rounded > 0)
        return TargetScale(
            np.where(whole, center, bounds.target_mean), np.where(whole, rounded, np.where(spread > 0, spread, size))
        )

    def _tuned(
        self,
        summands: tuple[Summand, ...],
        start: Hyperparameters,
        survey: Survey,
        scale: TargetScale,
        tolerance: float,
        fit: Fit,
    ) -> Hyperparameters:
        sample = survey.sample
        assert sample is not None
        assert sample.y is not None
        offset = scale.center if self.normalize_y else np.zeros(len(scale.center))
        found, self.tuning_ = tune_grid(
            summands,
            dense64(sample.X),
            (sample.y - offset) / scale.size,
            sample.weight if sample.is_complete else None,
            start,
            lengthscales=self.lengthscale_tuning,
            amplitude=self.amplitude == "tune",
            noise=self.noise == "tune",
            tolerance=tolerance,
            centered=self.normalize_y,
            report=fit.report,
        )
        return found

    def _boxes(
        self, fit: Fit, prototype: GridFourier, survey: Survey, summands: tuple[Summand, ...], d: int
    ) -> tuple[list[Box], Array | None]:
        """Return the boxes of the coordinates of summands, and a sample of rows if the boxes may be trimmed."""
        sample, bounds = survey.sample, survey.bounds
        some = None if sample is None else dense64(sample.X)
        boxes = boxes_of(
            type(self).__name__,
            fit.labeled,
            summands,
            prototype.bounds,
            d,
            prototype.tolerance,
            fit.report,
            ends=np.stack([bounds.low, bounds.high]),
            sample=None if sample is None else (some, sample.is_complete),
        )
        return boxes, None if prototype.bounds is not None else some

    def _statistic(self, fit: Fit) -> Accumulator[Any]:
        features = self.feature_map_.features_
        assert isinstance(features, GridFeatures)
        if len(features.parts) != 1:
            return MomentSum(features.unweighted(), double=True, n_rows=fit.labeled.n_rows)
        (part,) = features.parts
        heaviest = self._amplitude_**2 * float(part.weights.max())
        rows = 1.0 if fit.labeled.n_rows is None else fit.labeled.n_rows
        eps = float(np.clip(0.1 * self._noise_**2 / max(rows * heaviest, 1e-300), LEAST_EPS, MOST_EPS))
        strict = isinstance(self.feature_map, GridFourier) and self.feature_map.bounds is not None
        return GridSum(PartAngles(part, strict), part.highest, self._scale_, eps)

    def _solve(self, statistic: GridSums | Moments, fit: Fit | None) -> None:  # noqa: ARG002 - the contract
        self._check_parameters()
        features, scale = self.feature_map_.features_, self._scale_
        assert isinstance(features, GridFeatures)
        if isinstance(statistic, Moments):
            mean, weight = statistic.targets.target_mean, statistic.targets.weight
        else:
            weight = statistic.weight
            mean = scale.center + scale.size * statistic.target_sum / max(weight, 1e-300)
        offset = mean if self.normalize_y else np.zeros(len(mean))
        if isinstance(statistic, Moments):
            system = System.of_moments(statistic, scale, offset)
        else:
            (part,) = features.parts
            system = System.of_grid(statistic, part.index, scale, offset, constant=features.constant > 0)
        self.edge_ = weight * self._amplitude_**2 * self._left_out_ / self._noise_**2
        self.n_outside_ = getattr(statistic, "outside", 0)
        self._warn_of_edge(features.n_components)
        self._warn_of_rows(statistic.rows)
        roots = self._amplitude_ * features.roots()
        with blas_threads_for(min(len(roots), 2048)):
            coef, self.n_steps_ = coefficients_of(system, roots, self._noise_)
        if self.n_steps_ < 0:
            msg = (
                f"{type(self).__name__}: conjugate gradients did not converge within {-self.n_steps_} steps. Raise the "
                "noise, or lower max_components."
            )
            warnings.warn(msg, MercerWarning, stacklevel=2)
        self.posterior_ = posterior = GridPosterior(
            features, system, coef, self._amplitude_, self._noise_, scale.size, offset
        )
        rows = self._stored(weight)
        if not posterior.factorized:
            self.posterior_ = replace(posterior, rows=rows)
        self.noise_ = self._one_or_all(self._noise_ * scale.size)
        self.amplitude_ = self._one_or_all(self._amplitude_ * scale.size)
        weighted = self._amplitude_ * coef * scale.size
        self.coef_ = weighted[:, 0] if self._single else weighted.T

    def _stored(self, weight: float) -> RowVariances | None:
        """Return the rows of the fit, if the first ones are all of them, with a total weight, and none is left out."""
        sample, self._rows_ = self._rows_, None
        if sample is None or self.n_outside_:
            return None
        each = np.ones(len(sample.key)) if sample.weight is None else sample.weight
        if abs(each.sum() - weight) > 1e-9 * weight:  # there were further rows
            return None
        used = each > 0
        noise = np.square(self._noise_ / self._amplitude_) / each[used]
        return RowVariances(self.feature_map_.kernel_, dense64(sample.X)[used], noise)

    def _warn_of_edge(self, components: int) -> None:
        if self.edge_ <= 1.5 * EDGE:
            return
        msg = (
            f"{type(self).__name__}: the grid of {components} components is too small for these rows and this noise: "
            f"frequencies are left out for which n d^2 / noise^2 is up to {self.edge_:.2g}, more than {EDGE}, so "
            "that the mean is smoother than that of the exact process. Raise max_components, or the noise; after "
            "partial_fit, call fit on all rows."
        )
        warnings.warn(msg, MercerWarning, stacklevel=2)

    def _warn_of_rows(self, rows: int) -> None:
        if not self.n_outside_:
            return
        msg = (
            f"{type(self).__name__}: {self.n_outside_} of {rows} rows are left out, since they lie outside of the box "
            f"that a grid of max_components={self.max_components} can cover: predictions there are those of the prior. "
            "Raise max_components, transform columns with heavy tails (logarithms, ranks), or use "
            "GaussianProcessRegressor."
        )
        warnings.warn(msg, MercerWarning, stacklevel=2)

    def _one_or_all(self, values: Array) -> Any:
        return float(values[0]) if self._single else values

    @property
    def kernel_(self) -> Kernel:
        self._check_fitted()
        return self.feature_map_.kernel_

    # ---- evidence -----------------------------------------------------------------------------

    @property
    def log_marginal_likelihood_value_(self) -> float:
        return float(self.log_marginal_likelihood())  # type: ignore[arg-type]

    def log_marginal_likelihood(
        self, noise: float | None = None, amplitude: float | None = None, *, eval_gradient: bool = False
    ) -> float | tuple[float, Array]:
        """Return the log marginal likelihood of all rows seen, from their sums, without a pass over them.

        Parameters
        ----------
        noise, amplitude : float, default=None
            Standard deviations; None means those of the fit. If there are several targets, those of the first one; the
            others are in proportion.
        eval_gradient : bool, default=False
            Whether to also return the derivatives with respect to log noise and log amplitude.

        Returns
        -------
        value : float
            Log marginal likelihood, summed over targets.
        gradient : ndarray of shape (2,)
            Returned if `eval_gradient` is True. For lengthscales see `lengthscale_gradient`.
        """
        evidence = self._evidence(noise, amplitude, gradient=eval_gradient)
        posterior = self.posterior_
        value = evidence.value - posterior.system.weight * float(np.log(posterior.size).sum())
        if not eval_gradient:
            return value
        return value, np.array([evidence.by_noise, evidence.by_amplitude])

    def lengthscale_gradient(self) -> Array:
        """Return the derivatives of the log marginal likelihood with respect to the log lengthscale of each column.

        The frequencies of the grid are fixed. Derivatives converge later than the evidence as the grid grows: they are
        more accurate for less noise than `edge_` requires, or a larger grid.

        Returns
        -------
        ndarray of shape (k,)
            One derivative for each coordinate of each summand of the kernel. Their sum is the derivative with respect
            to a common lengthscale.
        """
        by_root = self._evidence(None, None, gradient=True).by_root
        out, start = [], int(self.posterior_.features.constant > 0)
        for part in self.posterior_.features.parts:
            p = len(part.index)
            each = by_root[start : start + p + 1].copy()
            each[1:] += by_root[start + p + 1 : start + 2 * p + 1]
            out.append(each @ lengthscale_slopes(part.summand.kernel, part.spacing, part.index))
            start += part.n_components
        return np.concatenate(out)

    def _evidence(self, noise: float | None, amplitude: float | None, *, gradient: bool) -> Evidence:
        self._check_fitted()
        posterior, owner = self.posterior_, type(self).__name__
        for name, value in (("noise", noise), ("amplitude", amplitude)):
            if value is not None and value not in Interval(0, closed="neither"):
                msg = f"{owner}: {name} must be a finite number > 0 or None, got {value!r}."
                raise ParameterError(msg)
        if len(posterior.roots) > MOST_DENSE:
            msg = f"{owner}: the evidence needs a grid of at most {MOST_DENSE} components, got {len(posterior.roots)}."
            raise ParameterError(msg)
        s = posterior.noise if noise is None else float(noise) / posterior.size[0]
        roots = posterior.roots
        if amplitude is not None:
            roots = roots * (float(amplitude) / posterior.size[0] / posterior.amplitude)
        # The factor of all weights, from that of the largest one, which is not zero.
        factor = float(np.square(roots.max() / posterior.features.roots().max()))
        with blas_threads_for(len(roots)):
            evidence = evidence_of(posterior.system, roots, s, rest=factor * posterior.features.rest, gradient=gradient)
        if evidence is None:
            msg = f"{owner}: the second moments are not positive definite to rounding, for noise={noise}."
            raise ParameterError(msg)
        return evidence

    # ---- predicting ---------------------------------------------------------------------------

    @rowwise
    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False, *, with_noise: bool = False) -> Any:
        """Return the posterior mean, and its standard deviation or covariance.

        Parameters
        ----------
        %(X)s
        return_std : bool, default=False
            Whether to also return standard deviations.
        return_cov : bool, default=False
            Whether to also return the covariance of all pairs of rows.
        with_noise : bool, default=False
            Whether the uncertainty is that of a new target rather than of the function.

        Returns
        -------
        mean : ndarray of shape (n,) or (n, t)
        std : ndarray of shape (n,) or (n, t)
            Returned if `return_std` is True.
        cov : ndarray of shape (n, n) or (n, n, t)
            Returned if `return_cov` is True.
        """
        self._check_fitted()
        posterior, owner = self.posterior_, type(self).__name__
        if return_std and return_cov:
            msg = f"{owner}: at most one of return_std and return_cov can be True."
            raise ParameterError(msg)
        X = validate_rows(self, X, reset=False)
        n, t = X.shape[0], len(posterior.size)
        mean = np.empty((n, t))
        fill_rows(lambda rows, out: np.copyto(out, posterior.mean(rows)), X, mean, n_jobs=self.n_jobs)
        mean = mean[:, 0] if self._single else mean
        if not (return_std or return_cov):
            return mean
        with blas_threads_for(len(posterior.roots)):
            posterior.prepare_variance()
        noise = np.square(posterior.noise * posterior.size) * with_noise
        if return_cov:
            what, hint = f"return_cov=True, with a matrix of shape ({n}, {n}),", "Use return_std=True, or fewer rows."
            check_memory(owner, what, 8 * n**2, hint)
            spread = posterior.covariances(X)
            spread[np.diag_indices(n)] += noise
        else:
            variance = np.empty((n, t))
            width = len(posterior.roots) if posterior.dense else None
            if posterior.factorized:
                fill_rows(
                    lambda rows, out: np.copyto(out, posterior.variance(rows)),
                    X,
                    variance,
                    n_jobs=self.n_jobs,
                    width=width,
                )
            else:  # rows far from each other are solved for together
                with blas_threads_for(FEW_THREADS):
                    variance[:] = posterior.variance(X)
            spread = np.sqrt(variance + noise)
        return mean, spread[..., 0] if self._single else spread

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> Array:
        """Return samples of the posterior function at some rows.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows. Samples at rows far outside of the box of the fit are those of the prior, in time O(n^3).
        n_samples : int, default=1
            Number of functions.
        random_state : int, Generator, RandomState or None, default=0
            Seed; the same seed gives the same functions.

        Returns
        -------
        ndarray of shape (n, n_samples) or (n, t, n_samples)
        """
        self._check_fitted()
        X = validate_rows(self, X, reset=False)
        posterior = self.posterior_
        with blas_threads_for(len(posterior.roots)):
            posterior.prepare_variance()
        draws = posterior.samples(X, int(n_samples), as_generator(random_state))
        return draws[:, 0] if self._single else draws


def chosen_column(columns: Array) -> tuple[int, ...]:
    """Return a group of the first column, where all columns of the groups are constant."""
    return (int(columns[0]),)


def with_factor(summand: Summand, factors: Array, mass: float) -> Summand:
    """Return a summand whose lengthscales are multiplied by factors, with another mass."""
    if (factors == factors[0]).all():
        kernel = summand.kernel.with_params(lengthscale=float(summand.kernel.lengthscale) * float(factors[0]))
        return replace(summand, kernel=kernel, mass=float(mass))
    (changed,) = with_factors([summand], [factors], np.array([mass]))
    return changed


def kernel_of(constant: float, summands: tuple[Summand, ...]) -> Kernel:
    """Return the sum of a constant and summands as a kernel."""
    terms: list[Kernel] = [Constant(constant)] if constant else []
    for summand in summands:
        kernel: Kernel = summand.kernel
        for affine in reversed(summand.inputs):
            parts = affine.columns, affine.center, affine.lengthscales, affine.matrix, affine.spacing
            kernel = Transformed(kernel, *parts)
        terms.append(kernel if summand.mass == 1 else summand.mass * kernel)
    return reduce(add, terms)
