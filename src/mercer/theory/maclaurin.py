r"""Bounds for random Maclaurin features of dot-product kernels, one theorem a function.

A random Maclaurin feature of :math:`f(t) = \sum_n a_n t^n` draws a degree N and N vectors of random signs,

.. math:: Z(x) = \sqrt{a_N / q_N} \prod_{j \le N} w_j^\top x, \qquad q_n = P[N = n] = (p - 1) / p^{n + 1},

with a base p > 1; D independent ones are averaged. The theorems are those of Kar and Karnick (2012), Random feature
maps for dot product kernels, AISTATS, and its supplement. Where the print is wrong (it keeps the scale of p = 2 for
every p and drops a factor of the radius), the functions have the corrected form and say so; MATHS S0.7 to S0.13 has
the counterexamples.

`radius` is R: of an l1 ball where features are bounded, since only there is :math:`|w^\top x| \le R` for signs w; a
Euclidean ball serves where only the kernel is.
"""

from __future__ import annotations

import math

from mercer.kernels.dot_product import DotProductKernel
from mercer.theory.domains import check_base, check_positive, probability, square
from mercer.theory.power_series import derivative_of, series_terms, value_of

__all__ = [
    "dot_product_gradient",
    "maclaurin_bound",
    "maclaurin_failure",
    "maclaurin_gradient",
    "maclaurin_sharp_bound",
    "maclaurin_uniform_failure",
]


def maclaurin_bound(kernel: DotProductKernel, radius: float, *, base: float = 2.0) -> float:
    r"""Bound C of :math:`|Z(x) Z(y)|` on the l1 ball: :math:`\frac{p}{p - 1} f(p R^2)`.

    Lemma 8, which prints :math:`p f(p R^2)`: the same at p = 2, too small below. It holds for sign vectors (not for
    normal ones) and needs :math:`p R^2` inside the radius of convergence. `maclaurin_sharp_bound` is never larger.

    Parameters
    ----------
    kernel : DotProductKernel
        The kernel f(x . y).
    radius : float
        Radius R of the l1 ball.
    base : float, default=2.0
        Base p > 1 of the law of degrees.

    Examples
    --------
    >>> from mercer import Polynomial
    >>> maclaurin_bound(Polynomial(degree=1, coef0=0.0), 1.0)  # f(t) = t: 2 f(2)
    4.0
    """
    check_base("maclaurin_bound", base)
    return base / (base - 1) * value_of(kernel, base * square("maclaurin_bound", radius))


def maclaurin_sharp_bound(kernel: DotProductKernel, radius: float, *, base: float = 2.0) -> float:
    r"""Least bound C of :math:`|Z(x) Z(y)|` on the l1 ball: :math:`\sup_n a_n R^{2n} / q_n`.

    Attained at x = y = R times a unit vector, so no smaller number will do. Conditions and parameters as for
    `maclaurin_bound`.

    Examples
    --------
    >>> from mercer import ExponentialDotProduct
    >>> kernel = ExponentialDotProduct()
    >>> round(maclaurin_sharp_bound(kernel, 1.0), 3), round(maclaurin_bound(kernel, 1.0), 3)
    (4.0, 14.778)
    """
    check_base("maclaurin_sharp_bound", base)
    terms = series_terms(kernel, base * square("maclaurin_sharp_bound", radius))
    return float(base / (base - 1) * terms.max())


def maclaurin_failure(eps: float, n_components: int, *, bound: float) -> float:
    r"""Bound on the probability that one value is off by more than `eps`: :math:`2 \exp(-D \epsilon^2 / (2 C^2))`.

    Hoeffding for D independent terms in [-C, C]; `bound` is C, from `maclaurin_bound`, `maclaurin_sharp_bound` or
    `composed_bound`. (The print has 8 in place of 2: valid, and four times more features than needed.)

    Examples
    --------
    >>> round(maclaurin_failure(0.5, 1000, bound=4.0), 5)
    0.00081
    """
    check_positive("maclaurin_failure", eps=eps, n_components=n_components, bound=bound)
    return probability(math.log(2) - 0.5 * n_components * (eps / bound) ** 2)


def dot_product_gradient(kernel: DotProductKernel, radius: float) -> float:
    r"""Least bound of :math:`\|\nabla_x f(x^\top y)\|` on the Euclidean ball: :math:`R f'(R^2)`.

    Lemma 10, which prints :math:`f'(R^2)`: wrong for R > 1, as f(t) = t shows, whose gradient is y. Attained at
    x = y.

    Examples
    --------
    >>> from mercer import Polynomial
    >>> dot_product_gradient(Polynomial(degree=1, coef0=0.0), 2.0)
    2.0
    """
    return float(radius) * derivative_of(kernel, square("dot_product_gradient", radius))


def maclaurin_gradient(kernel: DotProductKernel, radius: float, dimension: int, *, base: float = 2.0) -> float:
    r"""Bound of :math:`\|\nabla_x Z(x) Z(y)\|` on the l1 ball: :math:`\frac{p^2}{p - 1} R \sqrt{d} f'(p R^2)`.

    Lemma 11 with the law of degrees normalized; :math:`\sqrt{d}` is the length of a vector of signs. Parameters as for
    `maclaurin_bound`, and the `dimension` d of the rows.

    Examples
    --------
    >>> from mercer import Polynomial
    >>> maclaurin_gradient(Polynomial(degree=1, coef0=0.0), 2.0, 9)
    24.0
    """
    check_base("maclaurin_gradient", base)
    check_positive("maclaurin_gradient", dimension=dimension)
    slope = derivative_of(kernel, base * square("maclaurin_gradient", radius))
    return base**2 / (base - 1) * float(radius) * math.sqrt(dimension) * slope


def maclaurin_uniform_failure(
    eps: float, n_components: int, *, bound: float, gradient: float, radius: float, dimension: int
) -> float:
    r"""Bound on the probability that any pair of rows of the l1 ball is off by more than `eps`.

    .. math:: 2 \Bigl(\frac{16 R L}{\epsilon}\Bigr)^{2d} \exp\Bigl(-\frac{D \epsilon^2}{8 C^2}\Bigr)

    Theorem 8 of the paper, with 16 where it has 32: the ball has a net of at most :math:`(4R/r)^d` of its own points at
    distance r; pairs of them, at :math:`r = \epsilon / (4L)`, carry half the error, and the other half is what a
    function of gradient L moves between them. For :math:`\epsilon > 16 R L` one pair suffices and the factor is one.

    Parameters
    ----------
    eps : float
        Error, in the units of the kernel.
    n_components : int
        Number D of independent features.
    bound : float
        C, from `maclaurin_bound` or `maclaurin_sharp_bound`.
    gradient : float
        L, the sum of `dot_product_gradient` and `maclaurin_gradient`.
    radius : float
        Radius R of the l1 ball.
    dimension : int
        Number of columns d of the rows.

    Examples
    --------
    >>> chance = maclaurin_uniform_failure(0.5, 20_000, bound=4.0, gradient=5.0, radius=1.0, dimension=2)
    >>> f"{chance:.1e}"
    '1.4e-08'
    """
    check_positive("maclaurin_uniform_failure", eps=eps, n_components=n_components, bound=bound)
    check_positive("maclaurin_uniform_failure", gradient=gradient, radius=radius, dimension=dimension)
    pairs = 2 * dimension * max(0.0, math.log(16 * radius * gradient / eps))
    return probability(math.log(2) + pairs - n_components * (eps / bound) ** 2 / 8)
