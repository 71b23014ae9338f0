"""Scalar copies of a map: columns each of which is an unbiased map of the kernel by itself.

A product of features stands for a product of kernels only if the factors are independent and each is right by itself:
E[w(x) w(y)] = k(x, y) for a single column w (MATHS S0.15 and section D). A column of a map need not be: a cosine
without its sine, an exact constant, a monomial are not. A random sum of all columns of a map always is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from mercer.kernels import Kernel
from mercer.maps.base import BaseMap, Features, for_kernel

__all__ = ["MixedFeatures", "ScaledFeatures", "scalar_copies"]

Array = np.ndarray


def scalar_copies(
    prototype: BaseMap, kernel: Kernel, X: Any, weight: Array | None, count: int, rng: np.random.Generator
) -> Features:
    """Draw `count` columns from a map, each an unbiased scalar map of the kernel.

    Columns of one call may lean on each other; those of different calls are independent.
    """
    independent = prototype.with_independent_columns(kernel, count)
    if independent is not None:
        features = independent._draw(kernel, X, weight, rng)
        return ScaledFeatures(features, float(np.sqrt(count)))
    features = for_kernel(prototype, kernel)._draw(kernel, X, weight, rng)
    signs = rng.integers(0, 2, (features.n_components, count), dtype=np.int8) * 2.0 - 1.0
    return MixedFeatures(features, signs)


@dataclass(frozen=True, eq=False)
class ScaledFeatures:
    """Features times a number."""

    features: Features
    scale: float

    @property
    def n_components(self) -> int:
        return self.features.n_components

    def astype(self, dtype: Any) -> Self:
        """Return the same draw for rows of another dtype."""
        return replace(self, features=self.features.astype(dtype))

    def output_dtype(self, dtype: Any) -> np.dtype:
        """Return the dtype of the features of rows of this dtype."""
        return self.features.output_dtype(dtype)

    def __call__(self, X: Any, out: Array) -> None:
        """Write the features of the rows of `X` into `out`."""
        self.features(X, out)
        out *= self.scale


@dataclass(frozen=True, eq=False)
class MixedFeatures:
    """Sums of all features of a map with random signs."""

    features: Features
    signs: Array  # (columns of the map, columns)

    @property
    def n_components(self) -> int:
        return self.signs.shape[1]

    def astype(self, dtype: Any) -> Self:
        """Return the same draw for rows of another dtype."""
        return replace(self, features=self.features.astype(dtype), signs=self.signs.astype(dtype))

    def output_dtype(self, dtype: Any) -> np.dtype:
        """Return the dtype of the features of rows of this dtype."""
        return self.features.output_dtype(dtype)

    def __call__(self, X: Any, out: Array) -> None:
        """Write the features of the rows of `X` into `out`."""
        columns = np.empty((X.shape[0], self.features.n_components), out.dtype)
        self.features(X, columns)
        np.matmul(columns, self.signs, out=out)
