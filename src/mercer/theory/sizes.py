"""How many features a stated error needs."""

from __future__ import annotations

import math

from mercer.errors import ParameterError, UnsupportedKernelError
from mercer.kernels import Kernel
from mercer.kernels.dot_product import DotProductKernel
from mercer.theory.bounds import FORM_WIDTH
from mercer.theory.maclaurin import dot_product_gradient, maclaurin_gradient, maclaurin_sharp_bound

__all__ = ["maclaurin_components", "required_components"]


def required_components(kernel: Kernel, eps: float, delta: float = 0.05, *, form: str = "pairs") -> int:
    r"""Columns of iid Fourier features that put one kernel value within `eps` with probability 1 - `delta`.

    From the pairwise Hoeffding bound, `theory.fourier_failure`: :math:`m \ge 2 Z^2 \log(2/\delta) / \epsilon^2`
    frequencies for sine-cosine pairs, two columns each. It holds for every pair of points and every dimension,
    and is conservative: the audit of a fitted map usually finds less error.

    Parameters
    ----------
    kernel : Kernel
        A shift-invariant kernel; only its mass k(0) matters.
    eps : float
        Largest error, in the units of the kernel.
    delta : float, default=0.05
        Probability of a larger error, in (0, 1).
    form : {"pairs", "phase", "complex"}, default="pairs"
        Form of the features.

    Returns
    -------
    int
        The number of columns, for `n_components`.

    Examples
    --------
    >>> from mercer import Gaussian, required_components
    >>> required_components(Gaussian(), eps=0.1, delta=0.01)
    2120
    """
    for name, value in (("eps", eps), ("delta", delta)):
        if not (0 < value < (1 if name == "delta" else math.inf)):
            msg = f"required_components: {name} must be {'in (0, 1)' if name == 'delta' else '> 0'}, got {value!r}."
            raise ParameterError(msg)
    if form not in FORM_WIDTH:
        msg = f"required_components: form must be one of {', '.join(FORM_WIDTH)}, got {form!r}."
        raise ParameterError(msg)
    if not isinstance(kernel, Kernel):
        msg = f"required_components: kernel must be a mercer kernel such as Gaussian(), got {kernel!r}."
        raise ParameterError(msg)
    parts = kernel.spectral_parts()
    if parts is None:
        msg = (
            f"required_components: {kernel!r} has no Fourier features.\n"
            f"  needs: a shift-invariant kernel, k(x, y) = f(x - y)\n"
            f"  got:   {kernel.structure}\n"
            f"  try:   a fitted map and mercer.audit"
        )
        raise UnsupportedKernelError(msg)
    mass = sum(part.mass for part in parts)
    terms = max(1, math.ceil(0.5 * (FORM_WIDTH[form] * mass / eps) ** 2 * math.log(2 / delta)))
    return 2 * terms if form == "pairs" else terms


def maclaurin_components(
    kernel: DotProductKernel,
    eps: float,
    delta: float = 0.05,
    *,
    radius: float,
    dimension: int | None = None,
    base: float = 2.0,
) -> int:
    r"""Columns of random Maclaurin features that keep the error within `eps` with probability 1 - `delta`.

    For one pair of rows, :math:`D \ge 2 C^2 \log(2/\delta) / \epsilon^2` (`theory.maclaurin_failure`). For all pairs
    of rows of the l1 ball at once, given their `dimension`,
    :math:`D \ge (8 C^2 / \epsilon^2) (2d \log(16 R L / \epsilon) + \log(2/\delta))`
    (`theory.maclaurin_uniform_failure`). C is `theory.maclaurin_sharp_bound`. Worst cases, and far above what is
    usually needed: the audit of a fitted map measures.

    Parameters
    ----------
    kernel : DotProductKernel
        A kernel f(x . y).
    eps : float
        Largest error, in the units of the kernel.
    delta : float, default=0.05
        Probability of a larger error, in (0, 1).
    radius : float
        Largest l1 norm of a row.
    dimension : int, default=None
        Number of columns of the rows, for a bound over all pairs at once; None means one pair.
    base : float, default=2.0
        Base p > 1 of the law of degrees.

    Returns
    -------
    int
        The number of columns, for `n_components`.

    Examples
    --------
    >>> from mercer import ExponentialDotProduct
    >>> from mercer.theory import maclaurin_components
    >>> maclaurin_components(ExponentialDotProduct(), eps=0.5, delta=0.01, radius=1.0)
    679
    >>> maclaurin_components(ExponentialDotProduct(), eps=0.5, delta=0.01, radius=1.0, dimension=3)
    25609
    """
    if not isinstance(kernel, DotProductKernel):
        msg = (
            f"maclaurin_components: {kernel!r} has no Maclaurin features.\n"
            f"  needs: {DotProductKernel.structure}\n"
            f"  got:   {getattr(kernel, 'structure', type(kernel).__name__)}\n"
            f"  try:   required_components, for shift-invariant kernels"
        )
        raise UnsupportedKernelError(msg)
    for name, value, most in (("eps", eps, math.inf), ("delta", delta, 1)):
        if not 0 < value < most:
            msg = f"maclaurin_components: {name} must be {'in (0, 1)' if name == 'delta' else '> 0'}, got {value!r}."
            raise ParameterError(msg)
    bound = maclaurin_sharp_bound(kernel, radius, base=base)
    if dimension is None:
        return max(1, math.ceil(2 * (bound / eps) ** 2 * math.log(2 / delta)))
    gradient = dot_product_gradient(kernel, radius) + maclaurin_gradient(kernel, radius, dimension, base=base)
    pairs = 2 * dimension * max(0.0, math.log(16 * radius * gradient / eps))
    return max(1, math.ceil(8 * (bound / eps) ** 2 * (pairs + math.log(2 / delta))))
