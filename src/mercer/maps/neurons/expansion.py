"""The part of an arc-cosine kernel that has exact features, and what random neurons lose to it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import special

__all__ = ["Expansion", "radius"]


@dataclass(frozen=True)
class Expansion:
    """The part of a kernel that is exact, a0 + a1 x . y + a2 (x . y)^2 for rows of unit length, and what neurons lose.

    For other rows the features are multiplied by their length to the power b; the parity layout has that by itself.
    """

    constant: float = 0.0  # a constant kernel, for order 0
    linear: float | None = None  # a1; None leaves the columns out
    quadratic: float | None = None  # a2; None leaves the columns out, and a0 with them
    lengths: float = 0.0  # a0, which shares the columns of the quadratic part
    polynomial: tuple[float, float] = (0.0, 0.0)  # subtracted from the neurons: p0 + p1 u^2 if even, p1 u if odd

    @classmethod
    def of(cls, layout: str, order: int, ambient: int) -> Expansion:
        """Return the exact part of a layout.

        For a direction s, uniform on the sphere of R^P, and u = r s . x with |x| = 1, the means E[f(u) g(v)] of
        functions of different degrees in spherical harmonics are zero (Funk and Hecke). So the least-squares fit of
        |u| by p0 + p1 u^2, or of an odd function by p1 u, can be taken out of the neurons, and its mean, which is a
        polynomial in x . y, put in exactly. For P to infinity these are Hermite polynomials and normal weights.
        """
        if layout in ("relu", "single"):
            return cls()
        if order == 0:
            parity = cls(constant=0.5)
        elif order == 1:
            parity = cls(linear=0.5)
        else:
            parity = cls(quadratic=1.0, lengths=0.5)
        if layout == "parity":
            return parity
        r = radius(order, ambient)
        second = r**2 / ambient  # E u^2

        def moment(p: int) -> float:
            log = special.gammaln(0.5 * (p + 1)) + special.gammaln(0.5 * ambient) - special.gammaln(0.5 * (ambient + p))
            return float(r**p * np.exp(log) / np.sqrt(np.pi))

        if order == 1:
            # On a line u^2 is constant, and p0 says it all.
            slope = (moment(3) - moment(1)) / (moment(4) - 1) if ambient > 1 else 0.0
            p0 = moment(1) - slope
            mixed = ambient / (ambient + 2)  # E u^2 v^2 = mixed (1 + 2 t^2)
            a0 = p0**2 + 2 * p0 * slope + mixed * slope**2
            return replace(parity, lengths=0.5 * a0, quadratic=mixed * slope**2, polynomial=(p0, slope))
        slope = moment(order + 1) / second
        return replace(parity, linear=0.5 * slope**2 * second, polynomial=(0.0, slope))

    def scaled(self, mass: float) -> Expansion:
        """Return the exact part of the kernel times a number."""
        linear, quadratic = (None if a is None else mass * a for a in (self.linear, self.quadratic))
        return replace(
            self, constant=mass * self.constant, linear=linear, quadratic=quadratic,
            lengths=mass * self.lengths,
        )  # fmt: skip


def radius(order: int, ambient: int) -> float:
    """Return the length r of directions of R^P with r^2b = E chi_P^2b; for order 0, where it is free, E u^2 = 1."""
    return float((ambient * (ambient + 2.0)) ** 0.25 if order == 2 else ambient**0.5)
