r"""Errors of equispaced grids of Fourier frequencies for isotropic kernels; see `docs/theory/grid.md`.

A grid with spacing :math:`h_a` along axis a replaces the kernel by :math:`\sum_j |h|\, \hat k(h \circ j) \cos(2 \pi (h
\circ j)^\top (x - y))`, where |h| is the product of the spacings and j runs over finitely many integer vectors. By
Poisson's summation formula the sum over all j is the sum of :math:`k(x - y + P \circ n)` over all integer vectors n,
with periods :math:`P_a = 1 / h_a`.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy.optimize import brentq

from mercer.errors import ParameterError
from mercer.kernels.isotropic import IsotropicKernel
from mercer.theory.domains import AT_LEAST_ZERO, COUNT, NUMBERS, POSITIVE, checked, instance_of

__all__ = ["decay_distance", "frequency_weights", "grid_error", "grid_mean_error", "lattice_ball", "tail_radius"]

Array = np.ndarray
ISOTROPIC = instance_of(IsotropicKernel, "an isotropic kernel such as Gaussian()")
# Periodic images are summed up to the distance at which a kernel has decayed to this level, and to at most this number
# of periods along each axis.
NEGLIGIBLE = 1e-17
MOST_IMAGES = 30


@checked(kernel=ISOTROPIC, widths=NUMBERS, periods=NUMBERS, n_components=COUNT)
def grid_error(kernel: IsotropicKernel, widths: Array, periods: Array, n_components: int) -> float:
    r"""Return a bound on the error of the kernel from a grid of frequencies, for all pairs of rows in a box.

    The components are those of the lowest frequencies, a cosine and a sine each, and a constant. The error has two
    parts [1]_. *Aliasing*, the periodic images of the kernel, is at most the sum of :math:`k(P \circ n - L)` over
    integer vectors n other than zero. *Truncation* is at most the sum of the weights that are left out, :math:`\sum_n
    k(P \circ n) - \sum_j |h|\, \hat k(h \circ j)`, which is a finite sum.

    Parameters
    ----------
    kernel : IsotropicKernel
        The kernel, with a closed form of its spectral density, such as `Gaussian` or `Matern`.
    widths : array-like of shape (d,)
        Widths L of the box of rows, >= 0, along one to three axes.
    periods : array-like of shape (d,)
        Periods P of the features, > widths: the inverse spacings of the frequencies.
    n_components : int
        Number of components.

    Returns
    -------
    float
        The bound.

    See Also
    --------
    grid_mean_error : What an error of the kernel means for the mean of a Gaussian process.

    References
    ----------
    .. [1] Greengard, Rachh, Barnett (2022), Equispaced Fourier representations for efficient Gaussian process
       regression from a billion data points, arXiv:2210.10210.

    Examples
    --------
    >>> from mercer import Gaussian
    >>> [f"{grid_error(Gaussian(0.2), [1.0, 1.0], [2.0, 2.0], n):.0e}" for n in (25, 101, 401)]
    ['2e-01', '2e-03', '1e-05']
    """
    widths, periods = np.atleast_1d(widths), np.atleast_1d(periods)
    if kernel.closed_spectral_density is None:
        msg = f"grid_error: kernel must have a closed form of its spectral density, got {kernel!r}."
        raise ParameterError(msg)
    if not (widths.shape == periods.shape and widths.ndim == 1 and 1 <= len(widths) <= 3):
        msg = f"grid_error: widths and periods must be one to three numbers each, got {widths} and {periods}."
        raise ParameterError(msg)
    if not ((widths >= 0) & (periods > widths)).all():
        msg = f"grid_error: widths must be >= 0 and less than the periods, got {widths} and {periods}."
        raise ParameterError(msg)
    L, P = widths / kernel.lengthscale, periods / kernel.lengthscale
    d = len(L)
    count = np.minimum(np.ceil((decay_distance(kernel, NEGLIGIBLE) + L) / P), MOST_IMAGES).astype(int)
    images = np.array([n for n in itertools.product(*(range(-c, c + 1) for c in count)) if any(n)])
    nearest = np.maximum(np.abs(images) * P - L, 0.0)  # distance from an image, at least, for any pair of rows
    aliasing = float(kernel.profile(np.sqrt(np.square(nearest).sum(axis=1))).sum())
    complete = 1 + float(kernel.profile(np.sqrt(np.square(images * P).sum(axis=1))).sum())
    pairs = (n_components - 1) // 2
    index = lattice_ball(1 / P, pairs)
    retained = frequency_weights(kernel, 1 / P, np.concatenate([np.zeros((1, d)), index]))
    return aliasing + max(complete - float(retained[0] + 2 * retained[1:].sum()), 0.0)


@checked(error=AT_LEAST_ZERO, n_rows=COUNT, noise=POSITIVE, target_norm=AT_LEAST_ZERO, mass=POSITIVE)
def grid_mean_error(error: float, n_rows: int, *, noise: float, target_norm: float, mass: float = 1.0) -> float:
    r"""Return a bound on the error of the posterior mean of a Gaussian process, given a bound on that of its kernel.

    If all entries of the kernel differ by at most :math:`\epsilon`, the posterior mean at any row in the box differs by
    at most :math:`\epsilon \sqrt{n}\, |y| (1 + n k(0) / \sigma^2) / \sigma^2`.

    Parameters
    ----------
    error : float
        Bound :math:`\epsilon` on the error of the kernel.
    n_rows : int
        Number n of rows.
    noise : float
        Standard deviation :math:`\sigma` of the noise.
    target_norm : float
        Norm of the vector y of targets.
    mass : float, default=1.0
        Value k(0) of the kernel.

    Returns
    -------
    float
        The bound, infinite if it exceeds the range of float64. It holds for any rows, and is far from attained for
        most: `docs/theory/grid.md` has the criterion that decides in practice.

    Examples
    --------
    >>> f"{grid_mean_error(1e-12, 1000, noise=0.3, target_norm=30.0):.0e}"
    '1e-04'
    """
    if not error or not target_norm:
        return 0.0
    # Logarithms, because squares of small and large numbers leave the range of float64.
    log_square = 2 * math.log(noise)
    ratio = np.logaddexp(0.0, math.log(n_rows) + math.log(mass) - log_square)
    logarithm = math.log(error) + 0.5 * math.log(n_rows) + math.log(target_norm) - log_square + ratio
    with np.errstate(over="ignore"):
        return float(np.exp(logarithm))


# ---- lattices ---------------------------------------------------------------------------------


def frequency_weights(kernel: IsotropicKernel, spacing: Array, index: Array, factors: Array | None = None) -> Array:
    """Return the weights |h| khat(h j) of frequencies h j, where h is in cycles per lengthscale.

    If `factors` are given, lengthscales along the axes are multiplied by them, for the same frequencies.
    """
    d = len(spacing)
    f = np.ones(d) if factors is None else factors
    assert kernel.closed_spectral_density is not None
    radius = np.sqrt(np.square(index * (spacing * f)).sum(axis=1))
    with np.errstate(under="ignore"):
        return float(np.prod(spacing * f)) * kernel.closed_spectral_density(radius, d)


def decay_distance(kernel: IsotropicKernel, level: float) -> float:
    """Return the distance in lengthscales at which a kernel has decayed to `level`."""
    high = 1.0
    while kernel.profile(np.array([high]))[0] > level:
        high *= 2
        if high > 1e6:
            msg = f"{kernel!r} decays too slowly for a grid of frequencies: it is above {level} at 1e6 lengthscales."
            raise ParameterError(msg)
    return float(brentq(lambda r: float(kernel.profile(np.array([r]))[0]) - level, 0.0, high, xtol=1e-6))


def tail_radius(kernel: IsotropicKernel, spacing: Array, bound: float) -> float:
    """Return a radius beyond which the squares of the weights of all frequencies sum to at most `bound`.

    The sum over the lattice is replaced by the integral of |h| khat(s)^2 over all frequencies s beyond the radius.
    """
    d = len(spacing)
    assert kernel.closed_spectral_density is not None
    radius = np.geomspace(1e-3, 1e5, 4000)
    with np.errstate(under="ignore"):
        density = np.square(kernel.closed_spectral_density(radius, d)) * radius**d  # with respect to log(radius)
    surface = 2 * math.pi ** (d / 2) / math.gamma(d / 2)
    tails = surface * float(np.prod(spacing)) * np.cumsum(density[::-1])[::-1] * math.log(radius[1] / radius[0])
    return float(radius[min(int(np.searchsorted(-tails, -bound)), len(radius) - 1)])


def lattice_ball(spacing: Array, pairs: int) -> Array:
    """Return the `pairs` lowest frequencies h j, one of each pair h j and -h j without zero, as integer vectors j.

    They are in order of their lengths, and of their coordinates where lengths are equal up to rounding.
    """
    d = len(spacing)
    if not pairs:
        return np.zeros((0, d), np.int64)
    radius = float(np.exp(np.log(spacing).mean())) * (2 * pairs + 1) ** (1 / d)
    index = half_ball(spacing, radius)
    while len(index) < pairs:
        radius *= 1.3
        index = half_ball(spacing, radius)
    length = np.sqrt(np.square(index * spacing).sum(axis=1))
    order = np.lexsort([*index.T[::-1], np.round(length / length.max(), 12)])
    return index[order[:pairs]]


def half_ball(spacing: Array, radius: float) -> Array:
    """Return the integer vectors j with |h j| <= radius whose last nonzero entry is positive."""
    highest = [int(radius / h) for h in spacing]
    axes = [np.arange(-m, m + 1) for m in highest[:-1]] + [np.arange(highest[-1] + 1)]
    index = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(spacing))
    index = index[np.square(index * spacing).sum(axis=1) <= radius**2]
    positive = np.zeros(len(index), bool)
    undecided = ~positive
    for column in index.T[::-1]:
        positive |= undecided & (column > 0)
        undecided &= column == 0
    return index[positive]
