"""Kernels of the distance |x - y|: Gaussian, Matern, rational quadratic.

Each of these kernels is a scale mixture of Gaussian kernels: the mean of exp(-tau r^2 / 2) over a random tau >= 0,
where r = |x - y| / lengthscale. By Schoenberg's theorem (1938, Annals of Mathematics 39, Theorem 2), the isotropic
functions that are positive definite in every dimension are exactly these mixtures. The distribution of tau is called
the mixing distribution. If z is standard normal and independent of tau, then sqrt(tau) z / lengthscale is a random
frequency of the kernel, which is a sample of its spectral distribution.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np
import scipy.sparse as sp
from scipy import special

from mercer.errors import ParameterError
from mercer.kernels.base import (
    OptionalFormula,
    Rows,
    check_positive_parameters,
    dense64,
    inner_products,
    squared_norms,
)
from mercer.kernels.power_series import SeriesPart, exponential_series
from mercer.kernels.quadrature import UnitDensity
from mercer.kernels.spectral import LARGEST_SCALE, ShiftInvariantKernel
from mercer.parameters import Interval, check_parameter

__all__ = ["LARGEST_SCALE", "Gaussian", "IsotropicKernel", "Matern", "RationalQuadratic", "euclidean_distances"]

# Squared distances from |x|^2 + |y|^2 - 2 x.y lose digits when they are this much smaller than the
# squared norms; those few pairs are recomputed from differences.
CANCELLATION = 1e-5
# Number of rows whose median is subtracted from all rows before.
CENTERED = 64

# For nu above this, K_nu is evaluated by its uniform expansion in 1/nu, whose error is then below 1e-12.
LARGE_NU = 100.0

# Step size of the numerical derivative of a profile with respect to the logarithm of the distance.
SLOPE_STEP = 1e-3
# Replaces an infinite slope at zero, so that its product with a squared distance of zero is zero and not NaN.
LARGEST_SLOPE = 1e290


class IsotropicKernel(ShiftInvariantKernel):
    r"""Base class of kernels of the Euclidean distance, ``k(x, y) = profile(|x - y| / lengthscale)``.

    A subclass is a ``@dataclass(frozen=True)`` with a field ``lengthscale: float = 1.0``, the last one by convention.
    It supplies two formulas, ``profile(r)`` and ``mixing(u)``, which determine each other. The profile is a mixture of
    Gaussian functions exp(-tau r^2 / 2), and ``mixing(u)`` is the quantile function of tau:

    .. math:: \mathrm{profile}(r) = \int_0^1 e^{-\mathrm{mixing}(u)\, r^2 / 2}\, du.

    Every isotropic kernel that is positive definite in all dimensions is such a mixture [1]_. All other quantities are
    computed from these two formulas, numerically if necessary. A subclass may define closed forms, which are faster:
    ``closed_slope(r)``, ``closed_mean_mixing()``, ``closed_mean_inverse_mixing()``, ``closed_size_biased_mixing(u)``,
    ``closed_spectral_density(s, d)`` and ``closed_power(n)``.
    `mercer.testing.check_kernel` compares them with the two formulas, and the two formulas with each other.

    References
    ----------
    .. [1] Schoenberg (1938), Metric spaces and completely monotone functions, Annals of Mathematics 39, 811-841.

    Examples
    --------
    A mixture of two Gaussian kernels with lengthscales 1 and 1/2 and equal weights:

    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from mercer.kernels import IsotropicKernel
    >>> @dataclass(frozen=True)
    ... class TwoScales(IsotropicKernel):
    ...     lengthscale: float = 1.0
    ...
    ...     def profile(self, r):
    ...         return 0.5 * np.exp(-0.5 * r**2) + 0.5 * np.exp(-2.0 * r**2)
    ...
    ...     def mixing(self, u):
    ...         return np.where(u < 0.5, 1.0, 4.0)
    >>> TwoScales(2.0)([[0.0]], [[2.0]]).round(4)
    array([[0.3709]])
    >>> round(TwoScales().mean_mixing, 6)
    2.5
    """

    structure = "an isotropic kernel, k(x, y) = f(|x - y|)"
    sparse_formulas = True
    #: Optional formula (r) -> ndarray for `slope`.
    closed_slope: ClassVar[OptionalFormula] = None
    #: Optional formula () -> float for `mean_mixing`.
    closed_mean_mixing: ClassVar[OptionalFormula] = None
    #: Optional formula () -> float for `mean_inverse_mixing`.
    closed_mean_inverse_mixing: ClassVar[OptionalFormula] = None
    #: Optional formula (u) -> ndarray for `size_biased_mixing`.
    closed_size_biased_mixing: ClassVar[OptionalFormula] = None
    #: Optional formula (s, d) -> ndarray for the Fourier transform of the profile as a function on R^d, at frequencies
    #: of length s in cycles per lengthscale. Grids of frequencies (`GridFourier`) need it.
    closed_spectral_density: ClassVar[OptionalFormula] = None

    @abstractmethod
    def profile(self, r: np.ndarray) -> np.ndarray:
        """Return the kernel as a function of ``r = |x - y| / lengthscale``, with profile(0) = 1.

        Parameters
        ----------
        r : ndarray of any shape
            Distances in units of the lengthscale, from 0 to `largest_distance`, which is 1e150 by default.

        Returns
        -------
        ndarray of the same shape
        """

    @abstractmethod
    def mixing(self, uniforms: np.ndarray) -> np.ndarray:
        """Return quantiles of tau, where profile(r) is the mean of exp(-tau r^2 / 2) over random tau.

        Parameters
        ----------
        uniforms : ndarray of shape (n,)
            Numbers in [0, 1). If they are uniformly distributed, the result must have the mixing distribution. The
            function may increase or decrease, and may be infinite at 0 and 1.

        Returns
        -------
        ndarray of shape (n,)
        """

    def slope(self, r: np.ndarray) -> np.ndarray:
        """Return ``-profile'(r) / r``.

        ``r**2 * slope(r)`` is the derivative of the kernel with respect to the logarithm of the lengthscale.

        Parameters
        ----------
        r : ndarray of any shape
            Distances in units of the lengthscale.

        Returns
        -------
        ndarray of the same shape
            Without a closed form, ``r**2 * slope(r)`` has an absolute error of about 1e-12.
        """
        if self.closed_slope is not None:
            return self.closed_slope(r)
        # Profiles are smooth functions of log r for r > 0 (Schoenberg), so a central difference of order four suffices.
        positive = np.maximum(np.asarray(r, dtype=float), 1e-150)
        steps = SLOPE_STEP * np.array([-2.0, -1.0, 1.0, 2.0])
        low2, low, high, high2 = (self.profile(np.minimum(positive * np.exp(step), 1e150)) for step in steps)
        derivative = (8 * (high - low) - (high2 - low2)) / (12 * SLOPE_STEP)
        with np.errstate(over="ignore"):
            # The slope is largest at zero, where it is the mean of tau.
            return np.clip(-derivative / np.square(positive), 0.0, min(self.mean_mixing, LARGEST_SLOPE))

    @property
    def mean_mixing(self) -> float:
        """Mean of the mixing distribution. It is -profile''(0), or infinite if that derivative does not exist."""
        if self.closed_mean_mixing is not None:
            return float(self.closed_mean_mixing())
        return mixing_density(self).total

    @property
    def mean_inverse_mixing(self) -> float:
        """Mean of 1 / tau over the mixing distribution.

        It is the integral of r * profile(r) over r > 0, and infinite if the profile decays like 1 / r^2 or slower.
        """
        if self.closed_mean_inverse_mixing is not None:
            return float(self.closed_mean_inverse_mixing())
        return inverse_mixing_density(self).total

    def size_biased_mixing(self, uniforms: np.ndarray) -> np.ndarray:
        """Return quantiles of the size-biased mixing distribution, with density tau p(tau) / mean_mixing.

        Here p is the density of the mixing distribution, and `mean_mixing` is its mean, which must be finite.

        Parameters
        ----------
        uniforms : ndarray of shape (n,)
            Numbers in [0, 1).

        Returns
        -------
        ndarray of shape (n,)
        """
        if self.closed_size_biased_mixing is not None:
            return self.closed_size_biased_mixing(uniforms)
        density = mixing_density(self)
        return density.values(*density.quantiles(uniforms))

    def scales(self, uniforms: np.ndarray) -> np.ndarray:
        """Return sqrt(mixing(uniforms)) / lengthscale. A random frequency is this factor times a normal row."""
        return np.minimum(np.sqrt(self.mixing(uniforms)), LARGEST_SCALE) / self.lengthscale

    def frequencies(self, normals: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
        return self.scales(uniforms)[:, None] * normals

    def _values(self, X: Rows, Y: Rows) -> np.ndarray:
        # Distances are limited, because the profile of an infinite one could be NaN.
        with np.errstate(over="ignore", under="ignore"):
            return self.profile(np.minimum(euclidean_distances(X, Y) / self.lengthscale, self.largest_distance))


@lru_cache(maxsize=64)
def inverse_mixing_density(kernel: IsotropicKernel) -> UnitDensity:
    """Return ``1 / kernel.mixing(u)`` as a `UnitDensity`, whose integral is the mean of 1 / tau."""

    def inverse(uniforms: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", over="ignore"):
            return np.minimum(1 / kernel.mixing(uniforms), 1e300)

    try:
        return UnitDensity.of(inverse)
    except ValueError as error:
        msg = f"{kernel!r}: mixing(u) must return {error}."
        raise ParameterError(msg) from error


@lru_cache(maxsize=64)
def mixing_density(kernel: IsotropicKernel) -> UnitDensity:
    """Return ``kernel.mixing(u)`` as a `UnitDensity`, an unnormalized density of u in (0, 1).

    ``mixing`` is the quantile function of the mixing distribution, so its integral over (0, 1) is the mean of that
    distribution. If u is a random number with the density ``mixing(u)`` / mean, then ``mixing(u)`` has the size-biased
    mixing distribution.
    """
    try:
        return UnitDensity.of(kernel.mixing)
    except ValueError as error:
        msg = f"{kernel!r}: mixing(u) must return {error}."
        raise ParameterError(msg) from error


@dataclass(frozen=True)
class Gaussian(IsotropicKernel):
    r"""Gaussian kernel, also called RBF or squared exponential.

    .. math:: k(x, y) = \exp\Bigl(-\frac{\|x - y\|^2}{2 \ell^2}\Bigr)

    Parameters
    ----------
    lengthscale : float or "median", default=1.0
        Scale :math:`\ell > 0`, in the units of the inputs. When a map is fitted, "median" is replaced by the median
        distance between rows, computed on at most 1000 rows that are sampled with a fixed seed.

    See Also
    --------
    Gaussian.from_gamma : The same kernel, given scikit-learn's gamma.
    Matern : Less smooth kernels.
    Transformed : One lengthscale per feature.

    References
    ----------
    .. [1] Rasmussen, Williams (2006), Gaussian Processes for Machine Learning, MIT Press, section 4.2.1.

    Examples
    --------
    >>> from mercer import Gaussian
    >>> Gaussian(lengthscale=2.0)([[0.0, 0.0]], [[0.0, 2.0]]).round(4)
    array([[0.6065]])
    """

    lengthscale: float | Literal["median"] = 1.0

    @classmethod
    def from_gamma(cls, gamma: float) -> Gaussian:
        """Return the kernel ``exp(-gamma |x - y|^2)``.

        Parameters
        ----------
        gamma : float
            Scikit-learn's parameter, > 0.

        Returns
        -------
        Gaussian

        Examples
        --------
        >>> from mercer import Gaussian
        >>> Gaussian.from_gamma(2.0)
        Gaussian(lengthscale=0.5)
        """
        check_parameter("Gaussian.from_gamma", "gamma", gamma, Interval(0, closed="neither"))
        return cls(lengthscale=float((2 * gamma) ** -0.5))

    def _series_form(self) -> tuple[SeriesPart, ...]:
        with np.errstate(over="ignore"):  # an infinite rate; maps of the series then raise for the rows
            rate = 1.0 if isinstance(self.lengthscale, str) else float(np.float64(self.lengthscale) ** -2)
        return (SeriesPart(exponential_series(rate), decay=rate, shift_invariant=True),)

    def closed_power(self, n: int) -> Gaussian:
        return Gaussian(float(self.lengthscale) / math.sqrt(n))

    def profile(self, r: np.ndarray) -> np.ndarray:
        return np.exp(-0.5 * np.square(r))

    def closed_slope(self, r: np.ndarray) -> np.ndarray:
        return self.profile(r)

    def mixing(self, uniforms: np.ndarray) -> np.ndarray:
        return np.ones_like(uniforms)

    def closed_mean_mixing(self) -> float:
        return 1.0

    def closed_mean_inverse_mixing(self) -> float:
        return 1.0

    def closed_size_biased_mixing(self, uniforms: np.ndarray) -> np.ndarray:
        return np.ones_like(uniforms)

    def closed_spectral_density(self, s: np.ndarray, d: int) -> np.ndarray:
        return (2 * np.pi) ** (d / 2) * np.exp(-2 * np.square(np.pi * s))


@dataclass(frozen=True)
class Matern(IsotropicKernel):
    r"""Matern kernel.

    Sample functions of a Gaussian process with this kernel are :math:`\lceil \nu \rceil - 1` times differentiable.

    .. math::
        k(x, y) = \frac{2^{1-\nu}}{\Gamma(\nu)} \Bigl(\sqrt{2\nu} \frac{r}{\ell}\Bigr)^{\nu}
        K_\nu\Bigl(\sqrt{2\nu} \frac{r}{\ell}\Bigr), \qquad r = \|x - y\|

    Parameters
    ----------
    nu : float, default=1.5
        Smoothness :math:`\nu > 0`, any value. 0.5 is exp(-r / l); ``float("inf")`` is `Gaussian`.
    lengthscale : float or "median", default=1.0
        Scale :math:`\ell > 0`, in the units of the inputs. When a map is fitted, "median" is replaced by the median
        distance between rows.

    See Also
    --------
    Gaussian : The limit of infinite smoothness.
    Laplacian : exp(-r / l) of the L1 distance r.

    References
    ----------
    .. [1] Rasmussen, Williams (2006), Gaussian Processes for Machine Learning, MIT Press, section 4.2.1.

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
            check_positive_parameters(self, "nu")

    def closed_power(self, n: int) -> Matern | None:
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

    def closed_slope(self, r: np.ndarray) -> np.ndarray:
        r = np.asarray(r, dtype=float)
        if self.nu == np.inf:
            return self.profile(r)
        if self.nu > 1:  # (x^nu K_nu)' = -x^nu K_(nu - 1): the kernel of smoothness nu - 1, at another lengthscale
            ratio = self.nu / (self.nu - 1)
            return ratio * Matern(self.nu - 1).profile(np.sqrt(ratio) * r)
        # The slope is infinite at zero; it is limited, because callers multiply it by a squared distance of zero.
        x = np.clip(np.sqrt(2 * self.nu) * r, 1e-150, 1e3)  # above 1e3 the slope is zero to rounding
        scale = 2 * self.nu * 2 ** (1 - self.nu) / special.gamma(self.nu)
        with np.errstate(over="ignore"):
            return np.minimum(scale * x ** (self.nu - 1) * special.kve(self.nu - 1, x) * np.exp(-x), LARGEST_SLOPE)

    def mixing(self, uniforms: np.ndarray) -> np.ndarray:
        if self.nu == np.inf:
            return np.ones_like(uniforms)
        # tau = 2 nu / chi^2_{2 nu}, with chi^2_{2 nu} / 2 a Gamma(nu) variable.
        with np.errstate(divide="ignore"):
            return self.nu / special.gammaincinv(self.nu, uniforms)

    def closed_mean_mixing(self) -> float:
        if self.nu == np.inf:
            return 1.0
        return self.nu / (self.nu - 1) if self.nu > 1 else np.inf

    def closed_mean_inverse_mixing(self) -> float:
        return 1.0  # the mean of Gamma(nu) / nu

    def closed_size_biased_mixing(self, uniforms: np.ndarray) -> np.ndarray:
        if self.nu == np.inf:
            return np.ones_like(uniforms)
        # Weighted by tau, the distribution is that of 2 nu / chi^2_{2 nu - 2}.
        with np.errstate(divide="ignore", over="ignore"):
            return self.nu / special.gammaincinv(self.nu - 1, uniforms)

    def closed_spectral_density(self, s: np.ndarray, d: int) -> np.ndarray:
        if self.nu == np.inf:
            return Gaussian().closed_spectral_density(s, d)
        # Rasmussen, Williams (2006), equation 4.15, divided by its value at zero, so that no factor overflows.
        power = self.nu + d / 2
        log_zero = d / 2 * math.log(2 * math.pi / self.nu) + special.gammaln(power) - special.gammaln(self.nu)
        return np.exp(log_zero - power * np.log1p(2 * np.square(np.pi * s) / self.nu))


@dataclass(frozen=True)
class RationalQuadratic(IsotropicKernel):
    r"""Rational quadratic kernel, a mixture of Gaussian kernels of different lengthscales.

    .. math:: k(x, y) = \Bigl(1 + \frac{\|x - y\|^2}{2 \alpha \ell^2}\Bigr)^{-\alpha}

    Parameters
    ----------
    alpha : float, default=1.0
        Shape :math:`\alpha > 0`. As it grows, the kernel tends to `Gaussian`.
    lengthscale : float or "median", default=1.0
        Scale :math:`\ell > 0`, in the units of the inputs. When a map is fitted, "median" is replaced by the median
        distance between rows.

    See Also
    --------
    Gaussian : The limit of large alpha.
    Cauchy : Product over features of 1 / (1 + (x_i - y_i)^2 / l^2).

    References
    ----------
    .. [1] Rasmussen, Williams (2006), Gaussian Processes for Machine Learning, MIT Press, section 4.2.1.

    Examples
    --------
    >>> from mercer import RationalQuadratic
    >>> RationalQuadratic(alpha=0.5)([[0.0]], [[2.0]]).round(4)
    array([[0.4472]])
    """

    largest_distance = float(np.finfo(float).max)

    alpha: float = 1.0
    lengthscale: float | Literal["median"] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive_parameters(self, "alpha")

    def closed_power(self, n: int) -> RationalQuadratic:
        return RationalQuadratic(n * self.alpha, float(self.lengthscale) / math.sqrt(n))

    def profile(self, r: np.ndarray) -> np.ndarray:
        return np.exp(-self.alpha * self._log_base(r))

    def closed_slope(self, r: np.ndarray) -> np.ndarray:
        return np.exp(-(self.alpha + 1) * self._log_base(r))

    def _log_base(self, r: np.ndarray) -> np.ndarray:
        """Return log(1 + r^2 / (2 alpha)), also where r^2 overflows."""
        # Divided before it is squared: alpha may be tiny, and the quotient of a square and alpha may overflow.
        with np.errstate(over="ignore", divide="ignore"):
            ratio = np.asarray(r, dtype=float) / math.sqrt(2 * self.alpha)
            return np.where(ratio < 1e100, np.log1p(np.square(ratio)), 2 * np.log(r) - math.log(2 * self.alpha))

    def mixing(self, uniforms: np.ndarray) -> np.ndarray:
        return special.gammaincinv(self.alpha, uniforms) / self.alpha

    def closed_mean_mixing(self) -> float:
        return 1.0

    def closed_mean_inverse_mixing(self) -> float:
        return self.alpha / (self.alpha - 1) if self.alpha > 1 else np.inf

    def closed_size_biased_mixing(self, uniforms: np.ndarray) -> np.ndarray:
        return special.gammaincinv(self.alpha + 1, uniforms) / self.alpha


def euclidean_distances(X: Rows, Y: Rows) -> np.ndarray:
    """Return the matrix of |x - y| for all rows x of `X` and y of `Y`. It is exactly zero for equal rows.

    Squared distances are |x|^2 + |y|^2 - 2 x.y, with a matrix product for x.y. Pairs for which this loses digits are
    recomputed from differences.
    """
    sparse = sp.issparse(X)
    largest = max(float(np.abs(part.data if sparse else part).max(initial=0)) for part in (X, Y))
    # Squares of values above 1e100 or below 1e-100 could overflow or underflow: measure in units of the largest value.
    unit = largest if largest > 1e100 or 0 < largest < 1e-100 else 1.0
    originals = X, Y
    X, Y = X / unit, Y / unit
    if not sparse and Y.shape[0]:
        # A shift does not change distances, but reduces norms and with them the rounding error of the matrix product.
        # The median of some rows, since a mean would be far from all rows if one of them is.
        center = np.median(Y[:: -(-Y.shape[0] // CENTERED)], axis=0)
        X, Y = X - center, Y - center
    norms = squared_norms(X)[:, None] + squared_norms(Y)
    squared = norms - 2 * inner_products(X, Y)
    rows, columns = np.nonzero(squared <= CANCELLATION * norms)
    with np.errstate(over="ignore"):
        out = np.sqrt(np.maximum(squared, 0.0)) * unit
    step = max(1, 2**21 // max(1, X.shape[1]))  # differences of one step: at most 16 MiB
    for start in range(0, len(rows), step):
        i, j = rows[start : start + step], columns[start : start + step]
        # From the original rows: shifted and scaled rows lose digits if there is an outlier.
        differences = dense64(originals[0][i] / 2 - originals[1][j] / 2)  # halves cannot overflow
        size = np.abs(differences).max(axis=1, initial=0.0)[:, None] if unit != 1 else np.ones((1, 1))
        size = np.where(size > 0, size, 1.0)
        with np.errstate(over="ignore"):
            out[i, j] = 2 * (size[:, 0] * np.sqrt(np.square(differences / size).sum(axis=1)))
    return out


def matern_bessel(x: np.ndarray, nu: float) -> np.ndarray:
    """Return 2^(1-nu) / Gamma(nu) x^nu K_nu(x) for moderate nu.

    The logarithms of the factors are added, so that no factor overflows.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        bessel = special.kve(nu, x)
        log_value = (1 - nu) * np.log(2) - special.gammaln(nu) + nu * np.log(x) + np.log(bessel) - x
    # K_nu overflows only where x is so small that the first terms of the power series are exact.
    near_zero = np.ones_like(x)
    if nu > 2:
        first = np.square(x) / (4 * (nu - 1))
        near_zero += first * (np.square(x) / (8 * (nu - 2)) - 1)
    # The kernel is at most one; rounding may give a larger value.
    return np.where(np.isfinite(bessel) & (x > 0), np.exp(np.minimum(log_value, 0)), np.where(x < 1, near_zero, 0.0))


def matern_large_nu(r: np.ndarray, nu: float) -> np.ndarray:
    """Return the profile of the Matern kernel at distances r / lengthscale, for large nu.

    It is computed by the uniform expansion of K_nu(nu z), DLMF 10.41.4, and Stirling's series of Gamma. The large terms
    of the two expansions have been canceled analytically, so that the value is accurate for every nu up to infinity,
    where it is the Gaussian profile.
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
