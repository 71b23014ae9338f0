"""Lloyd's iteration: against the definition and against scikit-learn, ties, lost clusters, shared passes."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.cluster import KMeans

from mercer import Gaussian, KernelKMeans, Polynomial, RandomFourier, RandomMaclaurin
from mercer.engines import Block, MemoryEngine
from mercer.solvers.clusters.lloyd import (
    Assign,
    Centers,
    Farthest,
    Run,
    best_of,
    first_of_least,
    lloyd,
    nearest,
    rounded,
)
from mercer.statistics.feature_cache import RowFeatures


def problem(n=400, d=3, D=24, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 3 * rng.integers(0, 2, size=(n, d))
    feature_map = RandomFourier(Gaussian(1.5), D, random_state=seed).fit(X)
    return X, RowFeatures(feature_map.features_), feature_map.transform(X)


def engine_of(X, weight=None, block_rows=64, **options):
    return MemoryEngine(X, None, weight, block_rows=block_rows, **options)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_step_adds_what_the_definition_says(weighted):
    X, draw, Z = problem(n=700)  # more than one tile
    rng = np.random.default_rng(1)
    w = rng.uniform(0, 2, len(X)) if weighted else np.ones(len(X))
    centers = Z[rng.choice(len(Z), size=(2, 5))]
    found = Assign(draw, centers)(Block(0, X, None, w if weighted else None))
    for i in range(2):
        distances = np.square(Z[:, None] - centers[i]).sum(axis=2)
        labels = distances.argmin(axis=1)
        for r in range(5):
            np.testing.assert_allclose(found.weight[i, r], w[labels == r].sum(), rtol=1e-12)
            np.testing.assert_allclose(found.sums[i, r], w[labels == r] @ Z[labels == r], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(found.inertia[i], w @ distances.min(axis=1), rtol=1e-10)
    np.testing.assert_allclose(found.squares, w @ np.square(Z).sum(axis=1), rtol=1e-12)
    assert found.rows == len(X)


def test_terms_survive_pickle():
    X, draw, Z = problem()
    term = Assign(draw, Z[None, :3])
    draw.cast(np.dtype(np.float64))  # casts are not pickled
    copy = pickle.loads(pickle.dumps(term))
    assert not copy.features._casts
    block = Block(0, X)
    assert np.array_equal(copy(block).sums, term(block).sums)


def test_distances_of_a_row_to_itself_are_zero():
    _, _, Z = problem()
    Z = 100 * Z
    distances = Centers(Z[:50], Z.dtype).distances(Z[:50])
    assert (np.diagonal(distances) == 0).all()
    assert (distances[~np.eye(50, dtype=bool)] > 0).all()
    np.testing.assert_allclose(distances, np.square(Z[:50, None] - Z[:50]).sum(axis=2), rtol=1e-9, atol=1e-9)


def test_equal_distances_go_to_the_first_center():
    # Rows on the plane between the two centers: products of any rounding must say so.
    rng = np.random.default_rng(0)
    center = rng.normal(size=30)
    Z = rng.normal(size=(500, 30))
    Z -= np.outer(Z @ center, center) / (center @ center)
    both = Centers(np.array([center, -center]), Z.dtype)
    scores = both.scores(Z)
    assert (scores[0] != scores[1]).any()  # rounding does tell them apart
    assert (nearest(scores, both.norms, both.eps)[0] == 0).all()
    swapped = Centers(np.array([-center, center]), Z.dtype)
    assert (nearest(swapped.scores(Z), swapped.norms, swapped.eps)[0] == 0).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_scikit_learns_k_means_on_the_same_features(weighted):
    X, draw, Z = problem(n=600)
    rng = np.random.default_rng(2)
    weight = rng.uniform(0.1, 2, len(X)) if weighted else None
    start = Z[rng.choice(len(Z), 6, replace=False)]
    peer = KMeans(6, init=start, n_init=1, tol=0, max_iter=300, algorithm="lloyd").fit(Z, sample_weight=weight)
    ours = lloyd(engine_of(X, weight), draw, start[None], max_iter=300, tol=0.0)
    np.testing.assert_allclose(ours.inertia, peer.inertia_, rtol=1e-12)
    np.testing.assert_allclose(ours.centers, peer.cluster_centers_, rtol=1e-10, atol=1e-12)
    assert ours.converged


def test_inertia_never_increases_and_ends_where_it_says():
    X, draw, Z = problem(n=900, seed=3)
    found = lloyd(engine_of(X), draw, Z[None, :7], max_iter=300, tol=0.0)
    path = np.array(found.path)
    assert len(path) > 4
    assert (np.diff(path) <= 1e-12 * path[0]).all()
    assert (np.diff(path)[:-1] < 0).all()
    distances = np.square(Z[:, None] - found.centers).sum(axis=2)
    np.testing.assert_allclose(found.inertia, distances.min(axis=1).sum(), rtol=1e-10)
    assert np.array_equal(np.bincount(distances.argmin(axis=1), minlength=7), found.weight)


@pytest.mark.parametrize("max_iter", [1, 2, 3])
def test_the_inertia_is_that_of_the_centers_returned_however_it_ends(max_iter):
    X, draw, Z = problem(n=500)
    found = lloyd(engine_of(X), draw, Z[None, :5], max_iter=max_iter, tol=0.0)
    assert found.n_iter == max_iter
    assert not found.converged
    distances = np.square(Z[:, None] - found.centers).sum(axis=2).min(axis=1)
    np.testing.assert_allclose(found.inertia, distances.sum(), rtol=1e-10)


def test_a_tolerance_ends_it_sooner():
    X, draw, Z = problem(n=900, seed=3)
    strict = lloyd(engine_of(X), draw, Z[None, :7], max_iter=300, tol=0.0)
    loose = lloyd(engine_of(X), draw, Z[None, :7], max_iter=300, tol=1e-2)
    assert loose.converged
    assert loose.n_iter < strict.n_iter
    assert loose.inertia < strict.inertia * 1.1


def test_starts_share_passes_and_do_not_meet():
    X, draw, Z = problem(n=500)
    starts = np.array([Z[:4], Z[100:104], Z[200:204]])
    alone = [lloyd(engine_of(X), draw, start[None], max_iter=300, tol=0.0) for start in starts]
    together = lloyd(engine_of(X), draw, starts, max_iter=300, tol=0.0)
    best = first_of_least(np.array([run.inertia for run in alone]))
    np.testing.assert_allclose(together.inertia, alone[best].inertia, rtol=1e-12)
    np.testing.assert_allclose(together.centers, alone[best].centers, rtol=1e-10, atol=1e-12)
    assert together.n_iter == alone[best].n_iter
    passes = []
    lloyd(engine_of(X), draw, starts, max_iter=300, tol=0.0, report=lambda rows, number: passes.append((rows, number)))
    assert passes == [(500, i + 1) for i in range(max(run.n_iter for run in alone))]


def test_of_starts_that_end_alike_the_first_counts():
    assert first_of_least(np.array([3.0, 2.0, 2.0 - 1e-9])) == 1
    assert first_of_least(np.array([3.0, 2.0, 1.9])) == 2
    assert first_of_least(np.array([1.0, 0.0])) == 1


def test_a_lost_cluster_starts_anew_at_the_farthest_row():
    X, draw, Z = problem(n=300)
    start = np.array([Z[0], Z[1], Z[0] + 100.0, Z[1] + 200.0])  # no row is assigned to the last two
    once = lloyd(engine_of(X), draw, start[None], max_iter=1, tol=0.0)
    far = np.square(Z[:, None] - start).sum(axis=2).min(axis=1).argsort()[::-1]
    np.testing.assert_allclose(once.centers[2:], Z[far[:2]], atol=1e-12)
    found = lloyd(engine_of(X), draw, start[None], max_iter=300, tol=0.0)
    assert (found.weight > 0).all()
    assert (np.diff(found.path) <= 1e-12 * found.path[0]).all()


@pytest.mark.parametrize(("tol", "factor"), [(0.0, 1.0), (1e3, 1.0), (1e3, 1 + 1e-9)])
def test_a_lost_cluster_is_no_end_even_where_nothing_else_moves(tol, factor):
    X, draw, Z = problem(n=300)
    mean = lloyd(engine_of(X), draw, Z[None, :1], max_iter=300, tol=0.0)
    beside = np.concatenate([factor * mean.centers, mean.centers + 100.0])  # all rows stay with the first
    found = lloyd(engine_of(X), draw, beside[None], max_iter=300, tol=tol)
    assert (found.weight > 0).all()
    assert found.inertia < mean.inertia
    assert found.n_iter >= 2


def test_with_fewer_distinct_rows_than_clusters_some_stay_empty():
    X, draw, _ = problem(n=3)
    X = np.repeat(X, 20, axis=0)
    found = lloyd(engine_of(X), draw, draw.of(X[[0, 0, 20, 40, 40]])[None], max_iter=300, tol=0.0)
    assert found.inertia == pytest.approx(0.0, abs=1e-10)
    assert sorted(found.weight) == [0, 0, 20, 20, 20]
    np.testing.assert_allclose(found.centers, draw.of(X[[0, 0, 20, 40, 40]]), atol=1e-12)  # empty ones stay
    assert found.converged


def test_the_farthest_rows_are_distinct_and_have_weight():
    X, draw, Z = problem(n=300)
    distances = np.square(Z - Z[0]).sum(axis=1)
    order = distances.argsort()[::-1]
    weight = np.ones(300)
    weight[order[0]] = 0.0
    doubled = np.concatenate([X, X])
    found = engine_of(doubled, np.concatenate([weight, weight]), block_rows=37).sum(Farthest(draw, Z[:1], 3))
    assert {tuple(x) for x in found.X} == {tuple(x) for x in X[order[1:4]]}


def test_rounding_keeps_order_and_forgets_the_last_bits():
    values = np.array([1.0, np.nextafter(1.0, 2.0), 1.0 + 1e-9, 3e-200, 7e200, 0.0])
    result = rounded(values)
    assert result[0] == result[1] < result[2]
    np.testing.assert_allclose(result, values, rtol=1e-11)


@pytest.mark.parametrize("rows", [pytest.param(1, marks=pytest.mark.slow), 17, 256, 257, 1000])
def test_blocks_change_rounding_only_and_threads_nothing(rows):
    X, draw, Z = problem(n=900)
    whole = lloyd(engine_of(X, block_rows=900), draw, Z[None, :5], max_iter=300, tol=0.0)
    parts = lloyd(engine_of(X, block_rows=rows), draw, Z[None, :5], max_iter=300, tol=0.0)
    np.testing.assert_allclose(parts.centers, whole.centers, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(parts.path, whole.path, rtol=1e-12)
    for jobs in (1, 3):
        same = lloyd(engine_of(X, block_rows=rows, n_jobs=jobs), draw, Z[None, :5], max_iter=300, tol=0.0)
        assert np.array_equal(same.centers, parts.centers)


def test_cached_features_are_used():
    X, draw, Z = problem(n=300)
    kept = Assign(replace(draw, cache=Z), Z[None, :3])(Block(0, np.full_like(X, np.nan)))
    computed = Assign(draw, Z[None, :3])(Block(0, X))
    np.testing.assert_allclose(kept.sums, computed.sums, rtol=1e-12, atol=1e-12)


def test_the_best_start_is_that_of_least_inertia():
    X, draw, Z = problem()
    starts = np.stack([np.full((3, Z.shape[1]), 5.0), Z[[0, 200, 399]], np.full((3, Z.shape[1]), 9.0)])
    inertia = [np.square(Z[:, None] - start).sum(axis=2).min(axis=1).sum() for start in starts]
    assert np.argmin(inertia) == 1
    assert np.array_equal(best_of(engine_of(X), draw, starts), starts[1])
    assert best_of(None, draw, starts[2:]) is not None  # of one start nothing has to be computed


# ---- features far from zero ---------------------------------------------------------------------


def far_rows(offset, dtype):
    X = np.random.default_rng(0).normal(size=(300, 3)) * [3, 2, 1]
    return (X + offset).astype(dtype)


LINEAR = RandomMaclaurin(Polynomial(1), 4, random_state=0)


@pytest.mark.parametrize("offset", [0.0, 1e2, 1e4, 1e6])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_far_from_zero_are_clustered_as_by_scikit_learn(offset, dtype):
    X = far_rows(offset, dtype)
    near = X.astype(float) - offset
    peer = KMeans(4, init=near[:4], n_init=1, tol=0, max_iter=1000).fit(near)
    model = KernelKMeans(LINEAR, 4, init=X[:4], tol=0, max_iter=1000).fit(X)
    assert np.array_equal(model.labels_, peer.labels_)
    np.testing.assert_allclose(model.inertia_, peer.inertia_, rtol=1e-6 if dtype == np.float32 else 1e-10)
    np.testing.assert_allclose(-model.score(X), peer.inertia_, rtol=1e-6 if dtype == np.float32 else 1e-10)
    streamed = KernelKMeans(LINEAR, 4, init=X[:4], tol=0, max_iter=1000).fit([X[:70], X[70:75], X[75:]])
    np.testing.assert_allclose(streamed.inertia_, model.inertia_, rtol=1e-6)
    assert np.array_equal(streamed.predict(X), peer.labels_)


@pytest.mark.parametrize("init", ["k-means++", "k-means||"])
@pytest.mark.parametrize("batch_size", [None, 50])
def test_starts_and_batches_do_not_see_how_far_from_zero_rows_lie(init, batch_size):
    X = np.round(far_rows(0.0, np.float64), 1)
    options = dict(n_clusters=4, init=init, batch_size=batch_size, n_init=3, random_state=0)
    near = KernelKMeans(LINEAR, **options).fit(X)
    far = KernelKMeans(LINEAR, **options).fit((X + 4096).astype(np.float32))
    # Other contents of rows, other random numbers; but both are good, and the reported inertia is right.
    assert far.inertia_ < 1.5 * near.inertia_
    Z = far.feature_map_.transform((X + 4096).astype(np.float32)).astype(float)
    true = np.square(Z[:, None] - far.cluster_centers_).sum(axis=2).min(axis=1).sum()
    np.testing.assert_allclose(far.inertia_, true, rtol=1e-5)


def test_distances_far_from_zero_keep_their_digits():
    X = far_rows(1e4, np.float32)
    Z = LINEAR.fit(X).transform(X)
    ready = Centers(Z[:50].astype(float), Z.dtype)
    found = ready.distances(ready.near(Z[:50]))
    assert (np.diagonal(found) == 0).all()
    near = Z[:50].astype(float) - 1e4
    np.testing.assert_allclose(found, np.square(near[:, None] - near).sum(axis=2), rtol=1e-4, atol=1e-4)
    assert np.array_equal(Centers(Z[:50].astype(float), Z.dtype, np.zeros(Z.shape[1])).near(Z), Z)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_inertia_never_increases_by_a_bit(dtype):
    for seed in range(12):
        X = np.random.default_rng(seed).normal(size=(400, 3)).astype(dtype)
        model = KernelKMeans(RandomFourier(Gaussian(2.0), 32, random_state=seed), 6, random_state=seed, tol=0).fit(X)
        assert (np.diff(model.inertia_path_) <= 0).all()
        assert model.inertia_ == model.inertia_path_[-1]
        exact = KernelKMeans(Gaussian(2.0), 6, random_state=seed, tol=0, exact=True).fit(X)
        assert (np.diff(exact.inertia_path_) <= 0).all()
        assert exact.inertia_ == exact.inertia_path_[-1]


@pytest.mark.parametrize("final", [False, True])
def test_a_run_that_gains_nothing_goes_back_to_the_centers_before(final):
    first, second, third = np.zeros((2, 1)), np.ones((2, 1)), np.full((2, 1), 2.0)
    run = Run(first)
    assert run.arrive(np.array([1.0, 3.0]), 5.0)
    run.move(second, 0.0)
    assert run.arrive(np.array([2.0, 2.0]), 4.0)
    run.move(third, 0.0)
    if final:
        assert not run.take(np.array([4.0, 0.0]), 4.5)
    else:
        assert not run.arrive(np.array([4.0, 0.0]), 4.5)
        assert run.ended
        assert run.settled
    assert np.array_equal(run.centers, second)
    assert run.weight.tolist() == [2.0, 2.0]
    assert run.path == [5.0, 4.0, 4.0]
