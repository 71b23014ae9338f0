"""What the compiled kernels compute, said in NumPy; they serve when the kernels are not installed.

Arguments are as in `mercer.linalg.dispatch`, which also checks them.
"""

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "FloatArray",
    "butterfly",
    "butterfly_pairs",
    "cosines",
    "sign_hadamard",
    "sign_hadamard_pairs",
    "sincos_pairs",
]

FloatArray = NDArray[np.floating]


def sincos_pairs(angles: FloatArray, scale: float, out: FloatArray) -> None:
    """Fill the columns of `out` with scaled cosines of the angles, then with scaled sines."""
    m = angles.shape[1]
    with np.errstate(invalid="ignore"):  # an infinite angle gives NaN, as in the compiled kernels
        np.cos(angles, out=out[:, :m])
        np.sin(angles[:, : out.shape[1] - m], out=out[:, m:])
    out *= out.dtype.type(scale)


def cosines(angles: FloatArray, phases: FloatArray, scale: float, out: FloatArray) -> None:
    """Fill `out` with scaled cosines of the shifted angles."""
    with np.errstate(invalid="ignore"):
        np.add(angles, phases, out=out)
        np.cos(out, out=out)
    out *= out.dtype.type(scale)


def sign_hadamard(X: FloatArray, signs: FloatArray, out: FloatArray) -> None:
    """Fill `out`, block by block, with the rows of `X` after sign flips and Hadamard transforms."""
    n, d = X.shape
    width = signs.shape[2]
    for b, block_signs in enumerate(signs):
        V = np.zeros((n, width), X.dtype)
        V[:, :d] = X
        for s in block_signs:
            V = _hadamard(s * V) / np.sqrt(width, dtype=X.dtype)
        columns = out[:, b * width : (b + 1) * width]
        columns[...] = V[:, : columns.shape[1]]


def sign_hadamard_pairs(X: FloatArray, signs: FloatArray, radii: FloatArray, scale: float, out: FloatArray) -> None:
    """Fill `out` with the pairs of `sincos_pairs` at angles `radii * sign_hadamard(X)`."""
    angles = np.empty((len(X), len(radii)), X.dtype)
    sign_hadamard(X, signs, angles)
    angles *= radii
    sincos_pairs(angles, scale, out)


def butterfly(
    X: FloatArray,
    signs: FloatArray,
    order: NDArray[np.int64],
    multipliers: FloatArray,
    factors: FloatArray,
    out: FloatArray,
) -> None:
    """Fill `out`, block by block, with the rows of `X` after signs, a Hadamard transform, signs and rotations."""
    n, width = len(X), signs.shape[1]
    mixed = np.empty((n, width), X.dtype)
    sign_hadamard(X, signs[None, :1], mixed)
    mixed *= signs[1]
    for b, block_order in enumerate(order):
        V = mixed[:, block_order]
        with np.errstate(invalid="ignore"):
            for level, row in enumerate(multipliers[b]):
                pairs = V.reshape(n, width >> (level + 1), 2, 1 << level)
                V = V + row * pairs[:, :, ::-1].reshape(n, width)
        columns = out[:, b * width : (b + 1) * width]
        np.multiply(V[:, : columns.shape[1]], factors[b, : columns.shape[1]], out=columns)


def butterfly_pairs(
    X: FloatArray,
    signs: FloatArray,
    order: NDArray[np.int64],
    multipliers: FloatArray,
    factors: FloatArray,
    radii: FloatArray,
    scale: float,
    out: FloatArray,
) -> None:
    """Fill `out` with the pairs of `sincos_pairs` at angles `radii * butterfly(X)`."""
    angles = np.empty((len(X), len(radii)), X.dtype)
    butterfly(X, signs, order, multipliers, factors, angles)
    angles *= radii
    sincos_pairs(angles, scale, out)


def _hadamard(V: FloatArray) -> FloatArray:
    """Multiply each row by the Sylvester-Hadamard matrix, in the order of `scipy.linalg.hadamard`."""
    n, width = V.shape
    half = 1
    with np.errstate(invalid="ignore"):  # infinite data give NaN
        while half < width:
            pairs = V.reshape(n, width // (2 * half), 2, half)
            first, second = pairs[:, :, 0], pairs[:, :, 1]
            V = np.stack([first + second, first - second], axis=2).reshape(n, width)
            half *= 2
    return V
