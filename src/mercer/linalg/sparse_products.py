"""Products of the rows of a sparse matrix with a dense matrix."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.linalg import dispatch
from mercer.linalg.numpy_kernels import FloatArray

__all__ = ["sparse_product"]


def sparse_product(
    starts: NDArray[np.int32], indices: NDArray[np.int32], values: FloatArray, X: FloatArray, out: FloatArray
) -> FloatArray:
    """Multiply rows of a sparse matrix by a dense matrix, without a copy of either.

    Parameters
    ----------
    starts : ndarray of shape (n + 1,), int32
        Entries ``starts[i]`` to ``starts[i + 1] - 1`` of `indices` and `values` belong to row i: a slice of the
        ``indptr`` of a SciPy CSR matrix.
    indices : ndarray of shape (nnz,), int32
        Column indices of all entries of the matrix.
    values : ndarray of shape (nnz,)
        Values of all entries, in the dtype of `X`.
    X : ndarray of shape (m, D)
        The dense matrix, float32 or float64. Its rows need not be contiguous with each other.
    out : ndarray of shape (n, D)
        Filled with the product. Has the dtype of `X` and shares no memory with it.

    Returns
    -------
    ndarray of shape (n, D)
        The product, which is the array `out`.

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
    dispatch.check_array(name, "X", X, 2)
    dispatch.check_array(name, "values", values, 1, X.dtype)
    for what, array in (("starts", starts), ("indices", indices)):
        dispatch.check_array(name, what, array, 1, np.dtype(np.int32))
    _check_rows(name, starts, indices, values, X)
    dispatch.check_writeable(name, out, X)
    if out.shape != (len(starts) - 1, X.shape[1]):
        msg = f"{name}: out must have shape {(len(starts) - 1, X.shape[1])}, got {out.shape}"
        raise ValueError(msg)
    dispatch.check_separate(name, out, {"X": X})
    dispatch.kernels.sparse_product(starts, indices, values, X, out)
    return out


def _check_rows(function: str, starts: NDArray[Any], indices: NDArray[Any], values: FloatArray, X: FloatArray) -> None:
    """Require that `starts`, `indices` and `values` are rows of a CSR matrix with column indices below ``len(X)``."""
    if len(indices) != len(values):
        msg = f"{function}: indices and values must have equal lengths, got {len(indices)} and {len(values)}"
        raise ValueError(msg)
    if not len(starts) or starts[0] < 0 or starts[-1] > len(values) or (np.diff(starts) < 0).any():
        msg = f"{function}: starts must not decrease, and lie between 0 and the number of entries, {len(values)}"
        raise ValueError(msg)
    used = indices[starts[0] : starts[-1]]
    if len(used) and not (0 <= used.min() and used.max() < len(X)):
        msg = f"{function}: indices must be indices of rows of X, 0 to {len(X) - 1}, got {used.min()} to {used.max()}"
        raise ValueError(msg)
