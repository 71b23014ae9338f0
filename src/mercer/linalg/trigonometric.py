"""Cosines and sines of angles, written where they are wanted."""

from mercer.linalg import arguments
from mercer.linalg.dispatch import kernels
from mercer.linalg.twins import FloatArray

__all__ = ["cosines", "sincos_pairs"]


def sincos_pairs(angles: FloatArray, scale: float, out: FloatArray) -> FloatArray:
    """Write the scaled cosines, then the scaled sines, of a matrix of angles.

    Parameters
    ----------
    angles : ndarray of shape (n, m)
        Angles in radians, float32 or float64.
    scale : float
        Factor of every cosine and sine.
    out : ndarray of shape (n, D), m <= D <= 2m
        Filled with `m` columns of cosines and the sines of the first ``D - m`` angles. Has the dtype of
        `angles` and shares no memory with it.

    Returns
    -------
    ndarray of shape (n, D)
        The array `out`.

    Examples
    --------
    >>> import numpy as np
    >>> angles = np.array([[0.0, np.pi / 2]])
    >>> sincos_pairs(angles, 2.0, np.empty((1, 3))).round(12)
    array([[2., 0., 0.]])
    """
    name = "sincos_pairs"
    arguments.check_array(name, "angles", angles, 2)
    arguments.check_out(name, out, angles)
    arguments.check_pair_width(name, angles.shape[1], out)
    arguments.check_separate(name, "angles", angles, out)
    kernels().sincos_pairs(angles, float(scale), out)
    return out


def cosines(angles: FloatArray, phases: FloatArray, scale: float, out: FloatArray) -> FloatArray:
    """Write the scaled cosines of a matrix of angles, each column shifted by a phase.

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
        itself, but not overlap it in another way.

    Returns
    -------
    ndarray of shape (n, m)
        The array `out`.

    Examples
    --------
    >>> import numpy as np
    >>> angles = np.zeros((1, 2))
    >>> cosines(angles, np.array([0.0, np.pi]), 3.0, out=angles)
    array([[ 3., -3.]])
    """
    name = "cosines"
    arguments.check_array(name, "angles", angles, 2)
    arguments.check_array(name, "phases", phases, 1, angles.dtype)
    arguments.check_out(name, out, angles)
    m = angles.shape[1]
    arguments.check_columns(name, "phases", len(phases), m)
    arguments.check_columns(name, "out", out.shape[1], m)
    in_place = angles.ctypes.data == out.ctypes.data and angles.strides == out.strides
    if not in_place:
        arguments.check_separate(name, "angles", angles, out)
    arguments.check_separate(name, "phases", phases, out)
    kernels().cosines(angles, phases, float(scale), out)
    return out
