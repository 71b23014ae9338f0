"""Draws of a map for use within another map: with any number of components, or with components that are maps.

A product of features approximates a product of kernels only if the factors are independent and each is unbiased by
itself: E[w(x) w(y)] = k(x, y) for a single component w (Kar, Karnick 2012, section 5). A component of a map need not
be: a cosine without its sine, an exact constant and a monomial are not. A sum of all components of a map with random
signs always is.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from mercer.errors import ParameterError
from mercer.features import Features, features_of
from mercer.kernels import Kernel
from mercer.maps.base import BaseMap, DrawnMap

__all__ = ["MixedFeatures", "Sample", "ShuffledFeatures", "draw_components", "mixed", "scalar_copies"]

Array = np.ndarray
# Rows on whose pairs the error of a pilot draw is measured.
PILOT_ROWS = 100
# Coefficients of a series that are searched for a negative one, which a draw of few components may have missed.
SEARCHED = 32


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows that maps of parts are drawn from, with their weights and the source of randomness."""

    X: Any  # (n, d)
    weight: Array | None  # (n,)
    rng: np.random.Generator

    def pilot(self) -> tuple[Any, Array]:
        """Return some rows in float64, and the weights, of sum one, of all their pairs."""
        X, weight = self.X, self.weight
        if X.shape[0] > PILOT_ROWS:
            # Rows may be sorted, so that the first ones would not be representative.
            chosen = np.sort(self.rng.choice(X.shape[0], PILOT_ROWS, replace=False))
            X, weight = X[chosen], None if weight is None else weight[chosen]
        weight = np.ones(X.shape[0]) if weight is None else weight
        return X.astype(np.float64), np.outer(weight, weight) / weight.sum() ** 2


def draw_components(prototype: DrawnMap, kernel: Kernel, sample: Sample, count: int) -> Features:
    """Draw a map with any number of components: a map that needs more is drawn wider and mixed."""
    fewest = prototype.least_components(kernel)
    wide = copy(prototype)  # a clone takes longer than a small draw, and a product may need hundreds
    wide.kernel, wide.n_components = kernel, max(count, fewest)
    features = wide._draw(kernel, sample.X, sample.weight, sample.rng)
    check_real(wide, features)
    return features if count >= fewest else mixed(wide, features, count, sample.rng, scale=count**-0.5)


def scalar_copies(prototype: DrawnMap, kernel: Kernel, sample: Sample, count: int) -> Features:
    """Draw `count` components from a map, each an unbiased map of the kernel by itself.

    Components of one call may depend on each other; those of different calls are independent.
    """
    independent = prototype.with_independent_components(kernel, count)
    if independent is not None:
        features = independent._draw(kernel, sample.X, sample.weight, sample.rng)
        check_unsigned(independent, features)
        # In random order: a map may put components of high degree first.
        return ShuffledFeatures(features, sample.rng.permutation(count), count**0.5)
    complete = prototype.with_kernel(kernel)
    features = complete._draw(kernel, sample.X, sample.weight, sample.rng)
    check_real(complete, features)
    return mixed(complete, features, count, sample.rng, scale=1.0)


def mixed(owner: BaseMap, features: Features, count: int, rng: np.random.Generator, *, scale: float) -> MixedFeatures:
    """Return sums of all features of a map with random signs, times a number."""
    check_unsigned(owner, features)
    signs = rng.integers(0, 2, (features.n_components, count), dtype=np.int8) * 2.0 - 1.0
    return MixedFeatures(features, scale * signs)


def check_real(owner: BaseMap, features: Features) -> None:
    """Raise if features are complex."""
    if features.is_complex:
        msg = f"{owner!r} has complex features, and cannot be a part of another map. Use form='pairs'."
        raise ParameterError(msg)


def check_unsigned(owner: BaseMap, features: Features) -> None:
    """Raise if features have signs, or might have: products and mixtures of such features are not defined."""
    parts = owner._kernel().series_parts() or ()
    coefficients = (part.series.coefficients(min(part.series.degree or SEARCHED, SEARCHED) + 1) for part in parts)
    if features.signs is not None or any((a < 0).any() for a in coefficients):
        msg = (
            f"{owner!r} has features with signs, because its kernel has negative coefficients; they can be summed, but "
            "neither multiplied nor mixed. Use kernels with coefficients >= 0."
        )
        raise ParameterError(msg)


@dataclass(frozen=True, eq=False)
class ShuffledFeatures(Features):
    """Features in another order, times a number."""

    features: Features
    order: Array
    scale: float

    @property
    def n_components(self) -> int:
        return len(self.order)

    def astype(self, dtype: Any) -> Self:
        return replace(self, features=self.features.astype(dtype))

    def __call__(self, X: Any, out: Array) -> None:
        np.multiply(np.take(features_of(self.features, X), self.order, axis=1), self.scale, out=out)


@dataclass(frozen=True, eq=False)
class MixedFeatures(Features):
    """Sums of all features of a map with random signs."""

    features: Features
    mixing: Array  # (components of the map, n_components)

    @property
    def n_components(self) -> int:
        return self.mixing.shape[1]

    def astype(self, dtype: Any) -> Self:
        return replace(self, features=self.features.astype(dtype), mixing=self.mixing.astype(dtype))

    def __call__(self, X: Any, out: Array) -> None:
        np.matmul(features_of(self.features, X), self.mixing, out=out)
