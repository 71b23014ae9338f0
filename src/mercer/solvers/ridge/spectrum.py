"""Second moments in their eigenbasis: one decomposition, from which every penalty is cheap."""

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
    """Moments of features and targets, around their means or not, in the eigenbasis of the features.

    ``vectors.T @ (z - center)`` are the coordinates of a row, whose second moments are `values`.
    """

    values: Array  # (D,), ascending, >= 0
    vectors: Array  # (D, D), one a column
    rotated: Array  # (D, t): sums of coordinates times targets
    center: Array  # (D,), zero if not centered
    offset: Array  # (t,): what is subtracted from the targets
    energy: Array  # (t,): sums of squares of the targets, less their offset
    weight: float  # of all rows
    roundoff: float  # of the products behind the moments
    noise: float = 0.0  # what taking off the means has added to the rounding of the second moments

    @classmethod
    def of(cls, moments: Moments, *, centered: bool = True, offset: Array | None = None) -> Self:
        """Decompose moments.

        Parameters
        ----------
        moments : Moments
            Sums over rows.
        centered : bool, default=True
            Whether features are taken around their means, as an intercept without penalty does; then targets are, too.
        offset : ndarray of shape (t,), default=None
            What is subtracted from the targets if features are not centered; None means nothing.
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
        """The largest eigenvalue, or one if all are zero: the unit of penalties."""
        largest = float(self.values.max(initial=0.0))
        return largest if largest > 0 else 1.0

    @property
    def rounding(self) -> float:
        """The rounding of the largest eigenvalue, and of what was taken off to get it: below, nothing is known."""
        return self.roundoff * float(self.values.max(initial=0.0)) + self.noise

    @property
    def kept(self) -> Array:
        """Which directions some row has: the others are there through rounding only."""
        return self.values > len(self.values) * self.rounding

    def root(self, alpha: float) -> Array:
        """Return R of shape (D, kept) with ``R @ R.T`` the inverse of the moments plus `alpha`, on kept directions."""
        return self.vectors[:, self.kept] / np.sqrt(self.values[self.kept] + alpha)

    def coef(self, alpha: float | Array) -> Array:
        """Return the coefficients (D, t) for one penalty, or for one a target."""
        shrunk = self.rotated[self.kept] / (self.values[self.kept, None] + alpha)
        return self.vectors[:, self.kept] @ shrunk


def check_moments(moments: Moments) -> None:
    """Raise if there is nothing to fit, or if sums overflowed."""
    if moments.targets.weight <= 0:
        msg = "All sample weights are zero: there is nothing to fit."
        raise DataError(msg)
    if not (np.isfinite(np.diagonal(moments.gram)).all() and np.isfinite(moments.targets.feature_sum).all()):
        msg = "The second moments of the features overflow. Scale the rows down, or pass float64."
        raise DataError(msg)


def about(targets: TargetMoments, offset: Array) -> tuple[Array, Array]:
    """Return the sums z (y - offset)', which around the mean are those of centered features, and (y - offset)^2."""
    shift = targets.target_mean - offset
    right = targets.cross + np.outer(targets.feature_sum, shift) if shift.any() else targets.cross
    with np.errstate(over="ignore"):  # whoever needs the squares looks whether they are finite
        return right, targets.target_scatter + targets.weight * np.square(shift)


def centered_moments(moments: Moments, *, centered: bool) -> tuple[Array, Array]:
    """Return the second moments about a center, and the center: the means or zero.

    Only the upper triangle counts; what stands below is not defined.
    """
    targets = moments.targets
    if not centered:
        return np.array(moments.about(None)), np.zeros_like(targets.feature_sum)
    center = targets.feature_sum / targets.weight
    return moments.about(center), center


def noise_of_centering(moments: Moments, center: Array) -> float:
    """Return the rounding of second moments that were taken about a center, and not about the point of their sums."""
    step = center if moments.shift is None else center - moments.shift
    size, far = np.linalg.norm(step), np.linalg.norm(center)
    last = np.finfo(np.float64).eps * far  # means are known to that
    return float(moments.targets.weight * (moments.roundoff * size**2 + 2 * last * (size + last)))
