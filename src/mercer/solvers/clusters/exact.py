r"""Kernel k-means on the Gram matrix: the exact method, in memory O(n^2) and time O(n^2 (d + k)) and more.

A center is a mean of rows in the space of the kernel, known by its coefficients a: the squared distance of a row x is

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
# Smaller fractions of the terms of a distance are rounding: kernel values are in float64 whatever the rows are.
EPS = ROUNDING_UNITS * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class ExactClustering:
    """The result of the exact iteration from one start."""

    coefficients: Array  # (n, k)
    norms: Array  # (k,), a' K a
    labels: Array  # (n,)
    inertia: float
    path: tuple[float, ...]  # the inertia at each pass
    n_iter: int  # passes in which centers moved, or were found to stay
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
    """Iterate on a Gram matrix.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Gram matrix, in float64: distances are small differences of its entries.
    start : ndarray of shape (n, k)
        Squared distances of the rows to the first centers.
    weight : ndarray of shape (n,), default=None
        Weights >= 0.
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
    """Return at most `size` rows farthest from their centers, no two of them equal."""
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
    """Centers by the coefficients of the rows of `fit`."""

    kernel: Kernel
    rows: Any  # (n, d), those whose coefficients are not all zero
    coefficients: Array  # (n, k)
    norms: Array  # (k,)

    @property
    def width(self) -> int:
        """Return the number of columns of the intermediate matrices."""
        return self.rows.shape[0]

    def scores(self, X: Any) -> Array:
        """Return squared distances minus k(x, x), (k, n)."""
        values = self.kernel(X.astype(np.float64), self.rows.astype(np.float64))
        return (self.norms - 2 * (values @ self.coefficients)).T

    def labels(self, X: Any) -> Array:
        """Return the nearest center of each row."""
        return nearest(self.scores(X), self.norms, EPS)[0]

    def distances(self, X: Any) -> Array:
        """Return squared distances, (n, k), with zero where they are zero to rounding."""
        diagonal = self.kernel.diag(X.astype(np.float64))
        distances = self.scores(X) + diagonal
        distances[distances <= EPS * (diagonal + self.norms[:, None])] = 0.0
        return distances.T
