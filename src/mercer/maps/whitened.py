"""Features times the root of an inverse, (I + U)^-1/2, or any other with the same kernel: whitened, or of low rank."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.linalg

from mercer.errors import DataError
from mercer.features import Features
from mercer.linalg.cholesky import factorize, inverse_root

__all__ = [
    "LowRankFeatures",
    "WhitenedFeatures",
    "strongest_of",
    "times_triangle",
    "whitening_of",
]

Array = np.ndarray
# Columns that are multiplied by a triangle together, by as many of its rows as are not zero there.
PANEL = 512


def whitening_of(roughness: Array, *, overwrite: bool = False) -> Array:
    """Return the upper triangle T with (I + U)^-1 = T T', from the upper triangle of U; in its place if `overwrite`."""
    A = np.array(roughness, np.float64, order="C", copy=None if overwrite else True)
    A[np.diag_indices_from(A)] += 1.0
    if not factorize(A):
        msg = (
            "Deformed: I + Phi' M Phi is not positive definite, through rounding. Make alpha smaller, or pass float64."
        )
        raise DataError(msg)
    return inverse_root(A)


def times_triangle(values: Array, triangle: Array, out: Array) -> None:
    """Write values times an upper triangle into `out`, at little more than half the work of a square."""
    for start in range(0, triangle.shape[1], PANEL):
        stop = min(start + PANEL, triangle.shape[1])
        np.matmul(values[:, :stop], triangle[:stop, start:stop], out=out[:, start:stop])


def strongest_of(roughness: Array, rank: int) -> tuple[Array, Array, float]:
    """Return the eigenvectors of the greatest roughness, 1 - (1 + u)^-1/2 of each, and what the next would shrink."""
    D = len(roughness)
    values, vectors = scipy.linalg.eigh(
        roughness.T, lower=True, check_finite=False, subset_by_index=[D - rank - 1, D - 1]
    )
    values = np.maximum(values, 0.0)
    return vectors[:, 1:], 1 - (1 + values[1:]) ** -0.5, float(values[0] / (1 + values[0]))


@dataclass(frozen=True, eq=False)
class WhitenedFeatures:
    """Features times an upper triangle."""

    features: Features
    whitening: Array  # (D, D), upper triangle

    @property
    def matrix(self) -> Array:
        """What features are multiplied by, in float64."""
        return self.whitening.astype(np.float64)

    @property
    def n_components(self) -> int:
        return self.whitening.shape[1]

    def astype(self, dtype: Any) -> Self:
        """Return the same draw for rows of another dtype."""
        return replace(self, features=self.features.astype(dtype), whitening=self.whitening.astype(dtype, copy=False))

    def output_dtype(self, dtype: Any) -> np.dtype:
        """Return the dtype of the features of rows of this dtype."""
        return self.features.output_dtype(dtype)

    def __call__(self, X: Any, out: Array) -> None:
        """Write the features of the rows of `X` into `out`."""
        columns = np.empty((X.shape[0], self.n_components), out.dtype)
        self.features(X, columns)
        times_triangle(columns, self.whitening, out)


@dataclass(frozen=True, eq=False)
class LowRankFeatures:
    """Features shrunk along some orthogonal directions."""

    features: Features
    basis: Array  # (D, rank)
    shrinkage: Array  # (rank,)

    @property
    def matrix(self) -> Array:
        """What features are multiplied by, in float64."""
        basis, shrinkage = self.basis.astype(np.float64), self.shrinkage.astype(np.float64)
        return np.eye(len(basis)) - (basis * shrinkage) @ basis.T

    @property
    def n_components(self) -> int:
        return self.basis.shape[0]

    def astype(self, dtype: Any) -> Self:
        """Return the same draw for rows of another dtype."""
        basis, shrinkage = (part.astype(dtype, copy=False) for part in (self.basis, self.shrinkage))
        return replace(self, features=self.features.astype(dtype), basis=basis, shrinkage=shrinkage)

    def output_dtype(self, dtype: Any) -> np.dtype:
        """Return the dtype of the features of rows of this dtype."""
        return self.features.output_dtype(dtype)

    def __call__(self, X: Any, out: Array) -> None:
        """Write the features of the rows of `X` into `out`."""
        self.features(X, out)
        out -= ((out @ self.basis) * self.shrinkage) @ self.basis.T
