"""Limited-memory BFGS with a preconditioner, for convex functions whose evaluation is a pass over the rows.

Every value comes with its gradient in one pass over rows that may be stored on disks of several machines, and the cost
of everything else is small. A preconditioner that approximates the inverse Hessian is therefore worth its cost. The
method is L-BFGS [1]_ with this preconditioner as the initial inverse Hessian: each pass moves the coefficients, and the
changes of the gradient correct what the preconditioner leaves out. The line search uses the directional derivatives
that come with the values [2]_. Where values of the function are equal up to rounding error, points are compared by
their derivatives. A comparison of values would determine the minimizer to half of the digits only.

References
----------
.. [1] Nocedal, Wright (2006), Numerical Optimization, second edition, section 7.2, Springer.
.. [2] Hager, Zhang (2005), A new conjugate gradient method with guaranteed descent and an efficient line search, SIAM
   Journal on Optimization.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mercer.errors import DataError

__all__ = ["Minimum", "Objective", "Preconditioner", "minimize"]

Array = np.ndarray
#: Multiplies a matrix of the shape of the coefficients by an approximate inverse of the Hessian.
Preconditioner = Callable[[Array], Array]

# Factor of the preconditioner before the first step, if columns are coupled: block-diagonal preconditioners are too
# large by up to a factor of two, and a step that is too short costs less than one that is too long.
COUPLED_SCALE = 0.5
# Number of steps that the inverse Hessian remembers.
MEMORY = 20
# Armijo constant: a step must achieve this fraction of the decrease that the slope predicts.
SUFFICIENT_DECREASE = 1e-4
# Relative differences of values below this bound may be rounding errors, also of sums over very many rows in float32.
ROUNDING = 1e-7
# A step may end where the function ascends, up to this fraction of the slope at its start.
LARGEST_ASCENT = 0.8
# Maximal number of step lengths that a line search tries; after the second number of them, it tries much shorter ones.
MAX_TRIALS, PATIENT_TRIALS = 40, 3
# The preconditioner is computed again if this many steps have not reduced the estimated excess by this factor, and
# the coefficients have moved by more than this fraction of the largest one.
SLOW_STEPS, SLOW_FACTOR, FAR = 8, 0.01, 0.01
# Smallest decrease from a reference, as a fraction of the value, that excesses are compared with.
SMALLEST_DECREASE = 1e-4
# A step that is shortened to less than this fraction shows that the preconditioner is too large in some directions.
MUCH_SHORTER = 0.1
# The search ends when this many steps have not halved the estimated excess, where values are equal up to rounding.
STAGNANT_STEPS = 10


class Objective(Protocol):
    """A convex function of a matrix of coefficients."""

    @property
    def separable(self) -> bool:
        """Whether the function is a sum of K functions, each of one column of the coefficients."""

    def values_and_gradient(self, W: Array) -> tuple[Array, Array]:
        """Return the value (1,), or one value per column (K,) if separable, and the gradient at `W`."""


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
        Number of steps.
    excess : float
        Estimated difference between the value and the minimum, as a fraction of the value, or of its decrease from the
        reference. If the function is separable, the largest of the fractions of the columns.
    converged : bool
        Whether `excess` is within the tolerance, or as small as rounding allows.
    """

    coef: Array
    value: float
    steps: int
    excess: float
    converged: bool


def minimize(
    objective: Objective,
    start: Array,
    preconditioner_at: Callable[[Array, bool], Preconditioner],
    *,
    tol: float,
    max_iter: int,
    exact: bool = False,
    reference: Array | None = None,
) -> Minimum:
    """Return the minimum of a convex function that is positive, computed by preconditioned L-BFGS.

    Parameters
    ----------
    objective : Objective
        The function.
    start : ndarray of shape (p, K)
        Starting point.
    preconditioner_at : callable
        Given coefficients, returns a preconditioner for their neighborhood. The second argument is False at first, and
        True after slow steps, which ask for a preconditioner that is more accurate, at more cost.
    tol : float
        The iteration ends when the value exceeds the minimum by at most this fraction of it, as estimated from the
        gradient g and the approximate inverse Hessian H: the excess is g' H g / 2. With a `reference`, it is a fraction
        of the decrease from the reference.
    max_iter : int
        Maximal number of steps; at least one step is made.
    exact : bool, default=False
        Whether the more accurate preconditioners are exact inverses of the Hessian. If so, they are computed after
        fewer and fewer steps as long as steps are slow, and in the end for every step, which makes it a Newton step.
    reference : ndarray of shape (1,) or (K,), default=None
        Values at a point that is trivial to find. Where the minimum is only a little lower, the little matters.

    Returns
    -------
    Minimum
    """

    def step_and_excess() -> tuple[Array, float]:
        step, excess = hessian.step(gradient)
        return step, float(np.max(excess / scale_of(values, reference)))

    W = start
    values, gradient = evaluate(objective, W)
    hessian, computed_at = InverseHessian(preconditioner_at(W, False), separable=objective.separable), W
    step, excess = step_and_excess()
    steps, since, initial, best, patience, accurate = 0, 0, excess, Best(excess), SLOW_STEPS, False
    while steps < max_iter and (steps == 0 or excess > tol):
        accepted = line_search(objective, W, values, gradient, step)
        if accepted is None:  # no point along the step is better, by value or by derivative, to rounding
            return Minimum(W, float(values.sum()), steps, excess, converged=excess <= max(tol, ROUNDING))
        trial, values, new_gradient = accepted
        was_cut = np.abs(trial - W).max() < MUCH_SHORTER * np.abs(step).max()
        hessian.update(trial - W, new_gradient - gradient)
        W, gradient = trial, new_gradient
        steps, since = steps + 1, since + 1
        step, excess = step_and_excess()
        if best.is_stagnant(excess) and excess < ROUNDING:
            return Minimum(W, float(values.sum()), steps, excess, converged=True)
        is_slow = (since >= patience and excess > SLOW_FACTOR * initial) or (was_cut and not accurate)
        is_slow = is_slow and excess > tol and (exact or relative_size(W - computed_at, W) > FAR)
        # After slow steps the curvature may have changed so much that the estimate of the excess must be confirmed.
        is_doubtful = excess <= tol and exact and accurate
        if is_slow or is_doubtful:
            hessian = InverseHessian(preconditioner_at(W, True), separable=objective.separable)
            step, excess = step_and_excess()
            computed_at, since, initial = W, 0, excess
            patience, accurate = max(1, patience // 2) if exact else SLOW_STEPS, True
    return Minimum(W, float(values.sum()), steps, excess, converged=excess <= tol)


def evaluate(objective: Objective, W: Array) -> tuple[Array, Array]:
    """Return the values and the gradient of an objective at `W`; raise `DataError` if they are not finite."""
    values, gradient = objective.values_and_gradient(W)
    if not (np.isfinite(values).all() and np.isfinite(gradient).all()):
        msg = "The sum of the losses overflows. Scale the rows or the weights down, or lower C."
        raise DataError(msg)
    return values, gradient


def scale_of(values: Array, reference: Array | None) -> Array:
    """Return the numbers of which the excess is a fraction: the values, or their decrease from the reference.

    Decreases of less than `SMALLEST_DECREASE` of the value may be rounding errors.
    """
    size = np.maximum(np.abs(values), 1e-300)
    return size if reference is None else np.clip(reference - values, SMALLEST_DECREASE * size, size)


def relative_size(step: Array, W: Array) -> float:
    """Return max|step| / max|W|, the size of a step relative to the coefficients."""
    return float(np.abs(step).max(initial=0.0)) / max(float(np.abs(W).max(initial=0.0)), 1e-300)


class Best:
    """Tells when the excess of the iterates has stopped to decrease."""

    def __init__(self, excess: float) -> None:
        self._smallest = excess
        self._since = 0

    def is_stagnant(self, excess: float) -> bool:
        """Record the excess of one more step; return whether `STAGNANT_STEPS` steps have not halved the smallest."""
        self._since += 1
        if excess < self._smallest / 2:
            self._smallest, self._since = excess, 0
        return self._since >= STAGNANT_STEPS


class InverseHessian:
    """The inverse Hessian of L-BFGS: a preconditioner, corrected by the latest steps and changes of the gradient.

    If the function is separable, each column of the coefficients has an inverse Hessian of its own.
    """

    def __init__(self, precondition: Preconditioner, *, separable: bool) -> None:
        self._precondition = precondition
        self._separable = separable
        self._pairs: deque[tuple[Array, Array, Array]] = deque(maxlen=MEMORY)
        self._scale: Array | float = 1.0 if separable else COUPLED_SCALE

    def step(self, gradient: Array) -> tuple[Array, Array]:
        """Return the step -H @ gradient, and the decrease (1,) or (K,) of the function that it promises."""
        step = -(self @ gradient)
        return step, -self._dot(gradient, step) / 2

    def __matmul__(self, gradient: Array) -> Array:
        """Return H @ gradient, computed by the two-loop recursion."""
        rest, lengths = gradient, []
        for step, change, inverse in reversed(self._pairs):
            lengths.append(inverse * self._dot(step, rest))
            rest = rest - lengths[-1] * change
        product = self._scale * self._precondition(rest)
        for (step, change, inverse), length in zip(self._pairs, reversed(lengths), strict=True):
            product = product + (length - inverse * self._dot(change, product)) * step
        return product

    def update(self, step: Array, change: Array) -> None:
        """Add a step and the change of the gradient that it caused. Columns without curvature are not updated."""
        curvature = self._dot(step, change)
        size = np.sqrt(self._dot(step, step) * self._dot(change, change))
        is_curved = curvature > 1e-14 * size
        inverse = np.divide(1.0, curvature, out=np.zeros_like(curvature), where=is_curved)
        self._pairs.append((step, change, inverse))
        predicted = self._dot(change, self._precondition(change))
        scale = np.broadcast_to(self._scale, curvature.shape).copy()
        self._scale = np.divide(curvature, predicted, out=scale, where=is_curved & (predicted > 0))

    def _dot(self, a: Array, b: Array) -> Array:
        return inner(a, b, separable=self._separable)


def line_search(
    objective: Objective, W: Array, values: Array, gradient: Array, step: Array
) -> tuple[Array, Array, Array] | None:
    """Return a point W + length * step of lower value, its values and its gradient.

    The result is None if no tried point improves on `W` by more than the rounding error.

    If the objective is separable, each column has its own step length. A length must satisfy the condition of
    sufficient decrease (Armijo), and if it was shortened, the slope at the new point must be at most half as steep as
    at the start (a weak Wolfe condition): where the curvature changes abruptly, a step that is much too short would be
    followed by many others. If the predicted decrease is below the rounding error of the values, the slope at the new
    point decides: a convex function has decreased unless it ascends there nearly as steeply as it descended.
    """

    def dot(a: Array, b: Array) -> Array:
        return inner(a, b, separable=objective.separable)

    slopes = dot(gradient, step)
    at_minimum = slopes >= 0
    if at_minimum.all():
        return None
    # The length is bracketed by a lower and an upper bound; `left` and `right` are the slopes there.
    lower, upper = np.zeros_like(slopes), np.where(at_minimum, 0.0, 1.0)
    left, right = slopes.copy(), slopes.copy()
    length, shortened, done = upper.copy(), np.zeros_like(at_minimum), at_minimum.copy()
    for trials in range(MAX_TRIALS):
        trial = W + length * step
        new_values, new_gradient = objective.values_and_gradient(trial)
        new_slopes = dot(new_gradient, step)
        finite = np.isfinite(new_values) & np.isfinite(new_slopes)
        decreased = finite & (new_values <= values + SUFFICIENT_DECREASE * length * slopes)
        is_tiny = -length * slopes <= ROUNDING * np.abs(values)
        decreased |= finite & is_tiny & (new_slopes <= -LARGEST_ASCENT * slopes)
        flat = ~shortened | (new_slopes >= 0.5 * slopes) | (upper - lower <= 1e-3 * upper)
        done |= decreased & flat
        if done.all():
            return trial, new_values, new_gradient
        too_short, too_long = ~done & decreased & ~flat, ~done & ~decreased
        lower, left = np.where(too_short, length, lower), np.where(too_short, new_slopes, left)
        upper, right = (
            np.where(too_long, length, upper),
            np.where(too_long & finite, new_slopes, np.where(too_long, np.inf, right)),
        )
        shortened |= too_long
        # Secant step: the zero of the line through the slopes at the two bounds, kept away from both bounds. As long as
        # no point is better, the length decreases at least by half, and soon by a factor of ten: where the function is
        # much steeper at the start than farther away, the secant leads to hardly shorter lengths.
        zero = np.divide(-left, right - left, out=np.full_like(left, 0.5), where=np.isfinite(right) & (right > left))
        largest = np.where(lower > 0, 0.9, 0.5 if trials < PATIENT_TRIALS else 0.1)
        length = np.where(done, length, lower + np.clip(zero, 0.1, largest) * (upper - lower))
    return (trial, new_values, new_gradient) if new_values.sum() < values.sum() else None


def inner(a: Array, b: Array, *, separable: bool) -> Array:
    """Return the inner products of column j of `a` and of `b` for all j (K,) if separable, else their sum (1,)."""
    products = np.einsum("ij,ij->j", a, b)
    return products if separable else products.sum(keepdims=True)
