"""Neighbours against all distances; equal rows are found, dense or sparse."""

import importlib.util

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import MissingPackageError
from mercer.maps import neighbors
from mercer.maps.neighbors import distances, distinct_rows, nearest_neighbors, row_keys


@pytest.mark.parametrize("d", [2, 30])
@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_nearest_are_nearest(d, wrap):
    X = np.random.default_rng(0).normal(size=(60, d))
    found, search = nearest_neighbors(wrap(X), 4, search="auto", seed=0)
    gaps = np.linalg.norm(X[:, None] - X[None], axis=2)
    np.fill_diagonal(gaps, np.inf)
    np.testing.assert_array_equal(np.sort(found, axis=1), np.sort(gaps.argsort(axis=1)[:, :4], axis=1))
    assert search == "exact"


def test_distances_of_equal_rows_are_zero():
    X = np.random.default_rng(1).normal(1e6, 1.0, size=(50, 7)).astype(np.float32)
    X[3] = X[40]
    i, j = np.array([3, 0, 5]), np.array([40, 1, 9])
    expected = np.linalg.norm(X[i].astype(float) - X[j].astype(float), axis=1)
    assert distances(X, i, j)[0] == 0
    np.testing.assert_allclose(distances(X, i, j), expected)
    np.testing.assert_allclose(distances(sp.csr_array(X), i, j), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_distinct_rows(dtype, monkeypatch):
    rng = np.random.default_rng(2)
    X = np.round(rng.normal(size=(200, 2)), 0).astype(dtype)
    X[0], X[1] = [0.0, -0.0], [-0.0, 0.0]
    expected = np.sort(np.unique(X + 0.0, axis=0, return_index=True)[1])
    for chunk in (2**22, 8):
        monkeypatch.setattr(neighbors, "CHUNK_ENTRIES", chunk)
        np.testing.assert_array_equal(distinct_rows(X), expected)
        np.testing.assert_array_equal(distinct_rows(sp.csr_array(X)), expected)
        np.testing.assert_array_equal(row_keys(X), row_keys(sp.csr_array(X)))
    assert distinct_rows(rng.normal(size=(200, 2)).astype(dtype)) is None


def test_rows_of_equal_keys_that_differ_are_kept(monkeypatch):
    X = np.arange(12.0).reshape(6, 2)
    X[5] = X[1]
    monkeypatch.setattr(neighbors, "row_keys", lambda X: np.zeros(len(X), dtype=np.uint64))
    kept = distinct_rows(X)
    # Of rows with one key those equal to the first are found; to drop fewer than could be is safe, to drop more is not.
    assert set(range(5)) <= set(kept.tolist())
    X[5] = X[0]
    assert distinct_rows(X).tolist() == [0, 1, 2, 3, 4]


def test_the_approximate_search_says_what_it_needs(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match=r"pynndescent.*mercer\[graph\]"):
        nearest_neighbors(np.zeros((5, 1)), 2, search="approximate", seed=0)


def test_many_rows_are_searched_approximately(monkeypatch):
    pytest.importorskip("pynndescent")
    X = np.random.default_rng(3).normal(size=(600, 5))
    monkeypatch.setattr(neighbors, "MANY_ROWS", 500)
    found, search = nearest_neighbors(X, 6, search="auto", seed=0)
    assert search == "approximate"
    exact, _ = nearest_neighbors(X, 6, search="exact", seed=0)
    assert found.shape == exact.shape
    assert (found != np.arange(600)[:, None]).all()
    shared = np.mean([len(np.intersect1d(a, b)) for a, b in zip(found, exact, strict=True)]) / 6
    assert shared > 0.9  # a random choice would share one in a hundred
    np.testing.assert_array_equal(found, nearest_neighbors(X, 6, search="auto", seed=0)[0])
