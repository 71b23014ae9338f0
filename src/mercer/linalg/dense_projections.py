"""Projections on a dense matrix, with a function on top, written in one go."""

from mercer.linalg import arguments
from mercer.linalg.dispatch import kernels
from mercer.linalg.twins import FloatArray, FunctionName

__all__ = ["dense", "dense_cosines", "dense_pairs"]


def dense(
    X: FloatArray,
    weights: FloatArray,
    out: FloatArray,
    *,
    function: FunctionName = "identity",
    scale: float = 1.0,
    product: bool = False,
) -> FloatArray:
    r"""Multiply rows by a matrix, each row alone: its result does not depend on the batch.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows to project, float32 or float64.
    weights : ndarray of shape (d, m)
        Matrix, in the dtype of `X`. It is copied once per call, which is little beside the products from
        some dozen rows on.
    out : ndarray of shape (n, m)
        Filled with ``scale * function(X @ weights)``. Has the dtype of `X` and shares no memory with it.
    function : {"identity", "sign", "abs", "relu", "relu_squared", "signed_square", "exp"}
        What to do to the products: :math:`u`, :math:`\mathrm{sign}\,u` with 0 at 0,
        :math:`|u|`, :math:`\max(u, 0)`, :math:`\max(u, 0)^2`, :math:`u|u|` or :math:`e^u`. NaN stays NaN.
    scale : float
        Factor of the results.
    product : bool
        Whether to multiply `out` by the results instead of writing them there.

    Returns
    -------
    ndarray of shape (n, m)
        The array `out`.

    Examples
    --------
    >>> import numpy as np
    >>> X, weights = np.array([[3.0, 1.0]]), np.array([[1.0, -1.0], [0.0, 1.0]])
    >>> dense(X, weights, np.empty((1, 2)), function="relu")
    array([[3., 0.]])
    """
    name = "dense"
    arguments.check_array(name, "X", X, 2)
    arguments.check_weights(name, weights, X)
    arguments.check_out(name, out, X)
    arguments.check_columns(name, "out", out.shape[1], weights.shape[1])
    arguments.check_function(name, function)
    for what, array in (("X", X), ("weights", weights)):
        arguments.check_separate(name, what, array, out)
    kernels().dense(X, weights, out, function, float(scale), bool(product))
    return out


def dense_pairs(X: FloatArray, weights: FloatArray, scale: float, out: FloatArray) -> FloatArray:
    """Write the pairs of `sincos_pairs` at angles ``X @ weights``, which are never in memory as a whole.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows to project, float32 or float64.
    weights : ndarray of shape (d, m)
        Frequencies, in the dtype of `X`; copied once per call.
    scale : float
        Factor of every cosine and sine.
    out : ndarray of shape (n, D), m <= D <= 2m
        Filled with `m` columns of cosines and ``D - m`` of sines. Has the dtype of `X` and shares no
        memory with it.

    Returns
    -------
    ndarray of shape (n, D)
        The array `out`.

    Examples
    --------
    >>> import numpy as np
    >>> X, weights = np.array([[1.0, 2.0]]), np.array([[np.pi, 0.0], [0.0, np.pi / 4]])
    >>> dense_pairs(X, weights, 1.0, np.empty((1, 4))).round(12)
    array([[-1.,  0.,  0.,  1.]])
    """
    name = "dense_pairs"
    arguments.check_array(name, "X", X, 2)
    arguments.check_weights(name, weights, X)
    arguments.check_out(name, out, X)
    arguments.check_pair_width(name, weights.shape[1], out)
    for what, array in (("X", X), ("weights", weights)):
        arguments.check_separate(name, what, array, out)
    kernels().dense_pairs(X, weights, float(scale), out)
    return out


def dense_cosines(X: FloatArray, weights: FloatArray, phases: FloatArray, scale: float, out: FloatArray) -> FloatArray:
    """Write ``scale * cos(X @ weights + phases)``; the angles are never in memory as a whole.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows to project, float32 or float64.
    weights : ndarray of shape (d, m)
        Frequencies, in the dtype of `X`; copied once per call.
    phases : ndarray of shape (m,)
        Added to every row of angles, in the dtype of `X`.
    scale : float
        Factor of every cosine.
    out : ndarray of shape (n, m)
        Has the dtype of `X` and shares no memory with it.

    Returns
    -------
    ndarray of shape (n, m)
        The array `out`.

    Examples
    --------
    >>> import numpy as np
    >>> X, weights = np.array([[1.0]]), np.array([[np.pi, 0.0]])
    >>> dense_cosines(X, weights, np.zeros(2), 2.0, np.empty((1, 2)))
    array([[-2.,  2.]])
    """
    name = "dense_cosines"
    arguments.check_array(name, "X", X, 2)
    arguments.check_weights(name, weights, X)
    arguments.check_array(name, "phases", phases, 1, X.dtype)
    arguments.check_out(name, out, X)
    arguments.check_columns(name, "phases", len(phases), weights.shape[1])
    arguments.check_columns(name, "out", out.shape[1], weights.shape[1])
    for what, array in (("X", X), ("weights", weights), ("phases", phases)):
        arguments.check_separate(name, what, array, out)
    kernels().dense_cosines(X, weights, phases, float(scale), out)
    return out
