"""Rows of a sparse matrix times a dense one."""

import numpy as np
from numpy.typing import NDArray

from mercer.linalg import arguments
from mercer.linalg.dispatch import kernels
from mercer.linalg.twins import FloatArray

__all__ = ["sparse_product"]


def sparse_product(
    starts: NDArray[np.int32], indices: NDArray[np.int32], values: FloatArray, X: FloatArray, out: FloatArray
) -> FloatArray:
    """Multiply rows of a sparse matrix by a dense one, whose rows may lie apart: neither is copied.

    Parameters
    ----------
    starts : ndarray of shape (n + 1,), int32
        Where the entries of each row begin and, last, where they end: a part of ``indptr`` of a SciPy CSR matrix.
    indices : ndarray of shape (nnz,), int32
        Columns of all entries.
    values : ndarray of shape (nnz,)
        Values of all entries, in the dtype of `X`.
    X : ndarray of shape (m, D)
        The dense matrix, float32 or float64.
    out : ndarray of shape (n, D)
        Filled with the product. Has the dtype of `X` and shares no memory with it.

    Returns
    -------
    ndarray of shape (n, D)
        The array `out`.

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> A = sp.csr_array(np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0]]))
    >>> sparse_product(A.indptr, A.indices, A.data, np.eye(3), np.empty((2, 3)))
    array([[1., 0., 2.],
           [0., 0., 3.]])
    """
    name = "sparse_product"
    arguments.check_array(name, "X", X, 2)
    arguments.check_array(name, "values", values, 1, X.dtype)
    for what, array in (("starts", starts), ("indices", indices)):
        arguments.check_array(name, what, array, 1, np.dtype(np.int32))
    arguments.check_sparse_rows(name, starts, indices, values, X)
    arguments.check_writeable(name, out, X)
    if out.shape != (len(starts) - 1, X.shape[1]):
        msg = f"{name}: out must have shape {(len(starts) - 1, X.shape[1])}, got {out.shape}"
        raise ValueError(msg)
    arguments.check_separate(name, "X", X, out)
    kernels().sparse_product(starts, indices, values, X, out)
    return out
