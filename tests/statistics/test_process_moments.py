"""What a Gaussian process keeps of its rows, against sums over all of them at once."""

import numpy as np
import pytest

from mercer import Gaussian, RandomFourier
from mercer.engines import Block, MemoryEngine
from mercer.statistics import RowSample
from mercer.statistics.process_moments import ProcessSum

RNG = np.random.default_rng(0)
X, Y, WEIGHT = RNG.normal(size=(90, 3)), RNG.normal(size=(90, 2)), RNG.uniform(0, 2, 90)
MAP = RandomFourier(Gaussian(), 10, random_state=0).fit(X)


def moments_of(rows=slice(None), keep=20, start=0, dtype=np.float64, into=None):
    engine = MemoryEngine(X[rows].astype(dtype), Y[rows], WEIGHT[rows], block_rows=16, n_jobs=1, start=start)
    return engine.accumulate(ProcessSum(MAP.features_, keep, seed=5) if into is None else into)


def check(found, rtol=1e-12):
    Z = MAP.transform(X)
    upper = np.triu_indices(10)
    centered = Y - WEIGHT @ Y / WEIGHT.sum()
    np.testing.assert_allclose(found.moments.gram[upper], (Z.T @ (Z * WEIGHT[:, None]))[upper], rtol=rtol, atol=rtol)
    targets = found.moments.targets
    np.testing.assert_allclose(targets.cross, Z.T @ (WEIGHT[:, None] * centered), rtol=rtol, atol=30 * rtol)
    np.testing.assert_allclose(targets.target_scatter, WEIGHT @ centered**2, rtol=rtol)
    assert found.rows == 90


def test_moments_are_sums_over_rows_and_the_sample_is_that_of_all():
    found = moments_of()
    check(found)
    whole = RowSample.of(Block(0, X, Y, WEIGHT), size=20, seed=5, by_weight=True)
    assert np.array_equal(found.sample.index, whole.index)
    assert np.array_equal(found.sample.X, whole.X)
    assert np.array_equal(found.sample.y, whole.y)


def test_parts_add_up():
    both = moments_of(slice(0, 40)) + moments_of(slice(40, None), start=40)
    check(both)
    assert np.array_equal(both.sample.index, moments_of().sample.index)


def test_without_rows_to_keep_there_is_no_sample():
    one = moments_of(keep=0)
    assert one.sample is None
    assert (one + moments_of()).sample is None
    assert (moments_of() + one).sample is None


def test_moments_of_float32_rows_are_summed_in_float64():
    found = moments_of(dtype=np.float32)
    check(found, rtol=1e-5)
    assert found.moments.roundoff == np.finfo(np.float64).eps


@pytest.mark.parametrize("keep", [0, 20])
def test_a_sum_goes_on_from_a_state(keep):
    into = ProcessSum(MAP.features_, keep, seed=5)
    into.restore(moments_of(slice(0, 40), keep))
    found = moments_of(slice(40, None), start=40, into=into)
    check(found)
    if keep:
        assert np.array_equal(found.sample.index, moments_of().sample.index)
