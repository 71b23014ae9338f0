"""A linear support vector machine for dense features of moderate width: squared hinge loss, Newton steps by BLAS.

Minimizes |w|^2 / 2 + C sum max(0, 1 - y z.w)^2 over w, with a constant column among z for the intercept: the problem
that LIBLINEAR solves by conjugate gradients on sparse rows. The second derivative, I + 2 C Z'Z over the rows inside
the margin, is added up by SYRK and factorized. Rows that join or leave them are added or taken off, so that late steps
cost little; ill-conditioned features cost no more than others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.blas import dsyrk

MOST_STEPS, COARSE_STEPS = 100, 6
# Least relative decrease of the objective for which another step is made.
DECREASE = 1e-5
# One row in so many gives a first guess, if that leaves enough rows for each column.
COARSE, ROWS_A_COLUMN = 4, 3


@dataclass(frozen=True)
class LinearMachine:
    """A fitted machine: weights of the features, and of the constant at the end."""

    weights: np.ndarray
    steps: int

    def decide(self, Z: np.ndarray) -> np.ndarray:
        """Return decision values."""
        return Z @ self.weights[:-1] + self.weights[-1]


def fit(Z: np.ndarray, y: np.ndarray, C: float) -> LinearMachine:
    """Fit labels of -1 and 1.

    Parameters
    ----------
    Z : ndarray of shape (n, D)
        Features, float64, row by row.
    y : ndarray of shape (n,)
        Labels -1 and 1.
    C : float
        Weight of the loss.
    """
    Z = np.column_stack([Z, np.ones(len(Z))])
    start = np.zeros(Z.shape[1])
    if len(Z) >= COARSE * ROWS_A_COLUMN * Z.shape[1]:
        # The machine of some of the rows tells which of the others are outside the margin, and need no SYRK.
        start = minimize(Z[::COARSE], y[::COARSE], COARSE * C, start, COARSE_STEPS).weights
    return minimize(Z, y, C, start, MOST_STEPS)


def minimize(Z: np.ndarray, y: np.ndarray, C: float, start: np.ndarray, most_steps: int) -> LinearMachine:
    """Make Newton steps from given weights, as long as the objective decreases by a part that matters."""
    w, margins = start, y * (Z @ start)
    inside = margins < 1
    sums = Sums.of(Z, y, inside)
    value = objective(w, margins, C)
    steps = 0
    while steps < most_steps:
        steps += 1
        target = sums.minimum(C)
        direction, change = target - w, y * (Z @ target) - margins
        length = line_search(w, direction, margins, change, C)
        w, margins = w + length * direction, margins + length * change
        before, value = value, objective(w, margins, C)
        now = margins < 1
        if before - value <= DECREASE * before or (now == inside).all():
            break
        sums = sums.moved(Z, y, inside, now)
        inside = now
    return LinearMachine(w, steps)


@dataclass(frozen=True)
class Sums:
    """Sums over the rows inside the margin: Z'Z, of which the upper triangle, and Z'y."""

    gram: np.ndarray
    cross: np.ndarray

    @classmethod
    def of(cls, Z: np.ndarray, y: np.ndarray, rows: np.ndarray) -> Sums:
        """Add up some rows."""
        if not rows.all():
            Z, y = Z[rows], y[rows]
        return cls(dsyrk(1.0, Z.T), Z.T @ y)

    def moved(self, Z: np.ndarray, y: np.ndarray, before: np.ndarray, now: np.ndarray) -> Sums:
        """Return the sums of the rows inside now, from those before or anew, whichever is less work."""
        joined, left = now & ~before, before & ~now
        if joined.sum() + left.sum() >= now.sum():
            return Sums.of(Z, y, now)
        gram, cross = self.gram, self.cross
        for rows, sign in ((joined, 1), (left, -1)):
            if rows.any():
                change = Sums.of(Z, y, rows)
                gram, cross = gram + sign * change.gram, cross + sign * change.cross
        return Sums(gram, cross)

    def minimum(self, C: float) -> np.ndarray:
        """Return the minimum of the quadratic function that holds as long as no row crosses the margin."""
        hessian = 2 * C * self.gram
        hessian.flat[:: len(hessian) + 1] += 1
        return cho_solve(cho_factor(hessian, overwrite_a=True, check_finite=False), 2 * C * self.cross)


def objective(w: np.ndarray, margins: np.ndarray, C: float) -> float:
    """Return the penalty plus the loss."""
    return float(0.5 * (w @ w) + C * np.square(np.maximum(0, 1 - margins)).sum())


def line_search(w: np.ndarray, direction: np.ndarray, margins: np.ndarray, change: np.ndarray, C: float) -> float:
    """Return the step in (0, 1] at which the slope along the direction vanishes, by bisection."""

    def slope(t: float) -> float:
        loss = np.maximum(0, 1 - margins - t * change)
        return float(w @ direction + t * (direction @ direction) - 2 * C * (loss @ change))

    low, high = 0.0, 1.0
    if slope(high) <= 0:
        return high
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return high
