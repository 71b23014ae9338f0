"""How many features a stated error needs."""

from __future__ import annotations

import math

from mercer.errors import ParameterError, UnsupportedKernelError
from mercer.kernels import Kernel
from mercer.theory.bounds import FORM_WIDTH

__all__ = ["required_components"]


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
