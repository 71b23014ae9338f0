"""Randomly pivoted Cholesky: landmarks that the rows chosen before leave most of the kernel to."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from mercer.kernels import Kernel

__all__ = ["pivoted_rows"]

Array = np.ndarray
# Rows that are proposed at a time, relative to all that are wanted, and within these bounds: more make the products
# larger, and more of them are turned down because of others in the same block.
SHARE, LEAST, MOST = 16, 8, 128


def pivoted_rows(kernel: Kernel, X: Any, weight: Array, count: int, rng: np.random.Generator) -> Array:
    r"""Choose rows one after the other, each with probability its weight times what is left of its k(x, x) [1]_.

    Blocks of rows are proposed together and accepted with the probability that those accepted before them in the block
    leave: the same law as one by one, but the work is products of matrices [2]_.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    X : ndarray or CSR of shape (n, d)
        Rows, in float64.
    weight : ndarray of shape (n,)
        Weights > 0: k copies of a row are as probable as one of weight k.
    count : int
        How many rows; fewer come back where the others add nothing beyond rounding.
    rng : Generator
        Source of randomness.

    Returns
    -------
    ndarray of int
        Rows, ascending; at least one.

    References
    ----------
    .. [1] Chen, Epperly, Tropp, Webber (2025), Randomly pivoted Cholesky, CPAM.
    .. [2] Epperly, Tropp, Webber (2024), Embrace rejection: kernel matrix approximation by accelerated randomly pivoted
       Cholesky, arXiv:2410.03969.
    """
    residual = kernel.diag(X)
    # What is left of a diagonal entry below this is rounding: such a row is in the span of the chosen ones.
    noise = 10 * count * np.finfo(float).eps * residual
    factor = np.zeros((X.shape[0], count))
    chosen: list[int] = []
    size = int(np.clip(count // SHARE, LEAST, MOST))
    while len(chosen) < count and (residual > 0).any():
        probability = weight * residual
        rows = rng.choice(X.shape[0], size, p=probability / probability.sum())
        before = factor[:, : len(chosen)]
        left = kernel(X[rows]) - before[rows] @ before[rows].T
        places, triangle, spent = accepted(left, noise[rows], count - len(chosen), rng)
        residual[rows[spent]] = 0.0
        if not places:
            continue
        pivots = rows[places]
        columns = kernel(X, X[pivots]) - before @ before[pivots].T
        new = scipy.linalg.solve_triangular(triangle, columns.T, lower=True, check_finite=False).T
        factor[:, len(chosen) : len(chosen) + len(pivots)] = new
        residual -= np.square(new).sum(axis=1)
        residual[residual <= noise] = 0.0
        residual[pivots] = 0.0
        chosen += pivots.tolist()
    # A kernel that is zero on every row has no pivot; any row then serves as the landmark that adds nothing.
    return np.sort(np.array(chosen or [0], dtype=int))


def accepted(left: Array, noise: Array, most: int, rng: np.random.Generator) -> tuple[list[int], Array, list[int]]:
    """Accept rows of a block in turn, each with the probability that the ones before leave of its entry.

    Returns
    -------
    places : list of int
        Which are accepted.
    triangle : ndarray
        The Cholesky factor of their part of `left`.
    spent : list of int
        Which have nothing left but rounding.
    """
    left = left.copy()
    first = np.diagonal(left).copy()
    columns, places, spent = [], [], []
    for i in range(len(left)):
        if left[i, i] <= noise[i]:
            spent.append(i)
        elif rng.random() * first[i] < left[i, i]:
            column = left[:, i] / np.sqrt(left[i, i])
            left -= np.multiply.outer(column, column)
            columns.append(column)
            places.append(i)
            if len(places) == most:
                break
    triangle = np.tril(np.column_stack(columns)[places]) if places else np.empty((0, 0))
    return places, triangle, spent
