"""Preconditioned L-BFGS: minima to rounding, step lengths, new preconditioners, and what the result reports."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from mercer.errors import DataError
from mercer.solvers.losses import quasi_newton
from mercer.solvers.losses.quasi_newton import InverseHessian, line_search, minimize

rng = np.random.default_rng(0)
ROOT = rng.normal(size=(6, 6))
A = ROOT @ ROOT.T + 0.1 * np.eye(6)
B = rng.normal(size=(6, 2))


@dataclass
class Parabola:
    """W'A W / 2 - B'W + 100, column by column; its minimizer is A^-1 B."""

    separable: bool = True
    passes: list = field(default_factory=list)

    def values_and_gradient(self, W):
        self.passes.append(W)
        values = np.einsum("ij,ij->j", W, A @ W / 2 - B[:, : W.shape[1]]) + 100
        return values if self.separable else values.sum(keepdims=True), A @ W - B[:, : W.shape[1]]


@dataclass
class Quartic:
    """A sum of x^4 / 4 + x^2 / 2 - b x + b^2, whose gradient steps overshoot; its minimizer solves x^3 + x = b."""

    b: np.ndarray
    separable: bool = False

    def values_and_gradient(self, W):
        return (W**4 / 4 + W**2 / 2 - self.b * W + self.b**2).sum(keepdims=True)[0], W**3 + W - self.b


def nothing(W, accurate):
    return lambda gradient: gradient


@pytest.mark.parametrize("separable", [True, False])
def test_a_quadratic_function_is_minimized_to_rounding(separable):
    found = minimize(Parabola(separable), np.zeros((6, 2)), nothing, tol=1e-25, max_iter=50)
    np.testing.assert_allclose(found.coef, np.linalg.solve(A, B), rtol=0, atol=1e-11)
    assert found.converged


def test_the_excess_is_that_of_the_value_over_the_minimum():
    least = Parabola(separable=False).values_and_gradient(np.linalg.solve(A, B))[0][0]
    exact = minimize(
        Parabola(separable=False),
        np.ones((6, 2)),
        lambda W, accurate: lambda g: np.linalg.solve(A, g) / 2,
        tol=1e-4,
        max_iter=1,
    )
    assert exact.value - least == pytest.approx(exact.excess * exact.value, rel=1e-6)
    assert exact.excess > 1e-4
    assert not exact.converged


def test_with_the_exact_preconditioner_one_step_suffices():
    objective = Parabola()
    found = minimize(
        objective, np.zeros((6, 2)), lambda W, accurate: lambda g: np.linalg.solve(A, g), tol=1e-20, max_iter=50
    )
    assert found.steps == 1
    assert len(objective.passes) == 2


def test_separable_columns_are_minimized_as_if_alone():
    both = minimize(Parabola(), np.zeros((6, 2)), nothing, tol=1e-30, max_iter=3).coef
    joint = minimize(Parabola(separable=False), np.zeros((6, 2)), nothing, tol=1e-30, max_iter=3).coef
    alone = minimize(Parabola(), np.zeros((6, 1)), nothing, tol=1e-30, max_iter=3).coef
    np.testing.assert_allclose(both[:, :1], alone, rtol=1e-12)
    assert np.abs(joint - both).max() > 1e-3  # one inverse Hessian for all columns gives other steps


def test_the_inverse_hessian_meets_the_secant_equation():
    generator = np.random.default_rng(1)
    for separable in (True, False):
        hessian = InverseHessian(lambda g: g / 3, separable=separable)
        for _ in range(4):
            step = generator.normal(size=(6, 2))
            hessian.update(step, A @ step)
            np.testing.assert_allclose(hessian @ (A @ step), step, rtol=1e-9)


def test_columns_without_curvature_do_not_change_the_inverse_hessian():
    hessian = InverseHessian(lambda g: g / 3, separable=True)
    hessian.update(np.ones((6, 2)), np.column_stack([np.ones(6), np.zeros(6)]))
    product = hessian @ np.ones((6, 2))
    np.testing.assert_allclose(product, np.column_stack([np.ones(6), np.full(6, 1 / 3)]))


class Recorder:
    """Preconditioners without effect, which record when they were asked for."""

    def __init__(self):
        self.calls = []

    def __call__(self, W, accurate):
        self.calls.append(accurate)
        return lambda gradient: 1e-3 * gradient


def test_slow_steps_ask_for_a_better_preconditioner(monkeypatch):
    monkeypatch.setattr(quasi_newton, "MEMORY", 1)
    monkeypatch.setattr(quasi_newton, "SLOW_FACTOR", 0.0)  # all steps are slow
    ill = np.diag(10.0 ** np.arange(6))

    class Slow:
        separable = False

        def values_and_gradient(self, W):
            return np.array([1 + np.sum(W * (ill @ W)) / 2]), ill @ W

    usual, exact = Recorder(), Recorder()
    minimize(Slow(), np.ones((6, 1)), usual, tol=1e-30, max_iter=25)
    minimize(Slow(), np.ones((6, 1)), exact, tol=1e-30, max_iter=25, exact=True)
    assert usual.calls[0] is exact.calls[0] is False
    assert all(usual.calls[1:])
    assert (
        1 < len(usual.calls) <= 2 + 25 // quasi_newton.SLOW_STEPS
    )  # once more because the first step was much too long
    assert len(exact.calls) > len(usual.calls)  # after fewer and fewer slow steps


@pytest.mark.parametrize("start", [0.0, 10.0, -100.0])
def test_steps_that_overshoot_are_cut(start):
    b = np.array([[30.0], [-2.0], [0.0]])
    found = minimize(Quartic(b), np.full((3, 1), start), nothing, tol=1e-25, max_iter=500)
    assert found.converged
    np.testing.assert_allclose(found.coef**3 + found.coef, b, atol=1e-9)


@dataclass
class Kinked:
    """A sum of sqrt(1 + x^2), column by column: full Newton steps lead from x to -x^3, which is farther for |x| > 1."""

    separable: bool = True

    def values_and_gradient(self, W):
        values = np.sqrt(1 + W**2).sum(axis=0)
        return values if self.separable else values.sum(keepdims=True), W / np.sqrt(1 + W**2)


def newton(W, accurate):
    return lambda gradient: gradient * (1 + W**2) ** 1.5


@pytest.mark.parametrize("separable", [True, False])
def test_steps_that_lead_away_are_cut(separable):
    start = np.array([[3.0, 0.1], [-2.0, 0.2]])
    found = minimize(Kinked(separable), start, newton, tol=1e-20, max_iter=100)
    np.testing.assert_allclose(found.coef, 0, atol=1e-9)
    assert found.steps < 20


def test_a_cut_of_one_column_leaves_the_others_alone():
    start = np.array([[30.0, 0.1]])
    alone = minimize(Kinked(), start[:, 1:], newton, tol=1e-15, max_iter=1).coef[0, 0]
    assert minimize(Kinked(), start, newton, tol=1e-15, max_iter=1).coef[0, 1] == pytest.approx(alone, rel=1e-12)
    assert minimize(Kinked(separable=False), start, newton, tol=1e-15, max_iter=1).coef[0, 1] > 10 * abs(alone)


def test_a_cut_does_not_stop_far_short_of_the_minimum_along_the_step():
    class Bent:
        """-x up to one, and a steep parabola more beyond: at one, where cuts by ten lead, all slope is left."""

        separable = True

        def values_and_gradient(self, W):
            beyond = np.maximum(W - 1, 0)
            return (5 * beyond**2 - W)[0], 10 * beyond - 1

    found = line_search(Bent(), np.zeros((1, 1)), np.zeros(1), -np.ones((1, 1)), np.full((1, 1), 1000.0))
    assert 1.05 <= found[0][0, 0] < 1.2
    assert found[2][0, 0] >= -0.5


def test_it_says_when_it_has_not_arrived():
    found = minimize(Quartic(np.full((1, 1), 30.0)), np.full((1, 1), 100.0), nothing, tol=1e-11, max_iter=2)
    assert (found.steps, found.converged) == (2, False)
    assert found.excess > 1e-11


def test_gradients_decide_where_values_are_all_rounding():
    class Noisy(Parabola):
        """Values that grow a little with every call, as if by rounding; gradients are exact."""

        def values_and_gradient(self, W):
            values, gradient = super().values_and_gradient(W)
            return values + 1e9 + 1e-3 * len(self.passes), gradient

    found = minimize(Noisy(), np.linalg.solve(A, B) + 1e-4, nothing, tol=1e-35, max_iter=50)
    assert found.excess <= 1e-28
    np.testing.assert_allclose(found.coef, np.linalg.solve(A, B), rtol=0, atol=1e-10)


def test_it_stops_where_rounding_leaves_nothing_to_gain():
    class Rough(Parabola):
        """Gradients with an error that no step removes, as of sums over many rows."""

        def values_and_gradient(self, W):
            values, gradient = super().values_and_gradient(W)
            self.sign = -getattr(self, "sign", 1)
            return values, gradient + self.sign * 1e-7

    objective = Rough()
    found = minimize(objective, np.zeros((6, 2)), nothing, tol=1e-25, max_iter=1000)
    assert found.converged
    assert found.steps < 100
    np.testing.assert_allclose(found.coef, np.linalg.solve(A, B), atol=1e-4)


def test_a_minimum_to_begin_with_costs_one_step_at_most():
    found = minimize(Parabola(), np.linalg.solve(A, B), nothing, tol=1e-20, max_iter=50)
    assert found.converged
    assert found.steps <= 1


def test_overflow_is_a_clear_error():
    class Infinite(Parabola):
        def values_and_gradient(self, W):
            return np.full(2, np.inf), W

    with pytest.raises(DataError, match="overflows"):
        minimize(Infinite(), np.zeros((6, 2)), nothing, tol=1e-11, max_iter=5)


def test_a_step_that_is_much_too_long_is_shortened_quickly():
    class Cliff:
        """sqrt(x^2 + 1e-16): the slope is nearly constant on both sides of the minimum."""

        separable = True

        def values_and_gradient(self, W):
            root = np.sqrt(np.square(W) + 1e-16)
            return 1 + root[0], W / root

    start = np.full((1, 1), 1e-7)
    found = line_search(Cliff(), start, *Cliff().values_and_gradient(start), np.full((1, 1), -1e6))
    assert abs(found[0][0, 0]) < 1e-7


def test_the_excess_is_compared_with_the_decrease_from_a_reference():
    objective = Parabola(separable=False)
    first, _ = objective.values_and_gradient(np.zeros((6, 2)))
    start, options = np.linalg.solve(A, B) + 0.01, {"tol": 1e-30, "max_iter": 1}
    alone, beside = (minimize(objective, start, nothing, reference=r, **options) for r in (None, first))
    assert beside.excess * (first[0] - beside.value) == pytest.approx(alone.excess * alone.value)
    near = minimize(objective, start, nothing, reference=first - 1e9, **options)  # no decrease at all
    assert near.excess == pytest.approx(1e4 * alone.excess)
