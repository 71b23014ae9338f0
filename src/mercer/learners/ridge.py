"""Kernel ridge regression and kernel ridge classification on features."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from scipy import special

from mercer._docs import PARAGRAPHS, doc
from mercer.data.results import rowwise
from mercer.data.targets import label_codes, validate_rows
from mercer.engines import Report, enter_stage
from mercer.errors import DataError, MercerWarning, ParameterError
from mercer.features import features_of
from mercer.kernels import Kernel
from mercer.learners.base import Classifier, Fit, Regressor, available_if
from mercer.learners.local_correction import (
    NEIGHBORS,
    LabelTargets,
    LocalCorrection,
    correction_costs,
    fit_correction,
    why_rows_are_stored,
)
from mercer.maps import BaseMap
from mercer.parameters import Choice, Domain, Interval, check_parameter
from mercer.solvers.grid.moments import GridMomentSum, sums_on_grid
from mercer.solvers.ridge.jackknife import Jackknife, jackknife_of
from mercer.solvers.ridge.least_squares import RidgeSolution, is_coarse, needs_double, relative_rounding, solve_ridge
from mercer.solvers.ridge.paths import CRITERIA, Criterion, calibrated_scale, left_out_path
from mercer.statistics.distinct import DistinctRows, SampleDistinct
from mercer.statistics.moments import Moments, MomentSum, TargetRule, label_indicators, numeric_targets
from mercer.statistics.sample import seed_of

__all__ = ["KernelRidge", "KernelRidgeClassifier"]

Array = np.ndarray
# Distinct rows on which the scale of predicted probabilities is chosen.
CALIBRATION_ROWS = 1000
# The penalty of alpha="auto" where no criterion can be computed, as for a single row.
FALLBACK_ALPHA = 1.0


def has_neighbors(model: Any) -> bool:
    """Return True if a model has a local correction; otherwise raise an error that gives the reason."""
    if model.neighbors is None:
        msg = f"{type(model).__name__} has no predict_interval with neighbors=None. Try neighbors=64."
        raise AttributeError(msg)
    return True


PARAGRAPHS |= {
    "ridge_neighbors": PARAGRAPHS["neighbors"]
    + """
    With a criterion as `alpha`, so is the penalty.""",
    "ridge_alpha": """\
alpha : float, "auto", "loo", "evidence" or "gcv", default="auto"
    Penalty, as in scikit-learn; or the criterion by which it is chosen on a path of penalties, all from one
    eigendecomposition. "loo" is exact leave-one-out; it reads the rows twice. "evidence" (the marginal likelihood) and
    "gcv" (generalized cross-validation) need one pass, so they also work with `partial_fit` and iterators. "auto" is
    "loo" where rows can be read twice, and "evidence" otherwise; and 1 where neither can be computed, as for a single
    row. See Notes.""",
    "ridge_attributes": """\
alpha_ : float
    The penalty used.
criterion_ : {"loo", "evidence", "gcv"} or None
    The criterion by which it was chosen; None if `alpha` is a number.
path_ : RidgePath or None
    Scores of all penalties of the path, where `alpha` is a criterion.
rounding_ : float
    Rounding error of the second moments divided by the penalty. It estimates the relative change of predictions if
    the same rows are read in other blocks or by another engine.
feature_map_ : BaseMap
    The fitted map.
width_ : int
    Number of components of the fitted map.
statistic_ : Moments
    The sums over the rows; `partial_fit` adds to them.""",
    "ridge_criteria": """\
"loo" scores a penalty by the squared error of every row under the model that is fitted to all other rows. A row of
weight w counts as w copies, of which one is left out. It takes about three times the time of a fit with a number.
"evidence" assumes Gaussian coefficients and homoscedastic Gaussian noise. "gcv" assumes equal leverages: where a few
rows are far from all others, as with heavy-tailed features, it can choose far too small a penalty
(`benchmarks/ridge_paths.py` measures by how much).""",
}


@doc
class KernelRidge(Regressor):
    """Kernel ridge regression at linear cost.

    Ridge regression on the features of a map. Time is O(n D^2). Memory is O(D^2) plus one block of rows, never O(n D)
    or O(n^2).

    Parameters
    ----------
    %(feature_map)s
    %(ridge_alpha)s
    %(fit_intercept)s
    %(ridge_neighbors)s
    %(unlabeled_number)s
    %(common_parameters)s

    Attributes
    ----------
    coef_ : ndarray of shape (D,) or (t, D)
        Coefficients of the features.
    intercept_ : float or ndarray of shape (t,)
        Intercept.
    %(ridge_attributes)s
    %(local_)s

    See Also
    --------
    LocalCorrection : Predictions that are corrected by near rows.
    KernelRidgeClassifier : The same for labels.
    GaussianProcessRegressor : Predictions with error bars, and lengthscales tuned by the evidence.
    sklearn.kernel_ridge.KernelRidge : The exact model, in time O(n^3) and memory O(n^2), without an intercept.

    Notes
    -----
    %(ridge_criteria)s

    References
    ----------
    .. [1] Saunders, Gammerman, Vovk (1998), Ridge regression learning algorithm in dual variables, ICML.
    .. [2] Rahimi, Recht (2007), Random features for large-scale kernel machines, NIPS.
    .. [3] Golub, Heath, Wahba (1979), Generalized cross-validation as a method for choosing a good ridge parameter,
       Technometrics.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRidge, Matern
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, size=(2000, 1))
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=2000)
    >>> model = KernelRidge(Matern(nu=2.5), alpha="loo", random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.97)
    True
    >>> blocks = [(X[i : i + 500], y[i : i + 500]) for i in range(0, 2000, 500)]
    >>> streamed = KernelRidge(Matern(nu=2.5), alpha="loo", random_state=0).fit(blocks)
    >>> bool(np.allclose(model.predict(X), streamed.predict(X)))
    True
    """

    parameter_domains: ClassVar[Mapping[str, Domain]] = {
        "alpha": Interval(0) | Choice("auto", *CRITERIA),
        "neighbors": NEIGHBORS,
    }
    solved = frozenset({"coef_", "intercept_", "alpha_", "criterion_", "path_", "rounding_", "local_"})
    solves_gram = True

    def __init__(
        self,
        feature_map: BaseMap | Kernel | None = None,
        *,
        alpha: float | Criterion | Literal["auto"] = "auto",
        fit_intercept: bool = True,
        neighbors: int | Literal["auto"] | LocalCorrection | None = None,
        unlabeled: Any = None,
        block_size: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: bool | Report = False,
    ) -> None:
        self.feature_map = feature_map
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.neighbors = neighbors
        self.unlabeled = unlabeled
        self.block_size = block_size
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress

    def _several_passes(self) -> str | None:
        return why_two_passes(self.alpha) or why_rows_are_stored(self.neighbors)

    def _costs(self, n: int, D: int) -> dict[str, float]:
        more = correction_costs(self.neighbors, self.alpha, n, self.n_features_in_, D)
        return {**solving_costs(self.alpha, n, D), **more}

    def _statistic(self, fit: Fit) -> MomentSum | GridMomentSum:
        return moment_sum(self, fit, numeric_targets)

    def _solve(self, statistic: Moments, fit: Fit | None) -> None:
        self._check_parameters()
        self.statistic_ = refined(self, statistic, fit, numeric_targets)
        solution = solve(self, self.statistic_, fit)
        self.coef_ = solution.coef[:, 0] if self._single else solution.coef.T
        self.intercept_ = float(solution.intercept[0]) if self._single else solution.intercept
        self.alpha_, self.path_ = solution.alpha, solution.path
        self.criterion_ = None if solution.path is None else solution.path.criterion
        self.rounding_ = relative_rounding(self.statistic_, solution.alpha)
        self.local_ = None
        if fit is not None and self.neighbors is not None:
            rule = penalty_rule(self.alpha, fit)
            self.local_ = fit_correction(self, solution, rule, fit, np.asarray, labels=False)

    @rowwise
    def predict(self, X: Any, return_std: bool = False, *, with_noise: bool = False) -> Any:
        """Return the predicted targets of rows, and their standard deviations if there is a local correction.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d), files, or Dask collection
            Rows. For a Dask collection the result is a Dask array that is not computed yet.
        return_std : bool, default=False
            Whether to also return standard deviations. They require the parameter `neighbors`.
        with_noise : bool, default=False
            Whether standard deviations are those of a new target rather than of the function.

        Returns
        -------
        mean : ndarray of shape (n,) or (n, t)
        std : ndarray of shape (n,) or (n, t)
            Returned if `return_std` is True.
        """
        self._check_fitted()
        if self.local_ is None:
            if return_std:
                msg = (
                    f"{type(self).__name__}: return_std=True needs a local correction, got neighbors=None. Try "
                    "neighbors=64, or GaussianProcessRegressor."
                )
                raise ParameterError(msg)
            values = self._linear(X, np.atleast_2d(self.coef_).T, np.atleast_1d(self.intercept_))
            return values[:, 0] if self._single else values
        X = validate_rows(self, X, reset=False)
        mean, std = self.local_.predict(X, return_std=return_std, with_noise=with_noise, n_jobs=self.n_jobs)
        if self._single:
            mean, std = mean[:, 0], None if std is None else std[:, 0]
        return (mean, std) if return_std else mean

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
        >>> from mercer import Gaussian, KernelRidge
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-3, 3, size=(300, 1))
        >>> y = np.sin(X[:, 0]) + 0.1 * rng.standard_t(3, size=300)
        >>> model = KernelRidge(Gaussian(1.0), alpha=0.1, random_state=0).fit(X[:200], y[:200])
        >>> lower, upper = model.jackknife(X[:200], y[:200]).interval(X[200:], coverage=0.9).T
        >>> bool(0.82 < ((lower <= y[200:]) & (y[200:] <= upper)).mean() <= 1)
        True
        """
        self._check_fitted()
        if self.local_ is not None:
            msg = f"{type(self).__name__}: jackknife needs neighbors=None. Use predict_interval, or fit without them."
            raise ParameterError(msg)
        X, y = self._labeled_arrays(X, y)
        return jackknife_of(
            type(self).__name__,
            self.feature_map_,
            X,
            y,
            alpha=np.array([self.alpha_]),
            coef=np.atleast_2d(self.coef_).T,
            intercept=np.atleast_1d(self.intercept_),
            fit_intercept=bool(self.fit_intercept),
            mean_offset=False,
            single=self._single,
        )

    @available_if(has_neighbors)
    @rowwise
    def predict_interval(self, X: Any, coverage: float = 0.9) -> Array:
        """Return intervals that contain a new target with a given probability.

        The intervals are centered at the predictions. Their half-width is the standard deviation of a new target times
        the quantile of the leave-one-out residuals, divided by their standard deviations, of a sample of 2000 rows. So
        targets need not be normally distributed.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d), files, or Dask collection
            Rows. For a Dask collection the result is a Dask array that is not computed yet.
        coverage : float, default=0.9
            Probability, > 0 and < 1.

        Returns
        -------
        ndarray of shape (n, 2) or (n, t, 2)
            Lower and upper ends.
        """
        check_parameter(type(self).__name__, "coverage", coverage, Interval(0, 1, closed="neither"))
        self._check_fitted()
        if self.local_ is None:
            msg = f"{type(self).__name__}: predict_interval needs a fit with neighbors, got a fit without. Fit again."
            raise ParameterError(msg)
        X = validate_rows(self, X, reset=False)
        mean, std = self.local_.predict(X, return_std=True, with_noise=True, n_jobs=self.n_jobs)
        assert std is not None
        half = std * self.local_.quantile(coverage)
        ends = np.stack([mean - half, mean + half], axis=-1)
        return ends[:, 0] if self._single else ends


@doc
class KernelRidgeClassifier(Classifier):
    r"""Kernel ridge classification at linear cost.

    Ridge regression with one column of targets per label: +1 for rows with this label and -1 for all others. The label
    of the largest decision value is predicted. For two labels there is a single column, with +1 for the second label.
    Labels need not be known in advance: they may appear in any block.

    Parameters
    ----------
    %(feature_map)s
    %(ridge_alpha)s
    %(fit_intercept)s
    %(ridge_neighbors)s
    %(unlabeled_label)s
    %(block_size)s
    %(n_jobs)s
    random_state : int, Generator, RandomState or None, default=None
        Seed of the map, unless `feature_map` is a map with a seed of its own, and of the sample on which probabilities
        are calibrated.
    %(progress)s

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Labels of rows with a positive weight, or given to `partial_fit`, sorted.
    coef_ : ndarray of shape (K, D), or (1, D) for two labels
        Coefficients of the features.
    intercept_ : ndarray of shape (K,) or (1,)
        Intercepts.
    probability_scale_ : float
        The factor a of `predict_proba`.
    %(ridge_attributes)s
    %(local_)s

    See Also
    --------
    KernelLogisticRegression : Probabilities at the minimum of the logarithmic loss.
    KernelSVC : The squared hinge loss.
    sklearn.linear_model.RidgeClassifier : The same model on given features.

    Notes
    -----
    %(ridge_criteria)s

    Probabilities are :math:`\mathrm{softmax}(a f(x))` of the decision values f, and :math:`1 / (1 + e^{-a f})` for two
    labels. The factor a > 0 minimizes the logarithmic loss of the leave-one-out decision values of a seeded sample of
    1000 distinct training rows. These decision values are exact, and computed from the leverages. An additional row,
    which has each label with equal probability, keeps the factor finite. The factor never changes which label is the
    most probable.

    References
    ----------
    .. [1] Rifkin, Yeo, Poggio (2003), Regularized least-squares classification, in Advances in Learning Theory, IOS
       Press.
    .. [2] Platt (1999), Probabilistic outputs for support vector machines, in Advances in Large Margin Classifiers,
       MIT Press.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from mercer import KernelRidgeClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> model = KernelRidgeClassifier(alpha="loo", random_state=0).fit(X_train, y_train)
    >>> bool(model.score(X_test, y_test) > 0.97)
    True
    """

    parameter_domains: ClassVar[Mapping[str, Domain]] = KernelRidge.parameter_domains
    solved = KernelRidge.solved | {"probability_scale_"}
    solves_gram = True

    __init__ = KernelRidge.__init__  # the same parameters

    def _several_passes(self) -> str | None:
        return why_two_passes(self.alpha) or why_rows_are_stored(self.neighbors)

    def _costs(self, n: int, D: int) -> dict[str, float]:
        more = correction_costs(self.neighbors, self.alpha, n, self.n_features_in_, D)
        return {**solving_costs(self.alpha, n, D), **more}

    def _statistic(self, fit: Fit) -> MomentSum | GridMomentSum:
        return moment_sum(self, fit, label_indicators)

    def _solve(self, statistic: Moments, fit: Fit | None) -> None:
        self._check_parameters()
        labels = statistic.labels
        assert labels is not None
        self._check_two_labels(labels)
        self.statistic_ = statistic = refined(self, statistic, fit, label_indicators)
        solution = solve(self, statistic.signed(), fit, labels)
        self.classes_ = labels
        self.coef_, self.intercept_ = solution.coef.T, solution.intercept
        self.alpha_, self.path_ = solution.alpha, solution.path
        self.criterion_ = None if solution.path is None else solution.path.criterion
        self.rounding_ = relative_rounding(statistic, solution.alpha)
        self.local_ = None
        if fit is not None and self.neighbors is not None:
            rule = penalty_rule(self.alpha, fit)
            self.local_ = fit_correction(self, solution, rule, fit, LabelTargets(labels), labels=True)
            self.probability_scale_ = self.local_.probability_scale()
        else:
            self.probability_scale_ = self._calibrated(solution, statistic.sample, labels)

    def _calibrated(self, solution: RidgeSolution, sample: DistinctRows | None, labels: Array) -> float:
        assert sample is not None
        Z = features_of(self.feature_map_.features_.astype(np.float64), sample.X.astype(np.float64))
        fitted = Z @ solution.coef + solution.intercept
        codes = label_codes(np.asarray(sample.y), labels)
        return calibrated_scale(fitted, codes, len(labels), solution.leverages(Z), sample.weight)

    @rowwise
    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of all labels; the formula is in the Notes of the class.

        %(rows_to_results)s
        ndarray of shape (n, K)
        """
        logits = self.decision_function(X).astype(np.float64) * self.probability_scale_
        if logits.ndim == 1:
            positive = special.expit(logits)
            return np.column_stack([1 - positive, positive])
        return special.softmax(logits, axis=1)


def penalty_rule(alpha: float | Criterion | Literal["auto"], fit: Fit | None) -> float | Criterion:
    """Return the parameter `alpha`, or the criterion that "auto" means for the rows of a fit.

    `fit` is None after `partial_fit`.
    """
    if not isinstance(alpha, str) or alpha != "auto":
        return alpha
    return "loo" if fit is not None and fit.labeled.replayable else "evidence"


def why_two_passes(alpha: float | Criterion | Literal["auto"]) -> str | None:
    """Return the reason why a fit with this `alpha` reads the rows twice, or None if one pass suffices."""
    if not (isinstance(alpha, str) and alpha == "loo"):
        return None
    return "alpha='loo' reads the rows twice. Use alpha='evidence' or alpha='gcv', which need one pass."


def moment_sum(model: Any, fit: Fit, targets: TargetRule, *, double: bool | None = None) -> MomentSum | GridMomentSum:
    """Return an empty accumulator of the moments. If targets are labels, it also samples rows for calibration."""
    sample = None
    if targets is numeric_targets and sums_on_grid(model.feature_map_.features_):
        return GridMomentSum(model.feature_map_.features_, fit.labeled.first())
    if targets is label_indicators:
        seed = seed_of(fit.random_state, "calibration")
        sample = SampleDistinct(CALIBRATION_ROWS, seed)
    return MomentSum(
        model.feature_map_.features_,
        targets,
        double=needs_double(model.alpha) if double is None else double,
        centered=bool(model.fit_intercept),
        sample=sample,
        n_rows=fit.labeled.n_rows,
    )


def refined(model: Any, moments: Moments, fit: Fit | None, targets: TargetRule) -> Moments:
    """Return moments that are accurate enough for the penalty.

    If the rounding error of moments in float32 exceeds the penalty, and the rows can be read again, the moments are
    summed once more in float64. Otherwise the given moments are returned.
    """
    if fit is None or not fit.labeled.replayable or not is_coarse(moments, model.alpha):
        return moments
    enter_stage(fit.report, "sum over rows in float64")
    accumulator: Any = moment_sum(model, fit, targets, double=True)
    return fit.accumulate(accumulator)


def solve(model: Any, moments: Moments, fit: Fit | None, labels: Array | None = None) -> RidgeSolution:
    """Return the ridge solution for the parameter `alpha` of a model, given the moments.

    With leave-one-out, the rows of `fit` are read once more. For a classifier, `labels` are all labels, sorted.
    """
    left_out, alpha = None, penalty_rule(model.alpha, fit)
    if fit is not None and alpha == "loo":
        left_out = partial(
            left_out_path,
            engine=fit.labeled,
            features=model.feature_map_.features_,
            fit_intercept=model.fit_intercept,
            labels=labels,
            report=fit.report,
        )
    report = None if fit is None else fit.report
    enter_stage(report, "decompose moments" if isinstance(alpha, str) else "solve")
    options = {"fit_intercept": model.fit_intercept, "left_out": left_out}
    if not isinstance(model.alpha, str) or model.alpha != "auto":
        return solve_ridge(moments, alpha, **options)
    with warnings.catch_warnings():
        # A default may be at an end of the path, where targets have no noise or the rows explain nothing.
        warnings.simplefilter("ignore", MercerWarning)
        try:
            return solve_ridge(moments, alpha, **options)
        except DataError:
            return solve_ridge(moments, FALLBACK_ALPHA, **options)


def solving_costs(alpha: float | Criterion | Literal["auto"], n: int, D: int) -> dict[str, float]:
    """Return the stages of `solve` and their costs, for n rows and D components."""
    if not isinstance(alpha, str):
        return {"solve": 0.3 * D**3}
    scoring = {"score penalties": 1.1 * n * D**2} if alpha in ("auto", "loo") else {}
    return {"decompose moments": 3.0 * D**3, **scoring}
