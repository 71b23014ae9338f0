"""Kernels of the distance |x - y|: Gaussian, Matern, rational quadratic.

Each is a Gaussian kernel of random scale: a frequency is sqrt(tau) z / lengthscale with z standard
normal and tau from a mixing law of its own (MATHS C.7). A kernel here is two formulas, the profile
and the quantile function of tau.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from numbers import Real
from typing import Literal

import numpy as np
import scipy.sparse as sp
from scipy import special

from mercer.errors import ParameterError
from mercer.kernels.base import Rows, check_positive, dense64, inner_products, squared_norms
from mercer.kernels.power_series import SeriesPart, exponential_series
from mercer.kernels.spectral import ShiftInvariantKernel

__all__ = ["Gaussian", "IsotropicKernel", "Matern", "RationalQuadratic"]

# Squared distances from |x|^2 + |y|^2 - 2 x.y lose digits when they are this much smaller than the
# squared norms; those few pairs are recomputed from differences.
CANCELLATION = 1e-5

# The heaviest tails (Matern with tiny nu) have frequencies beyond the range of float32. Capped here, they
# still tell apart any two points further than 1e-12 lengthscales from each other.
LARGEST_SCALE = 1e12

# From here on K_nu is evaluated by its uniform expansion in 1/nu, whose error is then below 1e-12.
LARGE_NU = 100.0


class IsotropicKernel(ShiftInvariantKernel):
    """A kernel k(x, y) = profile(|x - y| / lengthscale)."""

    structure = "an isotropic kernel, k(x, y) = f(|x - y|)"

    @abstractmethod
    def profile(self, r: np.ndarray) -> np.ndarray:
        """Return the kernel at distances `r`, in units of the lengthscale."""

    @abstractmethod
    def slope(self, r: np.ndarray) -> np.ndarray:
        """Return ``-profile'(r) / r``: times a squared distance it is the derivative in the log of the lengthscale."""

    @abstractmethod
    def mixing(self, uniforms: np.ndarray) -> np.ndarray:
        """Return quantiles of the mixing law tau: frequency = sqrt(tau) * normal / lengthscale."""

    @property
    def mean_mixing(self) -> float:
        """Mean of the mixing law; infinite where the kernel has no second derivative at zero."""
        return 1.0

    @abstractmethod
    def size_biased_mixing(self, uniforms: np.ndarray) -> np.ndarray:
        """Return quantiles of the mixing law weighted by tau, for a finite mean."""

    def scales(self, uniforms: np.ndarray) -> np.ndarray:
        """Return the factors sqrt(tau) / lengthscale that turn standard normal rows into frequencies."""
        return np.minimum(np.sqrt(self.mixing(uniforms)), LARGEST_SCALE) / self.lengthscale

    def frequencies(self, normals: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
        return self.scales(uniforms)[:, None] * normals

    @property
    def takes_sparse(self) -> bool:
        return True

    def _values(self, X: Rows, Y: Rows) -> np.ndarray:
        # Every profile is zero at 1e150; infinity could give NaN.
        with np.errstate(over="ignore"):
            return self.profile(np.minimum(distances(X, Y) / self.lengthscale, 1e150))


@dataclass(frozen=True)
class Gaussian(IsotropicKernel):
    r"""Gaussian kernel, also called RBF or squared exponential.

    .. math:: k(x, y) = \exp\Bigl(-\frac{\|x - y\|^2}{2 \ell^2}\Bigr)

    Parameters
    ----------
    lengthscale : float or "median", default=1.0
        Scale :math:`\ell > 0`, in the units of the inputs. "median" is resolved by the `fit` of a map to the
        median distance of a seeded sample of rows.

    See Also
    --------
    Gaussian.from_gamma : The same kernel by scikit-learn's gamma.

    Examples
    --------
    >>> from mercer import Gaussian
    >>> Gaussian(lengthscale=2.0)([[0.0, 0.0]], [[0.0, 2.0]]).round(4)
    array([[0.6065]])
    """

    lengthscale: float | Literal["median"] = 1.0

    @classmethod
    def from_gamma(cls, gamma: float) -> Gaussian:
        """Return exp(-gamma |x - y|^2), as scikit-learn writes it.

        Examples
        --------
        >>> from mercer import Gaussian
        >>> Gaussian.from_gamma(2.0)
        Gaussian(lengthscale=0.5)
        """
        if not (isinstance(gamma, Real) and 0 < float(gamma) < np.inf):
            msg = f"Gaussian.from_gamma: gamma must be a finite number > 0, got {gamma!r}."
            raise ParameterError(msg)
        return cls(lengthscale=float((2 * gamma) ** -0.5))

    def series_parts(self) -> tuple[SeriesPart, ...]:
        rate = 1.0 if isinstance(self.lengthscale, str) else self.lengthscale**-2
        return (SeriesPart(exponential_series(rate), decay=rate, shift_invariant=True),)

    def power(self, n: int) -> Gaussian:
        return Gaussian(float(self.lengthscale) / math.sqrt(n))

    def profile(self, r: np.ndarray) -> np.ndarray:
        return np.exp(-0.5 * np.square(r))

    def slope(self, r: np.ndarray) -> np.ndarray:
        return self.profile(r)

    def mixing(self, uniforms: np.ndarray) -> np.ndarray:
        return np.ones_like(uniforms)

    def size_biased_mixing(self, uniforms: np.ndarray) -> np.ndarray:
        return np.ones_like(uniforms)


@dataclass(frozen=True)
class Matern(IsotropicKernel):
    r"""Matern kernel: sample paths that are :math:`\lceil \nu \rceil - 1` times differentiable.

    .. math::
        k(x, y) = \frac{2^{1-\nu}}{\Gamma(\nu)} \Bigl(\sqrt{2\nu} \frac{r}{\ell}\Bigr)^{\nu}
        K_\nu\Bigl(\sqrt{2\nu} \frac{r}{\ell}\Bigr), \qquad r = \|x - y\|

    Parameters
    ----------
    nu : float, default=1.5
        Smoothness :math:`\nu > 0`, any value. 0.5 is exp(-r / l); ``float("inf")`` is `Gaussian`.
    lengthscale : float or "median", default=1.0
        Scale :math:`\ell > 0`, in the units of the inputs.

    Examples
    --------
    >>> from mercer import Matern
    >>> Matern(nu=0.5, lengthscale=2.0)([[0.0, 0.0]], [[0.0, 2.0]]).round(4)
    array([[0.3679]])
    """

    nu: float = 1.5
    lengthscale: float | Literal["median"] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nu != np.inf:
            check_positive(self, "nu")

    def power(self, n: int) -> Matern | None:
        if self.nu not in (0.5, np.inf):
            return None
        return replace(self, lengthscale=float(self.lengthscale) / (n if self.nu == 0.5 else math.sqrt(n)))

    def profile(self, r: np.ndarray) -> np.ndarray:
        r = np.asarray(r, dtype=float)
        if self.nu == np.inf:
            return np.exp(-0.5 * np.square(r))
        if self.nu > LARGE_NU:
            return matern_large_nu(r, self.nu)
        x = np.sqrt(2 * self.nu) * r
        if self.nu == 0.5:
            return np.exp(-x)
        if self.nu == 1.5:
            return (1 + x) * np.exp(-x)
        if self.nu == 2.5:
            return (1 + x + np.square(x) / 3) * np.exp(-x)
        return matern_bessel(x, self.nu)

    def slope(self, r: np.ndarray) -> np.ndarray:
        r = np.asarray(r, dtype=float)
        if self.nu == np.inf:
            return self.profile(r)
        if self.nu > 1:  # (x^nu K_nu)' = -x^nu K_(nu - 1): the kernel one degree rougher, at a distance of its own unit
            ratio = self.nu / (self.nu - 1)
            return ratio * Matern(self.nu - 1).profile(np.sqrt(ratio) * r)
        # Not finite at zero, where the squared distance that it is multiplied by is zero.
        x = np.clip(np.sqrt(2 * self.nu) * r, 1e-150, 1e3)  # beyond it is zero to rounding
        scale = 2 * self.nu * 2 ** (1 - self.nu) / special.gamma(self.nu)
        with np.errstate(over="ignore"):
            return np.minimum(scale * x ** (self.nu - 1) * special.kve(self.nu - 1, x) * np.exp(-x), 1e290)

    def mixing(self, uniforms: np.ndarray) -> np.ndarray:
        if self.nu == np.inf:
            return np.ones_like(uniforms)
        # tau = 2 nu / chi^2_{2 nu}, with chi^2_{2 nu} / 2 a Gamma(nu) variable.
        with np.errstate(divide="ignore"):
            return self.nu / special.gammaincinv(self.nu, uniforms)

    @property
    def mean_mixing(self) -> float:
        if self.nu == np.inf:
            return 1.0
        return self.nu / (self.nu - 1) if self.nu > 1 else np.inf

    def size_biased_mixing(self, uniforms: np.ndarray) -> np.ndarray:
        if self.nu == np.inf:
            return np.ones_like(uniforms)
        # tau in proportion to itself: 2 nu / chi^2_{2 nu - 2}.
        with np.errstate(divide="ignore", over="ignore"):
            return self.nu / special.gammaincinv(self.nu - 1, uniforms)


@dataclass(frozen=True)
class RationalQuadratic(IsotropicKernel):
    r"""Rational quadratic kernel: a Gaussian kernel of uncertain lengthscale.

    .. math:: k(x, y) = \Bigl(1 + \frac{\|x - y\|^2}{2 \alpha \ell^2}\Bigr)^{-\alpha}

    Parameters
    ----------
    alpha : float, default=1.0
        Shape :math:`\alpha > 0`; the kernel tends to `Gaussian` as it grows.
    lengthscale : float or "median", default=1.0
        Scale :math:`\ell > 0`, in the units of the inputs.

    Examples
    --------
    >>> from mercer import RationalQuadratic
    >>> RationalQuadratic(alpha=0.5)([[0.0]], [[2.0]]).round(4)
    array([[0.4472]])
    """

    alpha: float = 1.0
    lengthscale: float | Literal["median"] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "alpha")

    def power(self, n: int) -> RationalQuadratic:
        return RationalQuadratic(n * self.alpha, float(self.lengthscale) / math.sqrt(n))

    def profile(self, r: np.ndarray) -> np.ndarray:
        return np.exp(-self.alpha * np.log1p(np.square(r) / (2 * self.alpha)))

    def slope(self, r: np.ndarray) -> np.ndarray:
        return np.exp(-(self.alpha + 1) * np.log1p(np.square(r) / (2 * self.alpha)))

    def mixing(self, uniforms: np.ndarray) -> np.ndarray:
        return special.gammaincinv(self.alpha, uniforms) / self.alpha

    def size_biased_mixing(self, uniforms: np.ndarray) -> np.ndarray:
        return special.gammaincinv(self.alpha + 1, uniforms) / self.alpha


def distances(X: Rows, Y: Rows) -> np.ndarray:
    """Euclidean distances of all pairs at the speed of a matrix product, exact where rows coincide."""
    sparse = sp.issparse(X)
    largest = max(float(np.abs(part.data if sparse else part).max(initial=0)) for part in (X, Y))
    # Squares of such values would overflow or vanish.
    unit = largest if largest > 1e100 or 0 < largest < 1e-100 else 1.0
    originals = X, Y
    X, Y = X / unit, Y / unit
    if not sparse and Y.shape[0]:
        # Distances do not change under a shift; norms shrink, and with them the rounding below.
        center = Y.mean(axis=0)
        X, Y = X - center, Y - center
    norms = squared_norms(X)[:, None] + squared_norms(Y)
    squared = norms - 2 * inner_products(X, Y)
    rows, columns = np.nonzero(squared <= CANCELLATION * norms)
    with np.errstate(over="ignore"):
        out = np.sqrt(np.maximum(squared, 0.0)) * unit
    step = max(1, 2**21 // max(1, X.shape[1]))  # differences of one step: at most 16 MiB
    for start in range(0, len(rows), step):
        i, j = rows[start : start + step], columns[start : start + step]
        # From the rows as they came: next to a far outlier, shifted and scaled rows have lost their digits.
        differences = dense64(originals[0][i] / 2 - originals[1][j] / 2)  # halves cannot overflow
        size = np.abs(differences).max(axis=1, initial=0.0)[:, None] if unit != 1 else np.ones((1, 1))
        size = np.where(size > 0, size, 1.0)
        with np.errstate(over="ignore"):
            out[i, j] = 2 * (size[:, 0] * np.sqrt(np.square(differences / size).sum(axis=1)))
    return out


def matern_bessel(x: np.ndarray, nu: float) -> np.ndarray:
    """2^(1-nu) / Gamma(nu) x^nu K_nu(x) for moderate nu, in logarithms so that neither factor overflows."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        bessel = special.kve(nu, x)
        log_value = (1 - nu) * np.log(2) - special.gammaln(nu) + nu * np.log(x) + np.log(bessel) - x
    # K_nu overflows only where x is so small that the first terms of the power series are exact.
    near_zero = np.ones_like(x)
    if nu > 2:
        first = np.square(x) / (4 * (nu - 1))
        near_zero += first * (np.square(x) / (8 * (nu - 2)) - 1)
    # Rounding may put a value next to one above it, which no correlation is.
    return np.where(np.isfinite(bessel) & (x > 0), np.exp(np.minimum(log_value, 0)), np.where(x < 1, near_zero, 0.0))


def matern_large_nu(r: np.ndarray, nu: float) -> np.ndarray:
    """Matern profile by the uniform expansion of K_nu(nu z) (DLMF 10.41.4), with Stirling's series for Gamma.

    The large terms of the two expansions cancel on paper here, not in floating point, so the value keeps
    its digits for every nu up to infinity, where it is the Gaussian profile.
    """
    z = r * np.sqrt(2 / nu)
    root = np.sqrt(1 + np.square(z))
    excess = np.square(z) / (1 + root)  # root - 1
    t = 1 / root
    t2 = np.square(t)
    corrections = (
        t * (3 - 5 * t2) / 24,
        t**2 * (81 - 462 * t2 + 385 * t2**2) / 1152,
        t**3 * (30375 - 369603 * t2 + 765765 * t2**2 - 425425 * t2**3) / 414720,
        t**4 * (4465125 - 94121676 * t2 + 349922430 * t2**2 - 446185740 * t2**3 + 185910725 * t2**4) / 39813120,
    )
    series = 1 + sum((-1) ** k * u / nu**k for k, u in enumerate(corrections, start=1))
    stirling = 1 / (12 * nu) - 1 / (360 * nu**3) + 1 / (1260 * nu**5)
    log_value = nu * (np.log1p(excess / 2) - excess) - 0.5 * np.log(root) - stirling + np.log(series)
    return np.where(z == 0, 1.0, np.exp(np.minimum(log_value, 0)))
