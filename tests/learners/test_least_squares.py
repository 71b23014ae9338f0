"""Moments add, and their solutions are those of the textbook."""

from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mercer import DataError, ParameterError
from mercer.learners.least_squares import Moments, solve_ridge
from sklearn.linear_model import Ridge


def features(n=80, D=6, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(0.5, 1.0, size=(n, D)), rng.normal(size=(n, 2)) + 3.0, rng.uniform(0.1, 3.0, size=n)


def assert_same(a, b, rtol=1e-10):
    for name in ("weight", "gram", "feature_sum", "target_mean", "cross", "target_scatter"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=rtol, atol=1e-9, err_msg=name)
    assert a.rows == b.rows


@settings(deadline=None, max_examples=40)
@given(cuts=st.lists(st.integers(0, 80), max_size=6), weighted=st.booleans())
def test_moments_of_parts_add_up_to_those_of_the_whole(cuts, weighted):
    Z, T, w = features()
    edges = [0, *sorted(cuts), 80]
    w = w if weighted else None
    parts = [
        Moments.of(Z[a:b], T[a:b], None if w is None else w[a:b])
        for a, b in zip(edges[:-1], edges[1:], strict=True)
        if b > a
    ]
    assert_same(reduce(add, parts), Moments.of(Z, T, w))


def test_addition_is_associative_and_commutes():
    Z, T, w = features()
    a, b, c = (Moments.of(Z[i : i + 20], T[i : i + 20], w[i : i + 20]) for i in (0, 20, 40))
    assert_same((a + b) + c, a + (b + c))
    assert_same(a + b, b + a)


def test_weights_equal_repetition():
    Z, T, _ = features()
    counts = np.random.default_rng(1).integers(0, 4, len(Z))
    weighted, repeated = Moments.of(Z, T, counts.astype(float)), Moments.of(np.repeat(Z, counts, 0), np.repeat(T, counts, 0))
    np.testing.assert_allclose(weighted.gram, repeated.gram, rtol=1e-12)
    np.testing.assert_allclose(weighted.cross, repeated.cross, rtol=1e-12, atol=1e-12)
    assert weighted.weight == repeated.weight


def test_a_block_without_weight_adds_nothing():
    Z, T, w = features()
    whole = Moments.of(Z, T, w)
    assert_same(Moments.of(Z[:5], T[:5] + 1e6, np.zeros(5)) + whole, _more_rows(whole, 5))
    assert_same(whole + Moments.of(Z[:5], T[:5] + 1e6, np.zeros(5)), _more_rows(whole, 5))


def _more_rows(moments, n):
    from dataclasses import replace

    return replace(moments, rows=moments.rows + n)


def test_targets_far_from_zero_keep_their_digits():
    Z, T, _ = features()
    near = reduce(add, [Moments.of(Z[i : i + 9], T[i : i + 9]) for i in range(0, 80, 9)])
    far = reduce(add, [Moments.of(Z[i : i + 9], T[i : i + 9] + 1e8) for i in range(0, 80, 9)])
    # The targets themselves have been rounded to 1e8 * eps = 1e-8 before anything is computed.
    np.testing.assert_allclose(far.target_scatter, near.target_scatter, rtol=1e-6)
    np.testing.assert_allclose(far.cross, near.cross, atol=1e-5)


def test_float32_features_are_summed_in_float64():
    Z, T, _ = features(n=4096)
    exact = Moments.of(Z.astype(np.float32).astype(np.float64), T)
    single = reduce(add, [Moments.of(Z[i : i + 512].astype(np.float32), T[i : i + 512]) for i in range(0, 4096, 512)])
    assert single.gram.dtype == np.float64
    np.testing.assert_allclose(single.gram, exact.gram, rtol=1e-5)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("alpha", [1e-3, 2.0])
def test_solution_is_scikit_learns(alpha, fit_intercept):
    Z, T, w = features()
    solution, _ = solve_ridge(Moments.of(Z, T, w), alpha, fit_intercept=fit_intercept)
    peer = Ridge(alpha=alpha, fit_intercept=fit_intercept).fit(Z, T, w)
    np.testing.assert_allclose(solution.coef.T, peer.coef_, rtol=1e-9)
    np.testing.assert_allclose(solution.intercept, peer.intercept_, atol=1e-9)


def test_zero_alpha_is_the_solution_of_least_norm():
    Z, T, _ = features(n=4)
    solution, _ = solve_ridge(Moments.of(Z, T), 0.0, fit_intercept=False)
    np.testing.assert_allclose(solution.coef, np.linalg.pinv(Z) @ T, atol=1e-8)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_gcv_is_the_formula_with_an_explicit_hat_matrix(fit_intercept, weighted):
    Z, T, w = features()
    counts = np.round(w).astype(int) if weighted else np.ones(len(Z), dtype=int)
    solution, _ = solve_ridge(Moments.of(Z, T, counts.astype(float)), "gcv", fit_intercept=fit_intercept)
    Z, T = np.repeat(Z, counts, axis=0), np.repeat(T, counts, axis=0)
    n = len(Z)
    centring = np.eye(n) - (1 / n if fit_intercept else 0)
    for i in (0, 30, 60, 88):
        C = centring @ Z
        hat = C @ np.linalg.solve(C.T @ C + solution.path.alphas[i] * np.eye(6), C.T) + np.eye(n) - centring
        score = np.square(T - hat @ T).sum() / n / (1 - np.trace(hat) / n) ** 2
        np.testing.assert_allclose(solution.path.scores[i], score, rtol=1e-8)
        np.testing.assert_allclose(solution.path.degrees[i], np.trace(hat), rtol=1e-10)
    assert solution.alpha == solution.path.alphas[np.argmin(solution.path.scores)]


@pytest.mark.parametrize("alpha", [0.5, "gcv", 0])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_leverages_give_exact_leave_one_out(alpha, fit_intercept):
    Z, T, _ = features(n=20)
    solution, leverages = solve_ridge(Moments.of(Z, T), alpha, fit_intercept=fit_intercept)
    fitted = Z @ solution.coef + solution.intercept
    left_out = T - (T - fitted) / (1 - leverages(Z, np.ones(20)))[:, None]
    for i in range(20):
        rest = np.arange(20) != i
        without, _ = solve_ridge(Moments.of(Z[rest], T[rest]), solution.alpha, fit_intercept=fit_intercept)
        np.testing.assert_allclose(left_out[i], Z[i] @ without.coef + without.intercept, rtol=1e-8, atol=1e-9)


def test_errors_say_what_to_do():
    Z, T, _ = features()
    with pytest.raises(DataError, match="All sample weights are zero"):
        solve_ridge(Moments.of(Z, T, np.zeros(80)), 1.0)
    with pytest.raises(DataError, match="rescale them to a mean of one"):
        solve_ridge(Moments.of(Z, T, np.full(80, 1e-3)), "gcv")
    twice = np.column_stack([Z, Z])  # a singular matrix, slightly indefinite by rounding
    with pytest.raises(ParameterError, match=r"alpha=1e-30 is too small .* alpha='gcv'"):
        solve_ridge(Moments.of(twice * 1e3, T), 1e-30)
