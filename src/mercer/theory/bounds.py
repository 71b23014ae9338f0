r"""Hoeffding bounds for the error of one kernel value from random Fourier features; see `docs/theory/fourier.md`."""

from __future__ import annotations

import math

from mercer.theory.domains import AT_LEAST_ZERO, COUNT, FAILURE, FORM, POSITIVE, FormName, checked, probability

__all__ = ["FORM_WIDTH", "fourier_failure", "hoeffding_exponent", "hoeffding_radius"]

#: Length c of the interval that contains the contribution of one frequency, divided by Z = k(0). The contribution
#: lies in [-Z, Z] for a sine-cosine pair or a complex exponential, and in [-2Z, 2Z] for a cosine of random phase.
FORM_WIDTH: dict[str, float] = {"pairs": 2.0, "phase": 4.0, "complex": 2.0}


@checked(n=COUNT, width=AT_LEAST_ZERO, failure=FAILURE)
def hoeffding_radius(n: int, *, width: float, failure: float) -> float:
    r"""Return the half-width of Hoeffding's confidence interval for the mean of independent bounded variables.

    The mean of n variables, each in an interval of length c, differs from its expectation by at least
    :math:`c \sqrt{\log(2 / \delta) / (2n)}` with probability at most :math:`\delta`. This is the two-sided form of
    Hoeffding's inequality [1]_, Theorem 2.

    Parameters
    ----------
    n : int
        Number of independent variables.
    width : float
        Length c of the interval that contains each variable.
    failure : float
        Probability :math:`\delta` of a larger deviation, in (0, 1).

    Returns
    -------
    float
        The half-width; infinite if it exceeds the range of float64.

    See Also
    --------
    fourier_failure : The probability of a given deviation, for Fourier features.

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
    r"""Return a bound on the probability that the error of one Fourier kernel value exceeds `eps`.

    The kernel value is estimated by the mean of m contributions, one from each of m independent frequencies. Every
    contribution lies in an interval of length c Z, where Z = k(0). By Hoeffding's inequality the bound is
    :math:`2 \exp(-2 m \epsilon^2 / (c Z)^2)`. For sine-cosine pairs c = 2, which gives
    :math:`2 \exp(-m \epsilon^2 / (2 Z^2))`; c is 4 for cosines of random phase and 2 for complex exponentials.

    Parameters
    ----------
    %(theory_eps)s
    n_terms : int
        Number m of independent frequencies.
    mass : float, default=1.0
        Value :math:`Z = k(0)` of the kernel at zero, which is the total mass of its spectral measure; at least zero.
    %(theory_form)s

    %(theory_probability)s

    See Also
    --------
    fourier_uniform_failure : The probability that the largest error over all pairs of rows is large.
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
    """Return n (eps / (width * bound))^2, or infinity if `bound` is zero or the value exceeds the range of float64."""
    if bound == 0:
        return math.inf
    ratio = eps / bound / width
    return n * ratio * ratio
