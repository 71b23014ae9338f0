"""The nearest rows of queries as a statistic: the same for every division into blocks, with copies merged."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from mercer.statistics import NearestRows, row_hashes
from mercer.statistics.nearest import MOST_COPIES


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    X = np.concatenate([X, X[:60], X[:20]])  # copies with other targets
    y = rng.normal(size=(280, 2))
    weight = rng.integers(0, 3, 280).astype(float)
    return X, y, weight, rng.normal(size=(11, 3))


def nearest(data, index, count=5, **more):
    X, y, weight, queries = data
    return NearestRows.of(X[index], X[index], y[index], weight[index], index, queries, count, **more)


def test_the_sum_has_the_nearest_distinct_rows_and_the_moments_of_their_copies(data):
    X, y, weight, queries = data
    order = np.random.default_rng(1).permutation(280)
    total = nearest(data, order[:90]) + nearest(data, order[90:100]) + nearest(data, order[100:])
    used = np.flatnonzero(weight > 0)
    distinct = np.unique(X[used], axis=0)
    apart = cdist(queries, distinct)
    expected = np.argsort(apart, axis=1)[:, :5]
    np.testing.assert_array_equal(total.X[total.index], distinct[expected])
    np.testing.assert_allclose(total.distances, np.take_along_axis(apart, expected, axis=1), rtol=1e-12)
    assert len(total) == len(np.unique(expected))
    assert total.seen == len(used)
    for i, hashed in enumerate(total.hash):
        copies = used[row_hashes(X[used]) == hashed]
        assert total.weight[i] == weight[copies].sum()
        mean = np.average(y[copies], axis=0, weights=weight[copies])
        np.testing.assert_allclose(total.targets[i], mean, rtol=1e-12)
        np.testing.assert_allclose(total.scatter[i], weight[copies] @ np.square(y[copies] - mean), atol=1e-12)
        np.testing.assert_allclose(np.sort(total.copy_targets[total.copy_row == i], axis=0), np.sort(y[copies], axis=0))


def test_every_order_of_the_parts_gives_the_same_sum(data):
    one, two, three = (nearest(data, part) for part in np.split(np.arange(280), [70, 200]))
    expected = one + (two + three)
    for other in ((one + two) + three, three + (two + one), pickle.loads(pickle.dumps(two + one)) + three):
        np.testing.assert_array_equal(other.hash, expected.hash)
        np.testing.assert_array_equal(other.index, expected.index)
        np.testing.assert_array_equal(other.copy_key, expected.copy_key)
        for name in ("distances", "weight", "targets", "scatter"):
            np.testing.assert_allclose(getattr(other, name), getattr(expected, name), rtol=1e-12, atol=1e-12)


def test_fewer_rows_than_neighbors_and_parts_without_rows(data):
    weight = data[2]
    few = np.flatnonzero(weight > 0)[:3]
    nothing = nearest(data, np.flatnonzero(weight == 0)[:4])
    assert (len(nothing), nothing.seen) == (0, 0)
    for total in (nearest(data, few), nearest(data, few) + nothing, nothing + nearest(data, few)):
        assert (total.index[:, 3:] == -1).all()
        assert np.isinf(total.distances[:, 3:]).all()
        assert (total.index[:, :3] >= 0).all()
        assert len(total) == total.seen == 3


def test_a_query_that_is_a_row_finds_itself_first_among_rows_of_one_point():
    X = np.arange(24.0).reshape(12, 2)
    points, own = np.zeros((12, 1)), row_hashes(X)
    parts = [
        NearestRows.of(X[some], points[some], X[some], None, np.arange(12)[some], points, 2, own=own)
        for some in (slice(0, 5), slice(5, 12))
    ]
    total = parts[0] + parts[1]
    np.testing.assert_array_equal(total.X[total.index[:, 0]], X)
    assert (total.distances[:, 0] == -1).all()
    # The twin: without their hashes, the queries have the first rows of all.
    plain = NearestRows.of(X, points, X, None, np.arange(12), points, 2)
    assert len(plain) == 2


def test_the_copies_of_a_row_are_sampled():
    n = 5 * MOST_COPIES
    y = np.random.default_rng(2).normal(size=(n, 1))
    X = np.ones((n, 1))
    queries, index = np.zeros((1, 1)), np.arange(n)
    total = NearestRows.of(X, X, y, None, index, queries, 1)
    halves = [NearestRows.of(X[i::2], X[i::2], y[i::2], None, index[i::2], queries, 1) for i in range(2)]
    for found in (total, halves[0] + halves[1]):
        assert (len(found), found.weight[0], len(found.copy_row)) == (1, n, MOST_COPIES)
        np.testing.assert_allclose(found.scatter[0, 0], n * y.var(), rtol=1e-12)
    np.testing.assert_array_equal(total.copy_targets, (halves[1] + halves[0]).copy_targets)


def test_sparse_rows_are_found_too():
    X = sp.random_array((50, 30), density=0.2, rng=np.random.default_rng(3), format="csr")
    y = np.arange(50.0)[:, None]
    parts = [NearestRows.of(X[i::2], X[i::2], y[i::2], None, np.arange(50)[i::2], X[:4], 3) for i in range(2)]
    total = parts[0] + parts[1]
    expected = np.argsort(cdist(X[:4].toarray(), X.toarray()), axis=1, kind="stable")[:, :3]
    np.testing.assert_array_equal(total.targets[total.index][..., 0], expected)
