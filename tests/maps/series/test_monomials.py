"""Monomials: agreement with scikit-learn, and inner products without error."""

import math

import numpy as np
import pytest
from sklearn.preprocessing import PolynomialFeatures

from mercer.kernels.power_series import SeriesPart, exponential_series
from mercer.maps.series.inputs import Preparation
from mercer.maps.series.monomials import Monomials


def rows(d, n=6, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def components_of(X, monomials, decay=0.0):
    prepared = Preparation(None, None, None, decay)(X)
    out = np.full((len(X), monomials.n_components), np.nan, X.dtype)
    monomials(prepared, out)
    return out


@pytest.mark.parametrize("d", [1, 2, 3, 5])
@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_components_are_monomials_times_square_roots_of_multinomial_coefficients(d, degree):
    X = rows(d)
    reference = PolynomialFeatures((degree, degree), include_bias=False)
    expected = reference.fit_transform(X)
    counts = math.factorial(degree) / np.array(
        [math.prod(math.factorial(k) for k in powers) for powers in reference.powers_]
    )
    monomials = Monomials.of(d, {degree: 2.0})
    assert monomials.n_components == math.comb(d + degree - 1, degree)
    np.testing.assert_allclose(components_of(X, monomials), np.sqrt(2 * counts) * expected, rtol=1e-12)


@pytest.mark.parametrize("d", [1, 2, 4])
@pytest.mark.parametrize(
    "coefficients", [{}, {0: 3.0}, {0: 1.0, 1: 2.0, 2: 0.5}, {1: 1.0, 4: 0.25}, {5: 2.0}, {0: 1.0, 3: -0.5}]
)
def test_inner_products_equal_the_terms_of_the_series(d, coefficients):
    X, Y = rows(d), rows(d, seed=1)
    monomials = Monomials.of(d, coefficients)
    # Negative coefficients enter by absolute value; their signs are stored separately.
    expected = sum((abs(a) * (X @ Y.T) ** n for n, a in coefficients.items()), np.zeros((6, 6)))
    np.testing.assert_allclose(
        components_of(X, monomials) @ components_of(Y, monomials).T, expected, rtol=1e-11, atol=1e-12
    )
    assert monomials.n_components == sum(math.comb(d + n - 1, n) for n in coefficients)


def test_every_component_includes_the_prefactor_of_its_row_once():
    X = rows(3)
    monomials = Monomials.of(3, {0: 1.0, 1: 1.0, 3: 0.5})
    factor = np.exp(-0.35 * (X**2).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(components_of(X, monomials, 0.7), factor * components_of(X, monomials), rtol=1e-13)


def test_float32_rows_have_float32_components():
    X = rows(3)
    monomials = Monomials.of(3, {0: 1.0, 2: 0.3})
    single = components_of(X.astype(np.float32), monomials.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, components_of(X, monomials), rtol=1e-5, atol=1e-6)


def test_gaussian_kernel_of_short_rows_is_close_to_its_first_monomials():
    X = 0.1 * rows(3)
    a = exponential_series(1.0).coefficients(4)
    prepare = Preparation.of(SeriesPart(exponential_series(1.0), decay=1.0, shift_invariant=True), X, np.ones(6))
    monomials = Monomials.of(3, dict(enumerate(a)))
    Z = np.empty((6, monomials.n_components))
    monomials(prepare(X), Z)
    distances = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    # The remainder of the exponential series at |x . y| < 0.08 is below 0.08^4 / 4!.
    np.testing.assert_allclose(Z @ Z.T, np.exp(-distances / 2), atol=2e-6)
