"""The process with near rows: tuning, what it refuses, engines, weights and model files."""

import numpy as np
import pytest
from sklearn.base import clone

from mercer import (
    Gaussian,
    GaussianProcessRegressor,
    LocalCorrection,
    Matern,
    RationalQuadratic,
    Transformed,
    load_model,
    save_model,
)
from mercer.errors import DataError, ParameterError


def rows(n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 3))
    return X, np.sin(3 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.normal(size=n)


@pytest.fixture(scope="module")
def fitted():
    X, y = rows()
    return GaussianProcessRegressor(neighbors=24, random_state=0).fit(X, y)


def test_columns_without_influence_have_long_lengthscales(fitted):
    kernel = fitted.kernel_
    assert isinstance(kernel, Transformed)
    lengthscales = np.asarray(kernel.lengthscales)
    assert lengthscales[2] > 2 * lengthscales[0]
    X, y = rows(400, 1)
    assert fitted.score(X, y) > 0.95
    assert 0.05 < fitted.noise_ < 0.2
    assert {trial.profile for trial in fitted.tuning_} >= {"matern12", "matern32", "matern52"}


def test_error_bars_hold_just_outside_of_the_rows(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(300, 2))
    y = np.sin(1.5 * X).sum(axis=1) + 0.1 * rng.normal(size=300)
    new = rng.uniform(-3, 3, size=(300, 2))
    new[:, 0] = rng.choice([-1, 1], size=300) * (3 + rng.uniform(0.3, 1.5, size=300))

    def deviation():
        model = GaussianProcessRegressor(neighbors=32, random_state=0).fit(X, y)
        mean, std = model.predict(new, return_std=True)
        error = mean - np.sin(1.5 * new).sum(axis=1)
        return np.sqrt(np.square(error).mean()), np.sqrt(np.square(error / std).mean())

    # Errors outside of the rows are those of one function: they depend on each other, and their number is no measure.
    error, ratio = deviation()
    assert error < 1.0
    assert ratio < 2.2
    monkeypatch.setattr("mercer.learners.processes.neighbors.LEAST_EVIDENCE_ROWS", 10**9)
    assert deviation()[1] > 3  # with the lengthscales of left-out rows, whose near rows are on all sides


def test_constant_columns_do_not_matter_whatever_they_become():
    X, y = rows(60)
    model = GaussianProcessRegressor(neighbors=8, random_state=0).fit(X, y)
    wider = GaussianProcessRegressor(neighbors=8, random_state=0).fit(np.column_stack([X, np.full(60, 3.0)]), y)
    new, _ = rows(20, 1)
    found = wider.predict(np.column_stack([new, np.full(20, 1e6)]), return_std=True)
    np.testing.assert_allclose(found, model.predict(new, return_std=True), rtol=1e-9)


def test_density_and_intervals_of_new_targets(fitted):
    X, y = rows(2000, 1)
    mean, std = fitted.predict(X, return_std=True, with_noise=True)
    normal = -0.5 * np.square((y - mean) / std) - np.log(std) - 0.5 * np.log(2 * np.pi)
    density = fitted.predict_log_density(X, y)
    assert density.mean() > normal.mean() - 0.01
    for level in (0.5, 0.9):
        ends = fitted.predict_interval(X, level)
        inside = float(((ends[:, 0] < y) & (y < ends[:, 1])).mean())
        # The quantile is that of 600 errors, and the share that of 2000 new ones: four standard deviations.
        assert abs(inside - level) < 4 * np.sqrt(level * (1 - level) * (1 / 600 + 1 / 2000))


@pytest.mark.slow
def test_shared_lengthscale_and_given_kernels():
    X, y = rows()
    shared = GaussianProcessRegressor(neighbors=24, lengthscale_tuning="shared", random_state=0).fit(X, y)
    assert len(set(np.round(np.asarray(shared.kernel_.lengthscales) / X.std(axis=0), 1))) == 1
    given = GaussianProcessRegressor(Matern(1.5, 0.7), neighbors=24, lengthscale_tuning=None, random_state=0).fit(X, y)
    assert given.kernel_ == Matern(1.5, 0.7)
    assert given.tuning_ == ()
    smooth = GaussianProcessRegressor(Matern(1.5, 0.7), neighbors=24, random_state=0).fit(X, y)
    assert {trial.profile for trial in smooth.tuning_} == {"matern32"}
    other = GaussianProcessRegressor(RationalQuadratic(lengthscale=1.0), neighbors=16, random_state=0).fit(X, y)
    new, targets = rows(300, 2)
    for model in (shared, given, smooth, other):
        assert model.score(new, targets) > 0.9


def test_parameters_that_do_not_combine_raise(fitted):
    X, y = rows(50)
    with pytest.raises(ParameterError, match="got noise without amplitude"):
        GaussianProcessRegressor(neighbors=8, noise=0.1).fit(X, y)
    with pytest.raises(ParameterError, match="variance_method='pathwise'"):
        GaussianProcessRegressor(neighbors=8, variance_method="pathwise").fit(X, y)
    with pytest.raises(ParameterError, match="return_cov=True needs the joint"):
        fitted.predict(X, return_cov=True)
    with pytest.raises(ParameterError, match="sample_y needs the joint"):
        fitted.sample_y(X)
    with pytest.raises(ParameterError, match="eval_gradient"):
        fitted.log_marginal_likelihood(eval_gradient=True)
    with pytest.raises(DataError, match="shape"):
        fitted.predict_log_density(X, y[:10])
    assert not hasattr(fitted, "partial_fit")


def test_model_file_predicts_the_same(fitted, tmp_path):
    save_model(fitted, tmp_path / "model.mercer")
    again = load_model(tmp_path / "model.mercer")
    X, y = rows(50, 3)
    np.testing.assert_array_equal(again.predict_interval(X), fitted.predict_interval(X))
    np.testing.assert_array_equal(again.predict_log_density(X, y), fitted.predict_log_density(X, y))
    assert again.local_.parts == fitted.local_.parts


def test_blocks_and_rows_in_their_source_give_the_same_model():
    X, y = rows(400)
    blocks = [(X[:150], y[:150]), (X[150:], y[150:])]
    kernel = Matern(1.5, 1.0)
    base = GaussianProcessRegressor(kernel, lengthscale_tuning=None, random_state=0)
    new, _ = rows(40, 1)
    near = LocalCorrection(24, parts="local")
    memory = clone(base).set_params(neighbors=near).fit(X, y)
    stream = clone(base).set_params(neighbors=near).fit(blocks)
    source = clone(base).set_params(neighbors=LocalCorrection(24, parts="local", rows="source")).fit(blocks)
    for other in (stream, source):
        np.testing.assert_allclose(other.predict(new), memory.predict(new), atol=1e-6)
        one, two = (m.predict(new, return_std=True)[1] for m in (memory, other))
        np.testing.assert_allclose(two, one, rtol=1e-3)
    assert np.isnan(source.log_marginal_likelihood_value_)


def test_repetitions_equal_weights_and_several_targets():
    X, y = rows(200)
    counts = np.arange(200) % 2 + 1
    targets = np.column_stack([y, 100 * y + 5])
    base = GaussianProcessRegressor(Matern(1.5, 1.0), lengthscale_tuning=None, neighbors=16, random_state=0)
    weighted = clone(base).fit(X, targets, sample_weight=counts)
    repeated = clone(base).fit(np.repeat(X, counts, axis=0), np.repeat(targets, counts, axis=0))
    new, _ = rows(30, 1)
    np.testing.assert_allclose(weighted.predict(new), repeated.predict(new), rtol=1e-5)
    plain = clone(base).fit(X, targets)
    mean, std = plain.predict(new, return_std=True)
    np.testing.assert_allclose(mean[:, 1], 100 * mean[:, 0] + 5, rtol=1e-6)
    np.testing.assert_allclose(std[:, 1], 100 * std[:, 0], rtol=1e-6)
    assert weighted.predict_interval(new).shape == (30, 2, 2)


@pytest.mark.parametrize("n", [2, 5])
def test_few_rows(n):
    X, y = rows(n)
    model = GaussianProcessRegressor(neighbors=8, random_state=0).fit(X, y)
    assert np.isfinite(model.predict(X, return_std=True)).all()
    assert np.isfinite(model.predict_interval(X)).all()


def test_exported_predictions_are_those_of_near_rows(fitted, tmp_path):
    from mercer.errors import ExportError
    from mercer.export import export_model

    export_model(fitted, tmp_path / "model.py", to="python")  # compares results, and raises if they differ
    with pytest.raises(ExportError, match="local scales"):
        export_model(fitted, tmp_path / "other.py", to="python", return_std=True)


def test_equal_targets_are_refused():
    X = np.random.default_rng(0).normal(size=(80, 2))
    with pytest.raises(DataError, match="needs targets that differ"):
        GaussianProcessRegressor(neighbors="auto", random_state=0).fit(X, np.full(80, 3.0))


def test_targets_without_noise_are_interpolated():
    X, _ = rows(300)
    y = np.sin(X[:, 0])
    model = GaussianProcessRegressor(neighbors=32, random_state=0).fit(X, y)
    new, _ = rows(100, 1)
    assert np.abs(model.predict(new) - np.sin(new[:, 0])).max() < 1e-2


# ---- copies -----------------------------------------------------------------------------------


def noisy(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 2))
    return X, np.sin(2 * X[:, 0]) * X[:, 1] + 0.3 * rng.normal(size=n)


def test_a_table_that_is_repeated_gives_the_same_process():
    X, y = noisy(150)
    new = noisy(100, 1)[0]
    base = GaussianProcessRegressor(neighbors=24, random_state=0)
    plain, doubled = (clone(base).fit(X, y, weight) for weight in (None, np.full(150, 2.0)))
    tripled = clone(base).fit(np.tile(X, (3, 1)), np.tile(y, 3))
    for other in (doubled, tripled):
        assert other.noise_ == pytest.approx(plain.noise_, rel=1e-6)
        for a, b in zip(other.predict(new, return_std=True), plain.predict(new, return_std=True), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)
    # With rows in their source, coefficients of the features are those of highest evidence of all copies.
    source = clone(base).set_params(neighbors=LocalCorrection(24, rows="source"))
    one, other = clone(source).fit(X, y), clone(source).fit(np.tile(X, (2, 1)), np.tile(y, 2))
    assert other.noise_ == pytest.approx(one.noise_, rel=0.05)
    assert np.std(other.predict(new) - one.predict(new)) < 0.15 * one.noise_
    assert 0.2 < plain.noise_ < 0.4


@pytest.mark.parametrize("how", ["copies", "weights"])
def test_copies_with_equal_targets_do_not_hide_the_noise(how):
    X, y = noisy(300)
    new, target = noisy(2000, 1)
    weight, index = None, np.r_[np.arange(300), np.arange(60)]
    if how == "weights":
        weight, index = np.r_[np.full(60, 4.0), np.ones(240)], np.arange(300)
    model = GaussianProcessRegressor(neighbors=24, random_state=0).fit(X[index], y[index], weight)
    assert 0.24 < model.noise_ < 0.36  # 0.3, with a standard error of 0.3 / sqrt(600) and the freedom of the function
    mean, std = model.predict(new, return_std=True, with_noise=True)
    # The scale is that of 300 left-out rows: four standard errors of a mean of 300 squares are 4 sqrt(2 / 300) = 0.33.
    assert np.mean(np.square((target - mean) / std)) == pytest.approx(1, abs=0.33)


def test_near_copies_do_not_make_standard_deviations_too_large(monkeypatch):
    # Half of the rows have near copies, six of which differ: with the noise that suits all others, which the search for
    # the noise finds if its sample lacks these six, their errors have a hundred standard deviations.
    rng = np.random.default_rng(3)
    X, new = rng.uniform(0, 1, size=(600, 2)), rng.uniform(0, 1, size=(1000, 2))
    y, truth = (np.sin(40 * rows[:, 0]) + np.cos(40 * rows[:, 1]) for rows in (X, new))
    near, other = X[:300] + 1e-5 * rng.normal(size=(300, 2)), y[:300].copy()
    other[-6:] += rng.normal(size=6)
    monkeypatch.setattr("mercer.solvers.local.near_fit.best_noise", lambda *_: 1e-6)
    base = GaussianProcessRegressor(
        Matern(0.5, 0.2), neighbors=LocalCorrection(24, parts="local"), lengthscale_tuning=None, random_state=0
    )
    model = base.fit(np.vstack([X, near]), np.r_[y, other])
    mean, std = model.predict(new, return_std=True, with_noise=True)
    assert 0.5 < np.median(std) / np.sqrt(np.mean(np.square(mean - truth))) < 2
    raw = model.local_posterior_.predict(new, return_std=True, with_noise=True, normal=False)[1][:, 0]
    low, high = model.predict_interval(new, 0.9).T
    assert (high - low) / raw == pytest.approx((high - low)[0] / raw[0])  # intervals have the scale of their errors


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_uneven_weights_leave_the_function_an_error_bar(seed):
    rng = np.random.default_rng(seed)
    X, T = rng.uniform(-2, 2, size=(400, 2)), rng.uniform(-2, 2, size=(200, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=400)
    weight = rng.integers(1, 6, 400).astype(float)
    model = GaussianProcessRegressor(neighbors=24, random_state=0).fit(X, y, sample_weight=weight)
    mean, std = model.predict(T, return_std=True)
    # Errors of the function at near rows are correlated, so that this ratio varies; it was 750 for seed 0.
    assert np.sqrt(np.mean(np.square((mean - np.sin(2 * T[:, 0])) / std))) < 3.5
    assert model.amplitude_ > 0.1


def test_weights_divide_a_given_noise():
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(150, 2)), rng.normal(size=(40, 2))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=150)
    kernel = Gaussian(1.5)

    def predicted(noise, weight):
        model = GaussianProcessRegressor(
            kernel, neighbors=32, noise=noise, amplitude=1.0, lengthscale_tuning=None, random_state=0
        )
        return model.fit(X, y, sample_weight=weight).predict(T, return_std=True)

    for one, other in zip(predicted(0.3, np.full(150, 16.0)), predicted(0.075, None), strict=True):
        assert one == pytest.approx(other, rel=1e-6)
    # The twin: without weights the standard deviations are larger.
    assert (predicted(0.3, None)[1] > 1.5 * predicted(0.075, None)[1]).mean() > 0.9
