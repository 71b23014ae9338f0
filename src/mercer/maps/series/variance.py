"""Closed-form variances of the kernel approximation by Maclaurin features, over random draws.

The variances for single degrees are in `mercer.theory.products`. This module combines them for the strata of a plan,
which are groups of components and the terms that they represent (`plans.Stratum`).
"""

from __future__ import annotations

import numpy as np

from mercer.errors import NoClosedFormError
from mercer.kernels.power_series import SeriesPart
from mercer.maps.series.anchored import AnchoredComponents
from mercer.maps.series.plans import Stratum
from mercer.maps.series.terms import MAX_TERMS
from mercer.theory.products import Pairs, ProjectionName, second_moment, sketch_variance, summed_variance

__all__ = ["anchored_variance", "stratum_variance"]

Array = np.ndarray


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
    total = np.zeros(pairs.inner.shape)
    for stratum in strata:
        m = stratum.n_components
        mean: Array = np.zeros(total.shape)
        second, lone = mean, mean
        for term in stratum.terms:
            n, factor = int(components.degrees[term]), np.outer(f[:, term], g[:, term])
            if stratum.distribution is None:
                total += factor**2 * sketch_variance(projection, pairs, n, m)
                continue
            weight = factor**2 / stratum.distribution.probability(np.array(term))
            mean = mean + factor * pairs.inner**n
            second = second + weight * second_moment(projection, pairs, n)
            lone = lone + weight * second_moment(projection, pairs, n, lone=True)
        if stratum.distribution is not None:
            total += _variance_of_average(projection, second - mean**2, lone - mean**2, m)
    return total


def stratum_variance(part: SeriesPart, stratum: Stratum, projection: ProjectionName, pairs: Pairs) -> Array:
    """Return, for each pair of prepared rows, the variance of the estimate by the random components of one stratum.

    The prefactors of the rows are not included.
    """
    m = stratum.n_components
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
    return _random_degree_variance(part, stratum, projection, pairs)


def _random_degree_variance(part: SeriesPart, stratum: Stratum, projection: ProjectionName, pairs: Pairs) -> Array:
    """Return, for each pair of prepared rows, the variance of the estimate by components of random degree."""
    distribution, m = stratum.distribution, stratum.n_components
    assert distribution is not None
    last = part.series.degree
    count = MAX_TERMS if last is None else last + 1
    a, probabilities = part.series.coefficients(count), distribution.probability(np.arange(count))
    mean: Array = np.zeros(pairs.inner.shape)
    second, lone = mean, mean
    for n in np.flatnonzero((a != 0) & (probabilities > 0)):
        weight = a[n] ** 2 / probabilities[n]
        with np.errstate(over="ignore"):
            step = weight * second_moment(projection, pairs, int(n))
        mean, second = mean + a[n] * pairs.inner**n, second + step
        if projection == "complex":
            lone = lone + weight * second_moment(projection, pairs, int(n), lone=True)
        if n > max(stratum.degrees) and not (step > 1e-17 * second).any():
            break
    return _variance_of_average(projection, second - np.square(mean), lone - np.square(mean), m)


def _variance_of_average(projection: ProjectionName, variance: Array, lone: Array, m: int) -> Array:
    """Return the variance of an average over m real components, for each pair of rows.

    Parameters
    ----------
    projection : str
        Distribution of the weights.
    variance : ndarray
        Variance of the estimate by one product of random projections. For "complex", the estimate uses both the real
        and the imaginary part of the product.
    lone : ndarray
        For "complex": variance of the estimate by the real part of a product alone.
    m : int
        Number of real components. For "complex" and odd m, only the real part of the last product is used.
    """
    if projection != "complex":
        return np.maximum(variance, 0.0) / m
    return (4 * (m // 2) * np.maximum(variance, 0.0) + (m % 2) * np.maximum(lone, 0.0)) / m**2
