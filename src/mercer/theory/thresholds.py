r"""Variances of threshold estimates of minima.

A threshold is a point u of a line of length M; an indicator that is one on a part of it of length k, times M, has mean
k. So :math:`\min(x, y)` is the length of [0, min(x, y)] in a line [0, T], and sums of minima put lines end to end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

__all__ = ["jittered_variance", "threshold_variance"]


def threshold_variance(k: np.ndarray, length: float, n: int) -> np.ndarray:
    r"""Variance of an estimate from `n` independent thresholds: :math:`(M k - k^2) / n`.

    Examples
    --------
    >>> float(threshold_variance(0.5, 1.0, 100))
    0.0025
    """
    return (length * k - np.square(k)) / n


def jittered_variance(segments: Iterable[tuple[float, Any, Any]], n: int) -> np.ndarray:
    r"""Variance of an estimate from `n` thresholds, one in each stratum of equal length.

    Thresholds of different strata are independent, so with :math:`p_s` the mean of the indicator in stratum s the
    variance is :math:`h^2 \sum_s p_s (1 - p_s)`, h = M / n. Only strata that are covered in part count.

    Parameters
    ----------
    segments : iterable of (length, reached, inside)
        The line, from left to right: each segment has a length, the fraction of it that is covered, from its left
        end, and the mean of the indicator on what is covered, one if the threshold is all that it looks at.
    n : int
        Number of strata.

    Returns
    -------
    ndarray
        Of the shape of `reached` and `inside`.

    Examples
    --------
    >>> round(float(jittered_variance([(1.0, 0.55, 1.0)], 10)), 6)  # half of one stratum of length 0.1
    0.0025
    """
    segments = list(segments)
    step = sum(length for length, _, _ in segments) / n
    if step == 0:
        return np.zeros(np.broadcast_shapes(*(np.shape(v) for _, *values in segments for v in values)))
    # In units of a stratum. `current` is the mean in the stratum under way, which several segments may share.
    start = 0.0
    mean = squares = current = np.zeros(())
    for length, reached, inside in segments:
        end = start + length / step
        covered = start + (end - start) * reached
        mean = mean + (covered - start) * inside
        first, last = np.ceil(start), np.floor(end)
        if first > last:
            current = current + (covered - start) * inside
        else:
            current = current + np.minimum(covered - start, first - start) * inside
            whole = np.clip(covered - first, 0.0, last - first)
            squares = squares + np.square(current)
            squares = squares + np.square(inside) * (np.floor(whole) + np.square(whole - np.floor(whole)))
            current = np.maximum(covered - last, 0.0) * inside
        start = end
    return step**2 * np.maximum(mean - squares - np.square(current), 0.0)
