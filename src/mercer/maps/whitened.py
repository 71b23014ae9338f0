"""Products with triangular matrices, by which features are whitened."""

from __future__ import annotations

import numpy as np

__all__ = ["times_triangle"]

Array = np.ndarray
# Number of columns of the product that are computed together, from the rows of the triangle that are not zero there.
PANEL = 512


def times_triangle(values: Array, triangle: Array, out: Array) -> None:
    """Write values @ triangle into `out` for an upper triangle, with little more than half the work of a square."""
    for start in range(0, triangle.shape[1], PANEL):
        stop = min(start + PANEL, triangle.shape[1])
        np.matmul(values[:, :stop], triangle[:stop, start:stop], out=out[:, start:stop])
