"""Newton-CG: minimization of a convex function by Newton steps that preconditioned conjugate gradients compute.

The method is a truncated Newton method with a line search [1]_, designed to need few passes over the rows. Every value,
gradient and Hessian product is one pass over rows that may be stored on disks of several machines, and the cost of
everything else is negligible. Therefore Newton steps are solved only as accurately as is useful, an expensive
preconditioner is worth its cost, and the line search uses directional derivatives, which it gets with the values. Near
the minimum, where values of the function are equal up to rounding error, points are compared by their gradients. A
comparison of values would determine the minimizer to half of the digits only.

References
----------
.. [1] Nocedal, Wright (2006), Numerical Optimization, second edition, chapters 3 and 7, Springer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mercer.errors import DataError

__all__ = ["Minimum", "Objective", "Preconditioner", "minimize"]

Array = np.ndarray
#: Multiplies a matrix of the shape of the coefficients by an approximate inverse of the Hessian.
Preconditioner = Callable[[Array], Array]

# Armijo constant: a step must achieve this fraction of the decrease that the slope predicts.
SUFFICIENT_DECREASE = 1e-4
# Relative differences of values below this bound may be rounding errors, also of sums over very many rows.
ROUNDING = 1e-10
# Bounds on the relative residual of conjugate gradients; the last is the upper bound after a step that was shortened.
SMALLEST_RESIDUAL, LARGEST_RESIDUAL, LARGEST_RESIDUAL_AFTER_CUT = 1e-5, 0.1, 0.01
# Maximal number of Hessian products of one Newton step.
MAX_PRODUCTS = 200
# The preconditioner is computed again when coefficients have moved by this fraction of the largest one.
FAR = 0.05
# Maximal number of step lengths that one line search tries.
MAX_TRIALS = 40


class Objective(Protocol):
    """A convex function of a matrix of coefficients."""

    @property
    def separable(self) -> bool:
        """Whether the function is a sum of K functions, each of one column of the coefficients."""

    def values_and_gradient(self, W: Array) -> tuple[Array, Array]:
        """Return the value (1,), or one value per column (K,) if separable, and the gradient at `W`."""

    def curvature(self, W: Array, V: Array) -> Array:
        """Return the product of the Hessian at `W` with `V`."""


@dataclass(frozen=True)
class Minimum:
    """The result of a minimization.

    Attributes
    ----------
    coef : ndarray
        Coefficients at the last iterate.
    value : float
        Value of the function at these coefficients.
    steps : int
        Number of Newton steps.
    error : float
        Estimated size of the next Newton step, relative to the coefficients.
    converged : bool
        Whether `error` is within the tolerance, or as small as rounding allows.
    """

    coef: Array
    value: float
    steps: int
    error: float
    converged: bool


def minimize(
    objective: Objective,
    start: Array,
    preconditioner_at: Callable[[Array], Preconditioner],
    *,
    tol: float,
    max_iter: int,
    many_products: int = 8,
) -> Minimum:
    """Return the minimum of a strictly convex function, computed by Newton-CG.

    Parameters
    ----------
    objective : Objective
        The function.
    start : ndarray of shape (p, K)
        Starting point.
    preconditioner_at : callable
        Given coefficients, returns a preconditioner for their neighborhood.
    tol : float
        The iteration ends when the next step would change no coefficient by more than this fraction of the largest.
    max_iter : int
        Maximal number of Newton steps; at least one step is made.
    many_products : int, default=8
        After a step that took more Hessian products than this, the preconditioner is computed again, unless it was
        computed near the current coefficients.

    Returns
    -------
    Minimum
    """
    W = start
    values, gradient = evaluate(objective, W)
    precondition, computed_at = preconditioner_at(W), W
    error = relative_size(precondition(gradient), W)
    steps, products, largest_residual = 0, 0, LARGEST_RESIDUAL
    while steps < max_iter and (steps == 0 or error > tol):
        if products > many_products and relative_size(W - computed_at, W) > FAR:
            precondition, computed_at = preconditioner_at(W), W
        accuracy = max(error, 0.1 * tol / max(error, 1e-300))
        accuracy = float(np.clip(accuracy, SMALLEST_RESIDUAL, largest_residual))
        step, products = newton_step(objective, W, gradient, precondition, accuracy)
        accepted = line_search(objective, W, values, gradient, step, precondition)
        if accepted is None:  # no point along the step is better, by value or by gradient, to rounding
            return Minimum(W, float(values.sum()), steps, error, converged=True)
        is_full_step = np.array_equal(accepted[0], W + step)
        largest_residual = LARGEST_RESIDUAL if is_full_step else LARGEST_RESIDUAL_AFTER_CUT
        W, values, gradient = accepted
        steps += 1
        error = relative_size(precondition(gradient), W)
    return Minimum(W, float(values.sum()), steps, error, converged=error <= tol)


def evaluate(objective: Objective, W: Array) -> tuple[Array, Array]:
    """Return the values and the gradient of an objective at `W`; raise `DataError` if they are not finite."""
    values, gradient = objective.values_and_gradient(W)
    if not (np.isfinite(values).all() and np.isfinite(gradient).all()):
        msg = "The sum of the losses overflows. Scale the rows or the weights down, or lower C."
        raise DataError(msg)
    return values, gradient


def relative_size(step: Array, W: Array) -> float:
    """Return max|step| / max(max|W|, max|step|), the size of a step relative to the coefficients, at most 1."""
    largest = float(np.abs(step).max(initial=0.0))
    return largest / max(float(np.abs(W).max(initial=0.0)), largest, 1e-300)


def newton_step(
    objective: Objective, W: Array, gradient: Array, precondition: Preconditioner, accuracy: float
) -> tuple[Array, int]:
    """Return an approximate Newton step and the number of Hessian products it took.

    Conjugate gradients with a preconditioner P iterate until the norm sqrt(r' P r) of the residual r has decreased by
    the factor `accuracy`. If the objective is separable, each column has its own step lengths.
    """

    def dot(a: Array, b: Array) -> Array:
        return inner(a, b, separable=objective.separable)

    step, residual = np.zeros_like(W), -gradient
    preconditioned = precondition(residual)
    direction, square = preconditioned, dot(residual, preconditioned)
    target = accuracy**2 * square
    for products in range(1, MAX_PRODUCTS + 1):
        product = objective.curvature(W, direction)
        curvature = dot(direction, product)
        length = np.divide(square, curvature, out=np.zeros_like(square), where=curvature > 0)
        step = step + length * direction
        residual = residual - length * product
        preconditioned = precondition(residual)
        previous, square = square, dot(residual, preconditioned)
        active = square > target
        if not active.any():
            return step, products
        ratio = np.divide(square, previous, out=np.zeros_like(square), where=active)
        direction = np.where(active, preconditioned + ratio * direction, 0)
    return step, MAX_PRODUCTS


def line_search(
    objective: Objective, W: Array, values: Array, gradient: Array, step: Array, precondition: Preconditioner
) -> tuple[Array, Array, Array] | None:
    """Return a point W + length * step of lower value, its values and its gradient.

    The result is None if no tried point improves on `W` by more than the rounding error.

    If the objective is separable, each column has its own step length. A length must satisfy the condition of
    sufficient decrease (Armijo), and if it was shortened, the slope at the new point must be at most half as steep as
    at the start (a weak Wolfe condition): where the curvature changes abruptly, a step that is much too short would be
    followed by many others.
    """

    def dot(a: Array, b: Array) -> Array:
        return inner(a, b, separable=objective.separable)

    slopes = dot(gradient, step)
    at_minimum = slopes >= 0
    # The length is bracketed by a lower and an upper bound; `left` and `right` are the slopes there.
    lower, upper = np.zeros_like(slopes), np.where(at_minimum, 0.0, 1.0)
    left, right = slopes.copy(), slopes.copy()
    length, shortened, below_rounding = upper.copy(), np.zeros_like(at_minimum), at_minimum.copy()
    done = at_minimum.copy()
    for _ in range(MAX_TRIALS):
        trial = W + length * step
        new_values, new_gradient = objective.values_and_gradient(trial)
        new_slopes = dot(new_gradient, step)
        finite = np.isfinite(new_values) & np.isfinite(new_slopes)
        decreased = finite & (new_values <= values + SUFFICIENT_DECREASE * length * slopes)
        tiny = -length * slopes <= ROUNDING * np.abs(values)  # the predicted decrease is below rounding
        below_rounding |= ~done & tiny & ~decreased
        flat = ~shortened | (new_slopes >= 0.5 * slopes) | (upper - lower <= 1e-3 * upper)
        done |= (decreased & flat) | tiny
        if done.all():
            break
        too_short, too_long = ~done & decreased & ~flat, ~done & ~decreased
        lower, left = np.where(too_short, length, lower), np.where(too_short, new_slopes, left)
        upper, right = (
            np.where(too_long, length, upper),
            np.where(too_long & finite, new_slopes, np.where(too_long, np.inf, right)),
        )
        shortened |= too_long
        # Secant step: the zero of the line through the slopes at the two bounds, kept away from both bounds.
        zero = np.divide(-left, right - left, out=np.full_like(left, 0.5), where=np.isfinite(right) & (right > left))
        length = np.where(done, length, lower + np.clip(zero, 0.1, 0.9) * (upper - lower))
    else:
        if not (new_values.sum() < values.sum()):
            return None
    if below_rounding.all():  # values cannot be compared, but gradients can
        previous, updated = (float(np.vdot(g, precondition(g))) for g in (gradient, new_gradient))
        return (trial, new_values, new_gradient) if updated < previous / 4 else None
    return trial, new_values, new_gradient


def inner(a: Array, b: Array, *, separable: bool) -> Array:
    """Return the inner products of column j of `a` and of `b` for all j (K,) if separable, else their sum (1,)."""
    products = np.einsum("ij,ij->j", a, b)
    return products if separable else products.sum(keepdims=True)
