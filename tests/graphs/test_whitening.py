"""Deformed features against the dense inverse of I + U, and the error bound of a low rank."""

import numpy as np
import pytest

from mercer import DataError, Gaussian, RandomFourier
from mercer.graphs.whitening import LowRankFeatures, WhitenedFeatures, roughest_directions, whitening_of
from mercer.linalg import triangular

D = 30


def roughness(seed=0):
    A = np.random.default_rng(seed).normal(size=(D, 12)) * np.geomspace(0.01, 10, 12)
    return A @ A.T


def plain(X):
    return RandomFourier(Gaussian(1.5), D, random_state=0).fit(X)


def applied(features, X):
    out = np.empty((len(X), D), X.dtype)
    features.astype(X.dtype)(X, out)
    return out


@pytest.mark.parametrize("panel", [512, 7])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_whitened_features_have_the_kernel_of_the_inverse(panel, dtype, monkeypatch):
    monkeypatch.setattr(triangular, "PANEL", panel)
    U, X = roughness(), np.random.default_rng(1).normal(size=(20, 3)).astype(dtype)
    below = np.where(np.tri(D, k=-1) > 0, 1e9, U)  # the lower triangle is not used
    features = WhitenedFeatures(plain(X).features_, whitening_of(below))
    Z, Phi = applied(features, X), plain(X).transform(X).astype(np.float64)
    expected = Phi @ np.linalg.solve(np.eye(D) + U, Phi.T)
    np.testing.assert_allclose(Z @ Z.T, expected, atol=1e-12 if dtype == np.float64 else 1e-6)
    assert Z.dtype == dtype


@pytest.mark.parametrize("panel", [512, 7])
def test_roughness_is_overwritten_only_if_allowed(panel, monkeypatch):
    monkeypatch.setattr(triangular, "PANEL", panel)
    U = roughness()
    kept = U.copy()
    found = whitening_of(U)
    np.testing.assert_array_equal(U, kept)
    np.testing.assert_array_equal(found, np.triu(found))
    assert whitening_of(U, overwrite=True) is U
    np.testing.assert_array_equal(U, found)
    np.testing.assert_array_equal(whitening_of(np.asfortranarray(kept), overwrite=True), found)


def test_matrix_that_is_not_positive_definite_raises():
    with pytest.raises(DataError, match=r"not positive definite.*smaller strength"):
        whitening_of(-2 * np.eye(3))


@pytest.mark.parametrize("rank", [1, 5, 12, 20])
def test_low_rank_shrinks_the_roughest_directions(rank):
    U, X = roughness(), np.random.default_rng(1).normal(size=(20, 3))
    basis, shrinkage, error = roughest_directions(np.triu(U), rank)
    Z, Phi = applied(LowRankFeatures(plain(X).features_, basis, shrinkage), X), plain(X).transform(X)
    values, vectors = np.linalg.eigh(U)
    kept = np.where(np.arange(D) >= D - rank, np.maximum(values, 0), 0)
    np.testing.assert_allclose(Z @ Z.T, Phi @ (vectors / (1 + kept)) @ vectors.T @ Phi.T, atol=1e-10)
    following = max(values[D - rank - 1], 0)
    assert error == pytest.approx(following / (1 + following), abs=1e-12)
