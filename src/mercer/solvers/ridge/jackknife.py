r"""Leave-one-out predictions of a ridge regression without a refit, and intervals with a guarantee from them.

Let :math:`h_i(x)` be the weight of target i in the prediction at x, and :math:`e_i` the residual of row i. Without row
i the prediction at x is :math:`\hat\mu(x) - h_i(x)\, e_i / (1 - h_i(x_i))`. This is exact for a fixed penalty and fixed
features. With :math:`R_i = |y_i - \hat\mu_{-i}(x_i)|`, the jackknife+ interval [1]_ of coverage :math:`1 - \alpha` has
the ends

.. math:: \hat q^-_\alpha \{\hat\mu_{-i}(x) - R_i\}, \qquad \hat q^+_{1 - \alpha} \{\hat\mu_{-i}(x) + R_i\},

the :math:`\lfloor \alpha (n + 1) \rfloor`-th smallest and the :math:`\lceil (1 - \alpha)(n + 1) \rceil`-th smallest of
these numbers. If rows are exchangeable, and features and penalty do not depend on them, it contains a new target with
probability at least :math:`1 - 2 \alpha`, and in practice about :math:`1 - \alpha`. The interval of jackknife-minmax,
:math:`[\min_i \hat\mu_{-i}(x) - \hat q^+_{1-\alpha}\{R_i\}, \max_i \hat\mu_{-i}(x) + \hat q^+_{1-\alpha}\{R_i\}]`, is
wider, and contains it with probability at least :math:`1 - \alpha`.

References
----------
.. [1] Barber, Candes, Ramdas, Tibshirani (2021), Predictive inference with the jackknife+, Annals of Statistics 49,
   486-507.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.linalg

from mercer.engines import empty_rows, fill_rows
from mercer.errors import DataError, ParameterError
from mercer.maps import BaseMap

__all__ = ["Jackknife", "jackknife_of"]

Array = np.ndarray
# Number of predictions without a row that are in memory at a time.
ENTRIES = 4_000_000
# Largest relative difference of predictions on the rows, by the coefficients of these rows and by those of the model.
SAME = 1e-4
# Least value of one minus the leverage of a row.
LEAST_MARGIN = 1e-10


@dataclass(frozen=True, eq=False)
class Jackknife:
    """Leave-one-out predictions of the rows of a fit, and intervals for new targets.

    Attributes
    ----------
    predictions : ndarray of shape (n,) or (n, t)
        The prediction at each row by the model without this row.
    residuals : ndarray of shape (n,) or (n, t)
        Targets minus these predictions.
    leverages : ndarray of shape (n,) or (n, t)
        The weight of the target of each row in its own prediction.
    """

    feature_map: BaseMap  # fitted
    coef: Array  # (D, t)
    intercept: Array  # (t,)
    center: Array  # (D,), subtracted from features
    white: tuple[Array, ...]  # (n, D) per column of targets or one for all: weights of targets are products with them
    whiten: tuple[Array, ...]  # (D, D): centered features times this are `white` features
    constant: float  # weight of each target that is due to an intercept
    drift: Array | None  # (D + 1, t): how predictions change with a prior mean that is the mean of the targets
    shifts: Array  # (n, t): the change of that mean if a row is left out; zero if there is no such mean
    predictions_: Array  # (n, t)
    residuals_: Array  # (n, t)
    leverages_: Array  # (n, t)
    single: bool

    def _shaped(self, values: Array) -> Array:
        return values[:, 0] if self.single else values

    @property
    def predictions(self) -> Array:
        return self._shaped(self.predictions_)

    @property
    def residuals(self) -> Array:
        return self._shaped(self.residuals_)

    @property
    def leverages(self) -> Array:
        return self._shaped(self.leverages_)

    def interval(
        self, X: Any, coverage: float = 0.9, *, method: Literal["jackknife+", "minmax"] = "jackknife+"
    ) -> Array:
        """Return intervals that contain new targets with a given probability.

        Parameters
        ----------
        X : array-like or CSR of shape (m, d)
            Rows.
        coverage : float, default=0.9
            The probability 1 - a that is aimed at. It is at least 1 - 2 a for "jackknife+" and 1 - a for "minmax".
        method : {"jackknife+", "minmax"}, default="jackknife+"
            The interval.

        Returns
        -------
        ndarray of shape (m, 2) or (m, t, 2)
            Lower and upper ends. They are infinite if there are too few rows for this coverage: 1 / a - 1 are needed.

        Notes
        -----
        Predictions without each of the n rows are computed for blocks of new rows, in time O(m n D). For many rows, the
        intervals are nearly those of the plain jackknife, and ``GaussianProcessRegressor.predict_interval`` computes
        calibrated intervals in time O(m D^2), without this guarantee.
        """
        if not (isinstance(coverage, int | float) and 0 < coverage < 1):
            msg = f"Jackknife: coverage must be a number between 0 and 1, got {coverage!r}."
            raise ParameterError(msg)
        if method not in ("jackknife+", "minmax"):
            msg = f"Jackknife: method must be 'jackknife+' or 'minmax', got {method!r}."
            raise ParameterError(msg)
        X = self.feature_map.check_rows(X)
        n, t = self.residuals_.shape
        out = np.empty((X.shape[0], t, 2))
        sizes = np.abs(self.residuals_)
        step = max(1, ENTRIES // n)
        for start in range(0, X.shape[0], step):
            rows = slice(start, start + step)
            Z = float_features(self.feature_map, X[rows])
            for column in range(t):
                without = self._without(Z, column)
                size = sizes[:, column]
                if method == "jackknife+":
                    out[rows, column, 0] = -upper_quantile(size - without, coverage)
                    out[rows, column, 1] = upper_quantile(size + without, coverage)
                else:
                    reach = upper_quantile(size[None], coverage)
                    out[rows, column, 0] = without.min(axis=1) - reach
                    out[rows, column, 1] = without.max(axis=1) + reach
        return out[:, 0] if self.single else out

    def _without(self, Z: Array, column: int) -> Array:
        """Return the predictions (m, n) at rows with features `Z` without each row of the fit."""
        index = column if len(self.white) > 1 else 0
        white = (Z - self.center) @ self.whiten[index]
        weights = white @ self.white[index].T + self.constant
        out = (Z @ self.coef[:, column] + self.intercept[column])[:, None] - weights * self.residuals_[:, column]
        if self.drift is not None:
            moved = Z @ self.drift[:-1, column] + self.drift[-1, column]
            out += np.outer(moved, self.shifts[:, column])
        return out


def upper_quantile(values: Array, level: float) -> Array:
    """Return the ceil(level (n + 1))-th smallest of each row of `values` (m, n), or infinity if there is none."""
    n = values.shape[1]
    rank = int(np.ceil(level * (n + 1) * (1 - 1e-12)))
    if rank > n:
        return np.full(len(values), np.inf)
    return np.partition(values, rank - 1, axis=1)[:, rank - 1]


def float_features(feature_map: BaseMap, X: Any) -> Array:
    """Return the features of validated rows in float64."""
    features = feature_map.features_.astype(X.dtype)
    Z = empty_rows(X.shape[0], features.n_components, features.output_dtype(X.dtype))
    fill_rows(features, X, Z, n_jobs=1)
    return Z.astype(np.float64, copy=False)


def jackknife_of(
    owner: str,
    feature_map: BaseMap,
    X: Any,
    y: Array,
    *,
    alpha: Array,
    coef: Array,
    intercept: Array,
    fit_intercept: bool,
    mean_offset: bool,
    single: bool,
) -> Jackknife:
    """Return the leave-one-out predictions of a ridge regression, given the rows of its fit.

    Parameters
    ----------
    owner : str
        Name of the learner, for messages.
    feature_map : BaseMap
        The fitted map.
    X, y : ndarray or CSR of shape (n, d), ndarray of shape (n, t)
        Rows and targets of the fit, whose weights are one.
    alpha : ndarray of shape (1,) or (t,)
        Penalties > 0, one for all columns of targets or one per column.
    coef, intercept : ndarray of shape (D, t), (t,)
        The model.
    fit_intercept : bool
        Whether there is an intercept without penalty.
    mean_offset : bool
        Whether the mean of the targets was subtracted from them before a fit without an intercept.
    single : bool
        Whether results omit the axis of targets.
    """
    if not (alpha > 0).all():
        msg = f"{owner}: jackknife needs a penalty alpha > 0, got {float(alpha.min()):g}."
        raise ParameterError(msg)
    n, t = y.shape
    Z = float_features(feature_map, X)
    center = Z.mean(axis=0) if fit_intercept else np.zeros(Z.shape[1])
    centered = Z - center
    gram = centered.T @ centered
    constant = 1 / n if fit_intercept else 0.0
    white, whiten, leverages = [], [], np.empty((n, len(alpha)))
    for j, penalty in enumerate(alpha):
        A = gram + penalty * np.eye(len(gram))
        try:
            factor = scipy.linalg.cholesky(A, lower=True, overwrite_a=True, check_finite=False)
        except scipy.linalg.LinAlgError as cause:
            msg = f"{owner}: the penalty {penalty:g} is below the rounding error of the features. Raise alpha."
            raise ParameterError(msg) from cause
        root = scipy.linalg.solve_triangular(factor, np.eye(len(factor)), lower=True, check_finite=False).T
        white.append(centered @ root)
        whiten.append(root)
        leverages[:, j] = np.square(white[-1]).sum(axis=1) + constant
    leverages = np.broadcast_to(leverages, y.shape)
    error = y - (Z @ coef + intercept)
    check_same_rows(owner, white, y, error, centered=fit_intercept or mean_offset)
    margin = 1 - leverages
    if (margin < LEAST_MARGIN).any():
        count = int((margin.min(axis=1) < LEAST_MARGIN).sum())
        msg = f"{owner}: {count} rows determine their own predictions; without them there are none. Raise alpha."
        raise DataError(msg)
    drift, shifts = None, np.zeros_like(y)
    if mean_offset:
        if n < 2:
            msg = f"{owner}: jackknife needs at least two rows, got {n}."
            raise DataError(msg)
        # The prediction for a prior mean c is c + z'A^-1 Z'(y - c), which is linear in c. Without row i, c is the mean
        # of the other targets.
        drift = np.empty((Z.shape[1] + 1, t))
        for column in range(t):
            j = column if len(alpha) > 1 else 0
            drift[:-1, column] = -whiten[j] @ white[j].sum(axis=0)
        drift[-1] = 1.0
        shifts = (y.mean(axis=0) - y) / (n - 1)
        error = error - shifts * (Z @ drift[:-1] + 1.0)
    residuals = error / margin
    return Jackknife(
        feature_map, coef, intercept, center, tuple(white), tuple(whiten), constant, drift, shifts, y - residuals,
        residuals, leverages, single,
    )  # fmt: skip


def check_same_rows(owner: str, white: list[Array], y: Array, error: Array, *, centered: bool) -> None:
    """Raise if a ridge regression of the rows has other residuals than the model."""
    mean = y.mean(axis=0) if centered else np.zeros(y.shape[1])
    for column in range(y.shape[1]):
        root = white[column if len(white) > 1 else 0]
        target = y[:, column] - mean[column]
        expected = target - root @ (root.T @ target)
        scale = float(np.abs(target).max(initial=0.0))
        if float(np.abs(expected - error[:, column]).max(initial=0.0)) > SAME * max(scale, 1e-300):
            msg = (
                f"{owner}: jackknife needs the rows of the fit, with weight one, but these rows give another model. "
                "Pass the same X and y as to fit, all of them, and fit without sample_weight."
            )
            raise DataError(msg)
