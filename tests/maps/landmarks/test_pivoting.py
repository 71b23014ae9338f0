"""Randomly pivoted Cholesky in blocks: the distribution is that of one pivot at a time."""

import itertools

import numpy as np
import pytest
from scipy import stats

from mercer import Gaussian, Polynomial
from mercer.maps.landmarks import pivoting
from mercer.maps.landmarks.pivoting import pivoted_rows

X = np.array([[0.0, 0.0], [0.3, 0.1], [1.0, 0.5], [1.1, 0.2], [3.0, 3.0]])
WEIGHT = np.array([1.0, 3.0, 0.5, 1.0, 2.0])
DRAWS = 4000


def distribution(kernel, weight, count):
    """Return the probability of every set of pivots, from the definition: one pivot after the other."""
    found = {}

    def go_on(K, chosen, probability):
        if len(chosen) == count:
            key = tuple(sorted(chosen))
            found[key] = found.get(key, 0.0) + probability
            return
        share = weight * np.diagonal(K)
        for i in np.flatnonzero(np.diagonal(K) > 1e-12):
            go_on(K - np.outer(K[:, i], K[:, i]) / K[i, i], [*chosen, i], probability * share[i] / share.sum())

    go_on(kernel(X), [], 1.0)
    return found


def p_value(count, seed=0):
    expected = distribution(Gaussian(), WEIGHT, count)
    rng = np.random.default_rng(seed)
    drawn = [tuple(sorted(pivoted_rows(Gaussian(), X, WEIGHT, count, rng).tolist())) for _ in range(DRAWS)]
    sets = [s for s in itertools.combinations(range(len(X)), count) if expected.get(s, 0.0) * DRAWS > 5]
    seen = [sum(one == s for one in drawn) for s in sets]
    wanted = [DRAWS * expected[s] for s in sets]
    rest = DRAWS - sum(wanted)
    return (
        stats.chisquare([*seen, DRAWS - sum(seen)], [*wanted, rest]).pvalue
        if rest > 5
        else (stats.chisquare(seen, np.array(wanted) * sum(seen) / sum(wanted)).pvalue)
    )


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_distribution_is_that_of_one_pivot_at_a_time(count):
    assert p_value(count) > 1e-6


@pytest.mark.slow
def test_the_distribution_without_rejection_differs(monkeypatch):
    class Never:
        def __init__(self, rng):
            self.choice = rng.choice

        @staticmethod
        def random():
            return 0.0

    kept = pivoting.accepted
    monkeypatch.setattr(pivoting, "accepted", lambda left, noise, most, rng: kept(left, noise, most, Never(rng)))
    assert p_value(2) < 1e-9


def test_blocks_of_pivots_have_the_error_of_single_pivots():
    rng = np.random.default_rng(0)
    rows, kernel = rng.normal(size=(400, 3)), Gaussian(1.0)
    K = kernel(rows)

    def mean_error(least, most):
        pivoting.LEAST, pivoting.MOST = least, most
        errors = []
        for seed in range(12):
            S = pivoted_rows(kernel, rows, np.ones(400), 64, np.random.default_rng(seed))
            errors.append(np.trace(K - K[:, S] @ np.linalg.solve(K[np.ix_(S, S)] + 1e-12 * np.eye(64), K[S])))
        return np.mean(errors), np.std(errors) / np.sqrt(12)

    bounds = pivoting.LEAST, pivoting.MOST
    try:
        (one, e), (many, f) = mean_error(1, 1), mean_error(32, 32)
    finally:
        pivoting.LEAST, pivoting.MOST = bounds
    assert abs(one - many) < 6 * np.hypot(e, f)


def test_pivots_are_distinct_and_at_most_the_rank():
    rows = np.repeat(np.random.default_rng(0).normal(size=(10, 3)), 3, axis=0)
    chosen = pivoted_rows(Gaussian(), rows, np.ones(30), 30, np.random.default_rng(0))
    assert len(chosen) == 10
    assert len(np.unique(rows[chosen], axis=0)) == 10
    rows = np.random.default_rng(1).normal(size=(50, 3))
    assert len(pivoted_rows(Polynomial(degree=2), rows, np.ones(50), 40, np.random.default_rng(0))) == 10


def test_a_kernel_of_zero_has_one_pivot():
    assert pivoted_rows(0 * Gaussian(), X, np.ones(5), 3, np.random.default_rng(0)).tolist() == [0]
