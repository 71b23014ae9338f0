"""Graphs of positive features: unbiased weights, exact powers, the same sums from any engine."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import Deformed, FeatureGraph, Gaussian, MercerWarning, ParameterError, RandomFourier
from mercer.engines import Block, MemoryEngine, StreamEngine
from mercer.engines.base import workers
from mercer.graphs.feature_graph import MomentsOfBoth, PositiveFeatures, PositiveSum, best_exponent, gain
from mercer.io.archive import store

from ..calibrated.calibrated import median_misfit


def rows(n=80, d=3, seed=0):
    return np.random.default_rng(seed).normal(1.0, 1.0, size=(n, d))


def weights_of_draws(X, Y, bandwidth, A, draws, seed):
    rng = np.random.default_rng(seed)
    frequencies = rng.standard_normal((X.shape[1], draws))
    positive = PositiveFeatures.of(frequencies, X.mean(axis=0), bandwidth, A)
    return draws * positive(X) * positive(Y), positive  # each column is a draw of its own


def variance_of(X, Y, center, bandwidth, A):
    """Return the variance of one product: a Gaussian integral again, finite for A < 1/8."""
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


def test_the_exponent_is_the_best():
    for spread, d in ((0.5, 3), (4.0, 3), (4.0, 50)):
        best = best_exponent(spread, d)
        assert best <= 0

        def second(A, spread=spread, d=d):
            return d * np.log1p(-4 * A) - d / 2 * np.log1p(-8 * A) + 2 * (1 - 4 * A) * spread / (1 - 8 * A)

        assert second(best) <= min(second(best - 1e-3), second(min(0.0, best + 1e-3))) + 1e-12
        assert second(best) <= second(0.0)
    assert best_exponent(0.0, 3) == 0.0


@pytest.mark.parametrize("power", [0, 0.5, 1, 2, 2.7])
def test_powers_are_exact(power):
    X = rows()
    fourier = RandomFourier(Gaussian(1.0), 20, random_state=0).fit(X)
    positive = FeatureGraph(30).draw(X)
    W = positive(X) @ positive(X).T
    degree = W.sum(axis=1)
    L = np.eye(80) - W / np.sqrt(np.outer(degree, degree))
    values, vectors = np.linalg.eigh(L)
    M = 3.0 * (vectors * np.maximum(values, 0.0) ** power) @ vectors.T
    Phi = fourier.transform(X)
    expected = Phi @ np.linalg.solve(np.eye(20) + Phi.T @ M @ Phi, Phi.T)
    deformed = Deformed(fourier, FeatureGraph(30), alpha=3.0, power=power).fit(X)
    # Eigenvalues of zero are of 1e-16 through rounding, whose root counts.
    close = 1e-8 if power >= 1 else 1e-6
    np.testing.assert_allclose(deformed.gram(X), expected, atol=close)
    np.testing.assert_allclose(deformed.kernel_.penalty, M, atol=close)


def test_gains_at_the_ends():
    values = np.array([-1e-17, 0.0, 1e-9, 0.5, 1.0, 1.2])
    np.testing.assert_allclose(gain(values, 2.0), [2, 2, 2, 1.5, 1.0, 1 / 1.2], rtol=1e-6)
    np.testing.assert_allclose(gain(values, 0.0), 0.0)


def test_weights_are_repetitions():
    X = rows()
    repeats = np.random.default_rng(1).integers(0, 3, 80)
    graph = FeatureGraph(30, bandwidth=1.5)
    fourier = RandomFourier(Gaussian(1.0), 20, random_state=0)
    weighted = Deformed(fourier, graph, alpha=3.0).fit_engine(
        MemoryEngine(X, None, repeats.astype(float), block_rows=30)
    )
    repeated = Deformed(fourier, graph, alpha=3.0).fit(np.repeat(X, repeats, axis=0))
    np.testing.assert_allclose(weighted.gram(X), repeated.gram(X), atol=1e-9)


def test_far_rows_have_no_roughness():
    X = rows()
    X[-1] = 60.0
    deformed = Deformed(RandomFourier(Gaussian(1.0), 20, random_state=0), FeatureGraph(30, bandwidth=1.0)).fit(X)
    assert deformed.graph_.n_isolated == 1
    M = deformed.kernel_.penalty
    np.testing.assert_allclose(M[-1], 0.0, atol=1e-12)
    assert np.diagonal(M)[:-1].min() > 0.1
    Phi = deformed.feature_map_.transform(X)
    expected = Phi @ np.linalg.solve(np.eye(20) + Phi.T @ M @ Phi, Phi.T)
    np.testing.assert_allclose(deformed.gram(X), expected, atol=1e-8)


def test_sparse_rows_stay_sparse():
    dense = rows(60, 4) * (rows(60, 4, seed=1) > 1)
    wide = sp.csr_array((60, 300_000))
    X = sp.hstack([sp.csr_array(dense), wide], format="csr")
    graph = FeatureGraph(3, bandwidth=2.0)
    tracemalloc.start()
    positive = graph.draw(X)
    values = positive(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # Frequencies are of 300,004 x 3; the rows would be twenty times that.
    assert peak < 60e6
    np.testing.assert_allclose(positive(X.toarray()), values, rtol=1e-10)
    small, same = (graph.draw(form) for form in (dense, sp.csr_array(dense)))
    for wrap in (sp.csr_array, sp.csr_matrix):
        np.testing.assert_allclose(small(dense), same(wrap(dense)), rtol=1e-12)


@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array, sp.csr_matrix])
def test_rows_that_are_all_equal(wrap):
    X = wrap(np.ones((6, 3)))
    fitted = Deformed(RandomFourier(Gaussian(), 10, random_state=0), FeatureGraph(20)).fit(X)
    # All weights are one, and a function of equal rows is smooth.
    np.testing.assert_allclose(fitted.gram(X), fitted.feature_map_.gram(X), atol=1e-8)


def test_a_bandwidth_that_leaves_no_edges_is_said():
    with pytest.warns(MercerWarning, match=r"of 80 rows \d+ have no edge.*bandwidth 0.001.*larger bandwidth"):
        Deformed(RandomFourier(Gaussian(), 4), FeatureGraph(20, 1e-3)).fit(rows())


def test_blocks_and_dtypes():
    X = rows()
    fourier = RandomFourier(Gaussian(1.0), 20, random_state=0)
    graph = FeatureGraph(30)
    expected = Deformed(fourier, graph).fit(X).gram(X)
    stream = StreamEngine([(X[:7],), (X[7:],)], lambda X: (X, None, None))
    np.testing.assert_allclose(Deformed(fourier, graph).fit_engine(stream).gram(X), expected, atol=1e-10)
    np.testing.assert_allclose(Deformed(fourier, graph).fit(sp.csr_array(X)).gram(X), expected, atol=1e-10)
    narrow = Deformed(fourier, graph).fit(X.astype(np.float32))
    np.testing.assert_allclose(narrow.gram(X), expected, atol=1e-5)


def test_sums_can_be_left_and_taken_up_again():
    X = rows()
    fourier = RandomFourier(Gaussian(1.0), 20, random_state=0).fit(X)
    positive = FeatureGraph(30).draw(X)
    mean = positive(X).mean(axis=0)
    whole, first, second = (MomentsOfBoth(fourier.features_, positive, mean) for _ in range(3))
    with workers(1) as team:
        whole.add(Block(0, X[:50]), team)
        first.add(Block(0, X[:50]), team)
        second.restore(first.state())
        for total in (whole, second):
            total.add(Block(50, X[50:]), team)
    np.testing.assert_array_equal(np.triu(whole.result().gram), np.triu(second.result().gram))
    assert second.result().rows == 80
    assert np.triu(first.result().gram)[0, 0] != np.triu(second.result().gram)[0, 0]  # a copy went on


def test_sums_can_be_kept_in_checkpoints():
    X = rows()
    fourier = RandomFourier(Gaussian(1.0), 20, random_state=0).fit(X)
    moments = FeatureGraph(30).moments(fourier.features_, MemoryEngine(X, block_rows=40), seed=0)
    kept = store(moments).value()
    np.testing.assert_array_equal(np.triu(kept.gram), np.triu(moments.gram))
    np.testing.assert_array_equal(kept.positive(X), moments.positive(X))
    total = PositiveSum.of(Block(0, X), positive=moments.positive)
    np.testing.assert_array_equal(store(total).value().mean, total.mean)


def test_threads_change_no_bit():
    X = rows(700)
    fourier = RandomFourier(Gaussian(1.0), 20, random_state=0).fit(X)
    grams = [
        np.triu(FeatureGraph(30).moments(fourier.features_, MemoryEngine(X, block_rows=300, n_jobs=jobs), seed=0).gram)
        for jobs in (1, 2, 5)
    ]
    assert all(np.array_equal(grams[0], other) for other in grams)


@pytest.mark.parametrize(
    ("graph", "says"),
    [
        (FeatureGraph(0), "n_components must be an integer >= 1"),
        (FeatureGraph(bandwidth=-1.0), "bandwidth must be 'median' or a finite number > 0"),
    ],
)
def test_bad_parameters_are_refused(graph, says):
    with pytest.raises(ParameterError, match=says):
        Deformed(graph=graph).fit(rows())
