"""Power series: derivatives and tails inside the radius of convergence, tight truncation, errors outside."""

import itertools
import math

import numpy as np
import pytest

from mercer import DotProduct, ExponentialDotProduct, Geometric, ParameterError, Polynomial
from mercer.theory import (
    dot_product_gradient,
    maclaurin_bound,
    maclaurin_gradient,
    truncation_degree,
    truncation_error,
)

from .instances import KERNELS

every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=repr)


@every_kernel
@pytest.mark.parametrize("eps", [1.0, 0.1, 1e-3, 1e-9])
@pytest.mark.parametrize("radius", [0.3, 0.9])
def test_the_truncation_is_tight_at_the_end_of_the_ball(kernel, eps, radius):
    k = truncation_degree(kernel, eps, radius)
    t = radius**2
    retained = [np.polynomial.polynomial.polyval(t, kernel.series.coefficients(n + 1)) for n in range(k + 1)]
    errors = kernel.function(t) - np.array(retained)  # x = y = R e_1
    assert errors[k] <= eps * (1 + 1e-6) + 1e-14
    assert (errors[:k] > eps * (1 - 1e-6)).all()
    assert truncation_error(kernel, k, radius) == pytest.approx(errors[k], rel=1e-6, abs=1e-14)


def test_polynomial_is_complete_at_its_degree_and_equality_is_admitted():
    kernel = Polynomial(2)  # 1 + 2 t + t^2
    assert [truncation_degree(kernel, eps, 1.0) for eps in (3.0, 2.9, 1.0, 0.9, 1e-12)] == [0, 1, 1, 2, 2]
    assert [truncation_error(kernel, k, 1.0) for k in (0, 1, 2, 1000)] == [3.0, 1.0, 0.0, 0.0]


def test_degrees_grow_with_the_radius_and_fall_with_the_error():
    for eps, wider in itertools.pairwise((0.3, 0.6, 1.0, 2.0, 4.0)):
        assert truncation_degree(ExponentialDotProduct(), 0.01, eps) <= truncation_degree(
            ExponentialDotProduct(), 0.01, wider
        )
        assert truncation_degree(ExponentialDotProduct(), eps, 2.0) >= truncation_degree(
            ExponentialDotProduct(), wider, 2.0
        )


def test_series_are_summed_only_where_they_converge():
    assert maclaurin_bound(Geometric(), 0.7) == pytest.approx(2 / (1 - 0.98), rel=1e-12)
    with pytest.raises(ParameterError, match=r"at t = 1, but the series converges only below 1. Scale the rows down"):
        maclaurin_bound(Geometric(), math.sqrt(0.5) * (1 + 1e-15))
    with pytest.raises(ParameterError, match=r"at t = 1.08, but the series converges only below 1"):
        maclaurin_gradient(Geometric(), 0.6, 2, base=3.0)
    near = dot_product_gradient(Geometric(), math.sqrt(0.999))
    assert near == pytest.approx(math.sqrt(0.999) / (1 - 0.999) ** 2, rel=1e-6)
    assert maclaurin_bound(ExponentialDotProduct(), 20.0) == math.inf  # f overflows at t = 800
    assert truncation_error(ExponentialDotProduct(), 10, 30.0) == math.inf
    with pytest.raises(ParameterError, match=r"truncation_degree: radius must leave f\(R\^2\) finite, got 30"):
        truncation_degree(ExponentialDotProduct(), 0.1, 30.0)
    with pytest.raises(ParameterError, match="Maclaurin coefficients do not add up to f at t = 400"):
        truncation_degree(ExponentialDotProduct(), 0.1, 20.0)


@pytest.mark.parametrize("listed", [True, False])
def test_series_with_a_gap_is_summed_beyond_the_gap(listed):
    coefficients = np.isin(np.arange(200), (1, 100)).astype(float)  # t + t^100
    # A rule has no last degree: that its terms have not yet added up to the formula tells that there are more.
    rule = {"coefficients": lambda n: float(n in (1, 100)), "formula": lambda t: t + t**100}
    gap = DotProduct(coefficients) if listed else DotProduct(**rule)
    assert truncation_degree(gap, 0.5, 1.0) == 100
    assert dot_product_gradient(gap, 1.0) == 101.0


def test_negative_coefficients_are_refused():
    signed = DotProduct([1.0, 0.5, -0.25], signed=True)
    for bound in (maclaurin_bound, dot_product_gradient):
        with pytest.raises(ParameterError, match=r"bounds need coefficients >= 0, but a_2 = -0.25"):
            bound(signed, 1.0)


@pytest.mark.parametrize("eps", [0, -1.0, math.nan, math.inf])
def test_an_error_that_is_not_positive_is_refused(eps):
    with pytest.raises(ParameterError, match="truncation_degree: eps must be a finite number > 0, got"):
        truncation_degree(ExponentialDotProduct(), eps, 1.0)


def test_errors_below_rounding_and_negative_degrees_are_refused():
    with pytest.raises(ParameterError, match=r"truncation_degree: eps must be at least 1e-15 of f\(R\^2\) = 2.72"):
        truncation_degree(ExponentialDotProduct(), 1e-17, 1.0)
    with pytest.raises(ParameterError, match="truncation_error: degree must be an integer >= 0, got -1"):
        truncation_error(ExponentialDotProduct(), -1, 1.0)
