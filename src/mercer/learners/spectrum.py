"""Second moments in their eigenbasis: one decomposition, from which every penalty is cheap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy.linalg

from mercer.errors import DataError
from mercer.learners.moments import Moments, TargetMoments

__all__ = ["Spectrum", "centred_moments", "check_moments"]

Array = np.ndarray
# Rows of a matrix that are worked on at a time: few enough to be in cache when they are needed again.
PANEL_ROWS = 64


@dataclass(frozen=True)
class Spectrum:
    """Moments of features and targets, around their means or not, in the eigenbasis of the features.

    ``vectors.T @ (z - centre)`` are the coordinates of a row, whose second moments are `values`.
    """

    values: Array  # (D,), ascending, >= 0
    vectors: Array  # (D, D), one a column
    rotated: Array  # (D, t): sums of coordinates times targets
    centre: Array  # (D,), zero if not centred
    offset: Array  # (t,): what is subtracted from the targets
    energy: Array  # (t,): sums of squares of the targets, less their offset
    weight: float  # of all rows
    roundoff: float  # of the products behind the moments

    @classmethod
    def of(cls, moments: Moments, *, centred: bool = True, offset: Array | None = None) -> Self:
        """Decompose moments.

        Parameters
        ----------
        moments : Moments
            Sums over rows.
        centred : bool, default=True
            Whether features are taken around their means, as an intercept without penalty does; then targets are, too.
        offset : ndarray of shape (t,), default=None
            What is subtracted from the targets if features are not centred; None means nothing.
        """
        targets = moments.targets
        check_moments(moments)
        A, centre = centred_moments(moments, centred=centred)
        if centred:
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
            centre=centre,
            offset=offset,
            energy=energy,
            weight=targets.weight,
            roundoff=moments.roundoff,
        )

    @property
    def largest(self) -> float:
        """The largest eigenvalue, or one if all are zero: the unit of penalties."""
        largest = float(self.values.max(initial=0.0))
        return largest if largest > 0 else 1.0

    @property
    def kept(self) -> Array:
        """Which directions some row has: the others are there through rounding only."""
        return self.values > len(self.values) * self.roundoff * self.values.max(initial=0.0)

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
    """Return the sums z (y - offset)', which around the mean are those of centred features, and (y - offset)^2."""
    shift = targets.target_mean - offset
    right = targets.cross + np.outer(targets.feature_sum, shift) if shift.any() else targets.cross
    with np.errstate(over="ignore"):  # whoever needs the squares looks whether they are finite
        return right, targets.target_scatter + targets.weight * np.square(shift)


def centred_moments(moments: Moments, *, centred: bool) -> tuple[Array, Array]:
    """Return the second moments about a centre, and the centre: the means or zero.

    Only the upper triangle counts; what stands below is not defined.
    """
    gram, feature_sum = moments.gram, moments.targets.feature_sum
    centre = feature_sum / moments.targets.weight if centred else np.zeros_like(feature_sum)
    A = np.empty_like(gram)
    for i in range(0, len(A), PANEL_ROWS):  # the whole outer product would be another matrix of that size
        rows, columns = slice(i, i + PANEL_ROWS), slice(i, None)
        np.multiply.outer(centre[rows], feature_sum[columns], out=A[rows, columns])
        np.subtract(gram[rows, columns], A[rows, columns], out=A[rows, columns])
    return A, centre
