r"""Tail bounds of random Fourier estimates of one kernel value; see `docs/theory/fourier.md`."""

from __future__ import annotations

import math

from mercer.theory.domains import AT_LEAST_ZERO, COUNT, FAILURE, FORM, POSITIVE, FormName, checked, probability

__all__ = ["FORM_WIDTH", "fourier_failure", "hoeffding_exponent", "hoeffding_radius"]

#: Range of one averaged term over k(0): a pair gives Z cos in [-Z, Z], a phase cosine a value in [-2Z, 2Z].
FORM_WIDTH: dict[str, float] = {"pairs": 2.0, "phase": 4.0, "complex": 2.0}


@checked(n=COUNT, width=AT_LEAST_ZERO, failure=FAILURE)
def hoeffding_radius(n: int, *, width: float, failure: float) -> float:
    r"""Return the radius that the mean of independent bounded variables leaves with probability <= `failure`.

    It is :math:`c \sqrt{\log(2 / \delta) / (2n)}` for n variables in intervals of length c: Hoeffding's inequality
    [1]_, Theorem 2, for both sides.

    Parameters
    ----------
    n : int
        Number of independent variables.
    width : float
        Length c of the interval that each variable lies in.
    failure : float
        Probability :math:`\delta` of a deviation beyond the radius, in (0, 1).

    Returns
    -------
    float
        The radius; infinite if it exceeds the range of float64.

    See Also
    --------
    fourier_failure : The inverse question for Fourier features.

    References
    ----------
    .. [1] Hoeffding (1963), Probability Inequalities for Sums of Bounded Random Variables, JASA 58.

    Examples
    --------
    >>> round(hoeffding_radius(1000, width=2.0, failure=0.05), 4)
    0.0859
    """
    return width * math.sqrt((math.log(2) - math.log(failure)) / 2 / n)


@checked(eps=POSITIVE, n_terms=COUNT, mass=AT_LEAST_ZERO, form=FORM)
def fourier_failure(eps: float, n_terms: int, *, mass: float = 1.0, form: FormName = "pairs") -> float:
    r"""Return a bound on the probability that one kernel value is off by more than `eps`.

    The bound is :math:`2 \exp(-2 m \epsilon^2 / (c Z)^2)` for m independent terms of range c Z: Hoeffding's inequality.
    The range is c = 2 for sine-cosine pairs, which gives :math:`2 \exp(-m \epsilon^2 / (2 Z^2))`.

    Parameters
    ----------
    %(theory_eps)s
    n_terms : int
        Number m of independent frequencies.
    mass : float, default=1.0
        Total mass :math:`Z = k(0)`, at least zero.
    %(theory_form)s

    %(theory_probability)s

    See Also
    --------
    fourier_uniform_failure : The same for all pairs of rows at once.
    required_components : The number of components for a given probability.

    Notes
    -----
    Lecture notes [1]_ print :math:`\exp(-m \epsilon^2 / Z^2)`, which does not hold: see `docs/theory/fourier.md` for a
    counterexample.

    References
    ----------
    .. [1] Kakade, Dimensionality Reduction and Learning: Random Features and Bochner's Theorem, lecture notes,
       Lemma 1.2.

    Examples
    --------
    >>> round(fourier_failure(0.1, 1060), 4)
    0.01
    """
    return probability(math.log(2) - 2 * hoeffding_exponent(eps, n_terms, mass, FORM_WIDTH[form]))


def hoeffding_exponent(eps: float, n: int, bound: float, width: float = 1.0) -> float:
    """Return n (eps / (width bound))^2, infinite where that exceeds the range of float64."""
    if bound == 0:
        return math.inf
    ratio = eps / bound / width
    return n * ratio * ratio
