"""Frequencies that are chosen for the rows: the formulas of the choice, less error, and no bias on any rows."""

import math

import numpy as np
import pytest

from mercer import Gaussian, Laplacian, Matern, ParameterError, RandomFourier, ResampledFourier
from mercer.maps.fourier.projections import DenseProjection
from mercer.maps.fourier.resampled import leading_vectors, leverage_scores, pair_products, row_cosines
from mercer.testing import catoni_misfit


def rows(n, d, seed):
    return np.random.default_rng(seed).normal(size=(n, d))


def rmse(feature_map, X):
    error = (feature_map.gram(X) - feature_map.kernel_(X))[np.triu_indices(len(X), 1)]
    return math.sqrt(np.square(error).mean())


def test_products_of_cosines_are_means_over_pairs():
    X, W = rows(12, 3, 0), rows(5, 3, 1).T
    weight = np.arange(1.0, 13.0)
    lags = X[:, None] - X
    cosines = np.cos(lags @ W)
    shares = np.outer(weight, weight) / weight.sum() ** 2
    expected = np.einsum("xy,xyi,xyj->ij", shares, cosines, cosines)
    np.testing.assert_allclose(pair_products(row_cosines(DenseProjection(W), X, weight)), expected, atol=1e-12)


def test_leverage_scores_are_those_of_the_definition():
    Z = row_cosines(DenseProjection(rows(6, 3, 2).T), rows(40, 3, 3), None)
    scores = leverage_scores(Z, 4.0)
    assert scores.sum() == pytest.approx(4.0, rel=1e-6)
    G = Z.T @ Z
    # The ridge is unknown: the scores of the definition have one for which all of them agree.
    ridges = np.geomspace(1e-6, 10, 4001)
    sums = [np.trace(np.linalg.solve(G + ridge * np.eye(12), G)) for ridge in ridges]
    ridge = ridges[np.argmin(np.abs(np.array(sums) - 4.0))]
    diagonal = np.diag(np.linalg.solve(G + ridge * np.eye(12), G))
    np.testing.assert_allclose(scores, diagonal[:6] + diagonal[6:], rtol=0.01)


def test_leading_vectors_are_those_of_the_matrix():
    rng = np.random.default_rng(4)
    Q = np.linalg.qr(rng.normal(size=(40, 40)))[0]
    M = (Q * 0.5 ** np.arange(40)) @ Q.T
    found = leading_vectors(M, 5, rng)
    np.testing.assert_allclose(np.abs(found.T @ Q[:, :5]), np.eye(5), atol=1e-6)


@pytest.mark.parametrize("kernel", [Gaussian(2.0), Matern(1.5, 2.0), Laplacian(3.0)], ids=repr)
def test_balanced_frequencies_have_less_error_on_other_rows(kernel):
    X, Y = rows(300, 3, 5), rows(200, 3, 6)
    errors = np.array(
        [
            [rmse(kind(kernel, 64, random_state=seed).fit(X), Y) for kind in (ResampledFourier, RandomFourier)]
            for seed in range(5)
        ]
    )
    mean, plain = np.sqrt(np.square(errors).mean(axis=0))
    assert mean < 0.9 * plain


@pytest.mark.slow
@pytest.mark.parametrize("sampling", ["balanced", "leverage"])
def test_no_bias_on_rows_unlike_those_of_the_fit(sampling):
    # The choice is made for rows near a line; the pairs are elsewhere.
    X = rows(30, 3, 7) * [1.0, 0.01, 0.01]
    pairs = rows(6, 3, 8) + 2.0
    kernel, upper = 2.0 * Matern(2.5, 1.5), np.triu_indices(6, 1)
    options = {"n_components": 9, "pool": 4, "sampling": sampling, "random_state": np.random.default_rng(9)}
    draws = [ResampledFourier(kernel, **options).fit_sample(X) for _ in range(200)]
    values = np.array([draw.gram(pairs)[upper] for draw in draws])
    variance = 2 * values.var(axis=0)  # an upper bound, since the values are bounded and the draws many
    assert catoni_misfit(values, kernel(pairs)[upper], variance) <= 1
    assert catoni_misfit(values, kernel(pairs)[upper] + 0.7, variance) > 1


def test_weights_of_leverage_are_at_most_twice_the_plain_ones():
    m = ResampledFourier(Laplacian(0.5), 100, sampling="leverage", random_state=0).fit(rows(200, 4, 10))
    assert np.square(m.features_.amplitudes).max() <= 2 / 50 * (1 + 1e-12)
    assert np.ptp(m.features_.amplitudes) > 0


def test_diagonal_of_balanced_features_is_exact():
    X = rows(50, 4, 11)
    m = ResampledFourier(1 + 2.0 * Gaussian(1.5), 65, random_state=0).fit(X)
    np.testing.assert_allclose(np.diag(m.gram(X)), 3.0, rtol=1e-12)
    assert m.pool_size_ == 8 * 32


def test_groups_of_frequencies_are_chosen_from_their_part_of_the_pool(monkeypatch):
    monkeypatch.setattr("mercer.maps.fourier.resampled.GROUP", 4)
    for sampling in ("balanced", "leverage"):
        m = ResampledFourier(Gaussian(), 21, pool=3, sampling=sampling, random_state=0).fit(rows(100, 2, 12))
        assert m.pool_size_ == 33
        # The same seed draws the same pool.
        pool = RandomFourier(Gaussian(), 66, directions="big_block", random_state=0).fit(rows(1, 2, 12))
        equal = (m.features_.projection.weights.T[:, None] == pool.features_.projection.weights.T).all(axis=2)
        assert (equal.sum(axis=1) == 1).all()
        found = np.sort(equal.argmax(axis=1))
        np.testing.assert_array_equal(np.histogram(found, [0, 12, 24, 33])[0], [4, 4, 3])
        assert len(np.unique(found)) == 11


@pytest.mark.parametrize(
    ("options", "says"), [({"sampling": "greedy"}, "sampling must be"), ({"pool": 1}, "pool must")]
)
def test_wrong_parameters_are_refused(options, says):
    with pytest.raises(ParameterError, match=f"ResampledFourier: {says}"):
        ResampledFourier(Gaussian(), 8, **options).fit(rows(10, 2, 13))


@pytest.mark.parametrize(("d", "orthogonal"), [(1000, True), (1100, False)])
def test_frequencies_of_the_pool_are_orthogonal_unless_rows_are_wide(d, orthogonal):
    m = ResampledFourier(Gaussian(30.0), 16, pool=2, random_state=0).fit(rows(20, d, 14))
    W = m.features_.projection.weights
    cosines = np.triu(W.T @ W, 1) / np.square(np.linalg.norm(W, axis=0)).max()
    assert (np.abs(cosines).max() < 1e-12) == orthogonal
