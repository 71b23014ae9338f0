"""Laplacian and Cauchy: values, distances of the right metric, extreme rows and quantiles."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics.pairwise import laplacian_kernel

from mercer import Cauchy, Laplacian, Matern
from mercer.kernels import SeparableKernel
from mercer.kernels.isotropic import LARGEST_SCALE

from ..instances import SEPARABLE


def rows(seed, n=25, d=5):
    return np.random.default_rng(seed).normal(size=(n, d))


@pytest.mark.parametrize("lengthscale", [0.3, 1.0, 8.0])
def test_laplacian_equals_scikit_learn(lengthscale):
    X, Y = rows(0), rows(1)
    expected = laplacian_kernel(X, Y, gamma=1 / lengthscale)
    np.testing.assert_allclose(Laplacian(lengthscale)(X, Y), expected, rtol=1e-12)


@pytest.mark.parametrize("lengthscale", [0.3, 1.0, 8.0])
def test_cauchy_is_a_product_over_features(lengthscale):
    X, Y = rows(0), rows(1)
    expected = np.prod(1 / (1 + ((X[:, None] - Y) / lengthscale) ** 2), axis=2)
    np.testing.assert_allclose(Cauchy(lengthscale)(X, Y), expected, rtol=1e-12)


@pytest.mark.parametrize("kernel", SEPARABLE, ids=repr)
def test_values_are_products_of_the_values_of_single_features(kernel):
    X, Y = rows(0), rows(1)
    product = np.prod([kernel(X[:, [j]], Y[:, [j]]) for j in range(5)], axis=0)
    np.testing.assert_allclose(kernel(X, Y), product, rtol=1e-12)


def test_the_laplacian_is_not_the_exponential_of_the_euclidean_distance():
    X, Y = np.zeros((1, 4)), np.full((1, 4), 0.5)
    np.testing.assert_allclose(Laplacian()(X, Y), np.exp(-2.0), rtol=1e-14)
    np.testing.assert_allclose(Matern(0.5)(X, Y), np.exp(-1.0), rtol=1e-14)


@pytest.mark.parametrize("offset", [0.0, 1e8])
@pytest.mark.parametrize("kernel", SEPARABLE, ids=repr)
def test_equal_rows_have_the_value_one(kernel, offset):
    X = rows(0) + offset
    np.testing.assert_array_equal(np.diagonal(kernel(X, X.copy())), 1.0)


@pytest.mark.parametrize("kernel", SEPARABLE, ids=repr)
def test_huge_and_tiny_values_are_right(kernel):
    X = np.array([[0.0, 0.0], [1e200, 0.0], [-1e300, 1e300], [1e-300, 0.0]])
    expected = np.array([[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 1.0]])
    np.testing.assert_array_equal(kernel(X), expected)
    far = kernel.with_params(lengthscale=1e200)
    np.testing.assert_allclose(far(X[:2]), kernel.with_params(lengthscale=1.0)(X[:2] / 1e200), rtol=1e-12)


@pytest.mark.parametrize(("kernel", "distribution"), [(Laplacian(), stats.cauchy()), (Cauchy(), stats.laplace())])
def test_quantiles_are_those_of_the_spectral_distribution(kernel, distribution):
    uniforms = np.concatenate([np.linspace(0.001, 0.999, 999), [1e-12, 1 - 1e-12, 1e-6]])
    # Near 0 and 1 the condition of the quantile function magnifies the rounding of pi.
    np.testing.assert_allclose(kernel.spectral_quantile(uniforms), distribution.ppf(uniforms), rtol=2e-4, atol=1e-13)
    middle = uniforms[:999]
    np.testing.assert_allclose(kernel.spectral_quantile(middle), distribution.ppf(middle), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("kernel", SEPARABLE, ids=repr)
def test_frequencies_of_extreme_normal_numbers_are_finite(kernel):
    normals = np.array([[-40.0, 40.0, 0.0], [-np.inf, np.inf, 0.0]])
    frequencies = kernel.frequencies(normals, np.array([0.5, 0.5]))
    assert (np.abs(frequencies) <= LARGEST_SCALE / kernel.lengthscale).all()
    np.testing.assert_array_equal(np.sign(frequencies[:, :2]), [[-1, 1], [-1, 1]])
    np.testing.assert_array_equal(frequencies[:, 2], 0.0)


@dataclass(frozen=True)
class TwoFormulas(SeparableKernel):
    """A separable kernel by its two formulas, without values of all features at once."""

    source: SeparableKernel
    lengthscale: float = 1.0

    def profile(self, t):
        return self.source.profile(t)

    def spectral_quantile(self, uniforms):
        return self.source.spectral_quantile(uniforms)


@pytest.mark.parametrize("kernel", SEPARABLE, ids=repr)
def test_values_follow_from_the_profile(kernel):
    derived = TwoFormulas(kernel, kernel.lengthscale)
    np.testing.assert_allclose(derived(rows(0), rows(1)), kernel(rows(0), rows(1)), rtol=1e-12)
    assert np.isfinite(derived(np.array([[0.0, 1.0], [1e200, -1e300]]))).all()


def test_cauchy_at_distances_whose_squares_overflow():
    for exponent in (20, 99, 101, 150, 153):
        far = Cauchy(10.0**-exponent)([[0.0]], [[1.0]])[0, 0]
        assert far == pytest.approx(10.0 ** (-2 * exponent), rel=1e-12)
    assert Cauchy()([[0.0]], [[1e155]])[0, 0] == pytest.approx(1e-310, rel=1e-10)
    assert Cauchy()([[0.0, 0.0]], [[1e155, 1e155]])[0, 0] == 0.0
    assert Cauchy()([[-1.7e308]], [[1.7e308]])[0, 0] == 0.0


def test_a_profile_with_a_longer_tail_may_be_evaluated_beyond_the_default_largest_distance():
    @dataclass(frozen=True)
    class Slow(SeparableKernel):
        largest_distance = 1e300
        lengthscale: float = 1.0

        def profile(self, t):
            return (1 + t) ** -0.01

        def spectral_quantile(self, uniforms):
            return uniforms

    assert Slow()([[0.0]], [[1e200]])[0, 0] == pytest.approx(1e-2)
