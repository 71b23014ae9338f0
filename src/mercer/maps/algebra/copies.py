"""Columns of a map for use within another: of any width, or each a map of the kernel by itself.

A product of features stands for a product of kernels only if the factors are independent and each is right by itself:
E[w(x) w(y)] = k(x, y) for a single column w (MATHS S0.15 and section D). A column of a map need not be: a cosine
without its sine, an exact constant, a monomial are not. A random sum of all columns of a map always is.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from mercer.errors import ParameterError
from mercer.features import Features
from mercer.kernels import Kernel
from mercer.maps.base import BaseMap, for_kernel
from mercer.maps.drawn import DrawnMap

__all__ = ["MixedFeatures", "ShuffledFeatures", "draw_columns", "mixed", "pilot_rows", "scalar_copies"]

Array = np.ndarray
# Rows whose pairs tell how far a pilot draw is off.
PILOT_ROWS = 100
# Coefficients of a series among which a negative one is looked for: few columns need not have drawn it.
LOOKED_AT = 32


def draw_columns(
    prototype: DrawnMap, kernel: Kernel, X: Any, weight: Array | None, count: int, rng: np.random.Generator
) -> Features:
    """Draw a map of any width: one that needs more columns is drawn wider and mixed."""
    fewest = prototype.fewest_columns(kernel)
    wide = copy(prototype)  # a clone takes longer than a small draw, and a product may need hundreds
    wide.kernel, wide.n_components = kernel, max(count, fewest)
    features = wide._draw(kernel, X, weight, rng)
    check_real(wide, features)
    return features if count >= fewest else mixed(wide, features, count, rng, scale=count**-0.5)


def scalar_copies(
    prototype: DrawnMap, kernel: Kernel, X: Any, weight: Array | None, count: int, rng: np.random.Generator
) -> Features:
    """Draw `count` columns from a map, each an unbiased scalar map of the kernel.

    Columns of one call may lean on each other; those of different calls are independent.
    """
    independent = prototype.with_independent_columns(kernel, count)
    if independent is not None:
        features = independent._draw(kernel, X, weight, rng)
        check_unsigned(independent, features)
        # In random order: a map may put columns of high degree first, and the first would not be like the last.
        return ShuffledFeatures(features, rng.permutation(count), count**0.5)
    whole = for_kernel(prototype, kernel)
    features = whole._draw(kernel, X, weight, rng)
    check_real(whole, features)
    return mixed(whole, features, count, rng, scale=1.0)


def mixed(owner: BaseMap, features: Features, count: int, rng: np.random.Generator, *, scale: float) -> MixedFeatures:
    """Return sums of all features of a map with random signs, times a number."""
    check_unsigned(owner, features)
    signs = rng.integers(0, 2, (features.n_components, count), dtype=np.int8) * 2.0 - 1.0
    return MixedFeatures(features, scale * signs)


def check_real(owner: BaseMap, features: Features) -> None:
    """Raise if features are complex."""
    if np.issubdtype(features.output_dtype(np.float64), np.complexfloating):
        msg = f"{owner!r} has complex features, and cannot be a part of another map. Use form='pairs'."
        raise ParameterError(msg)


def check_unsigned(owner: BaseMap, features: Features) -> None:
    """Raise if features have signs, or might have: a product or a mixture of such has none."""
    parts = owner._kernel().series_parts() or ()
    coefficients = (part.series.coefficients(min(part.series.degree or LOOKED_AT, LOOKED_AT) + 1) for part in parts)
    if getattr(features, "signs", None) is not None or any((a < 0).any() for a in coefficients):
        msg = (
            f"{owner!r} has features with signs, because its kernel has negative coefficients; they can be summed, but "
            "neither multiplied nor mixed. Give kernels of coefficients >= 0."
        )
        raise ParameterError(msg)


def pilot_rows(X: Any, weight: Array | None, rng: np.random.Generator) -> tuple[Any, Array]:
    """Return some rows in float64, and the weights, of sum one, of all their pairs."""
    if X.shape[0] > PILOT_ROWS:
        # Rows may be sorted: those in front would not be like the others.
        chosen = np.sort(rng.choice(X.shape[0], PILOT_ROWS, replace=False))
        X, weight = X[chosen], None if weight is None else weight[chosen]
    weight = np.ones(X.shape[0]) if weight is None else weight
    return X.astype(np.float64), np.outer(weight, weight) / weight.sum() ** 2


@dataclass(frozen=True, eq=False)
class ShuffledFeatures:
    """Features in another order, times a number."""

    features: Features
    order: Array
    scale: float

    @property
    def n_components(self) -> int:
        return len(self.order)

    def astype(self, dtype: Any) -> Self:
        """Return the same draw for rows of another dtype."""
        return replace(self, features=self.features.astype(dtype))

    def output_dtype(self, dtype: Any) -> np.dtype:
        """Return the dtype of the features of rows of this dtype."""
        return self.features.output_dtype(dtype)

    def __call__(self, X: Any, out: Array) -> None:
        """Write the features of the rows of `X` into `out`."""
        columns = np.empty((X.shape[0], self.n_components), out.dtype)
        self.features(X, columns)
        np.multiply(np.take(columns, self.order, axis=1), self.scale, out=out)


@dataclass(frozen=True, eq=False)
class MixedFeatures:
    """Sums of all features of a map with random signs."""

    features: Features
    mixing: Array  # (columns of the map, columns)

    @property
    def n_components(self) -> int:
        return self.mixing.shape[1]

    def astype(self, dtype: Any) -> Self:
        """Return the same draw for rows of another dtype."""
        return replace(self, features=self.features.astype(dtype), mixing=self.mixing.astype(dtype))

    def output_dtype(self, dtype: Any) -> np.dtype:
        """Return the dtype of the features of rows of this dtype."""
        return self.features.output_dtype(dtype)

    def __call__(self, X: Any, out: Array) -> None:
        """Write the features of the rows of `X` into `out`."""
        columns = np.empty((X.shape[0], self.features.n_components), out.dtype)
        self.features(X, columns)
        np.matmul(columns, self.mixing, out=out)
