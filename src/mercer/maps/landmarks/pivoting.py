"""Randomly pivoted Cholesky: choose landmark rows at random, with probability proportional to their residual.

The residual of a row x, given the landmarks S chosen so far, is k(x, x) - k(x, S) k(S, S)^-1 k(S, x): the part of
k(x, x) that the Nystroem approximation with these landmarks does not explain.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from mercer.engines import Report, report_step
from mercer.kernels import Kernel

__all__ = ["pivoted_rows"]

Array = np.ndarray
# To choose `count` rows, count / SHARE rows are proposed at a time, but at least LEAST and at most MOST. Larger blocks
# make larger matrix products, but more rows are rejected because of other rows in the same block.
SHARE, LEAST, MOST = 16, 8, 128


def pivoted_rows(
    kernel: Kernel, X: Any, weight: Array, count: int, rng: np.random.Generator, report: Report | None = None
) -> Array:
    r"""Return the indices of landmark rows chosen by randomly pivoted Cholesky [1]_.

    Rows are chosen one after the other, with probability proportional to their weight times their residual
    k(x, x) - k(x, S) k(S, S)^-1 k(S, x), where S are the rows chosen so far. For speed, a block of rows is proposed at
    once from the current residuals r(x). A proposed row is then accepted with probability r'(x) / r(x), where r'(x) is
    its residual after the rows of the block that were accepted before it. The distribution is the same as for one row
    at a time, and most of the work is matrix products [2]_.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    X : ndarray or CSR of shape (n, d)
        Rows, in float64.
    weight : ndarray of shape (n,)
        Weights > 0 of the rows. A row of weight k has the same effect as k copies of the row.
    count : int
        Number of rows to choose. Fewer are returned if the residuals of all other rows are within rounding error.
    rng : Generator
        Source of randomness.
    report : callable or None, default=None
        Receives the number of rows that are chosen.

    Returns
    -------
    ndarray of int
        Indices of the chosen rows, in the order in which they are chosen. There is at least one.

    References
    ----------
    .. [1] Chen, Epperly, Tropp, Webber (2025), Randomly Pivoted Cholesky: Practical Approximation of a Kernel Matrix
       with Few Entry Evaluations, CPAM.
    .. [2] Epperly, Tropp, Webber (2024), Embrace rejection: Kernel matrix approximation by accelerated randomly pivoted
       Cholesky, arXiv:2410.03969.
    """
    residual = kernel.diag(X)
    # A smaller residual is a rounding error: the row is in the span of the chosen rows.
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
        report_step(report, len(chosen), count, unit="landmarks")
    # A kernel that is zero on every row has no pivot; any row is then a landmark that adds nothing.
    return np.array(chosen or [0], dtype=int)


def accepted(left: Array, noise: Array, most: int, rng: np.random.Generator) -> tuple[list[int], Array, list[int]]:
    """Accept or reject the proposed rows of a block in turn, with probability r'(x) / r(x) for row x.

    Here r(x) is the residual given the rows of previous blocks, and r'(x) is the residual given also the rows of this
    block that were accepted before x.

    Parameters
    ----------
    left : ndarray of shape (m, m)
        Kernel matrix of the proposed rows, minus its approximation by the rows chosen in previous blocks.
    noise : ndarray of shape (m,)
        Bound of the rounding error of each residual.
    most : int
        The largest number of rows to accept.
    rng : Generator
        Source of randomness.

    Returns
    -------
    taken : list of int
        Indices of the accepted rows, among the m proposed rows.
    triangle : ndarray
        The lower Cholesky factor of ``left[taken][:, taken]``.
    spent : list of int
        Indices of proposed rows whose residual is within its rounding error.
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
