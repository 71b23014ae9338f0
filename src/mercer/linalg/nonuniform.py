"""Non-uniform fast Fourier transforms: trigonometric sums over points, and values of trigonometric series at points.

The transforms are those of the package finufft if it is installed, and otherwise of a twin in NumPy, which has the same
accuracy and takes 5 to 30 times as long, most for three axes. Both spread each point over a fine grid by a kernel of w
points per axis, where w grows with the logarithm of the accuracy, and both take one thread: the result for given points
is the same to the bit in every call.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
import scipy.fft
from numpy.typing import NDArray

__all__ = ["has_finufft", "series_values", "trigonometric_sums"]

Array = NDArray[Any]
# Points that the twin in NumPy spreads at a time, so that its temporary arrays stay small.
CHUNK = 65_536
# Least relative error that the transforms are asked for.
LEAST_EPS = 1e-12
# Ratio of the fine grid to the frequencies. finufft would otherwise choose it by the number of points, so that values
# at a point would depend on the other points.
UPSAMPLING = 2.0


@cache
def has_finufft() -> bool:
    """Return whether the package finufft is installed."""
    try:
        import finufft  # noqa: F401
    except ImportError:
        return False
    return True


def trigonometric_sums(angles: Sequence[Array], strengths: Array, shape: tuple[int, ...], eps: float) -> Array:
    """Return the sums over points i of c_i exp(-i k . t_i), for all integer vectors k of a centered box.

    Parameters
    ----------
    angles : sequence of ndarrays of shape (n,)
        The coordinates of the points t_i, one array for each of one to three axes, in float64.
    strengths : ndarray of shape (n,)
        The numbers c_i, complex128.
    shape : tuple of int
        Odd numbers 2 m + 1 of frequencies along each axis, from -m to m.
    eps : float
        Error relative to the sum of the absolute values of the strengths.

    Returns
    -------
    ndarray of the given shape, complex128
    """
    eps = max(eps, LEAST_EPS)
    if not len(strengths):  # which finufft refuses
        return np.zeros(shape, complex)
    if has_finufft():
        import finufft

        transform = getattr(finufft, f"nufft{len(angles)}d1")
        axes = [np.ascontiguousarray(a, dtype=np.float64) for a in angles]
        return transform(*axes, strengths, shape, eps=eps, isign=-1, nthreads=1, upsampfac=UPSAMPLING)
    return numpy_sums(angles, strengths, shape, eps)


def series_values(angles: Sequence[Array], coefficients: Array, eps: float) -> Array:
    """Return the sums over integer vectors k of a_k exp(i k . t_i), for all points i: one complex number per point.

    Parameters
    ----------
    angles : sequence of ndarrays of shape (n,)
        The coordinates of the points t_i.
    coefficients : ndarray
        The numbers a_k, complex128, in a centered box with 2 m + 1 frequencies along each axis.
    eps : float
        Error relative to the largest value.

    Returns
    -------
    ndarray of shape (n,), complex128
    """
    eps = max(eps, LEAST_EPS)
    if not len(angles[0]):
        return np.zeros(0, complex)
    if has_finufft():
        import finufft

        transform = getattr(finufft, f"nufft{len(angles)}d2")
        axes = [np.ascontiguousarray(a, dtype=np.float64) for a in angles]
        return transform(*axes, np.ascontiguousarray(coefficients), eps=eps, isign=1, nthreads=1, upsampfac=UPSAMPLING)
    return numpy_values(angles, coefficients, eps)


# ---- the twin ---------------------------------------------------------------------------------


def numpy_sums(angles: Sequence[Array], strengths: Array, shape: tuple[int, ...], eps: float) -> Array:
    """Return the result of `trigonometric_sums`, computed by NumPy: w^d additions per point, and one FFT."""
    width, fine = spreading(shape, eps)
    real, imaginary = np.zeros(math.prod(fine)), np.zeros(math.prod(fine))
    for start in range(0, len(strengths), CHUNK):
        rows = slice(start, start + CHUNK)
        c = strengths[rows]
        for index, weight in stencils([a[rows] for a in angles], fine, width):
            real += np.bincount(index, weight * c.real, len(real))
            imaginary += np.bincount(index, weight * c.imag, len(real))
    spectrum = scipy.fft.fftn((real + 1j * imaginary).reshape(fine), overwrite_x=True)
    return deconvolved(spectrum[np.ix_(*centered(shape, fine))], fine, width)


def numpy_values(angles: Sequence[Array], coefficients: Array, eps: float) -> Array:
    """Return the result of `series_values`, computed by NumPy."""
    width, fine = spreading(coefficients.shape, eps)
    padded = np.zeros(fine, complex)
    padded[np.ix_(*centered(coefficients.shape, fine))] = deconvolved(coefficients, fine, width)
    grid = scipy.fft.ifftn(padded, norm="forward", overwrite_x=True).ravel()
    out = np.zeros(len(angles[0]), complex)
    for start in range(0, len(out), CHUNK):
        rows = slice(start, start + CHUNK)
        for index, weight in stencils([a[rows] for a in angles], fine, width):
            out[rows] += weight * grid[index]
    return out


def spreading(shape: tuple[int, ...], eps: float) -> tuple[int, tuple[int, ...]]:
    """Return the number of points per axis over which a point is spread, and the shape of the fine grid."""
    width = math.ceil(-math.log10(eps)) + 1
    fine = (scipy.fft.next_fast_len(max(math.ceil(UPSAMPLING * n), 2 * width)) for n in shape)
    return width, tuple(fine)


def centered(shape: tuple[int, ...], fine: tuple[int, ...]) -> list[Array]:
    """Return the indices of centered frequencies in the output of a transform of the shape `fine`."""
    return [np.arange(-(n // 2), n // 2 + 1) % size for n, size in zip(shape, fine, strict=True)]


def stencils(angles: Sequence[Array], fine: tuple[int, ...], width: int) -> Any:
    """Yield flat indices into the fine grid and weights of all points, for each of the width^d offsets."""
    near: list[tuple[list[Array], list[Array]]] = []
    for a, size in zip(angles, fine, strict=True):
        position = np.mod(np.asarray(a, dtype=np.float64), 2 * np.pi) * (size / (2 * np.pi))
        first = np.ceil(position - width / 2).astype(np.int64)
        at = [(first + i) % size for i in range(width)]
        near.append((at, [bump(first + i - position, width) for i in range(width)]))
    for offsets in itertools.product(range(width), repeat=len(fine)):
        index: Any = 0
        weight: Any = 1.0
        for (at, values), offset, size in zip(near, offsets, fine, strict=True):
            index = index * size + at[offset]
            weight = weight * values[offset]
        yield index, weight


def bump(z: Array, width: int) -> Array:
    """Return the spreading kernel exp(b (sqrt(1 - (2 z / w)^2) - 1)), b = 2.3 w (Barnett et al. 2019)."""
    root = np.sqrt(np.maximum(1 - np.square(2 * z / width), 0))
    return np.exp(2.3 * width * (root - 1))


def deconvolved(values: Array, fine: tuple[int, ...], width: int) -> Array:
    """Return values of centered frequencies divided by the Fourier transform of the spreading kernel."""
    for axis, (n, size) in enumerate(zip(values.shape, fine, strict=True)):
        factors = 1 / transform_of_bump(n // 2, size, width)
        values = values * factors.reshape([-1 if a == axis else 1 for a in range(values.ndim)])
    return values


@lru_cache(maxsize=64)
def transform_of_bump(highest: int, size: int, width: int) -> Array:
    """Return the Fourier transform of the spreading kernel at frequencies from -highest to highest."""
    nodes, weights = np.polynomial.legendre.leggauss(40 + 3 * width)
    k = np.arange(-highest, highest + 1)
    return (
        (width / 2)
        * (bump(nodes * width / 2, width) * weights)
        @ np.cos(np.outer(nodes * width / 2, 2 * np.pi * k / size))
    )
