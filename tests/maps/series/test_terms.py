"""Moments of the terms of a series on sampled pairs, significant terms, and the radius of convergence."""

import numpy as np
import pytest

from mercer import DataError, ExponentialDotProduct, Gaussian, Geometric, Polynomial
from mercer.maps.series.terms import check_convergence, count_significant
from mercer.theory.products import Pairs, second_moment, sketch_variance

from .sampled_series import rows, sampled


def test_moments_of_the_terms_are_means_over_all_pairs():
    X = rows(size=1.3)
    for kernel, projection in (
        (Polynomial(3, 0.5), "rademacher"),
        (Gaussian(1.5), "gaussian"),
        (ExponentialDotProduct(), "complex"),
    ):
        part = sampled(kernel, X, projection)
        series = kernel.series_parts()[0].series
        decay = kernel.series_parts()[0].decay
        factor = np.exp(-0.5 * decay * (X**2).sum(axis=1))
        pairs, a = Pairs.all_of(X, X), series.coefficients(len(part.coefficients))
        terms = np.array([a[n] * np.outer(factor, factor) * pairs.inner**n for n in range(len(a))])
        np.testing.assert_allclose(part.cross_moments, np.einsum("nij,mij->nm", terms, terms) / len(X) ** 2, rtol=1e-9)
        for n in (0, 1, 2, 3):
            variance = second_moment(projection, pairs, n) - pairs.inner ** (2 * n)
            variance = variance * (2 if projection == "complex" else 1) * np.outer(factor, factor) ** 2 * a[n] ** 2
            np.testing.assert_allclose(part.variances[n], variance.mean(), rtol=1e-8, atol=1e-14)
            sketch = sketch_variance(projection, pairs, n, 7) * (a[n] * np.outer(factor, factor)) ** 2
            np.testing.assert_allclose(part.sketch_error(n, 7), sketch.mean(), rtol=1e-9, atol=1e-14)


def test_integer_weights_equal_repeated_rows():
    X, weight = rows(6), np.array([1, 3, 2, 1, 1, 4])
    one, two = (
        sampled(ExponentialDotProduct(), X, weight=weight * 1.0),
        sampled(ExponentialDotProduct(), np.repeat(X, weight, axis=0)),
    )
    np.testing.assert_allclose(one.cross_moments, two.cross_moments, rtol=1e-12)
    np.testing.assert_allclose(one.second_moments, two.second_moments, rtol=1e-12)


def test_number_of_significant_terms():
    assert count_significant(np.array([1.0, 1e-4, 0.0])) == 2
    assert count_significant(np.array([1.0, 1e-18, 1e-18])) == 1
    assert count_significant(np.zeros(3)) == 1
    few, many = (len(sampled(ExponentialDotProduct(), rows(size=size)).coefficients) for size in (0.1, 3.0))
    assert 3 <= few < 10 < many < 200
    # Constant and linear term are always included, for plan "h01".
    assert len(sampled(ExponentialDotProduct(), rows(size=1e-9)).coefficients) == 2
    assert len(sampled(Polynomial(3), rows(size=1e-9)).coefficients) == 4


def test_rows_outside_the_radius_of_convergence_and_overflow_raise():
    check_convergence(1.0, 0.99)
    with pytest.raises(DataError, match=r"squared norm 1.44, but .* converges only below 1. Scale .* by 0.79"):
        sampled(Geometric(), rows(size=1.2))
    for size in (1e40, 1e200):
        with (
            np.errstate(over="ignore", invalid="ignore"),
            pytest.raises(DataError, match=r"squares of the terms .* overflow"),
        ):
            sampled(Polynomial(3), rows(size=size))
