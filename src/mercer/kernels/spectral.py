r"""The spectral measure of a shift-invariant kernel, in normal form.

By Bochner's theorem a continuous shift-invariant kernel is the Fourier transform of a finite
non-negative measure of total mass :math:`k(0)`. Sums add such measures, products convolve them, linear
maps of the inputs push them forward. So every kernel built by the algebra from shift-invariant ones is

.. math:: k(x, y) = \sum_p m_p \prod_{f \in p} k_f(A_f x, A_f y)

with masses :math:`m_p \ge 0`, kernels :math:`k_f` of mass one and affine input maps :math:`A_f`. A
frequency of part p is the sum of :math:`A_f^\top w_f` with independent :math:`w_f` from :math:`k_f`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
from scipy.spatial.distance import pdist

from mercer.errors import DataError, ParameterError
from mercer.kernels.base import Kernel, Rows, as_rows, check_positive, dense64

__all__ = ["Affine", "ShiftInvariantKernel", "SpectralFactor", "SpectralPart", "width_of"]

# Rows that a median of pairwise distances is taken over: half a million pairs put its relative error
# near one in a thousand, at a cost of milliseconds.
MEDIAN_ROWS = 1000
# Wide sparse rows are made dense for it: fewer of them, to bound the memory at 160 MB.
MEDIAN_ENTRIES = 20_000_000


@dataclass(frozen=True)
class Affine:
    """The input map x -> (x[columns] - center) / lengthscales; None leaves a step out."""

    columns: tuple[int, ...] | None = None
    center: tuple[float, ...] | None = None
    lengthscales: tuple[float, ...] | None = None

    def __call__(self, X: Rows) -> np.ndarray:
        """Apply to a small tile of rows."""
        X = dense64(X)
        if self.columns is not None:
            X = X[:, list(self.columns)]
        if self.center is not None:
            X = X - np.asarray(self.center)
        if self.lengthscales is not None:
            X = X / np.asarray(self.lengthscales)
        return X

    def width(self, d: int) -> int:
        """Return the number of columns that come out of rows of width `d`."""
        return d if self.columns is None else len(self.columns)

    def pull_back(self, frequencies: np.ndarray, d: int) -> np.ndarray:
        """Return frequencies on the original columns: w' A x = (pulled back w)' x up to a phase."""
        if self.lengthscales is not None:
            frequencies = frequencies / np.asarray(self.lengthscales)
        if self.columns is None:
            return frequencies
        out = np.zeros((len(frequencies), d))
        out[:, list(self.columns)] = frequencies
        return out


def width_of(inputs: tuple[Affine, ...], d: int) -> int:
    """Return the number of columns that come out of a chain of input maps, for rows of width `d`."""
    for affine in inputs:
        d = affine.width(d)
    return d


@dataclass(frozen=True)
class SpectralFactor:
    """A shift-invariant kernel of mass one and the chain of input maps in front of it."""

    kernel: ShiftInvariantKernel
    inputs: tuple[Affine, ...] = ()

    def width(self, d: int) -> int:
        """Return the width of the rows that the kernel itself sees."""
        return width_of(self.inputs, d)

    def pull_back(self, frequencies: np.ndarray, d: int) -> np.ndarray:
        """Return frequencies of the kernel as frequencies on rows of width `d`."""
        widths = [d]
        for affine in self.inputs:
            widths.append(affine.width(widths[-1]))
        for affine, width in zip(reversed(self.inputs), reversed(widths[:-1]), strict=True):
            frequencies = affine.pull_back(frequencies, width)
        return frequencies

    def power(self, n: int) -> tuple[SpectralFactor, ...]:
        """Return factors whose product is the n-th power of this one: a single one if its kernel knows the law."""
        if n == 0:
            return ()
        kernel = None if self.kernel.needs_rows else self.kernel.power(n)
        return (self,) * n if kernel is None else (replace(self, kernel=kernel),)


@dataclass(frozen=True)
class SpectralPart:
    """One product of the normal form; no factors means a constant."""

    mass: float
    factors: tuple[SpectralFactor, ...] = ()


class ShiftInvariantKernel(Kernel):
    """A kernel k(x - y) of mass k(0) = 1 with one scalar lengthscale.

    The lengthscale is a field of each concrete kernel, not of this class: so it stands last in their
    constructors, behind the shape parameters.
    """

    structure = "a shift-invariant kernel, k(x, y) = f(x - y)"
    #: The metric of `lengthscale="median"`, a name that scipy's pdist knows.
    metric = "euclidean"

    lengthscale: float | Literal["median"]

    def __post_init__(self) -> None:
        if isinstance(self.lengthscale, str):
            if self.lengthscale != "median":
                msg = f"{type(self).__name__}: lengthscale must be a number > 0 or 'median', got {self.lengthscale!r}."
                raise ParameterError(msg)
        elif np.ndim(self.lengthscale):
            msg = (
                f"{type(self).__name__}: lengthscale must be one finite number > 0, got {self.lengthscale!r}. "
                "For one a column, use Transformed(kernel, lengthscales=...)."
            )
            raise ParameterError(msg)
        else:
            check_positive(self, "lengthscale")

    @abstractmethod
    def frequencies(self, normals: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
        """Return frequencies as a function of standard normal rows and of one uniform number a row.

        If row j of `normals` is N(0, I) and independent of ``uniforms[j]``, then row j of the result has
        the spectral law. Rows may be coupled with each other in any way.
        """

    def power(self, n: int) -> ShiftInvariantKernel | None:  # noqa: ARG002
        """Return the n-th power of this kernel, of a known lengthscale, where it is of the same family; else None."""
        return None

    def _diagonal(self, X: Rows) -> np.ndarray:
        return np.ones(X.shape[0])

    def spectral_parts(self) -> tuple[SpectralPart, ...]:
        return (SpectralPart(1.0, (SpectralFactor(self),)),)

    @property
    def needs_rows(self) -> bool:
        return self.lengthscale == "median"

    def resolve(self, X: Rows, weight: np.ndarray | None = None) -> Self:
        if not self.needs_rows:
            return self
        X = as_rows(self, X)
        most = min(MEDIAN_ROWS, max(100, MEDIAN_ENTRIES // max(1, X.shape[1])))
        if X.shape[0] > most:
            chosen = np.sort(np.random.default_rng(0).choice(X.shape[0], most, replace=False))
            X, weight = X[chosen], None if weight is None else weight[chosen]
        median = median_distance(dense64(X), weight, self.metric)
        if median is None:
            n = X.shape[0]
            msg = (
                f"{self!r} needs at least two different rows to take a median distance, got n_samples={n} "
                f"{'row' if n == 1 else 'equal rows'}. Give lengthscale as a number."
            )
            raise DataError(msg)
        return self.with_params(lengthscale=median)


def median_distance(X: np.ndarray, weight: np.ndarray | None, metric: str) -> float | None:
    """Return the (lower) median distance of pairs of different rows, or None if there is no such pair.

    Equal rows do not count: in data with many repeats they would drag the median to zero.
    """
    largest = np.abs(X).max(initial=0.0)
    # Squares of huge or tiny values would overflow or vanish.
    unit = largest if largest > 1e100 or 0 < largest < 1e-100 else 1.0
    distances = pdist(X / unit, metric) * unit if len(X) > 1 else np.zeros(0)
    pair_weight = np.ones(len(distances))
    if weight is not None and len(X) > 1:
        i, j = np.triu_indices(len(X), 1)
        pair_weight = weight[i] * weight[j]
    counted = (distances > 0) & (pair_weight > 0)
    if not counted.any():
        return None
    distances, pair_weight = distances[counted], pair_weight[counted]
    order = np.argsort(distances, kind="stable")
    total = np.cumsum(pair_weight[order])
    return float(distances[order[np.searchsorted(total, 0.5 * total[-1])]])
