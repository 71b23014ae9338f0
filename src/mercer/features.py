"""The contract of drawn features, which maps make and statistics sum: pure functions from rows to features."""

from __future__ import annotations

from typing import Any, Protocol, Self

import numpy as np

__all__ = ["Features", "features_of"]


class Features(Protocol):
    """A drawn map: a pure function of rows that knows nothing of estimators."""

    @property
    def n_components(self) -> int:
        """Number of components."""

    @property
    def signs(self) -> np.ndarray | None:
        """None, or an array of +1 and -1, one per component, where the approximate kernel is indefinite."""

    def astype(self, dtype: Any) -> Self:
        """Return the same draw for rows of another dtype."""

    def output_dtype(self, dtype: Any) -> np.dtype:
        """Return the dtype of the features of rows of `dtype`."""

    def __call__(self, X: Any, out: np.ndarray) -> None:
        """Write the features of the rows of `X` into `out`."""


def features_of(features: Features, X: Any) -> np.ndarray:
    """Return the features of a block of rows whose dtype is that of the draw."""
    out = np.empty((X.shape[0], features.n_components), features.output_dtype(X.dtype))
    features(X, out)
    return out
