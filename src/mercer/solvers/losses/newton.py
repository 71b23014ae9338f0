"""Minimizes a convex function by Newton steps, each found by conjugate gradients, with as few passes as possible.

Every value, gradient and product with the second derivative is a pass over the rows, which may lie on disks of several
machines; everything else is free beside it. So steps are only as exact as they can be of use, the preconditioner may
cost much, and the line search uses the slopes that it has. Near the minimum, where values no longer tell points apart,
gradients decide: values alone would stop at half of the digits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mercer.errors import DataError

__all__ = ["Minimum", "Objective", "Preconditioner", "minimize"]

Array = np.ndarray
#: Maps a gradient to about the step that would remove it.
Preconditioner = Callable[[Array], Array]

# A step must give this share of the decrease that its slope promises.
ENOUGH = 1e-4
# Relative differences of values below this one may be rounding, also of sums over very many rows.
ROUNDING = 1e-10
# A step is solved to no more than this share of it, and to no less than the next: the last after one that was cut.
FINEST, COARSEST, COARSEST_AFTER_CUT = 1e-5, 0.1, 0.01
MOST_PRODUCTS = 200
# The preconditioner is made anew when coefficients have moved by this share of the largest since.
FAR = 0.05
MOST_CUTS = 40


class Objective(Protocol):
    """A convex function of a matrix of coefficients."""

    @property
    def separable(self) -> bool:
        """Return whether the function is a sum of functions of the columns."""

    def values_and_gradient(self, W: Array) -> tuple[Array, Array]:
        """Return the value (1,), or that of each column (K,) if separable, and the gradient at some coefficients."""

    def curvature(self, W: Array, V: Array) -> Array:
        """Return the second derivative at `W` times `V`."""


@dataclass(frozen=True)
class Minimum:
    """Where a search ended.

    Attributes
    ----------
    coef : ndarray
        The coefficients.
    value : float
        The function there.
    steps : int
        Newton steps that were made.
    error : float
        The size of the next step, relative to the coefficients.
    converged : bool
        Whether that is within the tolerance, or as small as rounding allows.
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
    """Return the minimum of a strictly convex function.

    Parameters
    ----------
    objective : Objective
        The function.
    start : ndarray of shape (p, K)
        Where to begin.
    preconditioner_at : callable
        Makes a preconditioner for the neighborhood of some coefficients.
    tol : float
        The search ends when the next step would change no coefficient by more than this share of the largest.
    max_iter : int
        Most steps; at least one is made.
    many_products : int, default=8
        After a step that took more products than this, the preconditioner is made anew if it was made far away.
    """
    W = start
    values, gradient = evaluate(objective, W)
    precondition, made_at = preconditioner_at(W), W
    error = remaining(precondition(gradient), W)
    steps, products, coarsest = 0, 0, COARSEST
    while steps < max_iter and (steps == 0 or error > tol):
        if products > many_products and remaining(W - made_at, W) > FAR:
            precondition, made_at = preconditioner_at(W), W
        accuracy = float(np.clip(max(error, 0.1 * tol / max(error, 1e-300)), FINEST, coarsest))
        step, products = newton_step(objective, W, gradient, precondition, accuracy)
        found = line_search(objective, W, values, gradient, step, precondition)
        if found is None:  # no point along the step is better, by value or gradient: this is what rounding allows
            return Minimum(W, float(values.sum()), steps, error, converged=True)
        coarsest = COARSEST if np.array_equal(found[0], W + step) else COARSEST_AFTER_CUT
        W, values, gradient = found
        steps += 1
        error = remaining(precondition(gradient), W)
    return Minimum(W, float(values.sum()), steps, error, converged=error <= tol)


def evaluate(objective: Objective, W: Array) -> tuple[Array, Array]:
    """Return values and gradient, which must be finite."""
    values, gradient = objective.values_and_gradient(W)
    if not (np.isfinite(values).all() and np.isfinite(gradient).all()):
        msg = "The sum of the losses overflows. Scale the rows or the weights down, or lower C."
        raise DataError(msg)
    return values, gradient


def remaining(step: Array, W: Array) -> float:
    """Return the size of a step relative to the coefficients."""
    largest = float(np.abs(step).max(initial=0.0))
    return largest / max(float(np.abs(W).max(initial=0.0)), largest, 1e-300)


def newton_step(
    objective: Objective, W: Array, gradient: Array, precondition: Preconditioner, accuracy: float
) -> tuple[Array, int]:
    """Return about the step to the minimum of the local parabola, and the products that it took.

    Conjugate gradients until the residual has shrunk to the given share, in the norm of the preconditioner. Columns
    that are separate problems have step lengths of their own.
    """

    def dot(a: Array, b: Array) -> Array:
        return inner(a, b, separable=objective.separable)

    step, residual = np.zeros_like(W), -gradient
    better = precondition(residual)
    direction, size = better, dot(residual, better)
    wanted = accuracy**2 * size
    for products in range(1, MOST_PRODUCTS + 1):
        curved = objective.curvature(W, direction)
        along = dot(direction, curved)
        length = np.divide(size, along, out=np.zeros_like(size), where=along > 0)
        step = step + length * direction
        residual = residual - length * curved
        better = precondition(residual)
        before, size = size, dot(residual, better)
        rest = size > wanted
        if not rest.any():
            return step, products
        direction = np.where(rest, better + np.divide(size, before, out=np.zeros_like(size), where=rest) * direction, 0)
    return step, MOST_PRODUCTS


def line_search(
    objective: Objective, W: Array, values: Array, gradient: Array, step: Array, precondition: Preconditioner
) -> tuple[Array, Array, Array] | None:
    """Return a better point along a step, its values and gradient; None if there is none beyond rounding.

    Separate problems have lengths of their own. A length must give its share of the decrease, and if it was cut, leave
    no more than half of the slope: where curvature changes abruptly, a length that is much too short would be the
    first of many.
    """

    def dot(a: Array, b: Array) -> Array:
        return inner(a, b, separable=objective.separable)

    slopes = dot(gradient, step)
    idle = slopes >= 0  # columns that are where they should be
    short, long = np.zeros_like(slopes), np.where(idle, 0.0, 1.0)
    left, right = slopes.copy(), slopes.copy()  # slopes at the two ends
    length, cut, hidden = long.copy(), np.zeros_like(idle), idle.copy()
    done = idle.copy()
    for _ in range(MOST_CUTS):
        trial = W + length * step
        new_values, new_gradient = objective.values_and_gradient(trial)
        new_slopes = dot(new_gradient, step)
        finite = np.isfinite(new_values) & np.isfinite(new_slopes)
        low = finite & (new_values <= values + ENOUGH * length * slopes)
        tiny = -length * slopes <= ROUNDING * np.abs(values)  # too little to be seen in values
        hidden |= ~done & tiny & ~low
        flat = ~cut | (new_slopes >= 0.5 * slopes) | (long - short <= 1e-3 * long)
        done |= (low & flat) | tiny
        if done.all():
            break
        # The zero of the line through the slopes at two ends, kept away from both.
        lower, upper = ~done & low & ~flat, ~done & ~low
        short, left = np.where(lower, length, short), np.where(lower, new_slopes, left)
        long, right = (
            np.where(upper, length, long),
            np.where(upper & finite, new_slopes, np.where(upper, np.inf, right)),
        )
        cut |= upper
        zero = np.divide(-left, right - left, out=np.full_like(left, 0.5), where=np.isfinite(right) & (right > left))
        length = np.where(done, length, short + np.clip(zero, 0.1, 0.9) * (long - short))
    else:
        if not (new_values.sum() < values.sum()):
            return None
    if hidden.all():
        before, after = (float(np.vdot(g, precondition(g))) for g in (gradient, new_gradient))
        return (trial, new_values, new_gradient) if after < before / 4 else None
    return trial, new_values, new_gradient


def inner(a: Array, b: Array, *, separable: bool) -> Array:
    """Return the inner product of each column (K,) if they are separate problems, else of all (1,)."""
    products = np.einsum("ij,ij->j", a, b)
    return products if separable else products.sum(keepdims=True)
