r"""Variances of random Fourier estimates of one kernel value.

Throughout, `mass` is :math:`Z = k(0)`, `k` the kernel at lag :math:`\delta` and `k_double` at lag :math:`2\delta`. A
frequency w contributes :math:`Z \cos(w^\top \delta)` to the estimate. Derivations are in `docs/theory/fourier.md`.
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
    r"""Return the variance of the term of one sine-cosine pair, :math:`Z \cos(w^\top \delta)`.

    It equals :math:`Z^2/2 + Z k(2\delta)/2 - k(\delta)^2` [1]_.

    Parameters
    ----------
    k : float or ndarray
        Kernel values :math:`k(\delta)`, in [-mass, mass].
    k_double : float or ndarray
        Values :math:`k(2\delta)` of the same kernel. :math:`Z k(2\delta) \ge 2 k(\delta)^2 - Z^2` for every positive
        definite kernel; values that violate it by more than rounding are refused.
    mass : float or ndarray, default=1.0
        Total mass :math:`Z = k(0)`, at least zero.

    %(theory_variances)s

    See Also
    --------
    phase_variance : The same for one cosine of random phase.
    orthogonal_covariance : Covariance of two such terms with orthogonal frequencies.
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
    r"""Return the variance of the term of one cosine of random phase.

    The term is :math:`2 Z \cos(w^\top x + b) \cos(w^\top y + b)`, and its variance is `cosine_variance` plus
    :math:`Z^2/2`, because the phase is random.

    Parameters
    ----------
    k, k_double, mass : float or ndarray
        As for `cosine_variance`.

    %(theory_variances)s

    See Also
    --------
    cosine_variance : The same for one sine-cosine pair.

    Examples
    --------
    >>> float(phase_variance(1.0, 1.0))
    0.5
    """
    ratio, double = _ratios("phase_variance", k, k_double, mass)
    return _scaled(mass, np.maximum(phase_term_variance(ratio, double, 1.0), 0.5))


def pair_term_variance(k: Array, k_double: Array, mass: float | Array) -> Array:
    """Return the formula of `cosine_variance` unchecked, for kernel values that carry rounding of other terms."""
    return 0.5 * mass * mass + 0.5 * mass * k_double - np.square(k)


def phase_term_variance(k: Array, k_double: Array, mass: float | Array) -> Array:
    """Return the formula of `phase_variance` unchecked."""
    return pair_term_variance(k, k_double, mass) + 0.5 * mass * mass


@checked(distance=DISTANCES, ambient=AMBIENT)
def orthogonal_covariance(distance: Array, ambient: int) -> Array:
    r"""Return the covariance of the cosines of two orthogonal frequencies of the Gaussian kernel.

    For :math:`w_i = r_i u_i` with orthogonal :math:`u_1, u_2`, uniform on the sphere of :math:`\mathbb{R}^P`, and
    independent radii :math:`r_i \sim \chi_P`,

    .. math:: \mathrm{Cov}[\cos(w_1^\top \delta), \cos(w_2^\top \delta)]
        = {}_1F_1(P; P/2; -s^2/2) - e^{-s^2}, \qquad s = \|\delta\| / \ell.

    Parameters
    ----------
    distance : float or ndarray
        Distances s in units of the lengthscale, at least zero; infinite ones have covariance zero.
    ambient : int
        Dimension P of the sphere, at least 2.

    Returns
    -------
    ndarray
        Covariances, to an absolute accuracy of 1e-8 at worst, near the unit roundoff within 25 lengthscales.

    See Also
    --------
    cosine_variance : Variance of one such cosine.

    Notes
    -----
    The mean of the product of the two cosines is the mean of :math:`\cos(s (r_1 g_1 + r_2 g_2))`, where
    :math:`(g_1, g_2)` are two coordinates of a point on the sphere. It is the characteristic function of a uniform
    direction at radius :math:`s \sqrt{r_1^2 + r_2^2}`, and :math:`r_1^2 + r_2^2 \sim \chi^2_{2P}`. For small s the
    covariance is :math:`-s^4 / (2 (P + 2))`.

    References
    ----------
    .. [1] Yu, Suresh, Choromanski, Holtmann-Rice, Kumar (2016), Orthogonal Random Features, NeurIPS, who
       bound this covariance for large P.

    Examples
    --------
    >>> f"{orthogonal_covariance(1.0, 16):.5f}"
    '-0.01122'
    """
    # Kummer: 1F1(P; h; -x) = exp(-x) 1F1(-h; h; x), h = P / 2: a Poisson(x) mean of (-h)_j / (h)_j, whose terms are
    # at most one in size, so nothing cancels badly.
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
    """Return k and k_double over the mass, clipped to what a positive definite kernel allows."""
    broadcast(owner, k=k, k_double=k_double, mass=mass)
    k = within(owner, "k", k, -mass, mass, "in [-mass, mass]")
    k_double = within(owner, "k_double", k_double, -mass, mass, "in [-mass, mass]")
    divisor = np.where(mass > 0, mass, 1.0)
    ratio, double = k / divisor, k_double / divisor
    return ratio, within(owner, "k_double / mass", double, 2 * np.square(ratio) - 1, 1.0, CONSISTENT)


def _scaled(mass: Any, variance: Array) -> Array:
    """Return mass squared times a variance, which may overflow, but is zero where the variance is."""
    with np.errstate(over="ignore"):
        return mass * (mass * variance)
