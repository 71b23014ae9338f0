"""Variances over draws of the columns of power series, in closed form, stratum by stratum."""

from __future__ import annotations

import numpy as np

from mercer.errors import NoClosedFormError
from mercer.kernels.power_series import SeriesPart
from mercer.maps.series.anchored import AnchoredColumns
from mercer.maps.series.plans import Stratum
from mercer.maps.series.terms import MOST_DEGREES
from mercer.theory.products import Pairs, ProjectionName, second_moment, sketch_variance, summed_variance

__all__ = ["anchored_variance", "stratum_variance"]

Array = np.ndarray


def anchored_variance(
    columns: AnchoredColumns, strata: list[Stratum], projection: ProjectionName, X: Array, Y: Array | None
) -> Array:
    """Return the variance of the drawn columns of a series that is expanded about a direction."""
    left, f = columns.split(X)
    right, g = (left, f) if Y is None else columns.split(Y)
    pairs = left.pairs(right)
    total = np.zeros(pairs.inner.shape)
    for stratum in strata:
        m = stratum.columns
        mean: Array = np.zeros(total.shape)
        second, lone = mean, mean
        for term in stratum.terms:
            n, factor = int(columns.degrees[term]), np.outer(f[:, term], g[:, term])
            if stratum.law is None:
                total += factor**2 * sketch_variance(projection, pairs, n, m)
                continue
            weight = factor**2 / stratum.law.chance(np.array(term))
            mean = mean + factor * pairs.inner**n
            second = second + weight * second_moment(projection, pairs, n)
            lone = lone + weight * second_moment(projection, pairs, n, lone=True)
        if stratum.law is not None:
            total += _of_columns(projection, second - mean**2, lone - mean**2, m)
    return total


def stratum_variance(part: SeriesPart, stratum: Stratum, projection: ProjectionName, pairs: Pairs) -> Array:
    """Return the variance of the drawn columns of one stratum of a series, without prefactors."""
    m = stratum.columns
    if stratum.kind == "sketched":
        n = stratum.degrees[0]
        return part.series.coefficient(n) ** 2 * sketch_variance(projection, pairs, n, m)
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
    return _random_variance(part, stratum, projection, pairs)


def _random_variance(part: SeriesPart, stratum: Stratum, projection: ProjectionName, pairs: Pairs) -> Array:
    """Return the variance of columns of random degree: a sum over the degrees of their law."""
    law, m = stratum.law, stratum.columns
    assert law is not None
    last = part.series.degree
    count = MOST_DEGREES if last is None else last + 1
    a, chances = part.series.coefficients(count), law.chance(np.arange(count))
    mean: Array = np.zeros(pairs.inner.shape)
    second, lone = mean, mean
    for n in np.flatnonzero((a != 0) & (chances > 0)):
        weight = a[n] ** 2 / chances[n]
        with np.errstate(over="ignore"):
            step = weight * second_moment(projection, pairs, int(n))
        mean, second = mean + a[n] * pairs.inner**n, second + step
        if projection == "complex":
            lone = lone + weight * second_moment(projection, pairs, int(n), lone=True)
        if n > max(stratum.degrees) and not (step > 1e-17 * second).any():
            break
    return _of_columns(projection, second - np.square(mean), lone - np.square(mean), m)


def _of_columns(projection: ProjectionName, variance: Array, lone: Array, m: int) -> Array:
    """Return the variance of m real columns, given that of one column, complex or real, and of a lone real part."""
    if projection != "complex":
        return np.maximum(variance, 0.0) / m
    return (4 * (m // 2) * np.maximum(variance, 0.0) + (m % 2) * np.maximum(lone, 0.0)) / m**2
