"""Ridge regression solved from moments: one penalty, or a path of them from one eigendecomposition."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from mercer.errors import MercerWarning, ParameterError
from mercer.linalg.cholesky import factorize
from mercer.solvers.ridge.paths import Criterion, RidgePath, evidence_path, gcv_path
from mercer.solvers.ridge.spectrum import Spectrum, about, centered_moments, check_moments
from mercer.statistics.moments import Moments

__all__ = ["Leverages", "RidgePath", "RidgeSolution", "solve_ridge"]

Array = np.ndarray


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
    moments: Moments,
    alpha: float | Criterion,
    *,
    fit_intercept: bool = True,
    left_out: Callable[[Spectrum], RidgePath] | None = None,
) -> tuple[RidgeSolution, Leverages]:
    """Solve min sum w |y - z'c - b|^2 + alpha |c|^2 from moments.

    A number costs one Cholesky factorization; a criterion, or zero (the solution of least norm), one
    eigendecomposition. Leaving out needs the rows again: `left_out` scores the penalties.
    """
    if isinstance(alpha, str) or alpha == 0:
        return _by_spectrum(moments, alpha, fit_intercept=fit_intercept, left_out=left_out)
    return _by_cholesky(moments, alpha, fit_intercept=fit_intercept)


def _by_spectrum(
    moments: Moments, alpha: float | Criterion, *, fit_intercept: bool, left_out: Callable[[Spectrum], RidgePath] | None
) -> tuple[RidgeSolution, Leverages]:
    spectrum = Spectrum.of(moments, centered=fit_intercept)
    path = None
    if alpha == "loo":
        if left_out is None:
            msg = (
                "alpha='loo' needs a second pass over the rows, which partial_fit does not keep. Use alpha='evidence' "
                "or alpha='gcv', which need one, or fit on all rows at once."
            )
            raise ParameterError(msg)
        path = left_out(spectrum)
    elif isinstance(alpha, str):
        path = {"gcv": gcv_path, "evidence": evidence_path}[alpha](spectrum, fit_intercept=fit_intercept)
    penalty = float(alpha) if path is None else path.alpha
    root = spectrum.root(penalty)
    solution = RidgeSolution(
        penalty,
        coef := spectrum.coef(penalty),
        spectrum.offset - spectrum.center @ coef,
        path,
    )
    return solution, _leverages(lambda Z: Z @ root, spectrum.center, spectrum.weight, fit_intercept=fit_intercept)


def _by_cholesky(moments: Moments, alpha: float, *, fit_intercept: bool) -> tuple[RidgeSolution, Leverages]:
    check_moments(moments)
    targets = moments.targets
    A, center = centered_moments(moments, centered=fit_intercept)
    offset = targets.target_mean if fit_intercept else np.zeros_like(targets.target_mean)
    right, _ = about(targets, offset)
    A[np.diag_indices_from(A)] += alpha
    if not factorize(A):
        msg = (
            f"alpha={alpha:g} is too small for the rounding of these features: A + alpha I is not positive definite. "
            f"{advice(moments)}"
        )
        raise ParameterError(msg)
    factor = A.T  # of which only the lower triangle is read
    warn_of_rounding(moments, alpha, factor)
    coef = scipy.linalg.cho_solve((factor, True), right, check_finite=False)
    # Moments from products in float32 hold no more digits, and half of them are half the work.
    digits = np.float32 if moments.roundoff >= np.finfo(np.float32).eps else np.float64

    def whiten(Z: Array) -> Array:
        rows = Z.astype(digits, copy=False)
        return scipy.linalg.solve_triangular(
            factor.astype(digits, copy=False), rows.T, lower=True, check_finite=False
        ).T

    solution = RidgeSolution(float(alpha), coef, offset - center @ coef, None)
    return solution, _leverages(whiten, center, targets.weight, fit_intercept=fit_intercept)


def warn_of_rounding(moments: Moments, alpha: float, factor: Array) -> None:
    """Warn if some direction of A + alpha I, of which `factor` is the lower Cholesky factor, is mostly rounding."""
    if alpha >= moments.rounding:
        return
    smallest, _ = scipy.linalg.lapack.dpocon(factor, 1.0, uplo="L")  # 1 / |inverse|, by its columns
    if smallest < moments.rounding:
        msg = (
            f"alpha={alpha:g} lies below the rounding of the second moments of the features, {moments.rounding:.1g}, "
            f"and so do some of these: the coefficients are partly rounding. {advice(moments)}"
        )
        warnings.warn(msg, MercerWarning, stacklevel=2)


def advice(moments: Moments) -> str:
    """Return what to do where a penalty is too small for the rounding of moments."""
    rows = "" if moments.roundoff < np.finfo(np.float32).eps else " rows in float64,"
    least = 10 * moments.rounding
    return f"Try{rows} alpha >= {least:.1g}, alpha='evidence', or alpha=0 for the solution of least norm."


def _leverages(whiten: Callable[[Array], Array], center: Array, n: float, *, fit_intercept: bool) -> Leverages:
    def leverages(Z: Array, weight: Array) -> Array:
        white = whiten(Z - center)
        return weight * (np.einsum("ij,ij->i", white, white) + (1 / n if fit_intercept else 0.0))

    return leverages
