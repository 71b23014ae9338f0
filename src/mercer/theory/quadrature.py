r"""Bounds for spherical-radial rules of degree (3, 3), one theorem a function, and the one they are compared with.

A rule estimates :math:`E f(w)`, w standard normal in d dimensions, by one block of points :math:`w_j = \rho_j u_j` with
radii :math:`\rho_j \sim \chi(d + 2)`, and averages n independent rules. Its source is Munkhoeva, Kapushev, Burnaev and
Oseledets (2018), Quadrature-based features for kernel approximation, NeurIPS. Two of its theorems do not hold as
printed: Proposition 3.1 miscounts a covariance, and Proposition 3.2 takes the points of a rule as independent and their
terms as bounded by M where they are bounded by d M (MATHS S1.4 to S1.6). The functions have what can be proved.

Distances and diameters are in units of the lengthscale of the Gaussian kernel. For a scale mixture of Gaussian kernels,
with radii as `SphericalRadial` draws them, multiply them by the root of `mean_mixing` of the kernel.
"""

from __future__ import annotations

import math

import numpy as np

from mercer.errors import ParameterError
from mercer.theory.domains import check_positive, probability

__all__ = [
    "fourier_uniform_failure",
    "quadrature_failure",
    "quadrature_gaussian_variance",
    "quadrature_range",
    "quadrature_rules",
    "quadrature_uniform_failure",
    "quadrature_variance",
]

#: Root of E[L^2] / E|w|^2, from above, for the steepest slope L of the error: the features' part and the kernel's.
SLOPES = {"pairs": 1.0 + 1.0, "phase": 2.0 + math.sqrt(2)}


def quadrature_range(distance: np.ndarray | float, *, share: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    r"""Interval that every draw of a rule for the Gaussian kernel lies in: from :math:`1 - |\delta|^2 / 2` to 1.

    The rule is :math:`1 - \sum_j a_j^2 (1 - \cos w_j^\top \delta)`, constant and all, and
    :math:`0 \le 1 - \cos t \le t^2 / 2`; the points of a block make a tight frame,
    :math:`\sum_j a_j^2 w_j w_j^\top = I`. So it holds for any radii and any orthogonal matrix (MATHS S1.6). If only m
    of the N points of a block are kept, N = d for orthogonal ones and d + 1 for a simplex, the frame is at most N / m
    times as large, and the lower end :math:`1 - (N / m) |\delta|^2 / 2`.

    Parameters
    ----------
    distance : ndarray or float
        Distance :math:`|\delta|`.
    share : float, default=1.0
        Share m / N of the points of a block that are kept, in (0, 1].

    Returns
    -------
    lower, upper : ndarrays

    Examples
    --------
    >>> lower, upper = quadrature_range(0.5)
    >>> float(lower), float(upper)
    (0.875, 1.0)
    """
    if not 0 < share <= 1:
        msg = f"quadrature_range: share must be in (0, 1], got {share!r}."
        raise ParameterError(msg)
    lower = 1 - 0.5 * np.square(distance) / share
    return lower, np.ones_like(lower)


def quadrature_variance(n_rules: int, *, dimension: int, bound: float = 1.0, at_zero: float = 1.0) -> float:
    r"""Bound of the variance of the mean of n rules, whatever the function.

    .. math:: \frac{1}{n} \cdot \frac{2 f(0)^2 + d \kappa^4 + 2 \sqrt{2d}\, |f(0)| \kappa^2}{(d + 1)(d - 2)}

    Proposition 3.1, which prints :math:`(2 + \kappa^4 + \kappa^2) / (n (d - 2))`, corrected: the covariance of the
    constant with the points counts twice, and is bounded by the root of the product of their variances. It needs that
    the terms of two points of a rule are not positively correlated. That is so by definition for independent
    directions; for simplices it is measured for the Gaussian kernel, not proved. `quadrature_gaussian_variance` needs
    nothing of the kind.

    Parameters
    ----------
    n_rules : int
        Number n of independent rules of d + 1 points each.
    dimension : int
        Dimension d, at least 3: below it weights have no variance.
    bound : float, default=1.0
        Bound :math:`\kappa^2` of :math:`|f|`; one for a kernel of mass one.
    at_zero : float, default=1.0
        Value f(0); one for a kernel of mass one.

    Examples
    --------
    >>> round(quadrature_variance(100, dimension=16), 5)
    0.00123
    """
    check_positive("quadrature_variance", n_rules=n_rules, bound=bound)
    if not dimension >= 3:
        msg = f"quadrature_variance: dimension must be >= 3, or weights have no variance, got {dimension!r}."
        raise ParameterError(msg)
    constant = abs(at_zero)
    terms = 2 * constant**2 + dimension * bound**2 + 2 * math.sqrt(2 * dimension) * constant * bound
    return terms / (n_rules * (dimension + 1) * (dimension - 2))


def quadrature_gaussian_variance(distance: np.ndarray | float, n_rules: int) -> np.ndarray:
    r"""Bound of the variance of the mean of n rules for the Gaussian kernel: :math:`|\delta|^4 / (16 n)`.

    Popoviciu's inequality for values in an interval of length :math:`|\delta|^2 / 2`, `quadrature_range`: any radii,
    any dimension, no assumption on correlations.

    Examples
    --------
    >>> float(quadrature_gaussian_variance(1.0, 10))
    0.00625
    """
    check_positive("quadrature_gaussian_variance", n_rules=n_rules)
    return np.square(np.square(distance)) / (16 * n_rules)


def quadrature_failure(eps: float, n_rules: int, *, diameter: float) -> float:
    r"""Bound on the probability that one value is off by `eps` or more: :math:`2 \exp(-8 n \epsilon^2 / l^4)`.

    Hoeffding for n independent rules of range :math:`l^2 / 2`, `quadrature_range`. It replaces the pointwise part of
    Proposition 3.2, :math:`2 \exp(-2 D \epsilon^2)` for D points in all, which simulation refutes (MATHS S1.6, where
    an error of :math:`\epsilon / 2` is meant).

    Parameters
    ----------
    eps : float
        Error, in units of the mass of the kernel.
    n_rules : int
        Number n of independent rules, each with all of its points and its constant.
    diameter : float
        Largest distance l of two rows.

    Examples
    --------
    >>> round(quadrature_failure(0.05, 265, diameter=1.0), 3)
    0.01
    """
    check_positive("quadrature_failure", eps=eps, n_rules=n_rules, diameter=diameter)
    return probability(math.log(2) - 8 * n_rules * (eps / diameter**2) ** 2)


def quadrature_rules(eps: float, delta: float = 0.05, *, diameter: float) -> int:
    r"""Return the number of independent rules that put one value within `eps` with probability 1 - `delta`.

    The least n with `quadrature_failure` at most `delta`: :math:`n \ge l^4 \log(2 / \delta) / (8 \epsilon^2)`. A rule
    is d + 1 points of a simplex, or d orthogonal ones; two columns a point, and one for the constant of all.

    Parameters
    ----------
    eps : float
        Largest error, in units of the mass of the kernel.
    delta : float, default=0.05
        Probability of a larger error, in (0, 1).
    diameter : float
        Largest distance l of two rows.

    Examples
    --------
    >>> quadrature_rules(0.05, 0.01, diameter=1.0)
    265
    """
    check_positive("quadrature_rules", eps=eps, diameter=diameter)
    if not 0 < delta < 1:
        msg = f"quadrature_rules: delta must be in (0, 1), got {delta!r}."
        raise ParameterError(msg)
    return max(1, math.ceil(0.125 * (diameter**2 / eps) ** 2 * math.log(2 / delta)))


def quadrature_uniform_failure(eps: float, n_rules: int, *, dimension: int, diameter: float) -> float:
    r"""Bound on the probability that any two rows of a set of diameter l are off by `eps` or more.

    .. math:: \min_{r < \epsilon / L} 2 \Bigl(1 + \frac{2l}{r}\Bigr)^d
        \exp\Bigl(-\frac{8 n (\epsilon - r L)^2}{l^4}\Bigr), \qquad
        L = l + \max_{s \le l} s e^{-s^2 / 2}

    What can be proved in place of Proposition 3.2. Lags fill at most a ball of radius l, which has a net of
    :math:`(1 + 2l/r)^d` points at distance r; each obeys `quadrature_failure`. Between them the error moves by at most
    r L, surely: the slope of a rule is :math:`-\sum_j a_j^2 \sin(w_j^\top \delta)\, w_j`, of length at most
    :math:`|\delta|`, by Cauchy's inequality and :math:`\sum_j a_j^2 w_j w_j^\top = I`. So no moment of the slope is
    needed.

    Parameters
    ----------
    eps : float
        Error, in units of the mass of the kernel.
    n_rules : int
        Number n of independent rules, each with all of its points and its constant.
    dimension : int
        Number of columns d of the rows.
    diameter : float
        Largest distance l of two rows.

    Examples
    --------
    >>> round(quadrature_uniform_failure(0.1, 300, dimension=2, diameter=1.0), 4)
    0.0003
    """
    check_positive("quadrature_uniform_failure", eps=eps, n_rules=n_rules, dimension=dimension, diameter=diameter)
    steepest = min(diameter, 1.0)
    slope = diameter + steepest * math.exp(-0.5 * steepest**2)
    mesh = eps / slope * np.geomspace(1e-12, 0.999, 4000)
    at_nodes = -8 * n_rules * np.square((eps - mesh * slope) / diameter**2)
    return probability(float((math.log(2) + log_net(mesh, diameter, dimension) + at_nodes).min()))


def fourier_uniform_failure(
    eps: float,
    n_components: int,
    *,
    dimension: int,
    diameter: float,
    spread: float,
    variance: float | None = None,
    form: str = "pairs",
) -> float:
    r"""Bound on the same probability for D columns of iid Fourier features: what quadrature is compared with.

    .. math:: \min_r\; 2 \Bigl(1 + \frac{2l}{r}\Bigr)^{d'} e^{-D \epsilon^2 / c}
        + \Bigl(\frac{2 b \sigma r}{\epsilon}\Bigr)^2

    with d' = d, b = 2 and :math:`c = 16 \min(1, v + \epsilon/3)` for pairs (D/2 frequencies); d' = 2d,
    :math:`b = 2 + \sqrt 2` and :math:`c = \min(32, 8v + 4\epsilon)` for cosines of random phase. After Sutherland and
    Schneider (2015), On the error of random Fourier features, UAI, Propositions 1 and 2, whose exponents these are; the
    rest is derived anew. The usual bound :math:`\sigma^2` of the mean square of the slope of the error holds at a fixed
    place, not at the steepest one, where a single frequency already exceeds it: the triangle inequality gives
    :math:`b^2 \sigma^2`. And every radius r of the net is valid, so the best is found by search. (The quadrature paper
    compares itself with the phase form, the weaker of the two.)

    Parameters
    ----------
    eps : float
        Error, in units of the mass of the kernel.
    n_components : int
        Number D of columns.
    dimension : int
        Number of columns d of the rows.
    diameter : float
        Largest distance l of two rows, in the units of `spread`.
    spread : float
        Root :math:`\sigma` of the mean square length of a frequency: :math:`\sqrt d` for the Gaussian kernel of unit
        lengthscale.
    variance : float or None, default=None
        Largest variance v over all lags of one term, `cosine_variance` or `phase_variance`; None means that it is not
        known. For the Gaussian kernel 0.5 and 1 will do.
    form : {"pairs", "phase"}, default="pairs"
        Form of the features.

    Examples
    --------
    >>> settings = dict(dimension=2, diameter=1.0, spread=2**0.5)
    >>> round(fourier_uniform_failure(0.1, 25_000, variance=0.5, **settings), 4)
    0.0001
    >>> fourier_uniform_failure(0.1, 25_000, form="phase", **settings)
    1.0
    """
    owner = "fourier_uniform_failure"
    check_positive(owner, eps=eps, n_components=n_components, dimension=dimension, diameter=diameter, spread=spread)
    if form not in SLOPES:
        msg = f"{owner}: form must be one of {', '.join(SLOPES)}, got {form!r}."
        raise ParameterError(msg)
    v = math.inf if variance is None else variance
    # Half the error is left to the nodes of the net, by Hoeffding or Bernstein; half to the slope, by Markov.
    if form == "pairs":
        scale, columns = 16 * min(1.0, v + eps / 3), dimension  # lags in a ball of radius l
    else:
        scale, columns = min(32.0, 8 * v + 4 * eps), 2 * dimension  # pairs of rows: diameter sqrt(2) l, radius l (Jung)
    slope = SLOPES[form] * spread
    mesh = eps / (2 * slope) * np.geomspace(1e-12, 1.0, 4000)
    at_nodes = math.log(2) + log_net(mesh, diameter, columns) - n_components * eps**2 / scale
    return probability(float(np.logaddexp(at_nodes, 2 * np.log(2 * slope * mesh / eps)).min()))


def log_net(mesh: np.ndarray, radius: float, dimension: int) -> np.ndarray:
    """Logarithm of the number of points of a ball, from above, that come within `mesh` of all others."""
    return dimension * np.log1p(2 * radius / mesh)
