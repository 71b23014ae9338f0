"""The Gaussian process: equal to scikit-learn's exact one where the map is exact, honest where it is not."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor as ExactProcess
from sklearn.gaussian_process import kernels as sk
from threadpoolctl import threadpool_info, threadpool_limits

from mercer import (
    DataError,
    Gaussian,
    GaussianProcessRegressor,
    Laplacian,
    Matern,
    MercerWarning,
    Nystroem,
    ParameterError,
    Polynomial,
    RandomFourier,
    Transformed,
)
from mercer.engines import base
from mercer.learners.processes import regressor


def data(n=200, d=2, seed=0, noise=0.2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + noise * rng.normal(size=n) + 3.0


def all_landmarks(kernel, n):
    return Nystroem(kernel, n, landmarks="uniform", random_state=0)


FIXED = {"noise": 0.2, "amplitude": 1.5, "lengthscale_tuning": None, "normalize_y": False}

# ---- against the exact process ----------------------------------------------------------------


@pytest.mark.covering(0)
@pytest.mark.parametrize(
    ("kernel", "exact", "n"),
    [
        (Gaussian(0.8), sk.RBF(0.8), 1000),
        (Matern(2.5, lengthscale=1.3), sk.Matern(1.3, nu=2.5), 250),
        (Matern(0.5, lengthscale=2.0), sk.Matern(2.0, nu=0.5), 250),
        (Transformed(Gaussian(), lengthscales=(0.7, 1.9)), sk.RBF([0.7, 1.9]), 250),
    ],
    ids=["gaussian", "matern", "rough", "ard"],
)
def test_with_all_rows_as_landmarks_it_is_scikit_learns_exact_process(kernel, exact, n):
    X, y = data(n)
    X_new, _ = data(50, seed=1)
    peer = ExactProcess(1.5**2 * exact + sk.WhiteKernel(0.2**2), optimizer=None).fit(X, y)
    model = GaussianProcessRegressor(all_landmarks(kernel, n), **FIXED).fit(X, y)
    mean, std = model.predict(X_new, return_std=True, with_noise=True)
    expected_mean, expected_std = peer.predict(X_new, return_std=True)
    # Rounding errors depend on the order of the landmarks.
    np.testing.assert_allclose(mean, expected_mean, rtol=0, atol=2e-6)
    np.testing.assert_allclose(std, expected_std, rtol=1e-6)
    _, cov = model.predict(X_new, return_cov=True, with_noise=True)
    np.testing.assert_allclose(cov, peer.predict(X_new, return_cov=True)[1], rtol=0, atol=1e-6)
    value, gradient = peer.log_marginal_likelihood(peer.kernel_.theta, eval_gradient=True)  # of variances
    ours, in_scales = model.log_marginal_likelihood(eval_gradient=True)
    assert ours == pytest.approx(value, rel=1e-8)
    np.testing.assert_allclose(in_scales, [2 * gradient[-1], 2 * gradient[0]], rtol=1e-6, atol=1e-6 * n)
    in_lengthscale = model.lengthscale_gradient(X, y)
    in_lengthscale = in_lengthscale if len(gradient) == 4 else in_lengthscale.sum(keepdims=True)
    np.testing.assert_allclose(in_lengthscale, gradient[1:-1], rtol=1e-6, atol=1e-6 * n)


def test_a_polynomial_kernel_of_few_monomials_is_exact_far_from_all_landmarks():
    X, y = data(300)
    X_new = 5 * data(40, seed=1)[0]
    peer = ExactProcess(1.5**2 * (sk.DotProduct(1.0) ** 2) + sk.WhiteKernel(0.2**2), optimizer=None).fit(X, y)
    model = GaussianProcessRegressor(Nystroem(Polynomial(2), 6, random_state=0), **FIXED).fit(X, y)
    mean, std = model.predict(X_new, return_std=True, with_noise=True)
    np.testing.assert_allclose(mean, peer.predict(X_new), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(std, peer.predict(X_new, return_std=True)[1], rtol=1e-5)
    assert model.log_marginal_likelihood_value_ == pytest.approx(peer.log_marginal_likelihood_value_, rel=1e-8)


def test_tuning_finds_what_scikit_learn_finds():
    X, y = data(250)
    start = 1.0 * sk.RBF(1.0) + sk.WhiteKernel(0.1)
    peer = ExactProcess(start, normalize_y=True, n_restarts_optimizer=1, random_state=0).fit(X, y)
    model = GaussianProcessRegressor(all_landmarks(Gaussian(), 250)).fit(X, y)
    theirs = np.exp(peer.kernel_.theta)
    unit = y.std()
    assert model.kernel_.lengthscale == pytest.approx(theirs[1], rel=5e-3)  # three digits are kept
    assert model.amplitude_ == pytest.approx(np.sqrt(theirs[0]) * unit, rel=2e-2)
    assert model.noise_ == pytest.approx(np.sqrt(theirs[2]) * unit, rel=2e-3)
    # Theirs is the evidence of targets over their standard deviation.
    expected = peer.log_marginal_likelihood_value_ - len(y) * np.log(unit)
    assert model.log_marginal_likelihood_value_ == pytest.approx(expected, abs=2e-2)
    assert abs(model.lengthscale_gradient(X, y).sum()) < 1.0  # the top of a hill of curvature in the hundreds
    steps = [trial.log_marginal_likelihood for trial in model.tuning_ if trial.step == "gradient"]
    assert max(steps) > steps[0]
    assert {trial.step for trial in model.tuning_} == {"factor", "gradient"}


def test_a_lengthscale_for_every_column_finds_those_that_do_not_matter():
    X, _ = data(400, d=4)
    y = np.sin(2 * X[:, 0]) + 0.1 * np.random.default_rng(3).normal(size=400)
    model = GaussianProcessRegressor(Gaussian("median"), lengthscale_tuning="ard", random_state=0).fit(X, y)
    scales = np.array(model.kernel_.lengthscales)
    assert (scales[1:] > 5 * scales[0]).all()
    one = GaussianProcessRegressor(Gaussian("median"), random_state=0).fit(X, y)
    assert model.log_marginal_likelihood_value_ > one.log_marginal_likelihood_value_ + 50
    assert 0.08 < model.noise_ < 0.12


def test_kernels_that_are_not_isotropic_are_tuned_on_random_features():
    X, y = data(300)
    kept = GaussianProcessRegressor(RandomFourier(Laplacian(30.0), 200, random_state=0), lengthscale_tuning=None).fit(
        X, y
    )
    tuned = GaussianProcessRegressor(RandomFourier(Laplacian(30.0), 200, random_state=0), random_state=0).fit(X, y)
    assert tuned.kernel_.lengthscales[0] == tuned.kernel_.lengthscales[1] < 1.0
    assert tuned.log_marginal_likelihood_value_ > kept.log_marginal_likelihood_value_
    # Without a lengthscale to speak of, a kernel keeps what it has.
    assert GaussianProcessRegressor(Polynomial(2), random_state=0).fit(X, y).tuning_ == ()


# ---- the gradient through the features --------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda s: RandomFourier(Transformed(Gaussian(), lengthscales=s), 20, directions="big_block", random_state=0),
        lambda s: RandomFourier(Transformed(Matern(), lengthscales=s), 21, directions="iid", random_state=0),
        lambda s: RandomFourier(1 + Transformed(Laplacian(), lengthscales=s), 20, random_state=0),
        lambda s: RandomFourier(Transformed(Gaussian(), lengthscales=s), 20, form="phase", random_state=0),
        lambda s: Nystroem(Transformed(Gaussian(), lengthscales=s), 20, landmarks="uniform", random_state=0),
        lambda s: Nystroem(Transformed(Matern(0.5), lengthscales=s), 20, landmarks="uniform", random_state=0),
    ],
    ids=["pairs", "odd", "constant", "phase", "landmarks", "rough landmarks"],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_lengthscale_gradient_is_that_of_differences(make, weighted):
    X, y = data(60)
    Y = np.column_stack([y, y**2])
    w = np.random.default_rng(1).uniform(0.5, 2.0, 60) if weighted else None

    def evidence(scales):
        return GaussianProcessRegressor(make(scales), **FIXED).fit(X, Y, w).log_marginal_likelihood_value_

    model = GaussianProcessRegressor(make((0.9, 1.4)), **FIXED).fit(X, Y, w)
    h = 1e-5
    for column, factor in enumerate(([np.exp(h), 1.0], [1.0, np.exp(h)])):
        above, below = (evidence(tuple(np.array([0.9, 1.4]) * np.array(factor) ** s)) for s in (1, -1))
        assert model.lengthscale_gradient(X, Y, w)[column] == pytest.approx((above - below) / (2 * h), rel=1e-6)
    if not weighted:
        blocks = [(X[i : i + 13], Y[i : i + 13]) for i in range(0, 60, 13)]
        np.testing.assert_allclose(model.lengthscale_gradient(blocks), model.lengthscale_gradient(X, Y), rtol=1e-6)


def test_maps_without_a_derivative_say_so():
    X, y = data(50, d=3)
    model = GaussianProcessRegressor(RandomFourier(Gaussian(), 16, directions="hadamard", random_state=0), **FIXED)
    with pytest.raises(ParameterError, match=r"(?s)No closed form.*needs: RandomFourier with dense directions"):
        model.fit(X, y).lengthscale_gradient(X, y)


# ---- uncertainty ------------------------------------------------------------------------------


def test_random_features_starve_and_the_others_do_not():
    """With more rows than features weight space is sure of itself everywhere: documented, and seen here."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 5))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=3000)
    far = 100 + rng.normal(size=(5, 5))
    settings = {"noise": 0.1, "amplitude": 1.0, "lengthscale_tuning": None, "random_state": 0}
    fourier = RandomFourier(Gaussian(1.0), 200, random_state=0)
    starved = GaussianProcessRegressor(fourier, **settings).fit(X, y).predict(far, return_std=True)[1]
    assert (starved < 0.2).all()  # it should be one
    for model in (
        GaussianProcessRegressor(fourier, variance_method="pathwise", **settings),
        GaussianProcessRegressor(Nystroem(Gaussian(1.0), 200, random_state=0), **settings),
    ):
        np.testing.assert_allclose(model.fit(X, y).predict(far, return_std=True)[1], 1.0, rtol=1e-6)
        assert (model.predict(X[:20], return_std=True)[1] < 1.0).all()


def test_pathwise_variance_is_exact_where_all_rows_are_kept():
    X, y = data(150)
    X_new, _ = data(30, seed=1)
    peer = ExactProcess(1.5**2 * sk.RBF(0.8) + sk.WhiteKernel(0.2**2), optimizer=None).fit(X, y)
    fourier = RandomFourier(Gaussian(0.8), 100, random_state=0)
    model = GaussianProcessRegressor(fourier, variance_method="pathwise", **FIXED).fit(X, y)
    expected = peer.predict(X_new, return_cov=True)[1]
    np.testing.assert_allclose(model.predict(X_new, return_cov=True, with_noise=True)[1], expected, atol=1e-9)
    std = model.predict(X_new, return_std=True, with_noise=True)[1]
    np.testing.assert_allclose(std, np.sqrt(np.diagonal(expected)), rtol=1e-9)
    # Fewer rows know less.
    few = clone(model).set_params(tune_rows=50).fit(X, y).predict(X_new, return_std=True, with_noise=True)[1]
    assert (few >= std - 1e-12).all()
    assert (few > 1.01 * std).any()


def moments_misfit(draws, mean, cov):
    """Return by how many calibrated radii sample means and covariances miss theirs.

    Draws are Gaussian, so with S of them a mean errs by sqrt(var / S) times a normal number, and a covariance by
    sqrt((v_i v_j + c_ij^2) / S) times one nearly normal; 7 such deviations happen once in 1e11.
    """
    S = draws.shape[1]
    variance = np.diagonal(cov)
    gap = np.abs(draws.mean(axis=1) - mean) / np.sqrt(variance / S)
    centered = draws - mean[:, None]
    spread = np.sqrt((np.outer(variance, variance) + cov**2) / S)
    return max(gap.max(), (np.abs(centered @ centered.T / S - cov) / spread).max()) / 7


@pytest.mark.parametrize("variance", ["weight-space", "landmarks", "pathwise"])
def test_draws_have_the_mean_and_the_covariance_of_the_posterior(variance):
    X, y = data(40)
    X_new = np.vstack([data(6, seed=1)[0], [[8.0, 8.0]]])
    kind = Nystroem if variance == "landmarks" else RandomFourier
    settings = {**FIXED, "variance_method": "pathwise" if variance == "pathwise" else "weight-space"}
    model = GaussianProcessRegressor(kind(Gaussian(0.8), 15, random_state=0), **settings).fit(X, y)
    mean, cov = model.predict(X_new, return_cov=True)
    if variance == "pathwise":
        # Prior paths come from few features here, so the covariance of the draws is that of Matheron's rule for these.
        Z_new, Z, kernel = model.feature_map_.transform(X_new), model.feature_map_.transform(X), Gaussian(0.8)
        pull = np.linalg.solve(kernel(X) + (0.2 / 1.5) ** 2 * np.eye(40), kernel(X, X_new)).T
        path = Z_new - pull @ Z
        cov = 1.5**2 * path @ path.T + 0.2**2 * pull @ pull.T
    draws = model.sample_y(X_new, 4000, random_state=1)
    assert draws.shape == (7, 4000)
    assert moments_misfit(draws, mean, cov) <= 1
    assert moments_misfit(draws, mean + 0.2 * np.sqrt(np.diagonal(cov)), cov) > 1
    assert moments_misfit(draws, mean, 1.3 * cov) > 1
    np.testing.assert_array_equal(draws, model.sample_y(X_new, 4000, random_state=1))


def test_paths_of_many_features_have_the_covariance_of_the_exact_process():
    X, y = data(40)
    X_new = np.vstack([data(6, seed=1)[0], [[8.0, 8.0]]])
    fourier = RandomFourier(Gaussian(0.8), 1500, random_state=0)
    model = GaussianProcessRegressor(fourier, variance_method="pathwise", **FIXED).fit(X, y)
    mean, cov = model.predict(X_new, return_cov=True)
    draws = model.sample_y(X_new, 4000, random_state=1) - mean[:, None]
    # Deviations of a kernel of 750 frequencies, and of 4000 draws, are both about 1 / sqrt(1000) of the amplitude.
    np.testing.assert_allclose(draws @ draws.T / 4000, cov, atol=1.5**2 * 6 / np.sqrt(750))
    starved = clone(model).set_params(variance_method="weight-space", feature_map__n_components=30).fit(X, y)
    assert np.abs(starved.predict(X_new, return_cov=True)[1] - cov).max() > 1.5**2 * 6 / np.sqrt(750)


@pytest.mark.slow
def test_error_bars_hold_what_they_promise():
    X, y = data(1500, noise=0.3)
    X_new, y_new = data(4000, seed=1, noise=0.3)
    mean, std = GaussianProcessRegressor(random_state=0).fit(X, y).predict(X_new, return_std=True, with_noise=True)
    z = (y_new - mean) / std
    inside = (np.abs(z) < 1.959964).mean()
    # 95 %, give or take the binomial error of 4000 rows times four, and as much for the noise not being known.
    assert abs(inside - 0.95) < 8 * np.sqrt(0.95 * 0.05 / 4000)


@pytest.mark.parametrize("noise", [1e-1, 1e-3, 1e-6])
def test_amplitude_beside_little_noise_is_that_of_scikit_learn(noise):
    X = np.random.default_rng(0).uniform(-3, 3, (300, 2))
    y = np.sin(2 * X[:, 0])
    settings = {"noise": noise, "lengthscale_tuning": None, "normalize_y": False}
    model = GaussianProcessRegressor(Nystroem(Gaussian(0.5), 300, random_state=0), **settings).fit(X, y)
    kernel = sk.ConstantKernel(1.0, (1e-8, 1e8)) * sk.RBF(0.5, "fixed")
    exact = ExactProcess(kernel, alpha=noise**2).fit(X, y)
    assert model.amplitude_ == pytest.approx(np.sqrt(exact.kernel_.k1.constant_value), rel=1e-5)
    far = np.full((1, 2), 30.0)
    assert model.predict(far, return_std=True)[1] == pytest.approx(exact.predict(far, return_std=True)[1], rel=1e-5)


@pytest.mark.parametrize("noise", [1e-1, 1e-4, 1e-6])
def test_little_noise_is_found_and_leaves_the_amplitude(noise):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 2))
    feature_map = RandomFourier(Gaussian(1.0), 50, random_state=0)
    y = feature_map.fit(X).transform(X) @ rng.normal(size=50) + noise * rng.normal(size=3000)
    model = GaussianProcessRegressor(feature_map, lengthscale_tuning=None, normalize_y=False).fit(X, y)
    # Five standard errors: of the deviation of 2950 residuals, and of 50 coefficients.
    assert model.noise_ == pytest.approx(noise, rel=5 / np.sqrt(2 * 2950))
    assert model.amplitude_ == pytest.approx(1.0, rel=5 / np.sqrt(2 * 50))


# ---- the same model on every engine ---------------------------------------------------------------


def test_every_column_of_targets_has_its_own_noise_and_amplitude():
    X, y = data(200)
    Y = np.column_stack([y, 100 * np.cos(X[:, 0]) + np.random.default_rng(3).normal(size=200)])
    fresh = GaussianProcessRegressor(RandomFourier(Gaussian(1.0), 50, random_state=0), lengthscale_tuning=None)
    both = clone(fresh).fit(X, Y)
    mean, std = both.predict(X, return_std=True)
    assert (mean.shape, std.shape, both.sample_y(X, 3).shape) == ((200, 2), (200, 2), (200, 2, 3))
    assert both.predict(X[:5], return_cov=True)[1].shape == (5, 5, 2)
    for t in range(2):
        one = clone(fresh).fit(X, Y[:, t])
        assert (one.noise_, one.amplitude_) == pytest.approx((both.noise_[t], both.amplitude_[t]), rel=1e-4)
        np.testing.assert_allclose(mean[:, t], one.predict(X), atol=1e-6 * np.abs(Y[:, t]).max())
        np.testing.assert_allclose(std[:, t], one.predict(X, return_std=True)[1], rtol=1e-5)


def test_blocks_and_partial_fit_give_the_same_process():
    X, y = data(600)
    fresh = GaussianProcessRegressor(Gaussian(), random_state=0, tune_rows=150)
    whole = clone(fresh).fit(X, y)
    blocks = [(X[i : i + 90], y[i : i + 90]) for i in range(0, 600, 90)]
    streamed = clone(fresh).set_params(feature_map=Nystroem(Gaussian(), 600, random_state=0)).fit(blocks)
    assert streamed.kernel_.lengthscale == pytest.approx(whole.kernel_.lengthscale, rel=1e-6)
    for a, b in zip(streamed.predict(X, return_std=True), whole.predict(X, return_std=True), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    # The first rows tune, later ones add.
    parts = clone(fresh).set_params(feature_map=RandomFourier(Gaussian(), 60, random_state=0))
    parts.partial_fit(X[:300], y[:300]).partial_fit(X[300:], y[300:])
    kernel = clone(parts).fit(X[:300], y[:300]).kernel_
    assert parts.kernel_ == kernel
    again = GaussianProcessRegressor(RandomFourier(kernel, 60, random_state=0), lengthscale_tuning=None).fit(X, y)
    np.testing.assert_allclose(parts.predict(X), again.predict(X), atol=1e-6)


def test_weights_equal_repetition_also_in_tuning():
    X, y = data(120)
    repeats = np.random.default_rng(0).integers(0, 3, 120)
    for kind in (RandomFourier, Nystroem):
        # The noise is given: equal targets of equal rows say that there is none.
        fresh = GaussianProcessRegressor(kind(Gaussian(1.0), 40, random_state=0), noise=0.2, random_state=0)
        weighted = clone(fresh).fit(X, y, repeats)
        repeated = clone(fresh).fit(np.repeat(X, repeats, axis=0), np.repeat(y, repeats))
        assert weighted.kernel_.lengthscale == pytest.approx(repeated.kernel_.lengthscale, rel=1e-3)
        assert weighted.kernel_.lengthscale != pytest.approx(clone(fresh).fit(X, y).kernel_.lengthscale, rel=1e-3)
        first = weighted.tuning_[0].log_marginal_likelihood
        assert first == pytest.approx(repeated.tuning_[0].log_marginal_likelihood, rel=1e-9)
        if kind is RandomFourier:  # landmarks are drawn from rows
            assert weighted.amplitude_ == pytest.approx(repeated.amplitude_, rel=1e-3)
            np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-3)


def test_float32_rows_give_results_close_to_float64():
    X, y = data(300)
    fresh = GaussianProcessRegressor(RandomFourier(Gaussian(1.0), 60, random_state=0), lengthscale_tuning=None)
    double, single = clone(fresh).fit(X, y), clone(fresh).fit(X.astype(np.float32), y)
    assert single.noise_ == pytest.approx(double.noise_, rel=1e-3)
    for a, b in zip(single.predict(X, return_std=True), double.predict(X, return_std=True), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)


# ---- bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"noise": 0.0}, r"noise must be a finite number > 0 or 'tune', got 0.0"),
        ({"amplitude": "auto"}, r"amplitude must be a finite number > 0 or 'tune', got 'auto'"),
        ({"lengthscale_tuning": 2.0}, r"lengthscale_tuning must be one of 'auto', 'shared', 'ard', None, got 2.0"),
        ({"variance_method": "exact"}, r"variance_method must be one of 'weight-space', 'pathwise', got 'exact'"),
        ({"tune_rows": 0}, r"tune_rows must be an integer >= 1, got 0"),
        (
            {"variance_method": "pathwise"},
            r"variance_method='pathwise' needs unbiased random features.*Use variance_method='weight-space'",
        ),
        (
            {"feature_map": Polynomial(2), "lengthscale_tuning": "ard"},
            r"lengthscale_tuning='ard' needs a shift-invariant kernel",
        ),
        ({"feature_map": "rbf"}, r"feature_map must be a mercer map"),
    ],
)
def test_bad_parameters_have_clear_errors(settings, message):
    X, y = data(30)
    model = GaussianProcessRegressor(**settings)
    with pytest.raises(ParameterError, match=message):
        model.fit(X, y)
    assert not hasattr(model, "feature_map_")


def test_an_iterator_cannot_be_tuned_on():
    X, y = data(50)
    with pytest.raises(
        DataError, match=r"lengthscale_tuning='auto' reads a sample of the rows first.*lengthscale_tuning=None"
    ):
        GaussianProcessRegressor(RandomFourier(Gaussian(), 20)).fit(iter([(X, y)]))


def test_other_questions_that_cannot_be_answered():
    X, y = data(50)
    model = GaussianProcessRegressor(RandomFourier(Gaussian(), 20, random_state=0), lengthscale_tuning=None).fit(X, y)
    with pytest.raises(ParameterError, match="at most one"):
        model.predict(X, return_std=True, return_cov=True)
    with pytest.raises(ParameterError, match="noise must be a finite number > 0"):
        model.log_marginal_likelihood(noise=-1.0)
    with pytest.raises(DataError, match=r"log marginal likelihood needs targets .* squares overflow"):
        model.fit(X, 1e200 * y)
    with pytest.raises(ValueError, match=r"[Ss]ample weights"):
        GaussianProcessRegressor().fit(X, y, np.zeros(50))


@pytest.mark.parametrize("tuning", ["shared", "ard", None])
def test_targets_and_features_that_do_not_vary(tuning):
    X, y = data(50)
    X[:, 1] = 7.0
    model = GaussianProcessRegressor(Gaussian(), lengthscale_tuning=tuning, random_state=0)
    assert np.isfinite(model.fit(X, y).predict(X, return_std=True)).all()
    mean, std = model.fit(X, np.full(50, 4.0)).predict(X, return_std=True)
    np.testing.assert_allclose(mean, 4.0)
    assert (std < 1e-12).all()


def test_sparse_rows_are_taken():
    import scipy.sparse as sp

    X, y = data(100)
    fresh = GaussianProcessRegressor(Gaussian(), random_state=0)
    dense, sparse = clone(fresh).fit(X, y), clone(fresh).fit(sp.csr_array(X), y)
    for a, b in zip(dense.predict(X, return_std=True), sparse.predict(sp.csr_array(X), return_std=True), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_a_process_does_not_depend_on_the_unit_of_the_targets():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=50)
    expected = GaussianProcessRegressor(random_state=0).fit(X, y)
    for unit in (1e-150, 1e-100, 1e100, 1e140):
        found = GaussianProcessRegressor(random_state=0).fit(X, unit * y)
        np.testing.assert_allclose(found.predict(X) / unit, expected.predict(X), rtol=1e-6)
        assert found.noise_ / unit == pytest.approx(expected.noise_, rel=1e-6)
        one, other = (trials[-1].log_marginal_likelihood for trials in (found.tuning_, expected.tuning_))
        assert one + np.log(unit) == pytest.approx(other, abs=1e-6)
    for unit, what in ((1e-160, "underflow"), (1e-300, "underflow"), (1e160, "overflow")):
        with pytest.raises(DataError, match=rf"log marginal likelihood needs targets .* squares {what}"):
            GaussianProcessRegressor(random_state=0).fit(X, unit * y)


# ---- landmarks that leave a part of the kernel ------------------------------------------------


def rough_data(n, seed, noise=0.1, d=4):
    """Return rows and targets of a function that a Gaussian process of lengthscale 1 samples."""
    rng = np.random.default_rng(7)
    W, b, a = rng.normal(size=(300, d)), rng.uniform(0, 2 * np.pi, 300), rng.normal(size=300) * np.sqrt(2 / 300)
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.cos(X @ W.T + b) @ a + noise * rng.normal(size=n)


@pytest.mark.parametrize("landmarks", [64, 512])
def test_intervals_hold_new_targets_at_every_number_of_landmarks(landmarks):
    X, y = rough_data(1500, 0)
    X_new, y_new = rough_data(4000, 1)
    feature_map = Nystroem(Gaussian(1.0), landmarks, random_state=0)
    model = GaussianProcessRegressor(feature_map, lengthscale_tuning=None, random_state=0).fit(X, y)
    mean, std = model.predict(X_new, return_std=True, with_noise=True)
    z = np.abs(y_new - mean) / std
    fitted = model.posterior_.fitted_scales
    rest = 1 - np.square(model.feature_map_.transform(X_new)).sum(axis=1)
    twice = std**2 - model.noise_**2 - model.amplitude_**2 * rest + fitted.noise**2 + fitted.amplitude**2 * rest
    z_twice = np.abs(y_new - mean) / np.sqrt(twice)
    for level, quantile in ((0.5, 0.67449), (0.9, 1.64485), (0.95, 1.95996)):
        # Four binomial errors of 4000 rows, and of the standard deviation two errors of 1500 rows, 1 / sqrt(2 n) each:
        # the coverage changes by 2 q phi(q) times their relative change.
        slope = 2 * quantile * np.exp(-(quantile**2) / 2) / np.sqrt(2 * np.pi)
        allowed = 4 * np.sqrt(level * (1 - level) / 4000) + slope * 2 / np.sqrt(2 * 1500)
        assert abs((z < quantile).mean() - level) < allowed
        assert (z_twice < quantile).mean() - level > (allowed if level < 0.9 else 0.02)
    assert model.noise_ < fitted.noise[0]  # which contains what the landmarks leave out
    if landmarks == 512:
        assert 0.05 < model.noise_ < 0.2  # the truth is 0.1


def test_calibration_is_the_same_for_blocks_and_partial_fit():
    X, y = rough_data(600, 0)
    fresh = GaussianProcessRegressor(Nystroem(Gaussian(1.0), landmarks=X[:50]), lengthscale_tuning=None, random_state=0)
    whole = clone(fresh).fit(X, y)
    assert whole.noise_ != whole.posterior_.fitted_scales.noise[0]
    streamed = clone(fresh).fit([(X[i : i + 90], y[i : i + 90]) for i in range(0, 600, 90)])
    once = clone(fresh).fit(iter([(X[:200], y[:200]), (X[200:], y[200:])]))
    added = clone(fresh).partial_fit(X[:200], y[:200]).partial_fit(X[200:], y[200:])
    for other in (streamed, once, added):
        # The search ends where the gradient is 1e-10; rounding errors of moments of condition 1e6 are as small.
        assert other.noise_ == pytest.approx(whole.noise_, rel=1e-6)
        assert other.amplitude_ == pytest.approx(whole.amplitude_, rel=1e-6)


def test_given_noise_is_not_calibrated():
    X, y = rough_data(300, 0)
    fresh = GaussianProcessRegressor(Nystroem(Gaussian(1.0), 30, random_state=0), noise=0.4, random_state=0)
    model = clone(fresh).fit(X, y)
    assert model.noise_ == 0.4
    assert model.posterior_.feature_scales is None
    value = model.log_marginal_likelihood()
    assert value == pytest.approx(model.log_marginal_likelihood_value_, rel=1e-12)


def test_evidence_is_at_its_maximum_beside_a_calibrated_noise():
    X, y = rough_data(600, 0)
    model = GaussianProcessRegressor(Nystroem(Gaussian(1.0), 50, random_state=0), lengthscale_tuning=None).fit(X, y)
    value, gradient = model.log_marginal_likelihood(eval_gradient=True)
    assert value == pytest.approx(model.log_marginal_likelihood_value_, rel=1e-12)
    assert np.abs(gradient).max() < 1e-6 * abs(value)
    assert model.log_marginal_likelihood(model.noise_, model.amplitude_) < value - 1


# ---- units ------------------------------------------------------------------------------------


def density(model, X, y):
    mean, std = model.predict(X, return_std=True, with_noise=True)
    return -(0.5 * np.square((y - mean) / std) + np.log(std)).mean()


UNITS = [(1e-6, 1.0, 1e6), (1e4, 1.0, 1.0), (2.54, 0.3048, 1.0)]


@pytest.mark.parametrize(
    "fresh",
    [
        GaussianProcessRegressor(tune_rows=150, random_state=0),
        GaussianProcessRegressor(Nystroem(Matern(2.5), 64, random_state=0), lengthscale_tuning="ard", tune_rows=150),
        GaussianProcessRegressor(
            RandomFourier(Gaussian(), 64, random_state=0), lengthscale_tuning="ard", tune_rows=150
        ),
    ],
    ids=["default", "ard", "fourier"],
)
def test_units_of_columns_do_not_matter(fresh):
    fresh = fresh.set_params(random_state=0)
    rng = np.random.default_rng(0)
    X, X_new = rng.normal(size=(300, 3)), rng.normal(size=(200, 3))
    y, y_new = (np.sin(2 * rows[:, 0]) + rows[:, 1] + 0.1 * rng.normal(size=len(rows)) for rows in (X, X_new))
    first = clone(fresh).fit(X, y)
    assert first.score(X_new, y_new) > 0.9
    for units in UNITS:
        model = clone(fresh).fit(X * units, y)
        assert model.score(X_new * units, y_new) == pytest.approx(first.score(X_new, y_new), abs=1e-6)
        assert density(model, X_new * units, y_new) == pytest.approx(density(first, X_new, y_new), abs=1e-6)
    # A given kernel with a common lengthscale is one of the raw columns.
    raw = GaussianProcessRegressor(Nystroem(Matern(2.5), 64, random_state=0), tune_rows=150, random_state=0)
    with pytest.warns(MercerWarning, match="scales that differ"):
        assert clone(raw).fit(X * (1e4, 1.0, 1.0), y).score(X_new * (1e4, 1.0, 1.0), y_new) < 0.8


@pytest.mark.parametrize(
    "settings", [{}, {"lengthscale_tuning": "ard"}, pytest.param({"neighbors": 16}, marks=pytest.mark.slow)], ids=str
)
def test_units_do_not_matter_without_noise(settings):
    # The kernel matrix of landmarks is nearly singular, and the noise is as small as its rounding errors. Fits are
    # equal to the last bit, since scaled columns are rounded to multiples of a number far above rounding errors.
    rng = np.random.default_rng(0)
    X, X_new = rng.uniform(size=(400, 3)), rng.uniform(size=(100, 3))
    y = np.exp(X[:, 0] + 0.5 * X[:, 1] * X[:, 2])
    fresh = GaussianProcessRegressor(tune_rows=150, random_state=0, **settings)
    first = clone(fresh).fit(X, y)
    assert first.noise_ < 1e-4
    for units in UNITS:
        model = clone(fresh).fit(X * units, y)
        for expected, found in zip(
            first.predict(X_new, return_std=True), model.predict(X_new * units, return_std=True), strict=True
        ):
            np.testing.assert_array_equal(found, expected)


def test_units_of_targets_do_not_matter():
    X, y = rough_data(300, 0, d=3)
    X_new, y_new = rough_data(200, 1, d=3)
    fresh = GaussianProcessRegressor(lengthscale_tuning="ard", tune_rows=150, random_state=0)
    first = clone(fresh).fit(X, y)
    for factor in (1e-8, 1e8):
        model = clone(fresh).fit(X, factor * y)
        assert model.kernel_ == first.kernel_
        assert model.noise_ / factor == pytest.approx(first.noise_, rel=1e-6)
        assert model.score(X_new, factor * y_new) == pytest.approx(first.score(X_new, y_new), abs=1e-6)


def test_constant_columns_do_not_matter():
    X, y = rough_data(300, 0, d=3)
    fresh = GaussianProcessRegressor(tune_rows=150, random_state=0)
    wider = np.column_stack([X[:, 0], np.full(300, 7.0), X[:, 1:]])
    with_constant = clone(fresh).fit(wider, y).predict(wider, return_std=True)
    for a, b in zip(with_constant, clone(fresh).fit(X, y).predict(X, return_std=True), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


# ---- threads ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("small", "threads"), [(2048, 1), (0, 2)])
def test_small_matrices_are_factorized_on_one_thread(monkeypatch, small, threads):
    seen = []

    def recorded(function):
        def call(*args, **kwargs):
            seen.append(max(one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"))
            return function(*args, **kwargs)

        return call

    monkeypatch.setattr(base, "SMALL_MATRIX", small)
    monkeypatch.setattr(regressor, "tune_lengthscales", recorded(regressor.tune_lengthscales))
    monkeypatch.setattr(regressor.Spectrum, "of", recorded(regressor.Spectrum.of))
    X, y = data(60)
    with threadpool_limits(2, user_api="blas"):
        GaussianProcessRegressor(Gaussian(), random_state=0).fit(X, y)
    assert seen == [threads, threads]


@pytest.mark.parametrize("feature_map", ["landmarks", "fourier", "pathwise"])
def test_precisions_are_noise_of_known_variance(feature_map):
    rng = np.random.default_rng(0)
    X, new = rng.uniform(-2, 2, size=(150, 2)), rng.uniform(-2, 2, size=(20, 2))
    variance = np.exp(rng.normal(size=150)) * 0.04
    y = np.sin(2 * X[:, 0]) + np.sqrt(variance) * rng.normal(size=150)
    kernel, amplitude = Gaussian(0.9), 1.2
    settings = {"amplitude": amplitude, "lengthscale_tuning": None, "normalize_y": False, "weights": "precisions"}
    if feature_map == "landmarks":  # all rows, so that the features are exact
        maps = Nystroem(kernel, 150, landmarks="uniform", random_state=0)
    else:
        maps = RandomFourier(kernel, 400, random_state=0)
        settings["variance_method"] = "pathwise" if feature_map == "pathwise" else "weight-space"
    model = GaussianProcessRegressor(maps, noise=1.0, random_state=0, **settings).fit(X, y, 1 / variance)
    mean, std = model.predict(new, return_std=True)
    Z = model.feature_map_.transform(X)
    gram, cross = (Z @ Z.T, Z @ model.feature_map_.transform(new).T)
    exact = ExactProcess(
        sk.ConstantKernel(amplitude**2, "fixed") * sk.RBF(0.9, "fixed"), alpha=variance, optimizer=None
    ).fit(X, y)
    K = amplitude**2 * gram + np.diag(variance)
    np.testing.assert_allclose(mean, amplitude**2 * cross.T @ np.linalg.solve(K, y), atol=1e-6)
    if feature_map != "fourier":  # the variance is that of the exact process
        np.testing.assert_allclose(std, exact.predict(new, return_std=True)[1], atol=1e-5)
    value = -0.5 * (y @ np.linalg.solve(K, y) + np.linalg.slogdet(K)[1] + 150 * np.log(2 * np.pi))
    constant = -0.5 * np.log(variance).sum()
    assert model.log_marginal_likelihood_value_ == pytest.approx(value - constant, rel=1e-8)
    same = GaussianProcessRegressor(maps, noise=1.0, random_state=0, **settings).fit(X, y)
    assert np.abs(same.predict(new) - mean).max() > 0.01


def test_precisions_tune_one_factor_of_the_noise_on_every_engine():
    rng = np.random.default_rng(1)
    X = rng.uniform(-2, 2, size=(2000, 2))
    variance = np.where(X[:, 0] > 0, 1.0, 0.01)
    y = np.sin(2 * X[:, 0]) + 0.5 * np.sqrt(variance) * rng.normal(size=2000)
    base = GaussianProcessRegressor(Nystroem(Gaussian(), 60, random_state=0), weights="precisions", random_state=0)
    model = clone(base).fit(X, y, 1 / variance)
    # The factor is the root of a mean of 2000 squares: its standard error is 0.5 / sqrt(4000) = 0.008.
    assert model.noise_ == pytest.approx(0.5, abs=0.035)
    other = clone(base).set_params(weights="repetitions").fit(X, y, 1 / variance)
    assert abs(other.noise_ - 0.5) > 0.05
    blocks = [(X[i : i + 700], y[i : i + 700], 1 / variance[i : i + 700]) for i in (0, 700, 1400)]
    stream = clone(base).fit(blocks)
    assert stream.noise_ == pytest.approx(model.noise_, rel=1e-6)
    parts = clone(base).set_params(lengthscale_tuning=None)
    whole = clone(parts).fit(X, y, 1 / variance)
    for block in blocks:
        parts.partial_fit(*block)
    assert abs(parts.noise_ / whole.noise_ - 1) < 0.2  # landmarks are those of the first block
    with pytest.raises(ParameterError, match="weights='precisions'"):
        clone(base).set_params(neighbors=8).fit(X, y)
    shares = []
    for side in (X[:, 0] > 0, X[:, 0] <= 0):
        mean = model.predict(X[side])
        shares.append(np.mean(np.abs(y[side] - mean) < 1.645 * 0.5 * np.sqrt(variance[side])))
    np.testing.assert_allclose(shares, 0.9, atol=0.05)


@pytest.mark.parametrize("tuning", ["shared", "ard"])
def test_constant_precisions_are_a_unit_of_the_noise(tuning):
    rng = np.random.default_rng(2)
    X = rng.uniform(-2, 2, size=(300, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=300)
    base = GaussianProcessRegressor(lengthscale_tuning=tuning, weights="precisions", random_state=0)
    one, many = clone(base).fit(X, y), clone(base).fit(X, y, np.full(300, 1e4))
    assert many.noise_ == pytest.approx(100 * one.noise_, rel=1e-5)
    assert many.amplitude_ == pytest.approx(one.amplitude_, rel=1e-5)
    np.testing.assert_allclose(many.predict(X), one.predict(X), atol=1e-6)


def test_amplitude_is_bounded_where_the_evidence_is_flat():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(200, 2))
    y = X[:, 0] + 0.05 * rng.normal(size=200)
    base = GaussianProcessRegressor(Nystroem(Gaussian(1000.0), 200, random_state=0), lengthscale_tuning=None)
    model = clone(base).fit(X, y)
    amplitude = model.posterior_.fitted_scales.amplitude[0]
    assert amplitude == pytest.approx(100 * y.std(), rel=1e-6)
    free = clone(base).set_params(amplitude=1000 * y.std()).fit(X, y)
    assert free.log_marginal_likelihood_value_ > model.log_marginal_likelihood_value_  # the bound is active


# ---- copies -----------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["memory", "blocks"])
def test_copies_with_equal_targets_do_not_hide_the_noise(engine):
    X, y = data(150)
    copied = np.r_[np.arange(150), np.arange(20)]

    def fit(X, y, **options):
        rows = (X, y) if engine == "memory" else ([(X[:60], y[:60]), (X[60:], y[60:])],)
        return GaussianProcessRegressor(random_state=0, **options).fit(*rows)

    plain, with_copies = fit(X, y), fit(X[copied], y[copied])
    assert with_copies.noise_ == pytest.approx(plain.noise_, rel=0.05)
    new = data(500, seed=1)[0]
    std = with_copies.predict(new, return_std=True)[1]
    assert std == pytest.approx(plain.predict(new, return_std=True)[1], rel=0.2)
    # Copies with other targets show the noise, and count as the measurements that they are.
    other = np.r_[y, data(150, seed=2)[1][:20]]
    assert fit(X[copied], other).noise_ > plain.noise_
    # A given noise is not changed: then copies are repeated measurements, and the error bars are narrower.
    given = [fit(A, b, noise=0.2).predict(X[:20], return_std=True)[1] for A, b in ((X, y), (X[copied], y[copied]))]
    assert (given[1] < given[0]).all()


def test_a_constant_weight_changes_nothing_where_the_noise_is_estimated():
    X, y = data(150)
    plain, doubled = (GaussianProcessRegressor(random_state=0).fit(X, y, w) for w in (None, np.full(150, 2.0)))
    np.testing.assert_allclose(doubled.predict(X), plain.predict(X), rtol=1e-6)
    assert doubled.noise_ == pytest.approx(plain.noise_, rel=1e-6)
    assert plain.noise_ > 0.1


def test_copies_that_hide_the_noise_are_reported_where_a_sample_lacks_rows(monkeypatch):
    X, y = data(150)
    monkeypatch.setattr(regressor, "CALIBRATION_ROWS", 150)
    with pytest.warns(MercerWarning, match="copies of others with equal targets"):
        model = GaussianProcessRegressor(random_state=0).fit(np.tile(X, (2, 1)), np.tile(y, 2))
    assert model.noise_ < 1e-6
    # Without copies a sample is enough: a warning would be an error here.
    X, y = data(300)
    assert GaussianProcessRegressor(random_state=0).fit(X, y).noise_ > 0.1
