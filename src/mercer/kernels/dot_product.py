"""Kernels of the inner product, k(x, y) = f(x . y), where f is a power series with non-negative coefficients."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy import special

from mercer.errors import DataError, ParameterError
from mercer.kernels.base import (
    Kernel,
    OptionalFormula,
    Rows,
    check_positive_parameters,
    inner_products,
    squared_norms,
)
from mercer.kernels.power_series import PowerSeries, SeriesPart, exponential_series
from mercer.parameters import Integer, Interval, is_finite, shown

__all__ = ["DotProduct", "DotProductKernel", "ExponentialDotProduct", "Geometric", "Polynomial"]

Array = np.ndarray
# Number of coefficients of an infinite series whose signs are checked when the kernel is constructed.
CHECKED = 64
# Largest number of terms of an infinite series that are summed. Inner products that need more are too close to the
# radius of convergence.
MOST_TERMS = 20_000
# A computed coefficient a_n is set to zero, as rounding error, if |a_n| is below this multiple of its Cauchy bound,
# the minimum over r of max|f| / r^n on the circle of radius r.
ZERO_COEFFICIENT = 1e-13


class DotProductKernel(Kernel):
    r"""Base class of kernels of the inner product, k(x, y) = f(x . y).

    A subclass is a ``@dataclass(frozen=True)`` that supplies one property, ``series``, the `PowerSeries` of f. Its
    coefficients must be non-negative: f(x . y) is positive definite in every dimension if and only if they are [1]_.
    ``outer @ inner`` is the kernel f(inner(x, y)), with the function f of the dot-product kernel `outer`.

    Values are computed by summing the series, unless the subclass defines ``closed_function(t)``, a faster formula for
    f(t). `mercer.testing.check_kernel` compares the two.

    See Also
    --------
    DotProduct : Kernel with given coefficients of f, without a new class.

    References
    ----------
    .. [1] Schoenberg (1942), Positive definite functions on spheres, Duke Mathematical Journal 9, 96-108.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from mercer.kernels import DotProductKernel, PowerSeries
    >>> @dataclass(frozen=True)
    ... class Logarithmic(DotProductKernel):
    ...     @property
    ...     def series(self):  # -log(1 - t) / t
    ...         return PowerSeries(lambda n: 1 / np.arange(1, n + 1), radius=1.0)
    >>> Logarithmic()([[0.5]], [[1.0]]).round(6)
    array([[1.386294]])
    """

    structure = "a dot-product kernel, k(x, y) = f(x . y)"
    sparse_formulas = True
    composes = True
    #: Optional formula (t) -> ndarray, the closed form of f, which `function` uses in place of the series.
    closed_function: ClassVar[OptionalFormula] = None

    @property
    @abstractmethod
    def series(self) -> PowerSeries:
        """The Maclaurin series of f, where k(x, y) = f(x . y)."""

    def function(self, t: Array) -> Array:
        """Return f(t), elementwise for an array of inner products t = x . y within the radius of convergence."""
        t = np.asarray(t, dtype=float)
        return self._sum_of_series(t) if self.closed_function is None else self.closed_function(t)

    @property
    def radius(self) -> float:
        """Radius of convergence of the series of f. Inner products x . y must be smaller in absolute value."""
        return self.series.radius

    def _series_form(self) -> tuple[SeriesPart, ...]:
        return (SeriesPart(self.series),)

    def _sum_of_series(self, t: Array) -> Array:
        """Return f(t) as a sum of terms a_n t^n. More terms would not change the sum at the largest |t|."""
        series = self.series
        if series.degree is not None:
            return np.polynomial.polynomial.polyval(t, series.coefficients(series.degree + 1))
        largest = float(np.abs(t).max(initial=0.0))
        n = 2 * CHECKED
        while n <= MOST_TERMS:
            a = series.coefficients(n)
            with np.errstate(over="ignore", under="ignore"):
                terms = np.abs(a) * largest ** np.arange(n)
            # Converged if the second half of the terms sums to rounding error. A single small term would not be enough,
            # because a series may have long gaps of zeros.
            if terms[n // 2 :].sum() <= np.finfo(float).eps * terms.sum():
                return np.polynomial.polynomial.polyval(t, a)
            n *= 2
        msg = (
            f"{self!r}: the series did not converge within {MOST_TERMS} terms at an inner product of {largest:.6g}. "
            "Scale the rows down, give the radius of convergence, or use DotProduct.from_function."
        )
        raise DataError(msg)

    def _values(self, X: Rows, Y: Rows) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            t = inner_products(X, Y)
        return self._checked(t)

    def _diagonal(self, X: Rows) -> Array:
        with np.errstate(over="ignore"):
            t = squared_norms(X)
        return self._checked(t)

    def _checked(self, t: Array) -> Array:
        largest = float(np.abs(t).max(initial=0.0))
        if not np.isfinite(largest):
            msg = f"{self!r}: the inner products of these rows overflow. Scale the rows down, for example to unit norm."
            raise DataError(msg)
        if largest >= self.radius:
            msg = (
                f"{self!r}: inner products must be below the radius of convergence {self.radius:.6g}, got "
                f"{largest:.6g}. Scale the rows down, for example by {math.sqrt(0.9 * self.radius / largest):.2g}."
            )
            raise DataError(msg)
        with np.errstate(over="ignore"):
            values = self.function(t)
        if not np.isfinite(values).all():
            msg = (
                f"{self!r}: the kernel overflows at an inner product of {largest:.3g}. "
                "Scale the rows down, for example to unit norm."
            )
            raise DataError(msg)
        return values


@dataclass(frozen=True)
class Polynomial(DotProductKernel):
    r"""Polynomial kernel.

    .. math:: k(x, y) = (c + s\, x^\top y)^p

    Parameters
    ----------
    degree : int, default=3
        Degree :math:`p \ge 1`.
    coef0 : float, default=1.0
        Constant :math:`c \ge 0`; zero gives the homogeneous kernel.
    scale : float, default=1.0
        Factor :math:`s > 0` of the inner product, scikit-learn's gamma.

    See Also
    --------
    TensorSketch, PolynomialSketch, RandomMaclaurin : Features of this kernel.

    Examples
    --------
    >>> from mercer import Polynomial
    >>> Polynomial(degree=2)([[1.0, 2.0]], [[3.0, 1.0]])
    array([[36.]])
    """

    degree: int = 3
    coef0: float = 1.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.degree not in Integer(1) or not is_finite(self.degree):
            msg = f"Polynomial: degree must be an integer >= 1, got {shown(self.degree)}."
            raise ParameterError(msg)
        if self.coef0 not in Interval(0):
            got = shown(self.coef0)
            msg = f"Polynomial: coef0 must be >= 0 (below zero the kernel is not positive definite), got {got}."
            raise ParameterError(msg)
        check_positive_parameters(self, "scale")

    def closed_function(self, t: Array) -> Array:
        return (self.coef0 + self.scale * t) ** self.degree

    @property
    def series(self) -> PowerSeries:
        return PowerSeries(self._coefficients, int(self.degree))

    def _coefficients(self, n: int) -> Array:
        powers = np.arange(n)
        remaining = np.maximum(self.degree - powers, 0)
        binomials = special.binom(self.degree, powers) * (powers <= self.degree)
        return binomials * float(self.coef0) ** remaining * float(self.scale) ** np.minimum(powers, self.degree)


@dataclass(frozen=True)
class ExponentialDotProduct(DotProductKernel):
    r"""Exponential of the inner product.

    .. math:: k(x, y) = \exp(s\, x^\top y)

    Parameters
    ----------
    scale : float, default=1.0
        Factor :math:`s > 0` of the inner product; :math:`s = 1 / \ell^2` for a lengthscale :math:`\ell`.

    See Also
    --------
    Gaussian : The normalized kernel, k(x, y) / sqrt(k(x, x) k(y, y)), with lengthscale s^(-1/2).
    RandomMaclaurin : Features of this kernel.

    Examples
    --------
    >>> from mercer import ExponentialDotProduct
    >>> ExponentialDotProduct()([[1.0, 0.0]], [[0.5, 3.0]]).round(4)
    array([[1.6487]])
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        check_positive_parameters(self, "scale")

    def closed_function(self, t: Array) -> Array:
        return np.exp(self.scale * t)

    @property
    def series(self) -> PowerSeries:
        return exponential_series(float(self.scale))


@dataclass(frozen=True)
class Geometric(DotProductKernel):
    r"""Geometric series of the inner product, finite or infinite; also called Vovk's polynomial kernel.

    .. math:: k(x, y) = \sum_{n < N} (s\, x^\top y)^n, \qquad \text{for infinite } N \quad \frac{1}{1 - s\, x^\top y}

    Parameters
    ----------
    terms : int or None, default=None
        Number of terms :math:`N \ge 1`. None means infinitely many, which requires :math:`s\,|x^\top y| < 1`.
    scale : float, default=1.0
        Factor :math:`s > 0` of the inner product.

    References
    ----------
    .. [1] Kar, Karnick (2012), Random Feature Maps for Dot Product Kernels, AISTATS.

    Examples
    --------
    >>> from mercer import Geometric
    >>> Geometric()([[0.5]], [[1.0]]), Geometric(terms=3)([[0.5]], [[1.0]])
    (array([[2.]]), array([[1.75]]))
    """

    terms: int | None = None
    scale: float = 1.0

    def __post_init__(self) -> None:
        integer = isinstance(self.terms, Integral) and not isinstance(self.terms, bool)
        if self.terms is not None and not (integer and self.terms >= 1):
            msg = f"Geometric: terms must be an integer >= 1, or None for the infinite series, got {shown(self.terms)}."
            raise ParameterError(msg)
        check_positive_parameters(self, "scale")

    def closed_function(self, t: Array) -> Array:
        if self.terms is None:
            return 1 / (1 - self.scale * t)
        return np.polynomial.polynomial.polyval(self.scale * t, np.ones(self.terms))

    @property
    def series(self) -> PowerSeries:
        last = np.inf if self.terms is None else self.terms - 1
        return PowerSeries(
            lambda n: np.where(np.arange(n) <= last, float(self.scale) ** np.minimum(np.arange(n), last), 0.0),
            None if self.terms is None else int(self.terms) - 1,
            1 / self.scale if self.terms is None else math.inf,
        )


@dataclass(frozen=True)
class DotProduct(DotProductKernel):
    r"""Dot-product kernel with given coefficients of its power series.

    .. math:: k(x, y) = \sum_n a_n (x^\top y)^n

    It is positive definite in every dimension if and only if all :math:`a_n \ge 0` [1]_. To test whether it is positive
    definite on the unit sphere of one dimension, see `mercer.kernels.positive_definite_on_sphere`.

    Parameters
    ----------
    coefficients : sequence of float, or callable
        :math:`a_0, a_1, \ldots` as a list, or a function of n that returns :math:`a_n`. If the function
        :math:`f(t) = \sum_n a_n t^n` is known instead, see `from_function`. An infinite series is summed until
        doubling the number of terms does not change the sum. A run of zero coefficients must therefore be shorter than
        the number of terms before it, or than 64.
    radius : float, default=inf
        Radius of convergence of an infinite series. Inner products must be smaller in absolute value.
    signed : bool, default=False
        Allow negative coefficients. The kernel is then indefinite, its feature maps have the attribute `signs_`, and
        learners reject these maps.
    formula : callable, default=None
        Closed form of f(t), from which values are computed instead of the series. `from_function` sets it.

    See Also
    --------
    RandomMaclaurin : Features of this kernel.

    References
    ----------
    .. [1] Schoenberg (1942), Positive definite functions on spheres, Duke Mathematical Journal 9, 96-108.

    Examples
    --------
    >>> from mercer import DotProduct
    >>> DotProduct([1.0, 0.0, 0.5])([[2.0]], [[1.0]])
    array([[3.]])
    >>> DotProduct(lambda n: 1 / (n + 1), radius=1.0)([[0.5]], [[1.0]]).round(6)  # -log(1 - t) / t
    array([[1.386294]])
    """

    coefficients: Sequence[float] | Callable[[int], float]
    radius: float = math.inf
    signed: bool = False
    formula: Callable[[Array], Array] | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.radius, Real) and not isinstance(self.radius, bool) and self.radius > 0):
            msg = f"DotProduct: radius must be a number > 0, or infinity, got {shown(self.radius)}."
            raise ParameterError(msg)
        if callable(self.coefficients):
            self.series.coefficients(CHECKED)
            return
        try:
            values = np.asarray(self.coefficients, dtype=float)
        except (TypeError, ValueError, OverflowError):
            values = np.zeros((0, 0))
        if values.ndim != 1 or not len(values):
            msg = (
                "DotProduct: coefficients must be a list of at least one number or a function n -> a_n, "
                f"got {shown(self.coefficients)}. For a function of the inner product, use DotProduct.from_function(f)."
            )
            raise ParameterError(msg)
        # Stored as a tuple without trailing zeros, which can be hashed and compared.
        values = np.trim_zeros(values, "b") if values.any() else values[:1]
        object.__setattr__(self, "coefficients", tuple(values.tolist()))
        self._check_signs(values)

    @classmethod
    def from_function(
        cls, function: Callable[[Array], Array], *, radius: float = math.inf, signed: bool = False
    ) -> DotProduct:
        """Return the kernel f(x . y) of an analytic function f, whose Maclaurin coefficients are computed numerically.

        Parameters
        ----------
        function : callable
            f, which must accept real and complex arrays: its coefficients are computed as Cauchy integrals over circles
            in the complex plane.
        radius : float, default=inf
            Radius of convergence, the distance from zero to the nearest singularity of f.
        signed : bool, default=False
            Allow negative coefficients.

        Returns
        -------
        DotProduct

        Examples
        --------
        >>> import numpy as np
        >>> from mercer import DotProduct
        >>> DotProduct.from_function(np.sinh).series.coefficients(4).round(6)
        array([0.      , 1.      , 0.      , 0.166667])
        """
        return cls(_Expansion(function, float(radius)), radius, signed, function)

    def closed_function(self, t: Array) -> Array:
        if self.formula is not None:
            return np.asarray(self.formula(t))
        if not callable(self.coefficients):
            return np.polynomial.polynomial.polyval(t, np.asarray(self.coefficients))
        return self._sum_of_series(t)

    @property
    def series(self) -> PowerSeries:
        degree = None if callable(self.coefficients) else len(self.coefficients) - 1
        return PowerSeries(self._first, degree, float(self.radius))

    def _first(self, n: int) -> Array:
        if isinstance(self.coefficients, _Expansion):
            values = self.coefficients.first(n)
        elif callable(self.coefficients):
            values = np.array([self.coefficients(i) for i in range(n)], dtype=float)
        else:
            values = np.zeros(n)
            first = self.coefficients[:n]
            values[: len(first)] = first
        self._check_signs(values)
        return values

    def _check_signs(self, values: Array) -> None:
        if not np.isfinite(values).all():
            first = int(np.flatnonzero(~np.isfinite(values))[0])
            msg = f"DotProduct: coefficients must be finite, got a_{first} = {values[first]}."
            raise ParameterError(msg)
        if not self.signed and (values < 0).any():
            first = int(np.flatnonzero(values < 0)[0])
            msg = (
                f"DotProduct: a_{first} = {values[first]:.6g} is negative, so the kernel is not positive definite in "
                "every dimension (Schoenberg). Pass signed=True for features with signs, or see "
                "mercer.kernels.gegenbauer_coefficients for a single dimension."
            )
            raise ParameterError(msg)


@dataclass(frozen=True)
class _Expansion:
    """Callable n -> a_n, where a_n is the n-th Maclaurin coefficient of an analytic function."""

    function: Callable[[Array], Array]
    radius: float

    def __call__(self, n: int) -> float:
        return float(self.first(n + 1)[n])

    def first(self, n: int) -> Array:
        """Return the first `n` Maclaurin coefficients, a_0 to a_{n-1}."""
        size = 1 << max(6, (max(n, 1) - 1).bit_length())
        return _cauchy_coefficients(self.function, self.radius, size)[:n]


@lru_cache(maxsize=64)
def _cauchy_coefficients(function: Callable[[Array], Any], radius: float, n: int) -> Array:
    """Return the Maclaurin coefficients a_0 ... a_{n-1} of a function, by Cauchy integrals over circles around zero.

    On a circle of radius r, |a_k| <= max|f| / r^k (Cauchy's bound), and the rounding error of a_k is about the machine
    epsilon times this bound. Each coefficient is computed on the circle where the bound is smallest. If all
    coefficients have the same sign, the smallest bound is close to |a_k|.
    """
    points = 32 * n  # aliased coefficients a_{n + points} are then below rounding
    circle = np.exp(2j * np.pi * np.arange(points) / points)
    largest = min(0.999 * radius, 4.0 * n)
    best, values = np.full(n, np.inf), np.zeros(n)
    degrees = np.arange(n)
    for r in np.unique(np.concatenate([np.geomspace(largest * 1e-6, largest, 60), np.linspace(0.5, 1, 40) * largest])):
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                # A function written for real numbers may discard imaginary parts with a warning: make that an error.
                warnings.simplefilter("error", np.exceptions.ComplexWarning)
                at = np.asarray(function(r * circle), dtype=complex)
        except (TypeError, ValueError, np.exceptions.ComplexWarning) as error:
            msg = (
                "DotProduct.from_function: the function must take complex arrays and return one value per entry, "
                f"got {type(error).__name__}: {error}. Otherwise give the coefficients."
            )
            raise ParameterError(msg) from error
        if at.shape != circle.shape or not np.isfinite(at).all():
            continue
        bound = np.log(max(np.abs(at).max(), 1e-300)) - degrees * np.log(r)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            estimate = np.fft.fft(at).real[:n] / points * np.exp(-degrees * np.log(r))
        better = (bound < best) & np.isfinite(estimate)
        best[better], values[better] = bound[better], estimate[better]
    if not np.isfinite(best).all():
        msg = (
            "DotProduct.from_function: the function has no finite values on circles around zero; needed an analytic "
            f"function within radius {radius:.3g}. Give its radius of convergence, or the coefficients."
        )
        raise ParameterError(msg)
    with np.errstate(under="ignore"):
        values[np.abs(values) <= ZERO_COEFFICIENT * np.exp(np.minimum(best, 700.0))] = 0.0
    values.flags.writeable = False
    return values
