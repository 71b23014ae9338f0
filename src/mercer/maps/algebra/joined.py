"""Combinations of the features of several maps: concatenation, componentwise products and Kronecker products."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any, Self

import numpy as np

from mercer.features import Features, check_finite, features_of

__all__ = ["KroneckerFeatures", "MultipliedFeatures", "PairedFeatures", "StackedFeatures"]

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class _JoinedFeatures(Features):
    """Base class of features that combine the features of several maps (`parts`), evaluated on the same rows."""

    parts: tuple[Features, ...]
    n_components: int

    def astype(self, dtype: Any) -> Self:
        return replace(self, parts=tuple(part.astype(dtype) for part in self.parts))


class StackedFeatures(_JoinedFeatures):
    """Concatenation of the features of several maps, with zeros appended up to `n_components` components."""

    @property
    def signs(self) -> Array | None:
        signs = np.ones(self.n_components)
        start = 0
        for part in self.parts:
            signs[start : start + part.n_components] = 1.0 if part.signs is None else part.signs
            start += part.n_components
        return signs if (signs < 0).any() else None

    def __call__(self, X: Any, out: Array) -> None:
        start = 0
        for part in self.parts:
            part(X, out[:, start : start + part.n_components])
            start += part.n_components
        out[:, start:] = 0


@dataclass(frozen=True, eq=False)
class MultipliedFeatures(Features):
    """Features of a map times a number."""

    features: Features
    factor: float

    @property
    def n_components(self) -> int:
        return self.features.n_components

    @property
    def signs(self) -> Array | None:
        return self.features.signs

    @property
    def is_complex(self) -> bool:
        return self.features.is_complex

    def astype(self, dtype: Any) -> Self:
        return replace(self, features=self.features.astype(dtype))

    def __call__(self, X: Any, out: Array) -> None:
        self.features(X, out)
        out *= self.factor


class PairedFeatures(_JoinedFeatures):
    """Componentwise products of the features of several maps of equal width, divided by sqrt(n_components)."""

    def __call__(self, X: Any, out: Array) -> None:
        self.parts[0](X, out)
        out *= self.n_components**-0.5
        values = np.empty(out.shape, out.dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            for part in self.parts[1:]:
                part(X, values)
                out *= values
        check_finite("ProductMap", out)


@dataclass(frozen=True, eq=False)
class KroneckerFeatures(Features):
    """Products of the features of several maps, where the last map has an independent sample for each product.

    Let p_1, p_2, ... be all products of one component from each of `parts`. The output consists of p_i times every
    component of ``inner[i]``, for all i. Zeros are appended up to `n_components` components.
    """

    parts: tuple[Features, ...]
    n_components: int
    inner: tuple[Features, ...]  # independent samples of the last map, one for each product p_i

    def __post_init__(self) -> None:
        products, components = prod(part.n_components for part in self.parts), sum(f.n_components for f in self.inner)
        if products != len(self.inner) or components > self.n_components:
            msg = (
                f"KroneckerFeatures: {products} products need as many inner features, with at most "
                f"{self.n_components} components in total, got {len(self.inner)} with {components}."
            )
            raise ValueError(msg)

    def astype(self, dtype: Any) -> Self:
        parts, inner = (tuple(f.astype(dtype) for f in several) for several in (self.parts, self.inner))
        return replace(self, parts=parts, inner=inner)

    def __call__(self, X: Any, out: Array) -> None:
        outer = np.ones((X.shape[0], 1), out.dtype)
        start = 0
        with np.errstate(over="ignore", invalid="ignore"):
            for part in self.parts:
                values = features_of(part, X)
                outer = (outer[:, :, None] * values[:, None, :]).reshape(X.shape[0], -1)
            for i, part in enumerate(self.inner):
                block = out[:, start : start + part.n_components]
                part(X, block)
                block *= outer[:, i : i + 1]
                start += part.n_components
        out[:, start:] = 0
        check_finite("ProductMap", out)
