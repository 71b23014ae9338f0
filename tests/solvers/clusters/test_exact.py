"""Exact kernel k-means: its distances by explicit features, Lloyd on features as its twin, lost clusters."""

import numpy as np
import pytest
from sklearn.cluster import KMeans

from mercer import Gaussian, KernelKMeans, Laplacian, Polynomial, RandomFourier
from mercer.engines import MemoryEngine
from mercer.solvers.clusters.exact import ExactClusters, exact_lloyd, farthest
from mercer.solvers.clusters.lloyd import FeatureClusters, RowFeatures, lloyd
from mercer.solvers.clusters.starts import kernel_distances

pytestmark = pytest.mark.covering(1)


def problem(n=300, d=3, seed=0, *, unit_norm=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 2 * rng.integers(0, 2, size=(n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True) if unit_norm else X


def cubes(X):
    """Explicit features of (x'y + 1)^2, in d dimensions, by hand."""
    d = X.shape[1]
    pairs = [X[:, i] * X[:, j] * (1 if i == j else np.sqrt(2)) for i in range(d) for j in range(i, d)]
    return np.column_stack([np.ones(len(X)), np.sqrt(2) * X, *pairs])


@pytest.mark.parametrize("unit_norm", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_distances_are_those_to_the_means_of_explicit_features(unit_norm, weighted):
    X, new = problem(80, unit_norm=unit_norm), problem(15, seed=1, unit_norm=unit_norm)
    kernel, rng = Polynomial(2), np.random.default_rng(2)
    weight = rng.uniform(0.1, 3, 80) if weighted else None
    w = np.ones(80) if weight is None else weight
    found = exact_lloyd(kernel(X), kernel_distances(kernel(X))(np.arange(4)).T, weight, max_iter=50, tol=0.0)
    Z = cubes(X)
    means = np.array([w[found.labels == r] @ Z[found.labels == r] / w[found.labels == r].sum() for r in range(4)])
    clusters = ExactClusters(kernel, X, found.coefficients, found.norms)
    for rows in (X, new):
        expected = np.square(cubes(rows)[:, None] - means).sum(axis=2)
        np.testing.assert_allclose(clusters.distances(rows), expected, rtol=1e-8, atol=1e-8)
        assert np.array_equal(clusters.labels(rows), expected.argmin(axis=1))
    np.testing.assert_allclose(found.inertia, w @ np.square(Z - means[found.labels]).sum(axis=1), rtol=1e-10)


def test_inertia_is_the_trace_less_the_means_within_clusters():
    X = problem()
    K = Laplacian(2.0)(X)
    found = exact_lloyd(K, kernel_distances(K)(np.arange(5)).T, max_iter=300, tol=0.0)
    within = [
        K[np.ix_(rows, rows)].sum() / len(rows) for r in range(5) if len(rows := np.flatnonzero(found.labels == r))
    ]
    np.testing.assert_allclose(found.inertia, np.trace(K) - sum(within), rtol=1e-10)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("tol", [0.0, 1e-3])
def test_lloyd_on_features_is_kernel_k_means_on_their_gram_matrix(seed, weighted, tol):
    X = problem(seed=seed)
    rng = np.random.default_rng(seed)
    weight = rng.uniform(0.1, 2, len(X)) if weighted else None
    draw = RowFeatures(RandomFourier(Gaussian(1.2), 40, random_state=seed).fit(X).features_)
    Z = draw.of(X)
    chosen = rng.choice(len(X), 6, replace=False)
    options = dict(max_iter=300, tol=tol)
    exact = exact_lloyd(Z @ Z.T, kernel_distances(Z @ Z.T)(chosen).T, weight, **options)
    ours = lloyd(MemoryEngine(X, None, weight, block_rows=70), draw, Z[chosen][None], **options)
    assert np.array_equal(FeatureClusters(draw, ours.centers).labels(X), exact.labels)
    np.testing.assert_allclose(ours.inertia, exact.inertia, rtol=1e-10)
    np.testing.assert_allclose(ours.path, exact.path, rtol=1e-10)
    assert (ours.n_iter, ours.converged) == (exact.n_iter, exact.converged)


def test_the_two_agree_where_clusters_are_lost():
    X = problem(200)
    draw = RowFeatures(RandomFourier(Gaussian(1.2), 40, random_state=0).fit(X).features_)
    Z = draw.of(X)
    K = Z @ Z.T
    chosen = np.array([0, 0, 0, 1, 1, 2])  # copies get nothing
    exact = exact_lloyd(K, kernel_distances(K)(chosen).T, max_iter=300, tol=0.0)
    ours = lloyd(MemoryEngine(X, block_rows=70), draw, Z[chosen][None], max_iter=300, tol=0.0)
    assert np.array_equal(FeatureClusters(draw, ours.centers).labels(X), exact.labels)
    np.testing.assert_allclose(ours.path, exact.path, rtol=1e-10)
    assert len(np.unique(exact.labels)) == 6


@pytest.mark.parametrize("seed", range(6))
def test_inertia_never_increases(seed):
    X = problem(150, seed=seed)
    K = Gaussian(0.7)(X)
    rng = np.random.default_rng(seed)
    start = kernel_distances(K)(rng.choice(150, 12)).T  # some of them alike
    path = exact_lloyd(K, start, max_iter=300, tol=0.0).path
    assert len(path) > 3
    assert (np.diff(path) <= 1e-12 * path[0]).all()


def test_the_most_passes_and_the_tolerance_end_it():
    X = problem()
    K = Gaussian(1.2)(X)
    start = kernel_distances(K)(np.arange(7)).T
    strict = exact_lloyd(K, start, max_iter=300, tol=0.0)
    once = exact_lloyd(K, start, max_iter=1, tol=0.0)
    loose = exact_lloyd(K, start, max_iter=300, tol=1e-2)
    assert strict.converged
    assert loose.converged
    assert not once.converged
    assert (once.n_iter, len(once.path)) == (1, 2)
    assert loose.n_iter < strict.n_iter
    told = []
    exact_lloyd(K, start, max_iter=300, tol=0.0, report=lambda *p: told.append(p))
    assert told == [(300, i + 1) for i in range(strict.n_iter)]


def test_weights_are_repetitions():
    X = problem(60)
    repeats = np.random.default_rng(0).integers(0, 4, 60)
    repeats[:3] = 1
    kernel = Gaussian(1.2)
    twice = np.repeat(X, repeats, axis=0)
    weighted = exact_lloyd(kernel(X), kernel_distances(kernel(X))(np.arange(3)).T, repeats * 1.0, max_iter=99, tol=0.0)
    start = kernel_distances(kernel(np.concatenate([X[:3], twice])))(np.arange(3)).T[3:]
    repeated = exact_lloyd(kernel(twice), start, max_iter=99, tol=0.0)
    assert np.array_equal(np.repeat(weighted.labels, repeats), repeated.labels)
    np.testing.assert_allclose(weighted.path, repeated.path, rtol=1e-12)


def test_the_farthest_rows_are_no_copies_and_have_weight():
    Z = np.array([[0.0], [9.0], [9.0], [8.0], [7.0], [0.0]])
    K = Z @ Z.T + 1
    weight = np.array([1.0, 1, 1, 0, 1, 1])
    diagonal = np.diagonal(K).copy()
    least = np.square(Z[:, 0]) - diagonal  # distances from the first row
    assert farthest(K, diagonal, least, weight, 2, 1e-14).tolist() == [1, 4]
    assert farthest(K, diagonal, least, weight, 5, 1e-14).tolist() == [1, 4]
    assert farthest(K, diagonal, least, weight, 0, 1e-14).tolist() == []


def test_float32_is_close():
    X = problem().astype(np.float32)
    K = Gaussian(1.2)(X)
    assert K.dtype == np.float32
    start = kernel_distances(K)(np.arange(5)).T
    single = exact_lloyd(K, start, max_iter=300, tol=1e-4)
    double = exact_lloyd(K.astype(np.float64), start, max_iter=300, tol=1e-4)
    np.testing.assert_allclose(single.inertia, double.inertia, rtol=1e-4)


@pytest.mark.parametrize("init", ["rows", "k-means++"])
def test_rows_of_float32_far_from_zero(init):
    X = (np.random.default_rng(0).normal(size=(300, 3)) * [3, 2, 1] + 1000).astype(np.float32)
    near = X.astype(float) - 1000
    start = X[:4] if init == "rows" else init
    model = KernelKMeans(Polynomial(1), 4, exact=True, init=start, tol=0, random_state=0).fit(X)
    means = np.array([near[model.labels_ == r].mean(axis=0) for r in range(4)])
    peer = KMeans(4, init=near[:4] if init == "rows" else means, n_init=1, tol=0).fit(near)
    assert np.array_equal(model.labels_, peer.labels_)
    np.testing.assert_allclose(model.inertia_, peer.inertia_, rtol=1e-8)
    np.testing.assert_allclose(model.transform(X), peer.transform(near), rtol=1e-4)
    assert np.array_equal(model.predict(X), peer.labels_)
