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

__all__ = ["ErrorName", "HeldOut", "Measured"]

Array = np.ndarray
ErrorName = Literal["rmse", "relative", "spectral", "largest"]
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
    """

    X: Any
    weight: Array | None
    kernel: Kernel
    error: ErrorName
    confidence: float

    @cached_property
    def exact(self) -> Array:
        """The exact kernel matrix."""
        return np.asarray(self.kernel(self.X), np.float64)

    @cached_property
    def share(self) -> Array:
        """Weights of the rows with sum one."""
        n = self.X.shape[0]
        return np.full(n, 1 / n) if self.weight is None else self.weight / self.weight.sum()

    def measure(self, feature_map: BaseMap) -> Measured:
        """Measure the error of a fitted map; raise `DataError` if a value of its features is not finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            features = feature_map.apply(self.X).astype(np.float64)
            errors = feature_map.inner_products(features, features) - self.exact
        if not np.isfinite(errors).all():
            msg = "features or kernel values exceed the range of floating-point numbers"
            raise DataError(msg)
        return getattr(self, f"_{self.error}")(errors)

    # Errors are divided by the largest kernel value before they are squared, since squares could under- or overflow.

    @cached_property
    def _scale(self) -> float:
        return float(np.abs(self.exact).max()) or 1.0

    def _rmse(self, errors: Array) -> Measured:
        if len(errors) == 1:  # there is no pair of different rows
            return Measured(*2 * (float(abs(errors[0, 0])),))
        squares = np.square(errors / self._scale)
        np.fill_diagonal(squares, 0.0)
        others = 1 - self.share
        means = squares @ self.share / others  # of each row, over the other rows
        total = float(self.share @ (means * others) / (self.share @ others))
        error = self._scale * math.sqrt(total)
        return Measured(error, error * self._factor(2 * (means - total), total) ** 0.5)

    def _relative(self, errors: Array) -> Measured:
        squares = np.square(errors / self._scale) @ self.share
        sizes = np.square(self.exact / self._scale) @ self.share
        size = float(self.share @ sizes)
        if size == 0:
            return Measured(*2 * (0.0 if not errors.any() else math.inf,))
        ratio = float(self.share @ squares) / size
        factor = self._factor(2 * (squares - ratio * sizes) / size, ratio)
        return Measured(math.sqrt(ratio), math.sqrt(ratio * factor))

    def _spectral(self, errors: Array) -> Measured:
        root = np.sqrt(self.share)
        error, exact = (root[:, None] * matrix * root / self._scale for matrix in (errors, self.exact))
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

    def _largest(self, errors: Array) -> Measured:
        # Rows have about exponential tails of their largest errors: P(one of n new rows exceeds u + t) is about
        # k exp(-t / b), where k rows exceed u by b on average.
        ordered = np.sort(np.abs(errors).max(axis=1))
        k = max(2, math.ceil(TAIL * len(ordered)))
        threshold = ordered[-k - 1] if k < len(ordered) else 0.0
        excess = float((ordered[-k:] - threshold).mean())
        upper = threshold + excess * (math.log(k) - math.log(1 - self.confidence))
        return Measured(float(ordered[-1]), max(float(ordered[-1]), float(upper)))

    def _factor(self, influence: Array, mean: float) -> float:
        """Return the factor of the upper bound of a mean over pairs, given its derivative by the share of each row.

        The bound is that of the logarithm of the mean, since means of squared errors are skewed to the right. Both
        these rows and those that the bound is for are samples, so that their difference has twice the variance.
        """
        if mean == 0:
            return 1.0
        deviation = math.sqrt(2 * float(np.square(self.share * influence).sum()))
        return _exp(float(ndtri(self.confidence)) * deviation / mean)


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
