"""Scores of penalties, against refitted models, densities and scikit-learn; the scale of probabilities."""

import pickle
import tracemalloc
from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_expit, log_softmax
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.linear_model import Ridge, RidgeClassifierCV, RidgeCV

from mercer import (
    DataError,
    Gaussian,
    KernelRidge,
    KernelRidgeClassifier,
    MercerWarning,
    Nystroem,
    ParameterError,
    RandomFourier,
)
from mercer.engines import Block, MemoryEngine
from mercer.solvers.losses.fit import AsGiven
from mercer.solvers.ridge import paths
from mercer.solvers.ridge.least_squares import Spectrum, solve_ridge
from mercer.solvers.ridge.paths import (
    LeftOut,
    best,
    calibrated_scale,
    evidence_path,
    gcv_path,
    left_out_margin,
    log_loss_scale,
)
from mercer.statistics.moments import Moments, TargetMoments

pytestmark = pytest.mark.covering(1)

SOME = (0, 17, 30, 45, 60, 75, 88)  # of the 89 penalties of a path


def data(n=60, d=3, targets=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    Y = np.sin(2 * X[:, :1]) + rng.normal(size=(n, targets)) * 0.3 + 5.0
    return X, Y[:, 0] if targets == 1 else Y


def moments_of(Z, T, w):
    return Moments(np.triu(Z.T @ (Z * w[:, None])), TargetMoments.of(Z, T, w))


# ---- leave-one-out ----------------------------------------------------------------------------


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("weighted", [False, True])
def test_left_out_scores_are_those_of_explicit_refits(fit_intercept, targets, dtype, weighted):
    X, Y = data(targets=targets)
    X = X.astype(dtype)
    counts = np.random.default_rng(1).integers(0, 4, len(X)) if weighted else np.ones(len(X), dtype=int)
    feature_map = RandomFourier(Gaussian(1.0), 12, random_state=0)
    model = KernelRidge(feature_map, alpha="loo", fit_intercept=fit_intercept)
    path = model.fit(X, Y, counts.astype(float) if weighted else None).path_
    assert (path.criterion, path.alpha) == ("loo", path.alphas[np.argmin(path.scores)])
    assert model.alpha_ == path.alpha
    Z = np.repeat(model.feature_map_.transform(X).astype(np.float64), counts, axis=0)
    T = np.repeat(Y.reshape(len(X), -1), counts, axis=0)
    for i in SOME:
        refit = Ridge(alpha=path.alphas[i], fit_intercept=fit_intercept, solver="cholesky")
        errors = []
        for row in range(len(Z)):
            rest = np.arange(len(Z)) != row
            errors.append(T[row] - refit.fit(Z[rest], T[rest]).predict(Z[row : row + 1])[0])
        np.testing.assert_allclose(path.scores[i], np.square(errors).sum(axis=-1).mean(), rtol=1e-8 if i else 1e-5)


def test_weights_below_one_leave_out_the_complete_row():
    X, y = data(n=30)
    w = np.random.default_rng(2).uniform(0.1, 1.0, 30)
    model = KernelRidge(RandomFourier(Gaussian(1.0), 8, random_state=0), alpha="loo").fit(X, y, w)
    Z, path = model.feature_map_.transform(X), model.path_
    for i in (30, 60, 80):
        refit = Ridge(alpha=path.alphas[i], solver="cholesky")
        rest = [np.arange(30) != row for row in range(30)]
        errors = [y[r] - refit.fit(Z[k], y[k], w[k]).predict(Z[r : r + 1])[0] for r, k in enumerate(rest)]
        np.testing.assert_allclose(path.scores[i], w @ np.square(errors) / w.sum(), rtol=1e-8)


def test_leave_one_out_agrees_with_scikit_learn():
    X, y = data(n=200)
    model = KernelRidge(RandomFourier(Gaussian(1.0), 20, random_state=0), alpha="loo").fit(X, y)
    peer = RidgeCV(alphas=model.path_.alphas).fit(model.feature_map_.transform(X), y)
    assert peer.alpha_ == pytest.approx(model.alpha_)
    assert -peer.best_score_ == pytest.approx(model.path_.scores.min(), rel=1e-9)
    np.testing.assert_allclose(model.coef_, peer.coef_, rtol=1e-6)


@pytest.mark.parametrize("classes", [2, 3])
def test_leave_one_out_of_labels_is_that_of_signs(classes):
    X, y = data(n=200)
    labels = np.array(["no", "perhaps", "yes"])[np.digitize(y, [5.0] if classes == 2 else [4.7, 5.3])]
    model = KernelRidgeClassifier(RandomFourier(Gaussian(1.0), 20, random_state=0), alpha="loo").fit(X, labels)
    Z = model.feature_map_.transform(X)
    peer = RidgeClassifierCV(alphas=model.path_.alphas).fit(Z, labels)
    assert peer.alpha_ == pytest.approx(model.alpha_)
    assert -peer.best_score_ * (1 if classes == 2 else 3) == pytest.approx(model.path_.scores.min(), rel=1e-9)
    assert np.array_equal(model.predict(X), peer.predict(Z))


@pytest.mark.parametrize("kind", [KernelRidge, KernelRidgeClassifier])
def test_memory_blocks_and_any_number_of_threads_agree(kind):
    X, y = data(n=700)
    y = y if kind is KernelRidge else y > 5
    fresh = kind(RandomFourier(Gaussian(1.0), 20, random_state=0), alpha="loo", block_size=64, random_state=0)
    scores = [clone(fresh).set_params(n_jobs=jobs).fit(X, y).path_.scores for jobs in (1, 2, 5)]
    assert all(np.array_equal(scores[0], other) for other in scores)
    blocks = [(X[i : i + 90], y[i : i + 90]) for i in range(0, 700, 90)]
    np.testing.assert_allclose(clone(fresh).fit(blocks).path_.scores, scores[0], rtol=1e-7)
    one = clone(fresh).set_params(block_size=10_000).fit(X, y)
    np.testing.assert_allclose(one.path_.scores, scores[0], rtol=1e-7)


def test_the_term_survives_pickle():
    X, y = data()
    feature_map = RandomFourier(Gaussian(1.0), 12, random_state=0).fit(X)
    Z, w = feature_map.transform(X), np.ones(len(X))
    spectrum = Spectrum.of(moments_of(Z, y[:, None], w))
    term = LeftOut(feature_map.features_, spectrum, np.array([0.1, 1.0]), True)
    block = Block(0, X, y[:, None])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(term))(block), term(block))
    assert MemoryEngine(X, y[:, None], block_rows=7).sum(term).shape == (2,)


def test_rows_fitted_whatever_their_target_do_not_count_as_well_predicted():
    X, y = data(n=40)
    # As many landmarks as rows: small penalties fit every row, and residual and room are both rounding.
    model = KernelRidge(Nystroem(Gaussian(0.05), 40, landmarks="uniform", random_state=0), alpha="loo").fit(X, y)
    finite = np.isfinite(model.path_.scores)
    assert finite.any()
    assert not finite[:10].any()  # next to the largest eigenvalue these penalties are about the rounding
    rest = np.arange(40) != 0
    assert model.path_.scores[finite].min() > 0.5 * np.square(y - y[rest].mean()).mean()


def test_rows_that_cannot_be_read_again_raise_with_advice():
    X, y = data()
    model = KernelRidge(RandomFourier(Gaussian(1.0), 12, random_state=0), alpha="loo")
    with pytest.raises(DataError, match=r"reads the rows twice.*alpha='evidence' or alpha='gcv'"):
        model.fit(iter([(X, y)]))
    assert not hasattr(model, "statistic_")
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError) as error:
        model.partial_fit(X, y)
    assert "alpha='evidence' or alpha='gcv', which need one pass" in str(error.value.__cause__)
    assert not hasattr(KernelRidgeClassifier(alpha="loo"), "partial_fit")
    model.set_params(alpha=1.0).partial_fit(X, y).set_params(alpha="loo")
    with pytest.raises(ParameterError, match="second pass"):
        model.predict(X)


@pytest.mark.parametrize("targets", [1, 7])
def test_targets_can_be_processed_a_few_at_a_time(targets, monkeypatch):
    X, Y = data(targets=targets)
    fresh = KernelRidge(RandomFourier(Gaussian(1.0), 12, random_state=0), alpha="loo")
    whole = clone(fresh).fit(X, Y).path_.scores
    monkeypatch.setattr(paths, "SLICE_BYTES", 3 * 8 * 89 * 512)  # three at a time
    np.testing.assert_allclose(clone(fresh).fit(X, Y).path_.scores, whole, rtol=1e-12)


def test_memory_does_not_grow_with_penalties_times_labels():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 4)), np.arange(600) % 200
    model = KernelRidgeClassifier(RandomFourier(Gaussian(2.0), 64, random_state=0), alpha="loo", n_jobs=1)
    tracemalloc.start()
    model.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * paths.SLICE_BYTES  # 512 rows, 200 labels and 89 penalties alone are 73 MB


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("alpha", ["loo", 1e-6])
def test_blocks_change_the_result_by_no_more_than_rounding(weighted, alpha):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.03 * rng.normal(size=700)  # little noise: small penalties
    w = rng.integers(0, 3, 700).astype(float) if weighted else None
    fresh = KernelRidge(RandomFourier(Gaussian(2.0), 128, random_state=0), alpha=alpha)
    model = clone(fresh).fit(X, y, w)
    assert model.rounding_ < 1e-4
    other = clone(fresh).set_params(block_size=50).fit(X, y, w)
    assert other.alpha_ == pytest.approx(model.alpha_, rel=1e-10)
    gap = np.abs(other.predict(X) - model.predict(X)).max() / np.abs(y).max()
    assert gap <= max(1e-12, model.rounding_)
    assert clone(fresh).set_params(alpha=10.0).fit(X, y).rounding_ < 1e-13


def test_a_minimum_at_an_end_of_the_path_issues_a_warning():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 2))
    smooth = np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + 0.01 * rng.normal(size=1500)
    narrow = RandomFourier(Gaussian(2.0), 128, random_state=0)
    for alpha in ("gcv", "evidence"):
        with pytest.warns(MercerWarning, match=f"alpha='{alpha}' chose the smallest penalty .* shorter lengthscale"):
            model = KernelRidge(narrow, alpha=alpha).fit(X, smooth)
        assert model.alpha_ == model.path_.alphas[0]
    spectrum = Spectrum.of(moments_of(rng.normal(size=(400, 60)), rng.normal(size=(400, 1)), np.ones(400)))
    with pytest.warns(MercerWarning, match="chose the largest penalty .* another kernel"):
        best(spectrum, np.array([1.0, 2.0]), np.array([2.0, 1.0]), np.ones(2), "gcv")
    for flat in ([1.0, 1.0 + 1e-6], [1.0, np.inf]):  # nothing is lost there, or nothing known
        best(spectrum, np.array([1.0, 2.0]), np.array(flat), np.ones(2), "loo")


# ---- the evidence -----------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_evidence_is_the_density_of_the_targets_at_the_best_noise(weighted):
    X, Y = data(n=25, targets=2)
    Z = RandomFourier(Gaussian(1.0), 8, random_state=0).fit_transform(X)
    counts = np.random.default_rng(3).integers(1, 3, 25) if weighted else np.ones(25, dtype=int)
    path = evidence_path(Spectrum.of(moments_of(Z, Y, counts.astype(float)), centered=False), fit_intercept=False)
    Z, Y = np.repeat(Z, counts, axis=0), np.repeat(Y, counts, axis=0)
    n = len(Z)
    for i in SOME[1:]:
        K = Z @ Z.T / path.alphas[i] + np.eye(n)
        noise = np.einsum("it,it->t", Y, np.linalg.solve(K, Y)) / n
        density = sum(multivariate_normal(np.zeros(n), s * K).logpdf(y) for s, y in zip(noise, Y.T, strict=True))
        np.testing.assert_allclose(path.scores[i], -density / n, rtol=1e-7)
    assert path.alpha == path.alphas[np.argmin(path.scores)]


def test_evidence_integrates_the_intercept_out():
    X, y = data(n=25)
    Z, w = RandomFourier(Gaussian(1.0), 8, random_state=0).fit_transform(X), np.ones(25)
    path = evidence_path(Spectrum.of(moments_of(Z, y[:, None], w)), fit_intercept=True)
    # The density of all contrasts: what is left of the targets when nothing is known of their mean.
    basis = np.linalg.svd(np.ones((1, 25)))[2][1:]
    for i in SOME[1:]:
        K = basis @ (Z @ Z.T / path.alphas[i] + np.eye(25)) @ basis.T
        noise = (basis @ y) @ np.linalg.solve(K, basis @ y) / 24
        density = multivariate_normal(np.zeros(24), noise * K).logpdf(basis @ y)
        np.testing.assert_allclose(path.scores[i], -density / 25, rtol=1e-7)


def test_evidence_finds_the_penalty_that_made_the_targets():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3))
    fitted = RandomFourier(Gaussian(1.0), 100, random_state=0).fit(X)
    y = fitted.transform(X) @ rng.normal(0, 2.0, 100) + 0.5 * rng.normal(size=4000) + 7.0
    model = KernelRidge(RandomFourier(Gaussian(1.0), 100, random_state=0), alpha="evidence").fit(X, y)
    # noise^2 / amplitude^2 = 1 / 16; about a hundred coefficients tell their size to within some 15 %.
    assert 1 / 32 < model.alpha_ < 1 / 8
    streamed = clone(model).partial_fit(X[:1000], y[:1000]).partial_fit(X[1000:], y[1000:])
    np.testing.assert_allclose(streamed.path_.scores, model.path_.scores, rtol=1e-9)


# ---- all of them ------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", ["loo", "evidence", "gcv"])
@pytest.mark.parametrize("kind", [KernelRidge, KernelRidgeClassifier])
def test_weights_equal_repetition(alpha, kind):
    X, y = data(n=150)
    y = y if kind is KernelRidge else np.digitize(y, [4.7, 5.3])
    repeats = np.random.default_rng(0).integers(0, 3, 150)
    fresh = kind(RandomFourier(Gaussian(1.0), 20, random_state=0), alpha=alpha)
    weighted = clone(fresh).fit(X, y, repeats)
    repeated = clone(fresh).fit(np.repeat(X, repeats, axis=0), np.repeat(y, repeats))
    np.testing.assert_allclose(weighted.path_.scores, repeated.path_.scores, rtol=1e-6)
    assert weighted.alpha_ == pytest.approx(repeated.alpha_)


@pytest.mark.parametrize("alpha", ["loo", "evidence", "gcv"])
def test_constant_targets_are_predicted_exactly(alpha):
    X, _ = data()
    model = KernelRidge(RandomFourier(Gaussian(1.0), 12, random_state=0), alpha=alpha).fit(X, np.full(60, 3.0))
    np.testing.assert_allclose(model.predict(X), 3.0)


@pytest.mark.parametrize("alpha", ["loo", "evidence", "gcv"])
def test_huge_targets_and_too_little_weight_have_clear_errors(alpha):
    X, y = data()
    model = KernelRidge(RandomFourier(Gaussian(1.0), 12, random_state=0), alpha=alpha)
    with pytest.raises(DataError, match=rf"alpha='{alpha}' needs targets whose squares add up in float64"):
        model.fit(X, y * 1e200)
    if alpha != "loo":  # to leave out a row is to leave out all of its weight, whatever the unit
        with pytest.raises(DataError, match=rf"alpha='{alpha}' needs more weight than degrees of freedom.*mean of one"):
            model.fit(X, y, np.full(60, 1e-3))


@pytest.mark.filterwarnings("ignore:alpha=.* chose the")
def test_scores_do_not_depend_on_the_unit_of_the_targets():
    Z, T, w = np.random.default_rng(0).normal(size=(50, 4)), data(n=50)[1][:, None], np.ones(50)
    for path in (gcv_path, evidence_path):
        first, second = (path(Spectrum.of(moments_of(Z, c * T, w)), fit_intercept=True) for c in (1.0, 1e6))
        assert first.alpha == second.alpha


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:alpha=.* chose the")
def test_leave_one_out_withstands_rows_far_from_all_others():
    """Heavy tails: generalized cross-validation takes the few far rows for as influential as all others."""
    rng = np.random.default_rng(0)
    X = rng.standard_t(1.2, size=(3000, 4))
    y = np.tanh(X).sum(axis=1) + 0.3 * rng.normal(size=3000)
    X_new, y_new = X[1500:], y[1500:]
    fit = partial(KernelRidge, RandomFourier(Gaussian("median"), 400, random_state=0))
    scores = {alpha: fit(alpha=alpha).fit(X[:1500], y[:1500]).score(X_new, y_new) for alpha in ("loo", "gcv")}
    best = max(fit(alpha=a).fit(X[:1500], y[:1500]).score(X_new, y_new) for a in np.geomspace(1e-4, 1e3, 15))
    assert scores["loo"] > best - 0.03
    assert scores["loo"] >= scores["gcv"]


def test_leave_one_out_without_rows_raises_with_advice():
    Z, T, w = np.random.default_rng(0).normal(size=(50, 4)), data(n=50)[1][:, None], np.ones(50)
    with pytest.raises(ParameterError, match="second pass over the rows"):
        solve_ridge(moments_of(Z, T, w), "loo")


# ---- margins and calibration ------------------------------------------------------------------

RNG = np.random.default_rng(0)
Z, T = RNG.normal(0.5, 1.0, size=(25, 6)), RNG.normal(size=(25, 2))
WEIGHT = np.array([0.0, 0.4, 1.0, 2.0, 3.0] * 5)


def refitted_errors(alpha, weight, fit_intercept):
    """Return squared errors of models from which one repetition of a row, or all of a smaller weight, is left out."""
    errors = []
    for i in range(len(Z)):
        rest = weight.copy()
        rest[i] -= min(1.0, weight[i])
        other = solve_ridge(moments_of(Z, T, rest), alpha, fit_intercept=fit_intercept)
        errors.append(np.square(Z[i] @ other.coef + other.intercept - T[i]).sum())
    return np.array(errors)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weight", [np.ones(25), WEIGHT], ids=["equal", "weighted"])
def test_residuals_over_margins_are_errors_of_refitted_models(weight, fit_intercept):
    solution = solve_ridge(moments_of(Z, T, weight), 0.5, fit_intercept=fit_intercept)
    residual = Z @ solution.coef + solution.intercept - T
    margin = left_out_margin(solution.leverages(Z), weight)
    found = np.square(residual / margin[:, None]).sum(axis=1)
    np.testing.assert_allclose(found, refitted_errors(0.5, weight, fit_intercept), rtol=1e-8)
    leverages = np.column_stack([solution.leverages(Z), 2 * solution.leverages(Z)])
    np.testing.assert_array_equal(left_out_margin(leverages, weight)[:, 0], margin)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["equal", "weighted"])
def test_left_out_errors_are_those_of_refitted_models(weight, fit_intercept):
    w = np.ones(25) if weight is None else weight
    spectrum = Spectrum.of(moments_of(Z, T, w), centered=fit_intercept)
    found = LeftOut(AsGiven(6), spectrum, np.array([0.1, 3.0]), fit_intercept)(Block(0, Z, T, weight))
    expected = [w @ refitted_errors(alpha, w, fit_intercept) for alpha in (0.1, 3.0)]
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_rows_that_are_fitted_exactly_do_not_calibrate():
    codes, fitted = np.array([0, 1, 1]), np.array([[-0.9], [0.8], [1.0]])
    leverage = np.array([0.2, 0.3, 1.0])
    some = calibrated_scale(fitted[:2], codes[:2], 2, leverage[:2], None)
    assert calibrated_scale(fitted, codes, 2, leverage, None) == some
    assert calibrated_scale(fitted, codes, 2, np.full(3, 0.3), np.array([1.0, 1.0, 0.0])) == pytest.approx(
        calibrated_scale(fitted[:2], codes[:2], 2, np.full(2, 0.3), None)
    )
    assert calibrated_scale(fitted, codes, 2, np.ones(3), None) == 2.0  # no row is left


def loss(scale, values, codes, weight):
    """Return the logarithmic loss of the rows and of one more row, whose label is each label with equal probability."""
    n = weight.sum()
    if values.shape[1] == 1:
        logs = np.column_stack([log_expit(-scale * values[:, 0]), log_expit(scale * values[:, 0])])
    else:
        logs = log_softmax(scale * values, axis=1)
    own = logs[np.arange(len(codes)), codes]
    return -float(weight @ (n * own + logs.mean(axis=1)) / (n + 1))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", [2, 4])
def test_the_scale_minimizes_the_logarithmic_loss(classes, weighted):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, classes, 300)
    values = 0.7 * np.eye(classes)[codes] + 0.5 * rng.normal(size=(300, classes))
    if classes == 2:
        values = values[:, 1:] - values[:, :1]
    weight = rng.uniform(0, 3, 300) if weighted else np.ones(300)
    found = log_loss_scale(values, codes, weight)
    best = minimize_scalar(lambda s: loss(np.exp(s), values, codes, weight), bounds=(-6, 6), method="bounded")
    assert found == pytest.approx(np.exp(best.x), rel=1e-3)
    h = 1e-4
    slope = (loss(found * (1 + h), values, codes, weight) - loss(found * (1 - h), values, codes, weight)) / (2 * h)
    assert abs(slope) < 1e-6 * weight.sum()


def test_separated_labels_have_a_finite_scale_that_grows_with_the_rows():
    scales = [
        log_loss_scale(np.tile([[1.0], [-1.0]], (n, 1)), np.tile([1, 0], n), np.ones(2 * n)) for n in (2, 20, 200)
    ]
    assert scales[0] < scales[1] < scales[2] < 1e3
    # Of N rows at +-1 the logistic function of the scale is (N + 1/2) / (N + 1).
    np.testing.assert_allclose(scales, [np.log((2 * n + 0.5) / 0.5) for n in (2, 20, 200)], rtol=1e-9)


def test_the_scale_stays_within_its_bounds():
    values, codes = np.array([[1.0], [-1.0]]), np.array([0, 1])
    assert log_loss_scale(values, codes, np.ones(2)) == 1e-3
    assert log_loss_scale(-1e-6 * values, codes, np.ones(2)) == 1e3
