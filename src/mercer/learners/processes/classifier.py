"""Gaussian process classification on features: calibrated probabilities, with evidence-tuned kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np

from mercer._docs import doc
from mercer.data.results import rowwise
from mercer.data.targets import label_codes
from mercer.engines import Block, Report, enter_stage, fill_rows
from mercer.engines.base import workers
from mercer.engines.passes import Passes
from mercer.errors import DataError, ParameterError
from mercer.kernels import Kernel, Transformed
from mercer.kernels.spectral import SPACING
from mercer.learners.base import Classifier, Fit, warn_not_converged
from mercer.learners.defaults import DEFAULT_KERNEL, FIXED_WIDTH, width_for
from mercer.learners.glm import SAMPLE_SEED, label_factors
from mercer.learners.processes.plots import plot_classifier
from mercer.maps import BaseMap, DrawnMap, Nystroem
from mercer.maps.base import check_replayable
from mercer.metric.scaled_columns import sample_of_columns, scaled_inputs
from mercer.parameters import Choice, Domain, Instance, Integer, Interval
from mercer.solvers.copies import CopyGroups, WeighCopies
from mercer.solvers.laplace.curvature import HessianSum, inverse_roots
from mercer.solvers.laplace.integrals import average_probabilities
from mercer.solvers.laplace.posterior import LabelPosterior, LeftOutLabels, calibrated
from mercer.solvers.laplace.tuning import LabeledSample, tune_amplitude, tune_labels
from mercer.solvers.losses.fit import minimize_on_rows, sample_size
from mercer.solvers.losses.losses import Logistic, Problem
from mercer.solvers.losses.path import choose_weight
from mercer.solvers.losses.sample import Sample
from mercer.solvers.processes.tuning import WIDEST, Trial
from mercer.statistics.feature_cache import RowFeatures
from mercer.statistics.label_counts import CountLabels, LabelCounts
from mercer.statistics.sample import seed_of

__all__ = ["GaussianProcessClassifier"]

Array = np.ndarray
# Number of rows of the sample on which probabilities are calibrated.
CALIBRATION_ROWS = 2000


def landmarks_of_classifier(kernel: Kernel | None, *, n_rows: int | None = None, random_state: Any = None) -> Nystroem:
    """Return the unfitted map of a Gaussian process classifier, given a kernel or None; see `map_of_learner`."""
    count = FIXED_WIDTH if n_rows is None else min(n_rows, max(FIXED_WIDTH, width_for(n_rows)))
    return Nystroem(DEFAULT_KERNEL if kernel is None else kernel, count, random_state=random_state)


@doc
class GaussianProcessClassifier(Classifier):
    r"""Gaussian process classification at linear cost.

    Latent functions are :math:`f_k(x) = a\, z(x)^\top v_k + b_k` with features z of a map, :math:`v_k \sim N(0, I)` and
    amplitude a, one per label, or a single one for two labels. Labels have the probabilities of the softmax, or of the
    logistic function for two labels. The posterior is a Laplace approximation that is calibrated on rows which are left
    out, and probabilities are averages over it. Time is O(n D^2) per label. Memory is O(D^2) per label plus one block
    of rows, never O(n^2).

    Parameters
    ----------
    feature_map : BaseMap, Kernel or None, default=None
        Feature map, cloned before it is fitted; or a kernel, for which `Nystroem` takes landmarks. Their number is
        eight times the square root of the number of rows, rounded up to a power of two, at least 512 and at most 4096,
        and no more than rows. None means that columns are divided by their spread, so that their units do not matter,
        and a Matern kernel of smoothness 5/2.
    amplitude : float or "tune", default="tune"
        Standard deviation a of the latent functions, for a kernel with k(x, x) = 1; "tune" maximizes the evidence for
        two labels, and minimizes the loss of rows held out for more.
    lengthscale_tuning : {"shared", "ard"} or None, default="shared"
        "shared" multiplies the lengthscale of the kernel by the factor of highest evidence; "ard" (automatic relevance
        determination) tunes one lengthscale per column of X, starting from the spreads of the columns unless the kernel
        is `Transformed`; None keeps the lengthscales of the kernel, as do kernels that are not shift-invariant.
    calibrate : bool, default=True
        Whether the posterior is calibrated on left-out rows; False means the Laplace approximation. See Notes.
    fit_intercept : bool, default=True
        Whether latent functions have an intercept, which has a flat prior density.
    class_weight : dict, "balanced" or None, default=None
        Factors of the sample weights by label; "balanced" gives all labels the same total weight. Labels that a dict
        does not name have the factor 1. Probabilities are those of rows with these weights.
    tune_rows : int, default=1000
        Number of rows of the seeded sample on which lengthscales and amplitude are tuned.
    max_iter : int, default=100
        Maximal number of steps to the mode.
    tol : float, default=1e-6
        Accuracy of the mode, as in `KernelLogisticRegression`.
    %(unlabeled_label)s
    %(block_size)s
    %(n_jobs)s
    random_state : int, Generator, RandomState or None, default=None
        Seed of the samples, and of the map, unless `feature_map` is a map with a seed of its own.
    %(progress)s

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Labels of rows with a positive weight, sorted.
    kernel_ : Kernel
        The kernel of the features, without the amplitude.
    amplitude_ : float
        The amplitude.
    log_evidence_ : float
        Laplace approximation of the log evidence of all rows.
    calibration_ : tuple of float
        Factors of the posterior mean, of the posterior variance of the coefficients, and of the variance that landmarks
        leave out; (1, 1, 1) without calibration.
    tuning_ : tuple of Trial
        Lengthscales that were tried, as factors of those at which the search starts, and the evidence per row.
    coef_ : ndarray of shape (K, D), or (1, D) for two labels
        Posterior mean of the coefficients of the features, with the amplitude.
    intercept_ : ndarray of shape (K,) or (1,)
        Posterior mean of the intercepts.
    n_iter_ : int
        Number of steps on all rows.
    n_passes_ : int
        Number of passes over all rows after the map was fitted.
    feature_map_ : BaseMap
        The fitted map.
    width_ : int
        Number of components of the fitted map.

    See Also
    --------
    KernelLogisticRegression : The mode alone, with a penalty chosen on rows held out.
    GaussianProcessRegressor : Numeric targets.
    sklearn.gaussian_process.GaussianProcessClassifier : The exact process, in time O(n^3) and memory O(n^2), with one
        label against the rest.

    Notes
    -----
    *Posterior.* The mode is that of a penalized logistic regression with C = a^2, found as in
    `KernelLogisticRegression`, in memory, out of core and on Dask. One more pass sums the second derivatives of the
    losses. For more than two labels, the blocks of the Hessian that couple labels are replaced by the factor
    K / (K - 1) of the diagonal blocks, which is right for equally likely labels. If the matrices of all labels would
    take more than 512 MB, one matrix, their mean, is used for all.

    *Evidence.* Lengthscales and amplitude maximize the Laplace approximation of the evidence [1]_ of a sample of
    rows, with exact gradients, on 256 landmarks of the sample; a `RandomFourier` map is tuned on its own features. For
    more than two labels the evidence is an approximation that is highest at amplitudes which are too small, and the
    amplitude is then that of the least loss of rows held out, with values multiplied by the factor of least loss.

    *Calibration.* The posterior of a classifier is skewed, and its Laplace approximation is too cautious [2]_. With
    ``calibrate=True``, three factors correct it: of the mean, of the variance of the coefficients, and of the variance
    that landmarks leave out. They minimize the logarithmic loss of a sample of 2000 rows at most. Each is left out with
    all rows that are equal to it, and the coefficients without them are approximated by one Newton step. For more than
    two labels, that step is too optimistic, and the factor of the mean is at most that of rows held out. Lengthscales
    and amplitude see copies of a row once, unless some of the rows that are equal have different labels.

    Probabilities of two labels are exact averages of the logistic function. Those of more labels are averages of the
    softmax over 128 quasi-random normal vectors.

    References
    ----------
    .. [1] Rasmussen, Williams (2006), Gaussian Processes for Machine Learning, chapters 3 and 5, MIT Press.
    .. [2] Kuss, Rasmussen (2005), Assessing approximate inference for binary Gaussian process classification, JMLR.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import GaussianProcessClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, size=(500, 2))
    >>> y = np.where(np.sin(2 * X[:, 0]) + 0.5 * rng.normal(size=500) > 0, "yes", "no")
    >>> model = GaussianProcessClassifier(random_state=0).fit(X[:400], y[:400])
    >>> bool(model.score(X[400:], y[400:]) > 0.8)
    True
    >>> model.predict_proba(X[400:]).shape
    (100, 2)
    >>> mean, variance = model.latent_mean_and_variance(X[400:])
    """

    parameter_domains: ClassVar[Mapping[str, Domain]] = {
        "amplitude": Interval(0, closed="neither") | Choice("tune"),
        "lengthscale_tuning": Choice("shared", "ard", None),
        "class_weight": Choice(None, "balanced") | Instance(dict, "a dict"),
        "tune_rows": Integer(1),
        "max_iter": Integer(1),
        "tol": Interval(0, closed="neither"),
    }
    solves_gram = True
    tuning_: tuple[Trial, ...]
    default_map = landmarks_of_classifier

    def __init__(
        self,
        feature_map: BaseMap | Kernel | None = None,
        *,
        amplitude: float | Literal["tune"] = "tune",
        lengthscale_tuning: Literal["shared", "ard"] | None = "shared",
        calibrate: bool = True,
        fit_intercept: bool = True,
        class_weight: Any = None,
        tune_rows: int = 1000,
        max_iter: int = 100,
        tol: float = 1e-6,
        unlabeled: Any = None,
        block_size: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: bool | Report = False,
    ) -> None:
        self.feature_map = feature_map
        self.amplitude = amplitude
        self.lengthscale_tuning = lengthscale_tuning
        self.calibrate = calibrate
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.tune_rows = tune_rows
        self.max_iter = max_iter
        self.tol = tol
        self.unlabeled = unlabeled
        self.block_size = block_size
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress

    # ---- fitting ------------------------------------------------------------------------------

    def _several_passes(self) -> str:
        return "it reads the rows many times. Use KernelRidgeClassifier, which reads them once."

    def _tuning_costs(self) -> dict[str, None]:
        # The number of evaluations is not known.
        return {} if self.lengthscale_tuning is None else {"tune lengthscales": None}

    def _given_variance(self) -> float | None:
        return None if isinstance(self.amplitude, str) else float(self.amplitude) ** 2

    def _counts(self, fit: Fit, size: int, seed: int) -> LabelCounts:
        counts = fit.labeled.sum(CountLabels(size, seed), fit.report)
        self._check_two_labels(counts.labels)
        return counts

    def _sample(self, fit: Fit) -> LabeledSample:
        """Return the rows on which lengthscales and amplitude are tuned."""
        counts = self._counts(fit, self.tune_rows, seed_of(fit.random_state, "tune"))
        factors = label_factors(type(self).__name__, self.class_weight, counts.labels, counts.weight)
        present = np.isin(counts.labels, np.asarray(counts.sample.y))  # a rare label may be missing from the sample
        if np.count_nonzero(present) < 2:
            msg = (
                f"{type(self).__name__}: the {self.tune_rows} sampled rows on which lengthscales and amplitude are "
                "tuned have one class only. Raise tune_rows, or give amplitude and lengthscale_tuning=None."
            )
            raise DataError(msg)
        labels, factors = counts.labels[present], factors[present]
        return LabeledSample.of(counts.sample, labels, factors, fit_intercept=bool(self.fit_intercept))

    def _fit_map(self, fit: Fit) -> BaseMap:
        prototype = fit.feature_map
        if self.feature_map is None:
            check_replayable(prototype, fit.engine)
            prototype = self._scaled(prototype, fit)
        self.tuning_: tuple[Trial, ...] = ()
        self._variance_ = self._given_variance()
        if self.lengthscale_tuning is not None:
            prototype = self._tuned(replace(fit, feature_map=prototype))
        return fit.fitted(prototype)

    def _scaled(self, prototype: BaseMap, fit: Fit) -> BaseMap:
        """Return the unfitted map with a kernel of columns that are divided by their spread."""
        enter_stage(fit.report, "fit map")
        scaled = scaled_inputs(sample_of_columns(fit.engine, fit.random_state, report=fit.report))
        return prototype.with_kernel(scaled.kernel(prototype._kernel(), SPACING))

    def _tuned(self, fit: Fit) -> BaseMap:
        """Return the unfitted map with the lengthscales of highest evidence on a sample; set the amplitude, too."""
        prototype = fit.feature_map
        kernel = prototype._kernel()
        # A map that changes its kernel, such as a deformed one, does not approximate that kernel.
        changed = not (isinstance(prototype, DrawnMap) and prototype.accepts(kernel))
        if changed or kernel.spectral_parts() is None:
            if self.lengthscale_tuning == "ard":
                what = f"{type(prototype).__name__} of {kernel!r}" if changed else f"{kernel!r}: {kernel.structure}"
                msg = (
                    f"{type(self).__name__}: lengthscale_tuning='ard' needs a shift-invariant kernel, got {what}. Use "
                    "lengthscale_tuning=None, with Transformed(kernel, lengthscales=...) for given lengthscales."
                )
                raise ParameterError(msg)
            return prototype
        narrow = fit.engine.first().X.shape[1] <= WIDEST
        if self.lengthscale_tuning == "ard" and not isinstance(kernel, Transformed) and narrow:
            prototype = self._scaled(prototype, fit)
            kernel = prototype._kernel()
        enter_stage(fit.report, "tune lengthscales")
        sample = self._sample(fit)
        with workers(1):
            tuning = tune_labels(
                prototype,
                kernel,
                sample,
                ard=self.lengthscale_tuning == "ard",
                variance=self._given_variance(),
                seed=seed_of(fit.random_state, "landmarks"),
                report=fit.report,
            )
        self.tuning_, self._variance_ = tuning.trials, tuning.variance
        return prototype.with_kernel(tuning.kernel)

    def _statistic(self, fit: Fit) -> None:  # noqa: ARG002 - the signature of the contract
        return None  # the solver asks for its sums

    def _solve(self, statistic: None, fit: Fit | None) -> None:  # noqa: ARG002 - the signature of the contract
        assert fit is not None
        features = self.feature_map_.features_
        if self._variance_ is None:
            enter_stage(fit.report, "tune amplitude")
            with workers(1):
                self._variance_ = tune_amplitude(features, self._sample(fit))
        enter_stage(fit.report, "count labels")
        counts = self._counts(fit, sample_size(features.n_components), SAMPLE_SEED)
        factors = label_factors(type(self).__name__, self.class_weight, counts.labels, counts.weight)
        problem = Problem(RowFeatures(features), Logistic(), counts.labels, factors)
        factor = 1.0
        if problem.columns > 1 and self._given_variance() is None:
            enter_stage(fit.report, "tune amplitude")
            path = choose_weight(
                problem,
                counts,
                fit_intercept=bool(self.fit_intercept),
                scaled=self.calibrate,
                n_jobs=self.n_jobs,
                report=fit.report,
            )
            # Too few rows to hold some out have no losses.
            self._variance_ = path.C if np.isfinite(path.losses).all() else self._variance_
            factor = path.factor
        passes = Passes(fit.report)
        found = minimize_on_rows(
            fit.labeled,
            problem,
            counts,
            C=self._variance_,
            fit_intercept=bool(self.fit_intercept),
            start=None,
            passes=passes,
            report=fit.report,
            n_jobs=self.n_jobs,
            tol=float(self.tol),
            max_iter=int(self.max_iter),
        )
        if not found.converged:
            warn_not_converged(
                f"{type(self).__name__}: after {found.steps} steps, the objective exceeds its minimum by an estimated "
                f"{found.excess:.1g} of its decrease (tol={self.tol:g}). Try a larger max_iter, a larger tol, or a "
                "smaller amplitude."
            )
        enter_stage(fit.report, "sum curvatures")
        total = float(problem.label_weight @ counts.weight)
        into = HessianSum(problem, found.coef, self._variance_, bool(self.fit_intercept), total)
        curvatures = fit.labeled.accumulate(into, fit.report)
        roots, log_determinant = inverse_roots(curvatures)
        n_labels, columns = len(counts.labels), problem.columns
        log_determinant *= columns / len(roots) * (1.0 if n_labels == 2 else 1 - 1 / n_labels)
        square = float(np.square(found.coef[:-1]).sum()) / self._variance_
        posterior = LabelPosterior(
            features,
            roots,
            self._variance_,
            columns,
            bool(self.fit_intercept),
            self.feature_map_.kernel_ if self.feature_map_.residual_is_kernel else None,
            (1.0, 1.0, 1.0),
        )
        if self.calibrate:
            enter_stage(fit.report, "calibrate")
            largest = factor if problem.columns > 1 else None
            factors_found = self._calibration(posterior, problem, counts, found.coef, fit, largest)
            posterior = replace(posterior, factors=factors_found)
        self.posterior_ = posterior
        self.classes_ = counts.labels
        self.calibration_ = posterior.factors
        self.amplitude_ = float(np.sqrt(self._variance_))
        self.log_evidence_ = -curvatures.loss - 0.5 * (square + log_determinant)
        self.coef_ = posterior.factors[0] * found.coef[:-1].T
        self.intercept_ = posterior.factors[0] * found.coef[-1]
        counted = 0 if counts.sample.is_complete or not self.calibrate else 1  # that of the copies
        self.n_iter_ = found.steps
        self.n_passes_ = passes.count + 2 + counted  # those of the label counts and the curvatures, too

    def _calibration(
        self,
        posterior: LabelPosterior,
        problem: Problem,
        counts: LabelCounts,
        coef: Array,
        fit: Fit,
        largest: float | None,
    ) -> tuple[float, float, float]:
        """Return the factors of the posterior that minimize the loss of left-out rows."""
        rows = Sample.of(counts, problem.features, self.n_jobs)
        sample = rows.part(CALIBRATION_ROWS)
        used = sample.weight > 0
        X, codes = sample.X[used], label_codes(sample.y[used], counts.labels)
        groups = CopyGroups.of(X)
        weigh = WeighCopies(groups.row, counts.labels, problem.label_weight)
        if counts.sample.is_complete:
            copies = weigh(Block(0, rows.X, rows.y, rows.weight))
        else:  # one pass over the rows, without their features
            copies = fit.labeled.sum(weigh, fit.report)
        # Where rows are a sample of all rows, each has weight one: it was sampled in proportion to its weight.
        all_rows = counts.sample.is_complete and len(sample.y) == len(rows.y)
        weight = sample.weight[used] if all_rows else np.ones(len(codes))
        Z = problem.features.of(X)
        left_out = LeftOutLabels.of(
            posterior,
            X,
            Z,
            Z @ coef[:-1] + coef[-1],
            codes,
            weight * problem.label_weight[codes],
            copies.weight[groups.group],
        )
        with workers(1):
            return calibrated(left_out, largest)[0]

    @property
    def kernel_(self) -> Kernel:
        self._check_fitted()
        return self.feature_map_.kernel_

    # ---- predicting ---------------------------------------------------------------------------

    @rowwise
    def latent_mean_and_variance(self, X: Any) -> tuple[Array, Array]:
        """Return means and variances of the latent values, over which probabilities are averaged.

        There is one latent value per label, or a single one, of the second label, if there are two. The logit or the
        softmax of the means is the probability at the posterior mean. `decision_function` returns the logit or the
        logarithms of the averaged probabilities instead.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        mean : ndarray of shape (n,) or (n, K)
        variance : ndarray of shape (n,) or (n, K)
        """
        mean, variance = self._latent(X)
        return (mean[:, 0], variance[:, 0]) if mean.shape[1] == 1 else (mean, variance)

    def _decision_values(self, X: Any) -> Array:
        # Logarithms of probabilities, so that labels and decision values agree with the probabilities.
        logs = np.log(np.maximum(average_probabilities(*self._latent(X)), np.finfo(float).tiny))
        return logs[:, 1:] - logs[:, :1] if logs.shape[1] == 2 else logs

    def _latent(self, X: Any) -> tuple[Array, Array]:
        self._check_fitted()
        mean = self._linear(X, self.coef_.T, self.intercept_)
        X = self.feature_map_.check_rows(X)
        variance = np.empty(mean.shape)
        width = self.posterior_.features.n_components
        fill_rows(self.posterior_.variances_into, X, variance, n_jobs=self.n_jobs, width=width)
        return mean, variance

    @rowwise
    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of all labels, averaged over the posterior.

        %(rows_to_results)s
        ndarray of shape (n, K)
        """
        return average_probabilities(*self._latent(X))

    @rowwise
    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithms of the probabilities of all labels.

        %(rows_to_results)s
        ndarray of shape (n, K)
        """
        return np.log(np.maximum(self.predict_proba(X), np.finfo(float).tiny))

    def plot(self, X: Any, y: Any = None, *, ax: Any = None) -> Any:
        """Plot the probabilities of a classifier of one or two features.

        For one feature, the picture has one line per label. For two features, colors show the probability of the second
        of two labels, or the most likely of several labels, paler where it is less likely.

        Parameters
        ----------
        X : array-like of shape (n, 1) or (n, 2)
            Rows, such as those of the fit. They are drawn, at most 2000 of them, and their range is shown.
        y : array-like of shape (n,), default=None
            Their labels, as which they are drawn.
        ax : matplotlib Axes, default=None
            Axes to draw into. None creates a new figure.

        Returns
        -------
        matplotlib Axes
        """
        self._check_fitted()
        return plot_classifier(self, X, y, ax)
