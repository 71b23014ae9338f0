"""Closed forms of a linear smoother against refitted models, and the evidence against a Gaussian density."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from mercer.solvers.ridge.smoother import Smoother


def problem(n, D, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, D)) * np.linspace(0.1, 2, D) + 0.5
    return Z, rng.normal([3.0, -1.0], size=(n, 2)), rng.integers(0, 4, n)


def fitted(Z, y, penalty, fit_intercept, new):
    center, offset = (Z.mean(axis=0), y.mean(axis=0)) if fit_intercept else (0.0, 0.0)
    A = (Z - center).T @ (Z - center) + penalty * np.eye(Z.shape[1])
    return offset + (new - center) @ np.linalg.solve(A, (Z - center).T @ (y - offset))


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(("n", "D"), [(12, 30), (30, 12), (12, 12), (13, 12), (2, 5)])
@pytest.mark.parametrize("penalty", [1e-6, 0.3, 100.0])
def test_left_out_groups_are_predicted_by_refitted_models(n, D, penalty, fit_intercept):
    Z, y, groups = problem(n, D)
    groups[:2] = [0, 1]
    smoother = Smoother.of(Z, fit_intercept=fit_intercept)
    for chosen in (groups, np.arange(n)):
        expected = np.empty_like(y)
        for group in np.unique(chosen):
            held = chosen == group
            expected[held] = fitted(Z[~held], y[~held], penalty, fit_intercept, Z[held])
        # Condition numbers of the fits reach 1e7 at the smallest penalty.
        assert np.allclose(smoother.left_out(y, penalty, chosen), expected, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(("n", "D"), [(9, 20), (20, 9)])
def test_degrees_are_the_trace_of_the_hat_matrix(n, D, fit_intercept):
    Z, _, _ = problem(n, D)
    hat = fitted(Z, np.eye(n), 0.7, fit_intercept, Z)
    assert Smoother.of(Z, fit_intercept=fit_intercept).degrees(0.7) == pytest.approx(np.trace(hat))


@pytest.mark.parametrize(("n", "D"), [(9, 20), (20, 9)])
@pytest.mark.parametrize("penalty", [0.02, 0.7, 30.0])
def test_evidence_is_a_gaussian_density_at_the_maximizing_noise(n, D, penalty):
    Z, y, _ = problem(n, D)
    smoother = Smoother.of(Z, fit_intercept=False)
    covariance = np.eye(n) + Z @ Z.T / penalty
    expected = 0.0
    for column in y.T:
        noise = column @ np.linalg.solve(covariance, column) / n
        expected += multivariate_normal(np.zeros(n), noise * covariance).logpdf(column)
    assert smoother.log_evidence(y, penalty) == pytest.approx(expected)


@pytest.mark.parametrize(("n", "D"), [(9, 20), (20, 9)])
def test_evidence_with_an_intercept_is_the_density_of_contrasts(n, D):
    Z, y, _ = problem(n, D)
    contrasts = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, 1:]]))[0][:, 1:]
    expected = Smoother.of(contrasts.T @ Z, fit_intercept=False).log_evidence(contrasts.T @ y, 0.4)
    smoother = Smoother.of(Z, fit_intercept=True)
    assert smoother.log_evidence(y, 0.4) == pytest.approx(expected)
    # Neither a shift of the targets nor a constant column changes it.
    shifted = np.column_stack([y + 100.0, np.full(n, 7.0)])
    assert smoother.log_evidence(shifted, 0.4) == pytest.approx(expected)


def test_equal_rows():
    smoother = Smoother.of(np.ones((6, 3)), fit_intercept=True)
    y = np.arange(6.0)[:, None]
    left = smoother.left_out(y, 0.1, np.arange(6))
    assert np.allclose(left[:, 0], [(15 - i) / 5 for i in range(6)])


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(("n", "D"), [(9, 40), (20, 6)])
@pytest.mark.parametrize("penalty", [1e-3, 0.7])
def test_weights_are_repetitions_of_rows(n, D, penalty, fit_intercept):
    Z, y, groups = problem(n, D)
    groups[:2] = [0, 1]
    weight = np.random.default_rng(1).integers(1, 4, n).astype(float)
    copies = np.repeat(np.arange(n), weight.astype(int))
    weighted = Smoother.of(Z, fit_intercept=fit_intercept, weight=weight)
    repeated = Smoother.of(Z[copies], fit_intercept=fit_intercept)
    assert weighted.degrees(penalty) == pytest.approx(repeated.degrees(penalty))
    assert weighted.log_evidence(y, penalty) == pytest.approx(repeated.log_evidence(y[copies], penalty))
    left = weighted.left_out(y, penalty, groups)
    np.testing.assert_allclose(left[copies], repeated.left_out(y[copies], penalty, groups[copies]), atol=1e-7)
    alone = weighted.left_out(y, penalty, np.arange(n))  # a row with all its copies
    np.testing.assert_allclose(alone[copies], repeated.left_out(y[copies], penalty, copies), atol=1e-7)
    one = weighted.one_left_out(y, penalty)
    np.testing.assert_allclose(one[copies], repeated.one_left_out(y[copies], penalty), atol=1e-7)
    np.testing.assert_allclose(one[copies], repeated.left_out(y[copies], penalty, np.arange(len(copies))), atol=1e-7)


def test_row_of_weight_below_one_is_left_out_completely():
    Z, y, _ = problem(9, 20)
    weight = np.linspace(0.1, 0.9, 9)
    smoother = Smoother.of(Z, fit_intercept=True, weight=weight)
    np.testing.assert_allclose(smoother.one_left_out(y, 0.3), smoother.left_out(y, 0.3, np.arange(9)), atol=1e-10)
    held = np.arange(9) != 4
    mean = weight[held] @ Z[held] / weight[held].sum()
    offset = weight[held] @ y[held] / weight[held].sum()
    A = (Z[held] - mean).T @ (weight[held, None] * (Z[held] - mean)) + 0.3 * np.eye(20)
    coef = np.linalg.solve(A, (Z[held] - mean).T @ (weight[held, None] * (y[held] - offset)))
    np.testing.assert_allclose(smoother.one_left_out(y, 0.3)[4], offset + (Z[4] - mean) @ coef, atol=1e-8)
