"""Permutation tests have the stated level exactly, for samples of any size with independent rows."""

import numpy as np
import pytest
from scipy import stats

from mercer import Gaussian, RandomFourier, hsic_test, mmd_test

from .calibrated import FAILURE

pytestmark = pytest.mark.covering(0)

LEVEL, RUNS, PERMUTATIONS = 0.1, 500, 19  # of 20 equally likely values, the two largest are significant


def two_samples(rng, *, copies):
    # Heavy tails and unequal sizes; the lengthscale is the median over the pooled rows.
    return np.repeat(rng.standard_t(2, size=(9, 2)), copies, axis=0), np.repeat(
        rng.standard_t(2, size=(6, 2)), copies, axis=0
    )


def two_variables(rng, *, copies):
    return np.repeat(rng.standard_t(2, size=(12, 1)), copies, axis=0), np.repeat(
        rng.uniform(size=(12, 2)), copies, axis=0
    )


def count_rejections(test, seed, *, copies=1):
    """Return the number of rejections of a true null hypothesis, for samples with every row repeated."""
    draw, maps = {
        "mmd": (two_samples, [RandomFourier(Gaussian("median"), 32)]),
        "hsic": (two_variables, [RandomFourier(Gaussian("median"), 16)] * 2),
    }[test]
    function = {"mmd": mmd_test, "hsic": hsic_test}[test]
    rng = np.random.default_rng(seed)
    options = dict(n_permutations=PERMUTATIONS, random_state=rng, n_jobs=1)
    results = [function(*draw(rng, copies=copies), *maps, **options) for _ in range(RUNS)]
    assert all((r.p_value <= LEVEL) == (r.statistic > r.threshold(LEVEL)) for r in results)
    return sum(r.p_value <= LEVEL for r in results)


def interval():
    """Return the interval for the number of rejections by a test of exactly this level."""
    return stats.binom.ppf([FAILURE / 2, 1 - FAILURE / 2], RUNS, LEVEL)


@pytest.mark.parametrize("test", ["mmd", "hsic"])
def test_level_is_exact(test, seed):
    low, high = interval()
    assert low <= count_rejections(test, seed) <= high


@pytest.mark.slow
@pytest.mark.parametrize("test", ["mmd", "hsic"])
def test_level_is_exceeded_for_dependent_rows(test, seed):
    assert count_rejections(test, seed, copies=4) > interval()[1]
