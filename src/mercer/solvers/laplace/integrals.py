r"""Probabilities of labels, averaged over normally distributed latent values.

For two labels the average :math:`E\,\sigma(f)` of the logistic function over :math:`f \sim N(m, s^2)` is computed by
the trapezoidal rule, whose error decreases exponentially with the number of nodes for analytic functions [1]_. For
small s the variable is the standardized latent value. For large s the logistic function is a step on the scale of the
nodes, and the same number is written as :math:`\int \Phi((m - l) / s)\, \sigma'(l)\, dl`. For more labels the softmax
is averaged over a fixed set of quasi-random normal vectors and their negatives. Derivatives are those of these sums.

References
----------
.. [1] Trefethen, Weideman (2014), The exponentially convergent trapezoidal rule, SIAM Review 56, 385-458.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy import special

__all__ = ["average_probabilities", "log_probabilities"]

Array = np.ndarray
# Standard deviation above which the second form is used.
WIDE = 1.5
# Nodes of the two forms. The integrands are analytic in strips of half-widths pi / s >= 2.09 and pi, so that errors are
# about exp(-2 pi 2.09 / 0.4) = 5e-15 and exp(-2 pi pi / 0.6) = 5e-15.
NORMAL_NODES = 0.4 * np.arange(-21, 22)
LOGISTIC_NODES = 0.6 * np.arange(-75, 76)
# Number of quasi-random vectors, half of which are the negatives of the others.
VECTORS = 128
# Number of entries of the arrays of a block.
ENTRIES = 2_000_000


def average_probabilities(mean: Array, variance: Array) -> Array:
    """Return the probabilities (n, K) of labels, given means and variances (n, columns) of latent values.

    The latent values of a row are independent. For two labels there is a single one, of the second label.
    """
    n, columns = mean.shape
    out = np.empty((n, max(2, columns)))
    deviation = np.sqrt(variance)
    step = max(1, ENTRIES // (len(LOGISTIC_NODES) if columns == 1 else VECTORS * columns))
    for first in range(0, n, step):
        rows = slice(first, first + step)
        if columns == 1:
            m, s = mean[rows, 0], deviation[rows, 0]
            out[rows, 0], out[rows, 1] = average_logistic(-m, s), average_logistic(m, s)
        else:
            out[rows] = average_softmax(mean[rows], deviation[rows])
    return out / out.sum(axis=1, keepdims=True)


def log_probabilities(mean: Array, variance: Array, codes: Array) -> tuple[Array, Array, Array]:
    """Return the logarithms of the averaged probabilities of given labels, and their derivatives.

    Parameters
    ----------
    mean, variance : ndarray of shape (n, columns)
        Means and variances of latent values, as in `average_probabilities`.
    codes : ndarray of shape (n,)
        Indices of the labels.

    Returns
    -------
    values : ndarray of shape (n,)
        Logarithms of probabilities.
    in_mean, in_deviation : ndarray of shape (n, columns)
        Their derivatives with respect to means and standard deviations.
    """
    n, columns = mean.shape
    deviation = np.sqrt(variance)
    chosen, in_mean, in_deviation = np.empty(n), np.empty((n, columns)), np.empty((n, columns))
    step = max(1, ENTRIES // (len(LOGISTIC_NODES) if columns == 1 else VECTORS * columns))
    for first in range(0, n, step):
        rows = slice(first, first + step)
        if columns == 1:
            sign = 2.0 * codes[rows] - 1.0
            m, s = sign * mean[rows, 0], deviation[rows, 0]
            chosen[rows] = average_logistic(m, s)
            slope, second = logistic_derivatives(m, s)
            # By the heat equation, the derivative in the variance is half the second derivative in the mean.
            in_mean[rows, 0], in_deviation[rows, 0] = sign * slope, s * second
        else:
            chosen[rows], in_mean[rows], in_deviation[rows] = softmax_derivatives(
                mean[rows], deviation[rows], codes[rows]
            )
    chosen = np.maximum(chosen, np.finfo(float).tiny)
    return np.log(chosen), in_mean / chosen[:, None], in_deviation / chosen[:, None]


def average_logistic(mean: Array, deviation: Array) -> Array:
    """Return the averages (n,) of the logistic function over normal variables, to relative rounding accuracy."""
    out = np.empty_like(mean)
    narrow = deviation <= WIDE
    m, s = mean[narrow, None], deviation[narrow, None]
    density = np.exp(-0.5 * np.square(NORMAL_NODES))
    out[narrow] = special.expit(m + s * NORMAL_NODES) @ (density / density.sum())
    m, s = mean[~narrow, None], deviation[~narrow, None]
    density = special.expit(LOGISTIC_NODES) * special.expit(-LOGISTIC_NODES)
    out[~narrow] = special.ndtr((m - LOGISTIC_NODES) / s) @ (density / density.sum())
    return out


def logistic_derivatives(mean: Array, deviation: Array) -> tuple[Array, Array]:
    """Return the first and the second derivatives (n,) of `average_logistic` with respect to the mean."""
    first, second = np.empty_like(mean), np.empty_like(mean)
    narrow = deviation <= WIDE
    m, s = mean[narrow, None], deviation[narrow, None]
    density = np.exp(-0.5 * np.square(NORMAL_NODES))
    density /= density.sum()
    P = special.expit(m + s * NORMAL_NODES)
    slopes = P * special.expit(-m - s * NORMAL_NODES)
    first[narrow], second[narrow] = slopes @ density, (slopes * (1 - 2 * P)) @ density
    m, s = mean[~narrow, None], deviation[~narrow, None]
    density = special.expit(LOGISTIC_NODES) * special.expit(-LOGISTIC_NODES)
    density /= density.sum()
    z = (m - LOGISTIC_NODES) / s
    slopes = np.exp(-0.5 * np.square(z)) / (np.sqrt(2 * np.pi) * s)
    first[~narrow], second[~narrow] = slopes @ density, (-slopes * z / s) @ density
    return first, second


def softmax_of_vectors(mean: Array, deviation: Array) -> Array:
    """Return the softmax (VECTORS, n, K) of the latent values of each of the normal vectors."""
    F = mean + deviation * normal_vectors(mean.shape[1])[:, None, :]
    F -= F.max(axis=2, keepdims=True)
    np.exp(F, out=F)
    F /= F.sum(axis=2, keepdims=True)
    return F


def average_softmax(mean: Array, deviation: Array) -> Array:
    """Return the averages (n, K) of the softmax over independent normal variables."""
    return softmax_of_vectors(mean, deviation).mean(axis=0)


def softmax_derivatives(mean: Array, deviation: Array, codes: Array) -> tuple[Array, Array, Array]:
    """Return the average (n,) of the softmax at given labels, and its derivatives in means and deviations (n, K)."""
    F = softmax_of_vectors(mean, deviation)
    rows = np.arange(len(codes))
    chosen = F[:, rows, codes]
    slopes = F
    slopes *= -chosen[:, :, None]
    slopes[:, rows, codes] += chosen
    in_deviation = np.einsum("vnk,vk->nk", slopes, normal_vectors(mean.shape[1]))
    return chosen.mean(axis=0), slopes.mean(axis=0), in_deviation / VECTORS


@cache
def normal_vectors(dimension: int) -> Array:
    """Return quasi-random normal vectors (VECTORS, dimension), followed by their negatives."""
    from scipy.stats import qmc

    points = qmc.Sobol(dimension, rng=np.random.default_rng(20263)).random(VECTORS // 2)
    half = special.ndtri(points)
    # Exact second moments of every coordinate, so that small variances have the right effect to first order.
    half /= np.sqrt(np.square(half).mean(axis=0))
    return np.concatenate([half, -half])
