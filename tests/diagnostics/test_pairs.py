"""Samples of pairs of rows: unbiased estimates of sums over all pairs, and intervals for means of skewed values."""

import numpy as np
import pytest
from scipy.stats import binom

from mercer.diagnostics.pairs import (
    BLOCKS,
    UNIFORM_SHARE,
    PairSample,
    mean_interval,
    ratio_interval,
    row_probabilities,
    sample_pairs,
)


def test_sums_are_unbiased_over_all_possible_blocks():
    # All blocks of two left and two right rows of three, with the probability of each: the mean is exact.
    rng = np.random.default_rng(0)
    values, p = rng.normal(size=(3, 3)), np.array([0.5, 0.3, 0.2])
    draws = [(i, j) for i in range(3) for j in range(3)]
    left = np.array([a for a in draws for _ in draws])
    right = np.array([b for _ in draws for b in draws])
    pairs = PairSample(left, right, p)
    chance = p[left].prod(axis=1) * p[right].prod(axis=1)
    assert chance.sum() == pytest.approx(1)
    blocks = [values[np.ix_(a, b)] for a, b in zip(left, right, strict=True)]
    off = values - np.diag(np.diag(values))
    sums = [pairs.sums(k, block)[0] for k, block in enumerate(blocks)]
    assert chance @ sums == pytest.approx(off.sum())
    squares = [pairs.sum_of_squares(k, block) for k, block in enumerate(blocks)]
    expected = (np.square(off.sum(axis=1)).sum() + np.square(off.sum(axis=0)).sum()) / 2
    assert chance @ squares == pytest.approx(expected)


def test_number_of_pairs_is_about_the_square_of_the_number_of_rows():
    p = np.full(50, 0.02)
    for n_rows in (100, 1000):
        pairs = sample_pairs(p, n_rows, np.random.default_rng(0))
        assert len(pairs.left) == BLOCKS
        assert 0.9 * n_rows**2 < pairs.n_pairs <= n_rows**2


def test_probabilities_bound_the_weighted_errors():
    rng = np.random.default_rng(0)
    Z = rng.standard_t(2, size=(60, 5))  # rows of very different lengths
    exact, approximate = Z @ Z.T, Z[:, :4] @ Z[:, :4].T  # as for landmarks, the residual is positive semi-definite
    size, residual = np.diag(exact) + np.diag(approximate), np.diag(exact - approximate)
    p = row_probabilities(size, residual)
    assert p.sum() == pytest.approx(1)
    weighted = np.square(exact - approximate) / np.outer(p, p)
    assert weighted.max() <= 4 * residual.sum() ** 2 * (1 + 1e-12)
    assert weighted.max() <= 8 * size.sum() ** 2
    uniform = np.square(exact - approximate) * 60**2
    assert uniform.max() > 4 * residual.sum() ** 2  # the bound is not trivial


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_probabilities_of_huge_and_tiny_rows(scale):
    size = np.array([1.0, 2.0, 5.0, 0.0])
    p = row_probabilities(size * scale, np.zeros(4))
    np.testing.assert_allclose(p, (1 - UNIFORM_SHARE) * size / 8 + UNIFORM_SHARE / 4)
    np.testing.assert_allclose(row_probabilities(np.zeros(4), np.zeros(4)), 0.25)


def test_interval_of_symmetric_values_is_that_of_student():
    values = np.array([-3.0, -1.0, 0.0, 1.0, 3.0]) + 7
    low, high = mean_interval(values)
    assert (low + high) / 2 == pytest.approx(7)
    assert high - 7 == pytest.approx(2.7764451 * np.sqrt(5 / 5))  # the 97.5 % quantile for 4 degrees of freedom
    assert mean_interval(np.full(9, 0.25)) == (0.25, 0.25)


def test_interval_of_student_covers_heavy_tails_of_both_signs_more_often():
    rng = np.random.default_rng(0)
    draws = 1500
    values = rng.choice([-1.0, 1.0], size=(draws, 256)) * rng.gamma(0.03, size=(draws, 256))  # their mean is zero
    covered = {
        skewed: sum(low <= 0 <= high for low, high in (mean_interval(v, skewed=skewed) for v in values))
        for skewed in (False, True)
    }
    # With a true coverage of 0.94 or more, fewer are covered once in a million runs.
    assert covered[False] >= binom.ppf(1e-6, draws, 0.94)
    assert covered[True] < binom.ppf(1e-6, draws, 0.94)


def test_interval_is_equivariant_and_inverts_the_transformation():
    values = np.random.default_rng(0).exponential(size=40) ** 2
    low, high = mean_interval(values)
    np.testing.assert_allclose(mean_interval(1e-200 * values), (1e-200 * low, 1e-200 * high))
    n, deviation = 40, values - values.mean()
    g = (deviation**3).mean() / (deviation**2).mean() ** 1.5 / np.sqrt(n)
    for end, quantile in ((low, 2.0226909), (high, -2.0226909)):
        t = (values.mean() - end) / (values.std(ddof=1) / np.sqrt(n))
        assert t + g * t**2 / 3 + g**2 * t**3 / 27 + g / 6 == pytest.approx(quantile)


def test_interval_of_skewed_values_holds_where_that_of_student_fails():
    rng = np.random.default_rng(0)
    draws = 3000
    values, truth = rng.gamma(0.03, size=(draws, 256)), 0.03
    covered = sum(low <= truth <= high for low, high in map(mean_interval, values))
    error = 1.96 * values.std(axis=1, ddof=1) / np.sqrt(256)
    student = int((abs(values.mean(axis=1) - truth) <= error).sum())
    # Student's interval is below 90 % and ours above, with a probability of error of 1e-6 each.
    assert student < binom.ppf(1e-6, draws, 0.90)
    assert covered > binom.ppf(1 - 1e-6, draws, 0.90)


def test_pairs_of_different_rows_are_drawn_even_if_one_row_has_nearly_all_of_the_error():
    size = np.array([1e60, *np.ones(50)])
    probability = row_probabilities(size, size)
    assert probability.sum() == pytest.approx(1)
    pairs = sample_pairs(probability, 100, np.random.default_rng(0))
    different = np.mean(pairs.left[:, :, None] != pairs.right[:, None, :])
    assert 0.02 < different < 0.08


def test_weights_of_a_block_are_those_of_its_sums():
    pairs = sample_pairs(np.array([0.5, 0.3, 0.2]), 100, np.random.default_rng(0))
    values = np.random.default_rng(1).normal(size=(pairs.left.shape[1],) * 2)
    assert (pairs.weights(3) * values).sum() == pytest.approx(pairs.sums(3, values)[0])


def test_interval_of_a_ratio_covers_it_also_if_both_parts_are_correlated():
    rng = np.random.default_rng(0)
    draws = 2000
    denominators = rng.gamma(2.0, size=(draws, 256))
    numerators = 0.3 * denominators + rng.gamma(0.5, size=(draws, 256)) * denominators
    truth = 0.3 + 0.5
    ends = np.array([ratio_interval(*both) for both in zip(numerators, denominators, strict=True)])
    covered = int(((ends[:, 0] <= truth) & (truth <= ends[:, 1])).sum())
    assert covered > binom.ppf(1e-6, draws, 0.945)
    # The interval uses the correlation: that of the numerators alone, divided by the mean, is longer.
    apart = np.array([mean_interval(n) for n in numerators]) / denominators.mean(axis=1, keepdims=True)
    assert np.median(np.diff(ends)) < 0.9 * np.median(np.diff(apart))
    # The test has power: intervals around a ratio that is off by 5 % do not cover.
    assert ((ends[:, 0] <= 0.95 * truth) & (0.95 * truth <= ends[:, 1])).sum() < binom.ppf(1e-6, draws, 0.945)
