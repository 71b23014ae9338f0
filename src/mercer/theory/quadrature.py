r"""Error bounds for spherical-radial quadrature features, and a uniform error bound for Fourier features.

A (quadrature) rule is a random estimate of :math:`E f(w)`, where w is standard normal in d dimensions:

.. math:: R(f) = \Bigl(1 - \sum_j a_j^2\Bigr) f(0) + \sum_j a_j^2 \frac{f(w_j) + f(-w_j)}{2}, \qquad
    w_j = \rho_j u_j, \quad \rho_j \sim \chi(d + 2).

Its directions :math:`u_j` are one block of N vectors: the columns of a random orthogonal matrix (N = d), or the
vertices of a randomly rotated simplex (N = d + 1). Its weights are :math:`a_j^2 = d / (N \rho_j^2)`, and the constant
of the rule is :math:`1 - \sum_j a_j^2`. The mean of n independent rules, with :math:`f(w) = \cos(w^\top \delta)`,
approximates the Gaussian kernel at the difference :math:`\delta = x - y` of two rows.

The construction is that of Munkhoeva, Kapushev, Burnaev and Oseledets (2018), Quadrature-based Features for Kernel
Approximation, NeurIPS. Two of its theorems do not hold as printed. Proposition 3.1 counts a covariance once that occurs
twice. Proposition 3.2 treats the points of a rule as independent, and bounds their summands by M although the correct
bound is d M. The functions implement corrected statements; `docs/theory/quadrature.md` has the proofs.

Distances and diameters are in units of the lengthscale of the Gaussian kernel. For a scale mixture of Gaussian kernels,
with the radii that `SphericalRadial` samples, multiply distances and diameters by the square root of `mean_mixing` of
the kernel.
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
#: Bound b such that E[L^2] <= b^2 E|w|^2, where L is the largest norm of the gradient of the error of the kernel; the
#: first summand is from the features and the second from the kernel.
SLOPES = {"pairs": 1.0 + 1.0, "phase": 2.0 + math.sqrt(2)}
# Radii r of the covering balls over which the bounds are minimized, relative to the largest admissible radius.
NETS = np.geomspace(1e-12, 1.0, 4000)


@checked(distance=DISTANCES, share=SHARE)
def quadrature_range(distance: Array | float, *, share: float = 1.0) -> tuple[Array, Array]:
    r"""Return an interval that contains the Gaussian kernel value of one quadrature rule with probability one.

    The interval is :math:`[1 - |\delta|^2 / 2, 1]` for two rows at distance :math:`|\delta|`. The value of the rule,
    including its constant, is :math:`1 - \sum_j a_j^2 (1 - \cos w_j^\top \delta)`, and
    :math:`0 \le 1 - \cos t \le t^2 / 2`. The points of a block satisfy :math:`\sum_j a_j^2 w_j w_j^\top = I`, so the
    interval holds for any radii and any orthogonal matrix. If only m of the N points of a block are used (N is d for
    orthogonal directions and d + 1 for a simplex), the sum is at most (N / m) I, and the lower end is
    :math:`1 - (N / m) |\delta|^2 / 2`.

    Parameters
    ----------
    distance : float or ndarray
        Distance :math:`|\delta| = |x - y|` of two rows, in units of the lengthscale, at least zero.
    share : float, default=1.0
        Fraction m / N of the points of a block that are used, in (0, 1].

    Returns
    -------
    lower, upper : float or ndarray
        Ends of the interval; the lower one is -inf where it exceeds the range of float64.

    See Also
    --------
    quadrature_failure : Bound on the probability of a large error, which follows from this interval.
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
    r"""Return a bound on the variance of the mean of n quadrature rules for a bounded function f.

    .. math:: \frac{1}{n} \cdot \frac{2 f(0)^2 + d \kappa^4 + 2 \sqrt{2d}\, |f(0)| \kappa^2}{(d + 1)(d - 2)}, \qquad
        |f| \le \kappa^2

    The bound assumes that the summands :math:`a_j^2 f(w_j)` of two points of a rule are not positively correlated. This
    is true for independent directions. For simplices it was observed for the Gaussian kernel, but is not proved.
    `quadrature_gaussian_variance` does not need the assumption.

    Parameters
    ----------
    n_rules : int
        Number n of independent rules of d + 1 points each.
    dimension : int
        Dimension d, at least 3: for d < 3 the variance of the weights is not finite.
    bound : float, default=1.0
        Bound :math:`\kappa^2` on :math:`|f|`, which is 1 for a kernel with k(0) = 1.
    at_zero : float, default=1.0
        Value f(0), or any other number that multiplies :math:`1 - \sum_j a_j^2`. It is 1 for a kernel with k(0) = 1.

    %(theory_bound)s

    See Also
    --------
    quadrature_gaussian_variance : A bound for the Gaussian kernel without assumptions.

    Notes
    -----
    This is a corrected form of Proposition 3.1 of [1]_, which prints :math:`(2 + \kappa^4 + \kappa^2) / (n (d - 2))`.
    The variance of a rule contains twice the covariance of :math:`(1 - \sum_j a_j^2) f(0)` and
    :math:`\sum_j a_j^2 f(w_j)`, which is bounded by the square root of the product of their variances.

    %(theory_munkhoeva)s

    Examples
    --------
    >>> round(quadrature_variance(100, dimension=16), 5)
    0.00123
    """
    constant, d = abs(at_zero), float(dimension)
    # Each summand is divided by d + 1 before the sum, so that no summand overflows if the result does not.
    parts = 2 * constant * constant / (d + 1) + bound * bound * (d / (d + 1))
    parts += 2 * (math.sqrt(2) * math.sqrt(d) / (d + 1)) * constant * bound
    return parts / (d - 2) / n_rules


@checked(distance=DISTANCES, n_rules=COUNT)
def quadrature_gaussian_variance(distance: Array | float, n_rules: int) -> Array:
    r"""Return the bound :math:`|\delta|^4 / (16 n)` on the variance of a Gaussian kernel value from n quadrature rules.

    The value is the mean of n independent rules, each in an interval of length :math:`|\delta|^2 / 2` (see
    `quadrature_range`), so the bound follows from Popoviciu's inequality. It holds for any radii and any dimension,
    without an assumption on correlations.

    Parameters
    ----------
    distance : float or ndarray
        Distance :math:`|\delta| = |x - y|` of two rows, in units of the lengthscale, at least zero.
    %(theory_n_rules)s

    Returns
    -------
    float or ndarray
        Bounds; infinite where they exceed the range of float64.

    See Also
    --------
    quadrature_variance : A bound for any bounded function.

    Examples
    --------
    >>> float(quadrature_gaussian_variance(1.0, 10))
    0.00625
    """
    with np.errstate(over="ignore"):
        return np.square(np.square(distance)) / 16 / n_rules


@checked(eps=POSITIVE, n_rules=COUNT, diameter=POSITIVE)
def quadrature_failure(eps: float, n_rules: int, *, diameter: float) -> float:
    r"""Return a bound on the probability that the error of one Gaussian kernel value is at least `eps`.

    The kernel value of two rows at distance at most l is approximated by the mean of n independent quadrature rules,
    each in an interval of length :math:`l^2 / 2` (see `quadrature_range`). By Hoeffding's inequality the bound is
    :math:`2 \exp(-8 n \epsilon^2 / l^4)`.

    Parameters
    ----------
    %(theory_eps_of_mass)s
    %(theory_n_rules)s
    %(theory_diameter)s

    %(theory_probability)s

    See Also
    --------
    quadrature_uniform_failure : The probability that the largest error over all pairs of rows is large.
    quadrature_rules : The number of rules for a given probability.

    Notes
    -----
    Proposition 3.2 of [1]_ uses the bound :math:`2 \exp(-2 D \epsilon^2)` for one pair of rows, where D is the total
    number of points of all rules (there it is written for an error of :math:`\epsilon / 2`). Simulations refute it.

    %(theory_munkhoeva)s

    Examples
    --------
    >>> round(quadrature_failure(0.05, 265, diameter=1.0), 3)
    0.01
    """
    return probability(math.log(2) - 8 * _exponent(eps, n_rules, diameter))


@checked(eps=POSITIVE, delta=FAILURE, diameter=POSITIVE)
def quadrature_rules(eps: float, delta: float = 0.05, *, diameter: float) -> int:
    r"""Return how many quadrature rules give one kernel value an error below `eps` with probability 1 - `delta`.

    The Gaussian kernel of two rows at distance at most l is approximated by the mean of n independent rules. The result
    is the smallest n for which `quadrature_failure` is at most `delta`:
    :math:`n \ge l^4 \log(2 / \delta) / (8 \epsilon^2)`. In a map, a rule has d + 1 points (simplex) or d points
    (orthogonal directions), each of which gives two components; one more component holds the constants of all rules.

    Parameters
    ----------
    eps : float
        Largest error, in units of k(0).
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
    r"""Return a bound on the probability that the largest kernel error over all pairs of rows is at least `eps`.

    The rows are those of a set of diameter l, and the Gaussian kernel is approximated by the mean of n independent
    quadrature rules. The bound is

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
    quadrature_failure : The bound for one pair of rows.
    fourier_uniform_failure : The bound for random Fourier features.

    Notes
    -----
    The bound replaces Proposition 3.2 of [1]_. Differences :math:`\delta = x - y` of rows lie in a ball of radius l,
    which is covered by at most :math:`(1 + 2l/r)^d` balls of radius r. At each of their centers, `quadrature_failure`
    bounds the probability of an error of :math:`\epsilon - r L` or more. Between a point and the nearest center the
    error changes by at most r L, because the norm of its gradient is at most L. The gradient of a rule with respect to
    :math:`\delta` is :math:`-\sum_j a_j^2 \sin(w_j^\top \delta)\, w_j`; its norm is at most :math:`|\delta| \le l`, by
    the Cauchy-Schwarz inequality and :math:`\sum_j a_j^2 w_j w_j^\top = I`. The gradient of the kernel at distance s
    has norm :math:`s e^{-s^2 / 2}`.

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
    r"""Return a bound on the probability that the largest kernel error over all pairs of rows is at least `eps`.

    The rows are those of a set of diameter l, and the kernel is approximated by D random Fourier components of
    independent frequencies. The bound is

    .. math:: \min_r\; 2 \Bigl(1 + \frac{2l}{r}\Bigr)^{d'} e^{-D \epsilon^2 / c}
        + \Bigl(\frac{2 b \sigma r}{\epsilon}\Bigr)^2

    - with d' = d, b = 2 and :math:`c = 16 \min(1, v + \epsilon/3)` for sine-cosine pairs (of D/2 frequencies),
    - with d' = 2d, :math:`b = 2 + \sqrt 2` and :math:`c = \min(32, 8v + 4\epsilon)` for cosines of random phase.

    Parameters
    ----------
    %(theory_eps_of_mass)s
    n_components : int
        Number D of components.
    %(theory_dimension)s
    diameter : float
        Largest distance l of two rows. Its unit is the reciprocal of that of `spread`, so that l times `spread` has no
        unit.
    spread : float
        Root mean square :math:`\sigma = \sqrt{E |w|^2}` of the norm of a frequency w: :math:`\sqrt d` for the Gaussian
        kernel of unit lengthscale.
    variance : float or None, default=None
        Variance v of the contribution of one frequency, maximized over all differences x - y of rows; see
        `cosine_variance` (for "pairs") and `phase_variance` (for "phase"). For the Gaussian kernel it is at most 0.5
        and 1, respectively. None means that it is not known; then c is 16 or 32.
    form : {"pairs", "phase"}, default="pairs"
        Form of the features: cosine and sine of each frequency, or one cosine of random phase per frequency.

    %(theory_probability)s

    See Also
    --------
    fourier_failure : The bound for one pair of rows.
    quadrature_uniform_failure : The bound for spherical-radial quadrature rules.

    Notes
    -----
    For pairs, differences of rows lie in a ball of radius l, covered by at most :math:`(1 + 2l/r)^d` balls of radius r.
    For phases, the error depends on both rows, so that pairs of rows are covered, in 2d dimensions. The first summand
    bounds the probability of an error of :math:`\epsilon / 2` at the center of any of the balls (by Hoeffding's or
    Bernstein's inequality). The second bounds the probability that the gradient of the error exceeds
    :math:`\epsilon / (2r)` anywhere (by Markov's inequality). Every radius r is valid, and the best is found by search.

    The exponents are those of Sutherland and Schneider [1]_, Propositions 1 and 2; the factors b and d' are derived
    anew. The usual bound :math:`\sigma^2` of the mean squared norm of the gradient holds at a fixed point, but not for
    the largest gradient: a single frequency already exceeds it. The triangle inequality gives :math:`b^2 \sigma^2`. The
    quadrature paper [2]_ compares its bound with that of the phase form, which is the weaker of the two.

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
    # An error eps at any point requires an error eps / 2 at a center of the covering balls (Hoeffding, Bernstein), or a
    # change of eps / 2 within a ball (Markov's inequality for the gradient).
    if form == "pairs":
        scale, degrees = 16 * min(1.0, v + eps / 3), float(dimension)  # differences x - y lie in a ball of radius l
    else:
        # The set of pairs (x, y) of rows has diameter sqrt(2) l, and lies in a ball of radius l by Jung's theorem.
        scale, degrees = min(32.0, 8 * v + 4 * eps), 2.0 * dimension
    exponent = n_components * eps * (eps / scale) if scale > 0 else 0.0
    at_net = _at_net(degrees, diameter, 2 * SLOPES[form] * spread, eps, NETS, exponent)
    return probability(float(np.logaddexp(at_net, 2 * np.log(NETS)).min()))


def _exponent(eps: float, n_rules: int, diameter: float) -> float:
    """Return n_rules * (eps / diameter^2)^2, to which the exponent of Hoeffding's inequality is proportional."""
    return hoeffding_exponent(eps / diameter, n_rules, diameter)


def _at_net(dimension: float, radius: float, slope: float, eps: float, share: Array, exponents: Array | float) -> Array:
    """Return log(2 N exp(-exponents)), where N = (1 + 2 radius / r)^dimension and r = share * eps / slope.

    N bounds the number of balls of radius r that cover a ball of the given radius. If the logarithm is NaN in float64,
    infinity is returned.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        size = float(dimension) * np.log1p(2 * radius / eps * slope / share)
        return upper(math.log(2) + size - exponents)
