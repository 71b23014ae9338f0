"""Positive random features: unbiased, of least variance, and without dense copies of sparse rows."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import FeatureGraph, Gaussian
from mercer.graphs.positive_features import PositiveFeatures, best_exponent

from ..calibrated.calibrated import median_misfit


def rows(n=80, d=3, seed=0):
    return np.random.default_rng(seed).normal(1.0, 1.0, size=(n, d))


def weights_of_draws(X, Y, bandwidth, A, draws, seed):
    rng = np.random.default_rng(seed)
    frequencies = rng.standard_normal((X.shape[1], draws))
    positive = PositiveFeatures.of(frequencies, X.mean(axis=0), bandwidth, A)
    return draws * positive(X) * positive(Y), positive  # each column is an independent draw


def variance_of(X, Y, center, bandwidth, A):
    """Return the variance of one product, a Gaussian integral that is finite for A < 1/8."""
    x, y = (X - center) / bandwidth, (Y - center) / bandwidth
    d, s = X.shape[1], np.square(x + y).sum(axis=1)
    base = np.exp(-2 * np.square(x).sum(axis=1) - 2 * np.square(y).sum(axis=1))
    second = (1 - 4 * A) ** d * (1 - 8 * A) ** (-d / 2) * np.exp(2 * (1 - 4 * A) * s / (1 - 8 * A)) * base
    return second - np.exp(-np.square(x - y).sum(axis=1))


@pytest.mark.parametrize("A", [0.0, -0.1])
def test_weights_are_unbiased(A, seed):
    X, Y = rows(5, seed=seed), rows(5, seed=seed + 1)
    products, positive = weights_of_draws(X, Y, 2.0, A, 100_000, seed)
    assert (products > 0).all()
    expected = np.diagonal(Gaussian(2.0)(X, Y))
    variance = variance_of(X, Y, positive.center, 2.0, A)
    assert median_misfit(products.T, expected, variance=variance) <= 1
    assert median_misfit(products.T, 1.2 * expected, variance=variance) > 1


def test_exponent_minimizes_the_variance():
    for spread, d in ((0.5, 3), (4.0, 3), (4.0, 50)):
        best = best_exponent(spread, d)
        assert best <= 0

        def second(A, spread=spread, d=d):
            return d * np.log1p(-4 * A) - d / 2 * np.log1p(-8 * A) + 2 * (1 - 4 * A) * spread / (1 - 8 * A)

        assert second(best) <= min(second(best - 1e-3), second(min(0.0, best + 1e-3))) + 1e-12
        assert second(best) <= second(0.0)
    assert best_exponent(0.0, 3) == 0.0


def test_sparse_rows_are_not_made_dense():
    dense = rows(60, 4) * (rows(60, 4, seed=1) > 1)
    wide = sp.csr_array((60, 300_000))
    X = sp.hstack([sp.csr_array(dense), wide], format="csr")
    graph = FeatureGraph(3, bandwidth=2.0)
    tracemalloc.start()
    positive = graph.draw(X)
    values = positive(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # The frequencies have shape (300004, 3); dense rows would take twenty times that memory.
    assert peak < 60e6
    np.testing.assert_allclose(positive(X.toarray()), values, rtol=1e-10)
    small, same = (graph.draw(form) for form in (dense, sp.csr_array(dense)))
    for wrap in (sp.csr_array, sp.csr_matrix):
        np.testing.assert_allclose(small(dense), same(wrap(dense)), rtol=1e-12)
