"""Maps of products: Kronecker products of exact maps, the method chosen, signs, overflow."""

import numpy as np
import pytest

from mercer import (
    DataError,
    ExponentialDotProduct,
    Gaussian,
    Laplacian,
    Matern,
    ParameterError,
    Polynomial,
    ProductMap,
    RandomFourier,
    SumMap,
    Transformed,
)
from mercer.maps.algebra.joined import KroneckerFeatures, PairedFeatures

from .instances import BACK, FRONT, SIGNED, exact_maps, rows


def test_kronecker_products_of_exact_maps_are_exact():
    X, kernel = rows(), 2 * (FRONT * BACK)
    m = ProductMap(kernel, 12, maps=exact_maps(2), random_state=0).fit(X)
    assert (m.method_, len(m.features_.parts), len(m.features_.inner)) == ("kronecker", 1, 2)
    np.testing.assert_allclose(m.gram(X, rows(1)), kernel(X, rows(1)), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("method", ["paired", "kronecker"])
def test_products_with_signs_are_refused(method):
    with pytest.raises(ParameterError, match="has features with signs"):
        ProductMap(Matern() * SIGNED, 20, method=method).fit(rows())
    with pytest.raises(ParameterError, match="has features with signs"):
        SumMap(Matern() + SIGNED, 1).fit(rows())


def test_auto_is_kronecker_if_all_factors_but_one_are_exact():
    X = rows()
    assert ProductMap(Matern() * Polynomial(2), 10).fit(X).method_ == "kronecker"
    assert ProductMap(Matern() * Polynomial(2), 9).fit(X).method_ == "paired"
    assert ProductMap(Matern() * ExponentialDotProduct(), 500).fit(X).method_ == "paired"
    m = ProductMap(Matern() * Polynomial(2), 33, random_state=0).fit(X)
    assert [features.n_components for features in m.features_.inner] == [3, 3, 3, 4, 3, 3, 4, 3, 3, 4]
    assert isinstance(m.features_, KroneckerFeatures)
    assert isinstance(ProductMap(Matern() * Polynomial(2), 33, method="paired").fit(X).features_, PairedFeatures)


def test_kronecker_features_are_products_of_the_features_of_the_factors():
    X = rows()
    m = ProductMap(Gaussian() * Laplacian(), 24, maps=[RandomFourier(n_components=4)] * 2, method="kronecker")
    features = m.set_params(random_state=0).fit(X).features_
    outer = np.empty((40, 4))
    features.parts[0](X, outer)
    for i, inner in enumerate(features.inner):
        columns = np.empty((40, 6))
        inner(X, columns)
        np.testing.assert_allclose(m.transform(X)[:, 6 * i : 6 * i + 6], outer[:, i : i + 1] * columns)


@pytest.mark.parametrize("method", ["paired", "kronecker"])
def test_products_that_overflow_are_refused(method):
    kernel = Transformed(Polynomial(8), columns=(0,)) * Transformed(Polynomial(8), columns=(1,))
    m = ProductMap(kernel, 81, maps=exact_maps(2), method=method, random_state=0).fit(rows())
    X = np.full((2, 3), 1e3, dtype=np.float32)
    with pytest.raises(DataError, match=r"ProductMap: features overflow float32\. Scale the rows down"):
        m.transform(X)
    assert np.isfinite(m.transform(X.astype(np.float64))).all()


def test_kronecker_products_of_wide_maps_name_the_width_they_need():
    with pytest.raises(ParameterError) as error:
        ProductMap(Matern() * Laplacian(), 100, maps=[RandomFourier()] * 2, method="kronecker").fit(rows())
    assert "Kronecker products of maps of 512 components need at least n_components=512, got 100" in str(error.value)
    assert "or method='paired'" in str(error.value)
    with pytest.raises(ParameterError, match="ProductMap: method must be one of 'auto', 'paired', 'kronecker', got"):
        ProductMap(Matern() * Polynomial(2), method="both").fit(rows())


def test_factors_are_not_joined_if_their_series_has_more_error_than_the_kernel():
    # The series of Gaussian() * Polynomial(2) has rare components that are many times as large as the kernel.
    X = np.random.default_rng(0).normal(0.2, 1.0, size=(200, 3))
    kernel = Gaussian() * Polynomial(2)
    maps = [ProductMap(kernel, 40, random_state=seed).fit(X) for seed in range(5)]
    assert all([type(part).__name__ for part in m.maps_] == ["RandomFourier", "RandomMaclaurin"] for m in maps)
    errors = [np.square(m.gram(X) - kernel(X)).mean() for m in maps]
    assert np.mean(errors) < np.square(kernel(X)).mean()
    smooth = ProductMap(Gaussian(3.0) * Polynomial(2), 200, random_state=0).fit(X)
    assert len(smooth.maps_) == 1
    np.testing.assert_allclose(smooth.gram(X), smooth.kernel_(X), atol=0.1 * smooth.kernel_(X).max())
