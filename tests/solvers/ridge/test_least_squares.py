"""Solutions of ridge regression from moments, against scikit-learn and explicit formulas."""

import re

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from mercer import DataError, Gaussian, KernelRidge, KernelRidgeClassifier, MercerWarning, ParameterError, RandomFourier
from mercer.solvers.ridge.least_squares import Spectrum, centered_moments, solve_ridge
from mercer.statistics.moments import Moments, TargetMoments


def features(n=80, D=6, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(0.5, 1.0, size=(n, D)), rng.normal(size=(n, 2)) + 3.0, rng.uniform(0.1, 3.0, size=n)


def moments_of(Z, T, w=None):
    weighted = Z if w is None else Z * w[:, None]
    return Moments(np.triu(Z.T @ weighted), TargetMoments.of(Z, T, w))


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("alpha", [1e-3, 2.0])
def test_solution_agrees_with_scikit_learn(alpha, fit_intercept):
    Z, T, w = features()
    solution = solve_ridge(moments_of(Z, T, w), alpha, fit_intercept=fit_intercept)
    peer = Ridge(alpha=alpha, fit_intercept=fit_intercept).fit(Z, T, w)
    np.testing.assert_allclose(solution.coef.T, peer.coef_, rtol=1e-9)
    np.testing.assert_allclose(solution.intercept, peer.intercept_, atol=1e-9)


def test_zero_alpha_is_the_solution_of_least_norm():
    Z, T, _ = features(n=4)
    solution = solve_ridge(moments_of(Z, T), 0.0, fit_intercept=False)
    np.testing.assert_allclose(solution.coef, np.linalg.pinv(Z) @ T, atol=1e-8)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_gcv_is_the_formula_with_an_explicit_hat_matrix(fit_intercept, weighted):
    Z, T, w = features()
    counts = np.round(w).astype(int) if weighted else np.ones(len(Z), dtype=int)
    solution = solve_ridge(moments_of(Z, T, counts.astype(float)), "gcv", fit_intercept=fit_intercept)
    Z, T = np.repeat(Z, counts, axis=0), np.repeat(T, counts, axis=0)
    n = len(Z)
    centering = np.eye(n) - (1 / n if fit_intercept else 0)
    for i in (0, 30, 60, 88):
        C = centering @ Z
        hat = C @ np.linalg.solve(C.T @ C + solution.path.alphas[i] * np.eye(6), C.T) + np.eye(n) - centering
        score = np.square(T - hat @ T).sum() / n / (1 - np.trace(hat) / n) ** 2
        np.testing.assert_allclose(solution.path.scores[i], score, rtol=1e-8)
        np.testing.assert_allclose(solution.path.degrees[i], np.trace(hat), rtol=1e-10)
    assert solution.alpha == solution.path.alphas[np.argmin(solution.path.scores)]


@pytest.mark.parametrize("alpha", [0.5, "gcv", 0])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_leverages_give_exact_leave_one_out(alpha, fit_intercept):
    Z, T, _ = features(n=20)
    solution = solve_ridge(moments_of(Z, T), alpha, fit_intercept=fit_intercept)
    fitted = Z @ solution.coef + solution.intercept
    left_out = T - (T - fitted) / (1 - solution.leverages(Z))[:, None]
    for i in range(20):
        rest = np.arange(20) != i
        without = solve_ridge(moments_of(Z[rest], T[rest]), solution.alpha, fit_intercept=fit_intercept)
        np.testing.assert_allclose(left_out[i], Z[i] @ without.coef + without.intercept, rtol=1e-8, atol=1e-9)


def test_errors_say_what_to_do():
    Z, T, _ = features()
    with pytest.raises(DataError, match="All sample weights are zero"):
        solve_ridge(moments_of(Z, T, np.zeros(80)), 1.0)
    with pytest.raises(DataError, match="rescale them to a mean of one"):
        solve_ridge(moments_of(Z, T, np.full(80, 1e-3)), "gcv")
    twice = np.column_stack([Z, Z])  # a singular matrix, slightly indefinite by rounding
    moments = moments_of(twice * 1e3, T)
    with pytest.raises(ParameterError, match=r"alpha=1e-30 is too small .* alpha='evidence'") as error:
        solve_ridge(moments, 1e-30)
    advised = float(re.search(r"alpha >= (\S+),", str(error.value)).group(1))
    assert advised < 1e-3  # beside second moments of 1e8
    solution = solve_ridge(moments, advised)  # neither an error nor a warning
    single = solve_ridge(moments_of(Z * 1e3, T), 1e-9)
    np.testing.assert_allclose(solution.coef[:6] + solution.coef[6:], single.coef, rtol=1e-6, atol=1e-12)


def test_penalties_below_the_rounding_error_warn_where_they_matter():
    Z, T, _ = features()
    solve_ridge(moments_of(Z, T), 1e-25)  # all directions have moments far above the rounding
    twice = moments_of(np.column_stack([Z, Z]), T)
    single = Moments(twice.gram, twice.targets, float(np.finfo(np.float32).eps))
    assert 1e-6 < single.rounding < 1e-3
    with pytest.warns(
        MercerWarning, match=r"alpha=1e-07 and some eigenvalues .* lie below .* Try rows in float64, alpha >= 0.000"
    ):
        solve_ridge(single, 1e-7)
    solve_ridge(twice, 1e-7)
    solve_ridge(single, 1e-3)


@pytest.mark.parametrize("learner", [KernelRidge, KernelRidgeClassifier])
def test_small_penalties_of_float32_rows_are_solved_in_float64(learner):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 2)).astype(np.float32)
    y = np.sin(2 * X[:, 0].astype(float)) * np.cos(X[:, 1])
    y = y > 0 if learner is KernelRidgeClassifier else y
    feature_map = RandomFourier(Gaussian(2.0), 64, random_state=0)
    for alpha in (1e-5, 1e-1):
        expected = learner(feature_map, alpha=alpha, random_state=0).fit(X.astype(float), y)
        model = learner(feature_map, alpha=alpha, random_state=0).fit(X, y)
        listed = learner(feature_map, alpha=alpha, random_state=0).fit([(X[:1000], y[:1000]), (X[1000:], y[1000:])])
        double = model.statistic_.roundoff < 1e-15
        assert double == (alpha < 1e-3)
        for each in (model, listed):
            decide = "decision_function" if learner is KernelRidgeClassifier else "predict"
            ours, theirs = (getattr(m, decide)(X) for m in (each, expected))
            np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=2e-4)
    once = iter([(X, y)])
    with pytest.warns(MercerWarning, match="rows in float64"):
        learner(feature_map, alpha=1e-4, random_state=0).fit(once)


@pytest.mark.parametrize("alpha", [0.5, "gcv", 0])
def test_entries_below_the_diagonal_are_never_read(alpha):
    Z, T, _ = features()
    clean = moments_of(Z, T)
    littered = Moments(np.where(np.tri(6, k=-1), np.nan, clean.gram), clean.targets)
    expected, found = solve_ridge(clean, alpha), solve_ridge(littered, alpha)
    np.testing.assert_array_equal(found.coef, expected.coef)
    assert np.isfinite(found.leverages(Z)).all()


def test_moments_in_float32_have_leverages_of_that_precision():
    Z, T, _ = features(n=200)
    double = moments_of(Z, T)
    single = Moments(double.gram, double.targets, float(np.finfo(np.float32).eps))
    expected, found = (solve_ridge(m, 0.5).leverages(Z) for m in (double, single))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert not np.array_equal(found, expected)


# ---- spectra ----------------------------------------------------------------------------------


def weighted_features(n=50, D=6, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(1.0, 1.0, size=(n, D)), rng.normal(2.0, 1.0, size=(n, 3)), rng.uniform(0.0, 3.0, size=n)


@pytest.mark.parametrize("D", [1, 63, 64, 65, 200])
@pytest.mark.parametrize("centered", [True, False])
def test_centered_moments_are_those_of_centered_weighted_features(D, centered):
    Z, T, w = weighted_features(D=D)
    found, center = centered_moments(moments_of(Z, T, w), centered=centered)
    expected = w @ Z / w.sum() if centered else np.zeros(D)
    np.testing.assert_allclose(center, expected)
    about = Z - expected
    np.testing.assert_allclose(np.triu(found), np.triu(about.T @ (about * w[:, None])), rtol=0, atol=1e-10)


@pytest.mark.parametrize(("centered", "offset"), [(True, None), (False, None), (False, np.array([1.0, 2.0, -3.0]))])
def test_coefficients_for_one_penalty_per_target_are_those_of_the_normal_equations(centered, offset):
    Z, T, w = weighted_features()
    s = Spectrum.of(moments_of(Z, T, w), centered=centered, offset=offset)
    A, B = (Z - np.average(Z, axis=0, weights=w), T - np.average(T, axis=0, weights=w)) if centered else (Z, T)
    B = B if offset is None else B - offset
    np.testing.assert_allclose(s.energy, w @ np.square(B))
    alphas = np.array([0.1, 1.0, 10.0])
    coef = s.coef(alphas)
    for t, alpha in enumerate(alphas):
        inverse = np.linalg.inv(A.T @ (A * w[:, None]) + alpha * np.eye(6))
        np.testing.assert_allclose(coef[:, t], inverse @ (A.T @ (w * B[:, t])), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(s.root(alpha) @ s.root(alpha).T, inverse, rtol=1e-9, atol=1e-12)


def test_directions_without_variation_are_left_out():
    Z, T, w = weighted_features()
    s = Spectrum.of(moments_of(np.column_stack([Z, Z]), T, w))
    assert s.retained.sum() == 6
    assert np.abs(s.coef(0.0)).max() < 10
