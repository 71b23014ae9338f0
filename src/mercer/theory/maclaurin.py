r"""Bounds for random Maclaurin features of dot-product kernels.

A random Maclaurin feature of the kernel :math:`f(x^\top y)`, :math:`f(t) = \sum_n a_n t^n`, samples a degree N and N
vectors :math:`w_j` of random signs. The feature is

.. math:: Z(x) = \sqrt{a_N / q_N} \prod_{j \le N} w_j^\top x, \qquad q_n = P[N = n] = (p - 1) / p^{n + 1},

with a base p > 1. The mean of :math:`Z(x) Z(y)` over D independent features is an unbiased estimate of the kernel. The
theorems are those of Kar and Karnick (2012), Random Feature Maps for Dot Product Kernels, AISTATS, and of its
supplement. The supplement uses for every p a scale that is correct only for p = 2, and one lemma omits a factor R. The
functions implement the corrected statements; `docs/theory/maclaurin.md` gives the reasons and counterexamples.

The parameter `radius` is R. Bounds on features Z hold for rows in the l1 ball of radius R, where
:math:`|w^\top x| \le R` for all sign vectors w. Bounds on the kernel alone hold in the Euclidean ball of radius R.
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
    r"""Return the bound :math:`C = \frac{p}{p - 1} f(p R^2)` of :math:`|Z(x) Z(y)|` for random Maclaurin features Z.

    It holds for all x and y in the l1 ball of radius R, if the projections are vectors of signs (not normal vectors)
    and :math:`p R^2` is less than the radius of convergence of f. It is Lemma 8 of the supplement [1]_, which prints
    :math:`p f(p R^2)`. The printed bound is the same for p = 2 and too small for p < 2.

    %(theory_bound_in_a_ball)s

    %(theory_bound_of_series)s

    See Also
    --------
    maclaurin_sharp_bound : The smallest bound of :math:`|Z(x) Z(y)|`.
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
    r"""Return the smallest bound :math:`C = \sup_n a_n R^{2n} / q_n` of :math:`|Z(x) Z(y)|` for Maclaurin features Z.

    Here :math:`a_n` are the coefficients of f and :math:`q_n = (p - 1) / p^{n + 1}` the probabilities of the degrees.
    The bound holds for all x and y in the l1 ball of radius R and is attained at x = y = R times a coordinate vector.
    As for `maclaurin_bound`, which is never smaller, the projections must be vectors of signs, and :math:`p R^2` must
    be less than the radius of convergence of f.

    %(theory_bound_in_a_ball)s

    %(theory_bound_of_series)s

    See Also
    --------
    maclaurin_bound : A larger bound, in closed form.

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
    r"""Return a bound on the probability that the error of one kernel value from Maclaurin features exceeds `eps`.

    The kernel value is estimated by the mean of :math:`Z(x) Z(y) \in [-C, C]` over D independent features Z. By
    Hoeffding's inequality the bound is :math:`2 \exp(-D \epsilon^2 / (2 C^2))`. The supplement [1]_ states the weaker
    bound :math:`2 \exp(-D \epsilon^2 / (8 C^2))`, which requires four times as many features for the same probability.

    Parameters
    ----------
    %(theory_eps)s
    %(theory_independent_features)s
    bound : float
        C, from `maclaurin_bound`, `maclaurin_sharp_bound` or `composed_bound`. If it is infinite, the returned
        probability is 1.

    %(theory_probability)s

    See Also
    --------
    maclaurin_uniform_failure : The probability that the largest error over all pairs of rows is large.
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
    r"""Return the smallest bound :math:`R f'(R^2)` of :math:`\|\nabla_x f(x^\top y)\|` on the Euclidean ball.

    The bound is attained at x = y of norm R. It is Lemma 10 of the supplement [1]_, which prints :math:`f'(R^2)`. That
    is too small for R > 1: for f(t) = t the gradient is y, of norm up to R.

    Parameters
    ----------
    %(theory_series_kernel)s
    radius : float
        Radius R of the Euclidean ball.

    %(theory_bound_of_series)s

    See Also
    --------
    maclaurin_gradient : Bound on the gradient of :math:`Z(x) Z(y)` for random Maclaurin features Z.

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
    r"""Return a bound of :math:`\|\nabla_x Z(x) Z(y)\|` for random Maclaurin features Z on the l1 ball.

    The bound is :math:`\frac{p^2}{p - 1} R \sqrt{d} f'(p R^2)`, where :math:`\sqrt{d}` is the norm of a vector of
    signs. It is Lemma 11 of the supplement [1]_, corrected for degree probabilities that add up to one.

    Parameters
    ----------
    %(theory_series_kernel)s
    radius : float
        Radius R of the l1 ball.
    %(theory_dimension)s
    %(theory_base)s

    %(theory_bound_of_series)s

    See Also
    --------
    dot_product_gradient : Bound on the gradient of the kernel.

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
    r"""Return a bound on the probability that the largest error over all pairs of rows of the l1 ball exceeds `eps`.

    The kernel is approximated by the mean of :math:`Z(x) Z(y)` over D independent Maclaurin features Z. The bound is

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
    maclaurin_failure : The bound for one pair of rows.
    composed_failure : The bound for features of a composition f(K).

    Notes
    -----
    This is Theorem 8 of [1]_ with 16 where it has 32. The ball is covered by at most :math:`(4R/r)^d` balls of radius r
    with centers in it. With :math:`r = \epsilon / (4L)`, an error of :math:`\epsilon` at any pair of points requires an
    error of :math:`\epsilon / 2` at a pair of centers, because the gradient of the error is at most L. Hoeffding's
    inequality holds for each of the :math:`(4R/r)^{2d}` pairs of centers. For :math:`\epsilon > 16 R L` one pair
    suffices, and the factor before the exponential is 2.

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
    """Return log(16 * radius * gradient / eps), even if the argument of the logarithm exceeds the range of float64."""
    if gradient == 0:
        return -math.inf
    return math.log(16) + math.log(radius) + math.log(gradient) - math.log(eps)
