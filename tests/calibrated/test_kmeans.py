"""Initialization of k-means: every row is chosen with the probability of the method."""

from itertools import product

import numpy as np
import pytest

from mercer import Gaussian, RandomFourier
from mercer.engines import Block
from mercer.solvers.clusters.lloyd import RowFeatures
from mercer.solvers.clusters.starts import FarRows, feature_distances, plus_plus
from mercer.statistics import DistinctRows, exponentials, row_hashes

from .calibrated import misfit

pytestmark = pytest.mark.slow

POINTS = np.array([[0.0, 0.0], [0.3, 0.1], [2.0, 1.0], [2.0, 1.2], [-1.0, 3.0]])
WEIGHT = np.array([1.0, 3.0, 0.5, 2.0, 1.0])


# ---- distinct rows --------------------------------------------------------------------------------------------------


def first_of_sample(n, seed):
    """Return which of five rows, the first of which has nine copies, has the smallest key, for n seeds."""
    X = np.repeat(np.arange(5.0)[:, None] + 0.5, [9, 1, 1, 1, 1], axis=0)
    hashes = row_hashes(X)
    hits = np.zeros((n, 5))
    for i in range(n):
        found = DistinctRows.of(Block(0, X), hashes, exponentials(hashes, seed * 100_000 + i), size=1)
        hits[i, int(found.X[0, 0])] = 1
    return hits


def test_distinct_rows_have_equal_probabilities(seed):
    assert misfit(first_of_sample(20_000, seed), np.full(5, 0.2), width=1) <= 1


def test_misfit_detects_probabilities_in_proportion_to_copies(seed):
    assert misfit(first_of_sample(20_000, seed), np.array([9, 1, 1, 1, 1]) / 13, width=1) > 1


# ---- k-means|| ------------------------------------------------------------------------------------------------------


def far_rows(n, seed):
    """Return which row is drawn by its distance from the first, for n seeds, and all squared distances."""
    draw = RowFeatures(RandomFourier(Gaussian(2.0), 16, random_state=0).fit(POINTS).features_)
    Z = draw.of(POINTS)
    hits = np.zeros((n, len(POINTS)))
    for i in range(n):
        found = FarRows(draw, Z[:1], 1, seed * 100_000 + i)(Block(0, POINTS, None, WEIGHT))
        hits[i, (POINTS == found.X[0]).all(axis=1).argmax()] = 1
    return hits, np.square(Z - Z[0]).sum(axis=1)


@pytest.mark.slow
def test_rows_are_drawn_in_proportion_to_squared_distances(seed):
    hits, squares = far_rows(10_000, seed)
    assert misfit(hits, squares / squares.sum(), width=1) <= 1


def test_misfit_detects_distances_that_are_not_squared(seed):
    hits, squares = far_rows(10_000, seed)
    assert misfit(hits, np.sqrt(squares) / np.sqrt(squares).sum(), width=1) > 1


# ---- k-means++ ------------------------------------------------------------------------------------------------------


def probabilities_of_plus_plus(weight):
    """Return the probability of each ordered pair of initial centers, by enumeration of the two trials."""
    n = len(POINTS)
    squares = np.square(POINTS[:, None] - POINTS).sum(axis=2)
    probabilities = np.zeros((n, n))
    for first in range(n):
        mass = weight * squares[first]
        trial = mass / mass.sum()
        for a, b in product(range(n), repeat=2):
            left = [WEIGHT @ np.minimum(squares[first], squares[second]) for second in (a, b)]
            chosen = (a, b)[int(np.argmin(left))]
            probabilities[first, chosen] += weight[first] / weight.sum() * trial[a] * trial[b]
    return probabilities.ravel()


def pairs(n, seed):
    rng = np.random.default_rng(seed)
    hits = np.zeros((n, len(POINTS) ** 2))
    for i in range(n):
        first, second = plus_plus(feature_distances(POINTS), WEIGHT, 2, rng)
        hits[i, first * len(POINTS) + second] = 1
    return hits


def test_pairs_have_the_probabilities_of_greedy_k_means_plus_plus(seed):
    assert misfit(pairs(20_000, seed), probabilities_of_plus_plus(WEIGHT), width=1) <= 1


def test_misfit_detects_ignored_weights(seed):
    assert misfit(pairs(20_000, seed), probabilities_of_plus_plus(np.ones(5)), width=1) > 1
