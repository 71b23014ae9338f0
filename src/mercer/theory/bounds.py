r"""Tail bounds, one theorem a function."""

from __future__ import annotations

import numpy as np

from mercer.errors import ParameterError

__all__ = ["FORM_WIDTH", "fourier_failure", "hoeffding_radius"]

#: Range of one averaged term over k(0): a pair gives Z cos in [-Z, Z], a phase cosine a value in [-2Z, 2Z].
FORM_WIDTH = {"pairs": 2.0, "phase": 4.0, "complex": 2.0}


def hoeffding_radius(n: int, *, width: float, failure: float) -> float:
    """Radius that the mean of `n` independent variables of range `width` leaves with probability <= `failure`.

    Hoeffding (1963), Theorem 2, both sides.

    Examples
    --------
    >>> round(hoeffding_radius(1000, width=2.0, failure=0.05), 4)
    0.0859
    """
    if not (n >= 1 and 0 < failure < 1 and width >= 0):
        msg = f"hoeffding_radius: needs n >= 1, 0 < failure < 1 and width >= 0, got {n=}, {failure=}, {width=}."
        raise ParameterError(msg)
    return float(width * np.sqrt(np.log(2 / failure) / (2 * n)))


def fourier_failure(eps: float, n_terms: int, *, mass: float = 1.0, form: str = "pairs") -> float:
    r"""Bound on the probability that one kernel value is off by more than `eps`.

    Hoeffding for `n_terms` iid terms: :math:`2 \exp(-2 m \epsilon^2 / (c Z)^2)`, with range c = 2 for sine-cosine
    pairs, so :math:`2 \exp(-m \epsilon^2 / (2 Z^2))`. (Lecture notes print :math:`\exp(-m \epsilon^2 / Z^2)`, which
    does not hold: see MATHS S4.5.)

    Parameters
    ----------
    eps : float
        Error, in the units of the kernel.
    n_terms : int
        Number of independent frequencies.
    mass : float, default=1.0
        Total mass Z = k(0).
    form : {"pairs", "phase", "complex"}, default="pairs"
        Form of the features.

    Examples
    --------
    >>> round(fourier_failure(0.1, 1060), 4)
    0.01
    """
    if not (eps > 0 and n_terms >= 1):
        msg = f"fourier_failure: eps must be > 0 and n_terms >= 1, got {eps!r} and {n_terms!r}."
        raise ParameterError(msg)
    if form not in FORM_WIDTH:
        msg = f"fourier_failure: form must be one of {', '.join(FORM_WIDTH)}, got {form!r}."
        raise ParameterError(msg)
    return float(min(1.0, 2 * np.exp(-2 * n_terms * (eps / (FORM_WIDTH[form] * mass)) ** 2)))
