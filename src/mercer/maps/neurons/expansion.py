"""The polynomial part of an arc-cosine kernel that has exact features, and the remainder of the activations.

`features` writes both, `random_neurons` chooses how much is exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import special

__all__ = ["Expansion", "radius"]


@dataclass(frozen=True)
class Expansion:
    """The exact part a0 + a1 x . y + a2 (x . y)^2 of an arc-cosine kernel of order b, for rows of unit norm.

    For other rows the residual layout multiplies the features by the norm of the row to the power b. In the parity
    layout the polynomial is homogeneous and needs no such factor.
    """

    constant: float = 0.0  # a constant kernel, for order 0
    linear: float | None = None  # a1; None means no linear components
    quadratic: float | None = None  # a2; None means no quadratic components, and no a0
    lengths: float = 0.0  # a0, which is included in the quadratic components as a0 |x|^2 |y|^2
    # The polynomial subtracted from the activations: p0 + p1 u^2 for an even function, p1 u for an odd one.
    polynomial: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def of(cls, layout: str, order: int, ambient: int) -> Expansion:
        r"""Return the exact part of a layout for directions in :math:`\mathbb{R}^P`, P = `ambient`.

        Let s be uniform on the unit sphere, :math:`u = r s^\top x` and :math:`v = r s^\top y` with
        :math:`|x| = |y| = 1`. If f(u) and g(v) have no spherical harmonics of equal degree, then
        :math:`\mathbb{E}[f(u) g(v)] = 0` by the Funk-Hecke theorem. So the least-squares fit of an even function by
        :math:`p_0 + p_1 u^2`, or of an odd function by :math:`p_1 u`, can be subtracted from the activations, and its
        contribution to the kernel, which is a polynomial in :math:`x^\top y`, can be added exactly. In the limit of
        large P this is the Hermite expansion for Gaussian weights.
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
            """Return E |u|^p."""
            log = special.gammaln(0.5 * (p + 1)) + special.gammaln(0.5 * ambient) - special.gammaln(0.5 * (ambient + p))
            return float(r**p * np.exp(log) / np.sqrt(np.pi))

        if order == 1:
            # In one dimension u^2 is constant, and p0 alone is the fit.
            slope = (moment(3) - moment(1)) / (moment(4) - 1) if ambient > 1 else 0.0
            p0 = moment(1) - slope
            mixed = ambient / (ambient + 2)  # E u^2 v^2 = mixed (1 + 2 (x . y)^2)
            a0 = p0**2 + 2 * p0 * slope + mixed * slope**2
            return replace(parity, lengths=0.5 * a0, quadratic=mixed * slope**2, polynomial=(p0, slope))
        slope = moment(order + 1) / second
        return replace(parity, linear=0.5 * slope**2 * second, polynomial=(0.0, slope))

    def scaled(self, mass: float) -> Expansion:
        """Return the exact part of the kernel multiplied by `mass`."""
        linear, quadratic = (None if a is None else mass * a for a in (self.linear, self.quadratic))
        return replace(
            self, constant=mass * self.constant, linear=linear, quadratic=quadratic,
            lengths=mass * self.lengths,
        )  # fmt: skip


def radius(order: int, ambient: int) -> float:
    r"""Return the norm r of directions in :math:`\mathbb{R}^P` that makes neurons of order b unbiased.

    It satisfies :math:`r^{2b} = \mathbb{E}\,\chi_P^{2b}`. For order 0, where any r is unbiased, it is
    :math:`\sqrt P`.
    """
    return float((ambient * (ambient + 2.0)) ** 0.25 if order == 2 else ambient**0.5)
