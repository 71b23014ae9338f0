"""The search: exact on parabolas, down to rounding elsewhere, and honest about where it ended."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from mercer.errors import DataError
from mercer.solvers.losses.newton import line_search, minimize, newton_step

rng = np.random.default_rng(0)
ROOT = rng.normal(size=(6, 6))
A = ROOT @ ROOT.T + 0.1 * np.eye(6)
B = rng.normal(size=(6, 2))


@dataclass
class Parabola:
    """W'A W / 2 - B'W, column by column; its minimum is A^-1 B."""

    separable: bool = True
    passes: list = field(default_factory=list)

    def values_and_gradient(self, W):
        self.passes.append("value")
        values = np.einsum("ij,ij->j", W, A @ W / 2 - B[:, : W.shape[1]])
        return values if self.separable else values.sum(keepdims=True), A @ W - B

    def curvature(self, W, V):
        self.passes.append("product")
        return A @ V


@dataclass
class Quartic:
    """A sum of x^4 / 4 + x^2 / 2 - b x, whose Newton steps overshoot; the minimum is the root of x^3 + x = b."""

    b: np.ndarray
    separable: bool = False

    def values_and_gradient(self, W):
        return (W**4 / 4 + W**2 / 2 - self.b * W).sum(keepdims=True)[0], W**3 + W - self.b

    def curvature(self, W, V):
        return (3 * W**2 + 1) * V


def nothing(W):
    return lambda gradient: gradient


@pytest.mark.parametrize("separable", [True, False])
def test_a_parabola_is_solved_to_rounding(separable):
    found = minimize(Parabola(separable), np.zeros((6, 2)), nothing, tol=1e-12, max_iter=50)
    np.testing.assert_allclose(found.coef, np.linalg.solve(A, B), rtol=0, atol=1e-11)
    assert found.converged
    assert found.error <= 1e-12


def test_with_the_right_preconditioner_one_product_is_a_step():
    objective = Parabola()
    found = minimize(objective, np.zeros((6, 2)), lambda W: lambda g: np.linalg.solve(A, g), tol=1e-10, max_iter=50)
    assert found.steps == 1
    assert objective.passes == ["value", "product", "value"]


def test_separate_columns_are_solved_as_if_alone():
    W, gradient = np.zeros((6, 2)), B * [1.0, 1e-3]
    gradient[:, 1] = np.linalg.eigh(A)[1][:, 0]  # done after one product, unlike the other
    both, products = newton_step(Parabola(), W, gradient, lambda g: g, 0.3)
    for k in (0, 1):
        alone, fewer = newton_step(Parabola(), W[:, [k]], gradient[:, [k]], lambda g: g, 0.3)
        np.testing.assert_allclose(both[:, [k]], alone, rtol=1e-9)
        assert fewer <= products
    joint, _ = newton_step(Parabola(separable=False), W, gradient, lambda g: g, 0.3)
    assert np.abs(joint - both).max() > 1e-9  # one length for all columns is another search


@pytest.mark.parametrize("start", [0.0, 100.0, -1e6])
def test_steps_that_overshoot_are_cut(start):
    b = np.array([[30.0], [-2.0], [0.0]])
    found = minimize(Quartic(b), np.full((3, 1), start), nothing, tol=1e-11, max_iter=200)
    assert found.converged
    np.testing.assert_allclose(found.coef**3 + found.coef, b, atol=1e-9)


@dataclass
class Kinked:
    """A sum of sqrt(1 + x^2), column by column: whole Newton steps lead from x to -x^3, away from beyond one."""

    separable: bool = True

    def values_and_gradient(self, W):
        values = np.sqrt(1 + W**2).sum(axis=0)
        return values if self.separable else values.sum(keepdims=True), W / np.sqrt(1 + W**2)

    def curvature(self, W, V):
        return V / (1 + W**2) ** 1.5


@pytest.mark.parametrize("separable", [True, False])
def test_steps_that_lead_away_are_cut(separable):
    start = np.array([[3.0, 0.1], [-2.0, 0.2]])
    found = minimize(Kinked(separable), start, nothing, tol=1e-11, max_iter=100)
    np.testing.assert_allclose(found.coef, 0, atol=1e-9)
    assert found.steps < 20


def test_a_cut_of_one_column_leaves_the_others_alone():
    start = np.array([[30.0, 0.1]])
    alone = minimize(Kinked(), start[:, 1:], nothing, tol=1e-15, max_iter=1).coef[0, 0]
    assert minimize(Kinked(), start, nothing, tol=1e-15, max_iter=1).coef[0, 1] == pytest.approx(alone, rel=1e-12)
    assert minimize(Kinked(separable=False), start, nothing, tol=1e-15, max_iter=1).coef[0, 1] > 10 * abs(alone)


def test_a_cut_does_not_stop_far_short_of_the_minimum_along_the_step():
    class Bent:
        """-x up to one, and a steep parabola more beyond: at one, where cuts by ten lead, all slope is left."""

        separable = True

        def values_and_gradient(self, W):
            beyond = np.maximum(W - 1, 0)
            return (5 * beyond**2 - W)[0], 10 * beyond - 1

    found = line_search(Bent(), np.zeros((1, 1)), np.zeros(1), -np.ones((1, 1)), np.full((1, 1), 1000.0), lambda g: g)
    assert 1.05 <= found[0][0, 0] < 1.2
    assert found[2][0, 0] >= -0.5


def test_it_says_when_it_has_not_arrived():
    found = minimize(Quartic(np.full((1, 1), 1e9)), np.full((1, 1), 1e6), nothing, tol=1e-11, max_iter=2)
    assert (found.steps, found.converged) == (2, False)
    assert found.error > 1e-11


def test_gradients_decide_where_values_are_all_rounding():
    class Noisy(Parabola):
        """Values that grow a little with every call, as if by rounding; gradients are exact."""

        def values_and_gradient(self, W):
            values, gradient = super().values_and_gradient(W)
            return values + 1e9 + 1e-3 * len(self.passes), gradient

    found = minimize(Noisy(), np.linalg.solve(A, B) + 1e-4, nothing, tol=1e-11, max_iter=50)
    assert found.error <= 1e-11
    np.testing.assert_allclose(found.coef, np.linalg.solve(A, B), rtol=0, atol=1e-10)


def test_it_stops_where_rounding_leaves_nothing_to_gain():
    class Rough(Parabola):
        """Gradients with an error that no step removes, as of sums over many rows."""

        def values_and_gradient(self, W):
            values, gradient = super().values_and_gradient(W)
            self.sign = -getattr(self, "sign", 1)
            return values, gradient + self.sign * 1e-7

    objective = Rough()
    found = minimize(objective, np.zeros((6, 2)), nothing, tol=1e-14, max_iter=1000)
    assert found.converged
    assert found.steps < 20
    np.testing.assert_allclose(found.coef, np.linalg.solve(A, B), atol=1e-4)


def test_a_minimum_to_begin_with_costs_one_step_at_most():
    found = minimize(Parabola(), np.linalg.solve(A, B), nothing, tol=1e-11, max_iter=50)
    assert found.converged
    assert found.steps <= 1


def test_overflow_is_a_clear_error():
    class Infinite(Parabola):
        def values_and_gradient(self, W):
            return np.full(2, np.inf), W

    with pytest.raises(DataError, match="overflows"):
        minimize(Infinite(), np.zeros((6, 2)), nothing, tol=1e-11, max_iter=5)
