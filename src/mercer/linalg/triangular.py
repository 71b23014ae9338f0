"""Product of a matrix with an upper triangular matrix, by which features are whitened."""

from __future__ import annotations

import numpy as np

__all__ = ["times_triangle"]

Array = np.ndarray
# Columns of the product that are computed at once. Rows of the triangle that are zero in these columns are skipped.
PANEL = 512


def times_triangle(values: Array, triangle: Array, out: Array) -> None:
    """Write values @ triangle into `out`, where `triangle` is upper triangular, in half the time of a full product."""
    for start in range(0, triangle.shape[1], PANEL):
        stop = min(start + PANEL, triangle.shape[1])
        np.matmul(values[:, :stop], triangle[:stop, start:stop], out=out[:, start:stop])
