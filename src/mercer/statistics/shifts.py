"""Second moments about any point: features far from zero, beside which they vary little, lose no digits.

The products of features of size r that vary by s hold r^2 / s^2 times more than what varies, and their rounding is as
much larger. Less a point near their mean they do not; and sums about different points can still be added, since moving
from one point to another is a correction of rank two, in float64.
"""

from __future__ import annotations

import numpy as np

__all__ = ["FAR", "far_mean", "moved_gram", "point_near"]

Array = np.ndarray
# A mean counts as far if its square is this much larger than the mean square of what varies about it.
FAR = 8.0
# Rows of a matrix that are worked on at a time: few enough to be in cache when they are needed again.
PANEL_ROWS = 64


def far_mean(Z: Array) -> Array | None:
    """Return the mean of a few features if it lies far from zero, and None if taking it off would gain little.

    It is rounded to float32, so that features of every dtype can be taken less exactly the same point.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        mean = Z.mean(axis=0, dtype=np.float64).astype(np.float32).astype(np.float64)
        spread = float(np.square(Z - mean).sum(axis=1, dtype=np.float64).mean())
        far = float(mean @ mean) > FAR * spread  # never if something overflowed
    return mean if far else None


def point_near(Z: Array) -> Array:
    """Return the mean of a few features if it lies far from zero, and zero otherwise."""
    mean = far_mean(Z)
    return np.zeros(Z.shape[1]) if mean is None else mean


def moved_gram(gram: Array, feature_sum: Array, weight: float, shift: Array | None, to: Array) -> Array:
    """Return the sums w (z - to) (z - to)' of an upper triangle, given those about `shift`; None means zero.

    `feature_sum` is the sum of w z. What stands below the diagonal is not defined.
    """
    step = -to if shift is None else shift - to
    about = feature_sum if shift is None else feature_sum - weight * shift
    # G + d m' + m d' + W d d', with m the sum about the old point: two products of columns.
    left, right = np.stack([step, about + weight / 2 * step]), np.stack([about + weight / 2 * step, step])
    moved = np.empty_like(gram)
    for i in range(0, len(gram), PANEL_ROWS):  # the whole product would be another matrix of that size
        rows, columns = slice(i, i + PANEL_ROWS), slice(i, None)
        np.matmul(left[:, rows].T, right[:, columns], out=moved[rows, columns])
        moved[rows, columns] += gram[rows, columns]
    return moved
