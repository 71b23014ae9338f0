"""Dot-product kernels: values, Maclaurin coefficients, overflow, wrong parameters."""

import math
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import special
from sklearn.metrics.pairwise import polynomial_kernel

from mercer import DataError, DotProduct, ExponentialDotProduct, Geometric, ParameterError, Polynomial
from mercer.kernels import DotProductKernel

from ..instances import DOT_PRODUCT


def rows(seed, n=20, d=4):
    return np.random.default_rng(seed).normal(size=(n, d))


@pytest.mark.parametrize("degree", [1, 2, 3, 7])
@pytest.mark.parametrize("coef0", [0, 0.5, 3.0])
@pytest.mark.parametrize("scale", [1.0, 0.25, 3])
def test_polynomial_equals_scikit_learn(degree, coef0, scale):
    X, Y = rows(0), rows(1)
    expected = polynomial_kernel(X, Y, degree=degree, gamma=scale, coef0=coef0)
    close = {"rtol": 1e-11, "atol": 1e-11 * np.abs(expected).max()}
    np.testing.assert_allclose(Polynomial(degree, coef0, scale)(X, Y), expected, **close)


def test_exponential_is_the_exponential_of_the_inner_product():
    X, Y = rows(0), rows(1)
    np.testing.assert_allclose(ExponentialDotProduct(1.7)(X, Y), np.exp(1.7 * X @ Y.T), rtol=1e-12)


@pytest.mark.parametrize("kernel", DOT_PRODUCT, ids=repr)
def test_the_diagonal_is_the_function_of_the_squared_norm(kernel):
    X = rows(0)
    np.testing.assert_allclose(kernel.diag(X), kernel.function((X**2).sum(axis=1)), rtol=1e-13)
    np.testing.assert_array_equal(np.diagonal(kernel(X)), kernel.diag(X))


@pytest.mark.parametrize("kernel", DOT_PRODUCT, ids=repr)
def test_coefficients_are_those_of_the_power_series(kernel):
    coefficients = kernel.series.coefficients(60)
    assert coefficients.shape == (60,)
    assert (coefficients >= 0).all()
    t = np.linspace(-2, 2, 9)
    # The terms left out of the exponential series are below 3^60 / 60!.
    np.testing.assert_allclose(np.polynomial.polynomial.polyval(t, coefficients), kernel.function(t), rtol=1e-12)
    np.testing.assert_array_equal(kernel.series.coefficients(2), coefficients[:2])


def test_degree_and_constant_decide_the_last_coefficient_and_the_first():
    np.testing.assert_array_equal(Polynomial(3, 2.0).series.coefficients(6), [8, 12, 6, 1, 0, 0])
    np.testing.assert_array_equal(Polynomial(2, 0.0).series.coefficients(4), [0, 0, 1, 0])
    np.testing.assert_array_equal(Polynomial(3, 2.0, 0.5).series.coefficients(5), [8, 6, 1.5, 0.125, 0])
    assert Polynomial(3).series.degree == 3
    assert ExponentialDotProduct().series.degree is None


@pytest.mark.parametrize(("kernel", "size"), [(ExponentialDotProduct(), 30.0), (Polynomial(3), 1e60)], ids=repr)
def test_overflow_is_refused_instead_of_returned(kernel, size):
    X = np.full((2, 1), size)
    for call in (kernel, kernel.diag):
        with pytest.raises(DataError, match=r"the kernel overflows at an inner product of .*unit norm"):
            call(X)


@pytest.mark.parametrize(("kernel", "size"), [(ExponentialDotProduct(), 10.0), (Polynomial(3), 1e7)], ids=repr)
def test_overflow_of_float32_is_refused_too(kernel, size):
    X = np.full((2, 1), size, dtype=np.float32)
    assert np.isfinite(kernel(X.astype(float))).all()
    for call in (kernel, kernel.diag):
        with pytest.raises(DataError, match="overflow"):
            call(X)


@pytest.mark.parametrize("degree", [0, -1, 2.0, True, "2", None])
def test_a_wrong_degree_is_refused(degree):
    with pytest.raises(ParameterError, match="Polynomial: degree must be an integer >= 1, got"):
        Polynomial(degree)


@pytest.mark.parametrize("coef0", [-0.1, np.nan, np.inf, "1", None])
def test_a_wrong_constant_is_refused(coef0):
    with pytest.raises(ParameterError, match=r"Polynomial: coef0 must be .*>= 0"):
        Polynomial(2, coef0)


def test_geometric_kernels_are_geometric_sums():
    X, Y = (0.2 * rows(i) for i in (0, 1))
    t = 0.7 * X @ Y.T
    np.testing.assert_allclose(Geometric(scale=0.7)(X, Y), 1 / (1 - t), rtol=1e-13)
    np.testing.assert_allclose(Geometric(5, 0.7)(X, Y), (1 - t**5) / (1 - t), rtol=1e-12)  # Vovk's real polynomial
    np.testing.assert_array_equal(Geometric(1)(X, Y), np.ones((20, 20)))
    np.testing.assert_array_equal(Geometric(3, 0.5).series.coefficients(5), [1, 0.5, 0.25, 0, 0])
    np.testing.assert_array_equal(Geometric(scale=0.5).series.coefficients(4), [1, 0.5, 0.25, 0.125])
    assert (Geometric(3).radius, Geometric(scale=4.0).radius) == (math.inf, 0.25)
    assert (Geometric(3).series.degree, Geometric().series.degree) == (2, None)


@pytest.mark.parametrize("terms", [0, -1, 2.0, True, "3"])
def test_a_wrong_number_of_terms_is_refused(terms):
    with pytest.raises(ParameterError, match="Geometric: terms must be an integer >= 1, or None"):
        Geometric(terms)


@pytest.mark.parametrize("kind", [Polynomial, ExponentialDotProduct, Geometric])
@pytest.mark.parametrize("scale", [0, -1.0, math.inf, math.nan, True, "1"])
def test_a_wrong_scale_is_refused(kind, scale):
    with pytest.raises(ParameterError, match=rf"{kind.__name__}: scale must be a finite number > 0, got"):
        kind(scale=scale)


@pytest.mark.parametrize(
    "kernel",
    [Geometric(), DotProduct(lambda n: 1.0, radius=1.0), DotProduct.from_function(lambda t: 1 / (1 - t), radius=1.0)],
)
def test_inner_products_beyond_the_radius_are_refused_with_a_factor_that_helps(kernel):
    X = np.array([[2.0, 0.0], [0.0, 1.0]])
    for call in (kernel, kernel.diag):
        with pytest.raises(DataError, match=r"below the radius of convergence 1, got 4. Scale .* by 0.47") as error:
            call(X)
    factor = float(str(error.value).rsplit(" ", 1)[1][:-1])
    np.testing.assert_allclose(kernel(factor * X), 1 / (1 - factor**2 * X @ X.T), rtol=1e-12)
    with pytest.raises(DataError, match="radius of convergence 1, got 1"):
        kernel(X[1:])


def test_lists_and_functions_of_coefficients_and_closed_forms_give_equal_values():
    X, Y = (0.4 * rows(i) for i in (0, 1))
    expected = np.exp(X @ Y.T)
    listed = DotProduct([1 / math.factorial(n) for n in range(40)])
    rule = DotProduct(lambda n: 1 / math.factorial(n))
    function = DotProduct.from_function(np.exp)
    for kernel in (listed, rule, function):
        np.testing.assert_allclose(kernel(X, Y), expected, rtol=1e-12)
        np.testing.assert_allclose(
            kernel.series.coefficients(20), ExponentialDotProduct().series.coefficients(20), rtol=1e-10
        )
    assert (listed.series.degree, rule.series.degree, function.series.degree) == (39, None, None)


@pytest.mark.parametrize(
    ("function", "radius", "coefficient"),
    [
        (np.sinh, math.inf, lambda n: (n % 2) / math.factorial(n)),
        (lambda t: -np.log1p(-t), 1.0, lambda n: 1 / n if n else 0.0),
        (lambda t: (1 - t) ** -0.5, 1.0, lambda n: special.binom(2 * n, n) / 4**n),
        (lambda t: 1 / (1 - 4 * t), 0.25, lambda n: 4.0**n),
        (lambda t: 2 + t**3, math.inf, lambda n: {0: 2.0, 3: 1.0}.get(n, 0.0)),
    ],
)
def test_coefficients_of_functions_are_found_by_cauchy_integrals(function, radius, coefficient):
    kernel = DotProduct.from_function(function, radius=radius)
    expected = np.array([coefficient(n) for n in range(30)])
    found = kernel.series.coefficients(30)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-16)
    assert kernel.coefficients(3) == pytest.approx(expected[3])


def test_zeros_among_coefficients_of_functions_are_exact():
    np.testing.assert_array_equal(DotProduct.from_function(np.cosh).series.coefficients(40)[1::2], 0)
    np.testing.assert_array_equal(DotProduct.from_function(lambda t: 2 + t**3).series.coefficients(40)[4:], 0)


def test_negative_coefficients_are_named_and_allowed_on_demand():
    for make in (
        lambda **choices: DotProduct([1.0, 0.5, -0.25], **choices),
        lambda **choices: DotProduct(lambda n: -0.25 if n == 2 else 0.5**n, **choices),
        lambda **choices: DotProduct.from_function(lambda t: 1 + 0.5 * t - 0.25 * t**2, **choices),
    ):
        with pytest.raises(ParameterError, match=r"DotProduct: a_2 = -0.25 is negative.*Schoenberg.*signed=True"):
            make()
        np.testing.assert_allclose(make(signed=True).series.coefficients(3), [1, 0.5, -0.25], atol=1e-12)
    with pytest.raises(ParameterError, match=r"a_3 = -0.166667 is negative"):
        DotProduct.from_function(np.sin)


def test_negative_coefficients_of_high_degree_are_reported_when_they_are_computed():
    kernel = DotProduct(lambda n: -1.0 if n == 70 else 2.0**-n)
    assert kernel.series.coefficients(64).min() > 0
    with pytest.raises(ParameterError, match="a_70 = -1 is negative"):
        kernel.series.coefficients(71)


@pytest.mark.parametrize(
    ("coefficients", "text"),
    [
        ([], "list of at least one number or a function"),
        ([[1.0]], "list of at least one number or a function"),
        ("abc", "list of at least one number or a function"),
        (None, "list of at least one number or a function"),
        ([1.0, math.nan], "must be finite, got a_1 = nan"),
        (lambda n: math.inf if n == 5 else 0.0, "must be finite, got a_5 = inf"),
    ],
)
def test_wrong_coefficients_are_refused(coefficients, text):
    with pytest.raises(ParameterError, match=f"DotProduct: coefficients must be .*{text.removeprefix('must be ')}"):
        DotProduct(coefficients)


@pytest.mark.parametrize("radius", [0, -1.0, math.nan, True, "1"])
def test_a_wrong_radius_is_refused(radius):
    with pytest.raises(ParameterError, match="DotProduct: radius must be a number > 0"):
        DotProduct([1.0], radius)


def test_functions_that_cannot_be_expanded_are_refused():
    with pytest.raises(ParameterError, match="the function must take complex arrays"):
        DotProduct.from_function(lambda t: np.array([math.exp(v) for v in t]))
    with pytest.raises(ParameterError, match="no finite values on circles around zero"):
        DotProduct.from_function(lambda t: t * np.nan)


def test_a_series_that_does_not_converge_is_refused():
    with pytest.raises(DataError, match="did not converge within 20000 terms at an inner product of 1"):
        DotProduct(lambda n: 1.0)(np.ones((1, 1)))


def test_lists_are_compared_hashed_and_pickled_without_trailing_zeros():
    kernel = DotProduct([1, 0.0, 2.0, 0.0])
    assert kernel == DotProduct(np.array([1.0, 0, 2])) != DotProduct([1.0, 0, 2], signed=True)
    assert hash(kernel) == hash(DotProduct((1.0, 0.0, 2.0)))
    assert pickle.loads(pickle.dumps(kernel)) == kernel
    assert kernel.series.degree == 2
    assert DotProduct([0.0, 0.0]).coefficients == (0.0,)


@pytest.mark.parametrize("kernel", [*DOT_PRODUCT, Geometric(scale=0.01)], ids=repr)
def test_values_follow_from_the_series(kernel):
    @dataclass(frozen=True)
    class OneFormula(DotProductKernel):
        @property
        def series(self):
            return kernel.series

    X = 0.5 * rows(0)
    np.testing.assert_allclose(OneFormula()(X), kernel(X), rtol=1e-11, atol=1e-14)
    assert (OneFormula() @ Polynomial(1)).series_parts() is not None
