"""Rules that select landmarks, against scikit-learn's k-means and the exact leverage scores."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans

from mercer import Gaussian
from mercer.maps.landmarks import selection
from mercer.maps.landmarks.selection import k_means_centers, leverage_scores, uniform_rows

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 4))
WEIGHT = rng.uniform(0.5, 3.0, size=300)


def inertia(centers, weight):
    return weight @ np.square(X[:, None] - centers).sum(axis=2).min(axis=1)


@pytest.mark.parametrize("weight", [np.ones(300), WEIGHT])
def test_centers_are_near_those_of_scikit_learn(weight):
    # Both are local minima; over starts, those of scikit-learn vary by 2 %.
    found = np.mean([inertia(k_means_centers(X, weight, 20, np.random.default_rng(s)), weight) for s in range(5)])
    other = KMeans(20, n_init=5, random_state=0).fit(X, sample_weight=weight).inertia_
    assert found < 1.08 * other
    start = np.mean([inertia(X[rng.choice(300, 20)], weight) for _ in range(5)])
    assert start > 1.2 * other


def test_each_center_is_the_mean_of_its_rows(monkeypatch):
    monkeypatch.setattr(selection, "LLOYD_STEPS", 200)
    centers = k_means_centers(X, WEIGHT, 15, np.random.default_rng(0))
    labels = np.square(X[:, None] - centers).sum(axis=2).argmin(axis=1)
    for j in range(15):
        mine = labels == j
        np.testing.assert_allclose(centers[j], WEIGHT[mine] @ X[mine] / WEIGHT[mine].sum(), atol=1e-9)


def test_centers_of_sparse_rows_are_those_of_dense_rows():
    some = np.where(rng.random((80, 4)) < 0.5, X[:80], 0.0)
    dense = k_means_centers(some, WEIGHT[:80], 7, np.random.default_rng(1))
    np.testing.assert_allclose(k_means_centers(sp.csr_array(some), WEIGHT[:80], 7, np.random.default_rng(1)), dense)


def test_as_many_centers_as_rows_are_the_rows():
    found = k_means_centers(X[:9], WEIGHT[:9], 9, np.random.default_rng(0))
    np.testing.assert_allclose(np.sort(found, axis=0), np.sort(X[:9], axis=0))
    near = 1.0 + 1e-300 * np.arange(5.0)[:, None]  # distinct only up to rounding
    assert k_means_centers(near, np.ones(5), 5, np.random.default_rng(0)).shape == (5, 1)


@pytest.mark.parametrize("count", [30, 150])
def test_scores_are_near_the_exact_ones(count):
    kernel = Gaussian(1.5)
    scores = leverage_scores(kernel, X, WEIGHT, count, np.random.default_rng(0))
    assert scores.sum() == pytest.approx(count / 2, rel=1e-6)
    assert scores.min() > 0
    assert scores.max() <= 1
    A = np.sqrt(WEIGHT)[:, None] * kernel(X) * np.sqrt(WEIGHT)
    values, vectors = np.linalg.eigh(A)
    penalties = np.geomspace(1e-9, 1e3, 400) * values[-1]
    sums = [np.sum(values / (values + penalty)) for penalty in penalties]
    penalty = penalties[np.abs(np.array(sums) - count / 2).argmin()]
    exact = np.square(vectors) @ (values / (values + penalty))
    assert np.corrcoef(scores, exact)[0, 1] > 0.9
    assert np.abs(scores - exact).mean() < 0.25 * exact.mean()


def test_exact_scores_if_every_row_is_a_pilot():
    kernel = Gaussian(1.0)
    scores = leverage_scores(kernel, X[:40], np.ones(40), 40, np.random.default_rng(0))
    K = kernel(X[:40])
    low, high = 1e-9, 1e3  # the penalty with scores that sum to 20, by bisection
    for _ in range(200):
        middle = np.sqrt(low * high)
        exact = np.diagonal(np.linalg.solve(K + middle * np.eye(40), K))
        low, high = (middle, high) if exact.sum() > 20 else (low, middle)
    np.testing.assert_allclose(scores, exact, rtol=1e-6)


def test_rows_of_weight_zero_are_chosen_last():
    weight = np.array([0.0, 1.0, 0.0, 2.0, 1.0])
    for seed in range(20):
        assert uniform_rows(weight, 3, np.random.default_rng(seed)).tolist() == [1, 3, 4]


def test_centers_of_rows_far_from_zero_are_moved_by_the_same_vector():
    # At 1e8, rows are rounded to 1e-8; distances from inner products of such rows would have errors above one.
    near, far = (k_means_centers(X + offset, WEIGHT, 20, np.random.default_rng(0)) for offset in (0.0, 1e8))
    np.testing.assert_allclose(far - 1e8, near, atol=1e-6)
