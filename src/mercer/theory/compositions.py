r"""Bounds for random features of a composition f(K) of a power series f with an inner kernel K.

A random feature of f(K), where :math:`f(t) = \sum_n a_n t^n`, samples a degree N and multiplies N independent scalar
features W of K, each with :math:`E[W(x) W(y)] = K(x, y)`:

.. math:: Z(x) = \sqrt{a_N / q_N} \prod_{j \le N} W_j(x), \qquad q_n = P[N = n] = (p - 1) / p^{n + 1}.

It is a random Maclaurin feature (`mercer.theory.maclaurin`) with :math:`W_j(x)` in place of the projections
:math:`w_j^\top x`. The theorems are those of the supplement of Kar and Karnick (2012), Random Feature Maps for Dot
Product Kernels, AISTATS, in corrected form; `docs/theory/compositions.md` gives the reasons.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mercer.errors import ParameterError
from mercer.kernels.dot_product import DotProductKernel
from mercer.theory.bounds import hoeffding_exponent
from mercer.theory.domains import (
    BASE,
    BOUND,
    COUNT,
    DOT_PRODUCT,
    NORM,
    POSITIVE,
    checked,
    instance_of,
    probability,
    read_all,
    upper,
)
from mercer.theory.maclaurin import log_covering
from mercer.theory.truncation import derivative_of, value_of

__all__ = ["InnerConstants", "composed_bound", "composed_failure", "composed_gradient", "gaussian_phase_constants"]


@dataclass(frozen=True)
class InnerConstants:
    r"""Bounds of an inner kernel K, of its random scalar feature W, and of their gradients.

    `composed_bound` and `composed_gradient` use these bounds to compute the constants in the error bound for f(K).

    Attributes
    ----------
    kernel_bound : float
        :math:`C_K \ge \sup_{x, y} |K(x, y)|`.
    feature_bound : float
        :math:`C_W \ge \sup_x W(x)^2`, for every sample of the random parameters of W.
    kernel_gradient : float
        :math:`L_K \ge \sup_{x, y} \|\nabla_x K(x, y)\|`; infinite if the gradient of K is unbounded.
    feature_gradient : float
        :math:`L_W \ge E \sup_x \|\nabla W(x)\|`, with the mean over the random parameters of W. (The supplement of Kar
        and Karnick (2012) assumes a bound on :math:`\sup_x E \|\nabla W(x)\|`, which is smaller and not sufficient for
        its use of Markov's inequality.)

    See Also
    --------
    gaussian_phase_constants : The constants of the Gaussian kernel with cosines of random phase.

    Examples
    --------
    >>> InnerConstants(kernel_bound=1.0, feature_bound=2.0, kernel_gradient=0.6, feature_gradient=2.0).feature_bound
    2.0
    """

    kernel_bound: float
    feature_bound: float
    kernel_gradient: float
    feature_gradient: float

    def __post_init__(self) -> None:
        domains = dict.fromkeys(("kernel_bound", "feature_bound"), POSITIVE)
        domains |= dict.fromkeys(("kernel_gradient", "feature_gradient"), BOUND)
        self.__dict__.update(read_all("InnerConstants", domains, self.__dict__))


INNER = instance_of(InnerConstants, "InnerConstants, such as gaussian_phase_constants(...)")


@checked(lengthscale=POSITIVE, dimension=COUNT)
def gaussian_phase_constants(lengthscale: float, dimension: int) -> InnerConstants:
    r"""Return the `InnerConstants` of the Gaussian kernel K with features :math:`W(x) = \sqrt{2} \cos(w^\top x + b)`.

    For a kernel of lengthscale s on rows of d features, the following hold for all x and y:

    - `kernel_bound`: :math:`|K(x, y)| \le C_K = 1`,
    - `feature_bound`: :math:`W(x)^2 \le C_W = 2`,
    - `kernel_gradient`: :math:`\|\nabla_x K(x, y)\| \le L_K = e^{-1/2} / s`,
    - `feature_gradient`: :math:`E \sup_x \|\nabla W(x)\| \le L_W = \sqrt{2d} / s`, because
      :math:`\|\nabla W(x)\| \le \sqrt{2} \|w\|` for all x and :math:`E \|w\| \le \sqrt{d} / s`.

    Parameters
    ----------
    lengthscale : float
        Lengthscale s of the kernel.
    %(theory_dimension)s

    Returns
    -------
    InnerConstants
        The four constants :math:`C_K`, :math:`C_W`, :math:`L_K` and :math:`L_W`.

    Examples
    --------
    >>> gaussian_phase_constants(lengthscale=2.0, dimension=8).feature_gradient
    2.0
    """
    return InnerConstants(1.0, 2.0, math.exp(-0.5) / lengthscale, math.sqrt(2.0 * dimension) / lengthscale)


@checked(kernel=DOT_PRODUCT, inner=INNER, base=BASE)
def composed_bound(kernel: DotProductKernel, inner: InnerConstants, *, base: float = 2.0) -> float:
    r"""Return the bound :math:`C_1 = \frac{p}{p - 1} f(p C_W)` of :math:`|Z(x) Z(y)|` for random features Z of f(K).

    Here f is the power series of `kernel`, p the base of the degree distribution :math:`q_n = (p - 1) / p^{n + 1}`, and
    :math:`C_W` the `feature_bound` of the inner kernel K. The bound is Lemma 12 of the supplement [1]_, corrected for
    degree probabilities that add up to one.

    Parameters
    ----------
    %(theory_outer_and_inner)s
    %(theory_base)s

    %(theory_composed)s

    Examples
    --------
    >>> from mercer import Polynomial
    >>> composed_bound(Polynomial(degree=2, coef0=0.0), gaussian_phase_constants(1.0, 2))  # 2 f(4)
    32.0
    """
    return base / (base - 1) * value_of(kernel, base * inner.feature_bound)


@checked(kernel=DOT_PRODUCT, inner=INNER)
def composed_gradient(kernel: DotProductKernel, inner: InnerConstants) -> float:
    r"""Return a bound :math:`L_1` on the expected largest gradient of the error of a random feature Z of f(K).

    .. math:: E \sup_{x, y} \|\nabla_x (Z(x) Z(y) - f(K(x, y)))\| \le L_1 = L_K f'(C_K) + L_W \sqrt{C_W} f'(C_W)

    Here f is the power series of `kernel`, and :math:`C_K, C_W, L_K, L_W` are the constants in `inner`. The two
    summands are from Lemmas 13 and 14 of the supplement [1]_. Lemma 14 prints :math:`L_W p^2 \sqrt{C_W} f'(p C_W)`, a
    bound for the worst degree. The proof needs only the mean over degrees, which is smaller and does not depend on p.

    Parameters
    ----------
    %(theory_outer_and_inner)s

    %(theory_composed)s

    Examples
    --------
    >>> from mercer import Polynomial
    >>> round(composed_gradient(Polynomial(degree=2, coef0=0.0), gaussian_phase_constants(1.0, 2)), 3)
    12.527
    """
    of_kernel = inner.kernel_gradient * derivative_of(kernel, inner.kernel_bound)
    of_features = math.sqrt(inner.feature_bound) * derivative_of(kernel, inner.feature_bound)
    return upper(of_kernel + inner.feature_gradient * of_features)


@checked(eps=POSITIVE, n_components=COUNT, bound=BOUND, gradient=NORM, radius=POSITIVE, dimension=COUNT)
def composed_failure(
    eps: float, n_components: int, *, bound: float, gradient: float, radius: float, dimension: int
) -> float:
    r"""Return a bound on the probability that the largest error of f(K) over all pairs of rows of a ball exceeds `eps`.

    The kernel f(K) is approximated by the mean of :math:`Z(x) Z(y)` over D independent random features Z. The bound is

    .. math:: 2^{1 + \frac{1}{2d + 1}} \Bigl(\frac{16 R L_1}{\epsilon}\Bigr)^{\frac{2d}{2d + 1}}
        \exp\Bigl(-\frac{D \epsilon^2}{8 C_1^2 (2d + 1)}\Bigr), \qquad \epsilon \le 16 R L_1

    Parameters
    ----------
    eps : float
        Error, in the units of the kernel; at most :math:`16 R L_1`.
    %(theory_independent_features)s
    bound : float
        :math:`C_1`, from `composed_bound`.
    gradient : float
        :math:`L_1`, from `composed_gradient`.
    radius : float
        Radius R of a ball that contains the rows.
    %(theory_dimension)s

    %(theory_probability)s

    See Also
    --------
    maclaurin_failure : The bound for one pair of rows; pass the result of `composed_bound` as its `bound`.

    Notes
    -----
    This is Theorem 15 of the supplement [1]_, which prints
    :math:`\frac{32 R L_1}{\epsilon} \exp(-D \epsilon^2 / (8 C_1^2 d))`. That is smaller than the proof in the
    supplement can give, because the proof leads to d + 1 in place of d in the exponent. Moreover, the covering must
    cover pairs of points, which have 2d coordinates, so that d + 1 becomes 2d + 1.

    Proof of the bound: the ball is covered by at most :math:`(4R/r)^d` balls of radius r. The error exceeds
    :math:`\epsilon / 2` at some pair of their centers with probability at most
    :math:`2 (4R/r)^{2d} e^{-D \epsilon^2 / (8 C_1^2)}`, by Hoeffding's inequality. The gradient of the error exceeds
    :math:`\epsilon / (4r)` with probability at most :math:`4 r L_1 / \epsilon`, by Markov's inequality. The radius r is
    chosen so that the two probabilities are equal, and the bound is their sum.

    %(theory_supplement)s

    Examples
    --------
    >>> from mercer import Polynomial
    >>> square = Polynomial(degree=2, coef0=0.0)  # of a Gaussian kernel of rows with two features
    >>> inner = gaussian_phase_constants(lengthscale=1.0, dimension=2)
    >>> sizes = {"bound": composed_bound(square, inner), "gradient": composed_gradient(square, inner)}
    >>> f"{composed_failure(1.0, 1_000_000, **sizes, radius=1.0, dimension=2):.1e}"
    '4.0e-09'
    """
    covering = log_covering(radius, gradient, eps)
    if covering < -1e-12:
        msg = (
            f"composed_failure: eps must be at most 16 R L = {16 * radius * gradient:.4g}, the range of the theorem, "
            f"got {eps!r}."
        )
        raise ParameterError(msg)
    parts = 2.0 * dimension + 1
    exponent = hoeffding_exponent(eps, n_components, bound) / 8
    return probability((1 + 1 / parts) * math.log(2) + (2.0 * dimension * max(0.0, covering) - exponent) / parts)
