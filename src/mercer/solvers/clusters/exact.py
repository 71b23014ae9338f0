r"""Exact kernel k-means on the Gram matrix.

Memory is O(n^2). Time is O(n^2 d) for the Gram matrix, and O(n^2 k) for each pass of Lloyd's algorithm.

A center is a weighted mean of rows in the feature space of the kernel, represented by the coefficients a of the
rows. The squared distance of a row x to the center is

.. math:: k(x, x) - 2 \sum_i a_i k(x, x_i) + \sum_{ij} a_i a_j k(x_i, x_j).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.kernels import Kernel
from mercer.solvers.clusters.lloyd import ROUNDING_UNITS, nearest, rounded

__all__ = ["ExactClustering", "ExactClusters", "exact_lloyd"]

Array = np.ndarray
# Squared distances below this fraction of k(x, x) + |c|^2 are rounding errors; kernel values are always in float64.
EPS = ROUNDING_UNITS * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class ExactClustering:
    """The result of exact kernel k-means from one start."""

    coefficients: Array  # (n, k), coefficients a of each center
    norms: Array  # (k,), squared norms a' K a of the centers
    labels: Array  # (n,)
    inertia: float
    path: tuple[float, ...]  # the inertia at each pass
    n_iter: int  # number of passes, without a last one that only computes the inertia
    converged: bool


def exact_lloyd(
    K: Array,
    start: Array,
    weight: Array | None = None,
    *,
    max_iter: int,
    tol: float,
    report: Callable[[int, int], None] = lambda *_: None,
) -> ExactClustering:
    """Run Lloyd's algorithm on a Gram matrix.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Gram matrix in float64, since distances are small differences of its entries.
    start : ndarray of shape (n, k)
        Squared distances of the rows to the initial centers.
    weight : ndarray of shape (n,), default=None
        Weights >= 0 of the rows; None means that all weights are 1.
    max_iter, tol, report
        As in `lloyd`.

    Returns
    -------
    ExactClustering
    """
    n, k = start.shape
    w = np.ones(n) if weight is None else weight
    diagonal = np.diagonal(K).astype(np.float64)
    eps = ROUNDING_UNITS * float(np.finfo(K.dtype).eps)
    scores, norms = start.T - diagonal, np.full(k, diagonal.max())
    coefficients = np.zeros((n, k))
    before = coefficients, norms, np.full(n, -1)
    path: list[float] = []
    n_iter, close = 0, False
    while True:
        labels, least = nearest(scores, norms, eps)
        inertia = max(float(w @ (diagonal + least)), 0.0)
        gained = not path or inertia < path[-1]
        still = not gained or bool((labels == before[2])[w > 0].all())
        path.append(inertia if gained else path[-1])
        if not gained and n_iter > 1:  # only rounding has moved the centers: the previous ones were as good
            coefficients, norms, labels = before
        if close or n_iter == max_iter:
            break
        n_iter += 1
        report(n, n_iter)
        if still:
            break
        before = coefficients, norms, labels
        total = np.bincount(labels, w, k)
        coefficients = np.zeros((n, k))
        coefficients[np.arange(n), labels] = w / np.where(total > 0, total, 1.0)[labels]
        empty = np.flatnonzero(total == 0)
        far = farthest(K, diagonal, least, w, len(empty), eps)
        coefficients[far, empty[: len(far)]] = 1.0
        products = (K @ coefficients.astype(K.dtype)).astype(np.float64)
        norms = np.einsum("ik,ik->k", coefficients, products)
        scores = (norms - 2 * products).T
        gain = float(w @ (least - scores[labels, np.arange(n)]))
        close = not len(far) and gain <= tol * inertia and tol > 0
    return ExactClustering(coefficients, norms, labels, path[-1], tuple(path), n_iter, close or still)


def farthest(K: Array, diagonal: Array, least: Array, weight: Array, size: int, eps: float) -> Array:
    """Return the indices of at most `size` distinct rows that are farthest from their nearest centers.

    `diagonal` holds k(x, x), and `least` the squared distance of each row to its nearest center minus k(x, x).
    """
    distances = np.where(weight > 0, diagonal + least, 0.0)
    chosen: list[int] = []
    for i in np.argsort(-rounded(distances), kind="stable"):
        if len(chosen) == size or distances[i] <= eps * 2 * diagonal[i]:
            break
        apart = diagonal[i] + diagonal[chosen] - 2 * K[i, chosen]
        if (apart > eps * (diagonal[i] + diagonal[chosen])).all():
            chosen.append(int(i))
    return np.array(chosen, dtype=int)


@dataclass(frozen=True)
class ExactClusters:
    """Cluster centers in the feature space of a kernel, as linear combinations of the rows of `fit`."""

    kernel: Kernel
    rows: Any  # (m, d), the rows of `fit` whose coefficients are not all zero
    coefficients: Array  # (m, k)
    norms: Array  # (k,), squared norms of the centers

    @property
    def width(self) -> int:
        """Number of columns of the intermediate matrices: the number of stored rows."""
        return self.rows.shape[0]

    def scores(self, X: Any) -> Array:
        """Return |phi(x) - c|^2 - k(x, x) for all centers c and rows x, (k, n), where phi(x) is x in feature space."""
        values = self.kernel(X.astype(np.float64), self.rows.astype(np.float64))
        return (self.norms - 2 * (values @ self.coefficients)).T

    def labels(self, X: Any) -> Array:
        """Return the index of the nearest center of each row (n,)."""
        return nearest(self.scores(X), self.norms, EPS)[0]

    def distances(self, X: Any) -> Array:
        """Return the squared distances of all rows to all centers (n, k). Values below the rounding error are zero."""
        diagonal = self.kernel.diag(X.astype(np.float64))
        distances = self.scores(X) + diagonal
        distances[distances <= EPS * (diagonal + self.norms[:, None])] = 0.0
        return distances.T
