"""Cholesky factors in place, of any size."""

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.linalg import lapack

__all__ = ["factorize", "inverse_root"]

Matrix = NDArray[np.float64]
# Above this order LAPACK works on blocks only: the threads of OpenBLAS (0.3.30 and 0.3.31, AVX-512) overrun their
# buffers in symmetric products of about 15,000 columns, which ends the process.
WHOLE = 8192
BLOCK = 2048


def factorize(A: Matrix) -> bool:
    """Replace the upper triangle of a symmetric matrix A by R with A = R'R.

    Parameters
    ----------
    A : ndarray of shape (n, n)
        Float64, contiguous by rows. What stands below the diagonal is not read, and stays or is overwritten.

    Returns
    -------
    bool
        Whether A is positive definite, and finite; if not, it is spoilt.
    """
    if len(A) <= WHOLE:
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
    # The upper triangle by rows is the lower by columns, which LAPACK takes without a copy.
    _, failed = lapack.dpotrf(A.T, lower=1, clean=0, overwrite_a=1)
    return not failed and bool(np.isfinite(np.diagonal(A)).all())  # OpenBLAS lets NaN through


def inverse_root(R: Matrix) -> Matrix:
    """Return the upper triangle T with A^-1 = T T', in the place of the factor R of A."""
    lapack.dtrtri(R.T, lower=1, overwrite_c=1)  # A = R'R, so A^-1 = R^-1 R^-T
    for start in range(0, len(R), BLOCK):  # in place: fresh memory of this size takes its time
        rows = R[start : start + BLOCK]
        rows[:, :start] = 0.0
        rows[:, start : start + BLOCK] = np.triu(rows[:, start : start + BLOCK])
    return R
