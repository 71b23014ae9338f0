"""Gaussian processes on a grid agree with the exact process, and are robust to what rows may be."""

import pickle
import re

import numpy as np
import pytest
import scipy.linalg

from mercer import (
    DataError,
    Gaussian,
    GridFourier,
    GridGaussianProcessRegressor,
    Matern,
    MercerWarning,
    Nystroem,
    ParameterError,
    RandomFourier,
    Transformed,
    UnsupportedKernelError,
    load_model,
    save_model,
)

NOISE = 0.3


class Exact:
    """The exact process, by its formulas."""

    def __init__(self, kernel, X, y, noise=NOISE, weight=None):
        self.kernel, self.X = kernel, X
        w = np.ones(len(y)) if weight is None else weight
        self.factor = scipy.linalg.cholesky(kernel(X) + np.diag(noise**2 / w), lower=True)
        self.alpha = scipy.linalg.cho_solve((self.factor, True), y)
        self.value = -0.5 * y @ self.alpha - np.log(np.diag(self.factor)).sum() - 0.5 * len(y) * np.log(2 * np.pi)

    def predict(self, X):
        k = self.kernel(X, self.X)
        half = scipy.linalg.solve_triangular(self.factor, k.T, lower=True)
        return k @ self.alpha, self.kernel(X) - half.T @ half


def truth(X):
    return np.cos(2 * np.pi * X @ np.array([1.5, 1.0, 0.5])[: X.shape[1]] + 1.3)


def table(n=400, d=2, seed=0, new=100):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n + new, d))
    y = truth(X) + NOISE * rng.normal(size=n + new)
    return X[:n], y[:n], X[n:], y[n:]


def fixed(kernel, **options):
    parameters = {"noise": NOISE, "amplitude": 1.0, "lengthscale_tuning": None, "normalize_y": False, **options}
    return GridGaussianProcessRegressor(kernel, **parameters)


CASES = [(Gaussian(0.2), 1), (Matern(1.5, 0.3), 1), (Matern(0.5, 0.5), 1), (Gaussian(0.3), 2), (Matern(2.5, 0.4), 2),
         (Gaussian(0.5), 3), (Transformed(Gaussian(), lengthscales=(0.2, 0.5)), 2)]  # fmt: skip


@pytest.mark.parametrize(("kernel", "d"), CASES, ids=repr)
def test_mean_variance_and_evidence_are_those_of_the_exact_process(kernel, d):
    X, y, new, _ = table(d=d)
    model, exact = fixed(kernel).fit(X, y), Exact(kernel, X, y)
    mean, covariance = exact.predict(new)
    got, std = model.predict(new, return_std=True)
    deviation = np.sqrt(np.diag(covariance))
    assert np.sqrt(np.mean(np.square(got - mean))) < 0.04 * deviation.mean()
    assert np.abs(std / deviation - 1).max() < 0.03
    assert model.edge_ <= 0.0051
    assert abs(model.log_marginal_likelihood_value_ - exact.value) < 0.02 * abs(exact.value)
    _, cov = model.predict(new[:20], return_cov=True)
    assert np.abs(cov - covariance[:20, :20]).max() < 0.03 * covariance.max()
    _, noisy = model.predict(new, return_std=True, with_noise=True)
    assert np.allclose(noisy**2, std**2 + NOISE**2)


def test_a_grid_that_is_too_small_does_not_agree():
    # The twin of the test above: with a fifth of the components it fails.
    X, y, new, _ = table()
    kernel = Matern(2.5, 0.2)
    right = fixed(kernel).fit(X, y)
    with pytest.warns(MercerWarning, match="too small for these rows and this noise"):
        small = fixed(kernel, max_components=right.width_ // 5).fit(X, y)
    mean, _ = Exact(kernel, X, y).predict(new)
    errors = [np.sqrt(np.mean(np.square(model.predict(new) - mean))) for model in (right, small)]
    assert errors[0] < 4e-3 < errors[1]
    assert small.edge_ > 0.05


@pytest.mark.parametrize("kernel", [Gaussian(0.25), Matern(2.5, 0.5)], ids=repr)
def test_gradients_of_the_evidence(kernel):
    X, y, _, _ = table(300)
    model = fixed(kernel).fit(X, y)

    def exact(log_scale, log_noise, log_amplitude):
        scaled = np.exp(2 * log_amplitude) * type(kernel)(
            **{**kernel.get_params(), "lengthscale": kernel.lengthscale * np.exp(log_scale)}
        )
        return Exact(scaled, X, y, NOISE * np.exp(log_noise)).value

    step = 1e-4
    numerical = [(exact(*(step * e)) - exact(*(-step * e))) / (2 * step) for e in np.eye(3)]
    value, (by_noise, by_amplitude) = model.log_marginal_likelihood(eval_gradient=True)
    got = np.array([model.lengthscale_gradient().sum(), by_noise, by_amplitude])
    assert np.abs(got - numerical).max() < 0.02 * np.abs(numerical).max()
    up = model.log_marginal_likelihood(noise=NOISE * np.exp(step))
    assert (up - value) / step == pytest.approx(by_noise, rel=1e-2)
    up = model.log_marginal_likelihood(amplitude=np.exp(step))
    assert (up - value) / step == pytest.approx(by_amplitude, rel=1e-2)


def test_samples_have_the_moments_of_the_posterior():
    X, y, new, _ = table()
    model = fixed(Gaussian(0.3)).fit(X, y)
    rows = np.concatenate([new[:10], [[50.0, 50.0], [50.0, 50.1]]])
    mean, cov = model.predict(rows, return_cov=True)
    draws = model.sample_y(rows, 4000, random_state=1)
    assert draws.shape == (12, 4000)
    assert np.array_equal(draws, model.sample_y(rows, 4000, random_state=1))
    # Means have a standard error of s / sqrt(4000), and variances of sqrt(2 / 4000) of themselves; five times these.
    std = np.sqrt(np.diag(cov))
    assert (np.abs(draws.mean(axis=1) - mean) < 5 * std / np.sqrt(4000)).all()
    correlation = np.cov(draws) / np.outer(std, std) - cov / np.outer(std, std)
    assert np.abs(correlation).max() < 5 * np.sqrt(2 / 4000)


def test_conjugate_gradients_give_the_solution_of_a_factorization(monkeypatch):
    from mercer.solvers.grid import posterior

    X, y, new, _ = table()
    monkeypatch.setattr(posterior, "FEW", 10_000)
    dense = fixed(Matern(2.5, 0.4)).fit(X, y)
    monkeypatch.setattr(posterior, "FEW", 100)
    monkeypatch.setattr(posterior, "BLOCK", 100)
    iterated = fixed(Matern(2.5, 0.4)).fit(X, y)
    assert dense.n_steps_ == 0 < iterated.n_steps_ < 200
    assert np.abs(dense.predict(new) - iterated.predict(new)).max() < 1e-4
    std = dense.predict(new, return_std=True)[1]
    covariance = dense.predict(new[:20], return_cov=True)[1]
    monkeypatch.setattr(posterior, "VARIANCE_COMPONENTS", dense.width_ // 3)
    assert np.abs(iterated.predict(new, return_std=True)[1] / std - 1).max() < 0.01
    assert np.abs(iterated.predict(new[:20], return_cov=True)[1] - covariance).max() < 0.01 * covariance.max()
    # Samples have this covariance, too: by the covariances of few rows, and by one system for each sample. Entries of
    # the covariance of standardized samples have standard errors of sqrt(2 / 500) at most; five times this.
    expected = covariance[:5, :5] / np.outer(std[:5], std[:5])
    for solved in (2000, 0):
        monkeypatch.setattr(posterior, "MOST_SOLVED", solved)
        draws = (iterated.sample_y(new[:5], 500) - iterated.predict(new[:5])[:, None]) / std[:5, None]
        assert np.abs(draws @ draws.T / 500 - expected).max() < 5 * np.sqrt(2 / 500)
        assert np.abs(draws.mean(axis=1)).max() < 5 / np.sqrt(500)


@pytest.mark.parametrize("way", ["factorized", "rows", "one system per sample", "samples do not converge"])
def test_samples_have_the_variance_that_the_grid_leaves_out(monkeypatch, way):
    """The same standard deviations as those of predictions, however samples are drawn."""
    from mercer.solvers.grid import posterior, systems

    X, y, new, _ = table(100, new=20)
    monkeypatch.setattr("mercer.learners.processes.grid.MOST_STORED", 0)
    if way != "factorized":
        monkeypatch.setattr(posterior, "FEW", 100)
        monkeypatch.setattr(posterior, "BLOCK", 100)
        monkeypatch.setattr(posterior, "VARIANCE_COMPONENTS", 100)
    if way == "samples do not converge":
        monkeypatch.setattr(systems, "MOST_BASIS", 2)
    with pytest.warns(MercerWarning):  # the grid is capped
        model = fixed(Matern(1.5, 0.05), max_components=400).fit(X, y)
    mean, std = model.predict(new, return_std=True)
    count = 200 if way in ("factorized", "rows") else 15
    if way == "one system per sample":
        draws = np.concatenate([model.sample_y(new, count, random_state=seed) for seed in range(14)], axis=1)
    else:
        draws = model.sample_y(new, count, random_state=0)
    ratio = ((draws - mean[:, None]) / std[:, None]).std()
    # 20 rows whose left-out parts are independent: squares of at least 300 standard normal numbers.
    assert abs(ratio - 1) < 4 * np.sqrt(0.5 / 300)


@pytest.mark.slow
def test_samples_on_large_grids_have_the_variances_of_the_exact_process(monkeypatch):
    from mercer.solvers.grid import posterior

    monkeypatch.setattr("mercer.learners.processes.grid.MOST_STORED", 0)
    monkeypatch.setattr(posterior, "MOST_SOLVED", 0)  # one system for each sample
    X, y, _, _ = table(1000)
    rng = np.random.default_rng(1)
    X[:900], new = (rng.uniform(0.4, 0.5, size=(n, 2)) for n in (900, 50))  # not spread evenly
    kernel = Matern(1.5, 0.05)
    model = fixed(kernel).fit(X, y)
    assert model.width_ > 4000
    mean, covariance = Exact(kernel, X, y).predict(new)
    std = np.sqrt(np.diag(covariance))
    squares = np.square((model.sample_y(new, 60, random_state=1) - mean[:, None]) / std[:, None])
    # Squares of standard normal numbers of the rows of a sample have the correlations of the rows, squared.
    error = np.sqrt(2 * np.square(covariance / np.outer(std, std)).sum() / 60) / 50
    assert abs(squares.mean() - 1) < 4 * error < 0.25


def test_systems_that_do_not_converge_are_reported_once(monkeypatch):
    from mercer.solvers.grid import posterior, systems

    X, y, new, _ = table()
    model = fixed(Matern(2.5, 0.4)).fit(X, y)
    monkeypatch.setattr(posterior, "VARIANCE_COMPONENTS", 100)
    monkeypatch.setattr(posterior, "BLOCK", 100)
    monkeypatch.setattr(systems, "MOST_STEPS", 2)
    monkeypatch.setattr(systems, "MOST_BASIS", 2)
    many = np.tile(new, (25, 1))  # samples of fewer rows would be drawn from their covariances
    for call, what in (
        (lambda: model.predict(new, return_std=True), r"Variances on a grid .*: \d\d+ of \d\d+ systems, in up to 2 "),
        (lambda: model.predict(new[:30], return_cov=True), "Covariances on a grid .*: 30 of 30 systems"),
        (lambda: model.sample_y(many, 20), "Samples on a grid .*: 20 of 20 systems, in up to 2 steps"),
    ):
        with pytest.warns(MercerWarning, match=what) as found:
            call()
        assert len(found) == 1


def test_blocks_of_weight_zero_change_nothing():
    X, y, new, _ = table()
    model = fixed(Gaussian(0.3)).partial_fit(X, y)
    mean, std = model.predict(new, return_std=True)
    model.partial_fit(X[:10], y[:10], sample_weight=np.zeros(10))
    for expected, found in zip((mean, std), model.predict(new, return_std=True), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize(("d", "kernel"), [(2, Matern(1.5, 0.1)), (3, Matern(2.5, 0.4))])
def test_standard_deviations_on_large_grids_are_those_of_the_exact_process(monkeypatch, tmp_path, d, kernel, stored):
    if not stored:  # conjugate gradients
        monkeypatch.setattr("mercer.learners.processes.grid.MOST_STORED", 0)
    X, y, new, _ = table(400, d)
    X[:, 0] = np.where(X[:, 0] < 0.5, X[:, 0], 0.5 + X[:, 0] / 2)  # a gap, in which covariances do not decay
    new = np.concatenate([new[:60], [[0.6] * d, [-0.1] * d, [30.0] * d]])
    model = fixed(kernel).fit(X, y)
    assert model.width_ > 4000
    assert (model.posterior_.rows is not None) == stored
    covariance = Exact(kernel, X, y).predict(new)[1]
    expected = np.sqrt(np.diag(covariance))
    std = model.predict(new, return_std=True)[1]
    assert np.abs(std / expected - 1).max() < (1e-6 if stored else 0.02)
    # What is solved for together changes the result by less than the tolerance.
    assert np.abs(model.predict(new[:20], return_std=True)[1] / std[:20] - 1).max() < 0.01
    found = model.predict(new[:20], return_cov=True)[1]
    assert np.abs(found - covariance[:20, :20]).max() < 0.02 * covariance.max()
    save_model(model, tmp_path / "model.mercer")
    for other in (load_model(tmp_path / "model.mercer"), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(other.predict(new[:9], return_std=True)[1], model.predict(new[:9], return_std=True)[1])
    if stored:  # samples have the exact covariance too
        draws = model.sample_y(new[55:], 4000, random_state=1)
        errors = np.cov(draws) - covariance[55:, 55:]
        assert np.abs(errors / np.outer(expected[55:], expected[55:])).max() < 5 * np.sqrt(2 / 4000)
    assert model.partial_fit(X[:50], y[:50]).posterior_.rows is None  # they would not be all rows


def test_standard_deviations_of_many_rows_state_their_error(monkeypatch):
    from mercer.solvers.grid import posterior, variance

    X, y, new, _ = table(400)
    monkeypatch.setattr("mercer.learners.processes.grid.MOST_STORED", 0)
    model = fixed(Matern(1.5, 0.1)).fit(X, y)
    std = model.predict(new, return_std=True)[1]
    with monkeypatch.context() as changed:
        changed.setattr(variance, "MOST_SYSTEMS", 3)
        changed.setattr(posterior, "SCALED_BY", 3)
        with pytest.warns(MercerWarning, match="of 100 rows"):
            model.predict(new, return_std=True)
    monkeypatch.setattr(posterior, "MOST_SOLVED", 60)
    with pytest.warns(MercerWarning, match=r"relative error is \d+%") as found:
        rough = model.predict(new, return_std=True)[1]
    stated = float(re.search(r"is (\d+)%", str(found[0].message))[1]) / 100
    error = np.sqrt(np.mean(np.square(rough / std - 1)))
    assert 0.5 * stated < error < 2 * stated


def test_far_rows_return_to_the_prior():
    X, y, _, _ = table(d=1)
    model = fixed(Gaussian(0.1), amplitude=2.0, normalize_y=True).fit(X, y)
    part = model.feature_map_.features_.parts[0]
    period = 0.1 / part.spacing[0]
    far = np.array([[0.5 + period], [1 + period / 2], [-1e5], [1e300]])
    mean, std = model.predict(far, return_std=True)
    assert np.allclose(mean, y.mean())
    assert np.allclose(std, 2.0)
    near = np.array([[1.05], [-0.1]])
    exact, covariance = Exact(4 * Gaussian(0.1), X, y - y.mean()).predict(near)
    mean, std = model.predict(near, return_std=True)
    assert np.abs(mean - y.mean() - exact).max() < 0.02
    assert np.abs(std / np.sqrt(np.diag(covariance)) - 1).max() < 0.02


def test_hyperparameters_are_tuned_by_the_evidence():
    X, y, new, target = table(800)
    model = GridGaussianProcessRegressor(Gaussian("median"), random_state=0).fit(X, y)
    assert 0.27 < model.noise_ < 0.33
    assert np.sqrt(np.mean(np.square(model.predict(new) - truth(new)))) < 0.1
    assert len(model.tuning_) > 5
    assert model.kernel_.lengthscale < 0.4
    z = (target - model.predict(new)) / model.predict(new, return_std=True, with_noise=True)[1]
    assert 0.8 < z.std() < 1.2
    slopes = model.log_marginal_likelihood(eval_gradient=True)[1]
    assert np.abs(slopes).max() < 0.05 * len(X)


@pytest.mark.parametrize("factors", [(1e6, 1.0), pytest.param((1e-6, 1e6), marks=pytest.mark.slow)])
def test_units_do_not_matter(factors):
    X, y, new, _ = table(150)
    # Offsets have the unit of their column: 7 added to values of 1e-6 would round them to nine digits, by which the
    # search ends elsewhere on its flat maximum.
    offset = 7.0 * np.array(factors)
    plain = GridGaussianProcessRegressor(random_state=0).fit(X, y)
    scaled = GridGaussianProcessRegressor(random_state=0).fit(X * factors + offset, 1e5 * y - 3e6)
    assert np.allclose(scaled.predict(new * factors + offset), 1e5 * plain.predict(new) - 3e6, atol=1e5 * 1e-3)
    assert scaled.noise_ == pytest.approx(1e5 * plain.noise_, rel=1e-3)


@pytest.mark.slow
def test_additive_kernels_of_groups_of_columns():
    rng = np.random.default_rng(5)
    X = rng.uniform(size=(700, 5)) * [1, 1e3, 1, 1, 1e-4]
    f = np.sin(6 * X[:, 0]) + np.cos(X[:, 1] / 200) * np.sin(4 * X[:, 2]) + X[:, 3]
    y = f + 0.1 * rng.normal(size=700)
    groups = [(0,), (1, 2), (3,), (4,)]
    model = GridGaussianProcessRegressor(GridFourier(column_groups=groups), random_state=0).fit(X[:500], y[:500])
    assert np.sqrt(np.mean(np.square(model.predict(X[500:]) - f[500:]))) < 0.1
    _, std = model.predict(X[500:], return_std=True, with_noise=True)
    assert 0.8 < ((y[500:] - model.predict(X[500:])) / std).std() < 1.2


def test_sums_of_kernels_agree_with_the_exact_process():
    rng = np.random.default_rng(6)
    X = rng.uniform(size=(400, 5))
    y = np.sin(6 * X[:, 0]) + X[:, 3] + 0.1 * rng.normal(size=400)
    kernel = 0.5 * Transformed(Gaussian(0.4), columns=(0, 3)) + Transformed(Matern(1.5, 0.5), columns=(2,))
    fit = fixed(kernel).fit(X[:300], y[:300])
    exact = Exact(kernel, X[:300], y[:300])
    mean, covariance = exact.predict(X[300:])
    got, std = fit.predict(X[300:], return_std=True)
    assert np.sqrt(np.mean(np.square(got - mean))) < 4e-3
    assert np.abs(std / np.sqrt(np.diag(covariance)) - 1).max() < 0.03
    far = X[:2] + np.array([1e3, 0, 0, 0, 0])
    _, cov = fit.predict(far, return_cov=True)
    assert np.allclose(np.sqrt(np.diag(cov)), fit.predict(far, return_std=True)[1])
    assert fit.sample_y(far, 3).shape == (2, 3)


def test_several_targets():
    X, y, new, _ = table()
    both = np.column_stack([y, 100 * y + 5.0])
    model = GridGaussianProcessRegressor(Gaussian(0.3), lengthscale_tuning=None).fit(X, both)
    one = GridGaussianProcessRegressor(Gaussian(0.3), lengthscale_tuning=None).fit(X, y)
    mean, std = model.predict(new, return_std=True)
    assert mean.shape == std.shape == (len(new), 2)
    assert np.allclose(mean[:, 1], 100 * mean[:, 0] + 5.0)
    assert np.allclose(model.noise_[1], 100 * model.noise_[0])
    assert np.abs(mean[:, 0] - one.predict(new)).max() < 1e-2
    assert model.sample_y(new, 3).shape == (len(new), 2, 3)
    given = fixed(Gaussian(0.3), normalize_y=True).fit(X, both)
    assert np.allclose(given.noise_, NOISE)
    assert np.allclose(
        given.predict(new)[:, 0], fixed(Gaussian(0.3), normalize_y=True).fit(X, y).predict(new), atol=1e-6
    )


def test_weights_divide_the_variance_of_the_noise():
    X, y, new, _ = table()
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    model = fixed(Gaussian(0.3)).fit(X, y, sample_weight=weight)
    mean, _ = Exact(Gaussian(0.3), X, y, weight=weight).predict(new)
    assert np.abs(model.predict(new) - mean).max() < 5e-3


@pytest.mark.parametrize(
    "change",
    [
        lambda X, y: (X[:1], y[:1]),
        lambda X, y: (np.repeat(X[:3], 20, axis=0), np.repeat(y[:3], 20)),
        lambda X, y: (X * [1.0, 0.0], y),
        lambda X, y: (X * 0.0, y),
        lambda X, y: (X, np.full(len(y), 3.0)),
        lambda X, y: (np.asfortranarray(X.astype(np.float32)), y.astype(np.float32)),
        lambda X, y: (X, 1e-200 * y),
        lambda X, y: (np.concatenate([X, [[1e3, 0.0]]]), np.append(y, 0.0)),
    ],
    ids=["one row", "duplicates", "constant column", "constant rows", "constant targets", "float32", "tiny", "outlier"],
)
@pytest.mark.filterwarnings("ignore:GridGaussianProcessRegressor:mercer.MercerWarning")
def test_degenerate_rows_give_finite_predictions(change):
    X, y, new, _ = table(60, new=20)
    X, y = change(X, y)
    model = GridGaussianProcessRegressor(random_state=0, max_components=3000).fit(X, y)
    mean, std = model.predict(new, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert (std >= 0).all()


@pytest.mark.filterwarnings("ignore:.*have scales that differ:mercer.MercerWarning")
@pytest.mark.parametrize("far", [[50.0, 50.0], [1e6, 0.5]], ids=["both", "one column"])
def test_a_far_row_does_not_make_the_grid_finer(far):
    X, y, new, _ = table(300)
    kernel = Matern(2.5, 0.3)
    plain = fixed(kernel).fit(X, y)
    X, y = np.concatenate([X, [far]]), np.append(y, 1.0)
    model, exact = fixed(kernel).fit(X, y), Exact(kernel, X, y)
    assert model.n_outside_ == 0
    assert model.width_ < 4 * plain.width_
    rows = np.concatenate([new, [far, np.add(far, 0.2), [20.0, 20.0]]])
    mean, covariance = exact.predict(rows)
    got, std = model.predict(rows, return_std=True)
    assert np.abs(got - mean).max() < 0.01
    assert np.abs(std / np.sqrt(np.diag(covariance)) - 1).max() < 0.03


def test_far_rows_are_found_by_blocks_and_on_dask():
    import dask.array as da

    X, y, new, _ = table(400)
    X[13] = [80.0, -40.0]
    parts = da.from_array(X, chunks=(100, -1)), da.from_array(y, chunks=100)
    blocks = [(X[i : i + 100], y[i : i + 100]) for i in range(0, 400, 100)]
    expected = fixed(Gaussian(0.3), block_size=100).fit(X, y)
    assert [len(gaps) for gaps in expected.feature_map_.features_.parts[0].gaps] == [1, 1]
    for data in (blocks,), parts:
        assert np.array_equal(fixed(Gaussian(0.3)).fit(*data).predict(new), expected.predict(new))


def test_tails_that_no_grid_covers_are_left_out_with_a_warning():
    rng = np.random.default_rng(2)
    X = rng.standard_t(2, (2000, 2))
    y = truth(X / 5) + NOISE * rng.normal(size=2000)
    with pytest.warns(MercerWarning, match="rows are left out"):
        model = fixed(Gaussian(1.0), max_components=2500).fit(X, y)
    # One row in a hundred, by quantiles of a sample of half of the rows: each of four tails has 5 rows, +- 4.
    assert 0 < model.n_outside_ <= 20 + 4 * 2 * 4
    assert model.edge_ <= 0.0051
    central = np.abs(X).max(axis=1) < 3
    mean, _ = Exact(Gaussian(1.0), X, y).predict(X[central][:200])
    assert np.abs(model.predict(X[central][:200]) - mean).max() < 0.02 * np.sqrt(2)


def test_the_noise_does_not_depend_on_far_rows():
    X, y, _, _ = table(600)
    X[:6] += 100.0
    model = GridGaussianProcessRegressor(random_state=0).fit(X, y)
    # Its standard error is noise / sqrt(2 n), 0.009; four times that.
    assert abs(model.noise_ - NOISE) < 0.036


def test_one_row_or_equal_targets_leave_a_process_unsure():
    X, _, new, _ = table(60)
    one = GridGaussianProcessRegressor(random_state=0).fit(X[:1], [5.0])
    mean, std = one.predict(new, return_std=True)
    assert np.allclose(mean, 5.0)
    assert (std > 1.0).all()
    two = GridGaussianProcessRegressor(random_state=0).fit(X[:2], [5.0, 5.0])
    assert (two.predict(new, return_std=True)[1] > 0.1).all()


def test_errors_say_what_to_do():
    X, y, _, _ = table(60)
    for wrong in (np.full((3, 2), np.nan), np.full((3, 2), np.inf)):
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            GridGaussianProcessRegressor().fit(wrong, y[:3])
    with pytest.raises(UnsupportedKernelError, match="column_groups"):
        GridGaussianProcessRegressor().fit(np.random.default_rng(0).normal(size=(50, 5)), y[:50])
    with pytest.raises(UnsupportedKernelError, match="decays too slowly"):
        GridGaussianProcessRegressor(Matern(0.5)).fit(X, y)
    for other in (RandomFourier(), Nystroem()):
        with pytest.raises(ParameterError, match="must be a GridFourier"):
            GridGaussianProcessRegressor(other).fit(X, y)
    model = fixed(Gaussian(0.3)).fit(X, y)
    with pytest.raises(ParameterError, match="at most one"):
        model.predict(X, return_std=True, return_cov=True)
    with pytest.raises(ParameterError, match="noise must be"):
        model.log_marginal_likelihood(noise=-1.0)
    with pytest.raises(DataError, match=r"weights are zero|non-zero"):
        fixed(Gaussian(0.3)).fit(X, y, sample_weight=np.zeros(len(y)))
    blocks = iter([(X, y)])
    with pytest.raises(DataError, match="bounds="):
        fixed(Gaussian(0.3)).fit(blocks)


def test_one_pass_with_given_bounds_and_hyperparameters():
    X, y, new, _ = table()
    feature_map = GridFourier(Gaussian(0.3), bounds=([0.0, 0.0], [1.0, 1.0]))
    blocks = [(X[i : i + 10], y[i : i + 10]) for i in range(0, 400, 10)]
    with pytest.warns(MercerWarning, match="after partial_fit"):  # the grid is chosen for the first rows
        once = fixed(feature_map).fit(iter(blocks))
    again = fixed(feature_map).fit(X, y)
    assert np.abs(once.predict(new) - again.predict(new)).max() < 1e-2
    part = fixed(feature_map)
    for block in blocks:
        part.partial_fit(*block)
    with pytest.warns(MercerWarning, match="after partial_fit"):
        assert np.allclose(part.predict(new), once.predict(new), atol=1e-8)
    with pytest.raises(DataError, match="must lie in the box"):
        fixed(feature_map).fit(X + 5.0, y)


def test_sums_are_equal_to_the_bit_in_memory_from_blocks_and_on_dask(monkeypatch):
    import dask.array as da

    from mercer.statistics import grid_sums

    monkeypatch.setattr(grid_sums, "SLICE_ROWS", 40)
    X, y, _, _ = table(400)

    def sums(*data, **options):
        return fixed(Gaussian(0.3), **options).fit(*data).statistic_.weights

    expected = sums(X, y, block_size=100, n_jobs=1)
    for jobs in (2, 3):
        assert np.array_equal(sums(X, y, block_size=100, n_jobs=jobs), expected)
    assert np.array_equal(sums([(X[i : i + 100], y[i : i + 100]) for i in range(0, 400, 100)]), expected)
    parts = da.from_array(X, chunks=(100, -1)), da.from_array(y, chunks=100)
    assert np.array_equal(sums(*parts), expected)


def test_model_files(tmp_path):
    X, y, new, _ = table(200)
    groups = GridFourier(Gaussian(0.4), column_groups="each")
    for model in (fixed(Gaussian(0.3)).fit(X, y), fixed(groups).fit(X, y)):
        path = tmp_path / "model.mercer"
        save_model(model, path)
        loaded = load_model(path)
        for a, b in zip(model.predict(new, return_std=True), loaded.predict(new, return_std=True), strict=True):
            assert np.array_equal(a, b)
        assert loaded.log_marginal_likelihood_value_ == model.log_marginal_likelihood_value_
