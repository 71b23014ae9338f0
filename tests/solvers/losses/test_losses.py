"""Losses: slopes and curvatures are derivatives, sums over parts are those of the whole, extremes stay finite."""

import pickle
from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np
import pytest
from sklearn.metrics import log_loss

from mercer.engines import Block
from mercer.engines.base import row_blocks
from mercer.solvers.losses.fit import AsGiven
from mercer.solvers.losses.losses import Logistic, LossTerm, Problem, SquaredHinge
from mercer.statistics.feature_cache import RowFeatures

LOSSES = [Logistic(), SquaredHinge()]


def problem(loss, classes, n=60, D=5, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.array(["a", "b", "c", "d"])[:classes]
    block = Block(0, rng.normal(size=(n, D)), rng.choice(labels, n), rng.uniform(0, 2, n))
    columns = 1 if classes == 2 else classes
    what = Problem(RowFeatures(AsGiven(D)), loss, labels, rng.uniform(0.5, 2, classes))
    return what, block, rng.normal(size=(D + 1, columns)), rng.normal(size=(D + 1, columns))


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("classes", [2, 4])
def test_gradients_are_derivatives(loss, classes):
    what, block, W, V = problem(loss, classes)
    h = 1e-6
    up, down = (LossTerm(what, W + s * h * V)(block) for s in (1, -1))
    here = LossTerm(what, W)(block)
    along = np.einsum("ij,ij->j", here.gradient, V)
    expected = along if loss.separable else along.sum(keepdims=True)
    np.testing.assert_allclose((up.values - down.values) / (2 * h), expected, rtol=1e-6)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("columns", [1, 3])
def test_curvatures_are_the_diagonal_of_the_second_derivative(loss, columns):
    rng = np.random.default_rng(0)
    F, codes, h = rng.normal(size=(40, columns)), rng.integers(0, max(columns, 2), 40), 1e-6
    for k in range(columns):
        shift = h * np.eye(columns)[k]
        up, down = (loss.value_and_slopes(F + sign * shift, codes)[1][:, k] for sign in (1, -1))
        np.testing.assert_allclose(loss.curvatures(F, codes)[:, k], (up - down) / (2 * h), atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("classes", [2, 4])
def test_the_best_constant_has_no_slope(loss, classes):
    shares = np.array([0.5, 0.1, 0.15, 0.25])[:classes]
    shares /= shares.sum()
    constant = loss.best_constant(shares)
    assert len(constant) == (1 if classes == 2 else classes)
    slopes = loss.value_and_slopes(np.tile(constant, (classes, 1)), np.arange(classes))[1]
    np.testing.assert_allclose(shares @ slopes, 0, atol=1e-15)


@pytest.mark.parametrize("classes", [2, 4])
def test_the_logistic_loss_is_the_logarithmic_loss(classes):
    what, block, W, _ = problem(Logistic(), classes)
    F = block.X @ W[:-1] + W[-1]
    if classes == 2:
        F = np.column_stack([0 * F, F])
    P = np.exp(F) / np.exp(F).sum(axis=1, keepdims=True)
    weight = block.weight * what.label_weight[np.searchsorted(what.labels, block.y)]
    expected = log_loss(block.y, P, sample_weight=weight, normalize=False, labels=what.labels)
    np.testing.assert_allclose(LossTerm(what, W)(block).values, [expected])


def test_the_squared_hinge_of_a_few_rows():
    values, slopes = SquaredHinge().value_and_slopes(np.array([[0.5, -2.0, 0.0]]), np.array([0]))
    np.testing.assert_array_equal(values, [[0.25, 0, 1]])
    np.testing.assert_array_equal(slopes, [[-1.0, 0.0, 2.0]])
    values, slopes = SquaredHinge().value_and_slopes(np.array([[0.5], [0.5]]), np.array([0, 1]))
    np.testing.assert_array_equal(values, [[2.25], [0.25]])
    np.testing.assert_array_equal(slopes, [[3.0], [-1.0]])


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("classes", [2, 4])
def test_sums_over_blocks_add_up_and_terms_can_be_pickled(loss, classes):
    what, block, W, _ = problem(loss, classes)
    term = LossTerm(what, W)
    whole = term(block)
    total = reduce(add, [pickle.loads(pickle.dumps(term))(b) for b in row_blocks(block, 7)])
    np.testing.assert_allclose(total.gradient, whole.gradient, atol=1e-12)
    np.testing.assert_allclose(total.values, whole.values, rtol=1e-12)


def test_tiles_divide_a_block(monkeypatch):
    what, block, W, _ = problem(Logistic(), 4)
    whole = LossTerm(what, W)(block)
    monkeypatch.setattr("mercer.statistics.feature_cache.TILE_ROWS", 7)
    np.testing.assert_allclose(LossTerm(what, W)(block).gradient, whole.gradient, atol=1e-12)


def test_products_of_float32_features_are_in_float64_on_request():
    what, block, W, _ = problem(Logistic(), 4)
    single = Block(0, block.X.astype(np.float32), block.y, block.weight)
    exact = LossTerm(what, W)(Block(0, single.X.astype(np.float64), block.y, block.weight)).gradient
    usual, doubled = (LossTerm(replace(what, in_double=choice), W)(single).gradient for choice in (False, True))
    assert usual.dtype == doubled.dtype == np.float64
    np.testing.assert_allclose(doubled, exact, atol=1e-12)
    np.testing.assert_allclose(usual, exact, atol=1e-5 * np.abs(exact).max())
    assert np.abs(usual - exact).max() > 1e-9


@pytest.mark.parametrize("columns", [1, 3])
def test_slopes_keep_their_digits_where_a_row_is_sure(columns):
    # p - 1 of a label of probability 1 - 1e-20 is -1e-20, not zero.
    F = np.zeros((1, columns))
    F[0, -1] = 46.0
    _, slopes = Logistic().value_and_slopes(F, np.array([max(columns, 2) - 1]))
    np.testing.assert_allclose(slopes[0, -1], -np.exp(-46.0) * max(1, columns - 1), rtol=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_extreme_decision_values_stay_finite(loss):
    for columns in (1, 3):
        F = np.array([[1e4] * columns, [-1e4] * columns, [0.0] * columns])
        F[:, -1] *= -1
        values, slopes = loss.value_and_slopes(F, np.array([0, 1, 1]))
        assert np.isfinite(values).all()
        assert np.isfinite(slopes).all()
        assert np.isfinite(loss.curvatures(F, np.array([0, 1, 1]))).all()
