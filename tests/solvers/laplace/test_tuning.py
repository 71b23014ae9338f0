"""Tuning of lengthscales and amplitude: derivatives, and independence of the order of the rows."""

import numpy as np
import pytest

from mercer import Gaussian, Matern, Nystroem, RandomFourier
from mercer.engines import Block
from mercer.errors import ParameterError
from mercer.solvers.laplace.tuning import LabeledSample, Objective, features_to_tune, tune_labels
from mercer.statistics import RowSample

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 3))
Y = (np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * RNG.logistic(size=90) > 0).astype(int)


def sample_of(X, y, weight=None):
    rows = RowSample.of(Block(0, X, y, weight), size=len(X), seed=0)
    return LabeledSample.of(rows, np.unique(y), np.ones(len(np.unique(y))), fit_intercept=True)


@pytest.mark.parametrize(
    "feature_map",
    [Nystroem(Matern(2.5, 1.0), 30), RandomFourier(Gaussian(1.0), 40, random_state=0)],
    ids=["landmarks", "fourier"],
)
@pytest.mark.parametrize("ard", [True, False])
def test_derivatives_are_those_of_differences(feature_map, ard, monkeypatch):
    monkeypatch.setattr("mercer.solvers.laplace.evidence.MODE_TOL", 1e-15)
    sample = sample_of(X, Y)
    features = features_to_tune(feature_map, feature_map.kernel, sample, 30, 0)
    objective = Objective(sample, features, ard=ard, variance=None)
    theta = np.array([0.1, -0.2, 0.3, 1.0]) if ard else np.array([0.1, 1.0])
    _, gradient = objective(theta)
    step = 1e-4
    for i, e in enumerate(step * np.eye(len(theta))):
        differences = (objective(theta + e)[0] - objective(theta - e)[0]) / (2 * step)
        assert gradient[i] == pytest.approx(differences, rel=1e-3, abs=1e-6)


def test_order_and_repetition_of_rows_do_not_matter():
    weight = np.random.default_rng(1).integers(1, 4, size=90)
    order = np.random.default_rng(2).permutation(np.repeat(np.arange(90), weight))
    kernel, feature_map = Matern(2.5, 1.0), Nystroem(Matern(2.5, 1.0), 30)
    results = [
        tune_labels(feature_map, kernel, sample, ard=False, variance=None, seed=0)
        for sample in (sample_of(X, Y, weight.astype(float)), sample_of(X[order], Y[order]))
    ]
    assert results[0].kernel == results[1].kernel
    assert results[0].variance == results[1].variance


def test_search_improves_on_its_start():
    kernel, feature_map = Matern(2.5, 30.0), Nystroem(Matern(2.5, 30.0), 60)
    found = tune_labels(feature_map, kernel, sample_of(X, Y), ard=False, variance=None, seed=0)
    values = [trial.log_marginal_likelihood for trial in found.trials]
    assert max(values) > values[0]
    assert found.kernel.lengthscale < 15
    given = tune_labels(feature_map, kernel, sample_of(X, Y), ard=False, variance=2.0, seed=0)
    assert given.variance == 2.0


def test_wide_rows_are_refused():
    wide = np.zeros((4, 3000))
    wide[:, 0] = np.arange(4)
    with pytest.raises(ParameterError, match="lengthscale_tuning=None"):
        tune_labels(
            Nystroem(Gaussian(1.0), 4),
            Gaussian(1.0),
            sample_of(wide, np.arange(4) % 2),
            ard=False,
            variance=None,
            seed=0,
        )
