"""Errors of approximate kernels on rows that maps were not fitted to, with upper confidence bounds for such rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy.sparse.linalg import eigsh
from scipy.special import ndtri, stdtrit

from mercer.errors import DataError
from mercer.kernels import Kernel
from mercer.maps import BaseMap

__all__ = ["ErrorName", "HeldOut", "Measured", "largest_of"]

Array = np.ndarray
ErrorName = Literal["rmse", "relative", "spectral", "largest"]
# Largest number of rows of which all pairs are compared, or compared at a time for the largest error.
MEASURED_ROWS = 1000
# Errors of k(x, x) below this many roundings are not distinguished from zero.
ROUNDINGS = 64
OVERFLOW = "features or kernel values exceed the range of floating-point numbers"
# Groups of rows that are left out in turn to estimate the standard error of a spectral error.
GROUPS = 10
# Share of the rows with the largest errors, from which the tail of the largest error is extrapolated.
TAIL = 0.1


@dataclass(frozen=True)
class Measured:
    """Error of a map on the rows held out, and an upper confidence bound of the error on further such rows."""

    error: float
    upper: float


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Rows that are held out from fits, and how errors on them are measured.

    Attributes
    ----------
    X : ndarray or CSR of shape (n, d)
        The rows.
    weight : ndarray of shape (n,) or None
        Weights > 0 of the rows; a weight of 2 is equivalent to repeating the row.
    kernel : Kernel
        The kernel, with a number for every parameter.
    error : {"rmse", "relative", "spectral", "largest"}
        Which error is measured; see `FeatureMap`.
    confidence : float
        Probability with which the upper bounds hold.
    seed : int
        Seed of the rows of which all pairs are compared, if there are many.
    """

    X: Any
    weight: Array | None
    kernel: Kernel
    error: ErrorName
    confidence: float
    seed: int = 0

    def measure(self, feature_map: BaseMap) -> Measured:
        """Measure the error of a fitted map; raise `DataError` if a value of its features is not finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            features = feature_map.apply(self.X).astype(np.float64)
            if self.error == "largest":
                return largest_of(self._largest_by_row(feature_map, features), self.confidence)
            rows, share = self._rows(feature_map, features)
            exact = self._exact if rows is None else np.asarray(self.kernel(self.X[rows]), np.float64)
            chosen = features if rows is None else features[rows]
            errors = feature_map.inner_products(chosen, chosen) - exact
        if not np.isfinite(errors).all():
            raise DataError(OVERFLOW)
        return getattr(Pairs(errors, exact, share, self.confidence), self.error)()

    @cached_property
    def _exact(self) -> Array:
        return np.asarray(self.kernel(self.X), np.float64)

    @cached_property
    def _diagonal(self) -> Array:
        return self.kernel.diag(self.X).astype(np.float64)

    def _largest_by_row(self, feature_map: BaseMap, features: Array) -> Array:
        """Return the largest absolute error of each row with any of the rows, over all pairs.

        Rows are not sampled, since a single row can have the largest error.
        """
        n = len(features)
        largest = np.zeros(n)
        blocks = [slice(start, start + MEASURED_ROWS) for start in range(0, n, MEASURED_ROWS)]
        for i, rows in enumerate(blocks):
            for others in blocks[i:]:
                exact = np.asarray(self.kernel(self.X[rows], self.X[others]), np.float64)
                errors = np.abs(feature_map.inner_products(features[rows], features[others]) - exact)
                if not np.isfinite(errors).all():
                    raise DataError(OVERFLOW)
                largest[rows] = np.maximum(largest[rows], errors.max(axis=1))
                largest[others] = np.maximum(largest[others], errors.max(axis=0))
        return largest

    def _rows(self, feature_map: BaseMap, features: Array) -> tuple[Array | None, Array]:
        """Return the rows of which all pairs are compared, and their weights; None means all rows.

        Few rows can have most of the error: for landmarks those far from all of them, for polynomial kernels long ones.
        A uniform sample would miss them. Errors of k(x, x) show them, and are known for all rows. So a part of the rows
        is drawn in proportion to these errors, and all rows are weighted by the inverse of their probabilities.
        """
        n = len(features)
        share = np.full(n, 1 / n) if self.weight is None else self.weight / self.weight.sum()
        if n <= MEASURED_ROWS:
            return None, share
        squares = np.square(features)
        norms = squares.sum(axis=1)
        approximate = norms if feature_map.signs_ is None else squares @ feature_map.signs_
        size, residual = self._diagonal + norms, np.abs(self._diagonal - approximate)
        if not np.isfinite(size).all():
            raise DataError(OVERFLOW)
        residual[residual <= ROUNDINGS * np.finfo(self.X.dtype).eps * size] = 0.0
        parts = [share * (part / part.max()) for part in (np.ones(n), size, residual) if part.max() > 0]
        probability = sum(part / part.sum() for part in parts) / len(parts)
        # Systematic sampling in a random order: rows that are drawn several times count several times.
        rng = np.random.default_rng(self.seed)
        order = rng.permutation(n)
        steps = (np.arange(MEASURED_ROWS) + rng.random()) / MEASURED_ROWS
        drawn = order[np.minimum(np.searchsorted(np.cumsum(probability[order]), steps), n - 1)]
        rows, times = np.unique(drawn, return_counts=True)
        weight = times * share[rows] / probability[rows]
        return rows, weight / weight.sum()


@dataclass(frozen=True, eq=False)
class Pairs:
    """Errors of all pairs of some rows, their exact kernel matrix, and weights of the rows with sum one."""

    errors: Array
    exact: Array
    share: Array
    confidence: float

    @cached_property
    def _scale(self) -> float:
        # Errors are divided by it before they are squared, since squares could under- or overflow.
        return float(np.abs(self.exact).max()) or 1.0

    def rmse(self) -> Measured:
        """Return the root mean squared error over pairs of different rows."""
        if len(self.errors) == 1:  # there is no pair of different rows
            return Measured(*2 * (float(abs(self.errors[0, 0])),))
        squares = np.square(self.errors / self._scale)
        np.fill_diagonal(squares, 0.0)
        others = 1 - self.share
        means = squares @ self.share / others  # of each row, over the other rows
        total = float(self.share @ (means * others) / (self.share @ others))
        error = self._scale * math.sqrt(total)
        return Measured(error, error * self._factor(2 * (means - total), total) ** 0.5)

    def relative(self) -> Measured:
        """Return the Frobenius norm of the errors, divided by that of the kernel matrix."""
        squares = np.square(self.errors / self._scale) @ self.share
        sizes = np.square(self.exact / self._scale) @ self.share
        size = float(self.share @ sizes)
        if size == 0:
            return Measured(*2 * (0.0 if not self.errors.any() else math.inf,))
        ratio = float(self.share @ squares) / size
        factor = self._factor(2 * (squares - ratio * sizes) / size, ratio)
        return Measured(math.sqrt(ratio), math.sqrt(ratio * factor))

    def spectral(self) -> Measured:
        """Return the spectral norm of the errors, divided by that of the kernel matrix."""
        root = np.sqrt(self.share)
        error, exact = (root[:, None] * matrix * root / self._scale for matrix in (self.errors, self.exact))
        value = _norm_ratio(error, exact)
        n = len(root)
        groups = np.arange(n) % min(GROUPS, n)
        if n < 3:
            return Measured(value, value)
        others = [np.flatnonzero(groups != group) for group in range(groups.max() + 1)]
        left_out = np.array([_norm_ratio(error[np.ix_(i, i)], exact[np.ix_(i, i)]) for i in others])
        deviation = math.sqrt((len(others) - 1) / len(others) * float(np.square(left_out - left_out.mean()).sum()))
        quantile = math.sqrt(2) * float(stdtrit(len(others) - 1, self.confidence))
        return Measured(value, value * _exp(quantile * deviation / value) if value > 0 else 0.0)

    def _factor(self, influence: Array, mean: float) -> float:
        """Return the factor of the upper bound of a mean over pairs, given its derivative by the share of each row.

        The bound is that of the logarithm of the mean, since means of squared errors are skewed to the right. Both
        these rows and those that the bound is for are samples, so that their difference has twice the variance.
        """
        if mean == 0:
            return 1.0
        deviation = math.sqrt(2 * float(np.square(self.share * influence).sum()))
        return _exp(float(ndtri(self.confidence)) * deviation / mean)


def largest_of(by_row: Array, confidence: float) -> Measured:
    r"""Return the largest error, and a bound that as many further rows keep with a probability of about `confidence`.

    The tail is extrapolated. If k of n rows exceed u, the expected number of n further rows that exceed x is
    :math:`k (1 + \gamma (x - u) / \sigma)^{-1/\gamma}` for a generalized Pareto tail, and the bound is the x for which
    it is one minus the confidence. The shape :math:`\gamma` and the scale :math:`\sigma` are the moment estimates [1]_.
    These vary, so the shape is increased by its standard error, :math:`\sqrt{(1 + \gamma^2) / k}`, and the bound is at
    least that of an exponential tail, :math:`\gamma = 0`.

    Parameters
    ----------
    by_row : ndarray of shape (n,)
        Largest error of each row with any other row.
    confidence : float
        Probability with which the bound holds.

    References
    ----------
    .. [1] Dekkers, Einmahl, de Haan (1989), A moment estimator for the index of an extreme-value distribution, Annals
       of Statistics.
    """
    ordered = np.sort(by_row)
    k = max(2, math.ceil(TAIL * len(ordered)))
    u = float(ordered[-k - 1]) if k < len(ordered) else 0.0
    top, ratio = ordered[-k:], math.log(k / (1 - confidence))
    upper = u + float((top - u).mean()) * ratio
    logs = np.log(top / u) if u > 0 else np.zeros(1)
    first, second = float(logs.mean()), float(np.square(logs).mean())
    if second > first**2 * (1 + 1e-9):  # otherwise all errors of the tail are equal
        negative = 1 - 0.5 / (1 - first**2 / second)  # the estimate of min(shape, 0)
        shape = first + negative
        shape += math.sqrt((1 + max(shape, 0.0) ** 2) / k)
        heavy = math.expm1(min(shape * ratio, 700.0)) / shape if abs(shape) > 1e-9 else ratio
        upper = max(upper, u + u * first * (1 - negative) * heavy)
    return Measured(float(ordered[-1]), max(float(ordered[-1]), upper))


def _exp(x: float) -> float:
    return math.exp(min(x, 700.0))


def _norm_ratio(error: Array, exact: Array) -> float:
    """Return the ratio of the spectral norms of two symmetric matrices."""
    top, bottom = (_spectral_norm(matrix) for matrix in (error, exact))
    return top / bottom if bottom > 0 else (0.0 if top == 0 else math.inf)


def _spectral_norm(matrix: Array) -> float:
    if len(matrix) < 10:
        return float(np.linalg.norm(matrix, 2))
    if not matrix.any():
        return 0.0
    start = np.abs(matrix).sum(axis=1)  # the same for every call, so that the result is too
    return float(abs(eigsh(matrix, k=1, which="LM", v0=start, return_eigenvectors=False, tol=1e-4)[0]))
