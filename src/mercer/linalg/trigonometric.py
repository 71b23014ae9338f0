"""Cosines and sines of matrices of angles, written into an array that the caller provides."""

from mercer.linalg import dispatch
from mercer.linalg.numpy_kernels import FloatArray

__all__ = ["cosines", "sincos_pairs"]


def sincos_pairs(angles: FloatArray, scale: float, out: FloatArray) -> FloatArray:
    """Fill the columns of `out` with the scaled cosines, then with the scaled sines, of a matrix of angles.

    Parameters
    ----------
    angles : ndarray of shape (n, m)
        Angles in radians, float32 or float64.
    scale : float
        Factor of every cosine and sine.
    out : ndarray of shape (n, D), m <= D <= 2m
        Filled with `m` columns of cosines and the sines of the first ``D - m`` angles of each row. Has the dtype
        of `angles` and shares no memory with it.

    Returns
    -------
    ndarray of shape (n, D)
        The array `out`, with cosines first.

    See Also
    --------
    dense_pairs, sign_hadamard_pairs, butterfly_pairs : The same for angles that are projections of rows.

    Examples
    --------
    >>> import numpy as np
    >>> angles = np.array([[0.0, np.pi / 2]])
    >>> sincos_pairs(angles, 2.0, np.empty((1, 3))).round(12)
    array([[2., 0., 0.]])
    """
    name = "sincos_pairs"
    dispatch.check_array(name, "angles", angles, 2)
    dispatch.check_out(name, out, angles)
    dispatch.check_pair_width(name, angles.shape[1], out)
    dispatch.check_separate(name, out, {"angles": angles})
    dispatch.kernels.sincos_pairs(angles, float(scale), out)
    return out


def cosines(angles: FloatArray, phases: FloatArray, scale: float, out: FloatArray) -> FloatArray:
    """Fill `out` with ``scale * cos(angles + phases)``, for a matrix of angles and one phase per column.

    Parameters
    ----------
    angles : ndarray of shape (n, m)
        Angles in radians, float32 or float64.
    phases : ndarray of shape (m,)
        Added to every row, in the dtype of `angles`.
    scale : float
        Factor of every cosine.
    out : ndarray of shape (n, m)
        Filled with ``scale * cos(angles + phases)``. Has the dtype of `angles`; it may be `angles`
        itself, but must not overlap it in any other way.

    Returns
    -------
    ndarray of shape (n, m)
        The array `out`, which may be `angles`.

    Examples
    --------
    >>> import numpy as np
    >>> angles = np.zeros((1, 2))
    >>> cosines(angles, np.array([0.0, np.pi]), 3.0, out=angles)
    array([[ 3., -3.]])
    """
    name = "cosines"
    dispatch.check_array(name, "angles", angles, 2)
    dispatch.check_array(name, "phases", phases, 1, angles.dtype)
    dispatch.check_out(name, out, angles)
    m = angles.shape[1]
    dispatch.check_length(name, "phases", phases, m)
    dispatch.check_columns(name, out, m)
    in_place = angles.ctypes.data == out.ctypes.data and angles.strides == out.strides
    if not in_place:
        dispatch.check_separate(name, out, {"angles": angles})
    dispatch.check_separate(name, out, {"phases": phases})
    dispatch.kernels.cosines(angles, phases, float(scale), out)
    return out
