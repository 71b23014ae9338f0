r"""The normalized Laplacian of a graph, and its powers as sequences of sparse products.

.. math:: L = D^{-1/2} (D - W) D^{-1/2}

with the matrix of weights W and the diagonal matrix D of its row sums. If a node has no edges, its row of L is zero
(Chung 1997, Spectral graph theory), because a function cannot vary along edges that do not exist.
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
# Largest difference between W and its transpose that counts as rounding, measured by the change of an entry of L.
SYMMETRY = 1e-6
# Target error of the polynomial of a fractional power, and its largest degree, where each degree is a sparse product.
POWER_ERROR = 1e-4
MAX_DEGREE = 200
# Number of intervals of the angle on each of which the error of a power is bounded.
ANGLES = 2**16


@dataclass(frozen=True, eq=False)
class GraphLaplacian:
    """The normalized Laplacian of a graph as a sparse matrix.

    Attributes
    ----------
    matrix : csr_array of shape (n, n)
        The Laplacian, with eigenvalues in [0, 2].
    search : str
        How the edges were found: "exact", "approximate", or "given".
    bandwidth : float or None
        Bandwidth of the weights, if they are Gaussian.
    degree : ndarray of shape (n,) or None
        The sums of the weights of each node; None if they are not known.
    radii : ndarray of shape (n,) or None
        The distance of each node from the farthest of its nearest neighbors, if the edges join nearest neighbors.

    See Also
    --------
    scipy.sparse.csgraph.laplacian : The same matrix for a graph without loops.
    """

    matrix: Any
    search: str = "given"
    bandwidth: float | None = None
    degree: Array | None = None
    radii: Array | None = None

    @classmethod
    def from_weights(cls, W: Any, *, search: str = "given", bandwidth: float | None = None) -> Self:
        """Return the Laplacian of a graph with the given weights.

        Parameters
        ----------
        W : sparse matrix of shape (n, n)
            Symmetric weights >= 0; a stored zero is no edge.
        search : str, default="given"
            How the edges were found.
        bandwidth : float or None, default=None
            Bandwidth of Gaussian weights.

        Returns
        -------
        GraphLaplacian

        Raises
        ------
        DataError
            If the weights are not symmetric, finite and nonnegative.
        """
        W = checked_weights(W)
        degree = np.asarray(W.sum(axis=1)).ravel()
        if not np.isfinite(degree).all():
            raise_weights("must have finite sums", f"row {int(np.argmin(np.isfinite(degree)))} with an infinite sum")
        linked, root = degree > 0, np.sqrt(degree)
        i, j = W.tocoo().coords
        # This quotient is exactly symmetric. A product of inverse roots would overflow if all weights of two nodes are
        # tiny.
        scaled = sp.csr_array((W.data / (root[i] * root[j]), (i, j)), shape=W.shape)
        matrix = (sp.diags_array(linked.astype(float)) - scaled).tocsr()
        matrix.eliminate_zeros()
        matrix.sort_indices()
        return cls(matrix, search, bandwidth, degree)

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return self.matrix.shape[0]

    @property
    def n_edges(self) -> int:
        """Number of pairs of nodes with a positive weight."""
        return int(self.matrix.nnz - np.count_nonzero(self.matrix.diagonal())) // 2

    @property
    def n_isolated(self) -> int:
        """Number of nodes without an edge to another node."""
        return int((np.diff(self.matrix.indptr) - (self.matrix.diagonal() != 0) == 0).sum())

    @cached_property
    def n_connected_components(self) -> int:
        """Number of connected components, which is the dimension of the null space of the Laplacian."""
        return int(sp.csgraph.connected_components(self.matrix, directed=False)[0])

    def astype(self, dtype: Any) -> GraphLaplacian:
        """Return a copy with the Laplacian matrix in another dtype."""
        return replace(self, matrix=self.matrix.astype(dtype))

    def power(self, power: float) -> Array:
        """Return L^power as a dense matrix, by an eigendecomposition, which is feasible for few nodes only."""
        values, vectors = np.linalg.eigh(self.matrix.toarray())
        return (vectors * np.maximum(values, 0.0) ** power) @ vectors.T

    def root(self, power: float) -> LaplacianRoot:
        """Return the factorization L^power = R L^odd R, whose factors are applied by sparse products."""
        if float(power).is_integer():
            return LaplacianRoot(self, int(power) // 2, int(power) % 2, None, 0.0)
        coefficients, error = fractional_power(power / 2)
        # |p^2 - x^c| = |p - x^(c/2)| |p + x^(c/2)|. For small powers the error of p is concentrated near zero, where
        # both factors are small, so that the second bound is tighter.
        error = min(error * (2 * 2.0 ** (power / 2) + error), error_of_square(coefficients, power))
        return LaplacianRoot(self, 0, 0, coefficients, error)


@dataclass(frozen=True, eq=False)
class LaplacianRoot:
    """The factorization L^c = R L^odd R with a symmetric R that is an integer power of L or a polynomial in L.

    Attributes
    ----------
    laplacian : GraphLaplacian
        The Laplacian L.
    half_power : int
        The integer h such that R = L^h, if `coefficients` is None.
    odd : int
        1 if there is a factor L between the two factors R, otherwise 0.
    coefficients : ndarray or None
        Chebyshev coefficients of R on [0, 2] for fractional powers; None for integer powers.
    error : float
        Bound on the spectral norm of R L^odd R - L^c, which is zero for integer powers.
    """

    laplacian: GraphLaplacian
    half_power: int
    odd: int
    coefficients: Array | None
    error: float

    def astype(self, dtype: Any) -> LaplacianRoot:
        """Return a copy with the Laplacian matrix in another dtype."""
        return replace(self, laplacian=self.laplacian.astype(dtype))

    def __call__(self, columns: Array) -> Array:
        """Return R @ columns."""
        if self.coefficients is not None:
            return clenshaw(self.laplacian.matrix, self.coefficients, columns)
        for _ in range(self.half_power):
            columns = self.laplacian.matrix @ columns
        return columns

    def middle(self, columns: Array) -> Array:
        """Return L^odd @ columns."""
        return self.laplacian.matrix @ columns if self.odd else columns


def clenshaw(L: Any, coefficients: Array, columns: Array) -> Array:
    """Return sum_k a_k T_k(L - I) @ columns, a Chebyshev series on [0, 2], by Clenshaw's recurrence."""
    later, last = np.zeros_like(columns), np.zeros_like(columns)
    for a in coefficients[:0:-1].astype(columns.dtype):
        later, last = last, a * columns + 2 * (L @ last - last) - later
    return coefficients[0].astype(columns.dtype) * columns + (L @ last - last) - later


def fractional_power(s: float) -> tuple[Array, float]:
    r"""Return Chebyshev coefficients of a polynomial :math:`p(x) \approx x^s` on [0, 2], and a bound on its error.

    For non-integer s, the Chebyshev series of :math:`(1 + t)^s` has coefficients with the ratio
    :math:`a_{k+1} / a_k = (s - k) / (s + 1 + k)`, where t = x - 1. Their signs alternate for k > s, so the remainder of
    a partial sum of degree k > s is largest at t = -1. The function is zero there, so the error is at most the
    absolute value e of the partial sum at t = -1, which is of order :math:`k^{-2s}`. The null space of L is preserved
    only if p is exactly zero at x = 0, that is, at t = -1. Therefore p is the partial sum minus its value at t = -1
    times Fejer's kernel, a polynomial with values in [0, 1] that is 1 at t = -1 and nearly zero elsewhere. So the error
    of p is at most 2e everywhere, and far less if x is not near zero.

    Examples
    --------
    >>> coefficients, error = fractional_power(0.5)
    >>> x = np.linspace(0, 2, 1001)
    >>> gap = np.abs(np.polynomial.chebyshev.chebval(x - 1, coefficients) - np.sqrt(x)).max()
    >>> bool(gap <= error < 0.01)
    True
    """
    a = np.empty(MAX_DEGREE + 1)
    a[0] = 2.0**-s * math.exp(special.gammaln(2 * s + 1) - 2 * special.gammaln(s + 1))
    a[1] = 2 * a[0] * s / (s + 1)
    for k in range(1, MAX_DEGREE):
        a[k + 1] = a[k] * (s - k) / (s + 1 + k)
    # Values of all partial sums at t = -1, whose absolute values are their errors.
    ends = np.cumsum(a * (-1.0) ** np.arange(len(a)))
    least = math.ceil(s)
    small = least + np.flatnonzero(2 * np.abs(ends[least:]) <= POWER_ERROR)
    degree = int(small[0]) if small.size else MAX_DEGREE
    degrees = np.arange(degree + 1)
    fejer = (-1.0) ** degrees * np.where(degrees == 0, 1.0, 2.0) * (1 - degrees / (degree + 1)) / (degree + 1)
    return a[: degree + 1] - ends[degree] * fejer, float(2 * abs(ends[degree]))


def error_of_square(coefficients: Array, power: float) -> float:
    r"""Return a bound on :math:`|p(x)^2 - x^c|` for x in [0, 2] and a Chebyshev series p of degree K <= 200.

    With :math:`x = 1 + \cos\theta`, the interval is divided at equidistant angles of distance h. On each part
    :math:`x^c` is monotone, and p differs from its linear interpolant by at most :math:`h^2 K^2 \max|p| / 8`, since the
    second derivative of a trigonometric polynomial of degree K is at most :math:`K^2` times its maximum (Bernstein's
    inequality).

    Examples
    --------
    >>> coefficients, _ = fractional_power(0.25)
    >>> bool(error_of_square(coefficients, 0.5) < 0.006)
    True
    """
    x = 2 * np.square(np.cos(np.linspace(0, np.pi / 2, ANGLES + 1)))  # 1 + cos(theta) without cancellation near zero
    x[-1] = 0.0
    padded = np.zeros(ANGLES + 1)
    padded[: len(coefficients)] = coefficients / 2
    padded[0] *= 2
    values = fft.dct(padded, type=1)
    # Bound on the difference of p and its linear interpolant; the cosine bounds max|p| by the values at the angles.
    degree, step = len(coefficients) - 1, np.pi / ANGLES
    bend = np.square(step * degree) / 8 * np.abs(values).max() / np.cos(degree * step / 2)
    low, high = (choose(values[:-1], values[1:]) for choose in (np.minimum, np.maximum))
    squares = np.square(np.maximum(np.abs(low), np.abs(high)) + bend)
    least = np.square(np.maximum(np.maximum(low, -high) - bend, 0.0))
    top, bottom = x[:-1] ** power, x[1:] ** power
    return float(np.maximum(squares - bottom, top - least).max())


def checked_weights(W: Any) -> Any:
    """Return weights as a symmetric float64 CSR matrix without stored zeros; raise `DataError` for invalid weights."""
    if not sp.issparse(W):
        raise_weights("must be a SciPy sparse matrix", f"{type(W).__name__}. Try scipy.sparse.csr_array(W)")
    if len(W.shape) != 2 or W.shape[0] != W.shape[1]:
        raise_weights(
            "must be a square matrix with one row and one column for each row of the data", f"shape {W.shape}"
        )
    if W.dtype.kind not in "fiub":
        raise_weights("must be real numbers", f"dtype {W.dtype}")
    if W.nnz + W.shape[0] > np.iinfo(np.int32).max:
        raise_weights(
            "must have fewer than 2,147,483,647 entries plus rows", f"{W.nnz + W.shape[0]:,}. Drop small weights"
        )
    W = sp.csr_array(W, dtype=np.float64, copy=True)
    W.sum_duplicates()
    if not np.isfinite(W.data).all():
        raise_weights("must be finite", "NaN or infinity. Drop such edges")
    if (W.data < 0).any():
        raise_weights(
            "must be >= 0, since the Laplacian is otherwise not positive semi-definite",
            f"{W.data.min():.3g}. Drop or shift such edges",
        )
    W.eliminate_zeros()
    gap = abs(W - W.T).tocoo()
    if not gap.nnz:
        return W
    degree = np.sqrt(np.asarray(W.sum(axis=0)).ravel() + np.asarray(W.sum(axis=1)).ravel())
    share = gap.data / (degree[gap.coords[0]] * degree[gap.coords[1]])
    if share.max() > SYMMETRY:
        i, j = (int(index[share.argmax()]) for index in gap.coords)
        values = f"W[{i}, {j}] = {W[i, j]:.3g} and W[{j}, {i}] = {W[j, i]:.3g}"
        raise_weights("must be symmetric", f"{values}. Try W.maximum(W.T) or (W + W.T) / 2")
    return (W + W.T) / 2


def raise_weights(needed: str, got: str) -> None:
    """Raise `DataError` with the message that the weights of a graph do not meet a requirement."""
    msg = f"Weights of a graph {needed}, got {got}."
    raise DataError(msg)
