r"""Kernels of rows that are >= 0, such as counts and histograms: minima, chi-squared, Jensen-Shannon, Hellinger.

Two structures serve two maps.

- A *homogeneous* kernel is a sum over columns of functions with :math:`k(cx, cy) = c\,k(x, y)`, so that
  :math:`k(x, y) = \sqrt{xy}\,K(\log y / x)`; the spectral law of K gives features of :math:`\log x`.
- A *threshold* kernel is a sum over sets of columns of products of minima, and
  :math:`\min(x, y) = \int_0^\infty 1\{t \le x\}\,1\{t \le y\}\,dt`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.errors import DataError
from mercer.kernels.base import Kernel, Rows, inner_products, tiles
from mercer.kernels.isotropic import LARGEST_SCALE

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
# Values of one strip of a tile: 256 KiB, so that sums over columns stay in cache.
STRIP = 2**15
# Ratios below this have no digits left; next to the larger value, what they stand for is nothing.
TINY = 1e-300


class HistogramKernel(Kernel):
    """A kernel of rows that are >= 0."""

    @property
    def positive_only(self) -> bool:
        return True


class HomogeneousKernel(HistogramKernel):
    """A sum over columns of one homogeneous function, zero where either value is zero and one at (1, 1)."""

    structure = "a homogeneous kernel of rows >= 0, a sum over columns with k(c x, c y) = c k(x, y)"

    @abstractmethod
    def coordinate(self, x: Array, y: Array) -> Array:
        """Return the kernel of single values, element by element."""

    @abstractmethod
    def spectral_density(self, frequencies: Array) -> Array:
        """Return the density whose Fourier transform is `signature`; its integral is one."""

    @abstractmethod
    def frequencies(self, n: int, rng: np.random.Generator) -> Array:
        """Draw from the spectral density."""

    def signature(self, lags: Array) -> Array:
        r"""Return :math:`K(\lambda) = k(e^{-\lambda/2}, e^{\lambda/2})`, so that k(x, y) = sqrt(x y) K(log y / x)."""
        half = 0.5 * np.minimum(np.abs(lags), 600.0)
        return self.coordinate(np.exp(-half), np.exp(half))

    @property
    def takes_sparse(self) -> bool:
        return True

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
        # Only columns in which both have entries count: the function of zero and anything is zero.
        left, right = canonical(X).tocsc(), canonical(Y).tocsc()
        out = np.zeros((X.shape[0], Y.shape[0]))
        with np.errstate(over="ignore"):
            for j in np.flatnonzero(np.diff(left.indptr).astype(bool) & np.diff(right.indptr).astype(bool)):
                a, b = slice(*left.indptr[j : j + 2]), slice(*right.indptr[j : j + 2])
                out[np.ix_(left.indices[a], right.indices[b])] += self.coordinate(left.data[a][:, None], right.data[b])
        return out

    def _diagonal(self, X: Rows) -> Array:
        check_non_negative(repr(self), X)
        return row_sums(self, X)  # k(x, x) = x k(1, 1)


class ThresholdKernel(HistogramKernel):
    """A sum over boxes, that is sets of columns, of the product of the minima of their columns."""

    structure = "a kernel of minima of rows >= 0"

    @abstractmethod
    def boxes(self, d: int) -> tuple[tuple[int, ...], ...]:
        """Return the sets of columns of rows of width `d`."""


@dataclass(frozen=True)
class Min(ThresholdKernel):
    r"""Min kernel of rows that are >= 0, the covariance of Brownian motion; a product over columns.

    .. math:: k(x, y) = \prod_{i=1}^{d} \min(x_i, y_i)

    For one column that is :math:`\min(x, y)`, and ``1 + Min()`` is the kernel of linear splines. The *sum* of minima
    over columns is `Intersection`; for one column the two are equal.

    See Also
    --------
    Intersection : The sum over columns.
    ThresholdFeatures : Its map.

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

    def _values(self, X: Array, Y: Array) -> Array:
        check_non_negative(repr(self), X)
        check_non_negative(repr(self), Y)
        out = np.ones((len(X), len(Y)))
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            for rows in tiles(len(X), max(1, STRIP // max(1, len(Y)))):
                for x, y in zip(X[rows].T, Y.T, strict=True):
                    out[rows] *= np.minimum(x[:, None], y)
        return checked_finite(self, out)

    def _diagonal(self, X: Array) -> Array:
        check_non_negative(repr(self), X)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            return checked_finite(self, X.prod(axis=1))


@dataclass(frozen=True)
class Intersection(HomogeneousKernel, ThresholdKernel):
    r"""Histogram intersection kernel: the sum over columns of the smaller value.

    .. math:: k(x, y) = \sum_{i=1}^{d} \min(x_i, y_i), \qquad x, y \ge 0

    See Also
    --------
    Min : The product over columns.
    ThresholdFeatures : Its map; exact up to half a step of thresholds.

    Examples
    --------
    >>> from mercer import Intersection
    >>> Intersection()([[0.5, 0.5]], [[0.25, 0.75]])
    array([[0.75]])
    """

    structure = "a sum over columns of minima of rows >= 0"

    def boxes(self, d: int) -> tuple[tuple[int, ...], ...]:
        return tuple((i,) for i in range(d))

    def coordinate(self, x: Array, y: Array) -> Array:
        return np.minimum(x, y)

    def spectral_density(self, frequencies: Array) -> Array:
        return (2 / np.pi) / (1 + 4 * np.square(frequencies))

    def frequencies(self, n: int, rng: np.random.Generator) -> Array:
        return np.clip(0.5 * rng.standard_cauchy(n), -LARGEST_SCALE, LARGEST_SCALE)


@dataclass(frozen=True)
class Chi2(HomogeneousKernel):
    r"""Additive chi-squared kernel of rows that are >= 0.

    .. math:: k(x, y) = \sum_{i=1}^{d} \frac{2 x_i y_i}{x_i + y_i}

    with 0/0 = 0. It is :math:`\tfrac12 \sum_i (x_i + y_i)` less half the chi-squared distance, which scikit-learn's
    `additive_chi2_kernel` returns with a minus.

    Examples
    --------
    >>> from mercer import Chi2
    >>> Chi2()([[0.3, 0.0]], [[0.7, 0.3]]).round(4)
    array([[0.42]])
    """

    def coordinate(self, x: Array, y: Array) -> Array:
        smaller, ratio = smaller_and_ratio(x, y)
        return 2 * (smaller / (1 + ratio))  # in this order nothing overflows

    def spectral_density(self, frequencies: Array) -> Array:
        return sech(np.pi * frequencies)

    def frequencies(self, n: int, rng: np.random.Generator) -> Array:
        return np.log(np.abs(rng.standard_cauchy(n))) / np.pi


@dataclass(frozen=True)
class JensenShannon(HomogeneousKernel):
    r"""Additive Jensen-Shannon kernel of rows that are >= 0.

    .. math:: k(x, y) = \sum_{i=1}^{d} \frac{x_i}{2} \log_2 \frac{x_i + y_i}{x_i}
        + \frac{y_i}{2} \log_2 \frac{x_i + y_i}{y_i}

    with :math:`0 \log 0 = 0`. For rows of sum one it is one less their Jensen-Shannon divergence in bits.

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

    def frequencies(self, n: int, rng: np.random.Generator) -> Array:
        # By rejection from the law of Chi2: seven in ten are kept.
        kept = np.zeros(0)
        while len(kept) < n:
            proposed = np.log(np.abs(rng.standard_cauchy(n))) / np.pi
            kept = np.append(kept, proposed[rng.random(n) * (1 + 4 * np.square(proposed)) < 1])
        return kept[:n]


@dataclass(frozen=True)
class Hellinger(HistogramKernel):
    r"""Hellinger kernel of rows that are >= 0, also called the Bhattacharyya kernel.

    .. math:: k(x, y) = \sum_{i=1}^{d} \sqrt{x_i y_i}

    Square roots are its exact features, as many as there are columns: ``np.sqrt(X)``.

    Examples
    --------
    >>> from mercer import Hellinger
    >>> Hellinger()([[4.0, 1.0]], [[1.0, 9.0]])
    array([[5.]])
    """

    structure = "an inner product of square roots: np.sqrt(X) is its exact map"

    @property
    def takes_sparse(self) -> bool:
        return True

    def _values(self, X: Rows, Y: Rows) -> Array:
        check_non_negative(repr(self), X)
        check_non_negative(repr(self), Y)
        with np.errstate(over="ignore"):
            return checked_finite(self, inner_products(np.sqrt(canonical(X)), np.sqrt(canonical(Y))))

    def _diagonal(self, X: Rows) -> Array:
        check_non_negative(repr(self), X)
        return row_sums(self, X)


def check_non_negative(owner: str, X: Rows) -> None:
    """Raise unless all values are >= 0."""
    values = canonical(X).data if sp.issparse(X) else X
    smallest = values.min(initial=0.0)
    if smallest < 0:
        msg = (
            f"{owner}: rows must be >= 0, as counts and histograms are, got {smallest:.3g}. Negative values in data "
            "have to be clipped or shifted first; Laplacian() is a kernel that takes them."
        )
        raise DataError(msg)


def smaller_and_ratio(x: Array, y: Array) -> tuple[Array, Array]:
    """Return min(x, y) and min(x, y) / max(x, y), the latter in (0, 1]."""
    smaller, larger = np.minimum(x, y), np.maximum(x, y)
    with np.errstate(under="ignore"):
        return smaller, np.maximum(smaller / np.maximum(larger, TINY), TINY)


def sech(t: Array) -> Array:
    """Return 1 / cosh without overflow."""
    with np.errstate(under="ignore"):
        decay = np.exp(-np.abs(t))
        return 2 * decay / (1 + np.square(decay))


def canonical(X: Rows) -> Rows:
    """Return CSR rows in which no entry stands twice, and other rows as they are; never writes to its input."""
    if sp.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def row_sums(kernel: Kernel, X: Rows) -> Array:
    """Return the sum of each row, sparse or dense."""
    with np.errstate(over="ignore"):
        return checked_finite(kernel, np.asarray(X.sum(axis=1)).ravel())


def checked_finite(kernel: Kernel, values: Array) -> Array:
    """Return the values, or say that they overflow."""
    if not np.isfinite(values).all():
        msg = f"{kernel!r}: the kernel overflows on these rows. Scale them down, for example to sum one."
        raise DataError(msg)
    return values
