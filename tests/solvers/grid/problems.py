"""Sums on a grid of a few rows, with the features they belong to."""

import numpy as np

from mercer import Gaussian, GridFourier
from mercer.engines import MemoryEngine
from mercer.features import features_of
from mercer.solvers.grid.systems import System
from mercer.solvers.grid.tuning import PartAngles
from mercer.statistics.grid_sums import GridSum, TargetScale


def problem(d=2, constant=0.0, n=120, n_components=61, scale=1.5):
    """Return a system, unweighted features (n, M), centered and scaled targets, weights and the features."""
    rng = np.random.default_rng(d)
    X, y, weight = rng.uniform(size=(n, d)), rng.normal(3, 2, size=(n, 2)), rng.uniform(0.5, 2, n)
    features = GridFourier(constant + Gaussian(scale), n_components).fit(X).features_
    (part,) = features.parts
    target, offset = TargetScale(np.full(2, 2.5), np.full(2, 2.0)), np.array([3.0, 2.9])
    engine = MemoryEngine(X, y, weight, block_rows=50, n_jobs=1)
    sums = engine.accumulate(GridSum(PartAngles(part), part.highest, target, 1e-12))
    system = System.of_grid(sums, part.index, target, offset, constant=constant > 0)
    return system, features_of(features.unweighted(), X), (y - offset) / 2, weight, features
