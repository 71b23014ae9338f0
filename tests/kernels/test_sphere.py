"""Gegenbauer coefficients: known expansions, and positive definiteness on one sphere but not on the next."""

import numpy as np
import pytest
from numpy.polynomial import chebyshev, legendre

from mercer import ExponentialDotProduct, ParameterError, Polynomial
from mercer.kernels import gegenbauer_coefficients, positive_definite_on_sphere


def p2(t):
    return (3 * t**2 - 1) / 2


def on_sphere(n, d):
    X = np.random.default_rng(0).normal(size=(n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def test_gegenbauer_polynomials_of_two_and_three_dimensions_are_those_of_chebyshev_and_legendre():
    b = np.array([0.3, -1.0, 0.0, 2.0, 0.5])
    np.testing.assert_allclose(gegenbauer_coefficients(lambda t: chebyshev.chebval(t, b), 2, 5), b, atol=1e-13)
    np.testing.assert_allclose(gegenbauer_coefficients(lambda t: legendre.legval(t, b), 3, 5), b, atol=1e-13)


@pytest.mark.parametrize("d", [2, 3, 4, 7, 20])
def test_the_mean_square_of_an_inner_product_is_one_over_the_dimension(d):
    # t^2 = 1/d + (1 - 1/d) P_2(t), whatever the dimension.
    np.testing.assert_allclose(gegenbauer_coefficients(np.square, d, 4), [1 / d, 0, 1 - 1 / d, 0], atol=1e-13)
    assert gegenbauer_coefficients(p2, d, 3)[0] == pytest.approx((3 / d - 1) / 2, abs=1e-13)


@pytest.mark.parametrize("d", [2, 3, 4, 6, 10])
def test_positive_definiteness_agrees_with_the_smallest_eigenvalue(d):
    X = on_sphere(400, d)
    least = np.linalg.eigvalsh(p2(X @ X.T)).min()
    assert positive_definite_on_sphere(p2, d) == (least > -1e-9) == (d <= 3)


@pytest.mark.parametrize("kernel", [ExponentialDotProduct(2.0), Polynomial(5, 0.3)], ids=repr)
@pytest.mark.parametrize("d", [2, 5, 40])
def test_kernels_of_the_ball_are_positive_definite_on_every_sphere(kernel, d):
    assert positive_definite_on_sphere(kernel.function, d)
    # P_n(1) = 1, so the coefficients add up to the value at one.
    assert gegenbauer_coefficients(kernel.function, d).sum() == pytest.approx(float(kernel.function(np.array(1.0))))


@pytest.mark.parametrize("wrong", [1, 0, 2.5, True, "3"])
def test_wrong_parameters_are_refused(wrong):
    with pytest.raises(ParameterError, match="gegenbauer_coefficients: dimension must be an integer >= 2, got"):
        gegenbauer_coefficients(p2, wrong)
    if wrong != 1:
        with pytest.raises(ParameterError, match="gegenbauer_coefficients: n must be an integer >= 1, got"):
            gegenbauer_coefficients(p2, 3, wrong)


@pytest.mark.parametrize("function", [lambda t: 1.0, lambda t: 1 / (t - t)])
def test_functions_without_values_are_refused(function):
    with np.errstate(divide="ignore"), pytest.raises(ParameterError, match="one finite value for each inner product"):
        gegenbauer_coefficients(function, 3)
