"""Kernels of the inner product: k(x, y) = f(x . y) with f a power series of non-negative coefficients."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from scipy import special

from mercer.errors import DataError, ParameterError
from mercer.kernels.base import Kernel, Rows, check_positive, inner_products, squared_norms
from mercer.kernels.compose import Composed

__all__ = ["DotProductKernel", "Exponential", "Polynomial"]


class DotProductKernel(Kernel):
    """A kernel k(x, y) = f(x . y); ``f @ k`` applies the same f to another kernel (Schoenberg)."""

    structure = "a dot-product kernel, k(x, y) = f(x . y)"

    @abstractmethod
    def function(self, t: np.ndarray) -> np.ndarray:
        """Return f(t)."""

    @abstractmethod
    def coefficients(self, n: int) -> np.ndarray:
        """Return the first `n` Maclaurin coefficients of f, all non-negative."""

    @property
    def takes_sparse(self) -> bool:
        return True

    def _values(self, X: Rows, Y: Rows) -> np.ndarray:
        return self._checked(inner_products(X, Y))

    def _diagonal(self, X: Rows) -> np.ndarray:
        return self._checked(squared_norms(X))

    def _checked(self, t: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            values = self.function(t)
        if not np.isfinite(values).all():
            msg = (
                f"{self!r}: the kernel overflows at an inner product of {np.abs(t).max():.3g}. "
                "Scale the rows down, for example to unit norm."
            )
            raise DataError(msg)
        return values

    def __matmul__(self, inner: object) -> Composed:
        return Composed(self, inner) if isinstance(inner, Kernel) else NotImplemented


@dataclass(frozen=True)
class Polynomial(DotProductKernel):
    r"""Polynomial kernel.

    .. math:: k(x, y) = (c + x^\top y)^p

    Parameters
    ----------
    degree : int, default=3
        Degree :math:`p \ge 1`.
    coef0 : float, default=1.0
        Constant :math:`c \ge 0`; zero gives the homogeneous kernel.

    Examples
    --------
    >>> from mercer import Polynomial
    >>> Polynomial(degree=2)([[1.0, 2.0]], [[3.0, 1.0]])
    array([[36.]])
    """

    degree: int = 3
    coef0: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.degree, Integral) or isinstance(self.degree, bool) or self.degree < 1:
            msg = f"Polynomial: degree must be an integer >= 1, got {self.degree!r}."
            raise ParameterError(msg)
        if not (isinstance(self.coef0, Real) and np.isfinite(self.coef0) and self.coef0 >= 0):
            msg = (
                f"Polynomial: coef0 must be >= 0 (below zero the kernel is not positive definite), got {self.coef0!r}."
            )
            raise ParameterError(msg)

    def function(self, t: np.ndarray) -> np.ndarray:
        return (self.coef0 + t) ** self.degree

    def coefficients(self, n: int) -> np.ndarray:
        powers = np.arange(n)
        remaining = np.maximum(self.degree - powers, 0)
        return special.binom(self.degree, powers) * float(self.coef0) ** remaining * (powers <= self.degree)


@dataclass(frozen=True)
class Exponential(DotProductKernel):
    r"""Exponential dot-product kernel.

    .. math:: k(x, y) = \exp\Bigl(\frac{x^\top y}{\ell^2}\Bigr)

    Parameters
    ----------
    lengthscale : float, default=1.0
        Scale :math:`\ell > 0`.

    Examples
    --------
    >>> from mercer import Exponential
    >>> Exponential()([[1.0, 0.0]], [[0.5, 3.0]]).round(4)
    array([[1.6487]])
    """

    lengthscale: float = 1.0

    def __post_init__(self) -> None:
        check_positive(self, "lengthscale")

    def function(self, t: np.ndarray) -> np.ndarray:
        return np.exp(t / self.lengthscale**2)

    def coefficients(self, n: int) -> np.ndarray:
        powers = np.arange(n)
        return np.exp(-2 * powers * np.log(self.lengthscale) - special.gammaln(powers + 1))
