"""Minimises a convex function by Newton steps, each found by conjugate gradients, with as few passes as possible.

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

__all__ = ["Minimum", "Objective", "Preconditioner", "minimise"]

Array = np.ndarray
#: Maps a gradient to about the step that would remove it.
Preconditioner = Callable[[Array], Array]

# A step must give this share of the decrease that its slope promises.
ENOUGH = 1e-4
# Relative differences of values below this one may be rounding, also of sums over very many rows.
ROUNDING = 1e-10
# A step is solved to no more than this share of it, and to no less than the other.
FINEST, COARSEST = 1e-5, 0.1
MOST_PRODUCTS = 200
# The preconditioner is made anew when coefficients have moved by this share of the largest since.
FAR = 0.05
MOST_CUTS = 40


class Objective(Protocol):
    """A convex function of a matrix of coefficients."""

    @property
    def separable(self) -> bool:
        """Return whether the function is a sum of functions of the columns."""

    def value_and_gradient(self, W: Array) -> tuple[float, Array]:
        """Return the value and the gradient at some coefficients."""

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


def minimise(
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
        Makes a preconditioner for the neighbourhood of some coefficients.
    tol : float
        The search ends when the next step would change no coefficient by more than this share of the largest.
    max_iter : int
        Most steps; at least one is made.
    many_products : int, default=8
        After a step that took more products than this, the preconditioner is made anew if it was made far away.
    """
    W = start
    value, gradient = evaluate(objective, W)
    precondition, made_at = preconditioner_at(W), W
    error = remaining(precondition(gradient), W)
    steps, products = 0, 0
    while steps < max_iter and (steps == 0 or error > tol):
        if products > many_products and remaining(W - made_at, W) > FAR:
            precondition, made_at = preconditioner_at(W), W
        accuracy = float(np.clip(max(error, 0.1 * tol / max(error, 1e-300)), FINEST, COARSEST))
        step, products = newton_step(objective, W, gradient, precondition, accuracy)
        found = line_search(objective, W, value, gradient, step, precondition)
        if found is None:  # no point along the step is better, by value or gradient: this is what rounding allows
            return Minimum(W, value, steps, error, converged=True)
        W, value, gradient = found
        steps += 1
        error = remaining(precondition(gradient), W)
    return Minimum(W, value, steps, error, converged=error <= tol)


def evaluate(objective: Objective, W: Array) -> tuple[float, Array]:
    """Return value and gradient, which must be finite."""
    value, gradient = objective.value_and_gradient(W)
    if not (np.isfinite(value) and np.isfinite(gradient).all()):
        msg = "The sum of the losses overflows. Scale the rows or the weights down, or lower C."
        raise DataError(msg)
    return value, gradient


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
        products = np.einsum("ij,ij->j", a, b)
        return products if objective.separable else products.sum(keepdims=True)

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
    objective: Objective, W: Array, value: float, gradient: Array, step: Array, precondition: Preconditioner
) -> tuple[Array, float, Array] | None:
    """Return a better point along a step, its value and gradient; None if there is none beyond rounding."""
    slope = float(np.vdot(gradient, step))
    if slope >= 0:
        return None
    length = 1.0
    for _ in range(MOST_CUTS):
        trial = W + length * step
        new_value, new_gradient = objective.value_and_gradient(trial)
        if np.isfinite(new_value) and new_value <= value + ENOUGH * length * slope:
            return trial, new_value, new_gradient
        if -length * slope <= ROUNDING * abs(value):  # too little to be seen in values
            before, after = (float(np.vdot(g, precondition(g))) for g in (gradient, new_gradient))
            return (trial, new_value, new_gradient) if after < before / 4 else None
        # The zero of the line through the two slopes, kept away from both ends.
        new_slope = float(np.vdot(new_gradient, step))
        zero = slope / (slope - new_slope) if np.isfinite(new_slope) and new_slope > slope else 0.5
        length *= min(max(zero, 0.1), 0.5)
    return None
