"""Features times a root of the inverse (I + U)^-1: a triangular root, or one of low rank."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.linalg

from mercer.errors import DataError
from mercer.features import Features, features_of
from mercer.linalg.cholesky import factorize, inverse_root

__all__ = [
    "LowRankFeatures",
    "WhitenedFeatures",
    "strongest_of",
    "times_triangle",
    "whitening_of",
]

Array = np.ndarray
# Number of columns of a triangle that are multiplied at a time.
PANEL = 512


def whitening_of(roughness: Array, *, overwrite: bool = False) -> Array:
    """Return the upper triangle T with (I + U)^-1 = T T', given the upper triangle of U, which may be overwritten."""
    A = np.array(roughness, np.float64, order="C", copy=None if overwrite else True)
    A[np.diag_indices_from(A)] += 1.0
    if not factorize(A):
        msg = (
            "Deformed: I + Phi' M Phi is not positive definite, through rounding. Make alpha smaller, or pass float64."
        )
        raise DataError(msg)
    return inverse_root(A)


def times_triangle(values: Array, triangle: Array, out: Array) -> None:
    """Write values times an upper triangle into `out`, at little more than half the cost of a full product."""
    for start in range(0, triangle.shape[1], PANEL):
        stop = min(start + PANEL, triangle.shape[1])
        np.matmul(values[:, :stop], triangle[:stop, start:stop], out=out[:, start:stop])


def strongest_of(roughness: Array, rank: int) -> tuple[Array, Array, float]:
    """Return the leading eigenvectors of U, 1 - (1 + u)^-1/2 for each, and u / (1 + u) for the next eigenvalue."""
    D = len(roughness)
    values, vectors = scipy.linalg.eigh(
        roughness.T, lower=True, check_finite=False, subset_by_index=[D - rank - 1, D - 1]
    )
    values = np.maximum(values, 0.0)
    return vectors[:, 1:], 1 - (1 + values[1:]) ** -0.5, float(values[0] / (1 + values[0]))


@dataclass(frozen=True, eq=False)
class WhitenedFeatures(Features):
    """Features times an upper triangle."""

    features: Features
    whitening: Array  # (D, D), upper triangle

    @property
    def matrix(self) -> Array:
        """The matrix that features are multiplied by, in float64."""
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
    """Features shrunk along some orthogonal directions."""

    features: Features
    basis: Array  # (D, rank)
    shrinkage: Array  # (rank,)

    @property
    def matrix(self) -> Array:
        """The matrix that features are multiplied by, in float64."""
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
