"""Jackknife+: leave-one-out predictions against refits, and the coverage that is guaranteed."""

import numpy as np
import pytest

from mercer import Gaussian, GaussianProcessRegressor, KernelRidge, Matern, Nystroem, RandomFourier
from mercer.errors import DataError, ParameterError

RNG = np.random.default_rng(0)
N = 40
X = RNG.normal(size=(N, 3))
Y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * RNG.standard_t(3, size=N) + 5
NEW = RNG.normal(size=(7, 3))
MAP = RandomFourier(Gaussian(1.5), 24, random_state=0)

MODELS = {
    "ridge": KernelRidge(MAP, alpha=0.3),
    "ridge without intercept": KernelRidge(MAP, alpha=0.3, fit_intercept=False),
    "process": GaussianProcessRegressor(MAP, noise=0.4, amplitude=1.2, lengthscale_tuning=None),
    "process of mean zero": GaussianProcessRegressor(
        MAP, noise=0.4, amplitude=1.2, lengthscale_tuning=None, normalize_y=False
    ),
}


def refits(model, targets):
    """Yield the models without each row."""
    for i in range(N):
        rest = np.arange(N) != i
        yield type(model)(**model.get_params(deep=False)).fit(X[rest], targets[rest])


@pytest.mark.parametrize("name", MODELS)
def test_predictions_and_intervals_are_those_of_refits(name):
    model = MODELS[name].fit(X, Y)
    jackknife = model.jackknife(X, Y)
    without = list(refits(model, Y))
    left_out = np.array([one.predict(X[i : i + 1])[0] for i, one in enumerate(without)])
    np.testing.assert_allclose(jackknife.predictions, left_out, rtol=1e-8)
    np.testing.assert_allclose(jackknife.residuals, Y - left_out, rtol=1e-6, atol=1e-9)
    predictions = np.array([one.predict(NEW) for one in without])  # (n, m)
    size = np.abs(Y - left_out)[:, None]
    level = 0.8
    low, high = int(np.floor(0.2 * (N + 1) + 1e-9)), int(np.ceil(0.8 * (N + 1) - 1e-9))
    lower = np.sort(predictions - size, axis=0)[low - 1]
    upper = np.sort(predictions + size, axis=0)[high - 1]
    np.testing.assert_allclose(jackknife.interval(NEW, level), np.column_stack([lower, upper]), rtol=1e-8)
    reach = np.sort(size[:, 0])[high - 1]
    wide = np.column_stack([predictions.min(axis=0) - reach, predictions.max(axis=0) + reach])
    np.testing.assert_allclose(jackknife.interval(NEW, level, method="minmax"), wide, rtol=1e-8)


def test_several_targets_have_the_intervals_of_each_alone():
    both = np.column_stack([Y, np.cos(X[:, 1])])
    for model in (KernelRidge(MAP, alpha=0.3), GaussianProcessRegressor(MAP, lengthscale_tuning=None)):
        found = model.fit(X, both).jackknife(X, both).interval(NEW, 0.8)
        assert found.shape == (len(NEW), 2, 2)
        for column in range(2):
            alone = model.fit(X, both[:, column]).jackknife(X, both[:, column]).interval(NEW, 0.8)
            np.testing.assert_allclose(found[:, column], alone, rtol=1e-7)


def test_blocks_do_not_matter(monkeypatch):
    jackknife = MODELS["process"].fit(X, Y).jackknife(X, Y)
    expected = jackknife.interval(NEW)
    monkeypatch.setattr("mercer.solvers.ridge.jackknife.ENTRIES", 1)
    np.testing.assert_allclose(jackknife.interval(NEW), expected, rtol=1e-10)


def test_coverage_is_at_least_that_of_the_guarantee():
    # Heavy-tailed noise of unequal variance, and hardly any penalty: n = 40 rows and 24 features. Coverage of one draw
    # of 40 rows varies, so 200 new rows are predicted for each of 30 draws. Its mean over draws has a standard
    # deviation below 0.5 / sqrt(30) = 0.09, in practice 0.01.
    rng = np.random.default_rng(1)
    hits, naive = [], []
    for draw in range(30):
        rows = rng.normal(size=(N + 200, 3))
        y = rows[:, 0] + (0.2 + np.abs(rows[:, 1])) * rng.standard_t(3, size=len(rows))
        model = KernelRidge(RandomFourier(Gaussian(1.5), 24, random_state=draw), alpha=0.01).fit(rows[:N], y[:N])
        jackknife = model.jackknife(rows[:N], y[:N])
        lower, upper = jackknife.interval(rows[N:], 0.8).T
        hits.append(((lower <= y[N:]) & (y[N:] <= upper)).mean())
        training = np.quantile(np.abs(y[:N] - model.predict(rows[:N])), 0.8)
        naive.append((np.abs(y[N:] - model.predict(rows[N:])) <= training).mean())
    assert np.mean(hits) >= 0.6  # the guarantee, 1 - 2 * 0.2
    assert 0.75 < np.mean(hits) < 0.87  # what is aimed at
    assert np.mean(naive) < 0.6  # residuals of the fit do not have the guarantee


def test_too_few_rows_for_the_level_give_infinite_ends():
    jackknife = MODELS["ridge"].fit(X, Y).jackknife(X, Y)
    assert np.isinf(jackknife.interval(NEW, 0.99)).all()
    assert np.isfinite(jackknife.interval(NEW, 0.97)).all()


def test_other_rows_and_other_parameters_are_refused():
    model = MODELS["ridge"].fit(X, Y)
    with pytest.raises(DataError, match="rows of the fit"):
        model.jackknife(X[:-1], Y[:-1])
    with pytest.raises(DataError, match="rows of the fit"):
        model.jackknife(X, Y + X[:, 0])
    weighted = KernelRidge(MAP, alpha=0.3).fit(X, Y, np.arange(1, N + 1))
    with pytest.raises(DataError, match="weight one"):
        weighted.jackknife(X, Y)
    with pytest.raises(ParameterError, match="alpha > 0"):
        KernelRidge(RandomFourier(Gaussian(), 8, random_state=0), alpha=0).fit(X, Y).jackknife(X, Y)
    with pytest.raises(ParameterError, match="neighbors"):
        KernelRidge(Nystroem(Matern(1.5), 12, random_state=0), neighbors=8).fit(X, Y).jackknife(X, Y)
    jackknife = model.jackknife(X, Y)
    for level in (0, 1, "much"):
        with pytest.raises(ParameterError, match="coverage"):
            jackknife.interval(NEW, level)
    with pytest.raises(ParameterError, match="method"):
        jackknife.interval(NEW, method="cv+")


def test_rows_without_a_target_are_left_out():
    some = Y.copy()
    some[::5] = np.nan
    known = ~np.isnan(some)
    model = KernelRidge(MAP, alpha=0.3, unlabeled=np.nan).fit(X, some)
    expected = KernelRidge(MAP, alpha=0.3).fit(X[known], Y[known]).jackknife(X[known], Y[known])
    np.testing.assert_allclose(model.jackknife(X, some).interval(NEW), expected.interval(NEW), rtol=1e-8)
