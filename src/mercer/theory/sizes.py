"""Number of components for which the kernel error is at most eps with probability at least 1 - delta."""

from __future__ import annotations

import math

from mercer.errors import UnsupportedKernelError
from mercer.kernels import Kernel
from mercer.kernels.dot_product import DotProductKernel
from mercer.theory.bounds import FORM_WIDTH
from mercer.theory.domains import (
    BASE,
    COUNT,
    DOT_PRODUCT,
    FAILURE,
    FORM,
    KERNEL,
    POSITIVE,
    FormName,
    checked,
    components,
    optional,
)
from mercer.theory.maclaurin import dot_product_gradient, log_covering, maclaurin_gradient, maclaurin_sharp_bound

__all__ = ["maclaurin_components", "required_components"]


@checked(kernel=KERNEL, eps=POSITIVE, delta=FAILURE, form=FORM)
def required_components(kernel: Kernel, eps: float, delta: float = 0.05, *, form: FormName = "pairs") -> int:
    r"""Return how many Fourier components give one kernel value an error of at most `eps` with probability 1 - `delta`.

    The frequencies are independent. Hoeffding's inequality for one pair of rows (`theory.fourier_failure`) requires
    :math:`m \ge 2 Z^2 \log(2/\delta) / \epsilon^2` frequencies for sine-cosine pairs, where Z = k(0). Each frequency
    has two components. The number is valid for every pair of rows and every dimension. It is conservative: the error
    that `mercer.audit` measures for a fitted map is usually smaller.

    Parameters
    ----------
    kernel : Kernel
        A shift-invariant kernel; the number depends only on its value Z = k(0) at zero.
    eps : float
        Largest error, in the units of the kernel.
    %(theory_delta)s
    %(theory_form)s

    %(theory_number_of_components)s

    See Also
    --------
    mercer.component_table : The numbers of all maps and bounds side by side, also for given rows.
    mercer.theory.fourier_failure : The probability of a larger error, given the number of frequencies.
    mercer.theory.maclaurin_components : The number of components for dot-product kernels.
    mercer.audit : Measure the error of a fitted map.

    References
    ----------
    .. [1] Hoeffding (1963), Probability Inequalities for Sums of Bounded Random Variables, JASA 58, Theorem 2.

    Examples
    --------
    >>> from mercer import Gaussian, required_components
    >>> required_components(Gaussian(), eps=0.1, delta=0.01)
    2120
    """
    parts = kernel.spectral_parts()
    if parts is None:
        msg = (
            f"required_components: {kernel!r} has no Fourier features.\n"
            f"  needs: a shift-invariant kernel, k(x, y) = f(x - y)\n"
            f"  got:   {kernel.structure}\n"
            f"  try:   mercer.component_table(kernel, eps, X=rows), for the errors of all maps on rows like yours"
        )
        raise UnsupportedKernelError(msg)
    ratio = FORM_WIDTH[form] * (sum(part.mass for part in parts) / eps)
    terms = components("required_components", 0.5 * ratio * ratio * _log_inverse(delta), kernel=kernel, eps=eps)
    return 2 * terms if form == "pairs" else terms


@checked(kernel=DOT_PRODUCT, eps=POSITIVE, delta=FAILURE, radius=POSITIVE, dimension=optional(COUNT), base=BASE)
def maclaurin_components(
    kernel: DotProductKernel,
    eps: float,
    delta: float = 0.05,
    *,
    radius: float,
    dimension: int | None = None,
    base: float = 2.0,
) -> int:
    r"""Return how many Maclaurin components give a kernel error of at most `eps` with probability 1 - `delta`.

    - If `dimension` is None, the error is that of one pair of rows, and the number D of components satisfies
      :math:`D \ge 2 C^2 \log(2/\delta) / \epsilon^2` (`theory.maclaurin_failure`).
    - If `dimension` is an integer d, the error is the largest over all pairs of rows of the l1 ball of radius R, and
      :math:`D \ge (8 C^2 / \epsilon^2) (2d \log(16 R L / \epsilon) + \log(2/\delta))`
      (`theory.maclaurin_uniform_failure`).

    C is `theory.maclaurin_sharp_bound`, and L is the sum of `theory.dot_product_gradient` and
    `theory.maclaurin_gradient`. Both numbers are for the worst case and far larger than usually needed; `mercer.audit`
    measures the error of a fitted map.

    Parameters
    ----------
    %(theory_series_kernel)s
    eps : float
        Largest error, in the units of the kernel.
    %(theory_delta)s
    radius : float
        Largest l1 norm R of a row.
    dimension : int or None, default=None
        Number d of features of the rows, for the largest error over all pairs of rows. None means the error of one
        pair.
    %(theory_base)s

    %(theory_number_of_components)s

    See Also
    --------
    mercer.required_components : The number of components for shift-invariant kernels.
    mercer.RandomMaclaurin : The map. Its default allocation of components to degrees needs far fewer components.

    %(theory_kar_karnick)s

    Examples
    --------
    >>> from mercer import ExponentialDotProduct
    >>> from mercer.theory import maclaurin_components
    >>> maclaurin_components(ExponentialDotProduct(), eps=0.5, delta=0.01, radius=1.0)
    679
    >>> maclaurin_components(ExponentialDotProduct(), eps=0.5, delta=0.01, radius=1.0, dimension=3)
    25609
    """
    ratio = maclaurin_sharp_bound(kernel, radius, base=base) / eps
    if dimension is None:
        needed = 2 * ratio * ratio * _log_inverse(delta)
    else:
        gradient = dot_product_gradient(kernel, radius) + maclaurin_gradient(kernel, radius, dimension, base=base)
        pairs = 2.0 * dimension * max(0.0, log_covering(radius, gradient, eps))
        needed = 8 * ratio * ratio * (pairs + _log_inverse(delta))
    return components("maclaurin_components", needed, eps=eps, radius=radius)


def _log_inverse(delta: float) -> float:
    """Return log(2 / delta)."""
    return math.log(2) - math.log(delta)
