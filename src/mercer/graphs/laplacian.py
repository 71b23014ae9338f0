r"""The normalized Laplacian of a graph, and its powers, which are never more than sparse products.

.. math:: L = D^{-1/2} (D - W) D^{-1/2}

with weights W and their row sums D. Of a node without edges the row of L is zero (Chung 1997): it has no neighbor to
differ from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy import fft, special

from mercer.errors import DataError

__all__ = ["GraphLaplacian", "LaplacianRoot", "fractional_power"]

Array = np.ndarray
# Largest difference between W and its transpose that counts as rounding, by what it does to an entry of L.
SYMMETRY = 1e-6
# How far the polynomial of a fractional power may be off, and its largest degree: one sparse product each.
POWER_ERROR = 1e-4
MOST_DEGREES = 200
# Angles between which the error of a power is bounded.
ANGLES = 2**16


@dataclass(frozen=True, eq=False)
class GraphLaplacian:
    """The normalized Laplacian of a graph, sparse.

    Attributes
    ----------
    matrix : csr_array of shape (n, n)
        The Laplacian; eigenvalues in [0, 2].
    search : str
        How neighbors were found: "exact", "approximate", or "given".
    bandwidth : float or None
        Scale of the weights, if they are Gaussian.
    """

    matrix: Any
    search: str = "given"
    bandwidth: float | None = None

    @classmethod
    def of(cls, W: Any, *, search: str = "given", bandwidth: float | None = None) -> Self:
        """Return the Laplacian of symmetric weights >= 0, or say what is wrong with them."""
        W = checked_weights(W)
        degree = np.asarray(W.sum(axis=1)).ravel()
        if not np.isfinite(degree).all():
            raise_weights("must have finite sums", f"row {int(np.argmin(np.isfinite(degree)))} sums up to infinity")
        linked, root = degree > 0, np.sqrt(degree)
        i, j = W.tocoo().coords
        # Symmetric to the bit; a product of inverse roots would overflow where all weights of two nodes are tiny.
        scaled = sp.csr_array((W.data / (root[i] * root[j]), (i, j)), shape=W.shape)
        matrix = (sp.diags_array(linked.astype(float)) - scaled).tocsr()
        matrix.eliminate_zeros()
        matrix.sort_indices()
        return cls(matrix, search, bandwidth)

    @property
    def n_nodes(self) -> int:
        return self.matrix.shape[0]

    @property
    def n_edges(self) -> int:
        """Pairs of nodes with a weight above zero."""
        return int(self.matrix.nnz - np.count_nonzero(self.matrix.diagonal())) // 2

    @property
    def n_isolated(self) -> int:
        """Nodes without an edge to another."""
        return int((np.diff(self.matrix.indptr) - (self.matrix.diagonal() != 0) == 0).sum())

    @cached_property
    def n_parts(self) -> int:
        """Parts that no edge connects, single nodes included: the functions of no roughness have as many dimensions."""
        return int(sp.csgraph.connected_components(self.matrix, directed=False)[0])

    def astype(self, dtype: Any) -> GraphLaplacian:
        """Return the same for columns of another dtype."""
        return replace(self, matrix=self.matrix.astype(dtype))

    def power(self, power: float) -> Array:
        """Return L^power as a dense matrix, by an eigendecomposition: for few nodes, and to compare with."""
        values, vectors = np.linalg.eigh(self.matrix.toarray())
        return (vectors * np.maximum(values, 0.0) ** power) @ vectors.T

    def root(self, power: float) -> LaplacianRoot:
        """Return the factors of L^power: sparse products that never need a matrix of all pairs."""
        if float(power).is_integer():
            return LaplacianRoot(self, int(power) // 2, int(power) % 2, None, 0.0)
        coefficients, error = fractional_power(power / 2)
        # |p^2 - x^c| = |p - x^(c/2)| |p + x^(c/2)|; for small powers p is off near zero alone, where both are small.
        error = min(error * (2 * 2.0 ** (power / 2) + error), error_of_square(coefficients, power))
        return LaplacianRoot(self, 0, 0, coefficients, error)


@dataclass(frozen=True, eq=False)
class LaplacianRoot:
    """L^c as R L^odd R, with a symmetric R that is applied to columns: a whole power of L, or a polynomial.

    Attributes
    ----------
    laplacian : GraphLaplacian
        The graph.
    whole : int
        The power of L that R is, where it has no coefficients.
    odd : int
        One if there is another factor L between the two R, else zero.
    coefficients : ndarray or None
        Chebyshev coefficients of R on [0, 2], for powers that are no whole numbers.
    error : float
        Bound on the spectral norm of R L^odd R - L^c; zero for whole powers.
    """

    laplacian: GraphLaplacian
    whole: int
    odd: int
    coefficients: Array | None
    error: float

    def astype(self, dtype: Any) -> LaplacianRoot:
        """Return the same for columns of another dtype."""
        return replace(self, laplacian=self.laplacian.astype(dtype))

    def __call__(self, columns: Array) -> Array:
        """Return R times columns."""
        if self.coefficients is not None:
            return clenshaw(self.laplacian.matrix, self.coefficients, columns)
        for _ in range(self.whole):
            columns = self.laplacian.matrix @ columns
        return columns

    def middle(self, columns: Array) -> Array:
        """Return L^odd times columns."""
        return self.laplacian.matrix @ columns if self.odd else columns


def clenshaw(L: Any, coefficients: Array, columns: Array) -> Array:
    """Return a Chebyshev series on [0, 2], sum of a_k T_k(L - I), times columns."""
    later, last = np.zeros_like(columns), np.zeros_like(columns)
    for a in coefficients[:0:-1].astype(columns.dtype):
        later, last = last, a * columns + 2 * (L @ last - last) - later
    return coefficients[0].astype(columns.dtype) * columns + (L @ last - last) - later


def fractional_power(s: float) -> tuple[Array, float]:
    r"""Return Chebyshev coefficients of a polynomial near :math:`x^s` on [0, 2], zero at zero, and its largest error.

    For s that is no whole number, the series of :math:`(1 + t)^s` has coefficients of the ratio
    :math:`a_{k+1} / a_k = (s - k) / (s + 1 + k)`: of alternating signs for k > s. So the rest after such a term is
    largest at t = -1, where the function is zero: the error of the sum is its size there, e, of order
    :math:`k^{-2s}`. So that functions without roughness have none, e times a polynomial is taken off that is one at
    t = -1, and next to nothing away from there, as is the rest of the series: Fejer's kernel. It lies in [0, 1], so the
    error is nowhere above 2e, and where x is not near zero, far below.

    Examples
    --------
    >>> coefficients, error = fractional_power(0.5)
    >>> x = np.linspace(0, 2, 1001)
    >>> gap = np.abs(np.polynomial.chebyshev.chebval(x - 1, coefficients) - np.sqrt(x)).max()
    >>> bool(gap <= error < 0.01)
    True
    """
    a = np.empty(MOST_DEGREES + 1)
    a[0] = 2.0**-s * math.exp(special.gammaln(2 * s + 1) - 2 * special.gammaln(s + 1))
    a[1] = 2 * a[0] * s / (s + 1)
    for k in range(1, MOST_DEGREES):
        a[k + 1] = a[k] * (s - k) / (s + 1 + k)
    # Values at t = -1 of all partial sums: what is missing to zero is the error of each.
    ends = np.cumsum(a * (-1.0) ** np.arange(len(a)))
    least = math.ceil(s)
    small = least + np.flatnonzero(2 * np.abs(ends[least:]) <= POWER_ERROR)
    degree = int(small[0]) if small.size else MOST_DEGREES
    places = np.arange(degree + 1)
    fejer = (-1.0) ** places * np.where(places == 0, 1.0, 2.0) * (1 - places / (degree + 1)) / (degree + 1)
    return a[: degree + 1] - ends[degree] * fejer, float(2 * abs(ends[degree]))


def error_of_square(coefficients: Array, power: float) -> float:
    r"""Return a bound on :math:`|p(x)^2 - x^c|` on [0, 2] for a Chebyshev series p of at most 200 degrees.

    Between points of equal distance h in the angle, :math:`x = 1 + \cos\theta`, the power is monotone, and p is at most
    :math:`h^2 K^2 \max|p| / 8` off a straight line, since no trigonometric polynomial of degree K has a second
    derivative above :math:`K^2` times its maximum (Bernstein).

    Examples
    --------
    >>> coefficients, _ = fractional_power(0.25)
    >>> bool(error_of_square(coefficients, 0.5) < 0.006)
    True
    """
    x = 2 * np.square(np.cos(np.linspace(0, np.pi / 2, ANGLES + 1)))  # 1 + cos, to all digits near zero
    x[-1] = 0.0
    padded = np.zeros(ANGLES + 1)
    padded[: len(coefficients)] = coefficients / 2
    padded[0] *= 2
    values = fft.dct(padded, type=1)
    # A polynomial cannot rise above its values at so many more points than it has degrees by more than this.
    degree, step = len(coefficients) - 1, np.pi / ANGLES
    bend = np.square(step * degree) / 8 * np.abs(values).max() / np.cos(degree * step / 2)
    low, high = (choose(values[:-1], values[1:]) for choose in (np.minimum, np.maximum))
    squares = np.square(np.maximum(np.abs(low), np.abs(high)) + bend)
    least = np.square(np.maximum(np.maximum(low, -high) - bend, 0.0))
    top, bottom = x[:-1] ** power, x[1:] ** power
    return float(np.maximum(squares - bottom, top - least).max())


def checked_weights(W: Any) -> Any:
    """Return weights as symmetric CSR of float64 without stored zeros, or say what is wrong with them."""
    if not sp.issparse(W):
        raise_weights("must be a SciPy sparse matrix", f"{type(W).__name__}. Try scipy.sparse.csr_array(W)")
    if len(W.shape) != 2 or W.shape[0] != W.shape[1]:
        raise_weights("must be square, one row and one column for each row of the data", f"shape {W.shape}")
    if W.dtype.kind not in "fiub":
        raise_weights("must be real numbers", f"dtype {W.dtype}")
    if W.nnz + W.shape[0] > np.iinfo(np.int32).max:
        raise_weights("must be fewer than 2,147,483,647 numbers, with one more a row", f"{W.nnz:,}. Drop small weights")
    W = sp.csr_array(W, dtype=np.float64, copy=True)
    W.sum_duplicates()
    if not np.isfinite(W.data).all():
        raise_weights("must be finite", "NaN or infinity. Drop such edges")
    if (W.data < 0).any():
        raise_weights("must be >= 0, or the Laplacian is no penalty", f"{W.data.min():.3g}. Drop or shift such edges")
    W.eliminate_zeros()
    gap = abs(W - W.T).tocoo()
    if not gap.nnz:
        return W
    degree = np.sqrt(np.asarray(W.sum(axis=0)).ravel() + np.asarray(W.sum(axis=1)).ravel())
    share = gap.data / (degree[gap.coords[0]] * degree[gap.coords[1]])
    if share.max() > SYMMETRY:
        i, j = (int(place[share.argmax()]) for place in gap.coords)
        values = f"W[{i}, {j}] = {W[i, j]:.3g} and W[{j}, {i}] = {W[j, i]:.3g}"
        raise_weights("must be symmetric", f"{values}. Try W.maximum(W.T) or (W + W.T) / 2")
    return (W + W.T) / 2


def raise_weights(needed: str, got: str) -> None:
    """Raise an error about weights of a graph."""
    msg = f"Weights of a graph {needed}, got {got}."
    raise DataError(msg)
