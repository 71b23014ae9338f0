"""Ridge regression solved from moments: one penalty, or a path of them from one eigendecomposition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.linalg

from mercer.errors import DataError, ParameterError
from mercer.learners.moments import Moments, TargetMoments

__all__ = ["Leverages", "RidgePath", "RidgeSolution", "solve_ridge"]

Array = np.ndarray
# Penalties that generalised cross-validation tries, relative to the largest eigenvalue.
PATH = np.geomspace(1e-10, 1e1, 89)
# Rows of a matrix that are worked on at a time: few enough to be in cache when they are needed again.
PANEL_ROWS = 64


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
    targets = moments.targets
    n = targets.weight
    if n <= 0:
        msg = "All sample weights are zero: there is nothing to fit."
        raise DataError(msg)
    centre = targets.feature_sum / n if fit_intercept else np.zeros_like(targets.feature_sum)
    if not (np.isfinite(np.diagonal(moments.gram)).all() and np.isfinite(targets.feature_sum).all()):
        msg = "The second moments of the features overflow. Scale the rows down, or pass float64."
        raise DataError(msg)
    A = centred_moments(moments.gram, centre, targets.feature_sum)
    right = targets.cross
    if not fit_intercept:
        right = right + np.outer(targets.feature_sum, targets.target_mean)
    path = None
    if alpha == "gcv" or alpha == 0:
        # The upper triangle by rows is the lower by columns, which LAPACK takes without a copy.
        values, vectors = scipy.linalg.eigh(A.T, lower=True, overwrite_a=True, check_finite=False)
        values = np.maximum(values, 0.0)
        rotated = vectors.T @ right
        if alpha == "gcv":
            path = _gcv_path(targets, values, rotated, moments.roundoff, fit_intercept=fit_intercept)
            alpha = path.alpha
        # Directions that no row has are there through rounding only, which a small alpha would blow up.
        keep = values > len(values) * moments.roundoff * values.max(initial=0.0)
        root = vectors[:, keep] / np.sqrt(values[keep] + alpha)
        coef = root @ (rotated[keep] / np.sqrt(values[keep] + alpha)[:, None])

        def whiten(Z: Array) -> Array:
            return Z @ root
    else:
        A[np.diag_indices_from(A)] += alpha
        try:
            # What LAPACK leaves on the other side of the diagonal is never read.
            factor, _ = scipy.linalg.cho_factor(A.T, lower=True, overwrite_a=True, check_finite=False)
        except scipy.linalg.LinAlgError as error:
            msg = (
                f"alpha={alpha:g} is too small for the rounding of these features: A + alpha I is not positive "
                "definite. "
                f"Try alpha >= {1e-12 * n:.1g}, alpha='gcv', or alpha=0 for the solution of least norm."
            )
            raise ParameterError(msg) from error
        coef = scipy.linalg.cho_solve((factor, True), right, check_finite=False)
        # Moments from products in float32 hold no more digits, and half of them are half the work.
        digits = np.float32 if moments.roundoff >= np.finfo(np.float32).eps else np.float64

        def whiten(Z: Array) -> Array:
            rows = Z.astype(digits, copy=False)
            return scipy.linalg.solve_triangular(
                factor.astype(digits, copy=False), rows.T, lower=True, check_finite=False
            ).T

    def leverages(Z: Array, weight: Array) -> Array:
        white = whiten(Z - centre)
        return weight * (np.einsum("ij,ij->i", white, white) + (1 / n if fit_intercept else 0.0))

    intercept = targets.target_mean - centre @ coef if fit_intercept else np.zeros(coef.shape[1])
    return RidgeSolution(float(alpha), coef, intercept, path), leverages


def centred_moments(gram: Array, centre: Array, feature_sum: Array) -> Array:
    """Return the upper triangle of ``gram - outer(centre, feature_sum)``; what stands below is not defined."""
    A = np.empty_like(gram)
    for i in range(0, len(A), PANEL_ROWS):  # the whole outer product would be another matrix of that size
        rows, columns = slice(i, i + PANEL_ROWS), slice(i, None)
        np.multiply.outer(centre[rows], feature_sum[columns], out=A[rows, columns])
        np.subtract(gram[rows, columns], A[rows, columns], out=A[rows, columns])
    return A


def _gcv_path(
    targets: TargetMoments, values: Array, rotated: Array, roundoff: float, *, fit_intercept: bool
) -> RidgePath:
    n = targets.weight
    largest = values.max(initial=0.0)
    # Below the rounding of the moments a penalty only fits that.
    alphas = PATH[PATH > 10 * roundoff] * (largest if largest > 0 else 1.0)
    shrink = values / (values + alphas[:, None])  # (p, D)
    degrees = shrink.sum(axis=1) + fit_intercept
    total = targets.target_scatter.sum()
    if not fit_intercept:
        total += n * np.square(targets.target_mean).sum()
    if not np.isfinite(total):
        msg = (
            "alpha='gcv' needs targets whose squares add up in float64. Scale the targets down, or give alpha a number."
        )
        raise DataError(msg)
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
