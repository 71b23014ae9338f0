r"""Features of a deformed kernel: features times a matrix T with :math:`T T^\top = (I + U)^{-1}`, in full or low rank.

U is the roughness :math:`\Phi^\top M \Phi` of the features. Every T with this property gives the same kernel, so a
triangular T is used instead of the symmetric inverse square root.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.linalg

from mercer.errors import DataError
from mercer.features import Features, features_of
from mercer.linalg.cholesky import factorize, inverse_root
from mercer.linalg.triangular import times_triangle

__all__ = ["LowRankFeatures", "WhitenedFeatures", "roughest_directions", "whitening_of"]

Array = np.ndarray


def whitening_of(roughness: Array, *, overwrite: bool = False) -> Array:
    """Return the upper triangular matrix T with T T' = (I + U)^-1.

    Parameters
    ----------
    roughness : ndarray of shape (D, D)
        The matrix U, of which only the upper triangle is used.
    overwrite : bool, default=False
        Whether the result may be written over U.

    Returns
    -------
    ndarray of shape (D, D)
    """
    A = np.array(roughness, np.float64, order="C", copy=None if overwrite else True)
    A[np.diag_indices_from(A)] += 1.0
    if not factorize(A):
        msg = (
            "Deformed: I + Phi' M Phi is not positive definite because of rounding. Use a smaller strength, or pass "
            "float64 rows."
        )
        raise DataError(msg)
    return inverse_root(A)


def roughest_directions(roughness: Array, rank: int) -> tuple[Array, Array, float]:
    """Return the leading eigenvectors of the roughness U, their shrinkage, and the error of omitting the others.

    Parameters
    ----------
    roughness : ndarray of shape (D, D)
        The matrix U, of which only the upper triangle is used.
    rank : int
        Number of eigenvectors, less than D.

    Returns
    -------
    basis : ndarray of shape (D, rank)
        Eigenvectors of the `rank` largest eigenvalues u.
    shrinkage : ndarray of shape (rank,)
        The numbers 1 - (1 + u)^-1/2.
    error : float
        The number u / (1 + u) for the largest of the other eigenvalues u.
    """
    D = len(roughness)
    values, vectors = scipy.linalg.eigh(
        roughness.T, lower=True, check_finite=False, subset_by_index=[D - rank - 1, D - 1]
    )
    values = np.maximum(values, 0.0)
    return vectors[:, 1:], 1 - (1 + values[1:]) ** -0.5, float(values[0] / (1 + values[0]))


@dataclass(frozen=True, eq=False)
class WhitenedFeatures(Features):
    """Features of an inner map times an upper triangular matrix T, as returned by `whitening_of`."""

    features: Features
    whitening: Array  # (D, D), upper triangle

    @property
    def matrix(self) -> Array:
        """The matrix (D, D) by which the features of the inner map are multiplied, in float64."""
        return self.whitening.astype(np.float64)

    @property
    def n_components(self) -> int:
        return self.whitening.shape[1]

    def astype(self, dtype: Any) -> Self:
        return replace(self, features=self.features.astype(dtype), whitening=self.whitening.astype(dtype, copy=False))

    def __call__(self, X: Any, out: Array) -> None:
        times_triangle(features_of(self.features, X), self.whitening, out)


@dataclass(frozen=True, eq=False)
class LowRankFeatures(Features):
    """Features times I - B diag(s) B', which shrinks them by the factors 1 - s along the orthonormal columns of B."""

    features: Features
    basis: Array  # (D, rank), B
    shrinkage: Array  # (rank,), s

    @property
    def matrix(self) -> Array:
        """The matrix (D, D) by which the features of the inner map are multiplied, in float64."""
        basis, shrinkage = self.basis.astype(np.float64), self.shrinkage.astype(np.float64)
        return np.eye(len(basis)) - (basis * shrinkage) @ basis.T

    @property
    def n_components(self) -> int:
        return self.basis.shape[0]

    def astype(self, dtype: Any) -> Self:
        basis, shrinkage = (part.astype(dtype, copy=False) for part in (self.basis, self.shrinkage))
        return replace(self, features=self.features.astype(dtype), basis=basis, shrinkage=shrinkage)

    def __call__(self, X: Any, out: Array) -> None:
        self.features(X, out)
        out -= ((out @ self.basis) * self.shrinkage) @ self.basis.T
