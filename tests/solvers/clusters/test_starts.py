"""Starts of k-means: rows of the data, far apart, the same on every engine."""

import numpy as np
import pytest

from mercer import Gaussian, RandomFourier
from mercer.engines import MemoryEngine
from mercer.solvers.clusters.lloyd import RowFeatures
from mercer.solvers.clusters.starts import (
    SAMPLE_ROWS,
    CellWeights,
    candidates_by_passes,
    drawn,
    feature_distances,
    kernel_distances,
    plus_plus,
    uniform_rows,
)


def problem(n=300, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 0.3 + 4 * rng.integers(0, 3, size=(n, d))
    return X, RowFeatures(RandomFourier(Gaussian(1.0), 32, random_state=0).fit(X).features_)


def engine_of(X, weight=None, block_rows=50):
    return MemoryEngine(X, None, weight, block_rows=block_rows)


def test_kernel_and_feature_distances_agree():
    X, draw = problem(40)
    Z = 7 * draw.of(X)
    chosen = np.array([3, 0, 39])
    expected = np.square(Z[chosen][:, None] - Z).sum(axis=2)
    for distances in (feature_distances(Z), kernel_distances(Z @ Z.T)):
        np.testing.assert_allclose(distances(chosen), expected, rtol=1e-9, atol=1e-9)
        assert (distances(chosen)[np.arange(3), chosen] == 0).all()


def test_far_groups_are_all_found():
    X, draw = problem(300, seed=1)
    groups = np.unique(np.round(X / 4), axis=0)
    Z = draw.of(X)
    chosen = plus_plus(feature_distances(Z), np.ones(300), len(groups), np.random.default_rng(0))
    assert len(np.unique(np.round(X[chosen] / 4), axis=0)) == len(groups)


def test_no_row_is_chosen_twice_and_copies_are_one_row():
    Z = np.repeat(np.eye(4), 3, axis=0)
    chosen = plus_plus(feature_distances(Z), np.ones(12), 7, np.random.default_rng(0))
    assert sorted(chosen // 3) == [0, 1, 2, 3]


def test_mass_of_zero_is_never_drawn():
    mass = np.array([0.0, 2.0, 0.0, 1.0, 0.0])
    assert drawn(mass, np.array([0.0, 0.5, 0.7, np.nextafter(1.0, 0.0)])).tolist() == [1, 1, 3, 3]
    assert drawn(mass, np.array([1.0])).tolist() == [3]


def test_a_small_sample_is_all_rows():
    X, _ = problem(100)
    pool = uniform_rows(engine_of(np.concatenate([X, X[:10]])), 3, 2, seed=0)
    assert len(pool) == 100
    assert pool.seen == 110
    assert pool.weight.sum() == 110


def test_a_large_sample_is_bounded(monkeypatch):
    monkeypatch.setattr("mercer.solvers.clusters.starts.SAMPLE_ROWS", 30)
    X, _ = problem(100)
    assert len(uniform_rows(engine_of(X), 1, 2, seed=0)) == 30
    assert len(uniform_rows(engine_of(X), 3, 2, seed=0)) == 60  # twenty a cluster
    wide = np.tile(X, (1, 50))
    monkeypatch.setattr("mercer.solvers.clusters.starts.SAMPLE_BYTES", 25 * 100 * 8)
    assert len(uniform_rows(engine_of(wide), 1, 100, seed=0)) == 25
    assert len(uniform_rows(engine_of(wide), 4, 100, seed=0)) == 80
    assert SAMPLE_ROWS == 4096


def test_cell_weights_are_those_of_the_nearest_rows():
    X, draw = problem()
    weight = np.random.default_rng(0).uniform(0, 2, len(X))
    Z = draw.of(X)
    labels = np.square(Z[:, None] - Z[:9]).sum(axis=2).argmin(axis=1)
    for w in (None, weight):
        found = engine_of(X, w).sum(CellWeights(draw, Z[:9]))
        np.testing.assert_allclose(found, np.bincount(labels, w, 9), rtol=1e-12)


@pytest.mark.parametrize("block_rows", [7, 300])
def test_candidates_are_distinct_rows_with_all_the_weight(block_rows):
    X, draw = problem()
    weight = np.random.default_rng(0).integers(0, 3, len(X)).astype(float)
    pool = candidates_by_passes(engine_of(X, weight, block_rows), draw, 6, seed=3)
    assert len(pool) == 48  # twelve a pass, in four passes
    assert len(np.unique(pool.X, axis=0)) == 48
    allowed = {tuple(x) for x in X[weight > 0]}
    assert all(tuple(x) in allowed for x in pool.X)
    assert pool.weight.sum() == weight.sum()
    assert pool.seen == np.count_nonzero(weight)
    groups = np.unique(np.round(X / 4), axis=0)
    assert len(np.unique(np.round(pool.X / 4), axis=0)) == len(groups)


def test_candidates_do_not_depend_on_blocks_order_or_repetition():
    X, draw = problem()
    repeats = np.random.default_rng(0).integers(0, 3, len(X))
    order = np.random.default_rng(1).permutation(repeats.sum())
    expected = candidates_by_passes(engine_of(X, repeats.astype(float)), draw, 6, seed=3)
    repeated = np.repeat(X, repeats, axis=0)[order]
    found = candidates_by_passes(engine_of(repeated, block_rows=11), draw, 6, seed=3)
    assert np.array_equal(found.X, expected.X)
    assert np.array_equal(found.weight, expected.weight)


def test_few_distinct_rows_are_all_candidates():
    X, draw = problem(5)
    pool = candidates_by_passes(engine_of(np.repeat(X, 9, axis=0)), draw, 6, seed=3)
    assert len(pool) == 5
    assert pool.weight.tolist() == [9.0] * 5
