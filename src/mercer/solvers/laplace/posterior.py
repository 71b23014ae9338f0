r"""Posterior of the latent functions of a classifier, calibrated on rows that are left out.

The Laplace approximation has the mean of the mode. The posterior of a classifier is skewed: values far from zero are
more likely than the mode suggests, so the mean is too close to zero, and its variance too large beside it [1]_.
Leave-one-out latent values correct this by three numbers: a factor of the mean, a factor of the variance of the
coefficients, and a factor of the variance that landmarks leave out, :math:`a^2 (k(x, x) - |z(x)|^2)`. They minimize the
logarithmic loss of a sample of rows, each without itself, by one Newton step from the mode with it [2]_. Normal prior
densities of their logarithms matter only if there are few rows.

References
----------
.. [1] Kuss, Rasmussen (2005), Assessing approximate inference for binary Gaussian process classification, JMLR.
.. [2] Rad, Maleki (2020), A scalable estimate of the out-of-sample prediction error via approximate leave-one-out
   cross-validation, JRSS B 82, 965-996.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize

from mercer.features import Features, features_of
from mercer.kernels import Kernel
from mercer.linalg.triangular import times_triangle
from mercer.solvers.laplace.evidence import curvature_coupling, probabilities
from mercer.solvers.laplace.integrals import average_probabilities
from mercer.solvers.losses.losses import Logistic

__all__ = ["LabelPosterior", "LeftOutLabels", "calibrated"]

Array = np.ndarray
# Medians and standard deviations of the logarithms of the three factors, and the bounds of the factors. Residuals of
# landmarks are rarely a part of the variance of labels, but far away from all rows they are all of it.
PRIORS = ((0.0, 0.5), (0.0, 2.0), (np.log(0.01), 2.0))
BOUNDS = ((0.3, 3.0), (1e-4, 10.0), (1e-4, 1.0))
# Largest factor of the mean for more than two labels: there, one Newton step with diagonal blocks of the Hessian is
# somewhat too optimistic, and the amplitude is one that suits rows held out.
LARGEST_OF_SEVERAL = 1.0
# Least value of one minus the leverage of a row that is left out.
LEAST_MARGIN = 1e-3


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
    def of(cls, posterior: LabelPosterior, X: Any, Z: Array, F: Array, codes: Array, weight: Array) -> LeftOutLabels:
        """Return the latent values of rows without one copy of each.

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
        """
        leverages = posterior.leverages(Z)
        _, slopes = Logistic().value_and_slopes(F, codes)
        P = probabilities(F)
        share = curvature_coupling(max(2, posterior.columns)) * P * (1 - P) * leverages
        margin = np.maximum(1 - share, LEAST_MARGIN)
        spread = np.broadcast_to(leverages, F.shape) / margin
        return cls(F + spread * slopes, spread, posterior.residuals(X, Z), codes, weight)

    def loss(self, factors: Array) -> float:
        """Return the mean logarithmic loss of the left-out rows."""
        variance = factors[1] * self.leverages + factors[2] * self.residuals[:, None]
        P = average_probabilities(factors[0] * self.mean, variance)
        chosen = np.maximum(P[np.arange(len(self.codes)), self.codes], 1e-300)
        return -float(self.weight @ np.log(chosen)) / float(self.weight.sum())


def calibrated(left_out: LeftOutLabels) -> tuple[tuple[float, float, float], float]:
    """Return the factors of mean, variance and residual variance of least logarithmic loss, and this loss.

    The factors are rounded to three digits.
    """
    total = float(left_out.weight.sum())

    def objective(logs: Array) -> float:
        prior = sum(((x - center) / width) ** 2 for x, (center, width) in zip(logs, PRIORS, strict=True))
        return left_out.loss(np.exp(logs)) + 0.5 * prior / total

    bounds = [tuple(np.log(pair)) for pair in BOUNDS]
    if left_out.mean.shape[1] > 1:
        bounds[0] = (bounds[0][0], float(np.log(LARGEST_OF_SEVERAL)))
    starts = [np.array([0.0, np.log(share), np.log(0.01)]) for share in (1.0, 0.1, 0.01)]
    first = min(starts, key=objective)
    options = {"maxiter": 30, "ftol": 1e-9}
    found = optimize.minimize(objective, first, method="L-BFGS-B", bounds=bounds, options=options)
    scale, variance, residual = (float(f"{value:.3g}") for value in np.exp(found.x))
    return (scale, variance, residual), left_out.loss(np.array([scale, variance, residual]))
