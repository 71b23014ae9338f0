r"""Variances of threshold estimates of minima.

A threshold is a point u of a line of length M. An indicator that is one on a part of the line of length k, times M, has
mean k. So :math:`\min(x, y)` is the length of [0, min(x, y)] in a line [0, T], and a sum of minima is the length of
several such parts on lines that are placed end to end. See `docs/theory/thresholds-and-histograms.md`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from mercer.theory.domains import (
    AT_LEAST_ZERO,
    COUNT,
    FRACTIONS,
    WEIGHTS,
    broadcast,
    checked,
    iterable,
    refuse,
    within,
)

__all__ = ["indicator_variance", "jittered_variance", "threshold_variance"]

Array = np.ndarray
SEGMENTS = iterable("an iterable of (length, reached, inside)")


@checked(k=WEIGHTS, length=AT_LEAST_ZERO, n=COUNT)
def threshold_variance(k: Array, length: float, n: int) -> Array:
    r"""Return the variance of an estimate from independent thresholds, :math:`k (M - k) / n`.

    Parameters
    ----------
    k : float or ndarray
        Exact values, in [0, length].
    length : float
        Length M of the line that the thresholds are drawn from.
    n : int
        Number of thresholds.

    %(theory_variances)s

    See Also
    --------
    jittered_variance : The same for one threshold per stratum.

    Examples
    --------
    >>> float(threshold_variance(0.5, 1.0, 100))
    0.0025
    """
    k = within("threshold_variance", "k", k, 0.0, length, "in [0, length]")
    with np.errstate(over="ignore"):
        return indicator_variance(k, length) / n


def indicator_variance(k: Array, length: float) -> Array:
    """Return the variance of one threshold, unchecked, for kernel values that carry rounding of other terms."""
    return k * (length - k)


@checked(segments=SEGMENTS, n=COUNT)
def jittered_variance(segments: Iterable[tuple[float, Any, Any]], n: int) -> Array:
    r"""Return the variance of an estimate from `n` thresholds, one per stratum of equal length.

    Thresholds of different strata are independent, so the variance is :math:`h^2 \sum_s p_s (1 - p_s)` with h = M / n
    and :math:`p_s` the mean of the indicator in stratum s. Only strata that are covered in part contribute.

    Parameters
    ----------
    segments : iterable of (length, reached, inside)
        The line, from left to right. Each segment has a length, the fraction of it that is covered, from its left end,
        and the mean of the indicator on the covered part, which is one unless the indicator also depends on other
        coordinates. Fractions and means are numbers or arrays in [0, 1].
    n : int
        Number of strata.

    Returns
    -------
    ndarray
        Variances, of the shape of `reached` and `inside`; infinite where they exceed the range of float64.

    See Also
    --------
    threshold_variance : The same for independent thresholds.

    Examples
    --------
    >>> round(float(jittered_variance([(1.0, 0.55, 1.0)], 10)), 6)  # half of one stratum of length 0.1
    0.0025
    """
    read = [_segment(i, segment) for i, segment in enumerate(segments)]
    broadcast(
        "jittered_variance", **{f"segments[{i}]": reached + inside for i, (_, reached, inside) in enumerate(read)}
    )
    longest = max((length for length, _, _ in read), default=0.0)
    if longest == 0:
        return np.zeros(np.broadcast_shapes(*(np.shape(reached + inside) for _, reached, inside in read)))
    # In units of the longest segment, then of a stratum. `current` is the mean in the stratum under way, which several
    # segments may share.
    total = sum(length / longest for length, _, _ in read)
    start = 0.0
    mean = squares = current = np.zeros(())
    for length, reached, inside in read:
        end = start + length / longest / total * n
        covered = start + (end - start) * reached
        mean = mean + (covered - start) * inside
        first, last = np.ceil(start), np.floor(end)
        if first > last:
            current = current + (covered - start) * inside
        else:
            current = current + np.minimum(covered - start, first - start) * inside
            complete = np.clip(covered - first, 0.0, last - first)
            squares = squares + np.square(current)
            squares = squares + np.square(inside) * (np.floor(complete) + np.square(complete - np.floor(complete)))
            current = np.maximum(covered - last, 0.0) * inside
        start = end
    step = total / n * longest
    with np.errstate(over="ignore"):
        return step * (step * np.maximum(mean - squares - np.square(current), 0.0))


def _segment(i: int, segment: Any) -> tuple[float, Array, Array]:
    """Return the length, the covered fraction and the mean of the indicator of one segment, checked."""
    try:
        length, reached, inside = segment
    except (TypeError, ValueError):
        refuse("jittered_variance", f"segments[{i}]", "(length, reached, inside)", repr(segment))
    length = AT_LEAST_ZERO("jittered_variance", f"the length of segments[{i}]", length)
    reached, inside = (
        FRACTIONS("jittered_variance", f"{name} of segments[{i}]", value)
        for name, value in (("reached", reached), ("inside", inside))
    )
    broadcast("jittered_variance", **{f"reached of segments[{i}]": reached, f"inside of segments[{i}]": inside})
    return length, reached, inside
