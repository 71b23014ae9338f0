"""Orthogonal projections of rows by random signs and Hadamard matrices.

A projection multiplies the entries of a row by random signs +1 and -1 and the result by a Hadamard matrix, k times in
sequence. A product with a Hadamard matrix of size P takes O(P log P) operations. `sign_hadamard` computes functions
of the projections, such as max(u, 0), and `sign_hadamard_pairs` computes their cosines and sines.
"""

from mercer.linalg import dispatch
from mercer.linalg.numpy_kernels import FloatArray, FunctionName

__all__ = ["sign_hadamard", "sign_hadamard_pairs"]


def sign_hadamard(
    X: FloatArray,
    signs: FloatArray,
    out: FloatArray,
    *,
    radii: FloatArray | None = None,
    scale: float = 1.0,
    function: FunctionName = "identity",
    product: bool = False,
) -> FloatArray:
    r"""Project rows by products of random signs and Hadamard matrices.

    The output for a row consists of blocks of length :math:`P`. Block :math:`b` is
    :math:`H D_{b,k} \cdots H D_{b,1} x / P^{k/2}`, where :math:`x` is the row padded with zeros to length :math:`P`,
    :math:`H` the Hadamard matrix in Sylvester's order and :math:`D_{b,i}` the diagonal matrix of ``signs[b, i - 1]``.
    Each block is an orthogonal transform of :math:`x`.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows to project, float32 or float64.
    signs : ndarray of shape (blocks, k, P), P a power of two >= d
        Entries +1 or -1, in the dtype of `X`.
    out : ndarray of shape (n, m), (blocks - 1) * P < m <= blocks * P
        Filled with the blocks side by side. The last block is truncated, so that there are `m` columns. `out` has the
        dtype of `X` and shares no memory with it.
    scale, function, product : float, str and bool
        As in `dense`: `out` is filled with, or multiplied by, ``scale * function(radii * projections)``.
    radii : ndarray of shape (m,), optional
        Factor of each projection, in the dtype of `X`; ones by default.

    Returns
    -------
    ndarray of shape (n, m)
        The array `out`, with the blocks side by side.

    See Also
    --------
    butterfly : Random rotations after one Hadamard matrix.
    scipy.linalg.hadamard : The Hadamard matrix itself.

    References
    ----------
    .. [1] F. X. Yu, A. T. Suresh, K. Choromanski, D. Holtmann-Rice and S. Kumar, "Orthogonal random features",
       Advances in Neural Information Processing Systems 29, 2016.

    Examples
    --------
    >>> import numpy as np
    >>> X, signs = np.array([[3.0, 1.0, 0.0]]), np.ones((1, 1, 4))
    >>> sign_hadamard(X, signs, np.empty((1, 4)))
    array([[2., 1., 2., 1.]])
    """
    name = "sign_hadamard"
    _check_inputs(name, X, signs)
    dispatch.check_out(name, out, X)
    blocks, _, width = signs.shape
    dispatch.check_projections(name, "columns of out", out.shape[1], blocks, width)
    dispatch.check_function(name, function)
    dispatch.check_radii(name, radii, out)
    dispatch.check_separate(name, out, {"X": X, "signs": signs})
    dispatch.kernels.sign_hadamard(X, signs, out, radii, function, float(scale), bool(product))
    return out


def sign_hadamard_pairs(
    X: FloatArray, signs: FloatArray, radii: FloatArray, scale: float, out: FloatArray
) -> FloatArray:
    """Fill `out` with the scaled cosines and sines of the angles ``radii * sign_hadamard(X)``.

    The angles are never in memory all at once, and the cost is close to that of writing the output.

    Parameters
    ----------
    X, signs : ndarrays of shape (n, d) and (blocks, k, P)
        Rows and entries +1 or -1, as in `sign_hadamard`.
    radii : ndarray of shape (m,), (blocks - 1) * P < m <= blocks * P
        Factor of each projection, in the dtype of `X`.
    scale, out : float and ndarray of shape (n, D), m <= D <= 2m
        Factor of the results, and output for m cosines and D - m sines, as in `sincos_pairs`. `out` shares no memory
        with the other arrays.

    Returns
    -------
    ndarray of shape (n, D)
        The array `out`, with the cosines of all blocks before the sines.

    Examples
    --------
    >>> import numpy as np
    >>> X, signs = np.array([[2.0, 0.0]]), np.ones((1, 2, 2))
    >>> sign_hadamard_pairs(X, signs, np.array([np.pi / 4, 1.0]), 1.0, np.empty((1, 4))).round(12)
    array([[0., 1., 1., 0.]])
    """
    name = "sign_hadamard_pairs"
    _check_inputs(name, X, signs)
    dispatch.check_array(name, "radii", radii, 1, X.dtype)
    dispatch.check_out(name, out, X)
    blocks, _, width = signs.shape
    dispatch.check_projections(name, "radii", len(radii), blocks, width)
    dispatch.check_pair_width(name, len(radii), out)
    dispatch.check_separate(name, out, {"X": X, "signs": signs, "radii": radii})
    dispatch.kernels.sign_hadamard_pairs(X, signs, radii, float(scale), out)
    return out


def _check_inputs(function: str, X: FloatArray, signs: FloatArray) -> None:
    """Require that `X` has d columns, and `signs` the shape (blocks, k, P) with a power of two P >= d.

    Both must have the same dtype. The error names the caller, `function`.
    """
    dispatch.check_array(function, "X", X, 2)
    dispatch.check_array(function, "signs", signs, 3, X.dtype)
    blocks, repeats, width = signs.shape
    if blocks < 1 or repeats < 1:
        msg = f"{function}: signs must have at least one block and one repeat, got shape {signs.shape}"
        raise ValueError(msg)
    dispatch.check_width(function, "signs", width, X)
