"""Power series of dot-product kernels: values, derivatives, and the error of omitting high degrees.

See `docs/theory/maclaurin.md`.
"""

from __future__ import annotations

import math

import numpy as np

from mercer.errors import ParameterError
from mercer.kernels.dot_product import DotProductKernel
from mercer.theory.domains import DEGREE, DOT_PRODUCT, POSITIVE, checked

__all__ = ["derivative_of", "series_terms", "truncation_degree", "truncation_error", "value_of"]

FIRST_TERMS = 32
# Largest number of terms of a power series. Terms are added until the last half of them no longer contributes.
LONGEST_SERIES = 2**18
# Relative difference between f(t) and the sum of its series that is attributed to rounding.
SERIES_ROUNDING = 1e-9
# Tails of a series that are smaller than this fraction of its sum are not resolved in float64.
SMALLEST_TAIL = 1e-15


@checked(kernel=DOT_PRODUCT, degree=DEGREE, radius=POSITIVE)
def truncation_error(kernel: DotProductKernel, degree: int, radius: float) -> float:
    r"""Return the largest error on the Euclidean ball if all degrees of a kernel above `degree` are omitted.

    For the kernel :math:`f(x^\top y) = \sum_n a_n (x^\top y)^n` and degree k it is :math:`\sum_{n>k} a_n R^{2n}`,
    attained at x = y of norm R.

    Parameters
    ----------
    %(theory_series_kernel)s
    degree : int
        Largest degree k that is not omitted.
    radius : float
        Radius R of the ball.

    Returns
    -------
    float
        The error; infinite if :math:`f(R^2)` exceeds the range of float64.

    See Also
    --------
    truncation_degree : The smallest degree for a given error.

    Examples
    --------
    >>> from mercer import Polynomial
    >>> truncation_error(Polynomial(degree=2), 1, 2.0)  # (1 + t)^2 without t^2, at t = 4
    16.0
    """
    t, last = radius * radius, kernel.series.degree
    value = value_of(kernel, t)
    if last is not None and degree >= last:
        return 0.0
    if value == math.inf:
        return math.inf
    omitted = tails(kernel, t)
    return float(omitted[degree + 1]) if degree + 1 < len(omitted) else 0.0


@checked(kernel=DOT_PRODUCT, eps=POSITIVE, radius=POSITIVE)
def truncation_degree(kernel: DotProductKernel, eps: float, radius: float) -> int:
    r"""Return the smallest degree k such that omitting all higher degrees gives an error of at most `eps`.

    The kernel is :math:`f(x^\top y) = \sum_n a_n (x^\top y)^n` on the Euclidean ball of radius R, so the condition is
    :math:`\sum_{n>k} a_n R^{2n} \le \epsilon`, see `truncation_error`. Section 9 of the supplement [1]_ requires
    equality, which in general no degree satisfies.

    Parameters
    ----------
    %(theory_series_kernel)s
    eps : float
        Largest error, at least :math:`10^{-15} f(R^2)`.
    radius : float
        Radius R of the ball.

    Returns
    -------
    int
        The degree.

    See Also
    --------
    truncation_error : The error for a given degree.

    %(theory_supplement)s

    Examples
    --------
    >>> from mercer import ExponentialDotProduct
    >>> truncation_degree(ExponentialDotProduct(), 1e-3, 1.0)  # 1/7! + 1/8! + ... is 2.3e-4, 1/6! + ... is 1.6e-3
    6
    """
    t = radius * radius
    if value_of(kernel, t) == math.inf:
        msg = f"truncation_degree: radius must leave f(R^2) finite, got {radius!r}. Scale the rows down."
        raise ParameterError(msg)
    omitted = tails(kernel, t)
    if eps < SMALLEST_TAIL * omitted[0]:
        msg = (
            f"truncation_degree: eps must be at least {SMALLEST_TAIL:g} of f(R^2) = {omitted[0]:.3g}, because float64 "
            f"does not resolve smaller tails, got {eps!r}."
        )
        raise ParameterError(msg)
    return int(np.argmax(omitted[1:] <= eps))


def value_of(kernel: DotProductKernel, t: float) -> float:
    """Return f(t) for the kernel f(x . y), or infinity if it exceeds the range of float64.

    Raise `ParameterError` if t is not less than the radius of convergence of the power series of f.
    """
    if not (t < kernel.radius or kernel.radius == math.inf):
        msg = (
            f"{kernel!r}: the bound needs its power series at t = {t:.4g}, but the series converges only below "
            f"{kernel.radius:.4g}. Scale the rows down, or use a smaller base."
        )
        raise ParameterError(msg)
    check_signs(kernel, kernel.series.coefficients(FIRST_TERMS))
    with np.errstate(over="ignore", invalid="ignore"):
        value = float(kernel.function(np.asarray(t, dtype=float)))
    return value if math.isfinite(value) else math.inf


def series_terms(kernel: DotProductKernel, t: float) -> np.ndarray:
    """Return the terms a_0, a_1 t, a_2 t^2, ... of the power series of f, up to a sufficient degree.

    The kernel is f(x . y), and f(t) must be finite. The omitted terms of higher degrees are negligible in f(t) and
    f'(t) in float64.
    """
    value, degree = value_of(kernel, t), kernel.series.degree
    size = FIRST_TERMS if degree is None else degree + 1
    while size <= LONGEST_SERIES:
        terms = weighted_powers(coefficients_of(kernel, size), t, np.arange(size))
        slopes = np.arange(size) * terms
        settled = slopes[size // 2 :].sum() <= np.finfo(float).eps * slopes.sum()
        if degree is not None or (settled and abs(terms.sum() - value) <= SERIES_ROUNDING * value):
            return terms
        size *= 2
    msg = (
        f"{kernel!r}: {LONGEST_SERIES} Maclaurin coefficients do not add up to f at t = {t:.4g}: t is too near the "
        "radius of convergence, or so large that they underflow. Scale the rows down, or use a smaller base."
    )
    raise ParameterError(msg)


def derivative_of(kernel: DotProductKernel, t: float) -> float:
    """Return f'(t) for the kernel f(x . y), or infinity if f(t) exceeds the range of float64."""
    if value_of(kernel, t) == math.inf:
        return math.inf
    size = max(2, len(series_terms(kernel, t)))
    degrees = np.arange(1, size)
    return float(weighted_powers(degrees * coefficients_of(kernel, size)[1:], t, degrees - 1).sum())


def coefficients_of(kernel: DotProductKernel, size: int) -> np.ndarray:
    """Return the coefficients a_0, ..., a_{size - 1} of the power series of a kernel; raise if one is negative."""
    coefficients = kernel.series.coefficients(size)
    check_signs(kernel, coefficients)
    return coefficients


def weighted_powers(weights: np.ndarray, t: float, exponents: np.ndarray) -> np.ndarray:
    """Return weights * t^exponents, without overflow if only a power t^exponent exceeds the range of float64."""
    with np.errstate(divide="ignore", over="ignore", under="ignore", invalid="ignore"):
        powers = float(t) ** exponents
        by_logarithms = np.exp(np.log(weights) + exponents * (math.log(t) if t > 0 else -math.inf))
        return np.where(np.isfinite(powers), weights * powers, by_logarithms)


def check_signs(kernel: DotProductKernel, coefficients: np.ndarray) -> None:
    """Raise `ParameterError` if a coefficient is negative, because then f(R^2) may not be the maximum on a ball."""
    if (coefficients < 0).any():
        first = int(np.argmax(coefficients < 0))
        msg = f"{kernel!r}: bounds need coefficients >= 0, but a_{first} = {coefficients[first]:.6g}."
        raise ParameterError(msg)


def tails(kernel: DotProductKernel, t: float) -> np.ndarray:
    """Return the tails s_n = a_n t^n + a_{n + 1} t^{n + 1} + ... of the power series of a kernel; the last is zero.

    The terms are added from the last to the first, so that small terms are added first.
    """
    return np.append(np.cumsum(series_terms(kernel, t)[::-1])[::-1], 0.0)
