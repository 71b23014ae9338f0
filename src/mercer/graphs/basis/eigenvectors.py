r"""The smoothest eigenvectors of a normalized Laplacian, by subspace iteration with Chebyshev filters.

A polynomial of the Laplacian that is small on the unwanted part of the spectrum and large on the wanted part is applied
to a block of vectors, which is then made orthonormal and rotated to Ritz vectors [1]_. Only sparse products with the
Laplacian are needed, a few vectors at a time, so that the memory is that of the block. The null space is known from the
connected components and is not iterated on.

.. [1] Zhou, Saad, Tiago, Chelikowsky (2006), Self-consistent-field calculations using Chebyshev-filtered subspace
   iteration, Journal of Computational Physics.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from mercer.engines import Report, Workers, report_step
from mercer.engines.base import workers
from mercer.errors import MercerWarning
from mercer.graphs.laplacian import GraphLaplacian
from mercer.linalg import sparse_product

__all__ = ["Eigenvectors", "null_space", "smoothest_eigenvectors"]

Array = np.ndarray
# Up to this number of nodes, and where more than this fraction of all eigenvectors is wanted, the Laplacian is
# decomposed as a dense matrix, which takes less time than the iteration.
DENSE_NODES = 2500
DENSE_FRACTION = 0.2
# Largest number of nodes of a dense matrix, which then takes 2 GiB.
MOST_DENSE_NODES = 16_000
# Vectors of the block beyond those that are wanted: a fraction of these, and at least so many. The gap between the last
# wanted eigenvalue and the last one of the block determines the degree of the filter.
EXTRA_FRACTION = 0.15
LEAST_EXTRA = 12
# Smallest and largest degree of a filter, and the largest reduction of unwanted vectors that a filter aims at. It aims
# at more than the tolerance needs, by this factor.
LEAST_DEGREE = 8
MOST_DEGREE = 120
MOST_REDUCTION = 1e4
MORE = 10.0
# Rounding error, relative to what the last wanted vector retains of a filtered vector. Filters magnify the smoothest
# vector the most, and all other directions would be lost if the degree were larger.
MOST_ROUNDING = 0.01
MOST_ITERATIONS = 30
# Number of columns that are multiplied by the Laplacian together, and of rows per task of one thread.
PANEL_COLUMNS = 32
TASK_ROWS = 4096
BLOCK_ROWS = 8192
# Random vectors and steps of Lanczos' iteration by which the number of eigenvalues below a bound is estimated.
DENSITY_VECTORS = 6
DENSITY_STEPS = 60


@dataclass(frozen=True, eq=False)
class Eigenvectors:
    """Some eigenvectors of a Laplacian.

    Attributes
    ----------
    values : ndarray of shape (k,)
        The eigenvalues in [0, 2]: those of the null space first, then in ascending order, and those of nodes without
        an edge last.
    vectors : ndarray of shape (n, k)
        Orthonormal eigenvectors.
    residual : float
        Largest norm of L v - value v.
    next_value : float
        Estimate of the smallest eigenvalue that is left out; infinity if none is.
    """

    values: Array
    vectors: Array
    residual: float
    next_value: float


def smoothest_eigenvectors(
    laplacian: GraphLaplacian,
    count: int,
    *,
    tol: float = 1e-4,
    seed: int = 0,
    dtype: Any = np.float64,
    n_jobs: int | None = None,
    report: Report | None = None,
) -> Eigenvectors:
    """Return the eigenvectors of the smallest eigenvalues of a Laplacian.

    Parameters
    ----------
    laplacian : GraphLaplacian
        The Laplacian L of n nodes.
    count : int
        Number of eigenvectors, at most n.
    tol : float, default=1e-4
        Largest norm of the residual L v - value v of an eigenvector v, at which the iteration ends. The error of an
        eigenvalue is at most this, and for separated eigenvalues of the order of its square.
    seed : int, default=0
        Seed of the first vectors.
    dtype : dtype, default=float64
        Type of the vectors during the iteration, float32 or float64.
    n_jobs : int or None, default=None
        Number of threads; None means all cores. The result does not depend on it.
    report : callable or None, default=None
        Receives the progress.

    Returns
    -------
    Eigenvectors

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> from mercer.graphs import GraphLaplacian
    >>> ring = sp.diags_array([1.0, 1.0], offsets=[1, -1], shape=(3000, 3000)).tolil()
    >>> ring[0, -1] = ring[-1, 0] = 1.0
    >>> found = smoothest_eigenvectors(GraphLaplacian.from_weights(ring.tocsr()), 5, tol=1e-7)
    >>> exact = 1 - np.cos(2 * np.pi * np.array([0, 1, 1, 2, 2]) / 3000)
    >>> bool(abs(found.values - exact).max() < 1e-9)
    True
    """
    n, L = laplacian.n_nodes, laplacian.matrix
    isolated = np.diff(L.indptr) == 0
    linked = np.flatnonzero(~isolated)
    inner = min(count, len(linked))
    alone = np.flatnonzero(isolated)[: count - inner]
    if len(linked) < n:
        L = L[linked][:, linked].tocsr()
    degree = None if laplacian.degree is None else laplacian.degree[linked]
    with workers(n_jobs) as team:
        found = _of_linked(L, degree, inner, _Options(tol, seed, np.dtype(dtype)), team, report)
    if len(linked) == n:
        return found
    vectors = np.zeros((n, count), found.vectors.dtype)
    vectors[linked, :inner] = found.vectors
    vectors[alone, inner + np.arange(len(alone))] = 1.0
    left_out = found.next_value if inner < len(linked) else (0.0 if inner + len(alone) < n else np.inf)
    return Eigenvectors(np.concatenate([found.values, np.zeros(len(alone))]), vectors, found.residual, left_out)


def null_space(L: Any, degree: Array, count: int) -> Array:
    """Return orthonormal vectors (n, c) with L v = 0, one for each of the largest connected components, c <= count.

    Every node must have an edge. The vectors are the square roots of the degrees in one component, and zero elsewhere.
    Among components of equal size, the one with the first node comes first.
    """
    n_components, component = sp.csgraph.connected_components(L, directed=False)
    largest = np.argsort(-np.bincount(component, minlength=n_components), kind="stable")[:count]
    position = np.full(n_components, -1)
    position[largest] = np.arange(len(largest))
    rows = np.flatnonzero(position[component] >= 0)
    vectors = np.zeros((L.shape[0], len(largest)))
    vectors[rows, position[component[rows]]] = np.sqrt(degree[rows])
    return vectors / np.linalg.norm(vectors, axis=0)


def _of_linked(
    L: Any, degree: Array | None, count: int, options: _Options, team: Workers, report: Report | None
) -> Eigenvectors:
    """Return the smoothest eigenvectors of a graph in which every node has an edge."""
    n = L.shape[0]
    null = np.zeros((n, 0)) if degree is None else null_space(L, degree, count)
    c = null.shape[1]
    if c == count:
        return Eigenvectors(np.zeros(c), null.astype(options.dtype), 0.0, np.inf if c == n else 0.0)
    if n <= DENSE_NODES or (count > DENSE_FRACTION * n and n <= MOST_DENSE_NODES):
        return _dense(L, null, count)
    return _Iteration(L, null, count, options, team, report).run()


def _dense(L: Any, null: Array, count: int) -> Eigenvectors:
    """Return the smoothest eigenvectors by a decomposition of the dense matrix."""
    n, c = L.shape[0], null.shape[1]
    # The null space is moved to the other end of the spectrum, so that exactly the given vectors span it.
    A = L.toarray() + 3.0 * (null @ null.T)
    values, vectors = scipy.linalg.eigh(A, subset_by_index=[0, min(count - c, n - 1)], overwrite_a=True)
    rest = slice(0, count - c)
    left_out = float(values[count - c]) if count < n else np.inf
    values = np.concatenate([np.zeros(c), np.clip(values[rest], 0.0, 2.0)])
    vectors = np.concatenate([null, vectors[:, rest]], axis=1)
    residual = np.linalg.norm(L @ vectors - vectors * values, axis=0).max(initial=0.0)
    return Eigenvectors(values, vectors, float(residual), left_out)


@dataclass(frozen=True)
class _Options:
    """Parameters of the iteration."""

    tol: float
    seed: int
    dtype: np.dtype


class _Iteration:
    """Subspace iteration with Chebyshev filters, orthogonal to the null space."""

    def __init__(
        self, L: Any, null: Array, count: int, options: _Options, team: Workers, report: Report | None
    ) -> None:
        self.n = L.shape[0]
        # Neighbors get near positions, so that the rows that a product reads are in the cache: 2.4 times as fast for
        # 60,000 rows of MNIST, 4.3 times for 300,000 nodes near a curve (32 columns).
        self.order = sp.csgraph.reverse_cuthill_mckee(sp.csr_array(L), symmetric_mode=True)
        self.null = sp.csr_array(null[self.order].astype(options.dtype))
        self.null_vectors = null
        self.count = count
        self.wanted = count - null.shape[1]
        extra = max(LEAST_EXTRA, int(EXTRA_FRACTION * self.wanted))
        self.width = min(self.wanted + extra, self.n - null.shape[1])
        self.options, self.team, self.report = options, team, report
        L = L.astype(options.dtype)[self.order][:, self.order].tocsr()
        self.entries = L.indptr.astype(np.int32), L.indices.astype(np.int32), L.data
        self.panel = min(PANEL_COLUMNS, self.width)

    def run(self) -> Eigenvectors:
        """Iterate until the residuals of all wanted vectors are small."""
        rng = np.random.default_rng(self.options.seed)
        V = rng.standard_normal((self.n, self.width), dtype=self.options.dtype)
        lowest, cut = self._cut(rng)
        degree = self._degree(lowest, cut, cut, 1.0)
        values, residuals, previous = np.zeros(self.width), np.full(self.width, np.inf), np.inf
        for iteration in range(1, MOST_ITERATIONS + 1):
            self._filter(V, degree, lowest, cut)
            self._orthonormalize(V)
            values, residuals = self._rotate(V)
            worst = float(residuals[: self.wanted].max(initial=0.0))
            report_step(self.report, iteration, MOST_ITERATIONS, unit="iterations")
            if worst <= self.options.tol or (iteration > 3 and worst > 0.9 * previous and worst <= 1e-5):
                break
            previous = worst
            lowest, cut = float(values[0]), float(values[-1])
            last = float(values[self.wanted - 1])
            degree = self._degree(lowest, last, cut, min(1.0, worst / max(last, 1e-8)))
        else:
            msg = (
                f"GraphBasis: the eigenvectors of the graph have residuals up to {worst:.2g} after "
                f"{MOST_ITERATIONS} iterations, more than {self.options.tol:.2g}. Their span is hardly affected; fewer "
                "components, or more neighbors, make them converge."
            )
            warnings.warn(msg, MercerWarning, stacklevel=2)
        vectors = np.empty((self.n, self.count), V.dtype)
        vectors[:, : self.count - self.wanted] = self.null_vectors
        vectors[self.order, self.count - self.wanted :] = V[:, : self.wanted]
        found = np.concatenate([np.zeros(self.count - self.wanted), np.clip(values[: self.wanted], 0.0, 2.0)])
        left_out = float(values[self.wanted]) if self.width > self.wanted else np.inf
        return Eigenvectors(found, vectors, worst, left_out)

    def _degree(self, lowest: float, last: float, cut: float, error: float) -> int:
        """Return the degree of a filter that reduces unwanted vectors as much as the tolerance needs, and some more.

        The degree is less if otherwise the smoothest vector, of which each vector has the part `error`, would be
        magnified so much that of the last wanted one only rounding remained.
        """
        growth, least = (np.arccosh(1 + 2 * max(cut - value, 1e-8) / (2.0 - cut)) for value in (last, lowest))
        retained = np.log(MOST_ROUNDING / (np.finfo(self.options.dtype).eps * error))
        most = retained / max(least - growth, 1e-8)
        reduction = np.clip(MORE * error / self.options.tol, MORE, MOST_REDUCTION)
        return int(np.clip(min(np.arccosh(reduction) / growth, most), LEAST_DEGREE, MOST_DEGREE))

    def _cut(self, rng: np.random.Generator) -> tuple[float, float]:
        """Return estimates of the smallest eigenvalue and of the largest one of the block.

        The number of eigenvalues below a bound is n times the mean, over random unit vectors, of the weight that their
        expansion has there, of which Lanczos' iteration yields a quadrature.
        """
        m, steps = DENSITY_VECTORS, min(DENSITY_STEPS, self.n - 1)
        Q = rng.standard_normal((self.n, m), dtype=self.options.dtype)
        self._project(Q)
        Q /= np.linalg.norm(Q, axis=0)
        last, image = np.zeros_like(Q), np.empty_like(Q)
        diagonal, beside = np.zeros((steps, m)), np.zeros((steps, m))
        for k in range(steps):
            self._multiply(Q, image)
            diagonal[k] = np.einsum("ij,ij->j", Q, image, dtype=np.float64)
            image -= Q * diagonal[k].astype(Q.dtype)
            if k:
                image -= last * beside[k - 1].astype(Q.dtype)
            beside[k] = np.linalg.norm(image, axis=0)
            last, Q, image = Q, image / np.maximum(beside[k], 1e-12).astype(Q.dtype), last
        rules = [scipy.linalg.eigh_tridiagonal(diagonal[:, j], beside[:-1, j]) for j in range(m)]
        nodes = np.concatenate([ritz for ritz, _ in rules])
        weights = np.concatenate([vectors[0] ** 2 / m for _, vectors in rules])
        order = np.argsort(nodes)
        below = np.cumsum(weights[order]) * self.n
        cut = float(np.interp(self.width, below, nodes[order]))
        return max(float(nodes.min()), 0.0), min(max(cut, 1e-6), 1.5)

    def _filter(self, V: Array, degree: int, lowest: float, cut: float) -> None:
        """Overwrite V by p(L) V with the Chebyshev polynomial p of [cut, 2], scaled to avoid overflow at `lowest`."""
        center, half = (2.0 + cut) / 2, (2.0 - cut) / 2
        first, second, third = (np.empty((self.n, self.panel), V.dtype) for _ in range(3))
        for start in range(0, V.shape[1], self.panel):
            columns = slice(start, min(start + self.panel, V.shape[1]))
            width = columns.stop - columns.start
            x, y, image = first[:, :width], second[:, :width], third[:, :width]
            x[:] = V[:, columns]
            sigma = half / (lowest - center)
            tau = 2.0 / sigma
            self._step(x, y, None, sigma / half, -center * sigma / half, 0.0)
            for _ in range(1, degree):
                new = 1.0 / (tau - sigma)
                self._step(y, image, x, 2 * new / half, -2 * center * new / half, -sigma * new)
                x, y, image = y, image, x
                sigma = new
            V[:, columns] = y

    def _step(self, x: Array, out: Array, last: Array | None, times: float, shift: float, before: float) -> None:
        """Write times * L x + shift * x + before * last into `out`, which must not be one of them."""
        starts, indices, values = self.entries
        dtype = x.dtype.type

        def apply(start: int) -> None:
            rows = slice(start, min(start + TASK_ROWS, self.n))
            part = out[rows]
            sparse_product(starts[rows.start : rows.stop + 1], indices, values, x, part)
            part *= dtype(times)
            part += x[rows] * dtype(shift)
            if last is not None:
                part += last[rows] * dtype(before)

        self.team.run(apply, range(0, self.n, TASK_ROWS))

    def _multiply(self, x: Array, out: Array) -> None:
        """Write L x into `out`."""
        starts, indices, values = self.entries

        def apply(start: int) -> None:
            rows = slice(start, min(start + TASK_ROWS, self.n))
            sparse_product(starts[rows.start : rows.stop + 1], indices, values, x, out[rows])

        self.team.run(apply, range(0, self.n, TASK_ROWS))

    def _project(self, V: Array) -> None:
        """Subtract the parts of V in the null space."""
        if self.null.shape[1]:
            V -= self.null @ (self.null.T @ V)

    def _gram(self, V: Array, W: Array | None = None) -> Array:
        """Return V' W in float64, or V' V."""
        total = np.zeros((V.shape[1], V.shape[1] if W is None else W.shape[1]))
        for start in range(0, self.n, BLOCK_ROWS):
            part = V[start : start + BLOCK_ROWS]
            total += part.T @ (part if W is None else W[start : start + BLOCK_ROWS])
        return total

    def _times(self, V: Array, matrix: Array) -> None:
        """Overwrite V by V times a square matrix, in blocks of rows."""
        matrix = matrix.astype(V.dtype)

        def apply(start: int) -> None:
            V[start : start + BLOCK_ROWS] = V[start : start + BLOCK_ROWS] @ matrix

        self.team.run(apply, range(0, self.n, BLOCK_ROWS))

    def _orthonormalize(self, V: Array) -> None:
        """Make the columns of V orthonormal, and orthogonal to the null space.

        Inverse roots of their Gram matrix are applied twice, or three times in float32.
        """
        eps = float(np.finfo(V.dtype).eps)
        norms = np.sqrt(np.einsum("ij,ij->j", V, V, dtype=np.float64))
        V /= np.maximum(norms, np.finfo(V.dtype).tiny).astype(V.dtype)
        for _ in range(2 if V.dtype == np.float64 else 3):
            self._project(V)  # again after each pass, which scales up what rounding has left of the null space
            values, vectors = np.linalg.eigh(self._gram(V))
            # Directions below rounding are noise; they are scaled up, and a later pass makes them orthonormal.
            self._times(V, vectors / np.sqrt(np.maximum(values, 10 * eps * values[-1])))

    def _rotate(self, V: Array) -> tuple[Array, Array]:
        """Rotate orthonormal columns to Ritz vectors in place; return their values and the norms of residuals."""
        image = np.empty((self.n, self.panel), V.dtype)
        H = self._ritz_matrix(V, image)
        values, vectors = np.linalg.eigh((H + H.T) / 2)
        self._times(V, vectors)
        residuals = np.empty(self.width)
        for start in range(0, self.width, self.panel):
            columns = slice(start, min(start + self.panel, self.width))
            x = np.ascontiguousarray(V[:, columns])
            out = image[:, : x.shape[1]]
            self._multiply(x, out)
            out -= x * values[columns].astype(x.dtype)
            residuals[columns] = np.sqrt(np.einsum("ij,ij->j", out, out, dtype=np.float64))
        return values, residuals

    def _ritz_matrix(self, V: Array, image: Array) -> Array:
        """Return V' L V; `image` is a buffer."""
        H = np.empty((self.width, self.width))
        for start in range(0, self.width, self.panel):
            columns = slice(start, min(start + self.panel, self.width))
            x = np.ascontiguousarray(V[:, columns])
            out = image[:, : x.shape[1]]
            self._multiply(x, out)
            H[:, columns] = self._gram(V, out)
        return H
