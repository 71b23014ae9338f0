"""Tail bounds hold where the tail can be computed exactly; the formula printed in lecture notes does not."""

import numpy as np
import pytest
from scipy import stats

from mercer import ParameterError
from mercer.theory import fourier_failure, hoeffding_radius


def exact_failure(m, eps):
    """Return the probability that the mean of m independent signs is off by more than eps.

    A frequency is 0 or pi with equal probability; its cosine at lag one is 1 or -1, and the kernel there 0.
    """
    heads = np.arange(m + 1)
    return stats.binom(m, 0.5).pmf(heads)[np.abs(2 * heads / m - 1) > eps * (1 + 1e-12)].sum()


def printed_components(eps, delta):
    """Return the sample size as printed in lecture notes (docs/theory/fourier.md)."""
    return int(np.ceil(np.log(1 / delta) / eps**2))


@pytest.mark.parametrize("delta", [0.05, 0.01, 0.001, 1e-6])
@pytest.mark.parametrize("eps", [0.05, 0.1, 0.3])
def test_the_bound_holds_in_the_worst_case(eps, delta):
    m = int(np.ceil(2 * np.log(2 / delta) / eps**2))
    assert fourier_failure(eps, m) <= delta * (1 + 1e-12)
    assert exact_failure(m, eps) <= fourier_failure(eps, m)
    assert exact_failure(m, hoeffding_radius(m, width=2.0, failure=delta)) <= delta


@pytest.mark.parametrize(("delta", "failure"), [(0.05, 0.073), (0.01, 0.032), (0.001, 0.0077)])
def test_the_printed_formula_does_not_hold_there(delta, failure):
    m = printed_components(0.1, delta)
    assert exact_failure(m, 0.1) > delta
    assert exact_failure(m, 0.1) == pytest.approx(failure, rel=0.15)  # parity of m moves it by one atom
    assert exact_failure(m, 0.1) <= fourier_failure(0.1, m)


@pytest.mark.parametrize("m", [1, 2, 10, 333, 2000])
def test_the_bound_is_above_every_exact_tail(m):
    for eps in np.linspace(0.01, 1.2, 60):
        assert exact_failure(m, eps) <= fourier_failure(eps, m)


def test_radius_and_failure_are_inverse():
    for n, width, failure in [(10, 2.0, 0.05), (1000, 4.0, 1e-9)]:
        radius = hoeffding_radius(n, width=width, failure=failure)
        assert 2 * np.exp(-2 * n * (radius / width) ** 2) == pytest.approx(failure, rel=1e-12)
    radius = hoeffding_radius(500, width=2.0, failure=0.01)
    assert fourier_failure(radius, 500) == pytest.approx(0.01, rel=1e-12)


def test_failure_depends_on_the_error_in_units_of_the_mass():
    assert fourier_failure(0.3, 400, mass=3.0) == pytest.approx(fourier_failure(0.1, 400), rel=1e-12)
    assert fourier_failure(0.1, 400, mass=3.0) > fourier_failure(0.1, 400)


def test_phase_form_needs_four_times_the_terms_and_complex_form_as_many_as_pairs():
    assert fourier_failure(0.1, 4000, form="phase") == pytest.approx(fourier_failure(0.1, 1000), rel=1e-12)
    assert fourier_failure(0.1, 1000, form="complex") == fourier_failure(0.1, 1000)


def test_failure_probability_never_exceeds_one():
    assert fourier_failure(1e-6, 1) == 1.0


def test_zero_kernel_never_fails():
    assert fourier_failure(1e-6, 1, mass=0.0) == 0.0


@pytest.mark.parametrize("eps", [0, -0.1, float("nan")])
def test_a_wrong_error_is_refused(eps):
    with pytest.raises(ParameterError, match="fourier_failure: eps must be a finite number > 0, got"):
        fourier_failure(eps, 10)


def test_an_unknown_form_is_refused():
    with pytest.raises(
        ParameterError, match="fourier_failure: form must be one of pairs, phase, complex, got 'cosine'"
    ):
        fourier_failure(0.1, 10, form="cosine")
