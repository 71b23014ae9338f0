r"""Variances of estimates of min(x, y), and of sums of min(x_i, y_i) over features i, from random thresholds.

For x and y in [0, T], min(x, y) is the length of the interval [0, min(x, y)]. A threshold is a random point u, uniform
on [0, T]; T times the indicator that :math:`u \le \min(x, y)` has the mean min(x, y). For a sum of minima over several
features, the intervals [0, T] of the features are placed end to end and form a line of length M. The part
[0, min(x, y)] of each interval is called covered. A threshold is uniform on the line, and M times the indicator that it
lies in a covered part has the mean :math:`k = \sum_i \min(x_i, y_i)`.

The variance is smaller if the line is divided into n parts of equal length, called strata, and one threshold is sampled
in each. See `docs/theory/thresholds-and-histograms.md`.
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
    r"""Return the variance :math:`k (M - k) / n` of an estimate of k from n independent thresholds.

    A threshold is a uniform point on a line of length M, a part of which, of length k, is covered. The estimate is M
    times the fraction of the thresholds that lie in the covered part.

    Parameters
    ----------
    k : float or ndarray
        Exact values, in [0, length].
    length : float
        Length M of the line on which the thresholds are uniform.
    n : int
        Number of thresholds.

    %(theory_variances)s

    See Also
    --------
    jittered_variance : The variance for stratified thresholds, one in each of n parts of the line.

    Examples
    --------
    >>> float(threshold_variance(0.5, 1.0, 100))
    0.0025
    """
    k = within("threshold_variance", "k", k, 0.0, length, "in [0, length]")
    with np.errstate(over="ignore"):
        return indicator_variance(k, length) / n


def indicator_variance(k: Array, length: float) -> Array:
    """Return k (M - k), the variance of an estimate of k from one uniform threshold on a line of length M.

    A part of the line, of length k, is covered. The estimate is M if the threshold lies in that part, and 0 otherwise.
    Arguments are not validated, because rounding errors may place k slightly outside [0, M].
    """
    return k * (length - k)


@checked(segments=SEGMENTS, n=COUNT)
def jittered_variance(segments: Iterable[tuple[float, Any, Any]], n: int) -> Array:
    r"""Return the variance of an estimate from n stratified thresholds, one in each of n parts of a line.

    A line of length M is divided into n strata of equal length h = M / n. Each stratum has one threshold, uniform in it
    and independent of the others. The estimate is h times the number of thresholds at which an indicator is 1. The
    variance of the estimate is :math:`h^2 \sum_s p_s (1 - p_s)`, where :math:`p_s` is the mean of the indicator in
    stratum s. If the indicator is that of a covered part of the line, only strata that are partly covered contribute.

    Parameters
    ----------
    segments : iterable of (length, reached, inside)
        The segments of the line, from left to right. A segment is covered from its left end up to the fraction
        `reached` of its `length`; the indicator is zero beyond. `inside` is the mean of the indicator on the covered
        part, which is one unless the indicator also depends on other random numbers. `reached` and `inside` are numbers
        or arrays in [0, 1].
    n : int
        Number of strata, and of thresholds.

    Returns
    -------
    ndarray
        Variances, of the shape of `reached` and `inside`; infinite where they exceed the range of float64.

    See Also
    --------
    threshold_variance : The variance for independent thresholds.

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
    # Lengths are divided by the longest one, to prevent overflow, and then converted to units of a stratum. `current`
    # is the mean of the indicator in the stratum that contains the end of the last segment, which segments may share.
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
    """Return the validated (length, covered fraction, mean of the indicator on the covered part) of segment i."""
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
