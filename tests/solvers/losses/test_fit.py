"""Minima of losses over all rows are the same for any sample, start and blocks."""

import numpy as np
import pytest

from mercer.engines import MemoryEngine
from mercer.engines.passes import Passes
from mercer.solvers.losses import fit
from mercer.solvers.losses.fit import AsGiven, minimize_on_rows, sample_size
from mercer.solvers.losses.losses import Logistic, Problem, SquaredHinge
from mercer.solvers.losses.objective import Penalized
from mercer.statistics import CountLabels
from mercer.statistics.feature_cache import RowFeatures

RNG = np.random.default_rng(0)
Z = RNG.normal(size=(300, 5))
Y = np.digitize(Z[:, 0] + 0.5 * RNG.normal(size=300), [-0.5, 0.5])
WEIGHT = RNG.uniform(0, 2, 300)


def minimum(loss, *, size=4096, start=None, fit_intercept=True, block_rows=100, C=2.0):
    engine = MemoryEngine(Z, Y, WEIGHT, block_rows=block_rows, n_jobs=1)
    counts = engine.sum(CountLabels(size, seed=0))
    problem, passes = Problem(RowFeatures(AsGiven(5)), loss, np.arange(3), np.array([1.0, 2.0, 0.5])), Passes(None)
    options = {"C": C, "fit_intercept": fit_intercept, "n_jobs": 1, "tol": 1e-25, "max_iter": 300}
    found = minimize_on_rows(engine, problem, counts, start=start, passes=passes, **options)
    gradient = Penalized(engine, problem, C, fit_intercept, Passes(None)).values_and_gradient(found.coef)[1]
    return found, gradient, passes.count


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge()], ids=repr)
def test_the_gradient_vanishes_for_any_sample(loss, fit_intercept):
    complete, gradient, _ = minimum(loss, fit_intercept=fit_intercept)
    assert complete.converged
    assert np.abs(gradient).max() < 1e-8
    some, gradient, _ = minimum(loss, size=60, fit_intercept=fit_intercept, block_rows=37)
    assert np.abs(gradient).max() < 1e-8
    np.testing.assert_allclose(some.coef, complete.coef, rtol=0, atol=1e-9)
    assert complete.coef[-1].any() == fit_intercept


@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge()], ids=repr)
def test_a_start_at_the_minimum_takes_one_step(loss):
    first, _, passes = minimum(loss)
    again, _, fewer = minimum(loss, start=first.coef)
    assert again.steps == 1
    assert fewer <= passes
    np.testing.assert_allclose(again.coef, first.coef, rtol=0, atol=1e-10)


def test_the_sample_grows_with_the_width_within_bounds(monkeypatch):
    assert sample_size(10) == fit.FEWEST_SAMPLE_ROWS
    assert sample_size(1000) == 32 * 1001
    assert sample_size(2**20) == 2**28 // (8 * 2**20)
    monkeypatch.setattr(fit, "SAMPLE_BYTES", 1)
    assert sample_size(10) == 1


def test_rows_as_features():
    out = np.empty((300, 5))
    AsGiven(5).astype(np.float64)(Z, out)
    assert np.array_equal(out, Z)
    assert AsGiven(5).output_dtype(np.float32) == np.float32
