r"""Posterior of the latent functions of a classifier, calibrated on rows that are left out.

The Laplace approximation has the mean of the mode. The posterior of a classifier is skewed: values far from zero are
more likely than the mode suggests, so the mean is too close to zero, and its variance too large beside it [1]_.
Leave-one-out latent values correct this by three numbers: a factor of the mean, a factor of the variance of the
coefficients, and a factor of the variance that landmarks leave out, :math:`a^2 (k(x, x) - |z(x)|^2)`. They minimize the
logarithmic loss of a sample of rows, each without itself and its copies, by one Newton step from the mode with them
[2]_. Normal prior densities of their logarithms matter only if there are few rows.

References
----------
.. [1] Kuss, Rasmussen (2005), Assessing approximate inference for binary Gaussian process classification, JMLR.
.. [2] Rad, Maleki (2020), A scalable estimate of the out-of-sample prediction error via approximate leave-one-out
   cross-validation, JRSS B 82, 965-996.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize

from mercer.features import Features, features_of
from mercer.kernels import Kernel
from mercer.linalg.triangular import times_triangle
from mercer.solvers.laplace.evidence import curvature_coupling, probabilities
from mercer.solvers.laplace.integrals import log_probabilities

__all__ = ["LabelPosterior", "LeftOutLabels", "calibrated"]

Array = np.ndarray
# Medians and standard deviations of the logarithms of the three factors, and the bounds of the factors. Residuals of
# landmarks are rarely a part of the variance of labels, but far away from all rows they are all of it.
PRIORS = ((0.0, 0.5), (0.0, 2.0), (np.log(0.01), 2.0))
BOUNDS = ((0.3, 3.0), (1e-4, 10.0), (1e-4, 1.0))
# Least value of one minus the leverage of the rows that are left out.
LEAST_MARGIN = 1e-6
# Differences of the logarithms of the factors for second derivatives, and largest number of Newton steps.
DIFFERENCE, NEWTON_STEPS = 1e-4, 8


@dataclass(frozen=True, eq=False)
class LabelPosterior:
    """Normal approximation of the posterior of latent functions on features, for one function or one per label."""

    features: Features
    roots: (
        Array  # (k, D + 1, D + 1), upper triangular: R R' is the covariance of coefficients of features with amplitude
    )
    variance: float  # squared amplitude
    columns: int  # number of latent functions
    fit_intercept: bool
    residual: Kernel | None  # the kernel, if its difference from the approximate kernel is a kernel
    factors: tuple[float, float, float]  # of the mean, the variance of the coefficients, and the residual variance

    def variances_into(self, X: Any, out: Array) -> None:
        """Write the variances of the latent values at some rows into `out` (n, columns)."""
        Z = features_of(self.features.astype(X.dtype), X).astype(np.float64, copy=False)
        self.combined(self.leverages(Z), self.residuals(X, Z), out)

    def combined(self, leverages: Array, residuals: Array, out: Array) -> None:
        """Write the variances into `out`, given those of the coefficients (n, k) and those of the residual (n,)."""
        out[...] = self.factors[1] * leverages + self.factors[2] * residuals[:, None]

    def leverages(self, Z: Array) -> Array:
        """Return the variances (n, k) of the latent values that are due to the coefficients, by Laplace."""
        rows = np.column_stack([np.sqrt(self.variance) * Z, np.full(len(Z), float(self.fit_intercept))])
        out, product = np.empty((len(Z), len(self.roots))), np.empty_like(rows)
        for k, R in enumerate(self.roots):
            times_triangle(rows, R, product)
            np.einsum("ij,ij->i", product, product, out=out[:, k])
        return out

    def residuals(self, X: Any, Z: Array) -> Array:
        """Return the variances (n,) that features leave out, which are zero if those have no kernel."""
        if self.residual is None:
            return np.zeros(len(Z))
        diagonal = self.residual.diag(X.astype(np.float64))
        return self.variance * np.maximum(diagonal - np.square(Z).sum(axis=1), 0.0)


@dataclass(frozen=True)
class LeftOutLabels:
    """Latent values of rows without themselves, for the choice of factors."""

    mean: Array  # (n, columns)
    leverages: Array  # (n, k), variances due to the coefficients
    residuals: Array  # (n,)
    codes: Array  # (n,), indices of the labels
    weight: Array  # (n,)

    @classmethod
    def of(
        cls, posterior: LabelPosterior, X: Any, Z: Array, F: Array, codes: Array, weight: Array, copies: Array
    ) -> LeftOutLabels:
        """Return the latent values of rows without all rows that are equal to them.

        Parameters
        ----------
        posterior : LabelPosterior
            The posterior, whose factors are not used.
        X, Z : ndarray or CSR of shape (n, d), ndarray of shape (n, D)
            Rows and their features.
        F : ndarray of shape (n, columns)
            Their latent values at the mode.
        codes, weight : ndarray of shape (n,)
            Indices of the labels, and the weights of the rows in the loss, with those of the labels.
        copies : ndarray of shape (n, K)
            Total weights, by label, of all rows of the fit that are equal to each row, itself included.
        """
        leverages = posterior.leverages(Z)
        P = probabilities(F)
        total = copies.sum(axis=1, keepdims=True)
        # The gradient and the curvature of the losses of the rows that are left out.
        slopes = total * P - (copies[:, 1:] if P.shape[1] == 1 else copies)
        share = curvature_coupling(max(2, posterior.columns)) * total * P * (1 - P) * leverages
        margin = np.maximum(1 - share, LEAST_MARGIN)
        spread = np.broadcast_to(leverages, F.shape) / margin
        return cls(F + spread * slopes, spread, posterior.residuals(X, Z), codes, weight)

    def loss(self, factors: Array) -> tuple[float, Array]:
        """Return the mean logarithmic loss of the left-out rows, and its derivatives in the logarithms of factors."""
        mean = factors[0] * self.mean
        parts = factors[1] * self.leverages, factors[2] * self.residuals[:, None]
        variance = parts[0] + parts[1]
        logs, in_mean, in_deviation = log_probabilities(mean, variance, self.codes)
        # The derivative of a deviation s in a part of its square is one over 2 s.
        through = in_deviation / (2 * np.sqrt(np.where(variance > 0, variance, 1.0)))
        slopes = np.column_stack(
            [(slope * part).sum(axis=1) for slope, part in ((in_mean, mean), (through, parts[0]), (through, parts[1]))]
        )
        share = self.weight / self.weight.sum()
        return -float(share @ logs), -(share @ slopes)


def calibrated(left_out: LeftOutLabels, largest: float | None = None) -> tuple[tuple[float, float, float], float]:
    """Return the factors of mean, variance and residual variance of least logarithmic loss, and this loss.

    The factor of the mean is at most `largest`. For more than two labels, one Newton step with diagonal blocks of the
    Hessian is too optimistic, so that this number is the factor of rows that are really held out.
    """
    total = float(left_out.weight.sum())
    centers, widths = np.array(PRIORS).T

    def objective(logs: Array) -> tuple[float, Array]:
        value, gradient = left_out.loss(np.exp(logs))
        standardized = (logs - centers) / widths
        return value + 0.5 * float(standardized @ standardized) / total, gradient + standardized / widths / total

    limits = np.array(BOUNDS)
    if largest is not None:
        limits[0] = np.minimum(limits[0], largest)
    bounds = np.log(limits)
    start = float(np.clip(0.0, *bounds[0]))
    starts = [np.array([start, np.log(share), np.log(0.01)]) for share in (1.0, 0.1, 0.01)]
    first = min(starts, key=lambda start: objective(start)[0])
    options = {"maxiter": 60, "ftol": 1e-14, "gtol": 1e-9}
    found = optimize.minimize(objective, first, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    logs = refined(lambda x: objective(x)[1], found.x, bounds)
    scale, variance, residual = np.clip(np.exp(logs), *limits.T).tolist()
    return (scale, variance, residual), left_out.loss(np.array([scale, variance, residual]))[0]


def refined(gradient: Callable[[Array], Array], x: Array, bounds: Array) -> Array:
    """Return a minimum within bounds that is exact to rounding, given one that is near, by Newton's method.

    A minimum that is found from values of a function has the error of the root of their rounding errors. Here the
    gradient is zero to rounding, so that rounding errors of the data have no larger effect than their size.
    """
    low, high = bounds.T
    slopes = gradient(x)
    for _ in range(NEWTON_STEPS):
        free = ~((x <= low) & (slopes > 0) | (x >= high) & (slopes < 0))
        if not free.any():
            break
        units = DIFFERENCE * np.eye(len(x))[free]
        second = np.stack([gradient(x + unit) - gradient(x - unit) for unit in units])[:, free] / (2 * DIFFERENCE)
        second = 0.5 * (second + second.T)
        if np.linalg.eigvalsh(second)[0] <= 0:
            break
        moved = x.copy()
        moved[free] -= np.linalg.solve(second, slopes[free])
        moved = np.clip(moved, low, high)
        at_moved = gradient(moved)
        if not np.abs(at_moved[free]).max() < np.abs(slopes[free]).max():
            break
        x, slopes = moved, at_moved
    return x
