r"""Bounds for spherical-radial rules of degree (3, 3), and the uniform bound of Fourier features to compare them with.

A rule estimates :math:`E f(w)`, w standard normal in d dimensions, by one block of points :math:`w_j = \rho_j u_j` with
radii :math:`\rho_j \sim \chi(d + 2)`; n independent rules are averaged. The construction is that of Munkhoeva,
Kapushev, Burnaev and Oseledets (2018), Quadrature-based Features for Kernel Approximation, NeurIPS. Two of its theorems
do not hold as printed: Proposition 3.1 miscounts a covariance, and Proposition 3.2 takes the points of a rule as
independent and their terms as bounded by M where they are bounded by d M. The functions implement what can be proved;
`docs/theory/quadrature.md` has the proofs.

Distances and diameters are in units of the lengthscale of the Gaussian kernel. For a scale mixture of Gaussian kernels,
with radii as `SphericalRadial` draws them, multiply them by the square root of `mean_mixing` of the kernel.
"""

from __future__ import annotations

import math

import numpy as np

from mercer.theory.bounds import hoeffding_exponent
from mercer.theory.domains import (
    AT_LEAST_ZERO,
    COUNT,
    DISTANCES,
    FAILURE,
    NUMBER,
    POSITIVE,
    SHARE,
    FormName,
    at_least,
    checked,
    choice,
    components,
    optional,
    probability,
    upper,
)

__all__ = [
    "fourier_uniform_failure",
    "quadrature_failure",
    "quadrature_gaussian_variance",
    "quadrature_range",
    "quadrature_rules",
    "quadrature_uniform_failure",
    "quadrature_variance",
]

Array = np.ndarray
#: Square root of E[L^2] / E|w|^2, from above, for the steepest slope L of the error: of the features and of the kernel.
SLOPES = {"pairs": 1.0 + 1.0, "phase": 2.0 + math.sqrt(2)}
# Radii of nets that are searched, relative to the largest admissible one.
NETS = np.geomspace(1e-12, 1.0, 4000)


@checked(distance=DISTANCES, share=SHARE)
def quadrature_range(distance: Array | float, *, share: float = 1.0) -> tuple[Array, Array]:
    r"""Return the interval from :math:`1 - |\delta|^2 / 2` to 1, which contains every draw of a rule.

    The rule for the Gaussian kernel is :math:`1 - \sum_j a_j^2 (1 - \cos w_j^\top \delta)` including its constant,
    and :math:`0 \le 1 - \cos t \le t^2 / 2`. The points of a block are a tight frame,
    :math:`\sum_j a_j^2 w_j w_j^\top = I`, so the interval holds for any radii and any orthogonal matrix. If only m of
    the N points of a block are retained, where N = d for orthogonal ones and d + 1 for a simplex, the frame is at most
    N / m times as large, and the lower end is :math:`1 - (N / m) |\delta|^2 / 2`.

    Parameters
    ----------
    distance : float or ndarray
        Distance :math:`|\delta|`, at least zero.
    share : float, default=1.0
        Share m / N of the points of a block that are retained, in (0, 1].

    Returns
    -------
    lower, upper : float or ndarray
        Ends of the interval; the lower one is -inf where it exceeds the range of float64.

    See Also
    --------
    quadrature_failure : The tail bound that follows.
    mercer.SphericalRadial : The map.

    Examples
    --------
    >>> lower, upper = quadrature_range(0.5)
    >>> float(lower), float(upper)
    (0.875, 1.0)
    """
    with np.errstate(over="ignore"):
        lower = 1 - 0.5 * np.square(distance) / share
    return lower, np.ones_like(lower)


@checked(
    n_rules=COUNT, dimension=at_least(3, hint="Below 3 the weights have no variance."), bound=POSITIVE, at_zero=NUMBER
)
def quadrature_variance(n_rules: int, *, dimension: int, bound: float = 1.0, at_zero: float = 1.0) -> float:
    r"""Return a bound of the variance of the mean of n rules for any bounded function.

    .. math:: \frac{1}{n} \cdot \frac{2 f(0)^2 + d \kappa^4 + 2 \sqrt{2d}\, |f(0)| \kappa^2}{(d + 1)(d - 2)}

    The bound needs that the terms of two points of a rule are not positively correlated. That holds for independent
    directions; for simplices it is measured for the Gaussian kernel, not proved. `quadrature_gaussian_variance` needs
    no such assumption.

    Parameters
    ----------
    n_rules : int
        Number n of independent rules of d + 1 points each.
    dimension : int
        Dimension d, at least 3: below it the weights have no variance.
    bound : float, default=1.0
        Bound :math:`\kappa^2` of :math:`|f|`; one for a kernel of mass one.
    at_zero : float, default=1.0
        Value f(0), or any other constant that multiplies :math:`1 - \sum_j a_j^2`; one for a kernel of mass one.

    %(theory_bound)s

    See Also
    --------
    quadrature_gaussian_variance : A bound for the Gaussian kernel without assumptions.

    Notes
    -----
    This is Proposition 3.1 of [1]_, which prints :math:`(2 + \kappa^4 + \kappa^2) / (n (d - 2))`, corrected: the
    covariance of the constant with the points counts twice, and is bounded by the square root of the product of their
    variances.

    %(theory_munkhoeva)s

    Examples
    --------
    >>> round(quadrature_variance(100, dimension=16), 5)
    0.00123
    """
    constant, d = abs(at_zero), float(dimension)
    # Divided before they are added, so that no part overflows alone.
    parts = 2 * constant * constant / (d + 1) + bound * bound * (d / (d + 1))
    parts += 2 * (math.sqrt(2) * math.sqrt(d) / (d + 1)) * constant * bound
    return parts / (d - 2) / n_rules


@checked(distance=DISTANCES, n_rules=COUNT)
def quadrature_gaussian_variance(distance: Array | float, n_rules: int) -> Array:
    r"""Return the bound :math:`|\delta|^4 / (16 n)` of the variance of the mean of n rules for the Gaussian kernel.

    It is Popoviciu's inequality for values in an interval of length :math:`|\delta|^2 / 2`, see `quadrature_range`, and
    holds for any radii and any dimension, without an assumption on correlations.

    Parameters
    ----------
    distance : float or ndarray
        Distance :math:`|\delta|`, at least zero.
    %(theory_n_rules)s

    Returns
    -------
    float or ndarray
        Bounds; infinite where they exceed the range of float64.

    See Also
    --------
    quadrature_variance : A bound for other functions.

    Examples
    --------
    >>> float(quadrature_gaussian_variance(1.0, 10))
    0.00625
    """
    with np.errstate(over="ignore"):
        return np.square(np.square(distance)) / 16 / n_rules


@checked(eps=POSITIVE, n_rules=COUNT, diameter=POSITIVE)
def quadrature_failure(eps: float, n_rules: int, *, diameter: float) -> float:
    r"""Return a bound on the probability that one value of the Gaussian kernel is off by `eps` or more.

    The bound is :math:`2 \exp(-8 n \epsilon^2 / l^4)`: Hoeffding's inequality for n independent rules of range
    :math:`l^2 / 2`, see `quadrature_range`.

    Parameters
    ----------
    %(theory_eps_of_mass)s
    %(theory_n_rules)s
    %(theory_diameter)s

    %(theory_probability)s

    See Also
    --------
    quadrature_uniform_failure : The same for all pairs of rows at once.
    quadrature_rules : The number of rules for a given probability.

    Notes
    -----
    The bound replaces the pointwise part of Proposition 3.2 of [1]_, :math:`2 \exp(-2 D \epsilon^2)` for D points in
    all, which simulation refutes (the proposition is written for an error of :math:`\epsilon / 2`).

    %(theory_munkhoeva)s

    Examples
    --------
    >>> round(quadrature_failure(0.05, 265, diameter=1.0), 3)
    0.01
    """
    return probability(math.log(2) - 8 * _exponent(eps, n_rules, diameter))


@checked(eps=POSITIVE, delta=FAILURE, diameter=POSITIVE)
def quadrature_rules(eps: float, delta: float = 0.05, *, diameter: float) -> int:
    r"""Return the number of independent rules that put one value within `eps` with probability 1 - `delta`.

    It is the least n with `quadrature_failure` at most `delta`: :math:`n \ge l^4 \log(2 / \delta) / (8 \epsilon^2)`. A
    rule has d + 1 points of a simplex, or d orthogonal ones, with two components per point; all rules share one
    component for the constant.

    Parameters
    ----------
    eps : float
        Largest error, in units of the mass of the kernel.
    %(theory_delta)s
    %(theory_diameter)s

    Returns
    -------
    int
        The number of rules.

    See Also
    --------
    quadrature_failure : The bound itself.

    Examples
    --------
    >>> quadrature_rules(0.05, 0.01, diameter=1.0)
    265
    """
    ratio = diameter * (diameter / eps)
    return components(
        "quadrature_rules", 0.125 * ratio * ratio * (math.log(2) - math.log(delta)), eps=eps, diameter=diameter
    )


@checked(eps=POSITIVE, n_rules=COUNT, dimension=COUNT, diameter=POSITIVE)
def quadrature_uniform_failure(eps: float, n_rules: int, *, dimension: int, diameter: float) -> float:
    r"""Return a bound on the probability that any two rows of a set of diameter l are off by `eps` or more.

    .. math:: \min_{r < \epsilon / L} 2 \Bigl(1 + \frac{2l}{r}\Bigr)^d
        \exp\Bigl(-\frac{8 n (\epsilon - r L)^2}{l^4}\Bigr), \qquad
        L = l + \max_{s \le l} s e^{-s^2 / 2}

    Parameters
    ----------
    %(theory_eps_of_mass)s
    %(theory_n_rules)s
    %(theory_dimension)s
    %(theory_diameter)s

    %(theory_probability)s

    See Also
    --------
    quadrature_failure : The same for one pair of rows.
    fourier_uniform_failure : The same for random Fourier features.

    Notes
    -----
    The bound replaces Proposition 3.2 of [1]_. Lags fill at most a ball of radius l, which has a net of
    :math:`(1 + 2l/r)^d` points at distance r; each obeys `quadrature_failure`. Between them the error changes by at
    most r L in every draw: the slope of a rule is :math:`-\sum_j a_j^2 \sin(w_j^\top \delta)\, w_j`, of norm at most
    :math:`|\delta|`, by Cauchy's inequality and :math:`\sum_j a_j^2 w_j w_j^\top = I`. So no moment of the slope is
    needed.

    %(theory_munkhoeva)s

    Examples
    --------
    >>> round(quadrature_uniform_failure(0.1, 300, dimension=2, diameter=1.0), 4)
    0.0003
    """
    steepest = min(diameter, 1.0)
    slope = diameter + steepest * math.exp(-0.5 * steepest**2)
    share = 0.999 * NETS  # r L / eps
    exponents = 8 * _exponent(eps, n_rules, diameter) * np.square(1 - share)
    return probability(float(_at_net(dimension, diameter, slope, eps, share, exponents).min()))


@checked(
    eps=POSITIVE,
    n_components=COUNT,
    dimension=COUNT,
    diameter=POSITIVE,
    spread=POSITIVE,
    variance=optional(AT_LEAST_ZERO),
    form=choice(SLOPES),
)
def fourier_uniform_failure(
    eps: float,
    n_components: int,
    *,
    dimension: int,
    diameter: float,
    spread: float,
    variance: float | None = None,
    form: FormName = "pairs",
) -> float:
    r"""Return a bound on the probability that any two rows are off by `eps` or more, for iid Fourier features.

    .. math:: \min_r\; 2 \Bigl(1 + \frac{2l}{r}\Bigr)^{d'} e^{-D \epsilon^2 / c}
        + \Bigl(\frac{2 b \sigma r}{\epsilon}\Bigr)^2

    with d' = d, b = 2 and :math:`c = 16 \min(1, v + \epsilon/3)` for pairs (D/2 frequencies); d' = 2d,
    :math:`b = 2 + \sqrt 2` and :math:`c = \min(32, 8v + 4\epsilon)` for cosines of random phase.

    Parameters
    ----------
    %(theory_eps_of_mass)s
    n_components : int
        Number D of components.
    %(theory_dimension)s
    diameter : float
        Largest distance l of two rows, in the units of `spread`.
    spread : float
        Square root :math:`\sigma` of the mean square norm of a frequency: :math:`\sqrt d` for the Gaussian kernel of
        unit lengthscale.
    variance : float or None, default=None
        Largest variance v over all lags of one term, from `cosine_variance` or `phase_variance`; None means that it is
        not known. For the Gaussian kernel the values are at most 0.5 and 1.
    form : {"pairs", "phase"}, default="pairs"
        Form of the features.

    %(theory_probability)s

    See Also
    --------
    fourier_failure : The same for one pair of rows.
    quadrature_uniform_failure : The same for spherical-radial rules.

    Notes
    -----
    The exponents are those of Sutherland and Schneider [1]_, Propositions 1 and 2; the rest is derived anew. The usual
    bound :math:`\sigma^2` of the mean square slope of the error holds at a fixed point, not at the steepest one, where
    a single frequency already exceeds it; the triangle inequality gives :math:`b^2 \sigma^2`. Every radius r of the net
    is valid, so the best is found by search. The quadrature paper [2]_ compares itself with the phase form, the weaker
    of the two.

    References
    ----------
    .. [1] Sutherland, Schneider (2015), On the Error of Random Fourier Features, UAI.
    .. [2] Munkhoeva, Kapushev, Burnaev, Oseledets (2018), Quadrature-based Features for Kernel Approximation, NeurIPS.

    Examples
    --------
    >>> settings = dict(dimension=2, diameter=1.0, spread=2**0.5)
    >>> round(fourier_uniform_failure(0.1, 25_000, variance=0.5, **settings), 4)
    0.0001
    >>> fourier_uniform_failure(0.1, 25_000, form="phase", **settings)
    1.0
    """
    v = math.inf if variance is None else variance
    # Half the error is left to the nodes of the net, by Hoeffding or Bernstein; half to the slope, by Markov.
    if form == "pairs":
        scale, degrees = 16 * min(1.0, v + eps / 3), float(dimension)  # lags in a ball of radius l
    else:
        # Pairs of rows have diameter sqrt(2) l, hence radius l (Jung).
        scale, degrees = min(32.0, 8 * v + 4 * eps), 2.0 * dimension
    exponent = n_components * eps * (eps / scale) if scale > 0 else 0.0
    at_net = _at_net(degrees, diameter, 2 * SLOPES[form] * spread, eps, NETS, exponent)
    return probability(float(np.logaddexp(at_net, 2 * np.log(NETS)).min()))


def _exponent(eps: float, n_rules: int, diameter: float) -> float:
    """Return n (eps / l^2)^2."""
    return hoeffding_exponent(eps / diameter, n_rules, diameter)


def _at_net(dimension: float, radius: float, slope: float, eps: float, share: Array, exponents: Array | float) -> Array:
    """Return the logarithm of the bound 2 N exp(-exponent), where N bounds the size of a net of the ball.

    The mesh of the net is share * eps / slope. A bound that cannot be evaluated is infinite.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        size = float(dimension) * np.log1p(2 * radius / eps * slope / share)
        return upper(math.log(2) + size - exponents)
