"""Polynomial and exponential kernels: values, Maclaurin coefficients, overflow, wrong parameters."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import polynomial_kernel

from mercer import DataError, Exponential, ParameterError, Polynomial

from .instances import DOT_PRODUCT


def rows(seed, n=20, d=4):
    return np.random.default_rng(seed).normal(size=(n, d))


@pytest.mark.parametrize("degree", [1, 2, 3, 7])
@pytest.mark.parametrize("coef0", [0, 0.5, 3.0])
def test_polynomial_equals_scikit_learn(degree, coef0):
    X, Y = rows(0), rows(1)
    expected = polynomial_kernel(X, Y, degree=degree, gamma=1.0, coef0=coef0)
    np.testing.assert_allclose(Polynomial(degree, coef0)(X, Y), expected, rtol=1e-11, atol=1e-11)


def test_exponential_is_the_exponential_of_the_inner_product():
    X, Y = rows(0), rows(1)
    np.testing.assert_allclose(Exponential(1.7)(X, Y), np.exp(X @ Y.T / 1.7**2), rtol=1e-12)


@pytest.mark.parametrize("kernel", DOT_PRODUCT, ids=repr)
def test_the_diagonal_is_the_function_of_the_squared_norm(kernel):
    X = rows(0)
    np.testing.assert_allclose(kernel.diag(X), kernel.function((X**2).sum(axis=1)), rtol=1e-13)
    np.testing.assert_array_equal(np.diagonal(kernel(X)), kernel.diag(X))


@pytest.mark.parametrize("kernel", DOT_PRODUCT, ids=repr)
def test_coefficients_are_those_of_the_power_series(kernel):
    coefficients = kernel.coefficients(40)
    assert coefficients.shape == (40,)
    assert (coefficients >= 0).all()
    t = np.linspace(-2, 2, 9)
    # The terms left out of the exponential series are below 1 / 40!.
    np.testing.assert_allclose(np.polynomial.polynomial.polyval(t, coefficients), kernel.function(t), rtol=1e-12)
    np.testing.assert_array_equal(kernel.coefficients(2), coefficients[:2])


def test_degree_and_constant_decide_the_last_coefficient_and_the_first():
    np.testing.assert_array_equal(Polynomial(3, 2.0).coefficients(6), [8, 12, 6, 1, 0, 0])
    np.testing.assert_array_equal(Polynomial(2, 0.0).coefficients(4), [0, 0, 1, 0])


@pytest.mark.parametrize(("kernel", "size"), [(Exponential(), 30.0), (Polynomial(3), 1e60)], ids=repr)
def test_overflow_is_refused_instead_of_returned(kernel, size):
    X = np.full((2, 1), size)
    for call in (kernel, kernel.diag):
        with pytest.raises(DataError, match=r"the kernel overflows at an inner product of .*unit norm"):
            call(X)


@pytest.mark.parametrize(("kernel", "size"), [(Exponential(), 10.0), (Polynomial(3), 1e7)], ids=repr)
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
