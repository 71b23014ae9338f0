r"""Bounds for random features of a composition f(K): products of features of K in place of projections.

Z multiplies N independent scalar features W of the inner kernel K, with the law of the degree N and the scale of
`mercer.theory.maclaurin`. The theorems are those of the supplement of Kar and Karnick (2012), Random feature maps for
dot product kernels, AISTATS, in corrected form; MATHS S0.15 to S0.19 has the reasons.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mercer.errors import ParameterError
from mercer.kernels.dot_product import DotProductKernel
from mercer.theory.domains import check_base, check_positive, probability
from mercer.theory.power_series import derivative_of, value_of

__all__ = ["InnerConstants", "composed_bound", "composed_failure", "composed_gradient", "gaussian_phase_constants"]


@dataclass(frozen=True)
class InnerConstants:
    """What the theorem on compositions needs to know of an inner kernel K and of its scalar feature W.

    Attributes
    ----------
    kernel_bound : float
        C_K, at least sup |K|.
    feature_bound : float
        C_W, at least sup W^2.
    kernel_gradient : float
        L_K, at least the largest length of the gradient of K.
    feature_gradient : float
        L_W, at least the mean over draws of the largest length of the gradient of W. (The supplement asks for the
        largest mean, which its use of Markov's inequality does not allow.)
    """

    kernel_bound: float
    feature_bound: float
    kernel_gradient: float
    feature_gradient: float

    def __post_init__(self) -> None:
        check_positive("InnerConstants", kernel_bound=self.kernel_bound, feature_bound=self.feature_bound)
        check_positive("InnerConstants", kernel_gradient=self.kernel_gradient, feature_gradient=self.feature_gradient)


def gaussian_phase_constants(lengthscale: float, dimension: int) -> InnerConstants:
    r"""Return the constants of the Gaussian kernel with features :math:`\sqrt{2} \cos(w^\top x + b)`.

    :math:`C_K = 1`, :math:`C_W = 2`, :math:`L_K = e^{-1/2} / s`, :math:`L_W = \sqrt{2d} / s`, on all of space. The
    gradient of a feature is at most :math:`\sqrt{2} \|w\|` everywhere, so the mean of its largest length is covered.

    Examples
    --------
    >>> gaussian_phase_constants(lengthscale=2.0, dimension=8).feature_gradient
    2.0
    """
    check_positive("gaussian_phase_constants", lengthscale=lengthscale, dimension=dimension)
    return InnerConstants(1.0, 2.0, math.exp(-0.5) / lengthscale, math.sqrt(2 * dimension) / lengthscale)


def composed_bound(kernel: DotProductKernel, inner: InnerConstants, *, base: float = 2.0) -> float:
    r"""Bound :math:`C_1` of :math:`|Z(x) Z(y)|` for features of f(K): :math:`\frac{p}{p - 1} f(p C_W)`.

    Lemma 12 with the law of degrees normalized. Z multiplies N independent features W of K in place of projections.
    """
    check_base("composed_bound", base)
    return base / (base - 1) * value_of(kernel, base * inner.feature_bound)


def composed_gradient(kernel: DotProductKernel, inner: InnerConstants) -> float:
    r"""Bound :math:`L_1` of the mean largest gradient of the error for f(K).

    :math:`L_K f'(C_K) + L_W \sqrt{C_W} f'(C_W)`: Lemma 13 and Lemma 14. The latter prints
    :math:`L_W p^2 \sqrt{C_W} f'(p C_W)` for the worst degree; the mean over degrees, which is what is used, is smaller
    and does not depend on p.
    """
    of_kernel = inner.kernel_gradient * derivative_of(kernel, inner.kernel_bound)
    return of_kernel + inner.feature_gradient * math.sqrt(inner.feature_bound) * derivative_of(
        kernel, inner.feature_bound
    )


def composed_failure(
    eps: float, n_components: int, *, bound: float, gradient: float, radius: float, dimension: int
) -> float:
    r"""Bound on the probability that any pair of rows of a ball is off by more than `eps`, for features of f(K).

    .. math:: 2^{1 + \frac{1}{2d + 1}} \Bigl(\frac{16 R L_1}{\epsilon}\Bigr)^{\frac{2d}{2d + 1}}
        \exp\Bigl(-\frac{D \epsilon^2}{8 C_1^2 (2d + 1)}\Bigr), \qquad \epsilon \le 16 R L_1

    Theorem 15, which prints :math:`\frac{32 R L_1}{\epsilon} \exp(-D \epsilon^2 / (8 C_1^2 d))`. That is below the
    optimum of its own proof, whose exponent has d + 1; and the net has to cover pairs of points, which makes it
    2d + 1. With a net at distance r the probability is at most
    :math:`2 (4R/r)^{2d} e^{-D \epsilon^2 / (8 C_1^2)}` (Hoeffding at the net, for half the error) plus
    :math:`4 r L_1 / \epsilon` (Markov, that the gradient exceeds :math:`\epsilon / (4r)`); r makes the two equal.

    Parameters
    ----------
    eps : float
        Error, in the units of the kernel; at most 16 R L_1.
    n_components : int
        Number D of independent features.
    bound : float
        C_1, from `composed_bound`.
    gradient : float
        L_1, from `composed_gradient`.
    radius : float
        Radius R of a ball that holds the rows.
    dimension : int
        Number of columns d of the rows.

    Examples
    --------
    >>> from mercer import Polynomial
    >>> square = Polynomial(degree=2, coef0=0.0)  # of a Gaussian kernel of two columns
    >>> inner = gaussian_phase_constants(lengthscale=1.0, dimension=2)
    >>> sizes = {"bound": composed_bound(square, inner), "gradient": composed_gradient(square, inner)}
    >>> f"{composed_failure(1.0, 1_000_000, **sizes, radius=1.0, dimension=2):.1e}"
    '4.0e-09'
    """
    check_positive("composed_failure", eps=eps, n_components=n_components, bound=bound)
    check_positive("composed_failure", gradient=gradient, radius=radius, dimension=dimension)
    covering = 16 * radius * gradient / eps
    if covering < 1:
        msg = (
            f"composed_failure: eps must be at most 16 R L = {covering * eps:.4g}, where the theorem ends, got {eps!r}."
        )
        raise ParameterError(msg)
    parts = 2 * dimension + 1
    exponent = n_components * (eps / bound) ** 2 / 8
    return probability((1 + 1 / parts) * math.log(2) + (2 * dimension * math.log(covering) - exponent) / parts)
