"""Intervals from standardized leave-one-out errors: their ranks, and their coverage of new targets."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from mercer.errors import ParameterError
from mercer.solvers.processes.intervals import StandardizedErrors, interval, quantile_of_sorted


def test_quantile_is_the_error_of_the_rank_of_a_new_one():
    ratios = np.arange(1.0, 20.0)  # 19 errors: a new one exceeds the 18th with probability 2 / 20
    assert quantile_of_sorted(ratios, np.ones(19), 0.9) == 18.0
    assert quantile_of_sorted(ratios, np.ones(19), 0.5) == 10.0


def test_quantile_with_too_few_errors_is_not_below_that_of_the_normal_distribution():
    assert quantile_of_sorted(np.array([0.1, 0.2]), np.ones(2), 0.9) == pytest.approx(stats.norm.ppf(0.95))
    assert quantile_of_sorted(np.array([0.1, 9.0]), np.ones(2), 0.9) == 9.0
    assert quantile_of_sorted(np.empty(0), np.empty(0), 0.9) == pytest.approx(stats.norm.ppf(0.95))


def test_weights_are_repetitions():
    ratios, counts = np.array([0.5, 1.0, 2.0, 4.0]), np.array([3, 5, 8, 4])
    for level in (0.1, 0.5, 0.9):
        repeated = quantile_of_sorted(np.repeat(ratios, counts), np.ones(20), level)
        assert quantile_of_sorted(ratios, counts.astype(float), level) == repeated


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
def test_coverage_of_heavy_tailed_errors(level):
    rng = np.random.default_rng(0)
    n = 8000
    known, new = (np.abs(rng.standard_t(3, size=n)) for _ in range(2))
    errors = StandardizedErrors.of([known], [np.ones(n)])
    ends = interval(SimpleNamespace(errors=errors), None, np.zeros((n, 1)), np.ones((n, 1)), level, "calibrated")
    inside = float((new <= ends[:, 0, 1]).mean())
    # Both shares are binomial: four standard deviations of their difference.
    assert abs(inside - level) < 4 * np.sqrt(2 * level * (1 - level) / n)
    normal = stats.norm.ppf(0.5 + level / 2) * np.sqrt(3)  # of normal errors with the same variance
    if level == 0.5:
        assert float((new <= normal).mean()) > level + 0.1


def test_model_without_errors_raises():
    with pytest.raises(ParameterError, match="Fit it again"):
        interval(SimpleNamespace(errors=None), None, np.zeros((1, 1)), np.ones((1, 1)), 0.9, "calibrated")
