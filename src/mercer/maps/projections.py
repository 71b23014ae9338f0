"""Drawn frequencies, applied to rows: a dense matrix, or sign-Hadamard products that need none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from mercer import linalg
from mercer.errors import DataError

__all__ = ["DenseProjection", "HadamardProjection", "check_range"]

Array = np.ndarray


@dataclass(frozen=True)
class DenseProjection:
    """Angles X W of frequencies W, one a column."""

    weights: Array  # (d, m)

    @property
    def n_frequencies(self) -> int:
        return self.weights.shape[1]

    @cached_property
    def gain(self) -> float:
        """Largest |angle| over the largest |entry| of a row."""
        return float(np.abs(self.weights).sum(axis=0).max(initial=0.0))

    def astype(self, dtype: Any) -> Self:
        return replace(self, weights=self.weights.astype(dtype, copy=False))

    def __call__(self, X: Any) -> Array:
        angles = X @ self.weights
        return angles.toarray() if sp.issparse(angles) else angles


@dataclass(frozen=True)
class HadamardProjection:
    """Angles r_j (H S_3 H S_2 H S_1 x)_j, blocks of orthogonal frequencies at O(log d) operations each."""

    signs: Array  # (blocks, factors, P)
    radii: Array  # (m,)
    input_scale: Array | None  # (d,), multiplies the rows first

    @property
    def n_frequencies(self) -> int:
        return len(self.radii)

    @cached_property
    def gain(self) -> float:
        """Largest |angle| over the largest |entry| of a row, from above."""
        scale = 1.0 if self.input_scale is None else np.abs(self.input_scale).max()
        return float(np.abs(self.radii).max(initial=0.0) * self.signs.shape[2] * scale)

    def astype(self, dtype: Any) -> Self:
        scale = None if self.input_scale is None else self.input_scale.astype(dtype, copy=False)
        return replace(
            self,
            signs=self.signs.astype(dtype, copy=False),
            radii=self.radii.astype(dtype, copy=False),
            input_scale=scale,
        )

    def rows(self, X: Any) -> Array:
        """Return rows ready for the transform: dense, scaled, contiguous."""
        X = X.toarray() if sp.issparse(X) else X
        if self.input_scale is not None:
            X = X * self.input_scale
        return np.ascontiguousarray(X, dtype=self.radii.dtype)

    def __call__(self, X: Any) -> Array:
        X = self.rows(X)
        angles = np.empty((len(X), self.n_frequencies), X.dtype)
        linalg.sign_hadamard(X, self.signs, angles)
        angles *= self.radii
        return angles


def check_range(projection: DenseProjection | HadamardProjection, X: Any) -> None:
    """Raise if an angle of these rows could overflow its dtype, and so turn into NaN."""
    values = X.data if sp.issparse(X) else X
    largest = float(np.abs(values).max(initial=0.0)) if values.size else 0.0
    limit = float(np.finfo(X.dtype).max) / 4 / max(projection.gain, 1.0)
    if largest > limit:
        msg = (
            f"X has entries up to {largest:.3g}, whose angles would overflow {X.dtype}: needed |x| <= {limit:.3g}. "
            "Scale the columns first (StandardScaler), or pass float64."
        )
        raise DataError(msg)
