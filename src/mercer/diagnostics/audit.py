"""Kernel error of a fitted feature map, measured on a sample of rows, with a confidence interval."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from numbers import Integral
from typing import Any

import numpy as np

from mercer.engines import MemoryEngine, block_rows_for
from mercer.errors import DataError, NoClosedFormError, ParameterError
from mercer.maps import BaseMap
from mercer.parameters import known_names
from mercer.statistics import RowSample
from mercer.statistics.sample import seed_of

__all__ = ["Audit", "audit", "audit_matrix"]

Z_95 = 1.959963984540054  # 97.5 % quantile of the standard normal distribution


@dataclass(frozen=True)
class Audit:
    """Kernel errors of one fitted feature map, measured on all pairs of a sample of rows.

    Attributes
    ----------
    feature_map, kernel : str
        The map that was measured, and the kernel that it approximates.
    n_components : int
        Number of components of the map.
    n_rows : int
        Number of rows of the sample, all pairs of which were compared.
    rmse : float
        Root mean squared error of the approximate kernel over pairs of different rows.
    rmse_interval : tuple of float
        95 % confidence interval for the root mean squared error of this fitted map over the distribution of the rows.
    predicted_rmse : float or None
        Root mean squared error over the random parameters of the map, from the closed form of its variance; None if the
        map is biased or its variance has no closed form.
    relative_error : float
        Frobenius norm of the error matrix divided by the Frobenius norm of the exact kernel matrix. Both norms include
        the diagonals.
    max_error : float
        Largest absolute error over all pairs of rows in the sample, including pairs of a row with itself.
    mean_error : float
        Mean of (approximate kernel value - exact kernel value) over pairs of different rows.
    """

    feature_map: str
    kernel: str
    n_components: int
    n_rows: int
    rmse: float
    rmse_interval: tuple[float, float]
    predicted_rmse: float | None
    relative_error: float
    max_error: float
    mean_error: float

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a dictionary of built-in types."""
        return asdict(self)

    def __str__(self) -> str:
        low, high = self.rmse_interval
        predicted = "" if self.predicted_rmse is None else f", predicted {self.predicted_rmse:.3g}"
        return (
            f"{self.feature_map} with {self.n_components} components for {self.kernel}: RMSE {self.rmse:.3g} "
            f"(95 % {low:.3g} to {high:.3g}{predicted}), relative error {self.relative_error:.3g}, largest "
            f"error {self.max_error:.3g}, on all pairs of {self.n_rows} rows"
        )


@known_names
def audit(feature_map: BaseMap, X: Any, *, n_rows: int = 1000, random_state: Any = 0) -> Audit:
    """Measure how well the inner products of the features of a fitted map approximate its kernel.

    The approximate and the exact kernel are compared on all pairs of a random sample of rows.

    Parameters
    ----------
    feature_map : BaseMap
        A fitted map.
    X : array-like or CSR of shape (n, d)
        Rows from the distribution that the map will be applied to; at least 3.
    n_rows : int, default=1000
        Number of rows to sample from `X`. The cost is O(n_rows^2 (d + D)) for D components.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the sample of rows.

    Returns
    -------
    Audit
        The errors, and a confidence interval.

    See Also
    --------
    compare : Measures several maps for one kernel.

    Notes
    -----
    The mean squared error over pairs is a U-statistic of degree two. Its standard error is 2 s / sqrt(n) for n rows,
    where s is the standard deviation of the n numbers m_i, and m_i is the mean of the squared errors of the pairs of
    row i with all other rows [1]_.

    References
    ----------
    .. [1] W. Hoeffding, "A class of statistics with asymptotically normal distribution", The Annals of Mathematical
       Statistics 19(3), 293-325, 1948.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Gaussian, RandomFourier, audit
    >>> X = np.random.default_rng(0).normal(size=(500, 8))
    >>> result = audit(RandomFourier(Gaussian(3.0), 256, random_state=0).fit(X), X)
    >>> bool(result.rmse_interval[0] < result.rmse < result.rmse_interval[1] < 0.1)
    True
    """
    if not isinstance(feature_map, BaseMap):
        msg = f"audit: feature_map must be a fitted mercer map, such as model.feature_map_, got {feature_map!r}."
        raise ParameterError(msg)
    if not isinstance(n_rows, Integral) or n_rows < 3:
        msg = f"audit: n_rows must be an integer >= 3, got {n_rows!r}."
        raise ParameterError(msg)
    X = feature_map.check_rows(X)
    if X.shape[0] < 3:
        msg = f"audit needs at least 3 rows to measure an error and its interval, got {X.shape[0]}."
        raise DataError(msg)
    if X.shape[0] > n_rows:
        seed = seed_of(random_state, "audit")
        engine = MemoryEngine(X, block_rows=block_rows_for(X.shape[1]))
        X = engine.sum(lambda block: RowSample.of(block, size=int(n_rows), seed=seed)).X
    features = feature_map.apply(X)
    return audit_matrix(
        feature_map.inner_products(features, features),
        feature_map.kernel_(X),
        feature_map=type(feature_map).__name__,
        kernel=repr(feature_map.kernel_),
        n_components=feature_map.features_.n_components,
        predicted_rmse=_predicted_rmse(feature_map, X),
    )


def audit_matrix(
    approximate: np.ndarray,
    exact: np.ndarray,
    *,
    feature_map: str,
    kernel: str,
    n_components: int,
    predicted_rmse: float | None = None,
) -> Audit:
    """Return the `Audit` of an approximate kernel matrix of a sample of rows, given the exact kernel matrix.

    `feature_map`, `kernel`, `n_components` and `predicted_rmse` are copied into the result.
    """
    n = len(exact)
    error = approximate.astype(np.float64) - exact
    size = np.linalg.norm(exact)
    relative = float(np.linalg.norm(error) / size) if size > 0 else 0.0
    largest = float(np.abs(error).max())
    np.fill_diagonal(error, 0.0)
    squares = np.square(error).sum(axis=1) / (n - 1)  # for each row, the mean over the other rows
    mse, margin = squares.mean(), Z_95 * 2 * squares.std(ddof=1) / np.sqrt(n)
    return Audit(
        feature_map=feature_map,
        kernel=kernel,
        n_components=n_components,
        n_rows=n,
        rmse=float(np.sqrt(mse)),
        rmse_interval=(float(np.sqrt(max(mse - margin, 0.0))), float(np.sqrt(mse + margin))),
        predicted_rmse=predicted_rmse,
        relative_error=relative,
        max_error=largest,
        mean_error=float(error.sum() / (n * (n - 1))),
    )


def _predicted_rmse(feature_map: BaseMap, X: Any) -> float | None:
    """Return the root mean squared error over pairs of different rows, predicted from the variance of the map.

    Return None if the map is biased or its variance has no closed form.
    """
    if feature_map.unbiased is not True:
        return None  # the mean squared error of a biased map is not its variance
    try:
        variance = feature_map.known_variance(X)
    except NoClosedFormError:
        return None
    np.fill_diagonal(variance, 0.0)
    n = X.shape[0]
    return float(np.sqrt(variance.sum() / (n * (n - 1))))
