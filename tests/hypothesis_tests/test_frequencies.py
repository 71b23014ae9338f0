"""Frequencies that several Gaussian kernels share, and the scaling of rows."""

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import Gaussian
from mercer.engines import MemoryEngine
from mercer.hypothesis_tests.frequencies import (
    Collection,
    draw_frequencies,
    gaussian_collection,
    pooled_rows,
    scaled_rows,
    shared_frequencies,
)


def pool_of(X, weight=None, seed=0):
    return pooled_rows(MemoryEngine(X, weight=weight, block_rows=77), seed)


@pytest.mark.parametrize("d", [1, 2, 5, 20])
def test_weighted_cosines_are_the_gaussian_kernels_in_the_mean(d):
    rng = np.random.default_rng(d)
    X = rng.normal(size=(6, d))
    lengthscales = np.array([0.5, 1.0, 3.0]) * np.sqrt(d)
    collection = Collection(lengthscales, np.array([0.1, 0.3, 0.8]))
    total, squares, draws = 0.0, 0.0, 60
    for _ in range(draws):
        w, a = draw_frequencies(collection, d, 200, rng)
        K = np.einsum("kj,jxy->kxy", a, np.cos((X @ w).T[:, :, None] - (X @ w).T[:, None, :]))
        total, squares = total + K, squares + K**2
    mean = total / draws
    error = np.sqrt(np.maximum(squares / draws - mean**2, 0) / draws)
    expected = np.array([Gaussian(h)(X) for h in lengthscales])
    # Points of a shifted sequence are not independent: the deviation over draws is that of independent draws.
    assert (np.abs(mean - expected) <= 5 * error + 1e-3).all()
    assert np.abs(mean - np.array([Gaussian(0.8 * h)(X) for h in lengthscales])).max() > 0.02


def test_everything_is_invariant_to_the_order_of_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3)) * [1, 100, 1e-5]
    pools = [pool_of(X), pool_of(X[rng.permutation(3000)]), pool_of(X[:1000]) + pool_of(X[1000:])]
    drawn = [shared_frequencies(pool, np.random.default_rng(0), n_components=40) for pool in pools]
    for other in drawn[1:]:
        np.testing.assert_array_equal(other.frequencies, drawn[0].frequencies)
        np.testing.assert_array_equal(other.collection.lengthscales, drawn[0].collection.lengthscales)


def test_lengthscales_cover_the_distances():
    X = np.random.default_rng(0).normal(size=(400, 4))
    found = gaussian_collection(X, np.ones(400), 10)
    r = np.sqrt(np.square(X[:, None] - X).sum(axis=2))[np.triu_indices(400, 1)]
    low, high = np.quantile(r, [0.05, 0.95])
    np.testing.assert_allclose(found.lengthscales[[0, -1]], [low / 2, 2 * high], rtol=1e-3)
    expected = np.mean(np.square(Gaussian(found.lengthscales[3])(X)[np.triu_indices(400, 1)]))
    np.testing.assert_allclose(found.mean_squares[3], expected, rtol=1e-6)


def test_units_do_not_matter_and_constant_features_are_dropped():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=500), rng.normal(size=500), np.full(500, 0.1), rng.standard_cauchy(500)])
    plain, scaled = (scaled_rows(pool_of(rows)) for rows in (X, X * [1e-9, 1e9, 7.0, 3.0] + [5, 0, 0, 0]))
    assert plain.columns.tolist() == scaled.columns.tolist() == [0, 1, 3]
    np.testing.assert_allclose(plain(X), scaled(X * [1e-9, 1e9, 7.0, 3.0] + [5, 0, 0, 0]), rtol=1e-4, atol=1e-5)
    # The center of a Cauchy distribution has the scale of that of a normal one, within a factor of three.
    assert 1 < plain.scale[2] < 3


def test_feature_that_is_rare_in_all_rows_is_scaled_by_its_range():
    X = np.zeros((9000, 2))
    X[:, 1] = np.arange(9000)
    X[17, 0] = 1e6
    found = scaled_rows(pool_of(X))
    assert found.columns.tolist() == [0, 1]
    assert found.scale[0] == 1e6


@pytest.mark.parametrize("kind", [np.float32, np.float64, "sparse"])
def test_far_rows_are_finite(kind):
    X = np.random.default_rng(0).normal(size=(50, 2))
    X[0] = 1e30
    X = sp.csr_array(X) if kind == "sparse" else X.astype(kind)
    features = shared_frequencies(pool_of(X), np.random.default_rng(0), n_components=20).astype(X.dtype)
    Z = np.empty((50, 20), X.dtype)
    features(X, Z)
    assert np.abs(Z).max() <= 1 + 1e-6


def test_one_distinct_row_is_no_error():
    features = shared_frequencies(pool_of(np.ones((9, 2))), np.random.default_rng(0), n_components=20)
    assert np.isfinite(features.weights).all()
