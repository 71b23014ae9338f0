"""Features of several drawn maps of the same rows: side by side, multiplied column by column, or all with all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from mercer.features import Features
from mercer.maps.parameters import check_finite

__all__ = ["KroneckerFeatures", "PairedFeatures", "StackedFeatures"]

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class _ManyFeatures:
    """Several drawn maps of the same rows."""

    parts: tuple[Features, ...]
    n_components: int

    def astype(self, dtype: Any) -> Self:
        """Return the same draw for rows of another dtype."""
        return replace(self, parts=tuple(part.astype(dtype) for part in self.parts))

    def output_dtype(self, dtype: Any) -> np.dtype:
        """Return the dtype of the features of rows of this dtype."""
        return np.result_type(*(part.output_dtype(dtype) for part in self.parts))


class StackedFeatures(_ManyFeatures):
    """Features of several maps side by side."""

    @property
    def signs(self) -> Array | None:
        signs = np.ones(self.n_components)
        start = 0
        for part in self.parts:
            of_part = getattr(part, "signs", None)
            signs[start : start + part.n_components] = 1.0 if of_part is None else of_part
            start += part.n_components
        return signs if (signs < 0).any() else None

    def __call__(self, X: Any, out: Array) -> None:
        """Write the features of the rows of `X` into `out`."""
        start = 0
        for part in self.parts:
            part(X, out[:, start : start + part.n_components])
            start += part.n_components
        out[:, start:] = 0


class PairedFeatures(_ManyFeatures):
    """Products of one scalar map of each factor a column."""

    def __call__(self, X: Any, out: Array) -> None:
        """Write the features of the rows of `X` into `out`."""
        self.parts[0](X, out)
        out *= self.n_components**-0.5
        columns = np.empty(out.shape, out.dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            for part in self.parts[1:]:
                part(X, columns)
                out *= columns
        check_finite("ProductMap", out)


@dataclass(frozen=True, eq=False)
class KroneckerFeatures(_ManyFeatures):
    """Products of each column of some maps with all columns of a draw of its own of another."""

    inner: tuple[Features, ...]

    def astype(self, dtype: Any) -> Self:
        """Return the same draw for rows of another dtype."""
        return replace(super().astype(dtype), inner=tuple(features.astype(dtype) for features in self.inner))

    def output_dtype(self, dtype: Any) -> np.dtype:
        """Return the dtype of the features of rows of this dtype."""
        return np.result_type(*(features.output_dtype(dtype) for features in (*self.parts, *self.inner)))

    def __call__(self, X: Any, out: Array) -> None:
        """Write the features of the rows of `X` into `out`."""
        outer = np.ones((X.shape[0], 1), out.dtype)
        start = 0
        with np.errstate(over="ignore", invalid="ignore"):
            for part in self.parts:
                columns = np.empty((X.shape[0], part.n_components), out.dtype)
                part(X, columns)
                outer = (outer[:, :, None] * columns[:, None, :]).reshape(X.shape[0], -1)
            for i, part in enumerate(self.inner):
                block = out[:, start : start + part.n_components]
                part(X, block)
                block *= outer[:, i : i + 1]
                start += part.n_components
        out[:, start:] = 0
        check_finite("ProductMap", out)
