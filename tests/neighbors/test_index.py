"""Exact neighbors against distances of all pairs, computed by differences in float64."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import DataError, ParameterError
from mercer.neighbors import neighbor_index


def expected(rows, X, count, own=None, before=None):
    """Return the nearest rows by sorting all distances."""
    rows, X = (A.toarray() if sp.issparse(A) else A for A in (rows, X))
    n = len(rows)
    squares = np.empty((len(X), n))
    for q, x in enumerate(X):
        squares[q] = np.square(x.astype(np.float64) - rows.astype(np.float64)).sum(axis=1)
        if own is not None and own[q] >= 0:
            squares[q, own[q]] = np.inf
        if before is not None:
            squares[q, before[q] :] = np.inf
    distances = np.full((len(X), count), np.inf)
    order = np.argsort(squares, axis=1, kind="stable")[:, :count]
    distances[:, : order.shape[1]] = np.sqrt(np.take_along_axis(squares, order, axis=1))
    return distances


def check(rows, X, count, own=None, before=None, **options):
    """Compare distances with those of all pairs, and the indices with the distances."""
    index = neighbor_index(rows, search="exact")
    indices, distances = index.query(X, count, own=own, before=before, **options)
    assert indices.shape == distances.shape == (X.shape[0], count)
    assert (indices.dtype, distances.dtype) == (np.intp, np.float64)
    np.testing.assert_allclose(distances, expected(rows, X, count, own, before), rtol=1e-12)
    dense, queries = (A.toarray() if sp.issparse(A) else A for A in (rows, X))
    found = indices >= 0
    np.testing.assert_array_equal(found, np.isfinite(distances))
    q, position = np.nonzero(found)
    gaps = queries[q].astype(float) - dense[indices[q, position]].astype(float)
    np.testing.assert_allclose(distances[q, position], np.sqrt(np.square(gaps).sum(axis=1)), rtol=1e-12)
    for row in indices:
        some = row[row >= 0]
        assert len(np.unique(some)) == len(some)
    ties = (distances[:, 1:] == distances[:, :-1]) & found[:, 1:]
    assert (np.diff(indices, axis=1)[ties] > 0).all()
    if own is not None:
        assert not ((indices == own[:, None]) & found).any()
    if before is not None:
        assert (indices < before[:, None]).all()
    return indices, distances


@pytest.mark.parametrize("kind", ["float64", "float32", "fortran", "csr"])
@pytest.mark.parametrize(("n", "d", "count"), [(1, 1, 1), (1, 3, 4), (7, 2, 12), (200, 5, 9), (150, 60, 40)])
def test_neighbors_are_the_nearest_rows(n, d, count, kind):
    rng = np.random.default_rng(n + d)
    wrap = {
        "float64": np.asarray,
        "float32": lambda A: A.astype(np.float32),
        "fortran": np.asfortranarray,
        "csr": sp.csr_array,
    }[kind]
    rows, X = rng.normal(size=(n, d)), rng.normal(size=(31, d))
    X[::5] = rows[rng.integers(n, size=len(X[::5]))]
    own, before = rng.integers(-1, n, size=31), rng.integers(0, n + 1, size=31)
    check(wrap(rows), wrap(X), count)
    check(wrap(rows), wrap(X), count, own=own)
    check(wrap(rows), wrap(X), count, own=own, before=before)


def test_index_can_be_pickled():
    rows = np.random.default_rng(0).normal(size=(300, 4))
    index = neighbor_index(rows)
    same = pickle.loads(pickle.dumps(index))
    for a, b in zip(index.query(rows, 5), same.query(rows, 5), strict=True):
        np.testing.assert_array_equal(a, b)


def test_overflowing_distances_raise():
    rows = np.ones((5, 3))
    rows[1, 1] = -1e160
    with pytest.raises(DataError, match=r"neighbor_index: .* entries up to 1e\+160 overflow. Scale"):
        neighbor_index(rows)
    with pytest.raises(ParameterError, match="count must be an integer >= 1, got 0"):
        neighbor_index(rows[:1]).query(rows[:1], 0)
