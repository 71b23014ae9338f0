"""What holds for every kernel: the contract, dtypes, tiles, sparse rows, wrong rows, parameters."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from mercer import (
    DataError,
    ExponentialDotProduct,
    Gaussian,
    KernelRidge,
    Laplacian,
    Matern,
    ParameterError,
    Polynomial,
    RandomFourier,
    RationalQuadratic,
    Sum,
    Transformed,
)
from mercer.kernels import base

from ..instances import BY_VALUES, DEFORMED_KERNELS, DOT_PRODUCT, KERNELS, SHIFT_INVARIANT, rows_for

pytestmark = pytest.mark.covering(1)

every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=repr)


def rows(seed, n=40, d=3):
    return np.random.default_rng(seed).normal(0.2, 1.0, size=(n, d))


@pytest.mark.covering(1, kernel=type)
@every_kernel
def test_tiles_do_not_matter(kernel, monkeypatch):
    X, Y = rows_for(kernel, 0), rows_for(kernel, 1, n=11)
    whole, cross, diagonal = kernel(X), kernel(X, Y), kernel.diag(X)
    for tile in (1, 7, 40):
        monkeypatch.setattr(base, "TILE", tile)
        # Formulas of distances shift rows to the center of their tile: equal to rounding, not to the bit.
        tiled = kernel(X)
        np.testing.assert_allclose(tiled, whole, rtol=1e-12, atol=1e-13)
        np.testing.assert_array_equal(tiled, tiled.T)
        np.testing.assert_allclose(kernel(X, Y), cross, rtol=1e-12, atol=1e-13)
        # A matrix product, whose rounding depends on its shape.
        if kernel in DEFORMED_KERNELS + BY_VALUES or getattr(kernel, "matrix", None) is not None:
            np.testing.assert_allclose(kernel.diag(X), diagonal, rtol=1e-12)
        else:
            np.testing.assert_array_equal(kernel.diag(X), diagonal)


@every_kernel
@pytest.mark.parametrize("kind", [np.asarray, lambda X: X.astype(np.float32), sp.csr_array], ids=["f8", "f4", "csr"])
def test_values_of_one_argument_are_exactly_symmetric(kernel, kind):
    # Large enough for matrix products to round the two halves differently.
    K = kernel(kind(0.5 * rows_for(kernel, 0, n=300, d=3)))
    np.testing.assert_array_equal(K, K.T)


@every_kernel
@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array, sp.coo_array, sp.csc_matrix])
def test_sparse_rows_equal_dense_rows(kernel, kind):
    X, Y = rows_for(kernel, 0), rows_for(kernel, 1, n=5)
    X[X < 0] = 0.0
    np.testing.assert_allclose(kernel(kind(X), Y), kernel(X, Y), rtol=1e-13)
    np.testing.assert_allclose(kernel(Y, kind(X)), kernel(Y, X), rtol=1e-13)
    np.testing.assert_allclose(kernel.diag(kind(X)), kernel.diag(X), rtol=1e-13)


@every_kernel
def test_float32_rows_give_the_float64_values_rounded(kernel):
    X = rows_for(kernel, 0).astype(np.float32)
    K = kernel(X)
    assert K.dtype == kernel.diag(X).dtype == np.float32
    # Formulas run in float64, so one rounding of the result is the whole difference.
    np.testing.assert_allclose(K, kernel(X.astype(float)), rtol=2**-23)
    assert kernel(X, X.astype(float)).dtype == np.float64


@every_kernel
def test_input_is_not_written_to_and_integers_and_lists_are_taken(kernel):
    X = np.array([[0, 1, 2], [1, 0, 1]])
    K = kernel(X)
    np.testing.assert_array_equal(K, kernel(X.astype(float)))
    np.testing.assert_array_equal(K, kernel(X.tolist()))
    read_only = X.astype(float)
    read_only.flags.writeable = False
    np.testing.assert_array_equal(kernel(read_only), K)


@every_kernel
def test_no_rows_give_no_values(kernel):
    assert kernel(np.empty((0, 3)), rows_for(kernel, 0, n=2)).shape == (0, 2)
    assert kernel(rows_for(kernel, 0, n=2), np.empty((0, 3))).shape == (2, 0)
    assert kernel.diag(np.empty((0, 3))).shape == (0,)


@given(seed=st.integers(0, 2**32), kernel=st.sampled_from(KERNELS), n=st.integers(2, 12))
def test_values_permute_with_rows_and_are_positive_semi_definite(seed, kernel, n):
    X = rows_for(kernel, seed, n)
    order = np.random.default_rng(seed).permutation(n)
    K = kernel(X)
    scale = np.abs(K).max()
    np.testing.assert_allclose(kernel(X[order]), K[np.ix_(order, order)], rtol=0, atol=1e-12 * scale)
    # An eigenvalue moves by at most the norm of the rounding errors, n times the largest of them.
    assert np.linalg.eigvalsh(K).min() >= -1e-12 * n * scale


@pytest.mark.parametrize(
    ("X", "text"),
    [
        (np.zeros(3), r"rows must form a 2-d array \(n, d\), got shape \(3,\). Try X.reshape"),
        (np.zeros((1, 2, 3)), r"got shape \(1, 2, 3\)"),
        (np.float64(1.0), r"got shape \(\)"),
        (np.array([["a", "b", "c"]]), "rows must be numbers, got dtype <U1"),
        (np.array([[None, 1.0, 2.0]]), "rows must be numbers, got dtype object|rows must be finite"),
        (np.array([[0.0, np.nan, 0.0]]), "rows must be finite, got NaN or infinity. Drop or impute"),
        (np.array([[0.0, np.inf, 0.0]], dtype=np.float32), "rows must be finite"),
        (sp.csr_array(np.array([[0.0, np.nan, 0.0]])), "rows must be finite"),
    ],
)
@pytest.mark.parametrize("kernel", [Gaussian(), Laplacian(), Polynomial(), 1 + Gaussian()], ids=repr)
def test_wrong_rows_are_refused(kernel, X, text):
    for call in (kernel, kernel.diag, lambda wrong: kernel(rows(0), wrong)):
        with pytest.raises(DataError, match=text):
            call(X)


@pytest.mark.parametrize("X", [np.array([["1", "2", "3"]]), np.array([[1j, 2.0, 0.0]])], ids=["digits", "complex"])
def test_strings_of_digits_and_complex_numbers_are_refused(X):
    with pytest.raises(DataError, match=r"rows must be numbers|rows must be real"):
        Gaussian()(X)


@every_kernel
def test_rows_of_unequal_width_are_refused(kernel):
    with pytest.raises(DataError, match="X and Y must have equal width, got 3 and 4 features"):
        kernel(rows_for(kernel, 0), rows_for(kernel, 0, d=4))


@pytest.mark.parametrize(
    "kernel", [Gaussian("median"), 1 + 2 * Laplacian("median"), ExponentialDotProduct() @ Matern(1.5, "median")]
)
def test_an_unresolved_kernel_has_no_values(kernel):
    assert kernel.needs_rows
    for call in (kernel, kernel.diag):
        with pytest.raises(ParameterError, match=r"its lengthscale is computed from rows. Call kernel.resolve\(X\)"):
            call(rows(0))


@pytest.mark.parametrize("value", [0, -1.0, np.nan, np.inf, True, False, None, "auto", [1.0], 1j, np.array([1.0, 2.0])])
@pytest.mark.parametrize("kind", sorted({type(k) for k in SHIFT_INVARIANT}, key=str))
def test_a_wrong_lengthscale_is_refused(kind, value):
    with pytest.raises(ParameterError, match=f"{kind.__name__}: lengthscale must be .*> 0"):
        kind(lengthscale=value)


@every_kernel
def test_parameters_round_trip_and_equal_kernels_are_equal(kernel):
    again = kernel.with_params(**kernel.get_params(deep=False))
    assert again == kernel
    assert hash(again) == hash(kernel)
    assert pickle.loads(pickle.dumps(kernel)) == kernel
    assert clone(kernel) is kernel
    assert kernel.resolve(rows_for(kernel, 0)) == kernel


def test_kernels_differ_by_any_parameter():
    kernels = [*KERNELS, Gaussian(2.0), Gaussian("median"), Matern(1.5, 2.0)]
    assert len(set(kernels)) == len(kernels)
    assert Gaussian(1.0) != Matern(np.inf)


def test_nested_parameters_are_reached_by_their_path():
    kernel = Gaussian(2.0) + 3.0 * Transformed(Matern(2.5), columns=(0,))
    assert kernel.get_params()["right__kernel__kernel__nu"] == 2.5
    changed = kernel.with_params(left__lengthscale=5.0, right__kernel__kernel__nu=0.5, right__weight=1.0)
    assert changed == Gaussian(5.0) + 1.0 * Transformed(Matern(0.5), columns=(0,))
    assert kernel.left == Gaussian(2.0)
    replaced = kernel.with_params(left=Matern(), left__nu=0.5)
    assert replaced.left == Matern(0.5)


def test_unknown_parameters_are_refused():
    with pytest.raises(
        ParameterError, match=r"Gaussian: there is no parameter gamma\..*write Gaussian\(lengthscale=0\.7071\)"
    ):
        Gaussian().with_params(gamma=1.0)
    with pytest.raises(ParameterError, match=r"lengthscale = 1.0 is not a kernel and has no parameters"):
        Gaussian().with_params(lengthscale__x=1.0)
    with pytest.raises(
        ParameterError, match=r"Sum: there is no parameter middle__lengthscale\. Sum has left and right\."
    ):
        (Gaussian() + 1).with_params(middle__lengthscale=1.0)


def test_kernels_are_frozen():
    with pytest.raises(AttributeError):
        Gaussian().lengthscale = 2.0


def test_grid_search_reaches_into_the_kernel_and_leaves_it_as_it_was():
    X = rows(0, n=80)
    y = np.sin(2 * X[:, 0])
    kernel = 1.0 * RationalQuadratic(1.0, 1.0)
    model = KernelRidge(feature_map=RandomFourier(kernel, 200, random_state=0))
    grid = {
        "feature_map__kernel__kernel__lengthscale": [1e-3, 0.8, 1e3],
        "feature_map__kernel__weight": [1.0],
    }
    search = GridSearchCV(model, grid, cv=3).fit(X, y)
    assert search.best_params_["feature_map__kernel__kernel__lengthscale"] == 0.8
    assert search.best_estimator_.feature_map.kernel == 1.0 * RationalQuadratic(1.0, 0.8)
    assert kernel == 1.0 * RationalQuadratic(1.0, 1.0)


def test_grid_search_over_the_lengthscale_of_a_plain_kernel():
    X = rows(0, n=60)
    model = KernelRidge(feature_map=RandomFourier(Gaussian(), 100, random_state=0))
    search = GridSearchCV(model, {"feature_map__kernel__lengthscale": [1e-3, 1.0]}, cv=3).fit(X, X[:, 0])
    assert search.best_params_ == {"feature_map__kernel__lengthscale": 1.0}


@pytest.mark.parametrize("kernel", DOT_PRODUCT, ids=repr)
def test_only_shift_invariant_kernels_have_spectral_parts(kernel):
    assert kernel.spectral_parts() is None
    assert Sum(Gaussian(), kernel).spectral_parts() is None
    assert (kernel * Gaussian()).spectral_parts() is None
    assert Transformed(2.0 * kernel, columns=(0,)).spectral_parts() is None


@pytest.mark.parametrize(
    "kernel",
    [
        Gaussian(2.0),
        Matern(1.5),
        Polynomial(2),
        ExponentialDotProduct(3.0),
        1 + 2 * Gaussian() * Polynomial(2),
        ExponentialDotProduct() @ Gaussian(),
        Laplacian(3.0) + Gaussian(),
    ],
    ids=repr,
)
@pytest.mark.parametrize("wrap", [sp.csr_matrix, sp.csr_array], ids=["matrix", "array"])
def test_wide_sparse_rows_equal_dense_ones(kernel, wrap):
    dense = sp.random_array((30, 3000), density=0.01, rng=np.random.default_rng(0)).toarray()
    dense[3] = dense[7]
    dense[5] = 0.0
    X, Y = wrap(dense), wrap(dense[:11])
    np.testing.assert_allclose(kernel(X), kernel(dense), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(kernel(X, Y), kernel(dense, dense[:11]), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(kernel.diag(X), kernel.diag(dense), rtol=1e-12)
    assert kernel(X, Y)[3, 7] == kernel.diag(X)[3]  # equal rows, exactly


def test_sparse_rows_are_not_made_dense(monkeypatch):
    def refuse(rows):
        raise AssertionError("made dense")

    monkeypatch.setattr("mercer.kernels.base.dense64", refuse)
    X = sp.random_array((50, 100_000), density=1e-4, rng=np.random.default_rng(0), format="csr")
    assert (ExponentialDotProduct() @ Polynomial(2) + Polynomial(3))(X).shape == (50, 50)
    with pytest.raises(AssertionError, match="made dense"):
        Laplacian()(X)
