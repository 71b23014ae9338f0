r"""Variances of random Fourier estimates of one kernel value.

The kernel is shift-invariant, and :math:`\delta = x - y` is the difference of two rows. Parameters: `mass` is
:math:`Z = k(0)`, `k` is :math:`k(\delta)` and `k_double` is :math:`k(2\delta)`. The estimate of :math:`k(\delta)` is a
mean over random frequencies w, to which each sine-cosine pair contributes :math:`Z \cos(w^\top \delta)`. Derivations
are in `docs/theory/fourier.md`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer.theory.domains import AMBIENT, DISTANCES, NUMBERS, WEIGHTS, broadcast, checked, within

__all__ = ["cosine_variance", "orthogonal_covariance", "pair_term_variance", "phase_term_variance", "phase_variance"]

Array = np.ndarray
CONSISTENT = "at least 2 (k / mass)^2 - 1, as for every positive definite kernel"


@checked(k=NUMBERS, k_double=NUMBERS, mass=WEIGHTS)
def cosine_variance(k: Array, k_double: Array, mass: float | Array = 1.0) -> Array:
    r"""Return the variance of :math:`Z \cos(w^\top \delta)`, the kernel estimate from one sine-cosine pair.

    For the difference :math:`\delta = x - y` of two rows it is :math:`Z^2/2 + Z k(2\delta)/2 - k(\delta)^2` [1]_. An
    estimate from m independent frequencies has this variance divided by m.

    %(theory_values_of_a_pair)s

    %(theory_variances)s

    See Also
    --------
    phase_variance : The variance for one cosine of random phase.
    orthogonal_covariance : Covariance of the estimates from two orthogonal frequencies.
    fourier_failure : Bound on the probability of a large error.

    References
    ----------
    .. [1] Sutherland, Schneider (2015), On the Error of Random Fourier Features, UAI.

    Examples
    --------
    >>> import numpy as np
    >>> k = np.exp(-0.5)  # the Gaussian kernel at |delta| = 1
    >>> bool(np.isclose(cosine_variance(k, k**4), (1 - k**2) ** 2 / 2))
    True
    """
    ratio, double = _ratios("cosine_variance", k, k_double, mass)
    return _scaled(mass, np.maximum(pair_term_variance(ratio, double, 1.0), 0.0))


@checked(k=NUMBERS, k_double=NUMBERS, mass=WEIGHTS)
def phase_variance(k: Array, k_double: Array, mass: float | Array = 1.0) -> Array:
    r"""Return the variance of the kernel estimate from one cosine of random phase.

    The estimate is :math:`2 Z \cos(w^\top x + b) \cos(w^\top y + b)`. Its variance is `cosine_variance` plus
    :math:`Z^2/2`, which is due to the random phase b: for the difference :math:`\delta = x - y` of two rows it is
    :math:`Z^2 + Z k(2\delta)/2 - k(\delta)^2`.

    %(theory_values_of_a_pair)s

    %(theory_variances)s

    See Also
    --------
    cosine_variance : The variance for one sine-cosine pair.

    Examples
    --------
    >>> float(phase_variance(1.0, 1.0))
    0.5
    """
    ratio, double = _ratios("phase_variance", k, k_double, mass)
    return _scaled(mass, np.maximum(phase_term_variance(ratio, double, 1.0), 0.5))


def pair_term_variance(k: Array, k_double: Array, mass: float | Array) -> Array:
    """Return Z^2 / 2 + Z k_double / 2 - k^2 for Z = mass, as `cosine_variance` does.

    Arguments are not validated, and the result may be negative by rounding error, if the kernel values have rounding
    errors.
    """
    return 0.5 * mass * mass + 0.5 * mass * k_double - np.square(k)


def phase_term_variance(k: Array, k_double: Array, mass: float | Array) -> Array:
    """Return Z^2 + Z k_double / 2 - k^2 for Z = mass, as `phase_variance` does, without validation of the arguments."""
    return pair_term_variance(k, k_double, mass) + 0.5 * mass * mass


@checked(distance=DISTANCES, ambient=AMBIENT)
def orthogonal_covariance(distance: Array, ambient: int) -> Array:
    r"""Return the covariance of the cosines of two orthogonal random frequencies of the Gaussian kernel.

    The cosines are :math:`\cos(w_i^\top \delta)` for the difference :math:`\delta = x - y` of two rows. The frequencies
    of a kernel of lengthscale :math:`\ell` are :math:`w_i = r_i u_i / \ell`, where the directions :math:`u_1, u_2` are
    orthogonal, each uniform on the unit sphere of :math:`\mathbb{R}^P`, and the radii :math:`r_i \sim \chi_P` are
    independent. Then

    .. math:: \mathrm{Cov}[\cos(w_1^\top \delta), \cos(w_2^\top \delta)]
        = {}_1F_1(P; P/2; -s^2/2) - e^{-s^2}, \qquad s = \|\delta\| / \ell.

    Parameters
    ----------
    distance : float or ndarray
        Distances s in units of the lengthscale, at least zero. At infinite distance the covariance is zero.
    ambient : int
        Dimension P of the space of the frequencies, at least 2.

    Returns
    -------
    ndarray
        Covariances. Their absolute error is at most 1e-8; for s up to 25 it is close to the unit roundoff.

    See Also
    --------
    cosine_variance : Variance of the cosine of one frequency.

    Notes
    -----
    The mean of the product of the two cosines is the mean of :math:`\cos(s (r_1 g_1 + r_2 g_2))`, where
    :math:`(g_1, g_2)` are two coordinates of a uniform point on the unit sphere. Given the radii, it is the
    characteristic function of one coordinate of that point at :math:`s \sqrt{r_1^2 + r_2^2}`, and
    :math:`r_1^2 + r_2^2 \sim \chi^2_{2P}`. For small s the covariance is about :math:`-s^4 / (2 (P + 2))`.

    References
    ----------
    .. [1] Yu, Suresh, Choromanski, Holtmann-Rice, Kumar (2016), Orthogonal Random Features, NeurIPS, who
       bound this covariance for large P.

    Examples
    --------
    >>> f"{orthogonal_covariance(1.0, 16):.5f}"
    '-0.01122'
    """
    # By Kummer's transformation, 1F1(P; h; -x) = exp(-x) 1F1(-h; h; x) with h = P / 2. This is the mean of
    # (-h)_j / (h)_j over j ~ Poisson(x). These ratios are at most one in absolute value, so cancellation is harmless.
    far = distance > math.sqrt(700)  # both terms are below 1e-8 there
    x = 0.5 * np.square(np.where(far, 0.0, distance))
    h = 0.5 * ambient
    weight = np.exp(-x)
    total = np.zeros_like(x)
    ratio = 1.0
    last = int(x.max(initial=0) + 12 * np.sqrt(x.max(initial=0)) + 40)
    for j in range(last + 1):
        total += ratio * weight
        weight = weight * (x / (j + 1))
        ratio *= (j - h) / (j + h)
        if ratio == 0.0:
            break
    return np.where(far, 0.0, total - np.exp(-2 * x))


def _ratios(owner: str, k: Array, k_double: Array, mass: Any) -> tuple[Array, Array]:
    """Return r = k / mass and s = k_double / mass, clipped to -1 <= r <= 1 and 2 r^2 - 1 <= s <= 1.

    Every positive definite kernel satisfies these inequalities; values that violate them by more than rounding error
    raise `ParameterError`. The message names the function `owner`.
    """
    broadcast(owner, k=k, k_double=k_double, mass=mass)
    k = within(owner, "k", k, -mass, mass, "in [-mass, mass]")
    k_double = within(owner, "k_double", k_double, -mass, mass, "in [-mass, mass]")
    divisor = np.where(mass > 0, mass, 1.0)
    ratio, double = k / divisor, k_double / divisor
    return ratio, within(owner, "k_double / mass", double, 2 * np.square(ratio) - 1, 1.0, CONSISTENT)


def _scaled(mass: Any, variance: Array) -> Array:
    """Return mass^2 * variance: infinity where it exceeds the range of float64, and zero where `variance` is zero."""
    with np.errstate(over="ignore"):
        return mass * (mass * variance)
