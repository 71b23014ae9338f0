"""Permutation tests have their level: exactly, for samples of any size, and not if rows are not independent."""

import numpy as np
import pytest
from scipy import stats

from mercer import Gaussian, RandomFourier, hsic_test, mmd_test

from .calibrated import FAILURE

LEVEL, RUNS, PERMUTATIONS = 0.1, 500, 19  # of 20 equally likely values, the two largest are significant


def two_samples(rng, *, copies):
    # Heavy tails, unequal sizes; the lengthscale is learned from the pooled rows.
    return np.repeat(rng.standard_t(2, size=(9, 2)), copies, axis=0), np.repeat(
        rng.standard_t(2, size=(6, 2)), copies, axis=0
    )


def two_columns(rng, *, copies):
    return np.repeat(rng.standard_t(2, size=(12, 1)), copies, axis=0), np.repeat(
        rng.uniform(size=(12, 2)), copies, axis=0
    )


def alarms(test, seed, *, copies=1):
    """How many tests without an effect, of samples with all rows repeated, are significant."""
    draw, maps = {
        "mmd": (two_samples, [RandomFourier(Gaussian("median"), 32)]),
        "hsic": (two_columns, [RandomFourier(Gaussian("median"), 16)] * 2),
    }[test]
    function = {"mmd": mmd_test, "hsic": hsic_test}[test]
    rng = np.random.default_rng(seed)
    options = dict(n_permutations=PERMUTATIONS, random_state=rng, n_jobs=1)
    results = [function(*draw(rng, copies=copies), *maps, **options) for _ in range(RUNS)]
    assert all((r.p_value <= LEVEL) == (r.statistic > r.threshold(LEVEL)) for r in results)
    return sum(r.p_value <= LEVEL for r in results)


def interval():
    """Alarms that a test of exactly this level has, but for the failure budget."""
    return stats.binom.ppf([FAILURE / 2, 1 - FAILURE / 2], RUNS, LEVEL)


@pytest.mark.parametrize("test", ["mmd", "hsic"])
def test_the_level_is_exact(test, seed):
    low, high = interval()
    assert low <= alarms(test, seed) <= high


@pytest.mark.parametrize("test", ["mmd", "hsic"])
def test_the_check_above_sees_rows_that_are_not_independent(test, seed):
    assert alarms(test, seed, copies=4) > interval()[1]
