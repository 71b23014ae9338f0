"""Kernel principal components: those of the exact method, on every engine, with deterministic signs."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.decomposition import KernelPCA as ExactKernelPCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge

from mercer import (
    DataError,
    Gaussian,
    KernelPCA,
    Nystroem,
    ParameterError,
    Polynomial,
    RandomFourier,
    RandomMaclaurin,
)
from mercer.learners.pca import basis_of, canonical


def rows(n=400, d=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + 0.5


def fresh(k=4, **options):
    return KernelPCA(RandomFourier(Gaussian(1.0), 40, random_state=0), k, **options)


# ---- against the exact machine ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "feature_map"),
    [
        (Gaussian(3.0), Nystroem(Gaussian(3.0), 1000, landmarks="uniform", random_state=0)),
        (Polynomial(2), RandomMaclaurin(Polynomial(2), 10, random_state=0)),
    ],
    ids=["all landmarks", "all monomials"],
)
def test_with_an_exact_map_it_is_scikit_learns(kernel, feature_map):
    X, X_new = rows(1000), rows(50, seed=1)
    exact = ExactKernelPCA(6, kernel="precomputed", eigen_solver="dense").fit(kernel(X))
    ours = KernelPCA(feature_map, 6).fit(X)
    np.testing.assert_allclose(ours.feature_map_.gram(X), kernel(X), atol=1e-8 * kernel(X).max())  # the map is exact
    np.testing.assert_allclose(ours.eigenvalues_, exact.eigenvalues_, rtol=1e-8)
    for K, Y in ((kernel(X), X), (kernel(X_new, X), X_new)):
        expected, scores = exact.transform(K), ours.transform(Y)
        signs = np.sign(np.einsum("ij,ij->j", expected, scores))
        np.testing.assert_allclose(scores * signs, expected, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("whiten", [False, True])
def test_it_is_scikit_learns_pca_of_the_features(whiten):
    X = rows()
    model = fresh(whiten=whiten).fit(X)
    Z = model.feature_map_.transform(X)
    peer = PCA(4, svd_solver="full").fit(Z)
    signs = np.sign(np.einsum("ij,ij->i", peer.components_, model.components_))
    np.testing.assert_allclose(model.components_ * signs[:, None], peer.components_, atol=1e-9)
    np.testing.assert_allclose(model.mean_, peer.mean_, atol=1e-12)
    # scikit-learn divides by n - 1, here by the weight of the rows.
    np.testing.assert_allclose(model.explained_variance_, peer.explained_variance_ * 399 / 400, rtol=1e-9)
    np.testing.assert_allclose(model.explained_variance_ratio_, peer.explained_variance_ratio_, rtol=1e-9)
    scores = model.transform(X)
    np.testing.assert_allclose(scores.mean(axis=0), 0, atol=1e-10)
    variance = np.ones(4) if whiten else model.explained_variance_
    np.testing.assert_allclose(scores.T @ scores / 400, np.diag(variance), atol=1e-10)


def test_inverse_transform_is_ridge_regression_from_scores_to_rows():
    X, X_new = rows(), rows()[:20] + 0.01
    feature_map = RandomFourier(Gaussian(4.0), 60, random_state=0)
    for whiten in (False, True):
        model = KernelPCA(feature_map, 8, fit_inverse_transform=True, alpha=0.3, whiten=whiten).fit(X)
        plain = KernelPCA(feature_map, 8).fit(X)
        oracle = Ridge(alpha=0.3).fit(plain.transform(X), X)
        expected = oracle.predict(plain.transform(X_new))
        np.testing.assert_allclose(model.inverse_transform(model.transform(X_new)), expected, atol=1e-9)
    assert np.square(expected - X_new).mean() < 0.1 * X_new.var()  # it does find the rows


def test_inverse_transform_of_a_linear_kernel_is_that_of_scikit_learn():
    X = rows() - rows().mean(axis=0)
    linear = RandomMaclaurin(Polynomial(1, coef0=0.0), 3, random_state=0)
    ours = KernelPCA(linear, 2, fit_inverse_transform=True, alpha=0.5).fit(X)
    exact = ExactKernelPCA(2, kernel="linear", fit_inverse_transform=True, alpha=0.5, eigen_solver="dense").fit(X)
    np.testing.assert_allclose(
        ours.inverse_transform(ours.transform(X)), exact.inverse_transform(exact.transform(X)), atol=1e-8
    )


def test_small_eigenvalues_of_float32_rows_keep_their_digits():
    X = (0.01 * rows()).astype(np.float32)
    model = KernelPCA(RandomMaclaurin(Polynomial(3), 20, random_state=0), 12).fit(X)
    Z = model.feature_map_.transform(X).astype(np.float64)
    expected = np.linalg.svd(Z - Z.mean(axis=0), compute_uv=False)[:12] ** 2
    assert expected[-1] < 1e-6 * expected[0]  # beyond what products in float32 hold
    np.testing.assert_allclose(model.eigenvalues_, expected, rtol=1e-4)


# ---- the same in memory, out of core and on Dask ---------------------------------------------------------------------


def test_memory_blocks_and_partial_fits_agree():
    X = rows(700)
    w = np.random.default_rng(0).integers(0, 3, 700).astype(float)
    options = dict(fit_inverse_transform=True, whiten=True)
    for weight in (None, w):
        model = fresh(**options).fit(X, sample_weight=weight)
        expected = model.transform(X)
        cuts = list(pairwise([0, 5, 5, 130, 600, 700]))
        blocks = [(X[a:b], None, None if weight is None else weight[a:b]) for a, b in cuts]
        partial = fresh(**options)
        for Xb, _, wb in blocks:
            if len(Xb):
                partial.partial_fit(Xb, sample_weight=wb)
        others = [fresh(**options).fit(blocks), fresh(**options).fit(iter(blocks)), partial]
        others += [fresh(block_size=size, **options).fit(X, sample_weight=weight) for size in (1, 13, 300)]
        others += [fresh(**options).fit(sp.csr_array(X), sample_weight=weight)]
        for other in others:
            np.testing.assert_allclose(other.transform(X), expected, atol=1e-10 * np.abs(expected).max())
            np.testing.assert_allclose(
                other.inverse_transform(expected), model.inverse_transform(expected), rtol=0, atol=1e-10
            )
    for jobs in (1, 2, 5):
        same = fresh(n_jobs=jobs, block_size=50).fit(X).components_
        assert np.array_equal(same, fresh(block_size=50).fit(X).components_)


def test_bare_rows_are_blocks():
    X = rows()
    np.testing.assert_allclose(fresh().fit([X[:100], X[100:]]).transform(X), fresh().fit(X).transform(X), atol=1e-10)


def test_weights_equal_repetition_and_their_scale_does_not_matter():
    X = rows(300)
    counts = np.random.default_rng(0).integers(0, 4, 300)
    weighted = fresh().fit(X, sample_weight=counts)
    repeated = fresh().fit(np.repeat(X, counts, axis=0))
    np.testing.assert_allclose(weighted.transform(X), repeated.transform(X), atol=1e-10)
    np.testing.assert_allclose(weighted.explained_variance_, repeated.explained_variance_, rtol=1e-10)
    scaled = fresh().fit(X, sample_weight=counts / counts.sum())
    np.testing.assert_allclose(scaled.explained_variance_, repeated.explained_variance_, rtol=1e-10)


# ---- signs and equal eigenvalues --------------------------------------------------------------


def test_components_point_to_the_side_of_the_mean():
    model = fresh(10).fit(rows())
    assert (model.components_ @ model.mean_ > 0).all()


def test_equal_eigenvalues_have_a_basis_that_depends_on_their_space_alone():
    rng = np.random.default_rng(0)
    V = np.linalg.qr(rng.normal(size=(7, 7)))[0]
    values, mean = np.array([3.0, 2.0, 2.0, 2.0, 1.0, 0.5, 0.5]), rng.normal(size=7)
    turned = V.copy()
    turned[:, 1:4] = V[:, 1:4] @ np.linalg.qr(rng.normal(size=(3, 3)))[0]
    turned[:, 5:] = V[:, 5:] @ np.array([[0.6, -0.8], [0.8, 0.6]])
    turned[:, 0] *= -1
    one, other = (canonical(values, vectors, mean, 1e-12) for vectors in (V, turned))
    np.testing.assert_allclose(one, other, atol=1e-12)
    np.testing.assert_allclose(one.T @ one, np.eye(7), atol=1e-12)
    np.testing.assert_allclose(one[:, 1:4] @ one[:, 1:4].T, V[:, 1:4] @ V[:, 1:4].T, atol=1e-12)
    assert np.abs(V[:, 1:4] - turned[:, 1:4]).max() > 0.1  # the two bases were not the same
    # At right angles with the mean, the first of the largest entries decides.
    np.testing.assert_array_equal(
        canonical(np.array([1.0]), np.array([[-0.6], [0.8]]), np.zeros(2), 0)[:, 0], [-0.6, 0.8]
    )
    np.testing.assert_array_equal(
        canonical(np.array([1.0]), np.array([[-0.8], [0.6]]), np.zeros(2), 0)[:, 0], [0.8, -0.6]
    )


def test_basis_of_unit_vectors_are_these():
    np.testing.assert_array_equal(np.abs(basis_of(np.eye(4)[:, [2, 0]])), np.eye(4)[:, [0, 2]])


def test_symmetric_rows_agree_on_every_engine():
    # A square and its turns by 90 degrees: pairs of equal eigenvalues.
    quarter = rows(50, 2)
    X = np.concatenate([quarter, quarter @ [[0, 1], [-1, 0]], -quarter, quarter @ [[0, -1], [1, 0]]])
    feature_map = RandomMaclaurin(Polynomial(3), 10, random_state=0)
    model = KernelPCA(feature_map, 6).fit(X)
    values = model.eigenvalues_
    assert (np.abs(np.diff(values)) < 1e-9 * values[0]).any()
    for size in (7, 60):
        other = KernelPCA(feature_map, 6, block_size=size).fit(X).transform(X)
        np.testing.assert_allclose(other, model.transform(X), atol=1e-7)


# ---- shapes, names and bad input --------------------------------------------------------------


def test_no_number_of_components_keeps_those_that_rows_have():
    X = rows(10)
    model = KernelPCA(RandomFourier(Gaussian(1.0), 40, random_state=0)).fit(X)
    assert model.transform(X).shape == (10, 9)  # ten rows about their mean
    np.testing.assert_allclose(model.explained_variance_ratio_.sum(), 1.0)
    more = fresh(12, whiten=True).fit(X)
    assert np.array_equal(more.eigenvalues_[9:], np.zeros(3))
    assert np.array_equal(more.transform(X)[:, 9:], np.zeros((10, 3)))


def test_constant_rows_have_no_variance_and_no_score():
    model = fresh(2, whiten=True, fit_inverse_transform=True).fit(np.ones((20, 3)))
    assert np.array_equal(model.transform(rows(5)), np.zeros((5, 2)))
    np.testing.assert_allclose(model.inverse_transform(np.ones((5, 2))), 1.0)
    assert np.array_equal(model.explained_variance_ratio_, np.zeros(2))


def test_names_tables_and_float32():
    X = pd.DataFrame(rows(), columns=["a", "b", "c"])
    model = fresh(2).set_output(transform="pandas").fit(X)
    assert list(model.transform(X).columns) == ["kernelpca0", "kernelpca1"] == list(model.get_feature_names_out())
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    X32 = rows().astype(np.float32)
    single = fresh(2, fit_inverse_transform=True).fit(X32)
    assert single.transform(X32).dtype == np.float32
    assert single.inverse_transform(single.transform(X32)).dtype == np.float32
    np.testing.assert_allclose(single.transform(X32), fresh(2).fit_transform(rows()), atol=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 0}, r"n_components must be None or an integer >= 1, got 0"),
        (
            {"n_components": 41},
            r"n_components must be None or an integer from 1 to 40, .* got 41. For more components use a wider map",
        ),
        ({"n_components": 2.0}, r"got 2.0"),
        ({"alpha": -1}, r"alpha must be a finite number >= 0, got -1"),
    ],
    ids=str,
)
def test_bad_parameters_have_clear_errors(options, message):
    model = fresh().set_params(**options)
    with pytest.raises(ParameterError, match=message):
        model.fit(rows())
    assert not hasattr(model, "statistic_")


def test_bad_rows_and_scores_have_clear_errors():
    X = rows()
    with pytest.raises(NotFittedError):
        fresh().transform(X)
    model = fresh().fit(X)
    with pytest.raises(DataError, match="fit_inverse_transform=True"):
        model.inverse_transform(model.transform(X))
    back = fresh(fit_inverse_transform=True).fit(X)
    with pytest.raises(DataError, match="KernelPCA: inverse_transform needs 4 columns, got 3"):
        back.inverse_transform(X)
    before = model.transform(X)
    with pytest.raises(ValueError, match="contains NaN"):
        model.partial_fit(X * np.nan)
    with pytest.raises(ValueError, match="contains NaN"):
        model.fit(X * np.nan)
    assert np.array_equal(model.transform(X), before)


def test_clones_are_not_fitted():
    assert not hasattr(clone(fresh().fit(rows())), "components_")
