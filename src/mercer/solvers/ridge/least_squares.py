"""Ridge regression from moments: by a Cholesky factorization for one penalty, by an eigendecomposition for several."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy.linalg

from mercer.errors import DataError, MercerWarning, ParameterError
from mercer.linalg.cholesky import factorize
from mercer.solvers.ridge.paths import Criterion, RidgePath, evidence_path, gcv_path
from mercer.statistics.moments import Moments, TargetMoments

__all__ = [
    "RidgePath",
    "RidgeSolution",
    "Spectrum",
    "centered_moments",
    "check_moments",
    "is_coarse",
    "needs_double",
    "relative_rounding",
    "solve_ridge",
]

Array = np.ndarray
# Bounds of the mean squares of targets: below, squares lose digits (the smallest normal number of float64 is 2e-308),
# and above, their products with penalties and eigenvalues overflow.
SMALLEST_SQUARE, LARGEST_SQUARE = 1e-303, 1e290


@dataclass(frozen=True)
class Spectrum:
    """Moments of features and targets, in the eigenbasis of the (centered) second moments of the features.

    The coordinates of a row with features z are ``vectors.T @ (z - center)``. Each eigenvalue in `values` is the
    weighted sum over rows of the square of one coordinate.
    """

    values: Array  # (D,), ascending, >= 0
    vectors: Array  # (D, D), one per column
    rotated: Array  # (D, t): sums of coordinates times targets
    center: Array  # (D,), zero if not centered
    offset: Array  # (t,): subtracted from the targets
    energy: Array  # (t,): sums of squares of the targets, less their offset
    weight: float  # total weight of the rows
    roundoff: float  # unit roundoff of the moments
    noise: float = 0.0  # rounding error that centering has added

    @classmethod
    def of(cls, moments: Moments, *, centered: bool = True, offset: Array | None = None) -> Self:
        """Return the eigendecomposition of moments.

        Parameters
        ----------
        moments : Moments
            Sums over rows.
        centered : bool, default=True
            Whether the means of features and targets are subtracted, which is equivalent to an unpenalized intercept.
        offset : ndarray of shape (t,), default=None
            Subtracted from the targets if `centered` is False; None means zero.
        """
        targets = moments.targets
        check_moments(moments)
        A, center = centered_moments(moments, centered=centered)
        if centered:
            offset = targets.target_mean
        elif offset is None:
            offset = np.zeros_like(targets.target_mean)
        right, energy = about(targets, offset)
        # The upper triangle by rows is the lower by columns, which LAPACK takes without a copy.
        values, vectors = scipy.linalg.eigh(A.T, lower=True, overwrite_a=True, check_finite=False)
        return cls(
            values=np.maximum(values, 0.0),
            vectors=vectors,
            rotated=vectors.T @ right,
            center=center,
            offset=offset,
            energy=energy,
            weight=targets.weight,
            roundoff=moments.roundoff,
            noise=noise_of_centering(moments, center),
        )

    @property
    def largest(self) -> float:
        """The largest eigenvalue, or 1 if all are zero. The penalties of a path are multiples of this number."""
        largest = float(self.values.max(initial=0.0))
        return largest if largest > 0 else 1.0

    @property
    def rounding(self) -> float:
        """Bound on the rounding error of the eigenvalues."""
        return self.roundoff * float(self.values.max(initial=0.0)) + self.noise

    @property
    def retained(self) -> Array:
        """Boolean mask of the eigenvalues that exceed the rounding error."""
        return self.values > len(self.values) * self.rounding

    def check_squares(self, needed_by: str, instead: str) -> None:
        """Raise `DataError` if squares of the targets, less their offset, overflow or underflow in float64.

        Parameters
        ----------
        needed_by : str
            What needs the squares, for the message.
        instead : str
            What else can be done, for the message.
        """
        varies = (np.abs(self.rotated).max(axis=0, initial=0.0) > 0) | (self.energy > 0)
        if not (self.energy <= LARGEST_SQUARE * self.weight).all():
            what, remedy = "overflow", "Scale the targets down"
        elif (varies & (self.energy < SMALLEST_SQUARE * self.weight)).any():
            what, remedy = "underflow", "Multiply the targets by a large number, such as 1e150"
        else:
            return
        msg = (
            f"{needed_by} needs targets whose squares add up in float64, got targets whose squares {what}. "
            f"{remedy}{instead}."
        )
        raise DataError(msg)

    def root(self, alpha: float) -> Array:
        """Return R with R R' = (A + alpha I)^-1 on the span of the retained eigenvectors of the second moments A."""
        return self.vectors[:, self.retained] / np.sqrt(self.values[self.retained] + alpha)

    def coef(self, alpha: float | Array) -> Array:
        """Return the coefficients (D, t) for one penalty, or for one penalty per target."""
        shrunk = self.rotated[self.retained] / (self.values[self.retained, None] + alpha)
        return self.vectors[:, self.retained] @ shrunk


def check_moments(moments: Moments) -> None:
    """Raise `DataError` if all weights are zero, or if the moments overflow."""
    if moments.targets.weight <= 0:
        msg = "All sample weights are zero: there is nothing to fit."
        raise DataError(msg)
    if not (np.isfinite(np.diagonal(moments.gram)).all() and np.isfinite(moments.targets.feature_sum).all()):
        msg = "The second moments of the features overflow. Scale the rows down, or pass float64."
        raise DataError(msg)


def about(targets: TargetMoments, offset: Array) -> tuple[Array, Array]:
    """Return sum_i w_i z_i (y_i - offset)' and sum_i w_i (y_i - offset)^2, for features z_i and targets y_i.

    If the offset is the mean of the targets, the first sum is the same for centered features.
    """
    shift = targets.target_mean - offset
    right = targets.cross + np.outer(targets.feature_sum, shift) if shift.any() else targets.cross
    with np.errstate(over="ignore"):  # solvers that need the squares check that they are finite
        return right, targets.target_scatter + targets.weight * np.square(shift)


def centered_moments(moments: Moments, *, centered: bool) -> tuple[Array, Array]:
    """Return the upper triangle of sum_i w_i (z_i - c)(z_i - c)', and the center c.

    The center is the mean of the features over the rows if `centered`, and zero otherwise.
    """
    targets = moments.targets
    if not centered:
        return np.array(moments.about(None)), np.zeros_like(targets.feature_sum)
    center = targets.feature_sum / targets.weight
    return moments.about(center), center


def noise_of_centering(moments: Moments, center: Array) -> float:
    """Return a bound on the rounding error of the second moments centered at `center`.

    The moments were summed for features minus the point `moments.shift`, and transformed to features minus `center`.
    """
    step = center if moments.shift is None else center - moments.shift
    size, far = np.linalg.norm(step), np.linalg.norm(center)
    last = np.finfo(np.float64).eps * far  # accuracy of the means
    return float(moments.targets.weight * (moments.roundoff * size**2 + 2 * last * (size + last)))


@dataclass(frozen=True)
class RidgeSolution:
    """The solution of a ridge regression: penalty, coefficients, and quantities for the computation of leverages."""

    alpha: float
    coef: Array  # (D, t)
    intercept: Array  # (t,)
    path: RidgePath | None  # from which the penalty was chosen; None if it was given
    whiten: Callable[[Array], Array]  # maps centered features to rows whose squared norms are leverages
    center: Array  # (D,)
    constant: float  # leverage of the intercept

    def leverages(self, Z: Array) -> Array:
        """Return the leverage (n,) of one copy of each row, given the features `Z` (n, D) of the rows."""
        white = self.whiten(Z - self.center)
        return np.einsum("ij,ij->i", white, white) + self.constant


def solve_ridge(
    moments: Moments,
    alpha: float | Criterion,
    *,
    fit_intercept: bool = True,
    left_out: Callable[[Spectrum], RidgePath] | None = None,
) -> RidgeSolution:
    """Minimize sum_i w_i |y_i - c'z_i - b|^2 + alpha |c|^2 over coefficients c and intercept b, given the moments.

    A positive number as `alpha` costs one Cholesky factorization. A criterion, or zero (the solution of least norm),
    costs one eigendecomposition.

    Parameters
    ----------
    moments : Moments
        Sums over rows.
    alpha : float, "loo", "evidence" or "gcv"
        Penalty, or the criterion by which it is chosen.
    fit_intercept : bool, default=True
        Whether there is an intercept, which is not penalized.
    left_out : callable, default=None
        Function that returns the leave-one-out scores of a path of penalties, given the `Spectrum`. It reads the rows
        again. It is required for "loo" only.
    """
    if isinstance(alpha, str) or alpha == 0:
        return _by_spectrum(moments, alpha, fit_intercept=fit_intercept, left_out=left_out)
    return _by_cholesky(moments, alpha, fit_intercept=fit_intercept)


def needs_double(alpha: float | Criterion) -> bool:
    """Return whether the moments must be summed in float64, because their small eigenvalues matter for this `alpha`."""
    return isinstance(alpha, str) or alpha == 0


def is_coarse(moments: Moments, alpha: float | Criterion) -> bool:
    """Return whether the moments were summed in float32 and their rounding error exceeds the penalty."""
    coarse = moments.roundoff >= np.finfo(np.float32).eps
    return not isinstance(alpha, str) and bool(coarse and 0 < alpha < moments.rounding)


def relative_rounding(moments: Moments, alpha: float) -> float:
    """Return the rounding error of the moments divided by the penalty."""
    # Without a penalty, directions this close to the rounding error are not used.
    penalty = alpha if alpha > 0 else len(moments.gram) * moments.rounding
    return moments.rounding / penalty if penalty > 0 else 0.0


def _by_spectrum(
    moments: Moments, alpha: float | Criterion, *, fit_intercept: bool, left_out: Callable[[Spectrum], RidgePath] | None
) -> RidgeSolution:
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
    root, coef = spectrum.root(penalty), spectrum.coef(penalty)
    constant = 1 / spectrum.weight if fit_intercept else 0.0
    intercept = spectrum.offset - spectrum.center @ coef
    return RidgeSolution(penalty, coef, intercept, path, lambda Z: Z @ root, spectrum.center, constant)


def _by_cholesky(moments: Moments, alpha: float, *, fit_intercept: bool) -> RidgeSolution:
    check_moments(moments)
    targets = moments.targets
    A, center = centered_moments(moments, centered=fit_intercept)
    offset = targets.target_mean if fit_intercept else np.zeros_like(targets.target_mean)
    right, _ = about(targets, offset)
    A[np.diag_indices_from(A)] += alpha
    if not factorize(A):
        msg = (
            f"alpha={alpha:g} is too small for the rounding error of these features: A + alpha I is not positive "
            f"definite. {advice(moments)}"
        )
        raise ParameterError(msg)
    factor = A.T  # of which only the lower triangle is read
    warn_of_rounding(moments, alpha, factor)
    coef = scipy.linalg.cho_solve((factor, True), right, check_finite=False)
    # Moments from products in float32 have no more digits, and float32 halves the work.
    digits = np.float32 if moments.roundoff >= np.finfo(np.float32).eps else np.float64

    def whiten(Z: Array) -> Array:
        rows = Z.astype(digits, copy=False)
        return scipy.linalg.solve_triangular(
            factor.astype(digits, copy=False), rows.T, lower=True, check_finite=False
        ).T

    constant = 1 / targets.weight if fit_intercept else 0.0
    return RidgeSolution(float(alpha), coef, offset - center @ coef, None, whiten, center, constant)


def warn_of_rounding(moments: Moments, alpha: float, factor: Array) -> None:
    """Warn if A + alpha I has eigenvalues below the rounding error, given its lower Cholesky factor."""
    if alpha >= moments.rounding:
        return
    smallest, _ = scipy.linalg.lapack.dpocon(factor, 1.0, uplo="L")  # 1 / |inverse| in the 1-norm
    if smallest < moments.rounding:
        msg = (
            f"alpha={alpha:g} and some eigenvalues of the second moments lie below their rounding error, "
            f"{moments.rounding:.1g}: the coefficients are partly rounding error. {advice(moments)}"
        )
        warnings.warn(msg, MercerWarning, stacklevel=2)


def advice(moments: Moments) -> str:
    """Return a sentence that tells the user what to try if the penalty is too small.

    A penalty is too small if the rounding error of the moments exceeds it. The sentence ends an error or a warning, and
    names a penalty that is large enough.
    """
    rows = "" if moments.roundoff < np.finfo(np.float32).eps else " rows in float64,"
    least = 10 * moments.rounding
    return f"Try{rows} alpha >= {least:.1g}, alpha='evidence', or alpha=0 for the solution of least norm."
