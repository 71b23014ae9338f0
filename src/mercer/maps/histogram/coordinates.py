"""Index from the coordinates (columns of X) to the components of a map, if each component depends on one coordinate.

The modules `homogeneous` and `indicators` use this index to compute features of sparse rows from the nonzero entries
only.
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
    """Index from each coordinate (column of X) to the components that depend on it.

    Component j depends only on the coordinate ``coordinates[j]``.
    """

    coordinates: Array  # (m,): the coordinate that each component depends on
    d: int  # number of coordinates

    @cached_property
    def order(self) -> Array:
        """Indices (m,) of all components: first those that depend on coordinate 0, then on coordinate 1, and so on."""
        return np.argsort(self.coordinates, kind="stable")

    @cached_property
    def starts(self) -> Array:
        """Positions (d + 1,) such that ``order[starts[i] : starts[i + 1]]`` are the components for coordinate i."""
        return np.concatenate([[0], np.cumsum(np.bincount(self.coordinates, minlength=self.d))])

    def entries(self, X: Any) -> tuple[Array, Array, Array]:
        """Return all triples (r, j, x) where x is a nonzero entry in row r of `X` on which component j depends.

        Parameters
        ----------
        X : CSR matrix of shape (n, d)
            Rows.

        Returns
        -------
        rows, components : ndarrays of int
            The row index r and the component index j of each triple.
        values : ndarray
            The value x of each triple.
        """
        X = canonical(X)
        rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        counts = np.diff(self.starts)[X.indices]
        ends = np.cumsum(counts)
        within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)
        components = self.order[np.repeat(self.starts[X.indices], counts) + within]
        return np.repeat(rows, counts), components, np.repeat(X.data, counts)
