r"""Kernels as sums of power series of inner products (Maclaurin series).

By Schoenberg's theorem f(x . y) is positive definite on the unit ball of every dimension if and only if f has a power
series with non-negative coefficients. A Gaussian kernel has one, too, up to a factor for each row:
:math:`e^{-g|x-y|^2/2} = e^{-g|x|^2/2}\, e^{-g|y|^2/2}\, e^{g\,x \cdot y}`. Sums, and many products and compositions, of
such kernels therefore have the form

.. math:: k(x, y) = \sum_p s_p(x)\, s_p(y) \sum_n a_{pn}\, (A_p x \cdot A_p y)^n,
          \qquad s_p(x) = e^{-g_p |A_p x|^2 / 2}

with affine input maps :math:`A_p` and decays :math:`g_p \ge 0`. A `SeriesPart` is one term p of this sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from mercer.kernels.spectral import Affine

__all__ = ["PowerSeries", "SeriesPart", "exponential_series", "merge", "multiply"]

Array = np.ndarray
# Number of additional terms of an infinite series that are used to center it at a point other than zero.
SHIFT_TERMS = 2000


@dataclass(frozen=True, eq=False)
class PowerSeries:
    """A power series, f(t) = sum of a_n t^n.

    Parameters
    ----------
    coefficients : callable
        Takes n and returns the first n coefficients, an ndarray of shape (n,).
    degree : int, default=None
        The degree, if f is a polynomial. None means an infinite series.
    radius : float, default=inf
        Radius of convergence.
    terms : callable, default=None
        Takes n and a number t > 0, and returns the first n terms a_k t^k, without the underflow of small coefficients
        a_k. None means the products of coefficients and powers.
    """

    coefficients: Callable[[int], Array]
    degree: int | None = None
    radius: float = math.inf
    terms: Callable[[int, float], Array] | None = None

    def coefficient(self, n: int) -> float:
        """Return the coefficient a_n of t^n."""
        return float(self.coefficients(n + 1)[n])

    def terms_at(self, t: float, n: int) -> Array:
        """Return the first `n` terms a_k t^k, for t > 0. Terms that overflow are not finite."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            if self.terms is not None:
                return self.terms(n, t)
            a = self.coefficients(n)
            return np.where(a == 0, 0.0, np.sign(a) * np.exp(np.log(np.abs(a) + (a == 0)) + np.arange(n) * math.log(t)))

    def scaled(self, weight: float) -> PowerSeries:
        """Return the power series of weight * f(t)."""
        return replace(
            self,
            coefficients=lambda n: weight * self.coefficients(n),
            terms=lambda n, t: weight * self.terms_at(t, n),
        )

    def __add__(self, other: PowerSeries) -> PowerSeries:
        degree = None if self.degree is None or other.degree is None else max(self.degree, other.degree)
        return PowerSeries(
            lambda n: self.coefficients(n) + other.coefficients(n),
            degree,
            min(self.radius, other.radius),
            lambda n, t: self.terms_at(t, n) + other.terms_at(t, n),
        )

    def __mul__(self, other: PowerSeries) -> PowerSeries:
        degree = None if self.degree is None or other.degree is None else self.degree + other.degree
        return PowerSeries(
            lambda n: np.convolve(self.coefficients(n), other.coefficients(n))[:n],
            degree,
            min(self.radius, other.radius),
            lambda n, t: np.convolve(self.terms_at(t, n), other.terms_at(t, n))[:n],
        )

    def about(self, t: float, n: int) -> Array:
        """Return the first `n` coefficients b_k of the series centered at `t`, f(t + s) = sum of b_k s^k.

        `t` must be >= 0 and within the radius of convergence.
        """
        if t == 0:
            return self.coefficients(n)
        count = n + (SHIFT_TERMS if self.degree is None else self.degree + 1)
        a = self.coefficients(count)
        shifted = np.zeros(n)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            for k in range(n):
                # b_k is the sum over j of a_{k+j} binom(k + j, k) t^j. The factors binom(k + j, k) t^j are computed as
                # cumulative products of ratios, which do not overflow.
                j = np.arange(1, count - k)
                weights = np.concatenate([[1.0], np.cumprod(t * (k + j) / j)])
                shifted[k] = float(np.sum(np.where(a[k:] == 0, 0.0, a[k:] * weights)))
        return shifted

    def after(self, inner: PowerSeries) -> PowerSeries:
        """Return the series of f(g(t)), where g is `inner`.

        The coefficients of f and g must be non-negative, and g(0) must be below the radius of convergence of f.
        """

        def coefficients(n: int) -> Array:
            g = inner.coefficients(n).copy()
            # (g - g(0))^m has no terms of a degree below m, so the first n powers suffice.
            outer = self.about(float(g[0]), n)
            g[0] = 0.0
            total = np.zeros(n)
            for a in outer[::-1]:  # Horner
                total = np.convolve(total, g)[:n]
                total[0] += a
            return total

        degree = None if self.degree is None or inner.degree is None else self.degree * inner.degree
        radius = inner.radius if self.radius == math.inf else _radius_of_composition(self.radius, inner)
        return PowerSeries(coefficients, degree, radius)


def _radius_of_composition(limit: float, inner: PowerSeries) -> float:
    """Return the largest t with g(t) < `limit`, by bisection; g is `inner`, with coefficients >= 0."""
    powers = np.arange(500 if inner.degree is None else inner.degree + 1)
    a = inner.coefficients(len(powers))

    def value(t: float) -> float:
        with np.errstate(over="ignore"):
            return float(np.sum(a * np.power(t, powers)))

    high = 1.0
    while value(high) < limit and high < min(inner.radius, 1e150):
        high *= 2
    low, high = 0.0, min(high, inner.radius)
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if value(middle) < limit else (low, middle)
    return low


def exponential_series(rate: float) -> PowerSeries:
    """Return the power series of exp(rate * t)."""

    def coefficients(n: int) -> Array:
        return terms(n, 1.0)

    def terms(n: int, t: float) -> Array:
        # A cumulative product: accurate to a few roundings, and underflowing to zero.
        return np.concatenate([[1.0], np.cumprod(rate * t / np.arange(1, max(n, 1)))])[:n]

    return PowerSeries(coefficients, terms=terms)


@dataclass(frozen=True, eq=False)
class SeriesPart:
    """One term s(x) s(y) f(Ax . Ay) of a kernel, with a power series f and s(x) = exp(-g |Ax|^2 / 2).

    f is `series`, A is the chain of input maps `inputs`, and g >= 0 is `decay`.
    """

    series: PowerSeries
    inputs: tuple[Affine, ...] = ()
    decay: float = 0.0
    #: Whether the term depends on x - y only, so that the rows may be shifted.
    shift_invariant: bool = False


def merge(parts: tuple[SeriesPart, ...]) -> tuple[SeriesPart, ...]:
    """Replace parts of a kernel that have equal inputs and equal decays by one part with the sum of their series.

    The parts of a kernel are the terms of a sum (`SeriesPart`). A feature map approximates merged parts by the same
    components. Parts with a decay > 0 are merged only if all of them are shift-invariant.
    """
    merged: list[SeriesPart] = []
    for part in parts:
        for i, other in enumerate(merged):
            if (part.inputs, part.decay) == (other.inputs, other.decay):
                both = part.shift_invariant and other.shift_invariant
                if both or part.decay == 0:
                    merged[i] = replace(other, series=other.series + part.series, shift_invariant=both)
                    break
        else:
            merged.append(part)
    return tuple(merged)


def multiply(left: tuple[SeriesPart, ...], right: tuple[SeriesPart, ...]) -> tuple[SeriesPart, ...] | None:
    """Return the parts of the product of two kernels, given the parts of each kernel.

    The parts of a kernel are the terms of a sum (`SeriesPart`). The result is None if there are two non-constant parts,
    one of each kernel, with different inputs.
    """
    products = []
    for a in left:
        for b in right:
            constants = [p for p in (a, b) if p.series.degree == 0 and p.decay == 0]
            if a.inputs != b.inputs and not constants:
                return None
            inputs = (b if a in constants else a).inputs
            both = a.shift_invariant and b.shift_invariant
            products.append(SeriesPart(a.series * b.series, inputs, a.decay + b.decay, both))
    return merge(tuple(products))
