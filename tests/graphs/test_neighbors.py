"""Nearest neighbors against all distances, and detection of equal rows."""

import importlib.util
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import DataError, Deformed, MercerWarning, MissingPackageError, NeighborGraph, RandomFourier
from mercer.graphs import neighbors
from mercer.graphs.neighbors import distances, distinct_rows, nearest_neighbors, search_cost
from mercer.neighbors import dense


@pytest.mark.parametrize("d", [2, 30])
@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_exact_neighbors(d, wrap):
    X = np.random.default_rng(0).normal(size=(60, d))
    found, search = nearest_neighbors(wrap(X), 4, search="auto", seed=0)
    gaps = np.linalg.norm(X[:, None] - X[None], axis=2)
    np.fill_diagonal(gaps, np.inf)
    np.testing.assert_array_equal(np.sort(found, axis=1), np.sort(gaps.argsort(axis=1)[:, :4], axis=1))
    assert search == "exact"


@pytest.mark.parametrize("d", [3, 40])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_exact_neighbors_of_rows_far_from_zero(d, dtype):
    X = (np.random.default_rng(0).normal(size=(80, d)) + (1e8 if dtype == np.float64 else 1e5)).astype(dtype)
    found, _ = nearest_neighbors(X, 4, search="exact", seed=0)
    gaps = np.linalg.norm(X[:, None].astype(float) - X[None].astype(float), axis=2)
    np.fill_diagonal(gaps, np.inf)
    # Distances of float32 rows may tie, and then any of the tied rows is correct.
    lengths = np.sort(np.take_along_axis(gaps, found, axis=1), axis=1)
    np.testing.assert_allclose(lengths, np.sort(gaps, axis=1)[:, :4], rtol=1e-6)


def two_groups(d, gap, n=60):
    """Return rows of two groups far apart, with small entries within each, and the nearest of each from differences."""
    X = np.random.default_rng(0).normal(size=(2 * n, d))
    X[n:] += gap
    gaps = np.square(X[:, None] - X[None]).sum(axis=2)
    np.fill_diagonal(gaps, np.inf)
    return X, np.sort(gaps.argsort(axis=1)[:, :5], axis=1)


@pytest.mark.parametrize("d", [3, 16, 40])
@pytest.mark.parametrize("gap", [1e6, 1e8, 1e10])
@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_exact_neighbors_within_groups_far_apart(d, gap, wrap, monkeypatch):
    monkeypatch.setattr(neighbors, "CHUNK_ENTRIES", 1000)
    X, expected = two_groups(d, gap)
    found, _ = nearest_neighbors(wrap(X), 5, search="exact", seed=0)
    np.testing.assert_array_equal(np.sort(found, axis=1), expected)
    graph = NeighborGraph(5).laplacian(wrap(X))
    near = NeighborGraph(5).laplacian(two_groups(d, 1e4)[0])
    assert graph.n_connected_components == near.n_connected_components
    assert graph.bandwidth == pytest.approx(near.bandwidth, rel=1e-4)


@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_lengths_over_distances(wrap):
    X = np.array([[3.0, 4.0], [3.0, 4.5], [3.0, 4.0], [0.0, 0.0]])
    found = np.array([[1, -1], [0, 3], [0, -1], [-1, -1]])
    ratio = neighbors.lengths_over_distances(wrap(X), found)
    np.testing.assert_allclose(ratio, [5 / 0.5, 1.0, 0.0, 0.0])


@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_overflowing_distances_raise(wrap):
    X = np.random.default_rng(0).normal(size=(20, 3))
    X[3, 1] = -1e160
    with pytest.raises(DataError, match=r"entries up to 1e\+160 overflow. Scale"):
        nearest_neighbors(wrap(X), 4, search="exact", seed=0)


@pytest.mark.parametrize("threads", [1, 2])
def test_search_uses_the_requested_threads(threads, monkeypatch):
    seen, original = [], dense.workers

    def spy(n_jobs):
        seen.append(n_jobs)
        return original(n_jobs)

    monkeypatch.setattr(dense, "workers", spy)
    # Few queries are not divided among threads.
    X = np.random.default_rng(0).normal(size=(2000, 3))
    Deformed(RandomFourier(n_components=4), NeighborGraph(3), n_jobs=threads).fit(X)
    assert seen == [threads, threads]  # to build the index and to search


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
    assert distinct_rows(rng.normal(size=(200, 2)).astype(dtype)) is None


def test_different_rows_with_equal_hashes_are_distinct(monkeypatch):
    X = np.arange(12.0).reshape(6, 2)
    X[5] = X[1]
    monkeypatch.setattr(neighbors, "row_hashes", lambda X: np.zeros(len(X), dtype=np.uint64))
    kept = distinct_rows(X)
    # Among rows with the same hash only copies of the first are found, which is safe: different rows are never merged.
    assert set(range(5)) <= set(kept.tolist())
    X[5] = X[0]
    assert distinct_rows(X).tolist() == [0, 1, 2, 3, 4]


def test_approximate_search_without_pynndescent_raises(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match=r"pynndescent.*mercer\[graph\]"):
        nearest_neighbors(np.zeros((5, 1)), 2, search="approximate", seed=0)


@pytest.mark.slow
def test_auto_search_of_many_comparisons_is_approximate(monkeypatch):
    pytest.importorskip("pynndescent")
    X = np.random.default_rng(3).normal(size=(600, 5))
    monkeypatch.setattr(neighbors, "MANY_ROWS", 500)
    assert nearest_neighbors(X, 6, search="auto", seed=0)[1] == "exact"
    monkeypatch.setattr(neighbors, "MOST_COMPARED", 500)  # so few rows are in one cell
    found, search = nearest_neighbors(X, 6, search="auto", seed=0)
    assert search == "approximate"
    exact, _ = nearest_neighbors(X, 6, search="exact", seed=0)
    assert found.shape == exact.shape
    assert (found != np.arange(600)[:, None]).all()
    shared = np.mean([len(np.intersect1d(a, b)) for a, b in zip(found, exact, strict=True)]) / 6
    assert shared > 0.9  # a random choice would share one in a hundred
    np.testing.assert_array_equal(found, nearest_neighbors(X, 6, search="auto", seed=0)[0])


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1.0, 1e25, 1e-25])
@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_approximate_search_is_invariant_to_scale(scale, wrap):
    pytest.importorskip("pynndescent")
    X = np.random.default_rng(3).normal(size=(300, 5))
    if wrap is np.asarray:
        X += 1e6
    found, _ = nearest_neighbors(wrap(scale * X), 6, search="approximate", seed=0, n_jobs=99)
    exact, _ = nearest_neighbors(wrap(X), 6, search="exact", seed=0)
    assert np.mean([len(np.intersect1d(a, b)) for a, b in zip(found, exact, strict=True)]) / 6 > 0.9


@pytest.mark.slow
def test_approximate_search_finds_most_neighbors_of_rows_with_20_features():
    pytest.importorskip("pynndescent")
    X = np.random.default_rng(3).normal(size=(3000, 20))
    found, _ = nearest_neighbors(X, 6, search="approximate", seed=0)
    exact, _ = nearest_neighbors(X, 6, search="exact", seed=0)
    assert found.shape == exact.shape
    assert np.mean([len(np.intersect1d(a, b)) for a, b in zip(found, exact, strict=True)]) / 6 > 0.95


def test_missed_neighbors_are_not_edges(monkeypatch):
    X = np.arange(6.0)[:, None]
    found = np.array([[1, -1], [0, 2], [1, 3], [2, -1], [5, -1], [4, -1]])
    monkeypatch.setattr(
        "mercer.graphs.neighbor_graph.nearest_neighbors", lambda *args, **options: (found, "approximate")
    )
    graph = NeighborGraph(2, "binary").laplacian(X)
    assert (graph.n_edges, graph.n_connected_components, graph.n_isolated) == (4, 2, 0)


@pytest.mark.parametrize("n", [2, 3, 5, 6, 30])
def test_few_rows_are_searched_exactly_without_a_warning(n):
    pytest.importorskip("pynndescent")
    X = np.random.default_rng(0).normal(size=(n, 3))
    count = min(4, n - 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found, search = nearest_neighbors(X, count, search="approximate", seed=0)
        assert NeighborGraph(4, search="approximate").laplacian(X).n_nodes == n
    assert search == "exact"
    np.testing.assert_array_equal(found, nearest_neighbors(X, count, search="exact", seed=0)[0])


@pytest.mark.slow  # half a minute, in which functions are compiled
def test_warnings_of_pynndescent_about_missed_neighbors_are_suppressed():
    pytest.importorskip("pynndescent")
    X = np.repeat(
        np.random.default_rng(0).normal(size=(5, 3)), 20, axis=0
    )  # equal rows, of which the descent misses many
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, search = nearest_neighbors(X, 4, search="approximate", seed=0)
    assert search == "approximate"


@pytest.mark.slow
@pytest.mark.parametrize(("gap", "warned"), [(1e3, False), (1e8, True)])
def test_rows_that_float32_cannot_distinguish_warn(gap, warned):
    pytest.importorskip("pynndescent")
    X, expected = two_groups(3, gap)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found, _ = nearest_neighbors(X, 5, search="approximate", seed=0)
    right = np.mean([len(set(a) & set(b)) / 5 for a, b in zip(found, expected, strict=True)])
    assert (right < 0.9) == warned
    texts = [str(w.message) for w in caught if issubclass(w.category, MercerWarning)]
    assert len(texts) == warned
    assert all("60 of 120 rows are so close" in text and "search='exact'" in text for text in texts)


def test_the_cost_of_a_search_is_finite_for_very_wide_rows():
    """The power of the number of columns overflows from some 3900 columns on."""
    assert search_cost(1000, 100_000, search="exact") == 1000.0 * 100_020 * 1000
