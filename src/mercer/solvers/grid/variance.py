r"""Posterior variances at rows on a grid that is too large for a factorization.

With :math:`u(x) = D z(x)` and :math:`A = D G D + s^2`, the posterior covariance of a function on a grid is
:math:`C(x, x') = s^2 u(x)' A^{-1} u(x')`. That would be one system for each row. But C decays within a short distance
where there are rows: the systems of rows :math:`x_j` that are far from each other are solved together, for the right
side :math:`\sum_j \sigma_j u(x_j)` with random signs. The value of the solution at :math:`x_j`, times its sign, is
:math:`C(x_j, x_j)` plus signed covariances with the other rows of the group.

Samples of the coefficients are :math:`s A^{-1/2} v` with standard normal numbers v, one system for each.

The distance is measured. The systems of a few rows are solved alone, among them those with the fewest rows of the fit
around them, since the covariance of the prior is what remains where there are none. All other rows show beyond which
distance their covariances are negligible.

Few rows in three columns have large grids, on which covariances hardly decay. Up to a number of rows these are stored,
and variances are those of the exact process (`RowVariances`).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
from scipy.spatial import cKDTree

from mercer.errors import MercerWarning
from mercer.features import features_of
from mercer.kernels import Kernel
from mercer.maps.fourier.frequency_grids import GridFeatures
from mercer.solvers.grid.systems import Preconditioner, conjugate_gradients, inverse_root_product

__all__ = ["Convergence", "LocalVariances", "RowVariances"]

Array = np.ndarray
# Decrease of the preconditioned residual at which the iteration stops, which bounds the relative error of a variance.
STOP = 2e-3
# Number of rows whose systems are solved alone: half of them have the fewest rows around them.
ALONE = 8
# Covariances below this share of the variance are negligible.
NEGLIGIBLE = 1e-3
# Number of rows whose variances are computed at a time.
TILE = 1000
# Largest number of systems that are solved for the variances of rows.
MOST_SYSTEMS = 256


@dataclass(frozen=True, eq=False)
class RowVariances:
    """Posterior variances and covariances of the exact process, from the rows of the fit."""

    kernel: Kernel
    X: Array  # (n, d), rows of the fit
    noise: Array  # (n,), variances of their noise, in units of the squared amplitude

    def __getstate__(self) -> dict[str, Any]:
        # Without the factorization, which can be computed again.
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def factor(self) -> Array:
        """Lower Cholesky factor of the kernel matrix with noise."""
        matrix = self.kernel(self.X)
        matrix[np.diag_indices(len(matrix))] += self.noise
        return np.asarray(scipy.linalg.cholesky(matrix, lower=True, overwrite_a=True, check_finite=False))

    def _half(self, X: Any) -> Array:
        return np.asarray(scipy.linalg.solve_triangular(self.factor, self.kernel(self.X, X), lower=True))

    def variances(self, X: Any) -> Array:
        """Return the variances (n,) of rows, in units of the squared amplitude."""
        out = np.asarray(self.kernel.diag(X), dtype=np.float64)
        for start in range(0, len(out), TILE):
            out[start : start + TILE] -= np.square(self._half(X[start : start + TILE])).sum(axis=0)
        return np.maximum(out, 0.0)

    def covariances(self, X: Any) -> Array:
        """Return the covariances (n, n) of rows, in units of the squared amplitude."""
        half = self._half(X)
        return np.asarray(self.kernel(X)) - half.T @ half


@dataclass
class Convergence:
    """Numbers of systems of a prediction, and of those whose iterations did not converge, for one warning."""

    systems: int = 0
    failed: int = 0
    steps: int = 0  # of the longest iteration that did not converge

    def add(self, steps: int, converged: bool) -> None:
        """Count a system."""
        self.systems += 1
        if not converged:
            self.failed += 1
            self.steps = max(self.steps, steps)

    def warn(self, what: str) -> None:
        """Warn if there are systems that did not converge."""
        if not self.failed:
            return
        msg = (
            f"{what} on a grid did not converge: {self.failed} of {self.systems} systems, in up to {self.steps} steps. "
            "Raise the noise, or lower max_components."
        )
        warnings.warn(msg, MercerWarning, stacklevel=2)


@dataclass(frozen=True, eq=False)
class LocalVariances:
    """Posterior variances, covariances and samples of the function at rows, by iterations."""

    features: GridFeatures  # of one part
    gram: Any  # ToeplitzGram
    roots: Array  # standard deviations d of the coefficients
    noise: float
    preconditioner: Preconditioner

    def sample(self, count: int, rng: np.random.Generator, record: Convergence) -> Array:
        """Return samples (M, count) of the coefficients of unweighted features, minus their posterior mean."""
        out = np.empty((len(self.roots), count))
        for i in range(count):
            normals = rng.standard_normal(len(self.roots))
            found, steps, converged = inverse_root_product(
                self.gram, self.roots, self.noise, normals, self.preconditioner, tolerance=STOP
            )
            record.add(steps, converged)
            out[:, i] = self.noise * self.roots * found
        return out

    def solve(self, Z: Array, signs: Array, record: Convergence) -> Array:
        """Return s^2 A^-1 D Z' signs times d, for unweighted features Z (k, M) of a group of rows."""
        right = self.roots * (signs @ Z)
        found, steps, converged = conjugate_gradients(
            self.gram, self.roots, self.noise, right, self.preconditioner, tolerance=STOP
        )
        record.add(steps, converged)
        return self.noise**2 * self.roots * found

    def covariances(self, X: Any, record: Convergence) -> Array:
        """Return the covariances (n, n) of rows, each row with a system of its own."""
        Z = features_of(self.features.unweighted(), X)
        one = np.ones(1)
        out = Z @ np.stack([self.solve(row[None], one, record) for row in Z], axis=1)
        return (out + out.T) / 2

    def variances(self, X: Any, points: Array, crowd: Array, record: Convergence) -> Array | None:
        """Return the variances (n,) of rows, or None if they need more than `MOST_SYSTEMS` systems.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Rows.
        points : ndarray of shape (n, d)
            Their coordinates, in which near rows are near.
        crowd : ndarray of shape (n,)
            About the number of rows of the fit around each of them.
        record : Convergence
            Counts the systems.
        """
        n = X.shape[0]
        out = np.empty(n)
        order = np.argsort(crowd, kind="stable")
        few, spread = np.arange(min(n, ALONE // 2)), np.linspace(0, n - 1, ALONE // 2).astype(int)
        alone = order[np.union1d(few, spread)]
        unweighted = self.features.unweighted()
        radius = 0.0
        for row in alone:
            weights = self.solve(features_of(unweighted, X[row : row + 1]), np.ones(1), record)
            values = self.values(X, weights)
            out[row] = values[row]
            distance = np.sqrt(np.square(points - points[row]).sum(axis=1))
            radius = max(radius, float(distance[np.abs(values) > NEGLIGIBLE * values[row]].max(initial=0.0)))
        others = np.setdiff1d(np.arange(n), alone)
        signs = np.where(np.random.default_rng(0).random(n) < 0.5, -1.0, 1.0)
        groups = far_groups(points[others], radius)
        if len(groups) > MOST_SYSTEMS:
            return None
        for group in groups:
            rows = others[group]
            Z = features_of(unweighted, X[rows])
            out[rows] = signs[rows] * (Z @ self.solve(Z, signs[rows], record))
        return np.maximum(out, 0.0)

    def values(self, X: Any, weights: Array) -> Array:
        """Return sums of unweighted features (n,) with these weights."""
        unweighted = self.features.unweighted()
        out = np.empty(X.shape[0])
        step = max(1, 2**22 // len(weights))
        for start in range(0, len(out), step):
            out[start : start + step] = features_of(unweighted, X[start : start + step]) @ weights
        return out


def far_groups(points: Array, radius: float) -> list[Array]:
    """Return the indices of points in groups in which any two are farther apart than a radius."""
    n = len(points)
    group = np.full(n, -1)
    near = cKDTree(points).query_ball_point(points, radius) if n else []
    for i, others in enumerate(near):
        taken = np.zeros(len(others) + 1, dtype=bool)
        used = group[others]
        taken[used[(used >= 0) & (used < len(taken))]] = True
        group[i] = int(np.argmin(taken))
    return [np.flatnonzero(group == g) for g in range(group.max(initial=-1) + 1)]
