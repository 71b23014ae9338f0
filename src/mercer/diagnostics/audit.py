"""Kernel error of a fitted feature map over all pairs of rows, measured, or estimated with a confidence interval."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np

from mercer.diagnostics.pairs import PairSample, mean_interval, row_probabilities, sample_pairs
from mercer.engines import block_rows_for
from mercer.errors import DataError, MercerWarning, NoClosedFormError, ParameterError
from mercer.maps import BaseMap
from mercer.parameters import known_names
from mercer.statistics import row_hashes
from mercer.statistics.sample import seed_of

__all__ = ["Audit", "RowErrors", "audit", "audit_matrix", "row_errors"]

Array = np.ndarray
# Least `n_rows`: with fewer pairs, intervals of landmark maps cover less often than they claim.
LEAST_ROWS = 100
# Errors of k(x, x) below this many roundings of k(x, x) are not distinguished from zero.
ROUNDINGS = 64
# Features of all rows are stored up to this size, and computed again for each pair above it.
STORED_BYTES = 2**27
# Number of blocks of pairs from which the error is predicted; closed forms of variances can take long.
PREDICTED = 64
# Excess of the fraction of equal rows, over that expected for new rows, from which on rows count as those of the fit.
EXCESS = 0.1
# Below this value of the kernel, its square is near the smallest number of float64.
SMALL = 1e-145
# If fewer than this fraction of the rows account for the error, its text representation states it.
FEW = 0.05


@dataclass(frozen=True)
class Audit:
    """Kernel errors of one fitted feature map over all pairs of rows.

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
    max_error : float
        Largest absolute error over the pairs that were compared, including all pairs of a row with itself.
    mean_error : float
        Mean of (approximate kernel value - exact kernel value) over pairs of different rows.
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
    max_error: float
    mean_error: float

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a dictionary of built-in types."""
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


@known_names
def audit(feature_map: BaseMap, X: Any, *, n_rows: int = 1000, random_state: Any = 0) -> Audit:
    """Measure how well the inner products of the features of a fitted map approximate its kernel.

    The approximate and the exact kernel are compared on all pairs of rows of `X`. If `X` has more than `n_rows` rows,
    they are compared on about `n_rows`^2 random pairs, from which the errors over all pairs are estimated.

    Parameters
    ----------
    feature_map : BaseMap
        A fitted map.
    X : array-like or CSR of shape (n, d)
        The rows that the errors are for; at least 2. They should be rows that the map will be applied to, and not those
        that it was fitted to: `MercerWarning` is issued if a map with landmarks was fitted to them.
    n_rows : int, default=1000
        Largest number of rows of which all pairs are compared; at least 100. The cost is that of the features of all
        rows of `X`, once or, if they need more than 128 MiB, once and for 32 `n_rows` random rows again, and
        O(n_rows^2 (d + D)) for the pairs, for D components.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the random pairs.

    Returns
    -------
    Audit
        The errors, with a confidence interval if they are estimates.

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
    if X.shape[0] > n_rows:
        rng = np.random.default_rng(seed_of(random_state, "audit"))
        result, pairs = _estimate(feature_map, X, int(n_rows), rng)
        return replace(result, predicted_rmse=_predicted_rmse(feature_map, X, pairs))
    features = feature_map.apply(X)
    return audit_matrix(
        _inner_products(feature_map, features, features),
        feature_map.kernel_(X),
        feature_map=type(feature_map).__name__,
        kernel=repr(feature_map.kernel_),
        n_components=feature_map.features_.n_components,
        predicted_rmse=_predicted_rmse(feature_map, X),
    )


def audit_matrix(
    approximate: Array,
    exact: Array,
    *,
    feature_map: str,
    kernel: str,
    n_components: int,
    predicted_rmse: float | None = None,
) -> Audit:
    """Return the `Audit` of an approximate kernel matrix of some rows, given the exact kernel matrix.

    `feature_map`, `kernel`, `n_components` and `predicted_rmse` are copied into the result.
    """
    n = len(exact)
    error = _difference(approximate, exact, kernel)
    # Squares of numbers above 1e154 overflow, and those of numbers below 1e-162 underflow.
    largest, size = float(np.abs(error).max()), float(np.abs(exact).max())
    error /= largest or 1.0
    diagonal = float(np.square(np.diag(error)).sum())
    np.fill_diagonal(error, 0.0)
    sums = np.square(error).sum(axis=1)
    total = float(sums.sum())
    rmse = largest * math.sqrt(total / (n * (n - 1)))
    exact_norm = float(np.linalg.norm(exact / (size or 1.0)))
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
        relative_error=_quotient(math.sqrt(total + diagonal), exact_norm) * (largest / size if size > 0 else 1.0),
        max_error=largest,
        mean_error=largest * float(error.sum() / (n * (n - 1))),
    )


def _estimate(feature_map: BaseMap, X: Any, n_rows: int, rng: np.random.Generator) -> tuple[Audit, PairSample]:
    """Return the `Audit` for all pairs of the rows of `X`, without `predicted_rmse`, and the pairs that were compared.

    The errors are estimated from about `n_rows`^2 random pairs.
    """
    n, name, kernel = X.shape[0], repr(feature_map.kernel_), feature_map.kernel_
    features = _row_features(feature_map, X)
    rows = row_errors(feature_map, X, features)
    pairs = sample_pairs(rows.probability, n_rows, rng)
    scale, largest = float(rows.size.max()) or 1.0, float(rows.residual.max())
    estimates = np.empty((len(pairs.left), 4))
    for block, (left, right) in enumerate(zip(pairs.left, pairs.right, strict=True)):
        exact = kernel(X[left], X[right]).astype(np.float64)
        error = _difference(_inner_products(feature_map, features(left), features(right)), exact, name)
        largest = max(largest, float(np.abs(error).max()))
        error /= scale
        squares = np.square(error)
        sums = pairs.sums(block, squares, error, np.square(exact / scale))
        estimates[block] = [*sums, pairs.sum_of_squares(block, squares)]
    total, mean, exact_total, of_squares = estimates.mean(axis=0).tolist()
    low, high = mean_interval(estimates[:, 0])
    n_ordered = n * (n - 1)
    squared_error = total + float(np.square(rows.residual / scale).sum())
    squared_norm = exact_total + float(np.square(rows.exact / scale).sum())
    result = Audit(
        feature_map=type(feature_map).__name__,
        kernel=name,
        n_components=feature_map.features_.n_components,
        n_rows=n,
        n_pairs=pairs.n_pairs,
        all_pairs=False,
        rmse=scale * math.sqrt(total / n_ordered),
        rmse_interval=(scale * math.sqrt(max(low, 0.0) / n_ordered), scale * math.sqrt(high / n_ordered)),
        effective_rows=_effective_rows(total, of_squares, n),
        predicted_rmse=None,
        relative_error=_quotient(math.sqrt(squared_error), math.sqrt(squared_norm)),
        max_error=largest,
        mean_error=scale * mean / n_ordered,
    )
    return result, pairs


def _row_features(feature_map: BaseMap, X: Any) -> Callable[[Any], Array]:
    """Return a function from indices of rows to their features. The features are stored if they are not too large."""
    itemsize = feature_map.features_.output_dtype(X.dtype).itemsize
    if X.shape[0] * feature_map.features_.n_components * itemsize <= STORED_BYTES:
        return feature_map.apply(X).__getitem__
    return lambda rows: feature_map.apply(X[rows])


@dataclass(frozen=True)
class RowErrors:
    """Errors of k(x, x) for all rows x, and the probabilities of rows in pairs that are drawn to measure errors."""

    exact: Array  # (n,), k(x, x)
    size: Array  # (n,), k(x, x) + |z(x)|^2
    residual: Array  # (n,), absolute error of k(x, x)
    probability: Array  # (n,), see `row_probabilities`


def row_errors(feature_map: BaseMap, X: Any, features: Callable[[Any], Array] | None = None) -> RowErrors:
    """Return the errors of k(x, x) for all validated rows x, with features of the rows by index, if given."""
    features = _row_features(feature_map, X) if features is None else features
    n, name = X.shape[0], repr(feature_map.kernel_)
    step = block_rows_for(max(feature_map.features_.n_components, X.shape[1]), X.dtype.itemsize)
    exact, norms, approximate = np.empty(n), np.empty(n), np.empty(n)
    for start in range(0, n, step):
        rows = slice(start, start + step)
        exact[rows] = feature_map.kernel_.diag(X[rows])
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.square(np.abs(features(rows)).astype(np.float64))
            norms[rows] = squares.sum(axis=1)
            approximate[rows] = norms[rows] if feature_map.signs_ is None else squares @ feature_map.signs_
    with np.errstate(over="ignore", invalid="ignore"):
        size = exact + norms
    residual = np.abs(_difference(approximate, exact, name))
    if not np.isfinite(size).all():
        _raise_overflow(name, X.dtype)
    # Errors of k(x, x) that are due to rounding do not show where errors of pairs are large.
    measured = np.where(residual > ROUNDINGS * np.finfo(X.dtype).eps * size, residual, 0.0)
    return RowErrors(exact, size, residual, row_probabilities(size, measured))


def _inner_products(feature_map: BaseMap, left: Array, right: Array) -> Array:
    """Return the approximate kernel matrix, which may contain infinity; `_difference` then raises."""
    with np.errstate(over="ignore", invalid="ignore"):
        return feature_map.inner_products(left, right)


def _difference(approximate: Array, exact: Array, kernel: str) -> Array:
    """Return approximate - exact in float64; raise if a value is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        error = approximate.astype(np.float64) - exact
    if not np.isfinite(error).all():
        _raise_overflow(kernel, np.result_type(approximate, exact))
    return error


def _raise_overflow(kernel: str, dtype: Any) -> None:
    msg = (
        f"audit: {kernel} or its approximation exceeds the largest number of {np.dtype(dtype)} for some pairs of rows. "
        "Scale the rows or the kernel down."
    )
    raise DataError(msg)


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


def _predicted_rmse(feature_map: BaseMap, X: Any, pairs: PairSample | None = None) -> float | None:
    """Return the root mean squared error over pairs of different rows, predicted from the variance of the map.

    It is estimated from a sample of pairs, if one is given. Return None if the map is biased, its variance has no
    closed form, or the variance is not in the range of float64 for some of the pairs; in the last case, also warn.
    """
    if feature_map.unbiased is not True:
        return None  # the mean squared error of a biased map is not its variance
    n, name = X.shape[0], type(feature_map).__name__
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


def _variances(feature_map: BaseMap, X: Any, pairs: PairSample | None) -> Iterator[tuple[int, Array]]:
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
    warnings.warn(message, MercerWarning, stacklevel=4)
