"""The distribution of weighted sums of chi-squared variables, against closed forms and simulation."""

import numpy as np
import pytest
from scipy.stats import chi2

from mercer.hypothesis_tests.given.chi_squares import WeightedChiSquares


@pytest.mark.parametrize("k", [1, 2, 5, 40])
def test_equal_weights_are_a_chi_squared_distribution(k):
    null = WeightedChiSquares(np.full(k, 3.0))
    for level in (0.9, 0.5, 0.1, 0.01, 1e-4, 1e-12, 1e-100):
        value = 3 * chi2.isf(level, k)
        # In the far tail, the relative error tends to that of Stirling's formula for the gamma function of k / 2.
        assert null.log_sf(value) == pytest.approx(np.log(level), abs=1 / (6 * k))
        if 0.01 <= level <= 0.1:
            assert null.sf(value) == pytest.approx(level, rel=0.02)


def test_unequal_weights_agree_with_simulation():
    rng = np.random.default_rng(0)
    weights = 0.6 ** np.arange(12)
    draws = rng.chisquare(1, (200_000, 12)) @ weights
    null = WeightedChiSquares(weights[::-1])
    assert null.mean == pytest.approx(weights.sum())
    for level in (0.5, 0.1, 0.05, 0.01):
        share = float(np.mean(draws >= null.isf(level)))
        # Four standard errors of the simulation, and 2 % for the approximation.
        assert abs(share - level) < 4 * np.sqrt(level / len(draws)) + 0.02 * level


def test_tail_is_monotone_and_continuous_at_the_mean():
    null = WeightedChiSquares([2.0, 1.0, 0.1])
    values = np.linspace(0.5 * null.mean, 1.5 * null.mean, 801)
    tail = np.array([null.sf(v) for v in values])
    assert (np.diff(tail) < 0).all()
    assert np.abs(np.diff(tail)).max() < 3 * np.abs(np.diff(tail)).mean()


def test_isf_is_the_inverse_of_sf():
    null = WeightedChiSquares([5.0, 1.0, 1e-14])
    for level in (0.99, 0.3, 1e-9):
        assert null.sf(null.isf(level)) == pytest.approx(level, rel=1e-6)


def test_no_positive_weights_mean_a_constant_of_zero():
    null = WeightedChiSquares([0.0, -1e-20])
    assert null.sf(0.0) == 1.0
    assert null.sf(1.0) == 0.0
    assert null.isf(0.05) == 0.0
