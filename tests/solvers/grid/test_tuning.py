"""Hyperparameters of a sample: gradients of the search, and what it finds."""

import numpy as np
import pytest

from mercer import Gaussian, Transformed
from mercer.maps.fourier.frequency_grids import summands_of
from mercer.solvers.grid.tuning import Hyperparameters, Sample, Search, tune_grid


def sample(n=150, d=2):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n, d))
    y = np.sin(6 * X[:, :1]) + 0.2 * rng.normal(size=(n, 1))
    return X, (y - y.mean()) / y.std()


def start_of(summands, d):
    return Hyperparameters(
        tuple(np.ones(s.axes(d)) for s in summands), np.full(len(summands), 1 / len(summands)), 1.0, 0.3
    )


@pytest.mark.parametrize("lengthscales", ["shared", "ard", None])
@pytest.mark.parametrize("groups", [1, 2])
def test_gradient_of_the_search(groups, lengthscales):
    X, y = sample()
    kernel = Gaussian(1.0)
    if groups == 2:
        kernel = 0.5 * Transformed(Gaussian(), columns=(0,)) + 0.5 * Transformed(Gaussian(), columns=(1,))
    _, summands = summands_of(kernel, "test", 2)
    widths = [np.ptp(s.coordinates(X), axis=0) for s in summands]
    search = Search(summands, widths, start_of(summands, 2), lengthscales, True, True, 1e-6, None)
    rows = Sample.of(summands, X, y, None, 400)
    point = search.first(0.3) + 0.01 * np.arange(search.size)
    _, gradient = search.value(point, rows)
    step = 1e-4
    numerical = [
        (search.value(point + step * e, rows)[0] - search.value(point - step * e, rows)[0]) / (2 * step)
        for e in np.eye(search.size)
    ]
    assert np.abs(gradient - numerical).max() < 1e-2 * np.abs(gradient).max()


def test_nothing_to_tune_returns_the_start():
    X, y = sample()
    _, summands = summands_of(Gaussian(), "test", 2)
    start = start_of(summands, 2)
    found, trials = tune_grid(
        summands, X, y, None, start, lengthscales=None, amplitude=False, noise=False, tolerance=1e-4
    )
    assert found is start
    assert trials == ()


def test_relevant_columns_have_shorter_lengthscales():
    X, y = sample()
    _, summands = summands_of(Gaussian(), "test", 2)
    found, trials = tune_grid(
        summands, X, y, None, start_of(summands, 2), lengthscales="ard", amplitude=True, noise=True, tolerance=1e-4
    )
    assert found.factors[0][0] < found.factors[0][1]
    assert 0.2 < found.noise < 0.4
    assert max(trial.evidence for trial in trials) > trials[0].evidence
