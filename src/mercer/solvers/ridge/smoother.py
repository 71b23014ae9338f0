r"""Ridge regression on few rows as a linear smoother: exact cross-validation, and the marginal likelihood.

Let y be the targets, K the kernel matrix of the rows, and :math:`\rho` the ridge penalty. The residuals of the fit are
:math:`G y` with :math:`G = \rho (K + \rho I)^{-1}`. With an intercept, y and K are first projected onto the vectors
orthogonal to the constant vector :math:`(1, \dots, 1)`, and G is this matrix on these vectors and zero on constants.

For cross-validation, let f be the set of rows in one fold. The model that is fitted without these rows has the
residuals :math:`G_{ff}^{-1} (G y)_f` on them. This formula is exact, so no model is fitted again: one
eigendecomposition of K is sufficient for all penalties and folds.

A weight w counts as w copies of the row. The features and the target of the row, and its entry of the constant vector,
are multiplied by :math:`\sqrt{w}`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np
import scipy.linalg

from mercer.engines.base import blas_threads_for
from mercer.solvers.ridge.paths import margin_of_one_copy

__all__ = ["Smoother"]

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Smoother:
    """Ridge regression on few rows, represented by the eigendecomposition of their kernel matrix.

    The kernel matrix is centered if there is an intercept. Rows are multiplied by the square roots of their weights.

    Attributes
    ----------
    values : ndarray of shape (r,)
        Eigenvalues >= 0.
    basis : ndarray of shape (n, r)
        Eigenvectors. If there is an intercept, they are orthogonal to the square roots of the weights.
    fit_intercept : bool
        Whether there is an intercept.
    weight : ndarray of shape (n,)
        Weights > 0.
    """

    values: Array
    basis: Array
    fit_intercept: bool
    weight: Array
    root: Array = field(init=False)  # square roots of the weights

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", np.sqrt(self.weight))

    @classmethod
    def of(cls, Z: Array, *, fit_intercept: bool, weight: Array | None = None) -> Self:
        """Return the smoother for features `Z` (n, D), by an eigendecomposition of the smaller of Z Z' and Z'Z."""
        n, D = Z.shape
        weight = np.ones(n) if weight is None else weight
        root = np.sqrt(weight)
        if n > D:
            if fit_intercept:
                Z = Z - weight @ Z / weight.sum()
            Z = root[:, None] * Z
            values, vectors = np.linalg.eigh(Z.T @ Z)
            retained = values > D * np.finfo(float).eps * max(values[-1], np.finfo(float).tiny)
            basis = Z @ (vectors[:, retained] / np.sqrt(values[retained]))
            return cls(values[retained], basis, fit_intercept, weight)
        Z = root[:, None] * Z
        K = Z @ Z.T
        if not fit_intercept:
            values, basis = np.linalg.eigh(K)
            return cls(np.maximum(values, 0.0), basis, fit_intercept, weight)
        # A reflection maps the constants to the first coordinate axis, so the other coordinates are their complement.
        axis = root / np.linalg.norm(root)
        axis[0] += 1.0
        axis /= np.linalg.norm(axis)
        values, basis = np.linalg.eigh(reflected(reflected(K, axis).T, axis)[1:, 1:])
        basis = reflected(np.vstack([np.zeros(n - 1), basis]), axis)
        return cls(np.maximum(values, 0.0), basis, fit_intercept, weight)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.basis)

    @property
    def _is_complete(self) -> bool:
        """Whether `basis` has all possible columns: n, or n - 1 if there is an intercept."""
        return self.basis.shape[1] == self.n_rows - self.fit_intercept

    def degrees(self, penalty: float) -> float:
        """Return the effective degrees of freedom, including the intercept."""
        return float((self.values / (self.values + penalty)).sum() + self.fit_intercept)

    def left_out(self, targets: Array, penalty: float, groups: Array) -> Array:
        """Return the prediction (n, t) for each row by the model that is fitted to the rows of all other groups."""
        residual = self._residuals(targets, penalty)
        if len(np.unique(groups)) == self.n_rows:
            return targets - residual / (self._diagonal(penalty) * self.root)[:, None]
        out = np.empty_like(targets)
        names, sizes = np.unique(groups, return_counts=True)
        with blas_threads_for(int(sizes.max())):
            for group in names:
                rows = np.flatnonzero(groups == group)
                missed = scipy.linalg.solve(self._block(rows, penalty), residual[rows], assume_a="pos")
                out[rows] = targets[rows] - missed / self.root[rows, None]
        return out

    def one_left_out(self, targets: Array, penalty: float) -> Array:
        """Return the prediction (n, t) for each row by the model that is fitted without one copy of that row.

        A weight w counts as w copies of the row. If w < 1, the row is left out completely.
        """
        margin = margin_of_one_copy(self._diagonal(penalty), self.weight)
        return targets - self._residuals(targets, penalty) / (margin * self.root)[:, None]

    def _centered(self, targets: Array) -> Array:
        """Return sqrt(w) (y - m) for targets y and weights w, where m is the mean of y, or 0 without an intercept."""
        mean = self.weight @ targets / self.weight.sum() if self.fit_intercept else 0.0
        return self.root[:, None] * (targets - mean)

    def _residuals(self, targets: Array, penalty: float) -> Array:
        """Return the residuals (n, t) of the fit, times the square roots of the weights."""
        coordinates = self.basis.T @ (self.root[:, None] * targets)
        if self._is_complete:
            return self.basis @ (coordinates * (penalty / (self.values + penalty))[:, None])
        return self._centered(targets) - self.basis @ (coordinates * (self.values / (self.values + penalty))[:, None])

    def _block(self, rows: Array, penalty: float) -> Array:
        """Return the submatrix of G for some rows, where G maps targets to the residuals of the fit.

        Without an intercept, G = penalty (K + penalty I)^-1. The module docstring defines G with an intercept.
        """
        B = self.basis[rows]
        if self._is_complete:  # without a difference of numbers near one
            return (B * (penalty / (self.values + penalty))) @ B.T
        block = np.eye(len(rows)) - (B * (self.values / (self.values + penalty))) @ B.T
        constants = self.root[rows] if self.fit_intercept else np.zeros(len(rows))
        return block - np.outer(constants, constants) / self.weight.sum()

    def _diagonal(self, penalty: float) -> Array:
        """Return 1 - w h for weights w and leverages h: the diagonal of the matrix that maps targets to residuals."""
        squares = np.square(self.basis)
        if self._is_complete:
            return squares @ (penalty / (self.values + penalty))
        return (
            1 - squares @ (self.values / (self.values + penalty)) - self.fit_intercept * self.weight / self.weight.sum()
        )

    def log_evidence(self, targets: Array, penalty: float) -> float:
        r"""Return the log marginal likelihood of the targets, summed over their columns.

        The coefficients have the prior :math:`N(0, \sigma^2 / \rho)`, where :math:`\rho` is the penalty, and the
        targets have noise of variance :math:`\sigma^2`. The likelihood is maximized over :math:`\sigma` for each
        column. The intercept has a flat prior and is integrated out. Constant columns are ignored.
        """
        n = float(self.weight.sum()) - self.fit_intercept
        centered = self._centered(targets)
        energy = np.square(centered).sum(axis=0)
        varies = energy > 0
        exponent = (centered * self._residuals(targets, penalty)).sum(axis=0)[varies]
        exponent = np.maximum(exponent, np.finfo(float).eps * energy[varies])
        volume = np.log1p(self.values / penalty).sum()
        return float(-0.5 * (n * (np.log(2 * np.pi * exponent / n) + 1) + volume).sum())


def reflected(matrix: Array, axis: Array) -> Array:
    """Return (I - 2 a a') @ matrix, the reflection of the columns at the hyperplane orthogonal to the unit vector a."""
    return matrix - 2 * np.outer(axis, axis @ matrix)
