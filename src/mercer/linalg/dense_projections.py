"""Products of rows with a dense matrix, and functions such as max(u, 0) or cos(u) of these products u."""

from mercer.linalg import dispatch
from mercer.linalg.numpy_kernels import FloatArray, FunctionName

__all__ = ["dense", "dense_cosines", "dense_pairs"]


def _check_factors(function: str, X: FloatArray, weights: FloatArray) -> None:
    """Require that `X` and `weights` are matrices of the same dtype, of shapes (n, d) and (d, m)."""
    dispatch.check_array(function, "X", X, 2)
    dispatch.check_array(function, "weights", weights, 2, X.dtype)
    if len(weights) != X.shape[1]:
        msg = f"{function}: weights must have {X.shape[1]} rows, one per column of X, got {len(weights)}"
        raise ValueError(msg)


def dense(
    X: FloatArray,
    weights: FloatArray,
    out: FloatArray,
    *,
    scale: float = 1.0,
    function: FunctionName = "identity",
    product: bool = False,
) -> FloatArray:
    r"""Multiply rows by a matrix and apply a function to the products.

    Each row is multiplied on its own, so its result does not depend on the other rows of the batch.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows to project, float32 or float64.
    weights : ndarray of shape (d, m)
        Matrix, in the dtype of `X`. It is copied once per call. The cost of the copy is small compared with that of the
        products if `X` has a few dozen rows or more.
    out : ndarray of shape (n, m)
        Filled with ``scale * function(X @ weights)``. Has the dtype of `X` and shares no memory with it.
    scale : float
        Factor of the results.
    function : {"identity", "sign", "abs", "relu", "relu_squared", "signed_square", "exp"}
        Function to apply to each product :math:`u`: :math:`u`, :math:`\mathrm{sign}\,u` with 0 at 0,
        :math:`|u|`, :math:`\max(u, 0)`, :math:`\max(u, 0)^2`, :math:`u|u|` or :math:`e^u`. NaN remains NaN.
    product : bool
        Whether to multiply `out` by the results instead of overwriting it.

    Returns
    -------
    ndarray of shape (n, m)
        The array `out`.

    See Also
    --------
    sign_hadamard, butterfly : Orthogonal projections in O(log d) operations per result.

    Examples
    --------
    >>> import numpy as np
    >>> X, weights = np.array([[3.0, 1.0]]), np.array([[1.0, -1.0], [0.0, 1.0]])
    >>> dense(X, weights, np.empty((1, 2)), function="relu")
    array([[3., 0.]])
    """
    name = "dense"
    _check_factors(name, X, weights)
    dispatch.check_out(name, out, X)
    dispatch.check_columns(name, out, weights.shape[1])
    dispatch.check_function(name, function)
    dispatch.check_separate(name, out, {"X": X, "weights": weights})
    dispatch.kernels.dense(X, weights, out, function, float(scale), bool(product))
    return out


def dense_pairs(X: FloatArray, weights: FloatArray, scale: float, out: FloatArray) -> FloatArray:
    """Fill `out` with the scaled cosines and sines of the angles ``X @ weights``.

    The angles are never in memory all at once.

    Parameters
    ----------
    X, weights : ndarrays of shape (n, d) and (d, m)
        Rows and frequencies, as in `dense`.
    scale, out : float and ndarray of shape (n, D), m <= D <= 2m
        Factor of the results, and output for m cosines and D - m sines, as in `sincos_pairs`. `out` shares no memory
        with `X` and `weights`.

    Returns
    -------
    ndarray of shape (n, D)
        The array `out`, with the cosines first.

    Examples
    --------
    >>> import numpy as np
    >>> X, weights = np.array([[1.0, 2.0]]), np.array([[np.pi, 0.0], [0.0, np.pi / 4]])
    >>> dense_pairs(X, weights, 1.0, np.empty((1, 4))).round(12)
    array([[-1.,  0.,  0.,  1.]])
    """
    name = "dense_pairs"
    _check_factors(name, X, weights)
    dispatch.check_out(name, out, X)
    dispatch.check_pair_width(name, weights.shape[1], out)
    dispatch.check_separate(name, out, {"X": X, "weights": weights})
    dispatch.kernels.dense_pairs(X, weights, float(scale), out)
    return out


def dense_cosines(X: FloatArray, weights: FloatArray, phases: FloatArray, scale: float, out: FloatArray) -> FloatArray:
    """Fill `out` with ``scale * cos(X @ weights + phases)``; the angles are never in memory all at once.

    Parameters
    ----------
    X, weights : ndarrays of shape (n, d) and (d, m)
        Rows and frequencies, as in `dense`.
    phases, scale : ndarray of shape (m,) and float
        Phase of each frequency, in the dtype of `X`, and factor of the results, as in `cosines`.
    out : ndarray of shape (n, m)
        Has the dtype of `X` and shares no memory with it.

    Returns
    -------
    ndarray of shape (n, m)
        The array `out`, with one cosine per frequency.

    Examples
    --------
    >>> import numpy as np
    >>> X, weights = np.array([[1.0]]), np.array([[np.pi, 0.0]])
    >>> dense_cosines(X, weights, np.zeros(2), 2.0, np.empty((1, 2)))
    array([[-2.,  2.]])
    """
    name = "dense_cosines"
    _check_factors(name, X, weights)
    dispatch.check_array(name, "phases", phases, 1, X.dtype)
    dispatch.check_out(name, out, X)
    dispatch.check_length(name, "phases", phases, weights.shape[1])
    dispatch.check_columns(name, out, weights.shape[1])
    dispatch.check_separate(name, out, {"X": X, "weights": weights, "phases": phases})
    dispatch.kernels.dense_cosines(X, weights, phases, float(scale), out)
    return out
