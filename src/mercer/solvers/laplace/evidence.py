r"""Laplace approximation of the evidence of labels, on features of a sample of rows, and its derivatives.

Latent functions are :math:`f_k(x) = a\, z(x)^\top v_k + b_k` with :math:`v_k \sim N(0, I)`, one per label, and a single
one for two labels; labels have the probabilities of the softmax or of the logistic function. With the coefficients of
highest posterior density, the logarithm of the Laplace approximation of the evidence [1]_ is

.. math:: E = -\sum_i w_i \ell_i - \tfrac12 |v|^2 - \tfrac{\kappa}{2} \sum_k \log |H_k|, \qquad
    H_k = \mathrm{diag}(1, \ldots, 1, \beta^{-2}) + c \sum_i w_i \lambda_{ik} \tilde z_i \tilde z_i^\top,

with losses :math:`\ell`, their second derivatives :math:`\lambda`, and :math:`\tilde z = (a z, 1)`. For two labels,
:math:`c = \kappa = 1`. For K labels, the Hessian of the softmax is replaced by its diagonal blocks with
:math:`c = K / (K - 1)` and :math:`\kappa = 1 / c`, which is exact where all labels are equally likely. The density of
the intercepts is flat; :math:`\beta` bounds the volume of those that the rows do not determine.

The derivatives are exact, with the movement of the mode through the third derivatives of the losses included.

References
----------
.. [1] Rasmussen, Williams (2006), Gaussian Processes for Machine Learning, sections 3.4, 3.5 and 5.5, MIT Press.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from mercer.engines.passes import Passes
from mercer.solvers.losses.curvature import SampleCurvature
from mercer.solvers.losses.fit import AsGiven
from mercer.solvers.losses.losses import Logistic, Problem, softmax
from mercer.solvers.losses.objective import Penalized
from mercer.solvers.losses.quasi_newton import minimize
from mercer.solvers.losses.sample import Sample
from mercer.statistics.feature_cache import RowFeatures

__all__ = ["INTERCEPT_DEVIATION", "LabeledFeatures", "LaplaceValue", "curvature_coupling", "probabilities"]

Array = np.ndarray
LOSS = Logistic()
# Standard deviation of an intercept that the rows do not determine.
INTERCEPT_DEVIATION = 10.0
# Tolerance and largest number of steps of the mode. Its error enters the derivatives to first order.
MODE_TOL, MODE_STEPS = 1e-9, 300
# Relative residual and largest number of steps of conjugate gradients.
SOLVE_TOL, SOLVE_STEPS = 1e-10, 500


def curvature_coupling(n_labels: int) -> float:
    """Return the factor c of the diagonal blocks of the Hessian, for the blocks that couple the labels."""
    return 1.0 if n_labels == 2 else n_labels / (n_labels - 1)


@dataclass(frozen=True)
class LaplaceValue:
    """The logarithm of the evidence at one amplitude, its derivatives, and the mode."""

    value: float
    in_features: Array  # (m, D)
    in_log_variance: float  # with respect to the logarithm of the squared amplitude
    coef: Array  # (D + 1, columns), of the features without amplitude; the last row is the intercept


@dataclass(frozen=True, eq=False)
class LabeledFeatures:
    """Features of a sample of rows with their labels, as a function of which the evidence is computed."""

    features: Array  # (m, D)
    codes: Array  # (m,), indices of the labels
    weight: Array  # (m,), with the weights of the labels
    n_labels: int
    fit_intercept: bool

    @property
    def columns(self) -> int:
        """Number of latent functions."""
        return 1 if self.n_labels == 2 else self.n_labels

    def mode(self, variance: float, start: Array | None = None) -> Array:
        """Return the coefficients (D + 1, columns) of highest posterior density, for the squared amplitude."""
        labels, D = np.arange(self.n_labels), self.features.shape[1]
        problem = Problem(RowFeatures(AsGiven(D)), LOSS, labels, np.ones(self.n_labels))
        m = len(self.codes)
        sample = Sample(problem.features, self.features, self.codes, self.codes, self.weight, np.zeros(m), m, 1)
        objective = Penalized(sample.engine(), problem, variance, self.fit_intercept, Passes(None))
        curvature = SampleCurvature(sample, sample, variance, problem, self.fit_intercept)
        if start is None:
            start = np.zeros((D + 1, self.columns))
            if self.fit_intercept:
                shares = np.bincount(self.codes, self.weight, self.n_labels)
                start[-1] = LOSS.best_constant(np.maximum(shares, 0.01 * shares.max()) / shares.sum())
        exact = self.columns == 1
        return minimize(objective, start, curvature, tol=MODE_TOL, max_iter=MODE_STEPS, exact=exact).coef

    def evidence(self, variance: float, start: Array | None = None) -> LaplaceValue:
        """Return the evidence and its derivatives for a squared amplitude, and the mode, found from `start`."""
        coef = self.mode(variance, start)
        root, D = np.sqrt(variance), self.features.shape[1]
        Z = np.column_stack([root * self.features, np.full(len(self.codes), float(self.fit_intercept))])
        U = coef.copy()  # coefficients of the features with amplitude
        U[:-1] /= root
        F = Z @ U
        losses, slopes = LOSS.value_and_slopes(F, self.codes)
        weight = self.weight[:, None]
        P = probabilities(F)
        curvatures = weight * P * (1 - P)
        c = curvature_coupling(self.n_labels)
        value = -float(self.weight @ losses.sum(axis=1)) - 0.5 * float(np.square(U[:-1]).sum())
        penalty = np.ones(D + 1)
        penalty[-1] = INTERCEPT_DEVIATION**-2
        G, h, factors = np.zeros_like(Z), np.empty_like(F), []
        for k in range(self.columns):
            H = c * (Z.T * curvatures[:, k]) @ Z
            H[np.diag_indices_from(H)] += penalty
            factor = scipy.linalg.cholesky(H, lower=True, overwrite_a=True, check_finite=False)
            value -= (np.log(np.diagonal(factor)).sum() + np.log(INTERCEPT_DEVIATION)) / c
            solved = scipy.linalg.cho_solve((factor, True), Z.T, check_finite=False).T
            h[:, k] = np.einsum("ij,ij->i", Z, solved)
            # The factor c of H_k and the factor 1 / c of its logarithm cancel.
            G -= curvatures[:, k : k + 1] * solved
            factors.append(factor)
        # Derivatives of the evidence with respect to the latent values, through the second derivatives of the losses.
        through = -0.5 * weight * third_derivatives(P, h)
        T = self._solve(Z, P, factors, Z.T @ through)
        left = -weight * slopes
        G += (left + through - weight * curved(P, Z @ T)) @ U.T + left @ T.T
        in_log_variance = 0.5 * float(np.vdot(Z[:, :D], G[:, :D]))
        return LaplaceValue(value, root * G[:, :D], in_log_variance, coef)

    def _solve(self, Z: Array, P: Array, factors: list[Array], right: Array) -> Array:
        """Return the solution of J T = right, for the Hessian J of the losses and of the penalty at the mode.

        Conjugate gradients are preconditioned by the factors of the diagonal blocks.
        """
        penalty = np.ones((Z.shape[1], 1))
        # Equal intercepts of all labels, which no loss depends on, need some curvature; the right side has none there.
        penalty[-1] = 1e-8 if self.fit_intercept else 1.0
        weight = self.weight[:, None]

        def precondition(residual: Array) -> Array:
            pairs = zip(factors, residual.T, strict=True)
            return np.column_stack([scipy.linalg.cho_solve((L, True), r, check_finite=False) for L, r in pairs])

        T, residual = np.zeros_like(right), right.copy()
        size = float(np.linalg.norm(right))
        step = precondition(residual)
        product = float(np.vdot(residual, step))
        for _ in range(SOLVE_STEPS):
            if float(np.linalg.norm(residual)) <= SOLVE_TOL * size:
                break
            image = penalty * step + Z.T @ (weight * curved(P, Z @ step))
            length = product / float(np.vdot(step, image))
            T += length * step
            residual -= length * image
            next_step = precondition(residual)
            product, previous = float(np.vdot(residual, next_step)), product
            step = next_step + (product / previous) * step
        return T


def probabilities(F: Array) -> Array:
    """Return the probabilities (n, columns) of the labels: of the second one alone if there are two."""
    if F.shape[1] > 1:
        return softmax(F)
    return 1 / (1 + np.exp(-np.clip(F, -700, 700)))


def curved(P: Array, directions: Array) -> Array:
    """Return the Hessians of the losses of rows times directions (n, columns)."""
    if P.shape[1] == 1:
        return P * (1 - P) * directions
    weighted = P * directions
    return weighted - P * weighted.sum(axis=1, keepdims=True)


def third_derivatives(P: Array, h: Array) -> Array:
    """Return sum_k h_k d lambda_k / d f_j (n, columns), for the second derivatives lambda_k = p_k (1 - p_k)."""
    slopes = h * (1 - 2 * P)
    if P.shape[1] == 1:
        return slopes * P * (1 - P)
    weighted = slopes * P
    return weighted - P * weighted.sum(axis=1, keepdims=True)
