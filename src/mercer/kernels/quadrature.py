"""Integrals and quantiles of a function on (0, 1) that may be singular at both ends.

Kernels are defined by few formulas. Other quantities are computed from these formulas here: the mean of a mixing
distribution, its size-biased quantiles, and samples from a spectral density.

The interval is divided into panels that become shorter towards both ends: [1/4, 1/2], [1/8, 1/4], ... and their mirror
images [1/2, 3/4], [3/4, 7/8], .... The function is integrated over each panel by Gauss-Legendre quadrature. Between the
last panel and the end of the interval it is approximated by a power of the distance from that end (`PowerTail`).

A position x is represented by its distance from an end of (0, 1) and a boolean, `right`, that says which end:
x = distance if `right` is False, and x = 1 - distance if `right` is True. Close to 1, the float64 distance has more
significant digits than the float64 x.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

__all__ = ["UnitDensity"]

Array = np.ndarray
# Largest k of the panels, which are the distances [2^-k, 2^(1-k)] from either end. Next to zero, float64 represents
# 2^-1000 exactly. Next to one, positions x are multiples of 2^-53, so that a distance of 2^-36 has 17 bits left.
LEFT_PANELS = 1000
RIGHT_PANELS = 36
# A singularity at an end of the interval is at least the length of a panel away from that panel, so quadrature with 8
# nodes per panel is exact to 1e-12, and with 16 nodes to rounding.
COARSE_NODES, COARSE_WEIGHTS = np.polynomial.legendre.leggauss(8)
FINE_NODES, FINE_WEIGHTS = np.polynomial.legendre.leggauss(16)
# Panels are halved until the quadratures with 8 and with 16 nodes agree to this fraction of the integral. Around a jump
# of the function this takes about thirty halvings.
TOLERANCE = 1e-10
MOST_HALVINGS = 60
MOST_PANELS = 20_000
# The integral is treated as infinite if the exponent of a singularity is above 1 - EXPONENT_MARGIN, or if the
# uncertainty of the two tails is above TAIL_TOLERANCE times the integral.
EXPONENT_MARGIN = 1e-6
TAIL_TOLERANCE = 1e-3
# Quantiles are accurate to this fraction of the integral over the panel that contains them.
QUANTILE_TOLERANCE = 1e-10
MOST_STEPS = 60


@dataclass(frozen=True, eq=False)
class UnitDensity:
    """Non-negative function f on (0, 1), with its integral and the quantiles of the density f(x) / integral.

    A position x in (0, 1) is given by two values: its distance from an end of the interval, and whether that end is 1.
    If it is, the distance is 1 - x. Close to 1, the float64 number 1 - x has more significant digits than x itself.

    Attributes
    ----------
    total : float
        The integral of f over (0, 1). It is infinite if the integral diverges, or if the values of f close to an end do
        not exclude that it diverges.
    """

    function: Callable[[Array], Array]
    total: float
    # Panels, the subintervals that are integrated separately, in the order of positions.
    lower: Array  # smallest distance of each panel from the nearer end of (0, 1)
    upper: Array  # largest distance of each panel from that end
    right: Array  # whether that end is one
    integrals: Array  # of the function over each panel
    left_tail: PowerTail
    right_tail: PowerTail

    @classmethod
    def of(cls, function: Callable[[Array], Array]) -> UnitDensity:
        """Integrate a function over (0, 1) and return it as a `UnitDensity`.

        Parameters
        ----------
        function : callable
            Takes positions in (0, 1) and returns the values there, both ndarrays of shape (n,). The function must be
            smooth except for jumps. Near both ends it must behave like a power of the distance from the end, and may
            tend to infinity.

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
            # Close to one, rounding of the positions adds an error to the values that halving does not reduce.
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
        """Return the quantiles of the probability density f(x) / `total`.

        Here f is `function`, and `total` is its integral over (0, 1), which must be finite. The quantile of a
        probability u is the position x at which the integral of f from 0 to x is u * `total`. It is returned as a
        distance from an end of (0, 1), because close to 1 the distance 1 - x has more significant digits than x.

        Parameters
        ----------
        uniforms : ndarray of shape (n,)
            Probabilities in [0, 1].

        Returns
        -------
        distances : ndarray of shape (n,)
            x where `right` is False, and 1 - x where `right` is True, for each quantile x.
        right : ndarray of bool of shape (n,)
            Whether the distance is measured from 1.
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
        """Return positions x such that the integral of the function from the start of a panel to x has given values.

        A panel is one of the subintervals of (0, 1) that are integrated separately. The equation for x is solved by
        Newton's method, with bisection where a step would leave the panel.

        Parameters
        ----------
        panel : ndarray of int of shape (n,)
            Index of the panel that contains each position.
        wanted : ndarray of shape (n,)
            Value of the integral from the start of the panel to each position.

        Returns
        -------
        ndarray of shape (n,)
            Distance of each position from 1 if the panel is in the right half of (0, 1), else from 0.
        """
        right, integrals = self.right[panel], self.integrals[panel]
        # Distances from one decrease as positions increase: integrate from the other end of the panel.
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
        """Return the values of the function at positions in (0, 1) that are given by their distances from an end.

        Close to one, float64 positions have too few digits to evaluate the function, so the power law that was fitted
        to its right tail is used there instead.

        Parameters
        ----------
        distances : ndarray of shape (n,)
            Distance of each position from 1 where `right` is True, and from 0 elsewhere.
        right : ndarray of bool of shape (n,)
            Whether the distance is measured from 1.

        Returns
        -------
        ndarray of shape (n,)
        """
        out = values_at(self.function, distances, right, infinite=True)
        beyond = right & (distances < self.right_tail.start)
        out[beyond] = self.right_tail.values(distances[beyond])
        return out


@dataclass(frozen=True)
class PowerTail:
    """Power law ``value * (distance / start) ** -exponent`` that approximates a function close to an end of (0, 1).

    `distance` is the distance from that end. The power law is used for distances below `start`.
    """

    start: float
    value: float  # of the function at the distance `start`
    exponent: float
    integral: float  # of the power law over the distances from 0 to `start`
    uncertainty: float  # of the integral
    panels: int  # number of panels between the tail and the middle of the interval, plus one

    @classmethod
    def of(cls, function: Callable[[Array], Array], panels: int, *, right: bool) -> PowerTail:
        """Fit a power law to the values of a function close to an end of (0, 1).

        The end is 1 if `right`, else 0. The power law has the values of the function at the distances 2^-k and 2^(1-k)
        from that end. Here k <= `panels` is the largest integer such that the function is finite at the distances 2^-j
        for all j from 1 to k.
        """
        k = np.arange(1.0, panels + 1)
        at = values_at(function, 2.0**-k, np.full(panels, right), infinite=True)
        finite = np.flatnonzero(~np.isfinite(at))
        last = int(finite[0]) if len(finite) else panels
        if last < 3:
            return cls(0.5, np.inf, np.inf, np.inf, 0.0, 1)
        start, value = float(2.0 ** -k[last - 1]), float(at[last - 1])
        if value == 0:
            return cls(start, 0.0, 0.0, 0.0, 0.0, last)
        # The exponent at k / 2 must be the same, or the function is not like a power and the integral is uncertain.
        with np.errstate(divide="ignore", invalid="ignore"):
            exponents = [float(np.log2(at[i] / at[i - 1])) for i in (last // 2, last - 1)]
        integrals = [start * value / (1 - a) if a < 1 - EXPONENT_MARGIN else np.inf for a in exponents]
        uncertainty = abs(integrals[1] - integrals[0]) if np.isfinite(integrals).all() else np.inf
        return cls(start, value, exponents[1], integrals[1], float(uncertainty), last)

    def quantiles(self, wanted: Array) -> Array:
        """Return the distances r such that the integral of the power law from 0 to r is `wanted`, elementwise."""
        if self.integral == 0:
            return np.full(len(wanted), self.start)
        return self.start * np.clip(wanted / self.integral, 0.0, 1.0) ** (1 / (1 - self.exponent))

    def values(self, distances: Array) -> Array:
        """Return the values of the power law at distances below `start` from the end of (0, 1)."""
        with np.errstate(divide="ignore", over="ignore"):
            return self.value * (distances / self.start) ** -self.exponent


def values_at(function: Callable[[Array], Array], distances: Array, right: Array, *, infinite: bool = False) -> Array:
    """Return the values of a function at positions in (0, 1) that are given by their distances from an end.

    The position is 1 - distance where `right` is True, and equal to the distance elsewhere. Raise ValueError unless the
    function returns one number >= 0 per position. Infinite values are allowed only if `infinite` is True.
    """
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
    """Return the integral of a function over each panel, and an estimate of its error.

    A panel is an interval of distances from `lower` to `upper`. Distances are measured from 1 where `right` is True,
    and from 0 elsewhere. The integral is computed by Gauss-Legendre quadrature with 16 nodes. The estimate of the error
    is the absolute difference from the result with 8 nodes.
    """
    half = 0.5 * (upper - lower)
    nodes = np.concatenate([FINE_NODES, COARSE_NODES])
    points = lower[:, None] + half[:, None] * (1 + nodes)
    sides = np.broadcast_to(right[:, None], points.shape)
    values = values_at(function, points.ravel(), sides.ravel()).reshape(points.shape)
    fine = half * (values[:, : len(FINE_NODES)] @ FINE_WEIGHTS)
    coarse = half * (values[:, len(FINE_NODES) :] @ COARSE_WEIGHTS)
    return fine, np.abs(fine - coarse)
