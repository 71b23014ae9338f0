r"""Bounds for random Maclaurin features of dot-product kernels.

A random Maclaurin feature of :math:`f(t) = \sum_n a_n t^n` draws a degree N and N vectors of random signs,

.. math:: Z(x) = \sqrt{a_N / q_N} \prod_{j \le N} w_j^\top x, \qquad q_n = P[N = n] = (p - 1) / p^{n + 1},

with a base p > 1; D independent features are averaged. The theorems are those of Kar and Karnick (2012), Random Feature
Maps for Dot Product Kernels, AISTATS, and of its supplement. The supplement keeps the scale of p = 2 for every p and
drops a factor of the radius; the functions implement the corrected statements, and `docs/theory/maclaurin.md` gives the
reasons and counterexamples.

`radius` is R. Where features are bounded it is the radius of an l1 ball, since only there :math:`|w^\top x| \le R` for
all sign vectors w; where only the kernel is bounded, it is that of a Euclidean ball.
"""

from __future__ import annotations

import math

from mercer.kernels.dot_product import DotProductKernel
from mercer.theory.bounds import hoeffding_exponent
from mercer.theory.domains import BASE, BOUND, COUNT, DOT_PRODUCT, NORM, POSITIVE, checked, probability, upper
from mercer.theory.truncation import derivative_of, series_terms, value_of

__all__ = [
    "dot_product_gradient",
    "log_covering",
    "maclaurin_bound",
    "maclaurin_failure",
    "maclaurin_gradient",
    "maclaurin_sharp_bound",
    "maclaurin_uniform_failure",
]


@checked(kernel=DOT_PRODUCT, radius=POSITIVE, base=BASE)
def maclaurin_bound(kernel: DotProductKernel, radius: float, *, base: float = 2.0) -> float:
    r"""Return the bound :math:`C = \frac{p}{p - 1} f(p R^2)` of :math:`|Z(x) Z(y)|` on the l1 ball.

    It is Lemma 8 of the supplement [1]_, which prints :math:`p f(p R^2)`: equal at p = 2, too small below. The bound
    holds for sign vectors, not for normal ones, and needs :math:`p R^2` inside the radius of convergence.

    Parameters
    ----------
    %(theory_series_kernel)s
    radius : float
        Radius R of the l1 ball.
    %(theory_base)s

    %(theory_bound_of_series)s

    See Also
    --------
    maclaurin_sharp_bound : The least such bound.
    maclaurin_failure : Bound on the probability of a large error.

    %(theory_supplement)s

    Examples
    --------
    >>> from mercer import Polynomial
    >>> maclaurin_bound(Polynomial(degree=1, coef0=0.0), 1.0)  # f(t) = t: 2 f(2)
    4.0
    """
    return base / (base - 1) * value_of(kernel, base * (radius * radius))


@checked(kernel=DOT_PRODUCT, radius=POSITIVE, base=BASE)
def maclaurin_sharp_bound(kernel: DotProductKernel, radius: float, *, base: float = 2.0) -> float:
    r"""Return the least bound :math:`C = \sup_n a_n R^{2n} / q_n` of :math:`|Z(x) Z(y)|` on the l1 ball.

    The bound is attained at x = y = R times a unit vector. Its conditions and parameters are those of
    `maclaurin_bound`, which is never smaller.

    Parameters
    ----------
    kernel, radius, base
        As for `maclaurin_bound`.

    %(theory_bound_of_series)s

    See Also
    --------
    maclaurin_bound : A simpler bound.

    Examples
    --------
    >>> from mercer import ExponentialDotProduct
    >>> kernel = ExponentialDotProduct()
    >>> round(maclaurin_sharp_bound(kernel, 1.0), 3), round(maclaurin_bound(kernel, 1.0), 3)
    (4.0, 14.778)
    """
    t = base * (radius * radius)
    if value_of(kernel, t) == math.inf:
        return math.inf
    return base / (base - 1) * float(series_terms(kernel, t).max())


@checked(eps=POSITIVE, n_components=COUNT, bound=BOUND)
def maclaurin_failure(eps: float, n_components: int, *, bound: float) -> float:
    r"""Return a bound on the probability that one kernel value is off by more than `eps`.

    The bound is :math:`2 \exp(-D \epsilon^2 / (2 C^2))`: Hoeffding's inequality for D independent terms in [-C, C]. The
    supplement [1]_ has 8 in place of 2, which is valid and asks for four times as many features.

    Parameters
    ----------
    %(theory_eps)s
    %(theory_independent_features)s
    bound : float
        C, from `maclaurin_bound`, `maclaurin_sharp_bound` or `composed_bound`; an infinite bound gives one.

    %(theory_probability)s

    See Also
    --------
    maclaurin_uniform_failure : The same for all pairs of rows at once.
    maclaurin_components : The number of components for a given probability.

    %(theory_supplement)s

    Examples
    --------
    >>> round(maclaurin_failure(0.5, 1000, bound=4.0), 5)
    0.00081
    """
    return probability(math.log(2) - 0.5 * hoeffding_exponent(eps, n_components, bound))


@checked(kernel=DOT_PRODUCT, radius=POSITIVE)
def dot_product_gradient(kernel: DotProductKernel, radius: float) -> float:
    r"""Return the least bound :math:`R f'(R^2)` of :math:`\|\nabla_x f(x^\top y)\|` on the Euclidean ball.

    It is Lemma 10 of the supplement [1]_, which prints :math:`f'(R^2)`. That is too small for R > 1: the gradient of
    f(t) = t is y. The bound is attained at x = y.

    Parameters
    ----------
    %(theory_series_kernel)s
    radius : float
        Radius R of the Euclidean ball.

    %(theory_bound_of_series)s

    See Also
    --------
    maclaurin_gradient : The same for the features.

    %(theory_supplement)s

    Examples
    --------
    >>> from mercer import Polynomial
    >>> dot_product_gradient(Polynomial(degree=1, coef0=0.0), 2.0)
    2.0
    """
    return upper(radius * derivative_of(kernel, radius * radius))


@checked(kernel=DOT_PRODUCT, radius=POSITIVE, dimension=COUNT, base=BASE)
def maclaurin_gradient(kernel: DotProductKernel, radius: float, dimension: int, *, base: float = 2.0) -> float:
    r"""Return a bound of :math:`\|\nabla_x Z(x) Z(y)\|` on the l1 ball.

    The bound :math:`\frac{p^2}{p - 1} R \sqrt{d} f'(p R^2)` is Lemma 11 of the supplement [1]_ with the degree
    distribution normalized; :math:`\sqrt{d}` is the norm of a vector of signs.

    Parameters
    ----------
    kernel, radius, base
        As for `maclaurin_bound`.
    %(theory_dimension)s

    %(theory_bound_of_series)s

    See Also
    --------
    dot_product_gradient : The same for the kernel.

    %(theory_supplement)s

    Examples
    --------
    >>> from mercer import Polynomial
    >>> maclaurin_gradient(Polynomial(degree=1, coef0=0.0), 2.0, 9)
    24.0
    """
    slope = derivative_of(kernel, base * (radius * radius))
    return upper(base / (base - 1) * base * radius * math.sqrt(dimension) * slope)


@checked(eps=POSITIVE, n_components=COUNT, bound=BOUND, gradient=NORM, radius=POSITIVE, dimension=COUNT)
def maclaurin_uniform_failure(
    eps: float, n_components: int, *, bound: float, gradient: float, radius: float, dimension: int
) -> float:
    r"""Return a bound on the probability that any pair of rows of the l1 ball is off by more than `eps`.

    .. math:: 2 \Bigl(\frac{16 R L}{\epsilon}\Bigr)^{2d} \exp\Bigl(-\frac{D \epsilon^2}{8 C^2}\Bigr)

    Parameters
    ----------
    %(theory_eps)s
    %(theory_independent_features)s
    bound : float
        C, from `maclaurin_bound` or `maclaurin_sharp_bound`.
    gradient : float
        L, the sum of `dot_product_gradient` and `maclaurin_gradient`.
    radius : float
        Radius R of the l1 ball.
    %(theory_dimension)s

    %(theory_probability)s

    See Also
    --------
    maclaurin_failure : The same for one pair of rows.
    composed_failure : The same for features of a composition.

    Notes
    -----
    This is Theorem 8 of [1]_ with 16 where it has 32. The ball has a net of at most :math:`(4R/r)^d` of its own points
    at distance r. At :math:`r = \epsilon / (4L)`, pairs of the net carry half the error, and the other half is what a
    function of gradient L can change between them. For :math:`\epsilon > 16 R L` one pair suffices and the factor is
    one.

    %(theory_kar_karnick)s

    Examples
    --------
    >>> failure = maclaurin_uniform_failure(0.5, 20_000, bound=4.0, gradient=5.0, radius=1.0, dimension=2)
    >>> f"{failure:.1e}"
    '1.4e-08'
    """
    pairs = 2.0 * dimension * max(0.0, log_covering(radius, gradient, eps))
    return probability(math.log(2) + pairs - hoeffding_exponent(eps, n_components, bound) / 8)


def log_covering(radius: float, gradient: float, eps: float) -> float:
    """Return the logarithm of 16 R L / eps, which itself may exceed the range of float64."""
    if gradient == 0:
        return -math.inf
    return math.log(16) + math.log(radius) + math.log(gradient) - math.log(eps)
