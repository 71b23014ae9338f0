"""Samples of the rows: sizes, weights, and features that are computed when they are needed."""

import numpy as np
import pytest

from mercer.engines import MemoryEngine
from mercer.solvers.losses.fit import AsGiven, stages
from mercer.solvers.losses.sample import GROWTH, ROWS_PER_COEFFICIENT, Sample
from mercer.statistics import CountLabels
from mercer.statistics.feature_cache import RowFeatures

SMALL = ROWS_PER_COEFFICIENT * 3  # for two components and an intercept


def sample_of(n, size, weight=None):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, 2)), rng.integers(0, 3, n)
    counts = MemoryEngine(X, y, weight, block_rows=50, n_jobs=1).sum(CountLabels(size, seed=0))
    return Sample.of(counts, RowFeatures(AsGiven(2)), 1), X, y


@pytest.mark.parametrize(
    ("n", "size", "sizes"),
    [
        (10, 1000, []),
        (SMALL * GROWTH - 1, 1000, []),
        (SMALL * GROWTH, 1000, [SMALL]),
        (1000, 500, [SMALL]),
        (1000, 300, [SMALL, 300]),
        (1000, 30, [30]),
    ],
)
def test_each_sample_is_much_smaller_than_the_next(n, size, sizes):
    assert [len(part.y) for part in sample_of(n, size)[0].parts()] == sizes


def test_rows_are_those_of_the_data_and_weights_add_up():
    weight = np.random.default_rng(1).uniform(0.5, 2, 1000)
    whole, X, y = sample_of(1000, 300, weight)
    for sample in (whole, whole.small):
        index = [int(np.flatnonzero((X == row).all(axis=1))[0]) for row in sample.features]
        assert np.array_equal(sample.y, y[index])
        assert np.array_equal(sample.codes, sample.y)
        assert sample.weight.sum() == pytest.approx(weight.sum())
        np.testing.assert_allclose(sample.squares, np.square(sample.features).sum(axis=1))
    complete, _, _ = sample_of(1000, 1000, weight)
    assert np.array_equal(complete.weight, weight)
    assert np.ptp(complete.small.weight) == 0  # sampled in proportion to the weights


def test_the_small_sample_prefers_heavy_rows():
    weight = np.where(np.arange(3000) < 300, 9.0, 1.0)  # half of the weight is on a tenth of the rows
    sample, X, _ = sample_of(3000, 3000, weight)
    heavy = np.isin(sample.small.X[:, 0], X[:300, 0]).mean()
    # Without replacement a little less than a half; the standard error of a share of 24 rows is 0.1.
    assert abs(heavy - 0.5) < 0.35


def test_a_large_weight_of_the_losses_is_approached_from_smaller_ones():
    def found(sample, C):
        return [(len(part.y), round(weight, 12)) for part, weight in stages(sample, C)]

    sample, _, _ = sample_of(1000, 300)
    square = sample.small.squares.mean()
    assert found(sample, 1.0) == [(SMALL, 1.0), (300, 1.0)]
    C = 1000 / square
    weights = [(SMALL, round(C / 100, 12)), (SMALL, round(C / 10, 12)), (SMALL, round(C, 12)), (300, round(C, 12))]
    assert found(sample, C) == weights
    few, _, _ = sample_of(20, 300)
    C = 1000 / few.squares.mean()
    assert found(few, C) == [(20, round(C / 100, 12)), (20, round(C / 10, 12))]
