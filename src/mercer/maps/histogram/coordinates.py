"""Evaluation of components that depend on one coordinate (feature of X) each, on the nonzero entries of sparse rows.

`homogeneous` and `indicators` use `CoordinateIndex` for sparse rows, so that their cost is proportional to the number
of nonzero entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mercer.kernels.histogram import canonical

__all__ = ["CoordinateIndex"]

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class CoordinateIndex:
    """Lookup of the components that depend on a coordinate, for components that depend on one coordinate each."""

    coordinates: Array  # (m,): the coordinate that each component depends on
    d: int  # number of coordinates

    @cached_property
    def order(self) -> Array:
        """Indices of the components, sorted by their coordinate."""
        return np.argsort(self.coordinates, kind="stable")

    @cached_property
    def starts(self) -> Array:
        """Positions (d + 1,): the components of coordinate i are ``order[starts[i] : starts[i + 1]]``."""
        return np.concatenate([[0], np.cumsum(np.bincount(self.coordinates, minlength=self.d))])

    def entries(self, X: Any) -> tuple[Array, Array, Array]:
        """Return all pairs of a nonzero entry of CSR rows and a component that depends on its coordinate.

        Returns
        -------
        rows, components : ndarrays of int
            Index of the row of the entry, and of the component.
        values : ndarray
            Value of the entry.
        """
        X = canonical(X)
        rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        counts = np.diff(self.starts)[X.indices]
        ends = np.cumsum(counts)
        within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)
        components = self.order[np.repeat(self.starts[X.indices], counts) + within]
        return np.repeat(rows, counts), components, np.repeat(X.data, counts)
