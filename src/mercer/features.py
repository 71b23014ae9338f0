"""Drawn features, which maps make and statistics sum: pure functions from rows to features.

`Features` is the contract. A user's own features subclass it, usually as a frozen dataclass, and add `n_components`,
`astype` and `__call__`; everything else has a default.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from mercer.errors import DataError

__all__ = ["Features", "Lengthscales", "check_finite", "features_of", "rows_to_features"]

Array = np.ndarray


class Lengthscales(Protocol):
    """How features change with the lengthscales of the features of X, while everything that was drawn stays.

    Derivatives are those of a function of the approximate kernel Z Z': its value does not change if the features are
    rotated.
    """

    def gradient(self, X: Array, Z: Array, G: Array) -> Array:
        """Return the part of the derivative (d,) in the log lengthscales that a block of rows adds.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Rows, in float64.
        Z : ndarray of shape (n, n_components)
            Their features.
        G : ndarray of shape (n, n_components)
            The derivative of the function in these features.
        """

    def gradient_of_draw(self, ZG: Array) -> Array:
        """Return the part of the derivative (d,) that goes through the draw itself; `ZG` is Z'G over all rows."""

    def multiplied(self, factors: Array) -> Features:
        """Return the same draw with the lengthscale of each feature of X multiplied by a factor."""


class Features(ABC):
    """A drawn map: a pure function of rows that knows nothing of estimators.

    A subclass has an attribute or property `n_components`, the number of components.
    """

    if TYPE_CHECKING:
        # Subclasses declare these as fields of a dataclass, as class attributes or as properties.
        @property
        def n_components(self) -> int: ...

        @property
        def signs(self) -> Array | None: ...

        @property
        def is_complex(self) -> bool: ...

        @property
        def lengthscales(self) -> Lengthscales | None: ...

    else:
        #: None, or an array of +1 and -1, one per component, where the approximate kernel is indefinite.
        signs = None
        #: Whether the features are complex numbers, of the precision of the rows.
        is_complex = False
        #: None, or the derivatives in the lengthscales, where they have a closed form.
        lengthscales = None

    @abstractmethod
    def astype(self, dtype: Any) -> Self:
        """Return the same draw for rows of another dtype, float32 or float64."""

    @abstractmethod
    def __call__(self, X: Any, out: Array) -> None:
        """Write the features of the rows of `X`, of the dtype of the draw, into `out`."""

    def output_dtype(self, dtype: Any) -> np.dtype:
        """Return the dtype of the features of rows of a dtype."""
        return np.result_type(dtype, np.complex64) if self.is_complex else np.dtype(dtype)


def features_of(features: Features, X: Any) -> Array:
    """Return the features of a block of rows whose dtype is that of the draw."""
    out = np.empty((X.shape[0], features.n_components), features.output_dtype(X.dtype))
    features(X, out)
    return out


def rows_to_features(features: Features, X: Any) -> Array:
    """Return the features of rows of any dtype."""
    return features_of(features.astype(X.dtype), X)


def check_finite(owner: str, out: Array) -> None:
    """Raise if features that are products of many numbers overflow."""
    # One pass over values that are in cache: a sum of finite numbers is finite, unless all are near overflow.
    with np.errstate(over="ignore", invalid="ignore"):
        total = out.sum()
    if not np.isfinite(total) and not np.isfinite(out).all():
        msg = f"{owner}: features overflow {out.dtype}. Scale the rows down, or pass float64."
        raise DataError(msg)
