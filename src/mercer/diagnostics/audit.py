"""Kernel error of a fitted feature map over all pairs of rows, measured, or estimated with a confidence interval."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import InitVar, asdict, dataclass, replace
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from mercer.diagnostics.bins import ErrorTable, errors_in_bins
from mercer.diagnostics.downstream import RidgeEffect, SpectralError, ridge_effect, spectral_error
from mercer.diagnostics.pairs import PairSample, mean_interval, ratio_interval
from mercer.diagnostics.subject import (
    FittedMap,
    RowErrors,
    Subject,
    difference,
    inner_products,
    row_errors,
    row_features,
)
from mercer.diagnostics.widths import ErrorModel, KnownShape, WidthErrors, power_law
from mercer.errors import DataError, MercerWarning, NoClosedFormError, ParameterError
from mercer.maps import BaseMap, DrawnMap
from mercer.parameters import Choice, Integer, Interval, check_parameter, check_sequence, known_names
from mercer.statistics import row_hashes
from mercer.statistics.sample import seed_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Audit", "RowErrors", "audit", "audit_matrix", "measure", "row_errors"]

Array = np.ndarray
# Least `n_rows`: with fewer pairs, intervals of landmark maps cover less often than they claim.
LEAST_ROWS = 100
# Number of blocks of pairs from which the error is predicted; closed forms of variances can take long.
PREDICTED = 64
# Excess of the fraction of equal rows, over that expected for new rows, from which on rows count as those of the fit.
EXCESS = 0.1
# Below this value of the kernel, its square is near the smallest number of float64.
SMALL = 1e-145
# If fewer than this fraction of the rows account for the error, its text representation states it.
FEW = 0.05
# Parameters of a map that do not decide whether its components are independent.
UNRELATED = {"kernel", "n_components", "random_state", "n_jobs"}


@dataclass(frozen=True)
class Audit:
    """Kernel errors of one fitted feature map over all pairs of rows.

    The attributes are computed by `audit`. Further errors are computed by the methods when they are called: by
    distance, of the spectrum, of ridge predictions, and at other numbers of components.

    Attributes
    ----------
    feature_map, kernel : str
        The map that was measured, and the kernel that it approximates.
    n_components : int
        Number of components of the map.
    n_rows : int
        Number of rows that the errors are for.
    n_pairs : int
        Number of pairs of rows that were compared.
    all_pairs : bool
        Whether all pairs of the rows were compared. If not, the errors are estimates from random pairs.
    rmse : float
        Root mean squared error of the approximate kernel over all pairs of different rows.
    rmse_interval : tuple of float
        95 % confidence interval for the root mean squared error over all pairs of these rows. If all pairs were
        compared, it is known, and both ends are equal to `rmse`.
    effective_rows : float
        Number of rows that account for the error: (sum of m_i)^2 / (sum of m_i^2), where m_i is the mean of the squared
        errors of the pairs of row i with the other rows. It is `n_rows` if all rows have equal errors, and nearly one
        if the pairs of a single row have all of it. If it is small, the error on other rows of the same
        distribution can be very different.
    predicted_rmse : float or None
        Root mean squared error over the random parameters of the map, from the closed form of its variance; None if the
        map is biased, its variance has no closed form, or the variance is not finite for some of the pairs.
    relative_error : float
        Frobenius norm of the error matrix divided by the Frobenius norm of the exact kernel matrix. Both norms include
        the diagonals.
    relative_error_interval : tuple of float
        95 % confidence interval for `relative_error` over all pairs of these rows.
    max_error : float
        Largest absolute error over the pairs that were compared, including all pairs of a row with itself.
    max_error_interval : tuple of float
        Interval that contains the largest absolute error over all pairs, with certainty. The lower end is `max_error`.
        The upper end is equal to it if all pairs were compared, and for landmarks, whose largest error is that of a row
        with itself. Otherwise, it is the bound of Cauchy and Schwarz, the largest exact plus approximate k(x, x),
        since no sample of pairs shows how large the error of a pair is that it does not contain.
    mean_error : float
        Mean of (approximate kernel value - exact kernel value) over pairs of different rows: the bias of this draw.
    mean_error_interval : tuple of float
        95 % confidence interval for `mean_error` over all pairs of these rows.
    widths : tuple of WidthErrors
        Errors of other draws at the numbers of components that were passed as `widths`.
    """

    feature_map: str
    kernel: str
    n_components: int
    n_rows: int
    n_pairs: int
    all_pairs: bool
    rmse: float
    rmse_interval: tuple[float, float]
    effective_rows: float
    predicted_rmse: float | None
    relative_error: float
    relative_error_interval: tuple[float, float]
    max_error: float
    max_error_interval: tuple[float, float]
    mean_error: float
    mean_error_interval: tuple[float, float]
    widths: tuple[WidthErrors, ...] = ()
    subject: InitVar[Subject | None] = None

    def __post_init__(self, subject: Subject | None) -> None:
        vars(self)["_measured"] = subject  # not a field: it is neither compared nor part of `to_dict`

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes as a dictionary of built-in types."""
        return asdict(self)

    def __str__(self) -> str:
        low, high = self.rmse_interval
        beside = [] if self.all_pairs else [f"95 % {low:.3g} to {high:.3g}"]
        beside += [] if self.predicted_rmse is None else [f"predicted {self.predicted_rmse:.3g}"]
        details = f" ({', '.join(beside)})" if beside else ""
        pairs = f"on all pairs of {self.n_rows} rows"
        if not self.all_pairs:
            pairs = f"estimated for all pairs of {self.n_rows} rows from {self.n_pairs} of them"
        few = ""
        if self.rmse > 0 and self.effective_rows < FEW * self.n_rows:
            few = f"; about {max(1, round(self.effective_rows))} of the rows account for the error"
        return (
            f"{self.feature_map} with {self.n_components} components for {self.kernel}: RMSE {self.rmse:.3g}{details}, "
            f"relative error {self.relative_error:.3g}, largest error {self.max_error:.3g}, {pairs}{few}"
        )

    def summary(self) -> str:
        """Return all errors as text of several lines; those that methods compute are computed."""
        interval = "" if self.all_pairs else " (95 % {:.3g} to {:.3g})"
        certain = "" if len(set(self.max_error_interval)) == 1 else " of the pairs compared, at most {1:.3g} of all"
        lines = [
            str(self),
            f"mean error {self.mean_error:.3g}" + interval.format(*self.mean_error_interval),
            f"relative error {self.relative_error:.3g}" + interval.format(*self.relative_error_interval),
            f"largest error {self.max_error:.3g}" + certain.format(*self.max_error_interval),
            str(self.spectral()),
        ]
        try:
            lines.append(str(self.ridge()))
        except DataError as error:  # too few rows
            lines.append(f"no effect on ridge predictions: {error}")
        try:
            lines.append(f"{self.components_for(self.rmse / 2)} components for half the RMSE, {self.prediction_method}")
        except ParameterError as error:
            lines.append(f"no prediction for other widths: {error}")
        return "\n".join([*lines, str(self.by_distance())])

    # ---- further errors, computed when they are asked for --------------------------------------

    def by_distance(self, n_bins: int = 10, by: Literal["distance", "kernel"] = "distance") -> ErrorTable:
        """Return mean errors and root mean squared errors of pairs by their distance, or by their kernel value.

        The edges of the bins are quantiles of a sample of pairs, so that all bins contain about equally many pairs. The
        errors are those of the pairs of `audit`, which are compared again, at the same cost.

        Parameters
        ----------
        n_bins : int, default=10
            Number of bins. There are fewer if so many quantiles are equal.
        by : {"distance", "kernel"}, default="distance"
            Whether bins are of the Euclidean distance of the rows, or of the exact kernel value.

        Returns
        -------
        ErrorTable
            One row per bin, with 95 % confidence intervals for the errors over all pairs in the bin.
        """
        check_parameter("Audit.by_distance", "n_bins", n_bins, Integer(1))
        check_parameter("Audit.by_distance", "by", by, Choice("distance", "kernel"))
        return errors_in_bins(self._subject("by_distance"), int(n_bins), by)

    def spectral(self, n_rows: int = 1000, *, penalty: float | None = None, noise: float = 0.1) -> SpectralError:
        """Return the error of the kernel matrix as an operator, in the spectral norm, and relative to a ridge penalty.

        Parameters
        ----------
        n_rows : int, default=1000
            Largest number of rows, which are a random sample of the rows of `audit` if these are more. The time is
            O(n_rows^3), that of a few eigenvalue decompositions, and that of another audit for the interval.
        penalty : float, default=None
            Penalty p of `SpectralError.epsilon`. None means the one of `ridge` for these rows.
        noise : float, default=0.1
            As in `ridge`.

        Returns
        -------
        SpectralError
        """
        check_parameter("Audit.spectral", "n_rows", n_rows, Integer(2))
        check_parameter("Audit.spectral", "penalty", penalty, Interval(0, None, closed="neither") | Choice(None))
        check_parameter("Audit.spectral", "noise", noise, Interval(0, None, closed="neither"))
        return spectral_error(self._subject("spectral"), int(n_rows), penalty, noise)

    def ridge(self, n_rows: int = 1000, *, noise: float = 0.1) -> RidgeEffect:
        """Return what the error of the kernel costs in ridge regression: the squared error that it adds.

        A ridge predictor on the features of the map is compared with one on the exact kernel. Both are fitted to one
        half of the rows, with the penalty for which the exact kernel has the least leave-one-out error, and predict the
        other half. If `audit` was given targets `y`, these are predicted. Otherwise, the errors are expected values
        for a random function from a Gaussian process with this kernel, observed with noise; they have a closed form, no
        function is drawn, and the penalty is the variance of the noise.

        Parameters
        ----------
        n_rows : int, default=1000
            Largest number of rows, which are a random sample of the rows of `audit` if these are more. The time is
            O(n_rows^3).
        noise : float, default=0.1
            Variance of the noise of random functions, as a fraction of the mean of k(x, x). It is not used with `y`.

        Returns
        -------
        RidgeEffect
        """
        check_parameter("Audit.ridge", "n_rows", n_rows, Integer(2))
        check_parameter("Audit.ridge", "noise", noise, Interval(0, None, closed="neither"))
        return ridge_effect(self._subject("ridge"), int(n_rows), noise)

    def predict_rmse(self, n_components: int) -> float:
        """Return the root mean squared error that is predicted for another number of components.

        For unbiased maps with a closed form of the variance, it is that of the closed form at this number, for the
        same pairs: the root of the expected mean squared error over draws. For other unbiased maps, it is the measured
        error times the root of the ratio of the numbers of components. This is exact for independent components, and
        for averages of independent draws; coupled components, such as orthogonal frequencies, usually have less error.
        Errors of biased maps, such as landmarks, are extrapolated from the measured one by a power law, at the rate
        between the errors at the two largest of the numbers of components that were passed to `audit` as `widths`.
        `prediction_method` says which.

        Parameters
        ----------
        n_components : int
            Number of components, at least 1.

        Returns
        -------
        float

        Raises
        ------
        ParameterError
            If nothing is known of the error at other numbers of components.
        """
        check_parameter("Audit.predict_rmse", "n_components", n_components, Integer(1))
        return self._model.predict(int(n_components))

    def predict_interval(self, n_components: int) -> tuple[float, float] | None:
        """Return a 95 % interval for the root mean squared error of a new draw with another number of components.

        It needs draws of the map, from the parameter `widths` of `audit`, and a map with closed form or with
        independent components. None is returned otherwise: a power law that holds at some widths need not hold at
        others, so that an extrapolation by it has an error of unknown size.
        """
        check_parameter("Audit.predict_interval", "n_components", n_components, Integer(1))
        return self._model.interval(int(n_components))

    def components_for(self, tol: float) -> int:
        """Return the number of components for which the predicted root mean squared error is at most `tol`.

        It is the least such number, up to half a percent, and as accurate as `predict_rmse`.
        """
        check_parameter("Audit.components_for", "tol", tol, Interval(0, None, closed="neither"))
        found = self._model.components_for(float(tol))
        if found is None:
            msg = (
                f"Audit.components_for: no number of components of {self.feature_map} is predicted to have an RMSE of "
                f"{tol:g} or less, {self.prediction_method}. Try a larger tol, or another map."
            )
            raise ParameterError(msg)
        return found

    @property
    def prediction_method(self) -> str:
        """How the errors at other numbers of components are predicted."""
        return self._model.method

    def plot(self) -> Figure:
        """Return a Matplotlib figure of the errors.

        It shows errors by distance with their intervals, approximate against exact kernel values of random pairs and,
        if it can be predicted, the error against the number of components. Matplotlib is needed:
        ``pip install "mercer[report]"``.
        """
        from mercer.diagnostics.plots import audit_figure

        return audit_figure(self, self._subject("plot"))

    @cached_property
    def _model(self) -> ErrorModel:
        return _error_model(self, self._subject("predict_rmse"))

    def _subject(self, method: str) -> Subject:
        subject = vars(self)["_measured"]
        if subject is None:
            msg = (
                f"Audit.{method}: this result does not refer to a map and rows, because it was made from matrices, or "
                "unpickled. Use the result of mercer.audit(feature_map, X) itself."
            )
            raise ParameterError(msg)
        return subject

    def __getstate__(self) -> dict[str, Any]:
        # The rows are not part of a stored result.
        return {name: None if name == "_measured" else value for name, value in vars(self).items() if name != "_model"}


@known_names
def audit(
    feature_map: BaseMap,
    X: Any,
    y: Any = None,
    *,
    n_rows: int = 1000,
    widths: Sequence[int] | None = None,
    n_draws: int = 3,
    random_state: Any = 0,
) -> Audit:
    """Measure how well the inner products of the features of a fitted map approximate its kernel.

    The approximate and the exact kernel are compared on all pairs of rows of `X`. If `X` has more than `n_rows` rows,
    they are compared on about ``n_rows**2`` random pairs, from which the errors over all pairs are estimated.

    Parameters
    ----------
    feature_map : BaseMap
        A fitted map.
    X : array-like or CSR of shape (n, d)
        The rows that the errors are for; at least 2. They should be rows that the map will be applied to, and not those
        that it was fitted to: `MercerWarning` is issued if a map with landmarks was fitted to them.
    y : array-like of shape (n,) or (n, t), default=None
        Targets, which are numbers, for `Audit.ridge`. None means random functions of the kernel.
    n_rows : int, default=1000
        Largest number of rows of which all pairs are compared; at least 100. The cost is that of the features of all
        rows of `X`, once or, if they need more than 128 MiB, once and for 32 `n_rows` random rows again, and
        O(n_rows^2 (d + D)) for the pairs, for D components.
    widths : sequence of int, default=None
        Numbers of components at which the error is measured as well, to predict it at others (`Audit.predict_rmse`).
        Maps that are built from rows, such as landmarks, are fitted to one random half of the rows and measured on the
        other half; others are fitted to all rows and measured on all. Each costs as much as a fit and an audit.
    n_draws : int, default=3
        Number of maps, with different seeds, for each of `widths`.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the random pairs, of the samples of rows and of the maps of `widths`.

    Returns
    -------
    Audit
        The errors, with confidence intervals if they are estimates. Its methods compute further errors: by distance,
        of the spectrum, of ridge predictions, and at other numbers of components. It refers to the rows and the map.

    See Also
    --------
    compare : Measures several maps for one kernel.

    Notes
    -----
    Often a few rows account for most of the error. For Nystroem features, these are rows far from all landmarks that
    have a neighbor: on 5000 rows of the California housing data, a single pair of them had 45 % of the sum of all
    squared errors. Uniformly sampled pairs miss it. The errors of k(x, x), however, are computed for all rows, and a
    pair is drawn with a probability that is a product of two numbers, one per row: half of it is proportional to this
    error, half to the exact plus the approximate k(x, x). Products of these numbers bound the squared errors, so
    no single pair dominates the estimate. There are 256 independent blocks of pairs. The interval is that of
    the mean of their estimates, corrected for their skewness [1]_.

    The interval is for the rows of `X`. It does not include that these rows are a sample of a distribution themselves:
    if few rows account for the error (`effective_rows`), a sample without these rows looks as if there were none, and
    no computation from it can give an interval that holds. To know more of a distribution, pass more rows.

    References
    ----------
    .. [1] P. Hall, "On the removal of skewness by transformation", Journal of the Royal Statistical Society B 54(1),
       221-228, 1992.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Gaussian, RandomFourier, audit
    >>> X = np.random.default_rng(0).normal(size=(3000, 8))
    >>> result = audit(RandomFourier(Gaussian(3.0), 256, random_state=0).fit(X), X, n_rows=200)
    >>> bool(result.rmse_interval[0] < result.rmse < result.rmse_interval[1] < 0.1)
    True
    >>> bool(0.45 < result.predict_rmse(1024) / result.predict_rmse(256) < 0.55)
    True
    """
    if not isinstance(feature_map, BaseMap):
        msg = f"audit: feature_map must be a fitted mercer map, such as model.feature_map_, got {feature_map!r}."
        raise ParameterError(msg)
    if not isinstance(n_rows, Integral) or n_rows < LEAST_ROWS:
        msg = (
            f"audit: n_rows must be an integer >= {LEAST_ROWS}, got {n_rows!r}. With fewer pairs of rows, the 95 % "
            "interval would not hold. For the error on few rows, pass these rows as X: all of their pairs are compared."
        )
        raise ParameterError(msg)
    X = feature_map.check_rows(X)
    if X.shape[0] < 2:
        msg = f"audit needs at least 2 rows to measure an error on pairs of different rows, got {X.shape[0]}."
        raise DataError(msg)
    _warn_of_fitted_rows(feature_map, X)
    # A copy, because the map of the caller may be fitted again before a method of the result is called.
    subject = Subject(
        type(feature_map).__name__,
        copy.copy(feature_map),
        X,
        _targets(y, X.shape[0]),
        int(n_rows),
        seed_of(random_state, "audit"),
    )
    result = measure(subject)
    if widths is None:
        return result
    return replace(result, widths=_errors_at(subject, feature_map, widths, n_draws), subject=subject)


def _targets(y: Any, n: int) -> Array | None:
    """Return the targets as a matrix of numbers with n rows."""
    if y is None:
        return None
    try:
        values = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.ndim not in (1, 2) or len(values) != n or not np.isfinite(values).all():
        msg = (
            f"audit: y must contain finite numbers, one or one row of them for each of the {n} rows of X, got an array "
            f"of shape {np.shape(y)}. Encode labels, for example by scikit-learn's LabelBinarizer."
        )
        raise DataError(msg)
    return values.reshape(n, -1)


def measure(subject: Subject) -> Audit:
    """Return the errors of a fitted map over all pairs of rows, measured or estimated."""
    feature_map, X = subject.feature_map, subject.X
    if not subject.all_pairs:
        result = _estimate(subject)
        predicted = _predicted_rmse(subject.name, feature_map, X, subject.pairs)
        return replace(result, predicted_rmse=predicted, subject=subject)
    features = feature_map.apply(X)
    return audit_matrix(
        inner_products(feature_map, features, features),
        feature_map.kernel_(X),
        feature_map=subject.name,
        kernel=repr(feature_map.kernel_),
        n_components=feature_map.features_.n_components,
        predicted_rmse=_predicted_rmse(subject.name, feature_map, X),
        subject=subject,
    )


def audit_matrix(
    approximate: Array,
    exact: Array,
    *,
    feature_map: str,
    kernel: str,
    n_components: int,
    predicted_rmse: float | None = None,
    subject: Subject | None = None,
) -> Audit:
    """Return the `Audit` of an approximate kernel matrix of some rows, given the exact kernel matrix.

    The other arguments are copied into the result.
    """
    n = len(exact)
    error = difference(approximate, exact, kernel)
    # Squares of numbers above 1e154 overflow, and those of numbers below 1e-162 underflow.
    largest, size = float(np.abs(error).max()), float(np.abs(exact).max())
    error /= largest or 1.0
    diagonal = float(np.square(np.diag(error)).sum())
    np.fill_diagonal(error, 0.0)
    sums = np.square(error).sum(axis=1)
    total = float(sums.sum())
    rmse = largest * math.sqrt(total / (n * (n - 1)))
    exact_norm = float(np.linalg.norm(exact / (size or 1.0)))
    relative = _quotient(math.sqrt(total + diagonal), exact_norm) * (largest / size if size > 0 else 1.0)
    mean = largest * float(error.sum() / (n * (n - 1)))
    return Audit(
        feature_map=feature_map,
        kernel=kernel,
        n_components=n_components,
        n_rows=n,
        n_pairs=n * (n - 1) // 2,
        all_pairs=True,
        rmse=rmse,
        rmse_interval=(rmse, rmse),
        effective_rows=_effective_rows(total, float(np.square(sums).sum()), n),
        predicted_rmse=predicted_rmse,
        relative_error=relative,
        relative_error_interval=(relative, relative),
        max_error=largest,
        max_error_interval=(largest, largest),
        mean_error=mean,
        mean_error_interval=(mean, mean),
        subject=subject,
    )


def _estimate(subject: Subject) -> Audit:
    """Return the `Audit` for all pairs of the rows, without `predicted_rmse`, from about ``n_rows**2`` random pairs."""
    n, feature_map = subject.n, subject.feature_map
    features = row_features(feature_map, subject.X)
    rows = row_errors(feature_map, subject.X, features)
    pairs = subject.sampled(rows)
    scale, largest = float(rows.size.max()) or 1.0, float(rows.residual.max())
    estimates = np.empty((len(pairs.left), 4))
    for block, _, _, exact, error in subject.errors(features):
        largest = max(largest, float(np.abs(error).max()))
        error /= scale
        squares = np.square(error)
        sums = pairs.sums(block, squares, error, np.square(exact / scale))
        estimates[block] = [*sums, pairs.sum_of_squares(block, squares)]
    total, mean, _, of_squares = estimates.mean(axis=0).tolist()
    low, high = mean_interval(estimates[:, 0])
    n_ordered = n * (n - 1)
    squares, norms = (
        sums + float(np.square(diagonal / scale).sum())
        for sums, diagonal in ((estimates[:, 0], rows.residual), (estimates[:, 2], rows.exact))
    )
    relative = _quotient(math.sqrt(squares.mean()), math.sqrt(norms.mean()))
    between = ratio_interval(squares, norms) if norms.mean() > 0 else (relative, relative)
    means = mean_interval(estimates[:, 1], skewed=False)
    certain = largest if feature_map.residual_is_kernel else max(largest, float(rows.size.max()))
    return Audit(
        feature_map=subject.name,
        kernel=repr(feature_map.kernel_),
        n_components=feature_map.features_.n_components,
        n_rows=n,
        n_pairs=pairs.n_pairs,
        all_pairs=False,
        rmse=scale * math.sqrt(total / n_ordered),
        rmse_interval=(scale * math.sqrt(max(low, 0.0) / n_ordered), scale * math.sqrt(high / n_ordered)),
        effective_rows=_effective_rows(total, of_squares, n),
        predicted_rmse=None,
        relative_error=relative,
        relative_error_interval=(math.sqrt(max(between[0], 0.0)), math.sqrt(between[1])),
        max_error=largest,
        max_error_interval=(largest, certain),
        mean_error=scale * mean / n_ordered,
        mean_error_interval=(scale * means[0] / n_ordered, scale * means[1] / n_ordered),
    )


# ---- other numbers of components ------------------------------------------------------------------


def _redrawn(feature_map: BaseMap, n_components: int, seed: int | None) -> BaseMap:
    """Return an unfitted copy of a map with its resolved kernel, and another number of components and seed."""
    feature_map = _chosen(feature_map)
    if "n_components" not in feature_map.get_params(deep=False):
        msg = (
            f"audit: {type(feature_map).__name__} has no parameter n_components, so that its error at other numbers of "
            "components cannot be measured or predicted. Audit maps of different widths, one by one."
        )
        raise ParameterError(msg)
    return feature_map.with_kernel(feature_map.kernel_).set_params(n_components=n_components, random_state=seed)


def _chosen(feature_map: BaseMap) -> BaseMap:
    """Return the map that is drawn again: the one that `feature_map` chose when it was fitted, or the map itself."""
    chosen = getattr(feature_map, "map_", None)
    return chosen if isinstance(chosen, BaseMap) else feature_map


def _errors_at(subject: Subject, feature_map: BaseMap, widths: Sequence[int], n_draws: int) -> tuple[WidthErrors, ...]:
    """Return the errors of maps of other widths, on rows that they were not built from."""
    check_parameter("audit", "n_draws", n_draws, Integer(1))
    for width in check_sequence("audit", "widths", widths, "numbers of components, such as (64, 128)"):
        check_parameter("audit", "widths", width, Integer(1))
    fitted = others = subject.X
    if feature_map.built_from_rows:
        if subject.n < 4:
            msg = f"audit: widths needs at least 4 rows, half of which {subject.name} is fitted to, got {subject.n}."
            raise DataError(msg)
        rows = subject.some_rows(subject.n, "widths")
        fitted, others = subject.X[rows[: subject.n // 2]], subject.X[rows[subject.n // 2 :]]
    seeds = iter(subject.generator("draws").integers(2**31, size=len(widths) * n_draws).tolist())
    results: dict[int, list[float]] = {}
    for width in widths:
        for _ in range(n_draws):
            drawn = _redrawn(feature_map, int(width), next(seeds))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", MercerWarning)  # the caller has seen those of the map itself
                drawn.fit(fitted)
                measured = measure(replace(subject, feature_map=drawn, X=others, y=None))
            results.setdefault(measured.n_components, []).append(measured.rmse)
    return tuple(WidthErrors(width, tuple(errors)) for width, errors in sorted(results.items()))


def _error_model(result: Audit, subject: Subject) -> ErrorModel:
    """Return the prediction of the error at other numbers of components."""
    feature_map, name = subject.feature_map, subject.name
    if not isinstance(feature_map, BaseMap):
        msg = f"Audit: the error of {name} at other widths is not predicted, because it is a map of another library."
        raise ParameterError(msg)
    if result.predicted_rmse is not None:
        return KnownShape("by the closed form of its variance", _ClosedForm(subject, feature_map), result.widths)
    if feature_map.unbiased is True:
        independent = _has_independent_components(feature_map)
        measured = (WidthErrors(result.n_components, (result.rmse,)), *result.widths)
        # Errors of coupled components fall faster than one over the root at small widths, so that these are not used.
        least = 1 if independent else max(one.n_components for one in measured)
        used = [(one.n_components, error) for one in measured for error in one.rmse if one.n_components >= least]
        largest = max(error for _, error in used)  # squares of the errors of tiny kernels underflow
        level = largest * math.sqrt(np.mean([width * (error / (largest or 1.0)) ** 2 for width, error in used]))
        how = "its independent components" if independent else "independent draws of it, which coupled ones exceed"
        method = f"from {len(used)} measured errors, at the rate one over the root of the width, as for {how}"
        return KnownShape(method, lambda width: level / math.sqrt(width), result.widths if independent else ())
    if result.widths:
        return power_law(result.widths, result.n_components, result.rmse, name)
    msg = (
        f"Audit: the error of {name} at other widths does not follow from that at {result.n_components} components, "
        "because the map is biased. Measure it at two or more numbers of components: "
        f"audit(feature_map, X, widths=({max(1, result.n_components // 4)}, "
        f"{max(2, result.n_components // 2)}))."
    )
    raise ParameterError(msg)


@dataclass(frozen=True)
class _ClosedForm:
    """The root mean squared error as a function of the number of components, from the closed form of the variance."""

    subject: Subject
    feature_map: BaseMap

    def __call__(self, width: int) -> float:
        subject = self.subject
        drawn = _redrawn(self.feature_map, width, 0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MercerWarning)
            predicted = _predicted_rmse(
                subject.name, drawn.fit(subject.X), subject.X, None if subject.all_pairs else subject.pairs
            )
        if predicted is None:
            msg = f"Audit: the variance of {subject.name} with {width} components is not finite for some pairs of rows."
            raise ParameterError(msg)
        return predicted


def _has_independent_components(feature_map: BaseMap) -> bool:
    """Return whether the components of a fitted map are independent and identically distributed."""
    feature_map = _chosen(feature_map)
    if not isinstance(feature_map, DrawnMap):
        return False
    independent = feature_map.with_independent_components(feature_map.kernel_, feature_map.n_components)
    if independent is None:
        return False
    mine, theirs = feature_map.get_params(deep=False), independent.get_params(deep=False)
    return all(repr(mine[name]) == repr(theirs[name]) for name in mine.keys() - UNRELATED)


def _effective_rows(total: float, sum_of_squares: float, n: int) -> float:
    """Return (sum of sums over rows)^2 / (sum of their squares); n if all errors are zero."""
    if total <= 0 or sum_of_squares <= 0:
        return float(n)
    return float(min(max(total / sum_of_squares * total, 1.0), n))


def _quotient(error: float, size: float) -> float:
    """Return the relative error. It is zero if there is no error, also for a kernel that is zero."""
    if size == 0:
        return 0.0 if error == 0 else math.inf
    return error / size


def _predicted_rmse(name: str, feature_map: FittedMap, X: Any, pairs: PairSample | None = None) -> float | None:
    """Return the root mean squared error over pairs of different rows, predicted from the variance of the map.

    It is estimated from a sample of pairs, if one is given. Return None if the map is biased, its variance has no
    closed form, or the variance is not in the range of float64 for some of the pairs; in the last case, also warn.
    """
    if feature_map.unbiased is not True:
        return None  # the mean squared error of a biased map is not its variance
    n = X.shape[0]
    infinite, compared = 0, 0
    largest, sums = [], []  # of each block; the sums are divided by the largest value, since they could overflow
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            for block, variance in _variances(feature_map, X, pairs):
                infinite += int(np.count_nonzero(~np.isfinite(variance)))
                compared += variance.size
                largest.append(float(variance.max()))
                scaled = variance / largest[-1] if 0 < largest[-1] < math.inf else variance
                sums.append(float(scaled.sum()) if pairs is None else pairs.sums(block, scaled)[0])
    except NoClosedFormError:
        return None
    if infinite > 0:
        _warn(
            f"audit: predicted_rmse is None, because the variance of {name} is infinite, or exceeds the largest number "
            f"of float64, for {infinite} of {compared} pairs of rows. The other results are measured."
        )
        return None
    scale = max(largest)
    if scale < SMALL**2 and 0 < float(np.max(feature_map.kernel_.diag(X))) < SMALL:
        _warn(
            f"audit: predicted_rmse is None, because the variance of {name} is below the smallest number of float64. "
            "Scale the rows or the kernel up."
        )
        return None
    if scale <= 0:
        return 0.0
    total = float(np.mean([one / scale * value for one, value in zip(largest, sums, strict=True)]))
    return math.sqrt(scale) * math.sqrt(max(total, 0.0) / (n * (n - 1)))


def _variances(feature_map: FittedMap, X: Any, pairs: PairSample | None) -> Iterator[tuple[int, Array]]:
    """Yield the numbers of blocks of pairs and the variances of their pairs; all pairs are a single block."""
    if pairs is None:
        variance = feature_map.known_variance(X)
        np.fill_diagonal(variance, 0.0)
        yield 0, variance
        return
    for block in range(PREDICTED):
        yield block, feature_map.known_variance(X[pairs.left[block]], X[pairs.right[block]])


def _warn_of_fitted_rows(feature_map: BaseMap, X: Any) -> None:
    """Warn if many rows of `X` are rows that the map was built from, where its error is smaller than on other rows.

    New rows can be equal to rows of the fit by coincidence, if their values are discrete. A row of the fit is then as
    likely to occur among the rows of `X` as another row of `X` is, and a row of `X` is as likely to occur among the
    rows of the fit as another row of the fit is: only rows that are found more often count.
    """
    fitted = feature_map.fitted_rows_
    if fitted is None:
        return
    rows = row_hashes(X)
    for some, others in ((fitted, rows), (rows, fitted)):
        found = float(np.isin(some, others).mean())
        repeated = _repeated(others)
        noise = 3 * math.sqrt(repeated * (1 - repeated) / min(len(some), len(others)))
        if found > repeated + noise + EXCESS:
            _warn(
                f"audit: {int(np.isin(rows, fitted).sum())} of the {len(rows)} rows of X are among the rows that "
                f"{type(feature_map).__name__} was built from. Its error on these rows is smaller than on other rows. "
                "Pass rows that were not used to fit the map."
            )
            return


def _repeated(hashes: Array) -> float:
    """Return the fraction of rows that are equal to another row, given the hashes of all rows."""
    _, inverse, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    return float((counts[inverse] > 1).mean())


def _warn(message: str) -> None:
    warnings.warn(message, MercerWarning, stacklevel=5)
