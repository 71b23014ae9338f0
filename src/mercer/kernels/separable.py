"""Kernels that are products over features: Laplacian (of the L1 distance) and Cauchy."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from scipy import special
from scipy.spatial.distance import cdist

from mercer.kernels.base import OptionalFormula
from mercer.kernels.spectral import LARGEST_SCALE, ShiftInvariantKernel

__all__ = ["Cauchy", "Laplacian", "SeparableKernel"]


class SeparableKernel(ShiftInvariantKernel):
    r"""Base class of kernels that are products over features, k(x, y) = f(x_1 - y_1) ... f(x_d - y_d).

    A subclass is a ``@dataclass(frozen=True)`` with a field ``lengthscale: float = 1.0``, the last one by convention.
    It supplies two formulas. ``profile(t)`` is the factor of one feature,
    f(x_i - y_i) = ``profile(|x_i - y_i| / lengthscale)``. ``spectral_quantile(u)`` is the quantile function of the
    spectral distribution of one feature. They determine each other, because the profile is the characteristic function
    of that distribution,

    .. math:: \mathrm{profile}(t) = \int_0^1 \cos(t\, \mathrm{spectral\_quantile}(u))\, du.

    A subclass may define ``closed_values(X, Y)``, the kernel matrix in closed form, where that is faster than a
    product over features. `mercer.testing.check_kernel` compares the formulas.

    See Also
    --------
    IsotropicKernel : Base class of kernels of the Euclidean distance.
    """

    structure = "a product over features, k(x, y) = f(x_1 - y_1) ... f(x_d - y_d)"
    #: Optional formula (X, Y) -> ndarray for the kernel matrix.
    closed_values: ClassVar[OptionalFormula] = None

    @abstractmethod
    def profile(self, t: np.ndarray) -> np.ndarray:
        """Return the factor of one feature: k(x, y) is the product over i of ``profile(|x_i - y_i| / lengthscale)``.

        The argument `t` is an array of numbers from 0 to `largest_distance`, which is 1e150 by default. The result has
        the same shape, and profile(0) = 1.
        """

    @abstractmethod
    def spectral_quantile(self, uniforms: np.ndarray) -> np.ndarray:
        """Return quantiles of the spectral distribution of one feature, for lengthscale 1.

        The distribution is symmetric around zero. `uniforms` is an array of probabilities in [0, 1], and the result has
        the same shape.
        """

    def frequencies(self, normals: np.ndarray, uniforms: np.ndarray) -> np.ndarray:  # noqa: ARG002 - normals suffice
        # The normal distribution function maps each normal number to a uniform one, and the quantile function maps that
        # to the spectral distribution. Each entry has the exact distribution, and dependence between rows (orthogonal
        # rows, Sobol points) is preserved.
        quantiles = self.spectral_quantile(special.ndtr(normals))
        return np.clip(quantiles, -LARGEST_SCALE, LARGEST_SCALE) / self.lengthscale

    def _values(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        if self.closed_values is not None:
            return self.closed_values(X, Y)
        out = np.ones((len(X), len(Y)))
        # Distances are limited, because the profile of an infinite one could be NaN.
        with np.errstate(over="ignore"):
            for x, y in zip(X.T, Y.T, strict=True):
                out *= self.profile(np.minimum(np.abs(x[:, None] - y) / self.lengthscale, self.largest_distance))
        return out


@dataclass(frozen=True)
class Laplacian(SeparableKernel):
    r"""Laplacian kernel of the L1 distance.

    .. math:: k(x, y) = \exp\Bigl(-\frac{\|x - y\|_1}{\ell}\Bigr)

    Parameters
    ----------
    lengthscale : float or "median", default=1.0
        Scale :math:`\ell > 0`, in the units of the inputs; scikit-learn's gamma is its inverse. When a map is fitted,
        "median" is replaced by the median L1 distance between rows.

    See Also
    --------
    Matern : With ``nu=0.5``, the exponential of the Euclidean distance.

    References
    ----------
    .. [1] Rahimi, Recht (2007), Random Features for Large-Scale Kernel Machines, NeurIPS.

    Examples
    --------
    >>> from mercer import Laplacian
    >>> Laplacian(lengthscale=2.0)([[0.0, 0.0]], [[1.0, 1.0]]).round(4)
    array([[0.3679]])
    """

    metric = "cityblock"

    lengthscale: float | Literal["median"] = 1.0

    def closed_power(self, n: int) -> Laplacian:
        return Laplacian(float(self.lengthscale) / n)

    def profile(self, t: np.ndarray) -> np.ndarray:
        return np.exp(-t)

    def closed_values(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return np.exp(-cdist(X, Y, "cityblock") / self.lengthscale)

    def spectral_quantile(self, uniforms: np.ndarray) -> np.ndarray:
        return np.tan(np.pi * (uniforms - 0.5))


@dataclass(frozen=True)
class Cauchy(SeparableKernel):
    r"""Cauchy kernel, a product over features.

    .. math:: k(x, y) = \prod_{i=1}^{d} \frac{1}{1 + (x_i - y_i)^2 / \ell^2}

    Parameters
    ----------
    lengthscale : float or "median", default=1.0
        Scale :math:`\ell > 0`, in the units of the inputs. When a map is fitted, "median" is replaced by the median
        Euclidean distance between rows.

    See Also
    --------
    RationalQuadratic : The isotropic analog, with ``alpha=1``: ``1 / (1 + |x - y|^2 / (2 l^2))``.

    References
    ----------
    .. [1] Rahimi, Recht (2007), Random Features for Large-Scale Kernel Machines, NeurIPS.

    Examples
    --------
    >>> from mercer import Cauchy
    >>> Cauchy()([[0.0, 0.0]], [[1.0, 1.0]])
    array([[0.25]])
    """

    lengthscale: float | Literal["median"] = 1.0

    def profile(self, t: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.square(t))

    def closed_values(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        out = np.ones((len(X), len(Y)))
        with np.errstate(over="ignore", under="ignore"):
            for x, y in zip(X.T, Y.T, strict=True):
                t = np.abs((x[:, None] - y) / self.lengthscale)
                far = t > 1e100
                out /= np.where(far, t, 1 + np.square(t))
                if far.any():  # where the square of t may be infinite
                    out /= np.where(far, t, 1.0)
        return out

    def spectral_quantile(self, uniforms: np.ndarray) -> np.ndarray:
        # Quantiles of the Laplace distribution, with density exp(-|w|) / 2. They are computed from the probability of
        # the nearer tail, which is more accurate.
        tail = np.minimum(uniforms, 1 - uniforms)
        with np.errstate(divide="ignore"):
            return np.sign(uniforms - 0.5) * -np.log(2 * tail)
