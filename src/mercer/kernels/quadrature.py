"""Integrals and quantiles of a function on the unit interval that may be singular at both ends.

Kernels are defined by few formulas, and what else is asked of them is derived here: the mean of a mixing distribution,
its size-biased quantiles, and draws from a density.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

__all__ = ["UnitDensity"]

Array = np.ndarray
# Panels are dyadic, [2^-k-1, 2^-k] from either end. Next to zero all powers of two are numbers; next to one, positions
# have 53 bits in all, and panels end where 17 of them are left.
LEFT_PANELS = 1000
RIGHT_PANELS = 36
# A singularity at an end of such a panel is one panel away or further: 8 nodes are exact to 1e-12, 16 to rounding.
COARSE_NODES, COARSE_WEIGHTS = np.polynomial.legendre.leggauss(8)
FINE_NODES, FINE_WEIGHTS = np.polynomial.legendre.leggauss(16)
# Panels are halved until the two rules agree to this part of the integral: about a jump, that is some thirty times.
TOLERANCE = 1e-10
MOST_HALVINGS = 60
MOST_PANELS = 20_000
# Exponents of a singularity that are nearer to one than this, or tails that are uncertain by more than this part of the
# integral, count as infinite.
EXPONENT_MARGIN = 1e-6
TAIL_TOLERANCE = 1e-3
# Quantiles are found to this part of the integral over their panel.
QUANTILE_TOLERANCE = 1e-10
MOST_STEPS = 60


@dataclass(frozen=True, eq=False)
class UnitDensity:
    """A non-negative function on (0, 1) with its integral and the quantiles of the density in proportion to it.

    Positions are pairs of a distance from the nearer end and whether that end is one: next to one, the distance has
    digits that the position itself has not.

    Attributes
    ----------
    total : float
        The integral; infinite if it diverges, or if its tails are too uncertain to rule that out.
    """

    function: Callable[[Array], Array]
    total: float
    lower: Array  # of the panels, as distances from their end, in the order of positions
    upper: Array
    right: Array  # whether the distances are from one
    integrals: Array
    left_tail: PowerTail
    right_tail: PowerTail

    @classmethod
    def of(cls, function: Callable[[Array], Array]) -> UnitDensity:
        """Integrate a function.

        Parameters
        ----------
        function : callable
            Takes and returns an ndarray of shape (n,). Smooth but for jumps, and like a power of the distance near both
            ends, possibly infinite there.

        Returns
        -------
        UnitDensity

        Raises
        ------
        ValueError
            If the function returns anything but one number >= 0 for each position.
        """
        left_tail = PowerTail.of(function, LEFT_PANELS, right=False)
        right_tail = PowerTail.of(function, RIGHT_PANELS, right=True)
        edges = [2.0 ** -np.arange(1.0, tail.panels + 1) for tail in (left_tail, right_tail)]
        right = np.repeat([False, True], [len(side) - 1 for side in edges])
        lower = np.concatenate([side[1:] for side in edges])
        upper = np.concatenate([side[:-1] for side in edges])
        integrals, errors = integrate(function, lower, upper, right)
        tails = left_tail.integral + right_tail.integral
        for _ in range(MOST_HALVINGS):
            total = float(integrals.sum()) + tails
            # Next to one, positions are rounded, and with them the values.
            wrong = errors > TOLERANCE * total + np.where(right, 2.0**-50 / lower, 0.0) * integrals
            if not np.isfinite(total) or not wrong.any() or len(lower) + wrong.sum() > MOST_PANELS:
                break
            middle = 0.5 * (lower[wrong] + upper[wrong])
            halves = (
                np.concatenate([lower[wrong], middle]),
                np.concatenate([middle, upper[wrong]]),
                np.tile(right[wrong], 2),
            )
            more = integrate(function, *halves)
            lower, upper, right, integrals, errors = (
                np.concatenate([old[~wrong], new])
                for old, new in zip((lower, upper, right, integrals, errors), (*halves, *more), strict=True)
            )
        total = float(integrals.sum()) + tails
        if left_tail.uncertainty + right_tail.uncertainty > TAIL_TOLERANCE * total or not np.isfinite(total):
            total = np.inf
        order = np.argsort(np.where(right, 1 - lower, lower))
        order = order[np.argsort(right[order], kind="stable")]
        return cls(function, total, lower[order], upper[order], right[order], integrals[order], left_tail, right_tail)

    def quantiles(self, uniforms: Array) -> tuple[Array, Array]:
        """Return the quantiles of the density in proportion to the function, which must have a finite integral.

        Parameters
        ----------
        uniforms : ndarray of shape (n,)
            Probabilities in [0, 1].

        Returns
        -------
        distances : ndarray of shape (n,)
            Distances of the quantiles from the nearer end.
        right : ndarray of shape (n,)
            Whether that end is one.
        """
        edges = self.left_tail.integral + np.concatenate([[0.0], np.cumsum(self.integrals)])
        wanted = np.asarray(uniforms, dtype=float) * (edges[-1] + self.right_tail.integral)
        panel = np.searchsorted(edges, wanted, side="right") - 1
        distances, right = np.zeros(len(wanted)), np.zeros(len(wanted), dtype=bool)
        below, above = panel < 0, panel >= len(self.integrals)
        distances[below] = self.left_tail.quantiles(wanted[below])
        distances[above] = self.right_tail.quantiles(edges[-1] + self.right_tail.integral - wanted[above])
        right[above] = True
        inside = ~(below | above)
        chosen = panel[inside]
        right[inside] = self.right[chosen]
        distances[inside] = self._within(chosen, wanted[inside] - edges[chosen])
        return distances, right

    def _within(self, panel: Array, wanted: Array) -> Array:
        """Return the distances at which the integral over a panel, up to there, is as wanted: safeguarded Newton."""
        right, integrals = self.right[panel], self.integrals[panel]
        # Distances from one fall as positions rise.
        wanted = np.where(right, integrals - wanted, wanted)
        start = self.lower[panel]
        low, high = start.copy(), self.upper[panel]
        point = low + (high - low) * np.clip(wanted / np.where(integrals > 0, integrals, 1.0), 0.0, 1.0)
        active = np.arange(len(panel))
        for _ in range(MOST_STEPS):
            excess = integrate(self.function, start[active], point[active], right[active])[0] - wanted[active]
            moving = np.abs(excess) > QUANTILE_TOLERANCE * integrals[active]
            active, excess = active[moving], excess[moving]
            if not len(active):
                break
            here, short = point[active], excess < 0
            low[active], high[active] = np.where(short, here, low[active]), np.where(short, high[active], here)
            with np.errstate(divide="ignore", invalid="ignore"):
                newton = here - excess / values_at(self.function, here, right[active])
            inside = (newton > low[active]) & (newton < high[active])
            point[active] = np.where(inside, newton, 0.5 * (low[active] + high[active]))
        return point

    def values(self, distances: Array, right: Array) -> Array:
        """Return the function at such positions, also where these are out of reach of numbers next to one."""
        out = values_at(self.function, distances, right, infinite=True)
        beyond = right & (distances < self.right_tail.start)
        out[beyond] = self.right_tail.values(distances[beyond])
        return out


@dataclass(frozen=True)
class PowerTail:
    """The last stretch next to an end of the interval, where a function is taken for a power of the distance."""

    start: float
    value: float  # at the start
    exponent: float  # of the singularity: the function is value * (distance / start) ** -exponent
    integral: float
    uncertainty: float
    panels: int  # between the tail and the middle of the interval, plus one

    @classmethod
    def of(cls, function: Callable[[Array], Array], panels: int, *, right: bool) -> PowerTail:
        """Fit the power to the values at two powers of two, as near to the end as they are finite."""
        k = np.arange(1.0, panels + 1)
        at = values_at(function, 2.0**-k, np.full(panels, right), infinite=True)
        finite = np.flatnonzero(~np.isfinite(at))
        last = int(finite[0]) if len(finite) else panels
        if last < 3:
            return cls(0.5, np.inf, np.inf, np.inf, 0.0, 1)
        start, value = float(2.0 ** -k[last - 1]), float(at[last - 1])
        if value == 0:
            return cls(start, 0.0, 0.0, 0.0, 0.0, last)
        # Half way to the end the exponent must be the same, or the function is not like a power.
        with np.errstate(divide="ignore", invalid="ignore"):
            exponents = [float(np.log2(at[i] / at[i - 1])) for i in (last // 2, last - 1)]
        integrals = [start * value / (1 - a) if a < 1 - EXPONENT_MARGIN else np.inf for a in exponents]
        uncertainty = abs(integrals[1] - integrals[0]) if np.isfinite(integrals).all() else np.inf
        return cls(start, value, exponents[1], integrals[1], float(uncertainty), last)

    def quantiles(self, wanted: Array) -> Array:
        """Return the distances within which the integral is as wanted."""
        if self.integral == 0:
            return np.full(len(wanted), self.start)
        return self.start * np.clip(wanted / self.integral, 0.0, 1.0) ** (1 / (1 - self.exponent))

    def values(self, distances: Array) -> Array:
        """Return the function at distances from the end that are shorter than the start."""
        with np.errstate(divide="ignore", over="ignore"):
            return self.value * (distances / self.start) ** -self.exponent


def values_at(function: Callable[[Array], Array], distances: Array, right: Array, *, infinite: bool = False) -> Array:
    """Return the values of a function at distances from the ends of the interval, checked."""
    with np.errstate(all="ignore"):
        values = np.asarray(function(np.where(right, 1 - distances, distances)))
    if values.shape != distances.shape or values.dtype.kind not in "fiub":
        msg = f"one number for each of {distances.size} values, got shape {values.shape} and dtype {values.dtype}"
        raise ValueError(msg)
    values = values.astype(float)
    if np.isnan(values).any() or (values < 0).any() or not (infinite or np.isfinite(values).all()):
        wrong = np.flatnonzero(~((values >= 0) & (infinite | np.isfinite(values))))[0]
        msg = f"numbers >= 0, got {values[wrong]} at {np.where(right, 1 - distances, distances)[wrong]}"
        raise ValueError(msg)
    return values


def integrate(function: Callable[[Array], Array], lower: Array, upper: Array, right: Array) -> tuple[Array, Array]:
    """Return the integrals over panels by 16 Gauss-Legendre nodes each, and how far 8 nodes are from them."""
    half = 0.5 * (upper - lower)
    nodes = np.concatenate([FINE_NODES, COARSE_NODES])
    points = lower[:, None] + half[:, None] * (1 + nodes)
    sides = np.broadcast_to(right[:, None], points.shape)
    values = values_at(function, points.ravel(), sides.ravel()).reshape(points.shape)
    fine = half * (values[:, : len(FINE_NODES)] @ FINE_WEIGHTS)
    coarse = half * (values[:, len(FINE_NODES) :] @ COARSE_WEIGHTS)
    return fine, np.abs(fine - coarse)
