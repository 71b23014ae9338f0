"""Kernels of inputs that are multiplied by a matrix."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import (
    DataError,
    ExponentialDotProduct,
    Gaussian,
    Laplacian,
    Matern,
    MercerError,
    ParameterError,
    Polynomial,
    RandomFourier,
    RandomMaclaurin,
    SphericalRadial,
    TensorSketch,
    Transformed,
)
from mercer.kernels.spectral import FrozenMatrix

MATRIX = np.array([[1.0, 0.5], [0.0, 2.0], [-1.0, 0.3]])


def rows(n=8, d=3):
    return np.random.default_rng(0).normal(size=(n, d))


@pytest.mark.parametrize("inner", [Gaussian(0.7), Laplacian(), Polynomial(2), 2.0 * Matern() + 1])
def test_values(inner):
    X, center, scales = rows(), np.array([0.1, 0.0, -1.0]), np.array([0.5, 1.0, 4.0])
    kernel = Transformed(inner, center=center, lengthscales=scales, matrix=MATRIX)
    np.testing.assert_allclose(kernel(X), inner((X - center) / scales @ MATRIX), atol=1e-13)
    np.testing.assert_allclose(kernel(sp.csr_array(X)), kernel(X), atol=1e-13)
    some = Transformed(inner, columns=(2, 0), matrix=MATRIX[:2])
    np.testing.assert_allclose(some(X), inner(X[:, [2, 0]] @ MATRIX[:2]), atol=1e-13)


def test_median_is_in_the_metric():
    X = rows(50)
    resolved = Transformed(Gaussian("median"), matrix=MATRIX).resolve(X)
    assert resolved.kernel == Gaussian("median").resolve(X @ MATRIX)


@pytest.mark.parametrize(
    "feature_map",
    [
        RandomFourier(n_components=8000),
        SphericalRadial(n_components=8000),
        RandomMaclaurin(Transformed(ExponentialDotProduct(0.3), center=(0.1, 0.2, 0.3), matrix=MATRIX), 6000),
        RandomMaclaurin(Transformed(Gaussian(4.0), matrix=MATRIX), 6000),
    ],
    ids=lambda m: type(m).__name__,
)
def test_maps(feature_map):
    kernel = feature_map.kernel or Transformed(Gaussian(2.0), matrix=MATRIX)
    X = rows()
    fitted = feature_map.set_params(kernel=kernel, random_state=0).fit(X)
    exact = kernel(X)
    tolerance = 8 * np.abs(exact).max() / np.sqrt(6000)
    np.testing.assert_allclose(fitted.gram(X), exact, atol=tolerance)
    np.testing.assert_allclose(fitted.transform(sp.csr_array(X)), fitted.transform(X), atol=1e-10)
    assert np.abs(kernel.kernel(X) - exact).max() > 2 * tolerance  # the twin: without the matrix


def test_wide_rows_have_dense_directions():
    X, matrix = rows(4, 700), np.random.default_rng(1).normal(size=(700, 700)) / 700
    for kind in (RandomFourier, SphericalRadial):
        kernel = Transformed(Gaussian(), matrix=matrix)
        assert kind(kernel, 10, random_state=0).fit(X).directions_ == "big_block"
        with pytest.raises(MercerError, match="matrix"):
            kind(kernel, 10, directions="butterfly").fit(X)
    with pytest.raises(MercerError, match="TensorSketch cannot approximate"):
        TensorSketch(Transformed(Polynomial(2), matrix=matrix), 10).fit(X)


def test_parameters():
    kernel = Transformed(Gaussian(), matrix=MATRIX)
    same = pickle.loads(pickle.dumps(kernel))
    assert same == kernel
    assert hash(same) == hash(kernel)
    assert kernel.with_params(matrix=2 * MATRIX) != kernel
    assert kernel.with_params(matrix=np.asarray(kernel.matrix)) == kernel
    np.testing.assert_array_equal(np.asarray(kernel.matrix), MATRIX)
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(kernel.matrix)[0, 0] = 2.0
    assert "matrix=<matrix of shape (3, 2)" in repr(kernel)
    wide = Transformed(Gaussian(), lengthscales=np.ones(784), matrix=np.eye(784))
    assert len(repr(wide)) < 250
    assert FrozenMatrix(MATRIX) != FrozenMatrix(MATRIX.T)
    assert FrozenMatrix(MATRIX) != 3
    assert kernel.lengthscale_columns(np.arange(3)) == ()


@pytest.mark.parametrize("matrix", [[1.0, 2.0], [["a"]], np.full((3, 1), np.nan), np.zeros((3, 0))])
def test_wrong_matrix(matrix):
    with pytest.raises(ParameterError, match="Transformed: matrix must be"):
        Transformed(Gaussian(), matrix=matrix)


def test_wrong_widths():
    with pytest.raises(ParameterError, match=r"one row per selected feature.*got shape \(3, 2\) and 2 entries"):
        Transformed(Gaussian(), lengthscales=(1.0, 2.0), matrix=MATRIX)
    with pytest.raises(DataError, match="matrix has 3 rows, but the rows of X have 2 features"):
        Transformed(Gaussian(), matrix=MATRIX)(rows(4, 2))
