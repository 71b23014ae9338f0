"""Eigendecomposition of second moments, from which the solution for every penalty is cheap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy.linalg

from mercer.errors import DataError
from mercer.statistics.moments import Moments, TargetMoments

__all__ = ["Spectrum", "centered_moments", "check_moments"]

Array = np.ndarray


@dataclass(frozen=True)
class Spectrum:
    """Moments of features and targets in the eigenbasis of the features, centered or not.

    The coordinates of a row are ``vectors.T @ (z - center)``, and `values` are their second moments.
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
        """Decompose moments.

        Parameters
        ----------
        moments : Moments
            Sums over rows.
        centered : bool, default=True
            Whether features and targets are centered, which is equivalent to an intercept without penalty.
        offset : ndarray of shape (t,), default=None
            Subtracted from the targets if features are not centered; None means zero.
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
        """The largest eigenvalue, or one if all are zero; the unit of penalties."""
        largest = float(self.values.max(initial=0.0))
        return largest if largest > 0 else 1.0

    @property
    def rounding(self) -> float:
        """Bound on the rounding error of the eigenvalues."""
        return self.roundoff * float(self.values.max(initial=0.0)) + self.noise

    @property
    def retained(self) -> Array:
        """Mask of the directions whose eigenvalue exceeds the rounding error."""
        return self.values > len(self.values) * self.rounding

    def root(self, alpha: float) -> Array:
        """Return R with ``R @ R.T`` the inverse of the moments plus `alpha`, on the retained directions."""
        return self.vectors[:, self.retained] / np.sqrt(self.values[self.retained] + alpha)

    def coef(self, alpha: float | Array) -> Array:
        """Return the coefficients (D, t) for one penalty, or for one penalty per target."""
        shrunk = self.rotated[self.retained] / (self.values[self.retained, None] + alpha)
        return self.vectors[:, self.retained] @ shrunk


def check_moments(moments: Moments) -> None:
    """Raise if all weights are zero, or if the moments overflow."""
    if moments.targets.weight <= 0:
        msg = "All sample weights are zero: there is nothing to fit."
        raise DataError(msg)
    if not (np.isfinite(np.diagonal(moments.gram)).all() and np.isfinite(moments.targets.feature_sum).all()):
        msg = "The second moments of the features overflow. Scale the rows down, or pass float64."
        raise DataError(msg)


def about(targets: TargetMoments, offset: Array) -> tuple[Array, Array]:
    """Return the sums of z (y - offset)', with centered features if the offset is the mean, and of (y - offset)^2."""
    shift = targets.target_mean - offset
    right = targets.cross + np.outer(targets.feature_sum, shift) if shift.any() else targets.cross
    with np.errstate(over="ignore"):  # solvers that need the squares check that they are finite
        return right, targets.target_scatter + targets.weight * np.square(shift)


def centered_moments(moments: Moments, *, centered: bool) -> tuple[Array, Array]:
    """Return the upper triangle of the second moments about a center, and the center: the means or zero."""
    targets = moments.targets
    if not centered:
        return np.array(moments.about(None)), np.zeros_like(targets.feature_sum)
    center = targets.feature_sum / targets.weight
    return moments.about(center), center


def noise_of_centering(moments: Moments, center: Array) -> float:
    """Return the rounding error of moving second moments from the point of their sums to a center."""
    step = center if moments.shift is None else center - moments.shift
    size, far = np.linalg.norm(step), np.linalg.norm(center)
    last = np.finfo(np.float64).eps * far  # accuracy of the means
    return float(moments.targets.weight * (moments.roundoff * size**2 + 2 * last * (size + last)))
