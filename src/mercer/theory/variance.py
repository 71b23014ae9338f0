r"""Variances of random Fourier estimates of one kernel value.

Throughout, `mass` is k(0), `k` the kernel at lag :math:`\delta` and `k_double` at lag :math:`2\delta`, all with the
same mass. A frequency w contributes :math:`Z \cos(w^\top \delta)`; see MATHS S3.3 and C.2.
"""

from __future__ import annotations

import numpy as np

__all__ = ["cosine_variance", "orthogonal_covariance", "phase_variance"]


def cosine_variance(k: np.ndarray, k_double: np.ndarray, mass: float | np.ndarray = 1.0) -> np.ndarray:
    r"""Variance of :math:`Z \cos(w^\top \delta)`: one sine-cosine pair.

    Equals :math:`Z^2/2 + Z k(2\delta)/2 - k(\delta)^2`.

    Examples
    --------
    >>> import numpy as np
    >>> k = np.exp(-0.5)  # the Gaussian kernel at |delta| = 1
    >>> bool(np.isclose(cosine_variance(k, k**4), (1 - k**2) ** 2 / 2))
    True
    """
    return 0.5 * mass**2 + 0.5 * mass * k_double - np.square(k)


def phase_variance(k: np.ndarray, k_double: np.ndarray, mass: float = 1.0) -> np.ndarray:
    r"""Variance of :math:`2 Z \cos(w^\top x + b) \cos(w^\top y + b)`: one cosine of random phase.

    Equals `cosine_variance` plus :math:`Z^2/2`: the price of the phase.
    """
    return cosine_variance(k, k_double, mass) + 0.5 * mass**2


def orthogonal_covariance(distance: np.ndarray, ambient: int) -> np.ndarray:
    r"""Covariance of the cosines of two orthogonal frequencies of the Gaussian kernel.

    For :math:`w_i = r_i u_i` with orthogonal :math:`u_1, u_2`, uniform on the sphere of :math:`\mathbb{R}^P`, and
    independent radii :math:`r_i \sim \chi_P`,

    .. math:: \mathrm{Cov}[\cos(w_1^\top \delta), \cos(w_2^\top \delta)]
        = {}_1F_1(P; P/2; -s^2/2) - e^{-s^2}, \qquad s = \|\delta\| / \ell.

    Derivation: the product of cosines is :math:`\cos(s (r_1 g_1 + r_2 g_2))` on average, with (g_1, g_2) two
    coordinates of a point on the sphere; so it is the characteristic function of a uniform direction at radius
    :math:`s \sqrt{r_1^2 + r_2^2}`, and :math:`r_1^2 + r_2^2 \sim \chi^2_{2P}`. For small s it is
    :math:`-s^4 / (2 (P + 2))`.

    Parameters
    ----------
    distance : ndarray
        Distances in units of the lengthscale.
    ambient : int
        Dimension P of the sphere, at least 2.

    Returns
    -------
    ndarray
        Covariances, to an absolute accuracy of 1e-8 at worst, near the unit roundoff within 25 lengthscales.
    """
    # Kummer: 1F1(P; h; -x) = exp(-x) 1F1(-h; h; x), h = P / 2: a Poisson(x) mean of (-h)_j / (h)_j, whose terms are
    # at most one in size, so nothing cancels badly.
    x = 0.5 * np.square(np.asarray(distance, dtype=float))
    far = x > 350  # both terms are below 1e-8 there
    x = np.where(far, 0.0, x)
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
