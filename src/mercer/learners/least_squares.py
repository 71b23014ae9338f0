"""Least squares from moments that add over rows: what ridge regression and its relatives are solved from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
import scipy.linalg

from mercer.errors import DataError, ParameterError

__all__ = ["Moments", "RidgePath", "RidgeSolution", "solve_ridge"]

Array = np.ndarray
# Penalties that generalised cross-validation tries, relative to the largest eigenvalue.
PATH = np.geomspace(1e-10, 1e1, 89)


@dataclass(frozen=True)
class Moments:
    """All that ridge regression needs to know of the rows it has seen.

    Features are bounded, so their raw second moments lose nothing. Targets can sit far from zero, so whatever holds
    them is kept around the means.
    """

    rows: int
    weight: float
    gram: Array  # (D, D), sum of w z z'
    feature_sum: Array  # (D,), sum of w z
    target_mean: Array  # (t,)
    cross: Array  # (D, t), sum of w (z - mean) (y - mean)'
    target_scatter: Array  # (t,), sum of w (y - mean)^2

    @classmethod
    def of(cls, Z: Array, targets: Array, weight: Array | None = None) -> Self:
        """Return the moments of one block, accumulated in float64 whatever the dtype of the features."""
        rows = len(Z)
        w = np.ones(rows) if weight is None else weight
        total = float(w.sum())
        mean = (w @ targets / total) if total > 0 else np.zeros(targets.shape[1])
        centred = targets - mean
        weighted = Z if weight is None else Z * np.sqrt(w).astype(Z.dtype)[:, None]
        gram = (weighted.T @ weighted).astype(np.float64, copy=False)
        feature_sum = Z.sum(axis=0, dtype=np.float64) if weight is None else (w @ Z)
        # The targets sum to zero around their mean, so the features need no centring here.
        cross = (Z.T @ (w[:, None] * centred).astype(Z.dtype)).astype(np.float64, copy=False)
        return cls(rows, total, gram, feature_sum, mean, cross, w @ np.square(centred))

    def __add__(self, other: Moments) -> Moments:
        weight = self.weight + other.weight
        if weight == 0:
            return replace(self, rows=self.rows + other.rows)
        step = other.target_mean - self.target_mean
        # Chan, Golub, LeVeque (1979): means are joined, and the moments around them get a correction of rank one.
        shift = self.weight * other.feature_sum - other.weight * self.feature_sum
        return Moments(
            rows=self.rows + other.rows,
            weight=weight,
            gram=self.gram + other.gram,
            feature_sum=self.feature_sum + other.feature_sum,
            target_mean=self.target_mean + step * (other.weight / weight),
            cross=self.cross + other.cross + np.outer(shift, step) / weight,
            target_scatter=self.target_scatter
            + other.target_scatter
            + np.square(step) * (self.weight * other.weight / weight),
        )


@dataclass(frozen=True)
class RidgePath:
    """Generalised cross-validation over a path of penalties, all from one eigendecomposition.

    Attributes
    ----------
    alphas : ndarray of shape (p,)
        Penalties, ascending.
    scores : ndarray of shape (p,)
        Mean squared error of leaving out one row, as generalised cross-validation predicts it; infinite where the
        model has as many degrees of freedom as rows.
    degrees : ndarray of shape (p,)
        Effective degrees of freedom, with the intercept.
    alpha : float
        The penalty of the lowest score.
    """

    alphas: Array
    scores: Array
    degrees: Array
    alpha: float


@dataclass(frozen=True)
class RidgeSolution:
    """Coefficients for one penalty, and the path that it was chosen from, if any."""

    alpha: float
    coef: Array  # (D, t)
    intercept: Array  # (t,)
    path: RidgePath | None


#: Maps feature rows, and how much weight of each to move, to how far they pull their own predictions.
Leverages = Callable[[Array, Array], Array]


def solve_ridge(
    moments: Moments, alpha: float | Literal["gcv"], *, fit_intercept: bool = True
) -> tuple[RidgeSolution, Leverages]:
    """Solve min sum w |y - z'c - b|^2 + alpha |c|^2 from moments.

    A number costs one Cholesky factorisation; "gcv" and zero (the solution of least norm) one eigendecomposition.
    """
    n = moments.weight
    if n <= 0:
        msg = "All sample weights are zero: there is nothing to fit."
        raise DataError(msg)
    centre = moments.feature_sum / n if fit_intercept else np.zeros_like(moments.feature_sum)
    A = moments.gram - np.outer(centre, moments.feature_sum)
    right = moments.cross
    if not fit_intercept:
        right = right + np.outer(moments.feature_sum, moments.target_mean)
    path = None
    if alpha == "gcv" or alpha == 0:
        values, vectors = scipy.linalg.eigh(A, overwrite_a=True)
        values = np.maximum(values, 0.0)
        rotated = vectors.T @ right
        if alpha == "gcv":
            path = _gcv_path(moments, values, rotated, fit_intercept=fit_intercept)
            alpha = path.alpha
        # Directions that no row has are there through rounding only, which a small alpha would blow up.
        keep = values > len(values) * np.finfo(float).eps * values.max(initial=0.0)
        root = vectors[:, keep] / np.sqrt(values[keep] + alpha)
        coef = root @ (rotated[keep] / np.sqrt(values[keep] + alpha)[:, None])

        def whiten(Z: Array) -> Array:
            return Z @ root
    else:
        A[np.diag_indices_from(A)] += alpha
        try:
            factor = scipy.linalg.cholesky(A, lower=True, overwrite_a=True)
        except scipy.linalg.LinAlgError as error:
            msg = (
                f"alpha={alpha:g} is too small for the rounding of these features: A + alpha I is not positive "
                "definite. "
                f"Try alpha >= {1e-12 * n:.1g}, alpha='gcv', or alpha=0 for the solution of least norm."
            )
            raise ParameterError(msg) from error
        coef = scipy.linalg.cho_solve((factor, True), right)

        def whiten(Z: Array) -> Array:
            return scipy.linalg.solve_triangular(factor, Z.T, lower=True).T

    def leverages(Z: Array, weight: Array) -> Array:
        white = whiten(Z - centre)
        return weight * (np.einsum("ij,ij->i", white, white) + (1 / n if fit_intercept else 0.0))

    intercept = moments.target_mean - centre @ coef if fit_intercept else np.zeros(coef.shape[1])
    return RidgeSolution(float(alpha), coef, intercept, path), leverages


def _gcv_path(moments: Moments, values: Array, rotated: Array, *, fit_intercept: bool) -> RidgePath:
    n = moments.weight
    alphas = PATH * max(values.max(initial=0.0), np.finfo(float).tiny)
    shrink = values / (values + alphas[:, None])  # (p, D)
    degrees = shrink.sum(axis=1) + fit_intercept
    total = moments.target_scatter.sum()
    if not fit_intercept:
        total += n * np.square(moments.target_mean).sum()
    # |y - fit|^2 = |y|^2 - sum q^2 (1 - (alpha / (v + alpha))^2) / v with q = V'Z'y; where v = 0 so is q.
    energy = np.square(rotated).sum(axis=1)
    gain = (2 - shrink) / (values + alphas[:, None])
    residual = np.maximum(total - gain @ energy, np.finfo(float).eps * total)
    room = 1 - degrees / n
    with np.errstate(divide="ignore", invalid="ignore"):
        scores = np.where(room > 1e-10, residual / n / np.square(room), np.inf)
    if not np.isfinite(scores).any():
        msg = (
            f"alpha='gcv' needs more weight than degrees of freedom, got a total weight of {n:g}. "
            "Weights count as repetitions of rows: rescale them to a mean of one, add rows, or give alpha as a number."
        )
        raise DataError(msg)
    return RidgePath(alphas, scores, degrees, float(alphas[np.argmin(scores)]))
