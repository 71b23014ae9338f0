"""The kernel test of conditional independence, on random features, in linear time."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.engines import Block, Engine, Report, enter_stage, reported, stages_of
from mercer.engines.base import blas_threads_for
from mercer.errors import DataError, MercerWarning, ParameterError
from mercer.hypothesis_tests.given.chi_squares import WeightedChiSquares
from mercer.hypothesis_tests.given.conditioning import (
    BothTargets,
    FirstRegression,
    Residuals,
    SideFeatures,
    conditioning_features,
    improvements,
    residual_targets,
    residuals,
)
from mercer.hypothesis_tests.given.tuning import tuned_regression
from mercer.hypothesis_tests.groups import sample_engine
from mercer.parameters import Interval, check_parameter, known_names
from mercer.statistics.sample import RowSample, seed_of

__all__ = ["ConditionalIndependenceTest", "conditional_independence_test"]

Array = np.ndarray
# Number of rows from which ranks, lengthscales and the metric are computed.
SAMPLE_ROWS = 4000
# Number of rows whose products of residuals are computed at a time.
TILE_ROWS = 1024
# Least number of rows: the moments of fewer products of residuals say nothing about a distribution.
LEAST_ROWS = 20
# Share of the variance of the statistic, relative to that of plain products, of products that vary with z.
MODULATED_SHARE = 0.5
# If z explains at least this share of a variable, the variable is a function of z: what is left of it is the error of
# the regression, and nothing can be learned from it.
FUNCTION_OF_Z = 0.9999
# Up to this p-value of the first regressions, regressions with tuned kernels follow, whose p-value is the result.
TUNED_UP_TO = 0.1
# Features of x and y may be too rough in z even for tuned kernels, if these leave more than this multiple of the share
# of the columns of x, and of those of y, unexplained.
ROUGHER = 2.0
# They may also be too rough if the first regressions underfit: if tuned kernels lower the leave-one-out error of the
# columns of x and of those of y by more than this number of standard errors.
IMPROVED = 1.0
# The residuals of both sides depend on z if both of their p-values are at most this.
UNRESOLVED = 0.01
# Statistics below this fraction of their terms are rounding error.
TIE = 1e-20


@dataclass(frozen=True)
class ConditionalIndependenceTest:
    """Result of `conditional_independence_test`.

    Attributes
    ----------
    statistic : float
        Sum of the squared covariances of the residuals of x and y, times the number of rows.
    p_value : float
        Probability that the weighted sum of chi-squared variables, which the statistic is in the limit under
        conditional independence, is at least the observed statistic.
    log_p_value : float
        Natural logarithm of the p-value, which does not underflow.
    weights : ndarray of shape (k,)
        Weights of the chi-squared variables, in decreasing order.
    rows : int
        Number of rows.
    n_features : tuple of int
        Number of columns of x, y and z.
    components : tuple of int
        Number of components of x, y and z.
    explained : tuple of float
        Shares of the variances of the components of x and y that z explains, by leave-one-out; or of their columns, by
        generalized cross-validation, if kernels were tuned.
    degrees : tuple of float
        Effective degrees of freedom of these two regressions.
    passes : int
        Number of passes over the rows.
    unresolved : tuple of float or None
        P-values of the hypotheses that the residuals of x, and of y, do not depend on z, by rows that are nearest in z.
        If both are small, the regressions are not resolved. None if kernels were not tuned, because the first p-value
        exceeded 0.1, or there is nothing to condition on.
    """

    statistic: float
    p_value: float
    log_p_value: float
    weights: Array = field(repr=False)
    rows: int
    n_features: tuple[int, int, int]
    components: tuple[int, int, int]
    explained: tuple[float, float]
    degrees: tuple[float, float]
    passes: int
    unresolved: tuple[float, float] | None = None
    name: str = "conditional_independence_test"

    def threshold(self, level: float = 0.05) -> float:
        """Return the value that the statistic must exceed for a p-value of at most `level`.

        Parameters
        ----------
        level : float, default=0.05
            Significance level, in (0, 1).

        Returns
        -------
        float
        """
        check_parameter("threshold", "level", level, Interval(0, 1, closed="neither"))
        return WeightedChiSquares(self.weights).isf(level)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain Python values, with the mean and standard deviation of the null distribution.

        Returns
        -------
        dict
        """
        null = WeightedChiSquares(self.weights)
        return {
            "name": self.name,
            "statistic": self.statistic,
            "p_value": self.p_value,
            "log_p_value": self.log_p_value,
            "null_mean": null.mean,
            "null_std": null.std,
            "threshold_5_percent": self.threshold(0.05),
            "rows": self.rows,
            "n_features": list(self.n_features),
            "components": list(self.components),
            "explained": list(self.explained),
            "degrees": list(self.degrees),
            "passes": self.passes,
            "unresolved": None if self.unresolved is None else list(self.unresolved),
        }

    def plot(self) -> Any:
        """Return a Matplotlib figure of the null distribution, with the observed statistic and the critical value.

        Returns
        -------
        matplotlib.figure.Figure
            It has a method ``savefig(path)``.
        """
        from matplotlib.figure import Figure

        null = WeightedChiSquares(self.weights)
        figure = Figure(figsize=(6, 3.2), layout="constrained")
        axes = figure.add_subplot()
        if len(null.weights):
            ends = np.linspace(0, max(null.isf(1e-4), 1.05 * self.statistic), 201)
            tail = np.array([null.sf(v) for v in ends])
            axes.fill_between(0.5 * (ends[1:] + ends[:-1]), -np.diff(tail) / np.diff(ends), color="0.8")
            axes.axvline(self.threshold(), color="0.4", linestyle="--", label="critical value at 5 %")
        axes.axvline(self.statistic, color="C3", label="observed")
        axes.set(xlabel="statistic", ylabel="density under independence", title=f"p = {self.p_value:.3g}")
        axes.legend(frameon=False)
        return figure

    def __repr__(self) -> str:
        x, y = (f"{100 * e:.0f} %" for e in self.explained)
        given = f"z explains {x} of x and {y} of y" if self.n_features[2] else "no conditioning variables"
        return (
            f"{self.name}: p = {self.p_value:.3g}, statistic {self.statistic:.4g}, critical value at 5 % "
            f"{self.threshold():.4g}; {given}; {self.rows:,} rows, {self.components[2]:,} components of z"
        )


@known_names
def conditional_independence_test(
    X: Any,
    Y: Any,
    Z: Any = None,
    *,
    data: Any = None,
    n_jobs: int | None = None,
    random_state: Any = 0,
    progress: bool | Report = False,
) -> ConditionalIndependenceTest:
    r"""Test whether x and y are independent given z, at a cost that is linear in the number of rows.

    Random features of x and of y are regressed on features of z by ridge regression, and the statistic is the squared
    norm of the covariances of the residuals, times the number of rows. Under the null hypothesis it is a weighted sum
    of chi-squared variables in the limit, with weights that are estimated from the products of residuals. The test
    belongs to the family of RCIT and RCoT [1]_ and of the generalized covariance measure [2]_; the Notes list what is
    different.

    Parameters
    ----------
    X : array-like or CSR of shape (n,) or (n, d), or columns of `data`
        The first variable. Its columns may have any units and distributions: numbers, integers with ties, indicators.
    Y : array-like or CSR of shape (n,) or (n, e), or columns of `data`
        The second variable.
    Z : array-like or CSR of shape (n,) or (n, f), columns of `data`, or None, default=None
        The variables that are conditioned on. None, or no columns, means a test of independence.
    data : array-like, data frame, iterable of blocks, result of `open_rows`, or Dask collection, default=None
        Rows that contain all variables. If it is given, `X`, `Y` and `Z` are names or indices of its columns, or lists
        of these. Files and Dask collections are never loaded completely: they are read in four passes, three if
        there are no conditioning variables, and seven to ten if kernels are tuned.
    n_jobs : int or None, default=None
        Number of threads; None means all cores. The result does not depend on it.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the random features. The p-value depends on it slightly.
    progress : bool or callable, default=False
        True shows the progress on a terminal, in a notebook, or as lines of a log; a callable receives a `Progress`
        after each block.

    Returns
    -------
    ConditionalIndependenceTest
        With the attributes `statistic`, `p_value` and `weights`, and the methods `threshold`, `to_dict` and `plot`.

    See Also
    --------
    hsic_test : Test of independence, which is exact by permutations.

    Notes
    -----
    No test of conditional independence has a guaranteed level and power for all continuous distributions [2]_. Here the
    level is right if the regressions on z converge: the bias of the statistic is the product of the biases of both
    regressions. Therefore

    - columns are replaced by normal scores of their ranks, which changes no hypothesis and removes units and tails,
    - the number of components of z grows as the root of the number of rows, up to 1200,
    - a metric on z is learned, which stretches the directions in which x and y vary,
    - the penalty of each regression minimizes the leave-one-out error,
    - products of residuals are also multiplied by functions of z, so that a dependence whose sign changes with z is
      found,
    - the variance of the statistic is corrected for the degrees of freedom of the regressions,
    - if the p-value is at most 0.1, kernels are tuned whose lengthscales, one per column of z, maximize the marginal
      likelihood [3]_ for the columns of x and of y separately, from many starting points; the features of x and y are
      regressed again with these kernels, and the p-value of their residuals is the result,
    - if their p-value is at most 0.1 too, x and y may be rough functions of z, of which features of x and y are even
      rougher functions. Then the test is repeated with features of the residuals of the columns, and the result is the
      larger p-value. This is so if features of x and those of y have more than twice the unexplained share of the
      columns, or if tuned kernels lower the leave-one-out errors of the columns of x and of y by more than a standard
      error. Columns are coded by their values or by normal scores, whichever is more likely.

    With D components of z and n rows, the test takes time O(n D^2) and memory O(D^2) beside the rows. Tuning takes some
    tenths of a second more. The attribute `explained` of the result shows how much z explains. If x and y depend on z
    by a function that has no smooth approximation at the given number of rows, such as one with jumps, p-values are too
    small. A `MercerWarning` is raised if a small p-value may be due to this, because residuals of rows that are near
    each other in z are alike, see the attribute `unresolved`.

    If z explains at least 99.99 % of x or of y, the p-value is 1: a function of z is independent of everything given z.

    References
    ----------
    .. [1] Strobl, Zhang, Visweswaran (2019), Approximate kernel-based conditional independence tests for fast
       non-parametric causal discovery, Journal of Causal Inference.
    .. [2] Shah, Peters (2020), The hardness of conditional independence testing and the generalized covariance measure,
       Annals of Statistics.
    .. [3] Rasmussen, Williams (2006), Gaussian Processes for Machine Learning, section 5.4, MIT Press.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import conditional_independence_test
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(1000, 2))
    >>> x = np.tanh(z[:, 0]) + 0.5 * rng.normal(size=1000)
    >>> y = np.exp(z[:, 0] + 0.5 * rng.normal(size=1000))
    >>> conditional_independence_test(x, y).p_value < 1e-10
    True
    >>> conditional_independence_test(x, y, z).p_value > 0.05
    True
    """
    engine, sides = _joint_rows(X, Y, Z, data, n_jobs)
    report = stages_of("conditional_independence_test", progress)
    with reported(report):
        return _tested(engine, sides, random_state, report)


def _tested(
    engine: Engine, sides: tuple[tuple[int, ...], ...], random_state: Any, report: Report | None
) -> ConditionalIndependenceTest:
    """Return the result for an engine over joint rows, and the columns of x, y and z."""
    rng = np.random.default_rng(seed_of(random_state, "features"))
    enter_stage(report, "sample rows")
    drawn = engine.sum(SampleRows(SAMPLE_ROWS, seed_of(random_state, "sample")), report)
    if drawn.seen < LEAST_ROWS:
        msg = f"conditional_independence_test needs at least {LEAST_ROWS} rows, got {drawn.seen}."
        raise DataError(msg)
    # The rows of a file may be sorted, and several computations below use the first rows of the sample.
    sample = dense(drawn.X)[rng.permutation(len(drawn.key))]
    enter_stage(report, "learn metric")
    with blas_threads_for(1):
        targets = BothTargets(SideFeatures.of(sample, sides[0], rng), SideFeatures.of(sample, sides[1], rng))
        F, _ = targets(Block(0, sample))
        features = conditioning_features(sample, sides[2], F, drawn.seen, rng)
    n_features = (len(sides[0]), len(sides[1]), len(sides[2]))
    components = (targets.x.n_components, targets.y.n_components, features.n_components)
    if 0 in components[:2]:  # a constant is independent of everything
        return ConditionalIndependenceTest(
            0.0, 1.0, 0.0, np.zeros(0), drawn.seen, n_features, components, (0.0, 0.0), (0.0, 0.0), 1
        )
    enter_stage(report, "regress")
    left = residuals(engine, targets, features, report)
    found = _statistic(engine, left, report)
    explained, degrees, passes = left.explained, left.degrees, 3 if left.features is None else 4
    unresolved = None
    if left.features is not None and found.p_value <= TUNED_UP_TO:
        tuned = tuned_regression(engine, sample, sides, targets, features, drawn.seen, rng, report)
        first, unresolved = tuned.first, tuned.unresolved
        explained, degrees = first.explained, first.degrees
        components = (*components[:2], first.features.n_components)
        left, passes = residuals(engine, targets, first.features, report, tuned.spectrum), passes + 3
        found = _statistic(engine, left, report)
        rough = found.p_value <= TUNED_UP_TO and are_rougher(left, first)
        if found.p_value <= TUNED_UP_TO and not rough:
            rough, passes = bool(improvements(engine, tuned.before, first, report).min() > IMPROVED), passes + 1
        if rough:
            with blas_threads_for(1):
                of_residuals = residual_targets(first, sample, rng)
            if of_residuals.x.n_components and of_residuals.y.n_components:
                left, passes = residuals(engine, of_residuals, first.features, report), passes + 2
                found = max(found, _statistic(engine, left, report), key=lambda test: test.log_p_value)
    if max(explained) >= FUNCTION_OF_Z:
        found = replace(found, p_value=1.0, log_p_value=0.0)
    if unresolved is not None and max(unresolved) <= UNRESOLVED and found.p_value <= 0.05:
        warn_unresolved(unresolved)
    return replace(
        found,
        rows=drawn.seen,
        n_features=n_features,
        components=components,
        explained=explained,
        degrees=degrees,
        passes=passes,
        unresolved=unresolved,
    )


def are_rougher(features: Residuals, columns: FirstRegression) -> bool:
    """Return whether features of x, and those of y, are much less explained by z than the columns.

    Noise of small variance is explained as little in a smooth feature of a column as in the column itself. Where the
    column is a function of z, much of a feature that remains is what the regression of the feature does not resolve.
    """
    shares = zip(features.explained, columns.explained, strict=True)
    return all(1 - feature > ROUGHER * (1 - column) for feature, column in shares)


def warn_unresolved(unresolved: tuple[float, float]) -> None:
    """Warn that the residuals of x and of y still depend on z, given the p-values of this."""
    warnings.warn(
        "conditional_independence_test: the residuals of X and of Y still depend on Z (p-values of rows nearest in Z: "
        f"{unresolved[0]:.1g} and {unresolved[1]:.1g}), so that the p-value is too small if they depend on it alike. "
        "Z has too few rows for functions as rough as these. Try more rows, or columns of Z on which X and Y depend "
        "smoothly, such as indicators of the intervals between jumps.",
        MercerWarning,
        stacklevel=5,
    )


def _statistic(engine: Engine, left: Residuals, report: Report | None) -> ConditionalIndependenceTest:
    """Return the result for residuals, without what it does not depend on."""
    enter_stage(report, "multiply residuals")
    total = engine.sum(ResidualProducts(left), report)
    plain = left.targets.x.n_components * left.targets.y.n_components
    statistic, weights = null_weights(total, plain, left.inflation)
    null = WeightedChiSquares(weights)
    log_p = null.log_sf(statistic if statistic > TIE else 0.0)
    nothing = (0, 0, 0)
    return ConditionalIndependenceTest(
        statistic,
        float(np.exp(log_p)),
        log_p,
        null.weights,
        total.rows,
        nothing,
        nothing,
        left.explained,
        left.degrees,
        0,
    )


# ---- sums over rows ----------------------------------------------------------------------------


@dataclass(frozen=True)
class SampleRows:
    """Function of a block that returns a random sample of its rows."""

    size: int
    seed: int

    def __call__(self, block: Block) -> RowSample:
        return RowSample.of(block, size=self.size, seed=self.seed)


@dataclass(frozen=True)
class ProductMoments:
    """First and second moments of products of residuals; a value that supports ``+``."""

    rows: int
    sums: Array  # (k,)
    squares: Array  # (k, k)

    def __add__(self, other: ProductMoments) -> ProductMoments:
        return ProductMoments(self.rows + other.rows, self.sums + other.sums, self.squares + other.squares)


@dataclass(frozen=True, eq=False)
class ResidualProducts:
    """Function of a block that returns the moments of products of residuals of x and y.

    The first entries of a vector of products are all products of a residual of x and one of y. They are followed by the
    products of the leading residuals with functions of z.
    """

    residuals: Residuals

    def __call__(self, block: Block) -> ProductMoments:
        from mercer.hypothesis_tests.given.conditioning import MODULATED

        sums: Any = 0.0
        squares: Any = 0.0
        for start in range(0, len(block), TILE_ROWS):
            X = dense(block.X[start : start + TILE_ROWS])
            x, y = self.residuals(X)
            products = (x[:, :, None] * y[:, None, :]).reshape(len(X), -1)
            if self.residuals.features is not None:
                lead = (x[:, :MODULATED, None] * y[:, None, :MODULATED]).reshape(len(X), -1)
                factors = self.residuals.features.modulation(X)
                more = (lead[:, :, None] * factors[:, None, :]).reshape(len(X), -1)
                products = np.concatenate([products, more], axis=1)
            sums = sums + products.sum(axis=0)
            squares = squares + products.T @ products
        return ProductMoments(len(block), sums, squares)


def null_weights(total: ProductMoments, plain: int, inflation: float) -> tuple[float, Array]:
    """Return the statistic, and the weights of the chi-squared variables that it is a sum of under the null hypothesis.

    Parameters
    ----------
    total : ProductMoments
        Moments over all rows.
    plain : int
        Number of products that are not multiplied by functions of z.
    inflation : float
        Factor of the variances, see `Residuals`.
    """
    n = total.rows
    variance = np.diagonal(total.squares) / n
    scale = np.ones(len(variance))
    modulated = float(variance[plain:].sum())
    if modulated > 0:
        scale[plain:] = np.sqrt(MODULATED_SHARE * float(variance[:plain].sum()) / modulated)
    statistic = float(np.square(total.sums * scale).sum()) / n
    covariance = total.squares * (scale[:, None] * scale) * (inflation / n)
    with blas_threads_for(1):
        return statistic, np.linalg.eigvalsh(covariance)[::-1]


# ---- inputs ------------------------------------------------------------------------------------


def dense(X: Any) -> Array:
    """Return rows as a dense array in float64."""
    return (X.toarray() if sp.issparse(X) else X).astype(np.float64, copy=False)


def _joint_rows(
    X: Any, Y: Any, Z: Any, data: Any, n_jobs: int | None
) -> tuple[Engine, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
    """Return an engine over rows that contain x, y and z, and their columns."""
    owner = "conditional_independence_test"
    if data is not None:
        engine, names = sample_engine(f"{owner}: data", data, n_jobs=n_jobs)
        width = engine.first().X.shape[1]
        x, y, z = (_columns(owner, side, chosen, names, width) for side, chosen in zip("XYZ", (X, Y, Z), strict=True))
        if not x or not y:
            msg = f"{owner}: X and Y must name at least one column of data each, got {X!r} and {Y!r}."
            raise ParameterError(msg)
        return engine, (x, y, z)
    parts = [_variable(f"{owner}: {name}", value) for name, value in zip("XYZ", (X, Y, Z), strict=True)]
    rows = parts[0].shape[0]
    if parts[2] is None:
        parts[2] = np.zeros((rows, 0))
    if any(part.shape[0] != rows for part in parts):
        msg = (
            f"{owner}: X, Y and Z are observed together and must have equal length, got "
            f"{', '.join(str(part.shape[0]) for part in parts)} rows."
        )
        raise DataError(msg)
    engine, _ = sample_engine(owner, np.concatenate([part.astype(np.float64) for part in parts], axis=1), n_jobs=n_jobs)
    ends = np.cumsum([0, *(part.shape[1] for part in parts)]).tolist()
    x, y, z = (tuple(range(ends[i], ends[i + 1])) for i in range(3))
    return engine, (x, y, z)


def _variable(name: str, value: Any) -> Any:
    """Return one variable as a dense matrix with one row per observation; None remains None for z."""
    from mercer.data.sources import source_of
    from mercer.kernels.base import as_rows

    if value is None:
        if name.endswith("Z"):
            return None
        msg = f"{name} must be an array with one row per observation, got None."
        raise DataError(msg)
    if not sp.issparse(value):
        if getattr(value, "ndim", None) == 1 or (isinstance(value, Sequence) and value and np.ndim(value[0]) == 0):
            value = np.asarray(value).reshape(-1, 1)
        if hasattr(value, "shape") and len(value.shape) == 2 and value.shape[1] == 0 and name.endswith("Z"):
            return np.zeros((value.shape[0], 0))
    return dense(as_rows(_Name(name), source_of(value, owner=name).in_memory(name)))


@dataclass(frozen=True)
class _Name:
    """An object whose repr is the name of a variable, which `as_rows` shows in error messages."""

    name: str

    def __repr__(self) -> str:
        return self.name


def _columns(owner: str, side: str, chosen: Any, names: tuple[str, ...] | None, width: int) -> tuple[int, ...]:
    """Return indices of columns, given names or indices, one or a list of them; None means no columns."""
    if chosen is None:
        return ()
    wanted = [chosen] if isinstance(chosen, str | int | np.integer) else list(chosen)
    out = []
    for column in wanted:
        if isinstance(column, str):
            if names is None or column not in names:
                known = "data without names" if names is None else f"the columns {', '.join(names)}"
                msg = f"{owner}: {side} must name columns of data, got {column!r} and {known}."
                raise ParameterError(msg)
            out.append(names.index(column))
        elif isinstance(column, int | np.integer) and -width <= column < width:
            out.append(int(column) % width)
        else:
            msg = f"{owner}: {side} must be names or indices of the {width} columns of data, got {column!r}."
            raise ParameterError(msg)
    return tuple(out)
