r"""Bounds for random features of a composition f(K), which multiply features of K in place of projections.

Z multiplies N independent scalar features W of the inner kernel K, with the degree distribution and the scale of
`mercer.theory.maclaurin`. The theorems are those of the supplement of Kar and Karnick (2012), Random Feature Maps for
Dot Product Kernels, AISTATS, in corrected form; `docs/theory/compositions.md` gives the reasons.
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
    r"""Constants of an inner kernel K and of its scalar feature W that the theorem on compositions needs.

    Attributes
    ----------
    kernel_bound : float
        :math:`C_K`, at least sup :math:`|K|`.
    feature_bound : float
        :math:`C_W`, at least sup :math:`W^2`.
    kernel_gradient : float
        :math:`L_K`, at least the largest norm of the gradient of K; infinite if there is no such bound.
    feature_gradient : float
        :math:`L_W`, at least the mean over draws of the largest norm of the gradient of W. (The supplement asks for
        the largest mean, which its use of Markov's inequality does not allow.)

    See Also
    --------
    gaussian_phase_constants : The constants of the Gaussian kernel.

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
    r"""Return the constants of the Gaussian kernel with features :math:`\sqrt{2} \cos(w^\top x + b)`.

    They are :math:`C_K = 1`, :math:`C_W = 2`, :math:`L_K = e^{-1/2} / s` and :math:`L_W = \sqrt{2d} / s`, on all of
    space. The gradient of a feature is at most :math:`\sqrt{2} \|w\|` everywhere, which bounds the mean of its largest
    norm.

    Parameters
    ----------
    lengthscale : float
        Lengthscale s of the kernel.
    %(theory_dimension)s

    Returns
    -------
    InnerConstants

    Examples
    --------
    >>> gaussian_phase_constants(lengthscale=2.0, dimension=8).feature_gradient
    2.0
    """
    return InnerConstants(1.0, 2.0, math.exp(-0.5) / lengthscale, math.sqrt(2.0 * dimension) / lengthscale)


@checked(kernel=DOT_PRODUCT, inner=INNER, base=BASE)
def composed_bound(kernel: DotProductKernel, inner: InnerConstants, *, base: float = 2.0) -> float:
    r"""Return the bound :math:`C_1 = \frac{p}{p - 1} f(p C_W)` of :math:`|Z(x) Z(y)|` for features of f(K).

    It is Lemma 12 of the supplement [1]_ with the degree distribution normalized.

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
    r"""Return the bound :math:`L_1` of the mean largest gradient of the error for features of f(K).

    It is :math:`L_K f'(C_K) + L_W \sqrt{C_W} f'(C_W)`, from Lemmas 13 and 14 of the supplement [1]_. Lemma 14 prints
    :math:`L_W p^2 \sqrt{C_W} f'(p C_W)` for the worst degree. The proof uses the mean over degrees, which is smaller
    and does not depend on p.

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
    r"""Return a bound on the probability that any pair of rows of a ball is off by more than `eps`, for f(K).

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
    maclaurin_failure : The same for one pair of rows, with `composed_bound`.

    Notes
    -----
    This is Theorem 15 of the supplement [1]_, which prints
    :math:`\frac{32 R L_1}{\epsilon} \exp(-D \epsilon^2 / (8 C_1^2 d))`. That is below the optimum of its own proof,
    whose exponent has d + 1; and the net has to cover pairs of points, which makes it 2d + 1. With a net at distance r
    the probability is at most :math:`2 (4R/r)^{2d} e^{-D \epsilon^2 / (8 C_1^2)}` (Hoeffding's inequality at the net,
    for half the error) plus :math:`4 r L_1 / \epsilon` (Markov's inequality, that the gradient exceeds
    :math:`\epsilon / (4r)`); r makes the two equal.

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
