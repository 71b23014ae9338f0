"""Coefficients of the polynomial part of an arc-cosine kernel, which `RandomNeurons` represents exactly.

The kernel is split into a polynomial of x . y, |x|^2 and |y|^2, which has exact components, and a remainder, which is
estimated by random neurons. The module `random_neurons` chooses the layout, that is, which polynomial is split off. The
module `features` evaluates the components of both parts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import special

__all__ = ["Expansion", "radius"]


@dataclass(frozen=True)
class Expansion:
    """Coefficients of the exact part c + a1 x . y + a0 |x|^2 |y|^2 + a2 (x . y)^2 of an arc-cosine kernel of order b.

    In the parity layout the formula holds for all rows. In the residual layout it holds for rows of unit norm, and the
    features of any other row x are those of x / |x| times |x|^b.
    """

    constant: float = 0.0  # c, which is nonzero for order 0 only
    linear: float | None = None  # a1; None means no linear components
    quadratic: float | None = None  # a2; None means no quadratic components, and a0 = 0
    lengths: float = 0.0  # a0; the quadratic components include this term
    # (p0, p1), for the residual layout: p0 + p1 u^2 is subtracted from |u| for order 1, p1 u from sgn u or u|u| for
    # orders 0 and 2.
    polynomial: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def of(cls, layout: str, order: int, ambient: int) -> Expansion:
        r"""Return the coefficients for a layout and an order, with directions in :math:`\mathbb{R}^P`, P = `ambient`.

        The layouts "relu" and "single" have no exact part. The exact part of "parity" is the polynomial in the
        docstring of `RandomNeurons`. For "residual", let s be uniform on the unit sphere, :math:`u = r s^\top x` and
        :math:`v = r s^\top y` with :math:`|x| = |y| = 1` and the norm r of `radius`. If f(u) and g(v) have no spherical
        harmonics of equal degree, then :math:`\mathbb{E}[f(u) g(v)] = 0` by the Funk-Hecke theorem. So the
        least-squares fit of the even function \|u\| by :math:`q(u) = p_0 + p_1 u^2`, or of the odd functions sgn u and
        u\|u\| by :math:`q(u) = p_1 u`, can be subtracted from the neurons. Its contribution
        :math:`\mathbb{E}[q(u) q(v)]` to the kernel, which is a polynomial in :math:`x^\top y`, is added exactly. In the
        limit of large P this is the Hermite expansion for Gaussian weights.
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
            """Return E |u|^p for u = r s . x with |x| = 1."""
            log = special.gammaln(0.5 * (p + 1)) + special.gammaln(0.5 * ambient) - special.gammaln(0.5 * (ambient + p))
            return float(r**p * np.exp(log) / np.sqrt(np.pi))

        if order == 1:
            # In one dimension u^2 is constant, so that the fit needs p0 only.
            slope = (moment(3) - moment(1)) / (moment(4) - 1) if ambient > 1 else 0.0
            p0 = moment(1) - slope
            mixed = ambient / (ambient + 2)  # E u^2 v^2 = mixed (1 + 2 (x . y)^2)
            a0 = p0**2 + 2 * p0 * slope + mixed * slope**2
            return replace(parity, lengths=0.5 * a0, quadratic=mixed * slope**2, polynomial=(p0, slope))
        slope = moment(order + 1) / second
        return replace(parity, linear=0.5 * slope**2 * second, polynomial=(0.0, slope))

    def scaled(self, mass: float) -> Expansion:
        """Return the coefficients of the exact part of `mass` times the kernel."""
        linear, quadratic = (None if a is None else mass * a for a in (self.linear, self.quadratic))
        return replace(
            self, constant=mass * self.constant, linear=linear, quadratic=quadratic,
            lengths=mass * self.lengths,
        )  # fmt: skip


def radius(order: int, ambient: int) -> float:
    r"""Return the norm r for which neurons of order b with weights uniform on a sphere are unbiased.

    The weights are r s with s uniform on the unit sphere of :math:`\mathbb{R}^P`, P = `ambient`, instead of standard
    normal. Both have the same kernel if :math:`r^{2b} = \mathbb{E}\,\chi_P^{2b}`, where :math:`\chi_P` is the norm of a
    standard normal vector. For order 0 every r is unbiased, and :math:`\sqrt P` is returned.
    """
    return float((ambient * (ambient + 2.0)) ** 0.25 if order == 2 else ambient**0.5)
