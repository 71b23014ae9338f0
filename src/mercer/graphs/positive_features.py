"""Positive random features of the Gaussian kernel. Their inner products are the weights of a `FeatureGraph`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from mercer.engines import Block
from mercer.io.archive import storable
from mercer.kernels.base import dense64, squared_norms

__all__ = ["SLICE_ROWS", "PositiveFeatures", "PositiveSum", "best_exponent", "squared_norms_about"]

Array = np.ndarray
# Number of rows whose features one thread computes at a time.
SLICE_ROWS = 256


def squared_norms_about(X: Any, center: Array, bandwidth: float) -> Array:
    """Return |x - center|^2 / bandwidth^2 for each row x of `X`."""
    if not sp.issparse(X):
        return np.square((dense64(X) - center) / bandwidth).sum(axis=1)
    X, center = X.astype(np.float64) / bandwidth, center / bandwidth
    return np.maximum(squared_norms(X) - 2 * (X @ center) + center @ center, 0.0)


def best_exponent(spread: float, d: int) -> float:
    """Return the parameter A <= 0 of positive random features for which their variance is least.

    Parameters
    ----------
    spread : float
        Mean of |x + y|^2 over pairs of centered rows, in units of the squared bandwidth.
    d : int
        Number of features of the rows.
    """
    if spread <= 1e-12:
        return 0.0
    rho = (math.sqrt((2 * spread + d) ** 2 + 8 * d * spread) - 2 * spread - d) / (4 * spread)
    return min(0.0, (1 - 1 / rho) / 8)


@storable
@dataclass(frozen=True, eq=False)
class PositiveFeatures:
    """Positive random features psi(x) of a Gaussian kernel: psi(x)'psi(y) > 0 has the mean k(x, y).

    The formula is in the Notes of `FeatureGraph`. Features are in float64, because the exponentials exceed the range of
    float32.
    """

    frequencies: Array  # (d, m), including the bandwidth and the factor sqrt(1 - 4A)
    offsets: Array  # (m,), logarithms of the factors that do not depend on the rows
    center: Array  # (d,)
    bandwidth: float

    @classmethod
    def of(cls, frequencies: Array, center: Array, bandwidth: float, A: float) -> Self:
        """Return the positive features with the given standard normal frequencies (d, m), center, bandwidth and A."""
        d, m = frequencies.shape
        offsets = A * np.square(frequencies).sum(axis=0) + 0.25 * d * math.log1p(-4 * A) - 0.5 * math.log(m)
        return cls(math.sqrt(1 - 4 * A) * frequencies / bandwidth, offsets, center, bandwidth)

    @property
    def n_components(self) -> int:
        """Number m of positive features."""
        return self.frequencies.shape[1]

    def __call__(self, X: Any) -> Array:
        """Return the positive features (n, m) of the rows `X`."""
        if sp.issparse(X):
            # Sparse rows are not centered, because that would make them dense.
            exponent = X.astype(np.float64) @ self.frequencies + (self.offsets - self.center @ self.frequencies)
        else:
            exponent = (dense64(X) - self.center) @ self.frequencies + self.offsets
        exponent -= squared_norms_about(X, self.center, self.bandwidth)[:, None]
        with np.errstate(under="ignore"):
            return np.exp(exponent, out=exponent)

    def scaled(self, X: Any, mean: Array) -> tuple[Array, Array]:
        """Return an array (n, m) of psi(x) / sqrt(psi(x)'mean) for each row x, and booleans (n,) of rows with an edge.

        A row has no edge if psi(x)'mean underflows to zero. Then its scaled features are zero.
        """
        psi = self(X)
        degree = psi @ mean
        linked = degree > 0
        psi[linked] /= np.sqrt(degree[linked])[:, None]
        psi[~linked] = 0.0
        return psi, linked


@storable
@dataclass(frozen=True)
class PositiveSum:
    """Accumulator of the weighted sum of the positive features of rows, and of the total weight of the rows."""

    total: Array
    weight: float

    @classmethod
    def of(cls, block: Block, *, positive: PositiveFeatures) -> Self:
        """Return the sums over the rows of one block."""
        weight = np.ones(len(block)) if block.weight is None else block.weight
        total = np.zeros(positive.n_components)
        for i in range(0, len(block), SLICE_ROWS):
            total += weight[i : i + SLICE_ROWS] @ positive(block.X[i : i + SLICE_ROWS])
        return cls(total, float(weight.sum()))

    def __add__(self, other: PositiveSum) -> PositiveSum:
        return PositiveSum(self.total + other.total, self.weight + other.weight)

    @property
    def mean(self) -> Array:
        """The weighted mean of the positive features over all rows."""
        return self.total / self.weight if self.weight > 0 else self.total
