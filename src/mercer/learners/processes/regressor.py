"""Gaussian process regression on features: predictions with error bars, from one pass over the rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from mercer._docs import doc
from mercer.data.results import rowwise
from mercer.data.sources import source_of
from mercer.data.targets import check_no_missing_targets, validate_rows
from mercer.engines import MemoryEngine, Report, enter_stage, fill_rows
from mercer.engines.base import blas_threads_for
from mercer.errors import DataError, MercerWarning, ParameterError
from mercer.errors.memory import check_memory
from mercer.features import features_of
from mercer.kernels import Kernel, Transformed
from mercer.kernels.spectral import SPACING
from mercer.learners.base import Fit, Regressor
from mercer.learners.defaults import DEFAULT_KERNEL, width_for
from mercer.learners.local_correction import NEIGHBORS, LocalCorrection, correction_costs, why_rows_are_stored
from mercer.learners.processes.neighbors import check_given, fit_neighbors, tune_neighbors, tunes_by_near_rows
from mercer.learners.processes.plots import plot_regressor
from mercer.maps import BaseMap, DrawnMap, Nystroem
from mercer.maps.base import check_replayable, fresh_copy
from mercer.metric.scaled_columns import sample_of_columns, scaled_inputs
from mercer.parameters import Choice, Domain, Integer, Interval, check_parameter
from mercer.solvers.copies import copies_in, counted_once
from mercer.solvers.local.metric_search import MetricTrial
from mercer.solvers.local.near_fit import LocalFit
from mercer.solvers.neighbor_processes.posterior import NeighborPosterior
from mercer.solvers.processes.calibration import calibrated_scales, left_out, standardized_errors
from mercer.solvers.processes.evidence import Evidence, Scales, is_degenerate
from mercer.solvers.processes.intervals import METHODS, interval, log_densities
from mercer.solvers.processes.lengthscales import LengthscaleGradient
from mercer.solvers.processes.paths import SamplePaths, sample_paths
from mercer.solvers.processes.posterior import Posterior
from mercer.solvers.processes.tuning import FOURIER_COMPONENTS, WIDEST, Trial, tune_lengthscales
from mercer.solvers.ridge.jackknife import Jackknife, jackknife_of
from mercer.solvers.ridge.least_squares import Spectrum
from mercer.statistics.moments import Moments, MomentSum
from mercer.statistics.sample import RowSample, as_generator, seed_of

__all__ = ["GaussianProcessRegressor"]

Array = np.ndarray
# Least number of landmarks of the default map, if there are that many rows.
LEAST_LANDMARKS = 1024
# Least and largest number of landmarks of the default map if there are near rows, which represent what is local, and
# number of entries of the features of all rows (128 MB) up to which there are more than the least.
FEW_LANDMARKS, MOST_LANDMARKS = 512, 2048
ENTRIES_BESIDE_NEIGHBORS = 2**24
# Number of rows of the sample on which noise is calibrated: their number determines its standard deviation within 1 %.
# Fewer rows, but no fewer than the least, if rows have many features.
CALIBRATION_ROWS = 8192
LEAST_CALIBRATION_ROWS = 1000
CALIBRATION_ENTRIES = 10_000_000


def landmarks_of_process(kernel: Kernel | None, *, n_rows: int | None = None, random_state: Any = None) -> Nystroem:
    """Return the unfitted map of a Gaussian process, given a kernel or None; see `map_of_learner`."""
    # No more landmarks than rows, where their number is known.
    count = LEAST_LANDMARKS if n_rows is None else min(n_rows, max(LEAST_LANDMARKS, width_for(n_rows)))
    return Nystroem(DEFAULT_KERNEL if kernel is None else kernel, count, random_state=random_state)


def landmarks_beside_neighbors(n_rows: int | None) -> int:
    """Return the largest number of landmarks of the default map if there are near rows."""
    count = MOST_LANDMARKS
    while n_rows is not None and count > FEW_LANDMARKS and count * n_rows > ENTRIES_BESIDE_NEIGHBORS:
        count //= 2
    return count


@doc
class GaussianProcessRegressor(Regressor):
    r"""Gaussian process regression at linear cost.

    The function is :math:`f(x) = a\, z(x)^\top w` with features z of a map, :math:`w \sim N(0, I)` and amplitude a, and
    targets are :math:`f(x)` plus a mean and noise. Time is O(n D^2). Memory is O(D^2) plus one block of rows, never
    O(n^2).

    Parameters
    ----------
    feature_map : BaseMap, Kernel or None, default=None
        Feature map, cloned before it is fitted; or a kernel, for which `Nystroem` takes landmarks: its error bars grow
        away from the rows as those of the exact process do. Their number is eight times the square root of the number
        of rows, rounded up to a power of two, at least 1024 and at most 4096, and no more than rows. None means that
        columns are divided by their spread, so that their units do not matter, and a Matern kernel of smoothness 5/2.
    noise : float or "tune", default="tune"
        Standard deviation of the noise, in the unit of the targets; "tune" maximizes the evidence, and with landmarks
        calibrates the noise on leave-one-out errors; see Notes. Copies of rows with equal targets, and weights above
        one, which mean the same, are counted once if the noise of highest evidence is zero because of them. With
        `neighbors` they are left out together, and weights are divided by their median if that is above one.
    amplitude : float or "tune", default="tune"
        Standard deviation of the function, for a kernel with k(x, x) = 1; "tune" maximizes the evidence.
    lengthscale_tuning : {"auto", "shared", "ard"} or None, default="auto"
        "shared" multiplies the lengthscale of the kernel by the factor of highest evidence; "ard" (automatic relevance
        determination) tunes one lengthscale per column of X, starting from the spreads of the columns unless the kernel
        is `Transformed`; None keeps the lengthscales of the kernel, as do kernels that are not shift-invariant. "auto"
        means "shared", and with `neighbors` the better of "shared" and "ard".
    normalize_y : bool, default=True
        Whether the mean of the targets is subtracted, and added to predictions; otherwise the prior mean is zero. The
        scale of the targets never matters: noise and amplitude are in their unit.
    neighbors : int, "auto", LocalCorrection or None, default=None
        Number of near rows on which predictions are conditioned, or a `LocalCorrection` with further parameters; None
        means that there are none. The rows are then a part of the model; see Notes.
    variance_method : {"weight-space", "pathwise"}, default="weight-space"
        How the posterior variance is computed; see Notes. "pathwise" is for random features.
    weights : {"repetitions", "precisions"}, default="repetitions"
        What `sample_weight` means. "repetitions": a weight of 2 is equivalent to repeating the row. "precisions": the
        noise of a row of weight w has the variance ``noise_**2 / w``, so that ``sample_weight=1 / variance`` is noise
        of a known variance for each row, with ``noise=1.0`` if it is known exactly, and with ``noise="tune"`` if it is
        known up to a factor. Not with `neighbors`.
    tune_rows : int, default=1000
        Number of rows of the seeded sample on which lengthscales are tuned, and which "pathwise" conditions on.
    %(unlabeled_number)s
    %(block_size)s
    %(n_jobs)s
    random_state : int, Generator, RandomState or None, default=None
        Seed of the sample, and of the map, unless `feature_map` is a map with a seed of its own.
    %(progress)s

    Attributes
    ----------
    kernel_ : Kernel
        The kernel of the features, without the amplitude.
    noise_, amplitude_ : float or ndarray of shape (t,)
        The standard deviations that `predict` uses: of the noise, and of the function far away from all rows.
    log_marginal_likelihood_value_ : float
        Log marginal likelihood (evidence) of all rows, summed over targets. With ``weights="precisions"`` it is that of
        targets times the roots of their weights, which differs by a constant. With `neighbors` it is the sum of the
        log densities of rows given near rows that precede them in a random order, and NaN if the rows stay in their
        source.
    tuning_ : tuple of Trial or MetricTrial
        Lengthscales that were tried, as factors of those at which the search starts, and the evidence of each. With
        `neighbors`, the kernels that were tried, and the errors of left-out targets.
    local_ : LocalFit or None
        The local part, if there are `neighbors`: `parts`, whether the model uses the features ("global"), near rows
        ("local") or both; `scores`, the leave-one-out losses of these choices, minus the mean log density.
    coef_ : ndarray of shape (D,) or (t, D)
        Posterior mean of the coefficients of the features, with the amplitude.
    feature_map_ : BaseMap
        The fitted map.
    statistic_ : Moments
        The sums over the rows; `partial_fit` adds to them.

    See Also
    --------
    KernelRidge : Predictions without error bars, with the penalty chosen by leave-one-out.
    sklearn.gaussian_process.GaussianProcessRegressor : The exact process, in time O(n^3) and memory O(n^2).

    Notes
    -----
    Tuning noise and amplitude takes no further pass over the rows: the evidence is a function of the second moments,
    from one eigendecomposition. Several columns of targets share the kernel; each has its own noise and amplitude.
    Weights are repetitions of rows.

    Lengthscales are tuned on a sample of rows, with exact gradients: a `RandomFourier` map by its own evidence (of 1024
    features at most), other maps of isotropic kernels by the exact evidence of the kernel on the sample, and maps of
    other shift-invariant kernels by that of random features. `partial_fit` tunes on its first rows.

    *Noise beside landmarks.* The noise of highest evidence includes what landmarks leave of the function. It determines
    the coefficients, but the same part of the variance would be counted twice in error bars that also contain the
    residual of the kernel. So `noise_` and the amplitude of the residual, `amplitude_`, maximize the density of the
    leave-one-out errors of a sample of at most 8192 rows [4]_. If `noise` is given, nothing is calibrated.

    *Near rows.* With `neighbors`, what the features leave is predicted from the rows nearest to each query, so that
    both parts together have the kernel of the map; with all rows near, they are the exact process. If `feature_map` is
    None, there are 512 landmarks, 1024 for at most 16384 rows and 2048 for at most 8192, and the smoothness of the
    Matern kernel, 1/2, 3/2 or 5/2, is chosen too. Lengthscales minimize leave-one-out losses of mini-batches of rows,
    each given its nearest rows. These losses hardly depend on long lengthscales, which determine predictions away from
    the rows. So a Gaussian or Matern kernel of smoothness 5/2 of the highest evidence on `tune_rows` rows is used
    instead, with the noise of highest evidence, unless squared errors of left-out rows are larger by more than 1 %.
    Features, near rows or both are chosen by the leave-one-out density, and the variance follows the residuals of the
    near rows [5]_, so that it differs between regions. Standard deviations maximize the normal density of left-out
    errors; intervals and log densities, whose errors may have heavy tails, have their own. `noise_` and `amplitude_`
    are those at an average scale. `noise` and `amplitude` can be both given or both tuned. There are no covariances and
    samples. The rows are a part of the model, or stay in their source (`LocalCorrection`).

    *Intervals.* `predict_interval` and `predict_log_density` use the distribution of leave-one-out errors of a sample
    of rows, divided by their standard deviations, since errors of real data often have heavier tails than normal ones.

    *Variance starvation.* A map of D random features has no more than D degrees of freedom. With more rows than that,
    all coefficients are determined, and the posterior variance is small everywhere, also far from the rows, where that
    of the exact process is the prior variance [3]_. `Nystroem` avoids this: the residual of the kernel,
    :math:`k(x, x) - |z(x)|^2`, is added to the variance, so that error bars return to the amplitude. For random
    features, ``variance_method="pathwise"`` computes the variance of the exact process given a sample of `tune_rows`
    rows (or all rows, if there are no more): this variance is never too small because of the features, but it is too
    large where rows outside the sample matter. Samples of the function are then paths: a prior path is computed from
    the features and updated through the exact kernel of the sample [1]_.

    References
    ----------
    .. [1] Wilson et al. (2020), Efficiently Sampling Functions from Gaussian Process Posteriors, ICML.
    .. [2] Rasmussen, Williams (2006), Gaussian Processes for Machine Learning, MIT Press.
    .. [3] Quinonero-Candela, Rasmussen (2005), A unifying view of sparse approximate Gaussian process regression, JMLR.
    .. [4] Sundararajan, Keerthi (2001), Predictive approaches for choosing hyperparameters in Gaussian processes,
       Neural Computation.
    .. [5] Shah, Wilson, Ghahramani (2014), Student-t processes as alternatives to Gaussian processes, AISTATS.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Gaussian, GaussianProcessRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, size=(500, 1))
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=500)
    >>> model = GaussianProcessRegressor(Gaussian(), random_state=0).fit(X, y)
    >>> bool(0.09 < model.noise_ < 0.11)
    True
    >>> mean, std = model.predict([[0.0], [30.0]], return_std=True)
    >>> bool(std[0] < 0.05 and abs(std[1] / model.amplitude_ - 1) < 1e-6)  # far away: the prior
    True
    """

    parameter_domains: ClassVar[Mapping[str, Domain]] = {
        "noise": Interval(0, closed="neither") | Choice("tune"),
        "amplitude": Interval(0, closed="neither") | Choice("tune"),
        "lengthscale_tuning": Choice("auto", "shared", "ard", None),
        "neighbors": NEIGHBORS,
        "variance_method": Choice("weight-space", "pathwise"),
        "weights": Choice("repetitions", "precisions"),
        "tune_rows": Integer(1),
    }
    solved = frozenset({"posterior_", "noise_", "amplitude_", "coef_", "log_marginal_likelihood_value_"})
    solves_gram = True
    tuning_: tuple[Trial | MetricTrial, ...]
    #: The posterior given near rows; None if there are no `neighbors`.
    local_posterior_: NeighborPosterior | None = None
    default_map = landmarks_of_process

    def __init__(
        self,
        feature_map: BaseMap | Kernel | None = None,
        *,
        noise: float | Literal["tune"] = "tune",
        amplitude: float | Literal["tune"] = "tune",
        lengthscale_tuning: Literal["auto", "shared", "ard"] | None = "auto",
        normalize_y: bool = True,
        neighbors: int | Literal["auto"] | LocalCorrection | None = None,
        variance_method: Literal["weight-space", "pathwise"] = "weight-space",
        weights: Literal["repetitions", "precisions"] = "repetitions",
        tune_rows: int = 1000,
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
        self.neighbors = neighbors
        self.variance_method = variance_method
        self.weights = weights
        self.tune_rows = tune_rows
        self.unlabeled = unlabeled
        self.block_size = block_size
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress

    # ---- fitting ------------------------------------------------------------------------------

    def _several_passes(self) -> str | None:
        # Tuning reads a sample first; `_tuned` checks that the rows can be read again.
        return why_rows_are_stored(self.neighbors)

    def _costs(self, n: int, D: int) -> dict[str, float]:
        more = correction_costs(self.neighbors, "evidence", n, self.n_features_in_, D)
        return {"solve": 3.0 * D**3, **more}

    def _tuning_costs(self) -> dict[str, None]:
        # The number of evaluations is not known.
        return {} if self.lengthscale_tuning is None else {"tune lengthscales": None}

    @staticmethod
    def _is_narrow(fit: Fit) -> bool:
        """Return whether the rows have few enough features for one lengthscale each; the search raises otherwise."""
        return fit.engine.first().X.shape[1] <= WIDEST

    def _given(self, name: str) -> float | None:
        value = getattr(self, name)
        return None if isinstance(value, str) else float(value)

    def _check_neighbors(self) -> None:
        """Raise if parameters cannot be combined with `neighbors`."""
        check_given(type(self).__name__, self._given("noise"), self._given("amplitude"))
        if not self._repeated:
            msg = (
                f"{type(self).__name__}: neighbors={self.neighbors!r} needs weights that are repetitions of rows, got "
                "weights='precisions'. Use neighbors=None for noise of different variances."
            )
            raise ParameterError(msg)
        if self.variance_method == "pathwise":
            msg = (
                f"{type(self).__name__}: neighbors={self.neighbors!r} has variances of its own, got "
                "variance_method='pathwise'. Use variance_method='weight-space', or neighbors=None."
            )
            raise ParameterError(msg)

    def _fit_map(self, fit: Fit) -> BaseMap:
        prototype = fit.feature_map
        if self.neighbors is not None:
            self._check_neighbors()
            if isinstance(prototype, Nystroem) and not isinstance(self.feature_map, BaseMap):
                n_rows = self._count_rows(fit.engine)
                few = landmarks_beside_neighbors(n_rows)
                prototype = fresh_copy(prototype, n_components=few if n_rows is None else min(few, n_rows))
        if self.feature_map is None:
            check_replayable(prototype, fit.engine)
            prototype = self._scaled(prototype, fit)
        self.tuning_ = ()
        self._neighbor_alpha_: float | None = None
        if self.lengthscale_tuning is not None:
            prototype = self._tuned(replace(fit, feature_map=prototype))
        fitted = fit.fitted(prototype)
        if self.variance_method == "pathwise" and fitted.unbiased is not True:
            msg = (
                f"{type(self).__name__}: variance_method='pathwise' needs unbiased random features for its prior, got "
                f"{type(fitted).__name__}: {fitted.unbiased}. Use variance_method='weight-space'."
            )
            raise ParameterError(msg)
        return fitted

    def _scaled(self, prototype: BaseMap, fit: Fit) -> BaseMap:
        """Return the unfitted map with a kernel of columns that are divided by their spread.

        This is a kernel of scaled columns rather than a map of scaled columns, so that its lengthscales can be tuned.
        """
        enter_stage(fit.report, "fit map")
        scaled = scaled_inputs(sample_of_columns(fit.engine, fit.random_state, report=fit.report))
        return prototype.with_kernel(scaled.kernel(prototype._kernel(), SPACING))

    def _tuned(self, fit: Fit) -> BaseMap:
        """Return the unfitted map with the lengthscales of highest evidence on a sample, and set `tuning_`."""
        prototype, name = fit.feature_map, type(self).__name__
        kernel = prototype._kernel()
        # A map that changes its kernel, such as a deformed one, does not approximate that kernel.
        changed = not (isinstance(prototype, DrawnMap) and prototype.accepts(kernel))
        if changed or kernel.spectral_parts() is None:
            if self.lengthscale_tuning == "ard":
                what = f"{type(prototype).__name__} of {kernel!r}" if changed else f"{kernel!r}: {kernel.structure}"
                msg = (
                    f"{name}: lengthscale_tuning='ard' needs a shift-invariant kernel, got {what}. Use "
                    "lengthscale_tuning=None, with Transformed(kernel, lengthscales=...) for given lengthscales."
                )
                raise ParameterError(msg)
            return prototype
        if not fit.engine.replayable:
            msg = (
                f"{name}: lengthscale_tuning={self.lengthscale_tuning!r} reads a sample of the rows first, but the "
                "blocks can be read only once. Pass an iterable that can be read again (a list, or an object whose "
                "__iter__ starts over), or use lengthscale_tuning=None and give the kernel its lengthscale."
            )
            raise DataError(msg)
        by_near_rows = self.neighbors is not None and tunes_by_near_rows(kernel, fit)
        own = self.lengthscale_tuning == "ard" or (by_near_rows and self.lengthscale_tuning == "auto")
        if own and not isinstance(kernel, Transformed) and self._is_narrow(fit):
            # Lengthscales start at the spreads of their columns: from one common lengthscale, those of columns in other
            # units would not be found.
            prototype = self._scaled(prototype, fit)
            kernel = prototype._kernel()
        if by_near_rows:
            roughness = self.feature_map is None
            tuned = tune_neighbors(self, kernel, fit, roughness=roughness)
            self.tuning_, self._neighbor_alpha_ = tuned.trials, tuned.alpha
            return prototype.with_kernel(tuned.kernel)
        seed = seed_of(fit.random_state, "tune")
        enter_stage(fit.report, "tune lengthscales")
        sample = fit.labeled.sum(
            partial(RowSample.of, size=self.tune_rows, seed=seed, by_weight=self._repeated), fit.report
        )
        if not len(sample.index):
            msg = "All sample weights are zero: there is nothing to fit."
            raise DataError(msg)
        with blas_threads_for(max(len(sample.index), FOURIER_COMPONENTS)):
            tuning = tune_lengthscales(
                prototype,
                kernel,
                sample,
                ard=self.lengthscale_tuning == "ard",
                noise=self._given("noise"),
                amplitude=self._given("amplitude"),
                centered=self.normalize_y,
                seed=seed,
                repeated=self._repeated,
                report=fit.report,
            )
        self.tuning_ = tuning.trials
        return prototype.with_kernel(tuning.kernel)

    def _statistic(self, fit: Fit) -> MomentSum:
        sample = None
        if self.variance_method == "pathwise":
            seed = seed_of(fit.random_state, "representers")
            sample = partial(RowSample.of, size=self.tune_rows, seed=seed, by_weight=self._repeated)
        else:
            seed = seed_of(fit.random_state, "calibrate")
            d = self.feature_map_.n_features_in_
            size = min(CALIBRATION_ROWS, max(LEAST_CALIBRATION_ROWS, CALIBRATION_ENTRIES // d))
            sample = partial(RowSample.of, size=size, seed=seed, by_weight=self._repeated)
        # Small eigenvalues matter.
        return MomentSum(self.feature_map_.features_, double=True, sample=sample, n_rows=fit.labeled.n_rows)

    def _solve(self, statistic: Moments, fit: Fit | None) -> None:
        self._check_parameters()
        self.statistic_ = statistic
        with blas_threads_for(len(statistic.gram)):
            spectrum, scales = self._best_scales(statistic)
            if self._given("noise") is None and self._repeated and is_degenerate(scales):
                statistic = self._without_copies(statistic)
                spectrum, scales = self._best_scales(statistic)
            self.posterior_ = posterior = self._posterior(spectrum, scales, statistic.sample)
        used = posterior.scales
        self.coef_ = posterior.coef[:, 0] if self._single else posterior.coef.T
        self.log_marginal_likelihood_value_ = float(Evidence(spectrum, self._count(statistic)).value(scales).sum())
        self.local_posterior_ = None
        if fit is not None and self.neighbors is not None:
            self.local_posterior_ = local = fit_neighbors(self, spectrum, scales, fit)
            used = Scales(local.noise, local.amplitude)
            if local.fit.parts != "global":
                self.log_marginal_likelihood_value_ = local.log_marginal_likelihood()
        self.noise_, self.amplitude_ = self._one_or_all(used.noise), self._one_or_all(used.amplitude)

    def _best_scales(self, statistic: Moments) -> tuple[Spectrum, Scales]:
        """Return the eigendecomposition of moments, and the noise and amplitude of highest evidence."""
        offset = statistic.targets.target_mean if self.normalize_y else None
        spectrum = Spectrum.of(statistic, centered=False, offset=offset)
        return spectrum, Evidence(spectrum, self._count(statistic)).best(self._given("noise"), self._given("amplitude"))

    def _without_copies(self, statistic: Moments) -> Moments:
        """Return the moments of the distinct rows, if the sample contains all rows; otherwise warn of copies."""
        sample = statistic.sample
        if sample is None or not (copies := copies_in(sample)):
            return statistic
        if sample.is_complete:
            once = counted_once(sample)
            rows = MemoryEngine(once.X, once.y, once.weight, block_rows=len(once.index), n_jobs=self.n_jobs)
            moments = rows.accumulate(MomentSum(self.feature_map_.features_, double=True))
            return replace(moments, sample=once)
        msg = (
            f"{type(self).__name__}: the noise is estimated as zero, and {copies:.0f} of {len(sample.index)} rows of a "
            "sample are copies of others with equal targets, which look like measurements without noise. If they are "
            "records that are stored twice, error bars are far too small: drop the copies, or pass noise=."
        )
        warnings.warn(msg, MercerWarning, stacklevel=2)
        return statistic

    def _posterior(self, spectrum: Spectrum, scales: Scales, sample: RowSample | None) -> Posterior:
        """Return the posterior, with noise calibrated on leave-one-out errors of a sample where that is needed."""
        pathwise = self.variance_method == "pathwise"
        posterior = Posterior.of(
            self.feature_map_, spectrum, scales, sample if pathwise else None, repeated=self._repeated
        )
        if sample is None:  # a model of an earlier version, to which rows were added
            return posterior
        variance = None if posterior.representers is None else posterior.representers.left_out_variance(scales)
        errors = left_out(self.feature_map_, spectrum, scales, sample, variance, repeated=self._repeated)
        if self._calibrates():
            calibrated = calibrated_scales(errors, scales, amplitude_given=self._given("amplitude") is not None)
            posterior = replace(posterior, scales=calibrated, feature_scales=scales)
        return replace(posterior, errors=standardized_errors(errors, posterior.scales))

    @property
    def _repeated(self) -> bool:
        """Whether weights are repetitions of rows."""
        return self.weights == "repetitions"

    def _count(self, statistic: Moments) -> float | None:
        """Return the number of rows of positive weight, if weights are precisions; None if they are repetitions."""
        if self._repeated:
            return None
        assert statistic.sample is not None
        return float(statistic.sample.seen)

    def _calibrates(self) -> bool:
        """Return whether noise and residual variance are calibrated on the leave-one-out errors of a sample."""
        tuned = self._given("noise") is None
        return tuned and self.variance_method == "weight-space" and self.feature_map_.residual_is_kernel

    def _one_or_all(self, values: Array) -> Any:
        return float(values[0]) if self._single else values

    @property
    def kernel_(self) -> Kernel:
        self._check_fitted()
        return self.feature_map_.kernel_

    @property
    def local_(self) -> LocalFit | None:
        self._check_fitted()
        return None if self.local_posterior_ is None else self.local_posterior_.fit

    # ---- evidence -----------------------------------------------------------------------------

    def log_marginal_likelihood(
        self, noise: Any = None, amplitude: Any = None, *, eval_gradient: bool = False
    ) -> float | tuple[float, Array]:
        """Return the log marginal likelihood of all rows seen, from their moments, without a pass over them.

        Parameters
        ----------
        noise, amplitude : float or ndarray of shape (t,), default=None
            Standard deviations; None means those of highest evidence, or those given.
        eval_gradient : bool, default=False
            Whether to also return the derivatives with respect to log noise and log amplitude.

        Returns
        -------
        value : float
            Log marginal likelihood, summed over targets.
        gradient : ndarray of shape (2,) or (2, t)
            Returned if `eval_gradient` is True. For lengthscales see `lengthscale_gradient`.
        """
        self._check_fitted()
        posterior = self.posterior_
        fitted = posterior.fitted_scales
        count = len(fitted.noise)
        given = [fitted.noise if noise is None else noise, fitted.amplitude if amplitude is None else amplitude]
        for name, value in zip(("noise", "amplitude"), given, strict=True):
            numbers = np.asarray(value, dtype=float)
            if numbers.shape not in ((), (1,), (count,)) or not (np.isfinite(numbers) & (numbers > 0)).all():
                msg = (
                    f"{type(self).__name__}: {name} must be a finite number > 0, or one for each of {count} targets, "
                    f"got {value!r}."
                )
                raise ParameterError(msg)
        scales = Scales(*(np.broadcast_to(np.asarray(v, dtype=float), (count,)) for v in given))
        if self.local_posterior_ is not None:
            if eval_gradient:
                msg = f"{type(self).__name__}: eval_gradient=True needs neighbors=None, got a fit with neighbors."
                raise ParameterError(msg)
            return self.local_posterior_.log_marginal_likelihood(
                None if noise is None else scales.noise, None if amplitude is None else scales.amplitude
            )
        evidence = Evidence(posterior.spectrum, self._count(self.statistic_))
        value = float(evidence.value(scales).sum())
        if not eval_gradient:
            return value
        gradient = np.stack(evidence.gradient(scales))
        return value, gradient[:, 0] if self._single else gradient

    def lengthscale_gradient(self, X: Any, y: Any = None, sample_weight: Any = None) -> Array:
        """Return the gradient of the log marginal likelihood with respect to the log lengthscale of each column of X.

        The derivatives are exact for the features of the model, with their random parameters or landmarks fixed. They
        take one pass over the rows, which must be those of `fit`. Their sum is the derivative with respect to the
        logarithm of a common lengthscale.

        Parameters
        ----------
        X, y, sample_weight
            The rows of the fit, as arrays or as blocks.

        Returns
        -------
        ndarray of shape (d,)
        """
        self._check_fitted()
        posterior, feature_map = self.posterior_, self.feature_map_
        term = LengthscaleGradient(feature_map.features_, posterior.spectrum, posterior.fitted_scales)
        reader = self._reader(feature_map.width, fresh=False)
        engine = source_of(X, y, sample_weight, owner=type(self).__name__).engine(reader)
        fit = self._fit_of(engine, feature_map, self.random_state, {})
        return term.complete(fit.labeled.sum(term))

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
        posterior = self.posterior_
        if return_std and return_cov:
            msg = (
                f"{type(self).__name__}: at most one of return_std and return_cov can be True, got both. The standard "
                "deviations are the roots of the diagonal of the covariance."
            )
            raise ParameterError(msg)
        local = self.local_posterior_
        if local is not None:
            self._refuse_with_neighbors(return_cov, "return_cov=True", "return_std=True, or neighbors=None")
            X = validate_rows(self, X, reset=False)
            mean, std = local.predict(X, return_std=return_std, with_noise=with_noise, n_jobs=self.n_jobs)
            mean = mean[:, 0] if self._single else mean
            return mean if std is None else (mean, std[:, 0] if self._single else std)
        mean = self._linear(X, posterior.coef, posterior.spectrum.offset)
        mean = mean[:, 0] if self._single else mean
        if not (return_std or return_cov):
            return mean
        X = self.feature_map_.check_rows(X)
        if return_cov:
            n = X.shape[0]
            what, hint = f"return_cov=True, with a matrix of shape ({n}, {n}),", "Use return_std=True, or fewer rows."
            check_memory(type(self).__name__, what, 8 * n**2, hint)
            spread = posterior.covariance(X)
            if with_noise:
                spread[np.diag_indices(len(spread))] += np.square(posterior.scales.noise)
        else:
            variance = np.empty((X.shape[0], len(posterior.scales.noise)))
            width = self.feature_map_.features_.n_components
            fill_rows(posterior.variance_into, X, variance, n_jobs=self.n_jobs, width=width)
            spread = np.sqrt(variance + np.square(posterior.scales.noise) * with_noise)
        return mean, spread[..., 0] if self._single else spread

    @rowwise
    def predict_interval(self, X: Any, coverage: float = 0.9, *, method: str = "calibrated") -> Array:
        """Return intervals that contain a new target with a given probability.

        Parameters
        ----------
        %(X)s
        coverage : float, default=0.9
            Probability, > 0 and < 1.
        method : {"calibrated"}, default="calibrated"
            "calibrated" intervals are centered at the predictions. Their half-width is the standard deviation of a new
            target times the quantile of the leave-one-out errors, divided by their standard deviations, of a sample of
            at most 8192 rows. So targets need not be normally distributed.

        Returns
        -------
        ndarray of shape (n, 2) or (n, t, 2)
            Lower and upper ends.
        """
        check_parameter(type(self).__name__, "coverage", coverage, Interval(0, 1, closed="neither"))
        check_parameter(type(self).__name__, "method", method, Choice(*METHODS))
        mean, std = self._spread_of_targets(X)
        shape = (len(mean), -1)
        posterior = self.posterior_ if self.local_posterior_ is None else self.local_posterior_
        ends = interval(
            posterior, self.feature_map_.check_rows(X), mean.reshape(shape), std.reshape(shape), coverage, method
        )
        return ends[:, 0] if self._single else ends

    def predict_log_density(self, X: Any, y: Any) -> Array:
        """Return the log density of new targets.

        The density is that of a Student distribution around the prediction, in units of the standard deviation of a new
        target. Its width and degrees of freedom are fitted to the leave-one-out errors of a sample of at most 8192
        rows, so its tails are as heavy as those of the errors. For normally distributed errors it is the normal
        density.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows.
        y : array-like of shape (n,) or (n, t)
            Targets.

        Returns
        -------
        ndarray of shape (n,) or (n, t)
        """
        mean, std = self._spread_of_targets(X)
        targets = np.asarray(y, dtype=np.float64)
        if targets.shape != mean.shape:
            msg = f"{type(self).__name__}: y must have the shape {mean.shape} of predictions, got {targets.shape}."
            raise DataError(msg)
        check_no_missing_targets(self, targets)
        posterior = self.posterior_ if self.local_posterior_ is None else self.local_posterior_
        shape = (len(mean), -1)
        values = log_densities(posterior, (targets - mean).reshape(shape), std.reshape(shape))
        return values[:, 0] if self._single else values

    def _spread_of_targets(self, X: Any) -> tuple[Array, Array]:
        """Return predictions, and the standard deviations by which left-out errors are divided."""
        if self.local_posterior_ is None:
            return self.predict(X, return_std=True, with_noise=True)
        self._check_fitted()
        X = validate_rows(self, X, reset=False)
        mean, std = self.local_posterior_.predict(X, return_std=True, with_noise=True, normal=False, n_jobs=self.n_jobs)
        assert std is not None
        return (mean[:, 0], std[:, 0]) if self._single else (mean, std)

    def _refuse_with_neighbors(self, refused: bool, what: str, instead: str) -> None:
        if refused and self.local_posterior_ is not None:
            msg = (
                f"{type(self).__name__}: {what} needs the joint distribution of rows, but with neighbors= each row "
                f"is predicted from its own near rows. Use {instead}."
            )
            raise ParameterError(msg)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> Array:
        """Return samples of the posterior function at some rows.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows. With `Nystroem`, the residual of the kernel is sampled jointly for all of them, in time O(n^3).
        n_samples : int, default=1
            Number of functions.
        random_state : int, Generator, RandomState or None, default=0
            Seed; the same seed gives the same functions.

        Returns
        -------
        ndarray of shape (n, n_samples) or (n, t, n_samples)
        """
        self._check_fitted()
        posterior = self.posterior_
        self._refuse_with_neighbors(True, "sample_y", "neighbors=None")
        check_parameter(type(self).__name__, "n_samples", n_samples, Integer(1))
        X = validate_rows(self, X, reset=False)
        mean = self._linear(X, posterior.coef, posterior.spectrum.offset)
        Z = features_of(self.feature_map_.features_.astype(X.dtype), X).astype(np.float64, copy=False)
        draws = mean[:, :, None] + posterior.deviations(X, Z, int(n_samples), as_generator(random_state))
        return draws[:, 0] if self._single else draws

    @doc
    def jackknife(self, X: Any, y: Any) -> Jackknife:
        """Return leave-one-out predictions of the rows of the fit, and intervals with a guarantee from them.

        Nothing is fitted again: predictions without a row follow from its leverage, exactly for the penalty and the
        features of this model.

        Parameters
        ----------
        %(jackknife_rows)s

        Returns
        -------
        %(jackknife)s

        References
        ----------
        %(jackknife_paper)s

        Examples
        --------
        >>> import numpy as np
        >>> from mercer import Gaussian, GaussianProcessRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-3, 3, size=(300, 1))
        >>> y = np.sin(X[:, 0]) + 0.1 * rng.standard_t(3, size=300)
        >>> model = GaussianProcessRegressor(Gaussian(1.0), random_state=0).fit(X[:200], y[:200])
        >>> lower, upper = model.jackknife(X[:200], y[:200]).interval(X[200:], coverage=0.9).T
        >>> bool(0.82 < ((lower <= y[200:]) & (y[200:] <= upper)).mean() <= 1)
        True
        """
        self._check_fitted()
        self._refuse_with_neighbors(True, "jackknife", "predict_interval, or neighbors=None")
        posterior = self.posterior_
        X, y = self._labeled_arrays(X, y)
        return jackknife_of(
            type(self).__name__,
            self.feature_map_,
            X,
            y,
            alpha=posterior.fitted_scales.alpha,
            coef=posterior.coef,
            intercept=posterior.spectrum.offset,
            fit_intercept=False,
            mean_offset=bool(self.normalize_y),
            single=self._single,
        )

    def sample_path(self, n_samples: int = 1, random_state: Any = 0) -> SamplePaths:
        """Return samples of the posterior function as functions of x, with gradients.

        Unlike `sample_y`, which samples at rows that are given in advance, a path can be evaluated anywhere, and again:
        it is one function. This is what Thompson sampling and Bayesian optimization need.

        Parameters
        ----------
        n_samples : int, default=1
            Number of functions.
        random_state : int, Generator, RandomState or None, default=0
            Seed; the same seed gives the same functions.

        Returns
        -------
        SamplePaths
            ``paths(X)`` has the shape (n, n_samples) or (n, t, n_samples), ``paths.gradient(X)`` has the gradients
            (n, d, n_samples) or (n, d, t, n_samples) where the features have a closed form, as those of
            `RandomFourier` and of `Nystroem` with isotropic kernels, and ``paths[i]`` is one of the functions.

        Notes
        -----
        Means and variances are those of `predict` without noise. With landmarks, what they leave out is a part of the
        paths as it is of the variance. Its variance is exact at every row. Its correlations are those of 4096 random
        Fourier features of the kernel, which must be shift-invariant. With random
        features and ``variance_method="weight-space"``, paths are as certain as the features are, far from the rows,
        too: use ``variance_method="pathwise"`` or landmarks to explore.

        Examples
        --------
        Thompson sampling: the next row is the minimum of a sampled function.

        >>> import numpy as np
        >>> from scipy.optimize import minimize
        >>> from mercer import Gaussian, GaussianProcessRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-2, 2, size=(20, 1))
        >>> for step in range(10):
        ...     y = (X[:, 0] - 0.5) ** 2 + 0.01 * rng.normal(size=len(X))
        ...     model = GaussianProcessRegressor(Gaussian(), random_state=0).fit(X, y)
        ...     path = model.sample_path(random_state=step)
        ...     start = X[path(X)[:, 0].argmin()]
        ...     found = minimize(
        ...         lambda x: path([x])[0, 0], start, jac=lambda x: path.gradient([x])[0, :, 0], bounds=[(-2, 2)]
        ...     )
        ...     X = np.vstack([X, found.x])
        >>> bool(abs(X[-1, 0] - 0.5) < 0.2)
        True
        """
        self._check_fitted()
        self._refuse_with_neighbors(True, "sample_path", "neighbors=None")
        check_parameter(type(self).__name__, "n_samples", n_samples, Integer(1))
        rng = as_generator(random_state)
        return sample_paths(self.posterior_, self.feature_map_, int(n_samples), rng, single=self._single)

    def plot(self, X: Any, y: Any = None, *, ax: Any = None, target: int = 0, coverage: float = 0.9) -> Any:
        """Plot the posterior of a process of one or two features.

        For one feature, the picture has the mean, and bands of the function and of new targets; for two features, the
        mean as colors, and lines of equal standard deviation.

        Parameters
        ----------
        X : array-like of shape (n, 1) or (n, 2)
            Rows, such as those of the fit. They are drawn, at most 2000 of them, and their range is shown.
        y : array-like of shape (n,) or (n, t), default=None
            Their targets, which are drawn if there is one feature.
        ax : matplotlib Axes, default=None
            Axes to draw into. None creates a new figure.
        target : int, default=0
            Column of targets, if there are several.
        coverage : float, default=0.9
            Probability of the bands, which are normal ones.

        Returns
        -------
        matplotlib Axes
        """
        self._check_fitted()
        return plot_regressor(self, X, y, ax, target=target, coverage=coverage)
