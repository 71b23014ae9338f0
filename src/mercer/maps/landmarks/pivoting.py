"""Randomly pivoted Cholesky: landmarks chosen by what the previous ones leave of the kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from mercer.kernels import Kernel

__all__ = ["pivoted_rows"]

Array = np.ndarray
# Rows that are proposed at a time, as a share of all that are wanted and within these bounds. Larger blocks make larger
# matrix products, but more rows are rejected because of others in the same block.
SHARE, LEAST, MOST = 16, 8, 128


def pivoted_rows(kernel: Kernel, X: Any, weight: Array, count: int, rng: np.random.Generator) -> Array:
    r"""Return rows chosen by randomly pivoted Cholesky [1]_.

    Rows are chosen one after the other with probability proportional to their weight times their residual, the part of
    k(x, x) that the chosen rows do not explain. Blocks of rows are proposed together, and each is accepted with the
    probability that those accepted before it in the block leave: the distribution is that of one row at a time, and
    the work is done by matrix products [2]_.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    X : ndarray or CSR of shape (n, d)
        Rows, in float64.
    weight : ndarray of shape (n,)
        Weights > 0; k copies of a row are as probable as one row of weight k.
    count : int
        Number of rows; fewer are returned if the others add nothing beyond rounding.
    rng : Generator
        Source of randomness.

    Returns
    -------
    ndarray of int
        Indices of the rows, ascending; at least one.

    References
    ----------
    .. [1] Chen, Epperly, Tropp, Webber (2025), Randomly Pivoted Cholesky: Practical Approximation of a Kernel Matrix
       with Few Entry Evaluations, CPAM.
    .. [2] Epperly, Tropp, Webber (2024), Embrace rejection: Kernel matrix approximation by accelerated randomly pivoted
       Cholesky, arXiv:2410.03969.
    """
    residual = kernel.diag(X)
    # A smaller residual is rounding: such a row is in the span of the chosen ones.
    noise = 10 * count * np.finfo(float).eps * residual
    factor = np.zeros((X.shape[0], count))
    chosen: list[int] = []
    size = int(np.clip(count // SHARE, LEAST, MOST))
    while len(chosen) < count and (residual > 0).any():
        probability = weight * residual
        rows = rng.choice(X.shape[0], size, p=probability / probability.sum())
        before = factor[:, : len(chosen)]
        left = kernel(X[rows]) - before[rows] @ before[rows].T
        taken, triangle, spent = accepted(left, noise[rows], count - len(chosen), rng)
        residual[rows[spent]] = 0.0
        if not taken:
            continue
        pivots = rows[taken]
        columns = kernel(X, X[pivots]) - before @ before[pivots].T
        new = scipy.linalg.solve_triangular(triangle, columns.T, lower=True, check_finite=False).T
        factor[:, len(chosen) : len(chosen) + len(pivots)] = new
        residual -= np.square(new).sum(axis=1)
        residual[residual <= noise] = 0.0
        residual[pivots] = 0.0
        chosen += pivots.tolist()
    # A kernel that is zero on every row has no pivot; any row is then a landmark that adds nothing.
    return np.sort(np.array(chosen or [0], dtype=int))


def accepted(left: Array, noise: Array, most: int, rng: np.random.Generator) -> tuple[list[int], Array, list[int]]:
    """Accept rows of a block in turn, each with the probability that the accepted ones before leave of its residual.

    Parameters
    ----------
    left : ndarray of shape (m, m)
        The kernel of the proposed rows minus what the rows of previous blocks explain.
    noise : ndarray of shape (m,)
        Residuals that are rounding.
    most : int
        The largest number of rows to accept.
    rng : Generator
        Source of randomness.

    Returns
    -------
    taken : list of int
        Indices of the accepted rows.
    triangle : ndarray
        The Cholesky factor of their part of `left`.
    spent : list of int
        Indices of the rows whose residual is rounding.
    """
    left = left.copy()
    first = np.diagonal(left).copy()
    columns, taken, spent = [], [], []
    for i in range(len(left)):
        if left[i, i] <= noise[i]:
            spent.append(i)
        elif rng.random() * first[i] < left[i, i]:
            column = left[:, i] / np.sqrt(left[i, i])
            left -= np.multiply.outer(column, column)
            columns.append(column)
            taken.append(i)
            if len(taken) == most:
                break
    triangle = np.tril(np.column_stack(columns)[taken]) if taken else np.empty((0, 0))
    return taken, triangle, spent
