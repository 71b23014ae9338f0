"""Kernels that are products over coordinates: Laplacian (of the L1 distance) and Cauchy."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import special
from scipy.spatial.distance import cdist

from mercer.kernels.isotropic import LARGEST_SCALE
from mercer.kernels.spectral import ShiftInvariantKernel

__all__ = ["Cauchy", "Laplacian", "ProductKernel"]


class ProductKernel(ShiftInvariantKernel):
    """A product of one-dimensional kernels: the coordinates of a frequency are independent."""

    structure = "a product over coordinates, k(x, y) = f(x_1 - y_1) ... f(x_d - y_d)"

    @abstractmethod
    def spectral_quantile(self, uniforms: np.ndarray) -> np.ndarray:
        """Return quantiles of the spectral law of one coordinate, at lengthscale one."""

    def frequencies(self, normals: np.ndarray, uniforms: np.ndarray) -> np.ndarray:  # noqa: ARG002 - no mixing law
        # Normal -> uniform -> spectral law, coordinate by coordinate: the marginal law is exact, and whatever
        # couples the normal rows (orthogonality, Sobol points) still couples the frequencies.
        quantiles = self.spectral_quantile(special.ndtr(normals))
        return np.clip(quantiles, -LARGEST_SCALE, LARGEST_SCALE) / self.lengthscale


@dataclass(frozen=True)
class Laplacian(ProductKernel):
    r"""Laplacian kernel of the L1 distance.

    .. math:: k(x, y) = \exp\Bigl(-\frac{\|x - y\|_1}{\ell}\Bigr)

    Parameters
    ----------
    lengthscale : float or "median", default=1.0
        Scale :math:`\ell > 0`, in the units of the inputs; scikit-learn's gamma is its inverse.

    See Also
    --------
    Matern : With ``nu=0.5``, the same of the Euclidean distance.

    Examples
    --------
    >>> from mercer import Laplacian
    >>> Laplacian(lengthscale=2.0)([[0.0, 0.0]], [[1.0, 1.0]]).round(4)
    array([[0.3679]])
    """

    metric = "cityblock"

    lengthscale: float | Literal["median"] = 1.0

    def power(self, n: int) -> Laplacian:
        return Laplacian(float(self.lengthscale) / n)

    def _values(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return np.exp(-cdist(X, Y, "cityblock") / self.lengthscale)

    def spectral_quantile(self, uniforms: np.ndarray) -> np.ndarray:
        return np.tan(np.pi * (uniforms - 0.5))


@dataclass(frozen=True)
class Cauchy(ProductKernel):
    r"""Cauchy kernel, a product over coordinates.

    .. math:: k(x, y) = \prod_{i=1}^{d} \frac{1}{1 + (x_i - y_i)^2 / \ell^2}

    Parameters
    ----------
    lengthscale : float or "median", default=1.0
        Scale :math:`\ell > 0`, in the units of the inputs.

    See Also
    --------
    RationalQuadratic : With ``alpha=1``, the isotropic relative.

    Examples
    --------
    >>> from mercer import Cauchy
    >>> Cauchy()([[0.0, 0.0]], [[1.0, 1.0]])
    array([[0.25]])
    """

    lengthscale: float | Literal["median"] = 1.0

    def _values(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        out = np.ones((len(X), len(Y)))
        with np.errstate(over="ignore"):  # an infinite square is a kernel value of zero, as it should be
            for x, y in zip(X.T, Y.T, strict=True):
                out /= 1 + np.square((x[:, None] - y) / self.lengthscale)
        return out

    def spectral_quantile(self, uniforms: np.ndarray) -> np.ndarray:
        # The Laplace law, density exp(-|w|) / 2, from whichever tail keeps the digits.
        tail = np.minimum(uniforms, 1 - uniforms)
        with np.errstate(divide="ignore"):
            return np.sign(uniforms - 0.5) * -np.log(2 * tail)
