"""Feature graphs: unbiased weights, exact powers, and the same sums from every engine."""

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import Deformed, FeatureGraph, Gaussian, MercerWarning, ParameterError, RandomFourier
from mercer.engines import Block, MemoryEngine, StreamEngine
from mercer.engines.base import workers
from mercer.graphs.feature_graph import FeatureMomentSum, gain
from mercer.graphs.positive_features import PositiveSum
from mercer.io.archive import store


def rows(n=80, d=3, seed=0):
    return np.random.default_rng(seed).normal(1.0, 1.0, size=(n, d))


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
    deformed = Deformed(fourier, FeatureGraph(30), strength=3.0, power=power).fit(X)
    # Eigenvalues of zero are about 1e-16 because of rounding, and their square root is not negligible.
    close = 1e-8 if power >= 1 else 1e-6
    np.testing.assert_allclose(deformed.gram(X), expected, atol=close)
    np.testing.assert_allclose(deformed.kernel_.penalty, M, atol=close)


def test_gain_at_the_limits_of_the_spectrum():
    values = np.array([-1e-17, 0.0, 1e-9, 0.5, 1.0, 1.2])
    np.testing.assert_allclose(gain(values, 2.0), [2, 2, 2, 1.5, 1.0, 1 / 1.2], rtol=1e-6)
    np.testing.assert_allclose(gain(values, 0.0), 0.0)


def test_weights_are_repetitions():
    X = rows()
    repeats = np.random.default_rng(1).integers(0, 3, 80)
    graph = FeatureGraph(30, bandwidth=1.5)
    fourier = RandomFourier(Gaussian(1.0), 20, random_state=0)
    weighted = Deformed(fourier, graph, strength=3.0).fit_engine(
        MemoryEngine(X, None, repeats.astype(float), block_rows=30)
    )
    repeated = Deformed(fourier, graph, strength=3.0).fit(np.repeat(X, repeats, axis=0))
    np.testing.assert_allclose(weighted.gram(X), repeated.gram(X), atol=1e-9)


def test_isolated_rows_have_no_roughness():
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


@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array, sp.csr_matrix])
def test_equal_rows_have_no_roughness(wrap):
    X = wrap(np.ones((6, 3)))
    fitted = Deformed(RandomFourier(Gaussian(), 10, random_state=0), FeatureGraph(20)).fit(X)
    # All weights are one, and every function of equal rows is constant.
    np.testing.assert_allclose(fitted.gram(X), fitted.feature_map_.gram(X), atol=1e-8)


def test_bandwidth_without_edges_warns():
    with pytest.warns(MercerWarning, match=r"\d+ of 80 rows have no edge.*bandwidth 0.001.*larger bandwidth"):
        Deformed(RandomFourier(Gaussian(), 4), FeatureGraph(20, 1e-3)).fit(rows())


def test_blocks_sparse_rows_and_float32_give_the_same_kernel():
    X = rows()
    fourier = RandomFourier(Gaussian(1.0), 20, random_state=0)
    graph = FeatureGraph(30)
    expected = Deformed(fourier, graph).fit(X).gram(X)
    stream = StreamEngine([(X[:7],), (X[7:],)], lambda X: (X, None, None))
    np.testing.assert_allclose(Deformed(fourier, graph).fit_engine(stream).gram(X), expected, atol=1e-10)
    np.testing.assert_allclose(Deformed(fourier, graph).fit(sp.csr_array(X)).gram(X), expected, atol=1e-10)
    narrow = Deformed(fourier, graph).fit(X.astype(np.float32))
    np.testing.assert_allclose(narrow.gram(X), expected, atol=1e-5)


def test_accumulator_resumes_from_its_state():
    X = rows()
    fourier = RandomFourier(Gaussian(1.0), 20, random_state=0).fit(X)
    positive = FeatureGraph(30).draw(X)
    mean = positive(X).mean(axis=0)
    complete, first, second = (FeatureMomentSum(fourier.features_, positive, mean) for _ in range(3))
    with workers(1) as team:
        complete.add(Block(0, X[:50]), team)
        first.add(Block(0, X[:50]), team)
        second.restore(first.result())
        for total in (complete, second):
            total.add(Block(50, X[50:]), team)
    np.testing.assert_array_equal(np.triu(complete.result().gram), np.triu(second.result().gram))
    assert second.result().rows == 80
    assert np.triu(first.result().gram)[0, 0] != np.triu(second.result().gram)[0, 0]  # the state was copied


def test_moments_can_be_stored_in_checkpoints():
    X = rows()
    fourier = RandomFourier(Gaussian(1.0), 20, random_state=0).fit(X)
    moments = FeatureGraph(30).moments(fourier.features_, MemoryEngine(X, block_rows=40), seed=0)
    kept = store(moments).value()
    np.testing.assert_array_equal(np.triu(kept.gram), np.triu(moments.gram))
    np.testing.assert_array_equal(kept.positive(X), moments.positive(X))
    total = PositiveSum.of(Block(0, X), positive=moments.positive)
    np.testing.assert_array_equal(store(total).value().mean, total.mean)


def test_result_does_not_depend_on_threads():
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
def test_invalid_parameters_raise(graph, says):
    with pytest.raises(ParameterError, match=says):
        Deformed(graph=graph).fit(rows())
