"""Derivatives of landmark features in lengthscales, against differences."""

import numpy as np
import pytest

from mercer import Gaussian, Laplacian, Matern, Nystroem, Polynomial, RandomFourier, Transformed
from mercer.features import rows_to_features
from mercer.maps.landmarks.lengthscales import isotropic_form, kernel_derivative

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
H = 1e-5


def differences(value):
    """Return the derivatives of a function of the logarithms of two lengthscales, at zero."""
    return [(value(H * step) - value(-H * step)) / (2 * H) for step in np.eye(2)]


def test_isotropic_kernels_are_found_with_the_product_of_their_lengthscales():
    assert isotropic_form(Gaussian(2.0)) == (Gaussian(2.0), None)
    once = Transformed(Matern(), lengthscales=(2.0, 3.0))
    leaf, scales = isotropic_form(Transformed(once, lengthscales=(5.0, 7.0)))
    assert leaf == Matern()
    assert scales.tolist() == [10.0, 21.0]
    leaf, scales = isotropic_form(Transformed(once, center=(1.0, 1.0)))
    assert scales.tolist() == [2.0, 3.0]
    for other in (Laplacian(), Polynomial(2), Transformed(Gaussian(), columns=(0,)), Transformed(Polynomial(2))):
        assert isotropic_form(other) is None


@pytest.mark.parametrize("kernel", [Gaussian(1.3), Matern(1.5, 0.7), Transformed(Matern(2.5), lengthscales=(0.6, 1.7))])
def test_kernel_values_are_differentiated_in_every_lengthscale(kernel):
    weights, others = RNG.normal(size=(40, 7)), X[:7] + 0.1

    def total(step):
        return float(np.sum(weights * kernel(X * np.exp(-step), others * np.exp(-step))))

    np.testing.assert_allclose(kernel_derivative(kernel, X, others, weights), differences(total), rtol=1e-6, atol=1e-7)


def test_derivative_at_equal_rows_is_zero_for_a_rough_kernel():
    found = kernel_derivative(Matern(0.5), X[:3], X[:3], np.eye(3))
    np.testing.assert_allclose(found, 0.0, atol=1e-7)


@pytest.mark.parametrize(
    "feature_map",
    [
        Nystroem(Gaussian(1.3), 8, random_state=0),
        Nystroem(Transformed(Matern(2.5), lengthscales=(0.6, 1.7)), 8, random_state=0),
        RandomFourier(Gaussian(1.3), 8, directions="iid", random_state=0),
        RandomFourier(1 + Matern(2.5), 9, directions="iid", form="phase", random_state=0),
    ],
    ids=lambda m: "".join(repr(m).split()),
)
def test_gradient_is_that_of_the_approximate_kernel_of_multiplied_lengthscales(feature_map):
    features = feature_map.fit(X).features_
    weights = RNG.normal(size=(40, 40))
    weights += weights.T

    def total(step):
        Z = rows_to_features(features.lengthscales.multiplied(np.exp(step)), X)
        return float(np.sum(weights * (Z @ Z.T)))

    Z = rows_to_features(features, X)
    G = 2 * weights @ Z
    found = features.lengthscales.gradient(X, Z, G) + features.lengthscales.gradient_of_draw(Z.T @ G)
    np.testing.assert_allclose(found, differences(total), rtol=1e-5, atol=1e-5)


def test_multiplied_lengthscales_are_those_of_rows_divided():
    factors = np.array([0.5, 2.0])
    for feature_map in (Nystroem(Gaussian(), 8, random_state=0), RandomFourier(Laplacian(), 8, random_state=0)):
        features = feature_map.fit(X).features_
        Z = rows_to_features(features.lengthscales.multiplied(factors), X)
        if isinstance(feature_map, RandomFourier):
            np.testing.assert_allclose(Z, rows_to_features(features, X / factors), atol=1e-12)
        else:
            K = Transformed(Gaussian(), lengthscales=factors)
            S = features.landmarks
            np.testing.assert_allclose(Z @ Z.T, K(X, S) @ np.linalg.solve(K(S), K(S, X)), atol=1e-8)


def test_features_without_a_closed_form_have_no_lengthscales():
    for feature_map in (
        Nystroem(Polynomial(2), 5),
        RandomFourier(Gaussian(), 8, directions="butterfly"),
        RandomFourier(Gaussian(), 8, directions="iid", form="complex"),
    ):
        assert feature_map.fit(X).features_.lengthscales is None
