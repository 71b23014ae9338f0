r"""Kernels of rows >= 0, such as counts and histograms: minima, chi-squared, Jensen-Shannon, Hellinger.

Two classes of these kernels have feature maps of their own.

- A *homogeneous* kernel is a sum over features of functions with :math:`k(cx, cy) = c\,k(x, y)`, so that
  :math:`k(x, y) = \sqrt{xy}\,K(\log y - \log x)`; the spectral distribution of K gives features of :math:`\log x`.
- A *threshold* kernel is a sum of products of minima, each product over a set of features called a *box*. Random
  thresholds t give features, because :math:`\min(x, y) = \int_0^\infty 1\{t \le x\}\,1\{t \le y\}\,dt`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from mercer.errors import DataError, ParameterError
from mercer.kernels.base import Kernel, OptionalFormula, Rows, inner_products, tiles
from mercer.kernels.quadrature import UnitDensity
from mercer.kernels.spectral import LARGEST_SCALE

__all__ = [
    "Chi2",
    "Hellinger",
    "HomogeneousKernel",
    "Intersection",
    "JensenShannon",
    "Min",
    "ThresholdKernel",
    "check_non_negative",
]

Array = np.ndarray
# Number of kernel values that are computed at once: 256 KiB, so that their sums over features stay in cache.
STRIP = 2**15
# Lower bound for ratios min / max, since smaller ratios may be subnormal numbers. At this ratio the smaller value is
# negligible compared with the larger one.
TINY = 1e-300


class HomogeneousKernel(Kernel):
    r"""Base class of homogeneous kernels, sums over features of kappa(x_i, y_i), for rows >= 0.

    .. math:: k(x, y) = \sum_{i=1}^{d} \kappa(x_i, y_i), \qquad \kappa(cx, cy) = c\, \kappa(x, y), \quad
        \kappa(x, 0) = 0, \quad \kappa(1, 1) = 1

    Then :math:`\kappa(x, y) = \sqrt{xy}\, K(\log y - \log x)` with a positive definite function K, the signature [1]_.

    A subclass is a ``@dataclass(frozen=True)`` that supplies two formulas, ``coordinate(x, y)``, which is
    :math:`\kappa`, and ``spectral_density(w)``, the density whose Fourier transform is K. A subclass may define
    ``closed_frequencies(n, rng)``, which returns n samples of that density; otherwise the density is sampled by
    numerical inversion of its distribution function. `mercer.testing.check_kernel` compares the formulas.

    References
    ----------
    .. [1] Vedaldi, Zisserman (2012), Efficient Additive Kernels via Explicit Feature Maps, IEEE TPAMI 34, 480-492.
    """

    structure = "a homogeneous kernel of rows >= 0, a sum over features with k(c x, c y) = c k(x, y)"
    sparse_formulas = True
    non_negative = True
    #: Optional formula (n, rng) -> ndarray for `frequencies`.
    closed_frequencies: ClassVar[OptionalFormula] = None

    @abstractmethod
    def coordinate(self, x: Array, y: Array) -> Array:
        """Return kappa(x, y), the kernel of a single feature, elementwise for arrays that broadcast."""

    @abstractmethod
    def spectral_density(self, frequencies: Array) -> Array:
        """Return the probability density whose Fourier transform is `signature`. It is symmetric around zero."""

    def frequencies(self, n: int, rng: np.random.Generator) -> Array:
        """Return `n` independent samples from the spectral density."""
        if self.closed_frequencies is not None:
            return self.closed_frequencies(n, rng)
        distances, right = half_density(self).quantiles(rng.random(n))
        with np.errstate(divide="ignore"):
            sizes = np.where(right, (1 - distances) / distances, distances / (1 - distances))
        return np.minimum(sizes, LARGEST_SCALE) * rng.choice([-1.0, 1.0], n)

    def signature(self, lags: Array) -> Array:
        r"""Return :math:`K(\lambda) = \kappa(e^{-\lambda/2}, e^{\lambda/2})` for each :math:`\lambda` in `lags`.

        Here :math:`\lambda = \log y - \log x`, so that :math:`\kappa(x, y) = \sqrt{xy}\, K(\lambda)`.
        """
        half = 0.5 * np.minimum(np.abs(lags), 600.0)
        return self.coordinate(np.exp(-half), np.exp(half))

    def _values(self, X: Rows, Y: Rows) -> Array:
        check_non_negative(repr(self), X)
        check_non_negative(repr(self), Y)
        if sp.issparse(X) and sp.issparse(Y):
            return checked_finite(self, self._sparse_values(X, Y))
        out = np.zeros((X.shape[0], Y.shape[0]))
        with np.errstate(over="ignore"):
            for rows in tiles(X.shape[0], max(1, STRIP // max(1, Y.shape[0]))):
                for x, y in zip(X[rows].T, Y.T, strict=True):
                    out[rows] += self.coordinate(x[:, None], y)
        return checked_finite(self, out)

    def _sparse_values(self, X: Any, Y: Any) -> Array:
        # Only features with non-zero entries in both X and Y contribute, because kappa(x, 0) = 0.
        left, right = canonical(X).tocsc(), canonical(Y).tocsc()
        out = np.zeros((X.shape[0], Y.shape[0]))
        with np.errstate(over="ignore"):
            for j in np.flatnonzero(np.diff(left.indptr).astype(bool) & np.diff(right.indptr).astype(bool)):
                a, b = slice(*left.indptr[j : j + 2]), slice(*right.indptr[j : j + 2])
                out[np.ix_(left.indices[a], right.indices[b])] += self.coordinate(left.data[a][:, None], right.data[b])
        return out

    def _diagonal(self, X: Rows) -> Array:
        check_non_negative(repr(self), X)
        return row_sums(self, X)  # kappa(x, x) = x kappa(1, 1) = x


@lru_cache(maxsize=64)
def half_density(kernel: HomogeneousKernel) -> UnitDensity:
    """Return the spectral density p(w) of frequencies w >= 0 as a density of x = w / (1 + w) in (0, 1).

    The density of x is p(x / (1 - x)) / (1 - x)^2. Its integral is 1/2, because p is symmetric around zero.
    """

    def density(x: Array) -> Array:
        with np.errstate(divide="ignore"):
            return kernel.spectral_density(x / (1 - x)) / np.square(1 - x)

    try:
        return UnitDensity.of(density)
    except ValueError as error:
        msg = f"{kernel!r}: spectral_density(w) must return {error}."
        raise ParameterError(msg) from error


class ThresholdKernel(Kernel):
    r"""Base class of kernels of rows >= 0 that are sums of products of minima.

    .. math:: k(x, y) = \sum_{B} \prod_{i \in B} \min(x_i, y_i)

    A subclass is a ``@dataclass(frozen=True)`` that supplies one formula, ``boxes(d)``, the sets B of features (called
    boxes) for rows of d features.
    """

    structure = "a kernel of minima of rows >= 0"
    non_negative = True

    @abstractmethod
    def boxes(self, d: int) -> tuple[tuple[int, ...], ...]:
        """Return the sets B of features whose minima are multiplied, as tuples of indices, for rows of `d` features."""

    def _values(self, X: Array, Y: Array) -> Array:
        check_non_negative(repr(self), X)
        check_non_negative(repr(self), Y)
        out = np.zeros((len(X), len(Y)))
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            for rows in tiles(len(X), max(1, STRIP // max(1, len(Y)))):
                for box in self.boxes(X.shape[1]):
                    product = np.ones((len(X[rows]), len(Y)))
                    for i in box:
                        product *= np.minimum(X[rows, i, None], Y[:, i])
                    out[rows] += product
        return checked_finite(self, out)

    def _diagonal(self, X: Array) -> Array:
        check_non_negative(repr(self), X)
        out = np.zeros(len(X))
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            for box in self.boxes(X.shape[1]):
                out += X[:, list(box)].prod(axis=1)
        return checked_finite(self, out)


@dataclass(frozen=True)
class Min(ThresholdKernel):
    r"""Min kernel, a product over features of min(x_i, y_i), for rows >= 0.

    .. math:: k(x, y) = \prod_{i=1}^{d} \min(x_i, y_i)

    For one feature this is :math:`\min(x, y)`, the covariance of Brownian motion, and ``1 + Min()`` is the kernel of
    linear splines. The *sum* of minima over features is `Intersection`, which for one feature equals `Min`.

    See Also
    --------
    Intersection : The sum over features.
    ThresholdFeatures : Features of this kernel.

    Examples
    --------
    >>> from mercer import Min
    >>> Min()([[1.5], [0.25]])
    array([[1.5 , 0.25],
           [0.25, 0.25]])
    >>> (1 + Min())([[2.0, 3.0]], [[1.0, 5.0]])
    array([[4.]])
    """

    def boxes(self, d: int) -> tuple[tuple[int, ...], ...]:
        return (tuple(range(d)),)


@dataclass(frozen=True)
class Intersection(HomogeneousKernel, ThresholdKernel):
    r"""Histogram intersection kernel, a sum over features of minima.

    .. math:: k(x, y) = \sum_{i=1}^{d} \min(x_i, y_i), \qquad x, y \ge 0

    See Also
    --------
    Min : The product over features.
    ThresholdFeatures, HomogeneousFeatures : Features of this kernel.

    References
    ----------
    .. [1] Maji, Berg, Malik (2013), Efficient Classification for Additive Kernel SVMs, IEEE TPAMI 35, 66-77.

    Examples
    --------
    >>> from mercer import Intersection
    >>> Intersection()([[0.5, 0.5]], [[0.25, 0.75]])
    array([[0.75]])
    """

    structure = "a sum over features of minima of rows >= 0"

    def boxes(self, d: int) -> tuple[tuple[int, ...], ...]:
        return tuple((i,) for i in range(d))

    def coordinate(self, x: Array, y: Array) -> Array:
        return np.minimum(x, y)

    def spectral_density(self, frequencies: Array) -> Array:
        return (2 / np.pi) / (1 + 4 * np.square(frequencies))

    def closed_frequencies(self, n: int, rng: np.random.Generator) -> Array:
        return np.clip(0.5 * rng.standard_cauchy(n), -LARGEST_SCALE, LARGEST_SCALE)


@dataclass(frozen=True)
class Chi2(HomogeneousKernel):
    r"""Additive chi-squared kernel of rows >= 0.

    .. math:: k(x, y) = \sum_{i=1}^{d} \frac{2 x_i y_i}{x_i + y_i}

    with 0/0 = 0. It equals :math:`\tfrac12 \sum_i (x_i + y_i) - \tfrac12 \chi^2(x, y)` with the chi-squared distance
    :math:`\chi^2(x, y) = \sum_i (x_i - y_i)^2 / (x_i + y_i)`, which is ``-additive_chi2_kernel`` in scikit-learn.

    See Also
    --------
    HomogeneousFeatures : Features of this kernel.

    References
    ----------
    .. [1] Vedaldi, Zisserman (2012), Efficient Additive Kernels via Explicit Feature Maps, IEEE TPAMI 34, 480-492.

    Examples
    --------
    >>> from mercer import Chi2
    >>> Chi2()([[0.3, 0.0]], [[0.7, 0.3]]).round(4)
    array([[0.42]])
    """

    def coordinate(self, x: Array, y: Array) -> Array:
        smaller, ratio = smaller_and_ratio(x, y)
        return 2 * (smaller / (1 + ratio))  # this order does not overflow

    def spectral_density(self, frequencies: Array) -> Array:
        return sech(np.pi * frequencies)

    def closed_frequencies(self, n: int, rng: np.random.Generator) -> Array:
        return np.log(np.abs(rng.standard_cauchy(n))) / np.pi


@dataclass(frozen=True)
class JensenShannon(HomogeneousKernel):
    r"""Additive Jensen-Shannon kernel of rows >= 0.

    .. math:: k(x, y) = \sum_{i=1}^{d} \frac{x_i}{2} \log_2 \frac{x_i + y_i}{x_i}
        + \frac{y_i}{2} \log_2 \frac{x_i + y_i}{y_i}

    with :math:`0 \log 0 = 0`. If the entries of x and of y sum to 1, then k(x, y) is 1 minus the Jensen-Shannon
    divergence of x and y in bits.

    See Also
    --------
    HomogeneousFeatures : Features of this kernel.

    References
    ----------
    .. [1] Vedaldi, Zisserman (2012), Efficient Additive Kernels via Explicit Feature Maps, IEEE TPAMI 34, 480-492.

    Examples
    --------
    >>> from mercer import JensenShannon
    >>> JensenShannon()([[0.5, 0.5]], [[0.5, 0.5], [1.0, 0.0]]).round(4)
    array([[1.    , 0.6887]])
    """

    def coordinate(self, x: Array, y: Array) -> Array:
        smaller, ratio = smaller_and_ratio(x, y)
        log = np.log1p(ratio)
        return smaller * (0.5 / np.log(2) * (log / ratio + log - np.log(ratio)))

    def spectral_density(self, frequencies: Array) -> Array:
        return (2 / np.log(4)) * sech(np.pi * frequencies) / (1 + 4 * np.square(frequencies))

    def closed_frequencies(self, n: int, rng: np.random.Generator) -> Array:
        # Rejection sampling with the frequencies of Chi2 as proposals; seven in ten are accepted.
        accepted = np.zeros(0)
        while len(accepted) < n:
            proposed = np.log(np.abs(rng.standard_cauchy(n))) / np.pi
            accepted = np.append(accepted, proposed[rng.random(n) * (1 + 4 * np.square(proposed)) < 1])
        return accepted[:n]


@dataclass(frozen=True)
class Hellinger(Kernel):
    r"""Hellinger kernel of rows >= 0, also called the Bhattacharyya kernel.

    .. math:: k(x, y) = \sum_{i=1}^{d} \sqrt{x_i y_i}

    Its exact features are the square roots, ``np.sqrt(X)``.

    Examples
    --------
    >>> from mercer import Hellinger
    >>> Hellinger()([[4.0, 1.0]], [[1.0, 9.0]])
    array([[5.]])
    """

    structure = "an inner product of square roots, whose exact features are np.sqrt(X)"
    sparse_formulas = True
    non_negative = True

    def _values(self, X: Rows, Y: Rows) -> Array:
        check_non_negative(repr(self), X)
        check_non_negative(repr(self), Y)
        with np.errstate(over="ignore"):
            return checked_finite(self, inner_products(np.sqrt(canonical(X)), np.sqrt(canonical(Y))))

    def _diagonal(self, X: Rows) -> Array:
        check_non_negative(repr(self), X)
        return row_sums(self, X)


def check_non_negative(owner: str, X: Rows) -> None:
    """Raise DataError unless all entries of `X` are >= 0. The error message begins with `owner`."""
    values = canonical(X).data if sp.issparse(X) else X
    smallest = values.min(initial=0.0)
    if smallest < 0:
        # Scikit-learn's checks of estimators look for "Negative values in data".
        msg = (
            f"{owner}: rows must be >= 0, as counts and histograms are, got {smallest:.3g}. Negative values in data "
            "must be clipped or shifted first; Laplacian() is a kernel that takes them."
        )
        raise DataError(msg)


def smaller_and_ratio(x: Array, y: Array) -> tuple[Array, Array]:
    """Return min(x, y) and the ratio min(x, y) / max(x, y) in (0, 1], elementwise."""
    smaller, larger = np.minimum(x, y), np.maximum(x, y)
    with np.errstate(under="ignore"):
        return smaller, np.maximum(smaller / np.maximum(larger, TINY), TINY)


def sech(t: Array) -> Array:
    """Return 1 / cosh(t) without overflow."""
    with np.errstate(under="ignore"):
        decay = np.exp(-np.abs(t))
        return 2 * decay / (1 + np.square(decay))


def canonical(X: Rows) -> Rows:
    """Return a CSR matrix without duplicate entries, or a dense array as it is. The input is not changed."""
    if sp.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def row_sums(kernel: Kernel, X: Rows) -> Array:
    """Return the sum of each row of `X`, sparse or dense, or raise DataError if a sum overflows."""
    with np.errstate(over="ignore"):
        return checked_finite(kernel, np.asarray(X.sum(axis=1)).ravel())


def checked_finite(kernel: Kernel, values: Array) -> Array:
    """Return the kernel values unchanged, or raise DataError if any of them is not finite."""
    if not np.isfinite(values).all():
        msg = f"{kernel!r}: the kernel overflows on these rows. Scale them down, for example to sum one."
        raise DataError(msg)
    return values
