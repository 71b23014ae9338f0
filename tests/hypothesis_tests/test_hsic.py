"""hsic_test: the statistic against its definition, permutations, power and errors."""

from itertools import permutations

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import DataError, Gaussian, Laplacian, ParameterError, RandomFourier, hsic_test, open_rows
from mercer.engines import MemoryEngine
from mercer.hypothesis_tests import hsic
from mercer.hypothesis_tests.frequencies import pooled_rows, scaled_rows
from mercer.hypothesis_tests.hsic import SquaredCovariances

da = pytest.importorskip("dask.array")


def pairs(n=60, seed=0, *, dependent=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    Y = rng.normal(size=(n, 3))
    if dependent:
        Y[:, 0] = X[:, 0] ** 2 + 0.5 * rng.normal(size=n)
    return X + 2, Y - 5


def trace_form(K, L):
    """Return the criterion tr(K H L H) / n^2."""
    n = len(K)
    H = np.eye(n) - 1 / n
    return np.trace(K @ H @ L @ H) / n**2


@pytest.mark.parametrize("n", [2, 5, 60])
def test_statistic_is_the_trace_of_centered_gram_matrices(n):
    X, Y = pairs(n)
    maps = RandomFourier(Gaussian(1.5), 30, random_state=0), RandomFourier(3 * Laplacian(4.0), 20, random_state=1)
    found = hsic_test(X, Y, *maps, n_permutations=3, random_state=0)
    expected = trace_form(maps[0].fit(X).gram(X), maps[1].fit(Y).gram(Y))
    np.testing.assert_allclose(found.statistic, expected, rtol=1e-10, atol=1e-14)
    assert found.rows == (n,)
    assert len(found.maps) == 2


def test_permuted_statistics_are_those_of_pairings():
    X, Y = pairs(4)
    maps = RandomFourier(Gaussian(1.5), 30, random_state=0), RandomFourier(Gaussian(2.0), 20, random_state=1)
    K, L = maps[0].fit(X).gram(X), maps[1].fit(Y).gram(Y)
    expected = np.array([trace_form(K, L[np.ix_(p, p)]) for p in permutations(range(4))])
    found = hsic_test(X, Y, *maps, n_permutations=1000, random_state=0)
    gaps = np.abs(found.null[:, None] - expected)
    assert gaps.min(axis=1).max() < 1e-12
    assert len(np.unique(gaps.argmin(axis=1))) == 24


def test_dependence_without_correlation_is_detected():
    X, Y = pairs(400, dependent=True)
    assert np.abs(np.corrcoef(X.T, Y.T)[:2, 2:]).max() < 0.2
    assert hsic_test(X, Y, random_state=0).p_value <= 0.01
    assert hsic_test(*pairs(400), random_state=0).p_value > 0.01


def test_constant_sample_has_p_value_one():
    X, _ = pairs()
    found = hsic_test(X, np.ones((60, 1)), None, Gaussian(1.0), random_state=0)
    assert found.p_value == 1.0
    assert found.statistic == pytest.approx(0, abs=1e-14)


def test_default_maps_are_different_draws():
    X, _ = pairs()
    same = hsic_test(X, X, None, random_state=0)
    assert same.p_value == 0.001
    names = [text.split(" for ")[0] for text in same.maps]
    assert names == ["RandomFourier with 100 components"] * 2


@pytest.mark.parametrize("kernel", ["adaptive", None])
def test_result_does_not_depend_on_threads_or_sparsity(kernel):
    X, Y = pairs(dependent=True)
    X = np.maximum(X, 0)
    expected = hsic_test(X, Y, kernel, n_permutations=99, random_state=0)
    for jobs in (1, 3):
        found = hsic_test(X, Y, kernel, n_permutations=99, random_state=0, n_jobs=jobs)
        assert found.statistic == expected.statistic
        assert np.array_equal(found.null, expected.null)
    sparse = hsic_test(sp.csr_array(X), Y, kernel, n_permutations=99, random_state=0)
    np.testing.assert_allclose(sparse.null, expected.null, rtol=0, atol=1e-9)
    single = hsic_test(X.astype(np.float32), Y.astype(np.float32), kernel, n_permutations=99, random_state=0)
    np.testing.assert_allclose(single.statistic, expected.statistic, rtol=1e-3)


def test_a_permutation_of_the_pairs_does_not_change_the_statistic():
    X, Y = pairs(dependent=True)
    order = np.random.default_rng(0).permutation(60)
    first, second = (hsic_test(A, B, None, n_permutations=9, random_state=0) for A, B in ((X, Y), (X[order], Y[order])))
    np.testing.assert_allclose(second.statistic, first.statistic, rtol=1e-10)
    first, second = (hsic_test(A, B, n_permutations=9, random_state=0) for A, B in ((X, Y), (X[order], Y[order])))
    np.testing.assert_allclose(second.scales.statistics, first.scales.statistics, rtol=1e-10)


@pytest.mark.parametrize(
    ("X", "Y", "message"),
    [
        (np.ones((5, 2)), np.ones((6, 2)), "observed in pairs and must have equal length, got 5 and 6 rows"),
        (np.ones((1, 2)), np.ones((1, 2)), "hsic_test: X must have at least 2 rows"),
        (np.ones((5, 2)), np.ones(5), "hsic_test: Y: rows must form a 2-d array"),
        (np.ones((5, 2)), np.full((5, 2), np.inf), "hsic_test: Y: rows must be finite"),
    ],
)
def test_invalid_rows_raise(X, Y, message):
    with pytest.raises(DataError, match=message):
        hsic_test(X, Y)


def test_invalid_parameters_raise():
    X, Y = pairs()
    with pytest.raises(ParameterError, match="hsic_test: n_permutations must be an integer >= 1, got 0"):
        hsic_test(X, Y, n_permutations=0)
    with pytest.raises(ParameterError, match="hsic_test: kernel_y must be a mercer map"):
        hsic_test(X, Y, None, "rbf")


def test_progress_counts_all_permutations():
    rng = np.random.default_rng(0)
    X, seen = rng.normal(size=(300, 2)), []
    result = hsic_test(X, X, None, n_permutations=19, random_state=0, progress=seen.append)
    assert result.p_value == hsic_test(X, X, None, n_permutations=19, random_state=0).p_value
    steps = [(p.rows, p.total, p.unit) for p in seen if p.stage == "permute"]
    assert steps == [(number, 19, "permutations") for number in range(20)]


# ---- the adaptive test -------------------------------------------------------------------------


def test_adaptive_statistics_are_those_of_the_permuted_rows():
    # 70 rows: 35 groups of two rows; the observed statistic is a double sum over features.
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(70, 2)), rng.normal(size=(70, 1))
    Z, U = rng.normal(size=(70, 4)), rng.normal(size=(70, 3))
    squares = SquaredCovariances(Z, U, 33, None)
    order = np.stack([np.arange(33), rng.permutation(33)])
    for row, found in zip(order, squares.of(order), strict=True):
        rows = np.arange(70)
        rows[:66] = (2 * row[:, None] + [0, 1]).ravel()
        np.testing.assert_allclose(found, np.square(Z.T @ U[rows]), atol=1e-10)
    found = hsic_test(X, Y, n_components=400, n_permutations=9, random_state=0).scales
    assert found.statistics.shape == (8, 8)
    a, b = (np.linalg.norm(V[:, None] - V, axis=2) for V in (scaled(X), scaled(Y)))
    H = np.eye(70) - 1 / 70
    h, g = found.lengthscales
    K, L = np.exp(-0.5 * (a / h[4]) ** 2), np.exp(-0.5 * (b / g[5]) ** 2)
    np.testing.assert_allclose(found.statistics[4, 5], np.trace(K @ H @ L @ H) / 70**2, rtol=0.1)


def scaled(X):
    return scaled_rows(pooled_rows(MemoryEngine(X, block_rows=100), 0))(X)


def test_adaptive_result_is_the_same_in_memory_from_files_and_on_dask(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2))
    Y = np.sin(3 * X[:, :1]) + rng.normal(size=(150, 1))
    np.save(tmp_path / "x.npy", X)
    options = dict(n_permutations=99, random_state=0)
    expected = hsic_test(X, Y, **options)
    others = [
        hsic_test(open_rows(tmp_path / "x.npy"), [Y[:40], Y[40:]], **options),
        hsic_test(da.from_array(X, (40, 2)), da.from_array(Y, (70, 1)), **options),
        hsic_test(X, Y, sample_weight=np.full(150, 2.0), **options),
    ]
    for found in others:
        assert found.p_value == expected.p_value
        np.testing.assert_allclose(found.null, expected.null, atol=1e-8)
    weight = np.r_[np.ones(75), np.zeros(75)]
    bent = np.r_[Y[:75], X[75:, :1]]  # dependent in rows of weight zero only
    assert hsic_test(X[:, 1:], Y, sample_weight=weight, random_state=0).p_value > 0.05
    assert hsic_test(X[:, :1], bent, random_state=0).p_value == 0.001


def test_ties_and_constants_of_the_adaptive_test():
    X = np.tile([0.0, 1.0, 0.0, 1.0], 10)[:, None]
    Y = np.tile([0.0, 0.0, 1.0, 1.0], 10)[:, None]
    assert hsic_test(X, Y, random_state=0).p_value == 1.0
    assert hsic_test(X, np.ones((40, 1)), random_state=0).p_value == 1.0
    assert hsic_test(X, X, random_state=0).p_value == 0.001


def test_more_pairs_than_are_used_are_sampled(monkeypatch):
    monkeypatch.setattr(hsic, "MOST_PAIRS", 100)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 1))
    found = hsic_test(X, X + 0.1 * rng.normal(size=(300, 1)), n_permutations=99, random_state=0)
    assert found.rows == (300,)
    assert found.p_value == 0.01


def test_parameters_of_adaptive_and_given_kernels_are_not_mixed():
    X, Y = pairs()
    with pytest.raises(ParameterError, match="hsic_test: kernel_y is for a given kernel"):
        hsic_test(X, Y, "adaptive", Gaussian(1.0))
    with pytest.raises(ParameterError, match="hsic_test: sample_weight is for kernel='adaptive'"):
        hsic_test(X, Y, Gaussian(1.0), sample_weight=np.ones(60))


@pytest.mark.slow
def test_level_of_the_adaptive_test():
    runs, rejected = 400, 0
    for run in range(runs):
        rng = np.random.default_rng([run, 6])
        X, Y = np.sort(rng.standard_t(2, size=(75, 1)), axis=0), rng.uniform(size=(75, 2))
        rejected += hsic_test(X, Y, n_permutations=19, n_components=16, random_state=run, n_jobs=1).p_value <= 0.1
    assert abs(rejected / runs - 0.1) < 5 * np.sqrt(0.09 / runs)
