"""Evidence of a Gaussian process on a grid, and its gradient.

With A = D G D + s^2 I and b = A^-1 D c, the logarithm of the evidence of targets y is
-1/2 ((|y|^2 - c'D b) / s^2 + log det A + (n - M) log s^2 + n log(2 pi)), and its derivative with respect to log d_m is
b_m^2 - 1 + s^2 (A^-1)_mm: all hyperparameters of the kernel act through the weights d_m^2, so that their derivatives
need no more than the diagonal of the inverse.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from mercer.kernels.isotropic import IsotropicKernel
from mercer.solvers.grid.systems import System, dense_factor, inverse_of
from mercer.theory.fourier.grid import frequency_weights

__all__ = ["Evidence", "evidence_of", "lengthscale_slopes"]

Array = np.ndarray
# Step of the numerical derivative of the logarithm of a spectral density with respect to that of the frequency.
STEP = 1e-4


@dataclass(frozen=True, eq=False)
class Evidence:
    """Logarithm of the evidence, summed over targets, and its derivatives."""

    value: float
    by_root: Array  # (M,), with respect to log d_m
    by_noise: float  # with respect to log s
    by_amplitude: float  # with respect to the logarithm of a common factor of the d_m and of the root of `rest`


def evidence_of(
    system: System, roots: Array, noise: float, *, rest: float = 0.0, gradient: bool = True
) -> Evidence | None:
    """Return the evidence by a Cholesky factorization, in O(M^3) operations; None if A is not positive definite.

    Parameters
    ----------
    system : System
        The sums over rows.
    roots : ndarray of shape (M,)
        The standard deviations d_m of the coefficients.
    noise : float
        Standard deviation s of the noise, in the unit of the scaled targets.
    rest : float, default=0.0
        Variance of the frequencies that are left out, whose sum with all d_m^2 is constant. To rows that are not closer
        than the shortest of the other wavelengths it is noise, and it is added to s^2.
    gradient : bool, default=True
        Whether derivatives are computed; otherwise they are zero.
    """
    square, M, t = noise**2 + rest, len(roots), system.cross.shape[1]
    factor = dense_factor(system.gram, roots, float(np.sqrt(square)))
    if factor is None:
        return None
    right = roots[:, None] * system.cross
    half = scipy.linalg.solve_triangular(factor, right, trans="T", check_finite=False)
    quadratic = np.maximum(system.squares - np.square(half).sum(axis=0), 0.0) / square
    determinant = 2 * float(np.log(np.diagonal(factor)).sum())
    n = system.weight
    value = -0.5 * float(quadratic.sum() + t * (determinant + (n - M) * np.log(square) + n * np.log(2 * np.pi)))
    if not gradient:
        return Evidence(value, np.zeros(M), 0.0, 0.0)
    b = scipy.linalg.solve_triangular(factor, half, check_finite=False)
    diagonal = np.diagonal(inverse_of(factor))
    squares = np.square(b).sum(axis=1)
    by_root = squares - t * (1 - square * diagonal)
    by_noise = float(quadratic.sum() - squares.sum() - t * (square * diagonal.sum() + n - M))
    # With respect to the logarithm of the root of s^2 + rest, of which s and, with the opposite sign, d_m^2 are parts.
    if rest:
        by_root -= by_noise * np.square(roots) / square
    by_amplitude = float(by_root.sum()) + (by_noise * (rest + float(np.square(roots).sum())) / square if rest else 0.0)
    return Evidence(value, by_root, by_noise * noise**2 / square, by_amplitude)


def lengthscale_slopes(kernel: IsotropicKernel, spacing: Array, index: Array) -> Array:
    """Return derivatives of log d_m with respect to the log lengthscale of each axis, for frequency zero and others.

    Parameters
    ----------
    kernel : IsotropicKernel
        The kernel.
    spacing : ndarray of shape (d,)
        Spacings, in cycles per lengthscale.
    index : ndarray of shape (p, d)
        Integer vectors of the frequencies.

    Returns
    -------
    ndarray of shape (1 + p, d)
    """
    complete = np.concatenate([np.zeros((1, index.shape[1])), index]) * spacing
    square = np.square(complete).sum(axis=1)
    one = np.ones(len(spacing))
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = (np.log(frequency_weights(kernel, one, complete * np.exp(sign * STEP))) for sign in (-1, 1))
        slope = (high - low) / (2 * STEP)  # of the log density, with respect to the log frequency
    # Where the density underflows, the weight is zero and its slope does not matter.
    share = np.where(np.isfinite(slope) & (square > 0), slope, 0.0) / np.where(square > 0, square, 1.0)
    return 0.5 * (1 + share[:, None] * np.square(complete))
