"""Level and power of permutation tests: exact cases, and simulations."""

import numpy as np
import pytest
from scipy import stats

from mercer import ParameterError
from mercer.theory import linear_mmd_power, mmd_power, permutation_level


@pytest.mark.parametrize(
    ("level", "n", "expected"), [(0.05, 999, 0.05), (0.05, 18, 0.0), (0.1, 19, 0.1), (0.5, 2, 1 / 3)]
)
def test_level_of_a_permutation_test(level, n, expected):
    assert permutation_level(level, n) == pytest.approx(expected, abs=1e-15)
    ranks = np.arange(1, n + 2) / (n + 1)  # the p-values, all equally likely
    assert permutation_level(level, n) == pytest.approx(np.mean(ranks <= level + 1e-12))


@pytest.mark.parametrize("r", [1, 3, 30])
@pytest.mark.parametrize("shift", [0.0, 5.0, 20.0])
def test_equal_eigenvalues_give_a_noncentral_chi_squared_test(r, shift):
    expected = stats.ncx2.sf(stats.chi2.isf(0.05, r), r, shift) if shift else 0.05
    signals = np.full(r, 3.0 * shift / r * (1 / 40 + 1 / 60))
    assert mmd_power(np.full(r, 3.0), signals, 40, 60) == pytest.approx(expected, abs=1e-6)


def test_power_of_unequal_eigenvalues_is_that_of_a_simulation():
    rng = np.random.default_rng(0)
    eigenvalues, m, n = 0.6 ** np.arange(12), 50, 80
    spread = np.sqrt(eigenvalues * (1 / m + 1 / n))
    null = np.square(rng.normal(size=(200_000, 12)) * spread).sum(axis=1)
    for means in (spread * [2.5, *[0] * 11], spread * [0, 0, 0, 5.0, *[0] * 8]):
        drawn = np.square(rng.normal(size=(100_000, 12)) * spread + means).sum(axis=1)
        simulated = np.mean(drawn > np.quantile(null, 0.95))
        # Four cumulants are matched: the error is largest, 0.016, if one small eigenvalue has the complete signal. The
        # standard error of the simulation is 0.0016.
        assert mmd_power(eigenvalues, means**2, m, n) == pytest.approx(simulated, abs=0.025)
        assert abs(mmd_power(eigenvalues, 2 * means**2, m, n) - simulated) > 0.05


def test_power_of_samples_with_features():
    # Two samples of features of a Gaussian kernel, permuted: theory with the true covariance of the features.
    rng = np.random.default_rng(1)
    W = rng.normal(size=(2, 10)) / 1.5

    def features(X):
        return np.hstack([np.cos(X @ W), np.sin(X @ W)]) / np.sqrt(10)

    many = rng.normal(size=(100_000, 2))
    values, vectors = np.linalg.eigh(np.cov(features(many).T))
    shift, n, runs = np.array([0.35, 0.0]), 60, 400
    difference = features(many + shift).mean(axis=0) - features(many).mean(axis=0)
    expected = mmd_power(np.maximum(values, 0), np.square(vectors.T @ difference), n, n)
    rejected = 0
    for _ in range(runs):
        Z = features(np.concatenate([rng.normal(size=(n, 2)), rng.normal(size=(n, 2)) + shift]))
        signs = np.where(np.arange(2 * n) < n, 1 / n, -1 / n)
        signs = np.vstack([signs, rng.permuted(np.tile(signs, (99, 1)), axis=1)])
        statistic = np.square(signs @ Z).sum(axis=1)
        rejected += np.mean(statistic >= statistic[0]) <= 0.05
    assert abs(rejected / runs - expected) < 4 * np.sqrt(0.25 / runs)
    assert 0.2 < expected < 0.9


def test_linear_time_statistic_loses_power():
    rng = np.random.default_rng(0)
    n, shift, runs = 100, 0.7, 2000

    def terms(a, b):
        def kernel(x, y):
            return np.exp(-0.5 * np.square(x - y))

        half = a.shape[-1] // 2
        x, x2, y, y2 = a[..., :half], a[..., half:], b[..., :half], b[..., half:]
        return kernel(x, x2) + kernel(y, y2) - kernel(x, y2) - kernel(x2, y)

    one = terms(rng.normal(size=400_000), rng.normal(size=400_000) + shift)
    expected = linear_mmd_power(float(one.mean()), float(one.std()), n)
    h = terms(rng.normal(size=(runs, n)), rng.normal(size=(runs, n)) + shift)
    t = h.mean(axis=1) / (h.std(axis=1) / np.sqrt(n // 2))
    assert np.mean(t > stats.norm.isf(0.05)) == pytest.approx(expected, abs=4 * np.sqrt(0.25 / runs) + 0.02)
    X = rng.normal(size=600)
    K = np.exp(-0.5 * np.square(X[:, None] - X))
    K = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    values, vectors = np.linalg.eigh(K / 600)
    witness = np.exp(-0.5 * np.square(X[:, None] - X - shift)).mean(axis=1) - np.exp(
        -0.5 * np.square(X[:, None] - X)
    ).mean(axis=1)
    keep = values > 1e-6
    signals = np.square(vectors[:, keep].T @ witness) / 600 / values[keep]
    assert mmd_power(values[keep], signals, n, n) > expected + 0.2


def test_invalid_arguments_raise():
    with pytest.raises(ParameterError, match="one number per eigenvalue, 2, got 1"):
        mmd_power([1.0, 2.0], [1.0], 5, 5)
    with pytest.raises(ParameterError, match="eigenvalues must contain a number > 0"):
        mmd_power([0.0], [1.0], 5, 5)
    with pytest.raises(ParameterError, match="level"):
        permutation_level(1.5, 9)


def test_linear_power_of_one_row_is_the_level():
    """There is no pair of rows, whatever the deviation is."""
    assert linear_mmd_power(0.3, 5e-324, 1, 0.05) == pytest.approx(0.05)
    assert linear_mmd_power(0.3, 5e-324, 2, 0.05) == 1.0
