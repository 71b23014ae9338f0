r"""Shift-invariant kernels as sums of products, and their spectral measures.

By Bochner's theorem a continuous shift-invariant kernel is the Fourier transform of a finite
non-negative measure of total mass :math:`k(0)`. Sums add such measures, products convolve them, linear
maps of the inputs push them forward. So sums, products and multiples of shift-invariant kernels, also of
transformed inputs, have the form

.. math:: k(x, y) = \sum_p m_p \prod_{f \in p} k_f(A_f x, A_f y)

with masses :math:`m_p \ge 0`, kernels :math:`k_f` with :math:`k_f(x, x) = 1` and affine input maps :math:`A_f`.
A `SpectralPart` is one term p of the sum, a `SpectralFactor` one factor f. A random frequency of part p is the
sum over f of :math:`A_f^\top w_f`, with independent :math:`w_f` from the spectral distributions of the :math:`k_f`.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.spatial.distance import pdist

from mercer.errors import DataError, ParameterError
from mercer.kernels.base import Kernel, OptionalFormula, Rows, as_rows, check_positive_parameters, dense64

__all__ = [
    "LARGEST_SCALE",
    "Affine",
    "FrozenMatrix",
    "ShiftInvariantKernel",
    "SpectralFactor",
    "SpectralPart",
    "width_of",
]

# The heaviest tails (Matern with tiny nu) have frequencies beyond the range of float32. Clipped here, they still
# separate any two points further than 1e-12 lengthscales from each other.
LARGEST_SCALE = 1e12

# Number of rows over which the median of pairwise distances is computed: with half a million pairs, its relative error
# is about one in a thousand, at a cost of milliseconds.
MEDIAN_ROWS = 1000
# Number of entries of these rows. They are converted to a dense array, so fewer rows are used if they are wide, which
# bounds the memory at 160 MB.
MEDIAN_ENTRIES = 20_000_000


class FrozenMatrix:
    """An immutable matrix of float64 that can be compared and hashed, by a digest that is computed once.

    ``np.asarray(matrix)`` is the array, which is read-only.

    Parameters
    ----------
    values : array-like of shape (d, r)
        The entries, which are copied.
    """

    __slots__ = ("_digest", "_values")

    def __init__(self, values: Any) -> None:
        self.__setstate__(np.array(values, dtype=np.float64, order="C"))

    def __getstate__(self) -> np.ndarray:
        return self._values

    def __setstate__(self, values: np.ndarray) -> None:
        values.flags.writeable = False
        self._values = values
        self._digest = hashlib.blake2b(values.tobytes(), digest_size=16).digest()

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of rows and columns."""
        return self._values.shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self._values if dtype in (None, np.float64) and not copy else self._values.astype(dtype or np.float64)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FrozenMatrix):
            return NotImplemented
        return (self.shape, self._digest) == (other.shape, other._digest)

    def __hash__(self) -> int:
        return hash((self.shape, self._digest))

    def __repr__(self) -> str:
        return f"<matrix of shape {self.shape}, {self._digest[:4].hex()}>"


# Spacing of columns that are divided by their spread, far below what a model can resolve, and far above rounding errors
# of the division, which differ between units of the columns.
SPACING = 2.0**-26


@dataclass(frozen=True)
class Affine:
    """The input map A(x) = ((x[columns] - center) / lengthscales) @ matrix. A parameter None omits its part.

    Before they are multiplied by the matrix, entries are rounded to multiples of `spacing`. What uses A as a linear
    function, such as frequencies, does not round.
    """

    columns: tuple[int, ...] | None = None
    center: tuple[float, ...] | None = None
    lengthscales: tuple[float, ...] | None = None
    matrix: FrozenMatrix | None = None
    spacing: float | None = None

    def __call__(self, X: Rows) -> np.ndarray:
        """Return the transformed rows as a dense float64 array."""
        X = dense64(X)
        if self.columns is not None:
            X = X[:, list(self.columns)]
        if self.center is not None:
            X = X - np.asarray(self.center)
        if self.lengthscales is not None:
            X = X / np.asarray(self.lengthscales)
        if self.spacing is not None:
            X = np.rint(X / self.spacing) * self.spacing
        if self.matrix is not None:
            X = X @ np.asarray(self.matrix)
        return X

    def width(self, d: int) -> int:
        """Return the number of entries of A(x), for rows x of `d` features."""
        if self.matrix is not None:
            return self.matrix.shape[1]
        return d if self.columns is None else len(self.columns)

    def pull_back(self, frequencies: np.ndarray, d: int) -> np.ndarray:
        """Return the vector v with w . A(x) = v . x + constant for all x, for each row w of `frequencies`.

        The rows x and the vectors v have `d` entries.
        """
        if self.matrix is not None:
            frequencies = frequencies @ np.asarray(self.matrix).T
        if self.lengthscales is not None:
            frequencies = frequencies / np.asarray(self.lengthscales)
        if self.columns is None:
            return frequencies
        out = np.zeros((len(frequencies), d))
        out[:, list(self.columns)] = frequencies
        return out


def width_of(inputs: tuple[Affine, ...], d: int) -> int:
    """Return the number of features that a row of `d` features has after all input maps in `inputs` are applied."""
    for affine in inputs:
        d = affine.width(d)
    return d


@dataclass(frozen=True)
class SpectralFactor:
    """The kernel k(Ax, Ay), where k is `kernel` and A applies the input maps `inputs` in sequence.

    The kernel k must be shift-invariant, with k(x, x) = 1.
    """

    kernel: ShiftInvariantKernel
    inputs: tuple[Affine, ...] = ()

    @property
    def is_diagonal(self) -> bool:
        """Whether A multiplies each feature by a number, so that no input map has a matrix."""
        return all(affine.matrix is None for affine in self.inputs)

    def width(self, d: int) -> int:
        """Return the number of features of Ax, the input of the shift-invariant kernel, for rows x of `d` features."""
        return width_of(self.inputs, d)

    def pull_back(self, frequencies: np.ndarray, d: int) -> np.ndarray:
        """Convert frequencies w for transformed rows Ax to frequencies A'w for the original rows x of `d` features."""
        widths = [d]
        for affine in self.inputs:
            widths.append(affine.width(widths[-1]))
        for affine, width in zip(reversed(self.inputs), reversed(widths[:-1]), strict=True):
            frequencies = affine.pull_back(frequencies, width)
        return frequencies

    def power(self, n: int) -> tuple[SpectralFactor, ...]:
        """Return factors whose product is the n-th power of this factor.

        The result is a single factor if the power has a closed form, else n copies of this factor.
        """
        if n == 0:
            return ()
        kernel = None if self.kernel.needs_rows else self.kernel.power(n)
        return (self,) * n if kernel is None else (replace(self, kernel=kernel),)


@dataclass(frozen=True)
class SpectralPart:
    """One term of a shift-invariant kernel: `mass` times the product of `factors`, or `mass` if `factors` is empty."""

    mass: float
    factors: tuple[SpectralFactor, ...] = ()


class ShiftInvariantKernel(Kernel):
    """Base class of kernels f(x - y) with f(0) = 1 and one lengthscale.

    A subclass is a ``@dataclass(frozen=True)`` with a field ``lengthscale: float = 1.0``, the last one by convention.
    It supplies ``_values(X, Y)`` and ``frequencies(normals, uniforms)``, which turns normal and uniform random numbers
    into samples of the spectral distribution. For a value f(0) other than one, multiply by it: ``2.0 * kernel``.

    `IsotropicKernel` and `SeparableKernel` need simpler formulas and should be preferred.

    Attributes
    ----------
    metric : str
        Name of the distance for ``lengthscale="median"``, one of those that `scipy.spatial.distance.pdist` accepts.
    closed_power : callable or None
        Optional formula for `power`. It takes n and returns the n-th power of the kernel as a kernel of the same
        family, or None if the power is not in this family.
    largest_distance : float
        Isotropic and separable kernels evaluate their profile at distances, in units of the lengthscale, up to this
        number, and at this number for larger ones. The default is 1e150. A kernel that decays like a small power of the
        distance sets it to a larger number, and its profile must not overflow there.
    """

    structure = "a shift-invariant kernel, k(x, y) = f(x - y)"
    rules = ("lengthscale",)
    metric: ClassVar[str] = "euclidean"
    closed_power: ClassVar[OptionalFormula] = None
    largest_distance: ClassVar[float] = 1e150

    # Default for kernels without a field of this name. It is not a dataclass field here, because it would then precede
    # the fields of subclasses.
    lengthscale: float | Literal["median"] = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.lengthscale, str):
            if self.lengthscale != "median":
                msg = f"{type(self).__name__}: lengthscale must be a number > 0 or 'median', got {self.lengthscale!r}."
                raise ParameterError(msg)
        elif np.ndim(self.lengthscale):
            msg = (
                f"{type(self).__name__}: lengthscale must be one finite number > 0, got {self.lengthscale!r}. "
                "For one per feature, use Transformed(kernel, lengthscales=...)."
            )
            raise ParameterError(msg)
        else:
            check_positive_parameters(self, "lengthscale")

    @abstractmethod
    def frequencies(self, normals: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
        """Return frequencies as a function of random numbers.

        If row j of `normals` is standard normal and independent of ``uniforms[j]``, then row j of the result must have
        the spectral distribution of the kernel. Rows may depend on each other in any way.

        Parameters
        ----------
        normals : ndarray of shape (n, d)
            Standard normal numbers.
        uniforms : ndarray of shape (n,)
            Uniform numbers in [0, 1).

        Returns
        -------
        ndarray of shape (n, d)
        """

    def power(self, n: int) -> ShiftInvariantKernel | None:
        """Return the n-th power of the kernel if that is a kernel of the same family, else None.

        The lengthscale must be a number.
        """
        return None if self.closed_power is None else self.closed_power(n)

    def _diagonal(self, X: Rows) -> np.ndarray:
        return np.ones(X.shape[0])

    def _spectral_form(self) -> tuple[SpectralPart, ...]:
        return (SpectralPart(1.0, (SpectralFactor(self),)),)

    def _lengthscale_columns(self, columns: np.ndarray) -> tuple[np.ndarray, ...]:
        return (columns,)

    def _apply_rules(self, X: Rows, weight: np.ndarray | None) -> dict[str, float]:
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
        return {"lengthscale": median}


def median_distance(X: np.ndarray, weight: np.ndarray | None, metric: str) -> float | None:
    """Return the median distance between different rows, or None if all rows are equal.

    The median is over all pairs of different rows, and a pair has the product of the weights of its two rows as its
    weight. Of two middle values, the lower one is returned. Pairs of equal rows are omitted, because in data with many
    duplicates the median would be zero.
    """
    largest = np.abs(X).max(initial=0.0)
    # Squares of values above 1e100 or below 1e-100 could overflow or underflow: measure in units of the largest value.
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
