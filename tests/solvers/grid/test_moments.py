"""Moments from sums on a grid equal those from products of matrices."""

import numpy as np
import pytest

from mercer import Gaussian, GridFourier, RandomFourier
from mercer.engines import MemoryEngine
from mercer.solvers.grid.moments import GridMomentSum, sums_on_grid
from mercer.statistics.moments import MomentSum, symmetric


@pytest.mark.parametrize(("constant", "width"), [(0.0, 60), (0.5, 61)])
def test_moments_are_those_of_matrix_products(constant, width):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(300, 2)), rng.normal([5.0, 1e4], 1.0, size=(300, 2))
    weight = rng.integers(0, 3, 300).astype(float)
    features = GridFourier(constant + Gaussian(0.8), width).fit(X).features_
    engine = MemoryEngine(X, y, weight, block_rows=70, n_jobs=1)
    into = GridMomentSum(features, engine.first())
    got, expected = into.finish(engine.accumulate(into)), engine.accumulate(MomentSum(features, double=True))
    assert np.abs(symmetric(got.gram) - symmetric(expected.gram)).max() < 1e-9
    for name in ("rows", "weight", "feature_sum", "target_mean", "cross", "target_scatter"):
        assert np.allclose(getattr(got.targets, name), getattr(expected.targets, name), rtol=1e-9, atol=1e-7), name


def test_which_features_have_sums_on_a_grid():
    X = np.random.default_rng(0).uniform(size=(30, 2))
    assert sums_on_grid(GridFourier(Gaussian(), 31).fit(X).features_)
    assert not sums_on_grid(GridFourier(Gaussian(), 31, column_groups="each").fit(X).features_)
    assert not sums_on_grid(RandomFourier(Gaussian(), 31).fit(X).features_)
