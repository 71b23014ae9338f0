"""Power series: arithmetic, composition and normal forms, against closed forms."""

import math

import numpy as np
import pytest
from numpy.polynomial import polynomial

from mercer import Constant, ExponentialDotProduct, Gaussian, Geometric, Laplacian, Matern, Polynomial, Transformed
from mercer.kernels.power_series import PowerSeries, SeriesPart, exponential_series, merge, multiply

FACTORIALS = np.array([math.factorial(n) for n in range(30)], dtype=float)


def geometric(scale=1.0):
    return Geometric(scale=scale).series


def listed(*a):
    return PowerSeries(lambda n: np.pad(np.array(a, float), (0, max(n - len(a), 0)))[:n], len(a) - 1)


@pytest.mark.parametrize("rate", [0.3, 1.0, 4.0])
def test_the_exponential_series_is_that_of_factorials(rate):
    np.testing.assert_allclose(
        exponential_series(rate).coefficients(30), rate ** np.arange(30) / FACTORIALS, rtol=1e-14
    )
    for n in range(4):
        assert exponential_series(rate).coefficients(n).shape == (n,)
    far = exponential_series(rate).coefficients(2000)
    assert np.isfinite(far).all()
    assert far[-1] == 0


def test_sums_products_and_multiples_are_those_of_the_functions():
    e = exponential_series(1.0)
    # e^t e^2t = e^3t, 1/(1-t)^2 = sum (n + 1) t^n, e^t / (1 - t) = sum of partial sums of 1/n!.
    np.testing.assert_allclose((e * exponential_series(2.0)).coefficients(25), 3.0 ** np.arange(25) / FACTORIALS[:25])
    np.testing.assert_array_equal((geometric() * geometric()).coefficients(9), np.arange(1, 10))
    np.testing.assert_allclose((e * geometric()).coefficients(25), np.cumsum(1 / FACTORIALS[:25]))
    np.testing.assert_allclose((e + geometric()).coefficients(25), 1 + 1 / FACTORIALS[:25])
    np.testing.assert_array_equal(listed(1, 2).scaled(3.0).coefficients(4), [3, 6, 0, 0])


def test_degrees_and_radii_follow_the_arithmetic():
    e, g, p, q = exponential_series(1.0), geometric(2.0), listed(1, 2), listed(0, 1, 1)
    assert ((p + q).degree, (p * q).degree, p.after(q).degree, q.after(q).degree) == (2, 3, 2, 4)
    assert (e + p).degree is (e * p).degree is e.after(p).degree is p.after(e).degree is None
    assert ((e + g).radius, (e * g).radius, g.scaled(3.0).radius, (p * q).radius) == (0.5, 0.5, 0.5, math.inf)


@pytest.mark.parametrize("t", [0.0, 0.2, 1.5])
def test_series_about_another_point(t):
    np.testing.assert_allclose(
        exponential_series(2.0).about(t, 12), np.exp(2 * t) * 2.0 ** np.arange(12) / FACTORIALS[:12]
    )
    # (1 + 2t + t^2) about t0 is ((1 + t0) + s)^2.
    np.testing.assert_allclose(listed(1, 2, 1).about(t, 5), [(1 + t) ** 2, 2 * (1 + t), 1, 0, 0], atol=1e-15)


def test_the_geometric_series_about_a_point_near_its_radius():
    # 1 / (1 - t0 - s) = sum s^n / (1 - t0)^(n + 1)
    np.testing.assert_allclose(geometric().about(0.8, 10), 5.0 ** np.arange(1, 11), rtol=1e-10)


@pytest.mark.parametrize(
    ("outer", "inner", "function"),
    [
        (exponential_series(1.0), listed(0.5, 1, 2), lambda t: np.exp(0.5 + t + 2 * t**2)),
        (listed(1, 0, 3), exponential_series(1.0), lambda t: 1 + 3 * np.exp(2 * t)),
        (geometric(0.25), exponential_series(1.0), lambda t: 1 / (1 - 0.25 * np.exp(t))),
        (geometric(0.25), listed(1, 1), lambda t: 1 / (1 - 0.25 * (1 + t))),
        (exponential_series(0.5), geometric(), lambda t: np.exp(0.5 / (1 - t))),
        (listed(1, 1, 1), listed(0.5, 0, 2), lambda t: polynomial.polyval(0.5 + 2 * t**2, [1, 1, 1])),
    ],
)
def test_composition_is_that_of_the_functions(outer, inner, function):
    t = np.linspace(-0.25, 0.25, 7)
    both = outer.after(inner)
    np.testing.assert_allclose(polynomial.polyval(t, both.coefficients(60)), function(t), rtol=1e-12)
    np.testing.assert_allclose(both.coefficients(5), both.coefficients(60)[:5], rtol=1e-12)


def test_the_radius_of_a_composition_is_where_the_inner_value_meets_that_of_the_outer():
    assert geometric(0.25).after(exponential_series(1.0)).radius == pytest.approx(math.log(4))
    assert geometric(0.25).after(listed(1, 1)).radius == pytest.approx(3)
    assert geometric(0.25).after(geometric()).radius == pytest.approx(0.75)
    assert exponential_series(1.0).after(geometric(2.0)).radius == 0.5
    assert exponential_series(1.0).after(listed(1, 1)).radius == math.inf


def evaluate(parts, X, Y):
    """Return the normal form of the module, term by term."""
    total = np.zeros((len(X), len(Y)))
    for part in parts:
        A, B = X, Y
        for affine in part.inputs:
            A, B = affine(A), affine(B)
        factors = [np.exp(-0.5 * part.decay * (Z**2).sum(axis=1)) for Z in (A, B)]
        a = part.series.coefficients(120 if part.series.degree is None else part.series.degree + 1)
        total += np.outer(*factors) * polynomial.polyval(A @ B.T, a)
    return total


KERNELS = [
    Constant(0.7),
    Polynomial(4, 0.5, scale=0.3),
    ExponentialDotProduct(0.7),
    Geometric(scale=0.05),
    Gaussian(1.3),
    2.5 * Gaussian(2.0) + 1,
    Gaussian(2.0) + Polynomial(2),
    Gaussian(2.0) * Polynomial(2, 0.5),
    Gaussian(2.0) * Gaussian(3.0) + ExponentialDotProduct(0.2) * Geometric(3),
    (1 + Polynomial(2)) * (Gaussian(2.0) + 0.5),
    3 * Transformed(Gaussian(), columns=(2, 0), center=(0.1, -1.0), lengthscales=(1.5, 2.0)),
    Transformed(Transformed(Polynomial(3), lengthscales=(2.0, 3.0)), columns=(1, 2), center=(0.2, 0.1)),
    Transformed(Polynomial(2), columns=(0,)) + Polynomial(2) + Transformed(Gaussian(), columns=(1,)),
    Transformed(Constant(2.0), columns=(0,)) * Gaussian(2.0),
    ExponentialDotProduct(0.3) @ Polynomial(2, 0.5, scale=0.2),
    Polynomial(2) @ (ExponentialDotProduct(0.1) + 1),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_the_normal_form_is_the_kernel(kernel):
    X, Y = (np.random.default_rng(i).normal(0.2, 0.8, size=(7, 3)) for i in (0, 1))
    np.testing.assert_allclose(evaluate(kernel.series_parts(), X, Y), kernel(X, Y), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize(
    "kernel",
    [
        Laplacian(),
        Matern() + Polynomial(),
        Gaussian() * Laplacian(),
        ExponentialDotProduct() @ Gaussian(),
        Gaussian() * Transformed(Gaussian(), columns=(0,)),
        Geometric() @ (Polynomial(2) + 1),  # one at the origin already, the radius of the outer series
        ExponentialDotProduct() @ (Polynomial(2) + Transformed(Polynomial(2), columns=(0,))),
    ],
    ids=repr,
)
def test_other_kernels_have_no_normal_form(kernel):
    assert kernel.series_parts() is None


def test_parts_are_merged_only_if_they_can_share_components():
    def shapes(kernel):
        return [(part.decay, part.shift_invariant, len(part.inputs)) for part in kernel.series_parts()]

    assert shapes(Polynomial(2) + ExponentialDotProduct() + 1) == [(0.0, False, 0)]
    assert shapes(2 * Gaussian(0.5) + Gaussian(0.5)) == [(4.0, True, 0)]
    assert shapes(Gaussian(0.5) + Gaussian()) == [(4.0, True, 0), (1.0, True, 0)]
    # One may be centered at will, the other may not.
    assert shapes(Gaussian() + Gaussian() * Polynomial(2)) == [(1.0, True, 0), (1.0, False, 0)]
    assert shapes(Gaussian() * Gaussian()) == [(2.0, True, 0)]
    assert shapes(Polynomial() + Transformed(Polynomial(), columns=(0,))) == [(0.0, False, 0), (0.0, False, 1)]


def test_a_product_with_a_constant_keeps_the_inputs_of_the_other():
    [affine] = Transformed(Gaussian(), columns=(1,)).series_parts()
    constant = SeriesPart(listed(2.0), shift_invariant=True)
    for pair in ((affine, constant), (constant, affine)):
        [product] = multiply(pair[:1], pair[1:])
        assert (product.inputs, product.decay, product.shift_invariant) == (affine.inputs, 1.0, True)
        np.testing.assert_allclose(product.series.coefficients(3), [2, 2, 1])
    assert multiply((affine,), (SeriesPart(listed(0, 1)),)) is None
    assert merge(()) == ()
