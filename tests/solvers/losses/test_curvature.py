"""Preconditioners: the exact curvature where the sample is all rows, near it where not."""

from dataclasses import replace

import numpy as np
import pytest

from mercer.solvers.losses import curvature
from mercer.solvers.losses.curvature import SampleCurvature, significant_rows
from mercer.solvers.losses.fit import AsGiven
from mercer.solvers.losses.losses import Logistic, Problem, SquaredHinge
from mercer.solvers.losses.sample import Sample
from mercer.statistics.feature_cache import RowFeatures


def setting(loss, columns, n=300, D=4, seed=0):
    rng = np.random.default_rng(seed)
    classes = max(2, columns)
    Z, codes, weight = rng.normal(size=(n, D)), rng.integers(0, classes, n), rng.uniform(0.1, 2, n)
    rows = RowFeatures(AsGiven(D))
    sample = Sample(rows, Z, codes, codes, weight, np.arange(1.0, n + 1), n, 1)
    problem = Problem(rows, loss, np.arange(classes), np.ones(classes))
    return SampleCurvature(sample, sample, 1.0, problem, fit_intercept=True), 0.5 * rng.normal(size=(D + 1, columns))


def with_constant(sample):
    return np.column_stack([sample.whole.features, np.ones(len(sample.whole.codes))])


def product(sample, W, V, h=1e-6):
    """Return the Hessian of the penalized loss at `W` times `V`, by differences of gradients."""
    Z, rows = with_constant(sample), sample.whole

    def gradient(W):
        return Z.T @ (rows.weight[:, None] * sample.problem.loss.value_and_slopes(Z @ W, rows.codes)[1])

    return (gradient(W + h * V) - gradient(W - h * V)) / (2 * h) + V  # the penalty, here of the intercept too


@pytest.mark.parametrize(
    ("loss", "columns"), [(Logistic(), 1), (SquaredHinge(), 1), (SquaredHinge(), 3)], ids=["logistic", "hinge", "rest"]
)
def test_factors_invert_the_curvature_of_separate_columns(loss, columns, monkeypatch):
    monkeypatch.setattr(curvature, "NEGLIGIBLE", 0.0)
    monkeypatch.setattr(curvature, "ROWS_PER_COEFFICIENT", 1000)
    sample, W = setting(loss, columns)
    V = np.random.default_rng(1).normal(size=W.shape)
    for accurate in (True, False):  # products may be computed in float32
        np.testing.assert_allclose(sample(W, accurate)(product(sample, W, V)), V, atol=1e-3)
    assert len(sample(W, True).lower) == columns


def test_a_softmax_gets_steps_that_add_up_to_zero():
    sample, W = setting(Logistic(), 3)
    gradient = np.random.default_rng(1).normal(size=W.shape)
    step = sample(W, False)(gradient)
    np.testing.assert_allclose(step.sum(axis=1), 0, atol=1e-12)
    # On such steps the preconditioned curvature is between 1 and 2 but for rounding and rows left out.
    V = gradient - gradient.mean(axis=1, keepdims=True)
    ratio = np.vdot(V, sample(W, False)(product(sample, W, V))) / np.vdot(V, V)
    assert 0.5 < ratio < 2.5


def test_equal_columns_share_a_factor_and_so_do_too_large_ones(monkeypatch):
    sample, W = setting(SquaredHinge(), 3)
    assert len(sample(0 * W, False).lower) == 1
    assert len(sample(W, False).lower) == 3
    monkeypatch.setattr(curvature, "MOST_ENTRIES", 3 * 25 - 1)
    assert len(sample(W, False).lower) == 1


def test_equal_decision_values_need_one_gram_matrix():
    sample, W = setting(Logistic(), 3)
    W[:-1] = 0.0
    V = np.random.default_rng(1).normal(size=W.shape)
    P = np.exp(W[-1]) / np.exp(W[-1]).sum()
    Z = with_constant(sample)
    gram = Z.T @ (sample.whole.weight[:, None] * Z)
    expected = np.column_stack([np.linalg.solve(p * (1 - p) * gram + np.eye(5), V[:, k]) for k, p in enumerate(P)])
    found = sample(W, True)
    assert len(found.lower) == 3
    np.testing.assert_allclose(found(V), expected - expected.mean(axis=1, keepdims=True), rtol=1e-3)


def test_without_intercept_its_coefficient_stands_alone():
    sample, W = setting(SquaredHinge(), 1)
    alone = replace(sample, fit_intercept=False)
    np.testing.assert_allclose(alone(W, False)(np.eye(5)[:, [4]]), np.eye(5)[:, [4]], atol=1e-12)


def test_no_curved_row_leaves_the_penalty():
    sample, W = setting(SquaredHinge(), 1)
    far = np.where(sample.whole.codes[:, None] == 1, 1.0, -1.0) * np.array([[9.0, 0, 0, 0]])
    rows = replace(sample.whole, X=far)
    saved = replace(sample, first=rows, whole=rows)
    W = np.array([[1.0], [0], [0], [0], [0]])  # margins of nine: nothing to lose
    np.testing.assert_array_equal(saved(W, False)(W), W)


def test_large_weights_take_all_digits(monkeypatch):
    monkeypatch.setattr(curvature, "NEGLIGIBLE", 0.0)
    sample, W = setting(Logistic(), 1, n=30)
    huge = replace(sample, C=1e12)
    V, Z, rows = np.ones_like(W), with_constant(sample), sample.whole
    curved = Logistic().curvatures(Z @ W, rows.codes)
    exact = 1e12 * Z.T @ (rows.weight[:, None] * curved * Z) + np.eye(5)
    np.testing.assert_allclose(huge(W, False)(exact @ V), V, rtol=1e-9)


def test_rows_that_count():
    rows, share = significant_rows(np.array([0.0, 5.0, 1e-3, 5.0, 0.0, 2.0]), most=10)
    np.testing.assert_array_equal(rows, [1, 3, 5])
    np.testing.assert_array_equal(share, [5.0, 5.0, 2.0])
    rows, share = significant_rows(np.ones(1000), most=100)
    assert len(rows) <= 100
    np.testing.assert_allclose(share.sum(), 990)  # less what is negligible
    assert len(significant_rows(np.zeros(4), most=10)[0]) <= 4
