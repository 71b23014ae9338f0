"""The function that classifiers of a loss minimize, against sums written out and finite differences."""

import numpy as np
import pytest

from mercer.engines import MemoryEngine
from mercer.engines.passes import Passes
from mercer.solvers.losses.fit import AsGiven
from mercer.solvers.losses.losses import Logistic, Problem, SquaredHinge
from mercer.solvers.losses.objective import Penalized
from mercer.statistics.feature_cache import RowFeatures

RNG = np.random.default_rng(0)
Z = RNG.normal(size=(60, 4))
Y = RNG.integers(0, 3, 60)
WEIGHT = RNG.uniform(0, 2, 60)
W, V = RNG.normal(size=(2, 5, 3))


def objective(loss, told=None, *, C=3.0, fit_intercept=True):
    engine = MemoryEngine(Z, Y, WEIGHT, block_rows=17, n_jobs=1)
    problem = Problem(RowFeatures(AsGiven(4)), loss, np.arange(3), np.array([1.0, 2.0, 0.5]))
    return Penalized(engine, problem, C, fit_intercept, Passes(None if told is None else told.append), 60, 2.0)


def values_by_hand(loss, W, C):
    F = Z @ W[:-1] + W[-1]
    weight = C * WEIGHT * np.array([1.0, 2.0, 0.5])[Y]
    if isinstance(loss, Logistic):
        own = np.log(np.exp(F).sum(axis=1)) - F[np.arange(60), Y]
        return np.array([weight @ own + 0.5 * np.sum(W[:-1] ** 2)])
    signs = np.where(Y[:, None] == np.arange(3), 1.0, -1.0)
    return weight @ np.maximum(1 - signs * F, 0.0) ** 2 + 0.5 * np.sum(W[:-1] ** 2, axis=0)


@pytest.mark.parametrize("C", [0.1, 3.0])
@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge()], ids=repr)
def test_values_are_weighted_losses_and_half_the_squared_coefficients(loss, C):
    found = objective(loss, C=C)
    assert found.separable == isinstance(loss, SquaredHinge)
    np.testing.assert_allclose(found.values_and_gradient(W)[0], values_by_hand(loss, W, C), rtol=1e-12)


@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge()], ids=repr)
def test_gradients_are_derivatives(loss):
    found, h = objective(loss), 1e-5
    (up, _), (down, _) = (found.values_and_gradient(W + s * h * V) for s in (1, -1))
    along = np.sum(found.values_and_gradient(W)[1] * V, axis=0)
    np.testing.assert_allclose((up - down) / (2 * h), along if found.separable else [along.sum()], rtol=1e-6)


def test_without_an_intercept_nothing_moves_it():
    found, free = objective(Logistic(), fit_intercept=False), objective(Logistic())
    with_it, without = free.values_and_gradient(W)[1], found.values_and_gradient(W)[1]
    assert np.array_equal(with_it[:-1], without[:-1])
    assert not without[-1].any()
    assert with_it[-1].all()


def test_every_pass_is_reported_with_the_loss():
    told = []
    found = objective(Logistic(), told)
    [value] = found.values_and_gradient(W)[0]
    found.values_and_gradient(W)
    loss = f"loss {value / (3.0 * 2.0):.6g}"  # of C and the weight of all rows
    assert [(one.rows, one.total, one.note) for one in told] == [
        *((rows, 60, "pass 1") for rows in (17, 34, 51)),
        (60, 60, f"pass 1, {loss}"),
        *((rows, 60, f"pass 2, {loss}") for rows in (17, 34, 51)),
        (60, 60, f"pass 2, {loss}"),
    ]
    assert found.passes.count == 2
