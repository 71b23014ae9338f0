"""Power series of dot-product kernels: values, derivatives, and what leaving out high degrees costs."""

from __future__ import annotations

import math

import numpy as np

from mercer.errors import ParameterError
from mercer.kernels.dot_product import DotProductKernel
from mercer.theory.domains import check_positive, square

__all__ = ["derivative_of", "series_terms", "truncation_degree", "truncation_error", "value_of"]

FIRST_TERMS = 32
# Terms of a power series are summed until those of the last half do not count any more; no longer than this.
LONGEST_SERIES = 2**18
# Relative gap between f(t) and the sum of its series that is put down to rounding.
SERIES_ROUNDING = 1e-9
# Tails of a series below this part of its sum are not resolved.
SMALLEST_TAIL = 1e-15


def truncation_error(kernel: DotProductKernel, degree: int, radius: float) -> float:
    r"""Largest error on the Euclidean ball of leaving out all degrees above `degree`: :math:`\sum_{n>k} a_n R^{2n}`.

    Attained at x = y = R times a unit vector.

    Examples
    --------
    >>> from mercer import Polynomial
    >>> truncation_error(Polynomial(degree=2), 1, 2.0)  # (1 + t)^2 without t^2, at t = 4
    16.0
    """
    if degree < 0:
        msg = f"truncation_error: degree must be >= 0, got {degree!r}."
        raise ParameterError(msg)
    return float(tails(kernel, square("truncation_error", radius), degree + 2)[degree + 1])


def truncation_degree(kernel: DotProductKernel, eps: float, radius: float) -> int:
    r"""Smallest degree k with an error of at most `eps` on the Euclidean ball when degrees above k are left out.

    That is :math:`\sum_{n>k} a_n R^{2n} \le \epsilon` (`truncation_error`). The supplement asks for equality, which no
    degree may meet.

    Examples
    --------
    >>> from mercer import ExponentialDotProduct
    >>> truncation_degree(ExponentialDotProduct(), 1e-3, 1.0)  # 1/7! + 1/8! + ... is 2.3e-4, 1/6! + ... is 1.6e-3
    6
    """
    check_positive("truncation_degree", eps=eps)
    left_out = tails(kernel, square("truncation_degree", radius), 2)
    if eps < SMALLEST_TAIL * left_out[0]:
        msg = (
            f"truncation_degree: eps must be at least {SMALLEST_TAIL:g} of f(R^2) = {left_out[0]:.3g}, below which "
            f"float64 does not tell, got {eps!r}."
        )
        raise ParameterError(msg)
    return int(np.argmax(left_out[1:] <= eps))


def value_of(kernel: DotProductKernel, t: float) -> float:
    """Return f(t) for t inside the radius of convergence; otherwise explain."""
    if not t < kernel.radius:
        msg = (
            f"{kernel!r}: the bound needs its power series at t = {t:.4g}, but that converges below "
            f"{kernel.radius:.4g} only. Scale the rows down, or take a smaller base."
        )
        raise ParameterError(msg)
    check_signs(kernel, kernel.series.coefficients(FIRST_TERMS))
    with np.errstate(over="ignore"):
        value = float(kernel.function(np.asarray(t, dtype=float)))
    if not math.isfinite(value):
        msg = f"{kernel!r}: f overflows at t = {t:.4g}, and with it every bound. Scale the rows down."
        raise ParameterError(msg)
    return value


def series_terms(kernel: DotProductKernel, t: float) -> np.ndarray:
    """Return the terms a_n t^n of f(t) for t > 0, as many as count for f(t) and its derivative."""
    value, degree = value_of(kernel, t), kernel.series.degree
    size = FIRST_TERMS if degree is None else degree + 1
    while size <= LONGEST_SERIES:
        terms = first_terms(kernel, t, size)
        slopes = np.arange(size) * terms
        settled = slopes[size // 2 :].sum() <= np.finfo(float).eps * slopes.sum()
        if degree is not None or (settled and abs(terms.sum() - value) <= SERIES_ROUNDING * value):
            return terms
        size *= 2
    msg = (
        f"{kernel!r}: {LONGEST_SERIES} Maclaurin coefficients do not add up to f at t = {t:.4g}: t is too near the "
        "radius of convergence, or so large that they underflow. Scale the rows down, or take a smaller base."
    )
    raise ParameterError(msg)


def first_terms(kernel: DotProductKernel, t: float, size: int) -> np.ndarray:
    """Return a_n t^n for n below `size`; all must be non-negative."""
    degrees, coefficients = np.arange(size), kernel.series.coefficients(size)
    check_signs(kernel, coefficients)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        powers = float(t) ** degrees
        # Powers may overflow where their coefficients make up for it: there by logarithms.
        logarithms = np.log(coefficients) + degrees * math.log(t)
        return np.where(np.isfinite(powers), coefficients * powers, np.exp(logarithms))


def check_signs(kernel: DotProductKernel, coefficients: np.ndarray) -> None:
    """Raise if a coefficient is negative: f(R^2) is the largest value on a ball only if none is."""
    if (coefficients < 0).any():
        first = int(np.argmax(coefficients < 0))
        msg = f"{kernel!r}: bounds need coefficients >= 0, but a_{first} = {coefficients[first]:.6g}."
        raise ParameterError(msg)


def derivative_of(kernel: DotProductKernel, t: float) -> float:
    """Return f'(t) for t > 0 from the power series."""
    terms = series_terms(kernel, t)
    return float((np.arange(len(terms)) * terms).sum() / t)


def tails(kernel: DotProductKernel, t: float, length: int) -> np.ndarray:
    """Return the sums of all terms from the n-th on, at least `length` of them; small terms are added first."""
    sums = np.append(np.cumsum(series_terms(kernel, t)[::-1])[::-1], 0.0)
    return np.pad(sums, (0, max(0, length - len(sums))))
