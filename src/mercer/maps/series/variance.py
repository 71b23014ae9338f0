"""Closed-form variances of the kernel approximation by Maclaurin features, over random draws.

The variances for single degrees are in `mercer.theory.products`. This module combines them for the strata of a plan,
which are groups of components and the terms that they represent (`plans.Stratum`).
"""

from __future__ import annotations

import math

import numpy as np

from mercer.errors import NoClosedFormError
from mercer.kernels.power_series import PowerSeries, SeriesPart
from mercer.maps.series.anchored import AnchoredComponents
from mercer.maps.series.inputs import PreparedRows
from mercer.maps.series.plans import Stratum
from mercer.theory.products import (
    Pairs,
    ProjectionName,
    ScaledPairs,
    complex_average,
    excess,
    second_moment,
    sketch_variance,
    summed_variance,
)

__all__ = ["anchored_variance", "reach_of", "stratum_variance"]

Array = np.ndarray
# Rows up to this number times the largest squared norm in the sample are considered to be like those in the sample.
MARGIN = 2.0
# Number of norms at which the estimate is compared with the kernel, and where they are split into groups.
NORMS = 200
NORM_GROUPS = (20, 40, 60, 100)
# Largest number of terms of an infinite series in the variance of components of random degree.
MOST_TERMS = 600


def anchored_variance(
    components: AnchoredComponents, strata: list[Stratum], projection: ProjectionName, X: Array, Y: Array | None
) -> Array:
    """Return the variance of a kernel approximated by an anchored expansion, for all pairs of rows of `X` and `Y`.

    The module `anchored` defines the expansion. `strata` lists the groups into which its random components are divided.
    If `Y` is None, it is replaced by `X`.
    """
    left, f = components.split(X)
    right, g = (left, f) if Y is None else components.split(Y)
    pairs = left.pairs(right)
    units = pairs.directions
    total = np.zeros(units.inner.shape)
    with np.errstate(divide="ignore"):
        log_f, log_g = np.log(np.abs(f)), np.log(np.abs(g))
    for stratum in strata:
        m = stratum.n_components
        mean: Array = np.zeros(total.shape)
        second, lone = mean, mean
        for term in stratum.terms:
            n = int(components.degrees[term])
            log_factor = log_f[:, term, None] + log_g[None, :, term]
            if stratum.distribution is None:
                variance = np.maximum(sketch_variance(projection, units, n, m), 0.0)
                total += pairs.square(variance, (n, n), 2 * log_factor)
                continue
            log_weight = 2 * log_factor - np.log(stratum.distribution.probability(np.array(term)))
            signs = np.sign(np.outer(f[:, term], g[:, term]))
            mean = mean + signs * pairs.term(n, log_factor)
            second = second + _weighted_moment(projection, pairs, n, log_weight)
            if projection == "complex":
                lone = lone + _weighted_moment(projection, pairs, n, log_weight, lone=True)
        if stratum.distribution is not None:
            total += _variance_of_average(projection, mean, second, lone, m)
    return total


def _weighted_moment(
    projection: ProjectionName, pairs: ScaledPairs, n: int, log_weight: Array | float, *, lone: bool = False
) -> Array:
    """Return exp(`log_weight`) times the second moment of the estimate of (x . y)^n by one product."""
    moment = np.maximum(second_moment(projection, pairs.directions, n, lone=lone), 0.0)
    return pairs.square(moment, (n, n), log_weight)


def stratum_variance(part: SeriesPart, stratum: Stratum, projection: ProjectionName, pairs: ScaledPairs) -> Array:
    """Return, for each pair of prepared rows, the variance of the estimate by the random components of one stratum.

    The prefactors of the rows are included. The variance is infinite where it exceeds the range of float64.
    """
    m = stratum.n_components
    if stratum.kind == "sketched":
        n = stratum.degrees[0]
        variance = np.maximum(sketch_variance(projection, pairs.directions, n, m), 0.0)
        return pairs.square(variance, (n, n), 2 * math.log(abs(part.series.coefficient(n))))
    if stratum.kind == "summed":
        if projection == "srht":
            msg = (
                "No closed form is known for the variance of plan='degrees' with projection='srht'. "
                "Try mercer.audit(feature_map, X), which measures the error."
            )
            raise NoClosedFormError(msg)
        a = np.zeros(stratum.degrees[-1] + 1)
        a[list(stratum.degrees)] = part.series.coefficients(len(a))[list(stratum.degrees)]
        return summed_variance(projection, pairs, a, m)
    return _random_degree_variance(part, stratum, projection, pairs)


def _random_degree_variance(
    part: SeriesPart, stratum: Stratum, projection: ProjectionName, pairs: ScaledPairs
) -> Array:
    """Return, for each pair of prepared rows, the variance of the estimate by components of random degree.

    It is infinite where it exceeds the range of float64, and for rows so far from the origin that the terms of the
    series still increase at the last degree that is computed.
    """
    distribution, m = stratum.distribution, stratum.n_components
    assert distribution is not None
    count = MOST_TERMS if part.series.degree is None else part.series.degree + 1
    signs, log_a = _log_coefficients(part.series, count, pairs)
    probabilities = distribution.probability(np.arange(count))
    shape = pairs.directions.inner.shape
    mean: Array = np.zeros(shape)
    second, lone = mean, mean
    before: Array = np.full(shape, -np.inf)
    remainder: Array = np.zeros(shape)
    degrees = np.flatnonzero((signs != 0) & (probabilities > 0)).tolist()
    for n in degrees:
        log_weight = 2 * float(log_a[n]) - math.log(probabilities[n])
        moment = np.maximum(second_moment(projection, pairs.directions, n), 0.0)
        log_step = pairs.log_square(moment, (n, n), log_weight)
        mean = mean + pairs.term(n, float(log_a[n]), float(signs[n]))
        with np.errstate(over="ignore", under="ignore"):
            second = second + np.exp(log_step)
        if projection == "complex":
            lone = lone + _weighted_moment(projection, pairs, n, log_weight, lone=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            # The terms of a far pair increase at first, possibly from numbers that underflow.
            negligible = (log_step < before) & (log_step <= np.log(1e-17) + np.log(second)) | (log_step == -np.inf)
        if n > max(stratum.degrees) and negligible.all():
            break
        if part.series.degree is None and n == degrees[-1]:
            # Further terms are not computed, or underflow. They are bounded by a geometric series, which need not
            # converge.
            with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
                tail = np.where(log_step < before, -np.exp(log_step) / np.expm1(log_step - before), np.inf)
            remainder = np.where(negligible, 0.0, tail)
        before = log_step
    return _variance_of_average(projection, mean, second + remainder, lone + remainder, m)


def reach_of(part: SeriesPart, strata: list[Stratum], projection: ProjectionName, rows: PreparedRows) -> float:
    """Return the squared norm up to which random components of a Gaussian kernel estimate k(x, x) usefully.

    Beyond it, the standard deviation of the estimate of k(x, x) exceeds k(x, x). The row x has the direction of the
    rows on average. The result is at least `MARGIN` times the largest squared norm of the rows, for which the plan was
    made. It is infinite if there is no such norm within 100 times the median norm of the rows, if the estimate is
    useless for a row of median norm, and for series without a prefactor, where k(x, x) grows as the estimates do.
    """
    lengths = np.sqrt(rows.squared_norms)
    median = float(np.median(lengths))
    if part.decay == 0 or not strata or median == 0:
        return np.inf
    units = rows.dense[lengths > 0] / lengths[lengths > 0, None]
    overlap = float(np.square(np.square(units)).sum(axis=1).mean())
    # In groups, from the shortest row on: a short row needs few terms, and most groups are not needed.
    groups = np.split(np.log(median) + np.linspace(0, np.log(100), NORMS), NORM_GROUPS)
    for number, log_lengths in enumerate(groups):
        useless = _exceeds_the_kernel(part, strata, projection, log_lengths, overlap, rows.shape[1])
        if number == 0 and useless[0]:
            return np.inf
        if useless.any():
            squared_norm = float(np.exp(2 * log_lengths[np.argmax(useless)]))
            return max(squared_norm, MARGIN * float(rows.squared_norms.max()))
    return np.inf


def _exceeds_the_kernel(
    part: SeriesPart,
    strata: list[Stratum],
    projection: ProjectionName,
    log_lengths: Array,
    overlap: float,
    width: int,
) -> Array:
    """Return whether the standard deviation of the estimate of k(x, x) exceeds k(x, x), for rows x by log norm.

    `overlap` is the sum of the fourth powers of the entries of x / |x|, and `width` the number of entries.
    """
    one = np.ones(len(log_lengths))
    directions = Pairs(one, one, one, overlap * one, width)
    pairs = ScaledPairs(directions, log_lengths, log_lengths, -part.decay * np.exp(2 * log_lengths))
    variance = sum((stratum_variance(part, stratum, projection, pairs) for stratum in strata), 0.0 * one)
    signs, log_a = _log_coefficients(part.series, MOST_TERMS, pairs)
    degrees = np.flatnonzero(signs)
    with np.errstate(over="ignore", under="ignore"):
        log_terms = pairs.log_prefactors[:, None] + log_a[degrees] + 2 * log_lengths[:, None] * degrees
        value = np.exp(log_terms) @ signs[degrees]
    # Where the terms that are summed are too few for the kernel, the components are, too.
    return ~(np.sqrt(variance) <= np.abs(value))


def _log_coefficients(series: PowerSeries, count: int, pairs: ScaledPairs) -> tuple[Array, Array]:
    """Return the signs of the first `count` coefficients, zero if they are zero, and the logarithms of their sizes.

    The coefficients of far rows underflow, so they are taken from the terms at the largest |x| |y| of the pairs, or at
    a smaller number if those terms overflow.
    """
    with np.errstate(over="ignore"):
        t = float(np.exp(pairs.log_left.max(initial=0.0) + pairs.log_right.max(initial=0.0)))
    t = min(max(t, 1.0), 1e150)
    terms = series.terms_at(t, count)
    while not np.isfinite(terms).all() and t > 1:
        t = max(t / 2, 1.0)
        terms = series.terms_at(t, count)
    with np.errstate(divide="ignore"):
        return np.sign(terms), np.log(np.abs(terms)) - np.arange(count) * math.log(t)


def _variance_of_average(projection: ProjectionName, mean: Array, second: Array, lone: Array, m: int) -> Array:
    """Return the variance of an average over m real components, for each pair of rows.

    Parameters
    ----------
    projection : str
        Distribution of the weights.
    mean : ndarray
        Mean of the estimate by one product of random projections.
    second : ndarray
        Mean square of this estimate. For "complex", the estimate uses both the real and the imaginary part of the
        product.
    lone : ndarray
        For "complex": mean square of the estimate by the real part of a product alone.
    m : int
        Number of real components. For "complex" and odd m, only the real part of the last product is used.
    """
    if projection != "complex":
        return excess(second, mean) / m
    return complex_average(excess(second, mean), excess(lone, mean), m)
