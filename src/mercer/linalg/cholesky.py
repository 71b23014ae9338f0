"""Cholesky factorization and inverse in place, for matrices of any size."""

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.linalg import lapack

__all__ = ["factorize", "inverse_root"]

Matrix = NDArray[np.float64]
# Matrices with more rows are factorized block by block, because the threads of OpenBLAS (0.3.30 and 0.3.31, AVX-512)
# overrun their buffers in symmetric products of about 15,000 columns, which kills the process.
MAX_UNBLOCKED = 8192
BLOCK = 2048


def factorize(A: Matrix) -> bool:
    """Replace the upper triangle of a symmetric matrix A by its Cholesky factor R, with A = R'R.

    Parameters
    ----------
    A : ndarray of shape (n, n)
        Float64 and C-contiguous. The entries below the diagonal are not read; they may be overwritten.

    Returns
    -------
    bool
        Whether A is positive definite and finite. If it is not, its contents are undefined afterwards.

    See Also
    --------
    scipy.linalg.cholesky : Allocates the factor, and raises if A is not positive definite.
    """
    if len(A) <= MAX_UNBLOCKED:
        return _by_lapack(A)
    for start in range(0, len(A), BLOCK):
        stop = min(start + BLOCK, len(A))
        corner = np.ascontiguousarray(A[start:stop, start:stop])
        if not _by_lapack(corner):
            return False
        A[start:stop, start:stop] = corner
        beside = scipy.linalg.solve_triangular(corner, A[start:stop, stop:], trans="T", check_finite=False)
        A[start:stop, stop:] = beside
        for i in range(0, len(A) - stop, BLOCK):
            A[stop + i : stop + i + BLOCK, stop + i :] -= beside[:, i : i + BLOCK].T @ beside[:, i:]
    return True


def _by_lapack(A: Matrix) -> bool:
    """Factorize A in place by one call of LAPACK; return whether A is positive definite and finite."""
    # The upper triangle of a C-contiguous matrix is the lower one of its transpose, which has LAPACK's layout.
    _, failed = lapack.dpotrf(A.T, lower=1, clean=0, overwrite_a=1)
    return not failed and bool(np.isfinite(np.diagonal(A)).all())  # OpenBLAS does not report NaN


def inverse_root(R: Matrix) -> Matrix:
    """Overwrite an upper triangular matrix R by T = R^-1 and return T.

    If R is the Cholesky factor of A = R'R, then A^-1 = T T'.
    """
    lapack.dtrtri(R.T, lower=1, overwrite_c=1)  # A = R'R, so A^-1 = R^-1 R^-T
    for start in range(0, len(R), BLOCK):  # in place, because allocating a matrix of this size is slow
        rows = R[start : start + BLOCK]
        rows[:, :start] = 0.0
        rows[:, start : start + BLOCK] = np.triu(rows[:, start : start + BLOCK])
    return R
