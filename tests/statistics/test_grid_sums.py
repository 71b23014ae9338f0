"""Sums on a grid equal sums over rows term by term, in any blocks and on any number of threads."""

import numpy as np
import pytest

from mercer.engines import Block, MemoryEngine
from mercer.io.archive import store
from mercer.statistics import grid_sums
from mercer.statistics.grid_sums import GridSum, TargetScale, bounds_of_block, survey_of_block


def angles_of(X):
    return tuple(np.ascontiguousarray(a) for a in X.T), None


def direct(X, y, weight, highest):
    w = np.ones(len(X)) if weight is None else weight

    def at(scale, strengths):
        axes = np.meshgrid(*[np.arange(-scale * m, scale * m + 1) for m in highest], indexing="ij")
        return (np.exp(-1j * sum(k[..., None] * a for k, a in zip(axes, X.T, strict=True))) * strengths).sum(axis=-1)

    return at(2, w), np.stack([at(1, w * column) for column in y.T])


@pytest.mark.parametrize("targets", [1, 2, 3])
@pytest.mark.parametrize("highest", [(6,), (3, 2), (2, 1, 2)])
def test_sums_equal_those_term_by_term(highest, targets):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-2, 2, (300, len(highest))), rng.normal(5, 2, (300, targets))
    weight = rng.integers(0, 3, 300).astype(float)
    scale = TargetScale(np.full(targets, 4.0), np.full(targets, 2.0))
    for w in (None, weight):
        engine = MemoryEngine(X, y, w, block_rows=70, n_jobs=1)
        sums = engine.accumulate(GridSum(angles_of, highest, scale, 1e-12))
        scaled = (y - 4) / 2
        weights, of_targets = direct(X, scaled, w, highest)
        assert np.allclose(sums.weights, weights, atol=1e-8)
        assert np.allclose(sums.targets, of_targets, atol=1e-8)
        v = np.ones(300) if w is None else w
        assert (sums.rows, sums.weight) == (300, v.sum())
        assert np.allclose(sums.target_sum, v @ scaled)
        assert np.allclose(sums.target_squares, v @ scaled**2)


def test_sums_are_equal_to_the_bit_for_any_number_of_threads(monkeypatch):
    monkeypatch.setattr(grid_sums, "SLICE_ROWS", 64)
    rng = np.random.default_rng(1)
    X, y = rng.uniform(-2, 2, (1000, 2)), rng.normal(size=(1000, 1))
    scale = TargetScale(np.zeros(1), np.ones(1))

    def total(jobs):
        return MemoryEngine(X, y, block_rows=400, n_jobs=jobs).accumulate(GridSum(angles_of, (4, 4), scale, 1e-9))

    one = total(1)
    for jobs in (2, 5):
        assert np.array_equal(total(jobs).weights, one.weights)
        assert np.array_equal(total(jobs).targets, one.targets)


def test_sums_can_be_stored_and_resumed():
    rng = np.random.default_rng(2)
    X, y = rng.uniform(-2, 2, (100, 1)), rng.normal(size=(100, 1))
    scale = TargetScale(np.zeros(1), np.ones(1))
    blocks = [Block(0, X[:50], y[:50]), Block(50, X[50:], y[50:])]
    engine = MemoryEngine(X, y, block_rows=50, n_jobs=1)
    expected = engine.accumulate(GridSum(angles_of, (4,), scale, 1e-9))
    from mercer.engines.base import workers

    with workers(1) as team:
        first = GridSum(angles_of, (4,), scale, 1e-9)
        first.add(blocks[0], team)
        second = GridSum(angles_of, (4,), scale, 1e-9)
        second.restore(store(first.result()).value())
        second.add(blocks[1], team)
    assert np.array_equal(second.result().weights, expected.weights)


def test_bounds_ignore_rows_of_weight_zero():
    block = Block(0, np.array([[1.0, 5.0], [2.0, 3.0], [100.0, -100.0]]), np.ones((3, 1)), np.array([1.0, 1.0, 0.0]))
    bounds = bounds_of_block(block, coordinates=np.asarray, targets=True)
    assert bounds.low.tolist() == [1.0, 3.0]
    assert bounds.high.tolist() == [2.0, 5.0]
    assert bounds.weight == 2.0


def test_survey_of_blocks_is_that_of_all_rows():
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(200, 2)), rng.normal(1e6, 1, size=(200, 1))
    whole = survey_of_block(Block(0, X, y), coordinates=np.asarray, size=20, seed=1)
    parts = [survey_of_block(Block(i, X[i : i + 60], y[i : i + 60]), coordinates=np.asarray, size=20, seed=1)
             for i in range(0, 200, 60)]  # fmt: skip
    total = parts[0] + parts[1] + parts[2] + parts[3]
    assert np.array_equal(total.sample.X, whole.sample.X)
    assert np.array_equal(total.bounds.low, whole.bounds.low)
    assert np.allclose(total.bounds.target_mean, y.mean(), rtol=1e-14)
    assert np.allclose(total.bounds.target_scatter, y.var() * 200, rtol=1e-6)
