"""Sampling of a map for use within another map: with any number of components, or as scalar maps.

A scalar map of a kernel k is a random function w of one component with E[w(x) w(y)] = k(x, y). Products of features
approximate a product of kernels only if the factors are independent scalar maps (Kar, Karnick 2012, section 5). A
single component of a map need not be a scalar map. For example, a cosine without its sine, an exact constant and a
monomial are not scalar maps. The sum of all components of an unbiased map with random signs is always a scalar map.
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

__all__ = ["MixedFeatures", "Sample", "ShuffledFeatures", "draw_components", "mixed", "scalar_copies", "squared_error"]

Array = np.ndarray
# Number of pilot rows. The error of a pilot sample is measured on all pairs of them.
PILOT_ROWS = 100
# Number of coefficients of a power series that are checked to be non-negative. A map may have sampled only few of them.
SEARCHED = 32


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows to which the maps of the single kernels are fitted, weights of the rows, and a random generator."""

    X: Any  # (n, d)
    weight: Array | None  # (n,)
    rng: np.random.Generator

    def pilot(self) -> tuple[Any, Array]:
        """Return the pilot rows and the weights of their pairs.

        The pilot rows are at most `PILOT_ROWS` of the rows, in float64. The weights of all their pairs sum to 1.
        """
        X, weight = self.X, self.weight
        if X.shape[0] > PILOT_ROWS:
            # Rows may be sorted, so that the first ones would not be representative.
            chosen = np.sort(self.rng.choice(X.shape[0], PILOT_ROWS, replace=False))
            X, weight = X[chosen], None if weight is None else weight[chosen]
        weight = np.ones(X.shape[0]) if weight is None else weight
        return X.astype(np.float64), np.outer(weight, weight) / weight.sum() ** 2


def draw_components(prototype: DrawnMap, kernel: Kernel, sample: Sample, count: int) -> Features:
    """Sample a map so that it has exactly `count` components, and return its features.

    If the smallest possible map has more than `count` components, this smallest map is sampled, and each of the `count`
    components that are returned is a sum of all its components with independent random signs.
    """
    fewest = prototype.least_components(kernel)
    wide = copy(prototype)  # a clone takes longer than sampling few components, and a product may need hundreds
    wide.kernel, wide.n_components = kernel, max(count, fewest)
    features = wide._draw(kernel, sample.X, sample.weight, sample.rng)
    check_real(wide, features)
    return features if count >= fewest else mixed(wide, features, count, sample.rng, scale=count**-0.5)


def squared_error(features: Features, kernel: Kernel, sample: Sample) -> float:
    """Return the mean squared error of sampled features as an approximation of a kernel, over pairs of pilot rows."""
    pilot, pair_weights = sample.pilot()
    Z = features_of(features.astype(np.float64), pilot)
    gram = (Z if features.signs is None else Z * features.signs) @ Z.T
    with np.errstate(over="ignore"):
        return float(np.sum(pair_weights * np.square(gram - kernel(pilot))))


def scalar_copies(prototype: DrawnMap, kernel: Kernel, sample: Sample, count: int) -> Features:
    """Sample `count` scalar maps of the kernel k: functions w_i with E[w_i(x) w_i(y)] = k(x, y) for each i.

    Scalar maps from the same call may depend on each other. Scalar maps from different calls are independent.
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
    """Return `count` components. Each is `scale` times the sum of all components of `features` with random signs."""
    check_unsigned(owner, features)
    signs = rng.integers(0, 2, (features.n_components, count), dtype=np.int8) * 2.0 - 1.0
    return MixedFeatures(features, scale * signs)


def check_real(owner: BaseMap, features: Features) -> None:
    """Raise if the features of the map `owner` are complex."""
    if features.is_complex:
        msg = f"{owner!r} has complex features, and cannot be a part of another map. Use form='pairs'."
        raise ParameterError(msg)


def check_unsigned(owner: BaseMap, features: Features) -> None:
    """Raise if the features of the map `owner` have signs, or if the kernel of `owner` has negative coefficients.

    Products and random sums are not defined for features with signs.
    """
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
    """The components of other features in the order `order`, times `scale`."""

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
    """Sums of the components of other features with random signs: the matrix product ``Z @ mixing`` for features Z."""

    features: Features
    mixing: Array  # (number of components of `features`, n_components)

    @property
    def n_components(self) -> int:
        return self.mixing.shape[1]

    def astype(self, dtype: Any) -> Self:
        return replace(self, features=self.features.astype(dtype), mixing=self.mixing.astype(dtype))

    def __call__(self, X: Any, out: Array) -> None:
        np.matmul(features_of(self.features, X), self.mixing, out=out)
