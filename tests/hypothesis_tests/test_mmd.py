"""mmd_test: the statistic against its definition, permutations, power and errors."""

from itertools import combinations

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

from mercer import (
    DataError,
    Gaussian,
    Laplacian,
    Nystroem,
    ParameterError,
    Polynomial,
    RandomFourier,
    RandomMaclaurin,
    mmd_test,
    open_rows,
)
from mercer.hypothesis_tests import mmd as two_sample
from mercer.hypothesis_tests.mmd import DividedSums, unbiased_mmd


def samples(m=30, n=20, d=3, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(m, d)), rng.normal(shift, 1.0, size=(n, d))


def quadratic_mmd(K, first):
    """Return the unbiased squared MMD by its double sums over the Gram matrix, given a mask of the first sample."""
    K = K - np.diag(np.diagonal(K))
    m, n = first.sum(), (~first).sum()
    within = K[np.ix_(first, first)].sum() / (m * (m - 1)) + K[np.ix_(~first, ~first)].sum() / (n * (n - 1))
    return within - 2 * K[np.ix_(first, ~first)].sum() / (m * n)


@pytest.mark.parametrize(
    "feature_map",
    [
        RandomFourier(Gaussian(1.5), 30, random_state=0),
        RandomFourier(3.0 * Laplacian(2.0), 7, random_state=0),
        RandomMaclaurin(Polynomial(2), 10, random_state=0),
    ],
    ids=repr,
)
@pytest.mark.parametrize("sizes", [(30, 20), (2, 2), (2, 40), (40, 3)])
def test_statistic_is_the_double_sum_over_the_gram_matrix(feature_map, sizes):
    X, Y = samples(*sizes)
    X, Y = X + 3, Y + 3  # neither centered nor of unit norm
    found = mmd_test(X, Y, feature_map, n_permutations=3, random_state=0)
    W = np.concatenate([X, Y])
    expected = quadratic_mmd(feature_map.fit(W).gram(W), np.arange(len(W)) < len(X))
    np.testing.assert_allclose(found.statistic, expected, rtol=1e-7, atol=1e-10)
    assert found.rows == sizes


def test_exact_map_gives_the_statistic_of_the_kernel():
    X, Y = samples(shift=0.5)
    found = mmd_test(X, Y, Nystroem(Gaussian(1.5), 50, landmarks="uniform", random_state=0), n_permutations=3)
    expected = quadratic_mmd(Gaussian(1.5)(np.concatenate([X, Y])), np.arange(50) < 30)
    np.testing.assert_allclose(found.statistic, expected, rtol=1e-6)


@pytest.mark.parametrize("block_rows", [2, 1024])
def test_permuted_statistics_are_those_of_divisions(block_rows, monkeypatch):
    monkeypatch.setattr(two_sample, "BLOCK_ROWS", block_rows)
    X, Y = samples(3, 4)
    W = np.concatenate([X, Y])
    feature_map = RandomFourier(Gaussian(1.5), 16, random_state=0)
    K = feature_map.fit(W).gram(W)
    expected = [quadratic_mmd(K, np.isin(np.arange(7), rows)) for rows in combinations(range(7), 3)]
    found = mmd_test(X, Y, feature_map, n_permutations=2000, random_state=0)
    gaps = np.abs(found.null[:, None] - np.array(expected))
    assert gaps.min(axis=1).max() < 1e-12
    assert len(np.unique(gaps.argmin(axis=1))) == 35  # each of the 35 divisions occurs
    assert found.p_value >= np.mean(np.array(expected) >= found.statistic - 1e-12) / 2


def test_all_divisions_have_the_same_sample_sizes(monkeypatch):
    monkeypatch.setattr(two_sample, "BLOCK_ROWS", 7)
    sums = []
    monkeypatch.setattr(two_sample, "unbiased_mmd", lambda *a: sums.append(a) or unbiased_mmd(*a))
    monkeypatch.setattr(two_sample, "DividedSums", lambda draw, shift, *rest: DividedSums(draw, 0 * shift, *rest))
    X, Y = samples(33, 50)
    mmd_test(X, Y, RandomFourier(Gaussian(), 8), n_permutations=200, random_state=0)
    first, total, m, n = sums[0]
    np.testing.assert_allclose(first[:, -1], 33, rtol=1e-12)  # pairs of cosine and sine have length one
    np.testing.assert_allclose(total[-1], 83, rtol=1e-12)
    assert (m, n) == (33, 50)
    assert len(np.unique(first[:, 0].round(12))) == 201


def test_mean_of_the_null_distribution_is_zero():
    X, Y = samples(4, 3)
    K = Gaussian(1.5)(np.concatenate([X, Y]))
    values = [quadratic_mmd(K, np.isin(np.arange(7), rows)) for rows in combinations(range(7), 4)]
    assert np.mean(values) == pytest.approx(0, abs=1e-12)


def test_constant_samples_have_p_value_one():
    X = np.ones((9, 2))
    for Y in (X, X[:4]):
        found = mmd_test(X, Y, Gaussian(1.0), random_state=0)
        assert found.p_value == 1.0
        assert found.statistic == pytest.approx(0, abs=1e-12)


def test_ties_count_against_the_alternative():
    X, Y = np.array([[0.0], [0.0], [1.0]]), np.array([[0.0], [1.0], [1.0]])
    found = mmd_test(X, Y, Gaussian(1.0), random_state=0)
    # 18 of the 20 divisions have a statistic at least as large as this one.
    assert found.p_value > 0.5


@pytest.mark.parametrize(
    "change",
    [lambda Y: Y + 0.5, lambda Y: 1.6 * Y, lambda Y: np.sign(Y), lambda Y: Y[:, [0, 0, 0]]],
    ids=["mean", "scale", "shape", "dependence"],
)
def test_differences_are_detected(change):
    X, Y = samples(400, 300)
    assert mmd_test(X, change(Y), Gaussian(0.7), random_state=0).p_value <= 0.01
    assert mmd_test(X, Y, Gaussian(0.7), random_state=0).p_value > 0.01


def test_rows_far_from_zero_lose_no_accuracy():
    X, Y = samples(60, 50, shift=1.0)
    near = mmd_test(X, Y, Gaussian(1.0), random_state=0)
    linear = RandomMaclaurin(Polynomial(1), 4, random_state=0)
    far, centered = (mmd_test(X + c, Y + c, linear, n_permutations=99, random_state=0) for c in (1e6, 0.0))
    assert near.p_value < 0.01
    np.testing.assert_allclose(far.statistic, centered.statistic, rtol=1e-3)
    assert far.p_value == centered.p_value == 0.01


@pytest.mark.parametrize("kernel", ["adaptive", None])
def test_result_does_not_depend_on_threads_sparsity_or_container(kernel):
    X, Y = samples(300, 200, shift=0.1)
    X, Y = np.maximum(X, 0), np.maximum(Y, 0)
    expected = mmd_test(X, Y, kernel, random_state=0)
    for jobs in (1, 2, 5):
        found = mmd_test(X, Y, kernel, random_state=0, n_jobs=jobs)
        assert found.statistic == expected.statistic
        assert np.array_equal(found.null, expected.null)
    sparse = mmd_test(sp.csr_array(X), sp.csr_matrix(Y), kernel, random_state=0)
    np.testing.assert_allclose(sparse.null, expected.null, rtol=0, atol=1e-9)
    assert sparse.p_value == expected.p_value
    single = mmd_test(X.astype(np.float32), Y.astype(np.float32), kernel, random_state=0)
    np.testing.assert_allclose(single.statistic, expected.statistic, atol=2e-3)
    lists = mmd_test(X.tolist(), Y.tolist(), kernel, random_state=0)
    assert lists.p_value == expected.p_value
    assert mmd_test(X, Y, kernel, random_state=1).statistic != expected.statistic


def test_learned_lengthscale_does_not_depend_on_the_division_into_samples():
    X, Y = samples(3000, 1500)
    Y = 4 * Y
    W = np.concatenate([X, Y])[np.random.default_rng(0).permutation(4500)]
    kernels = [
        mmd_test(A, B, None, n_permutations=1, random_state=0).maps for A, B in ((X, Y), (Y, X), (W[:99], W[99:]))
    ]
    assert kernels[0] == kernels[1] == kernels[2]


@pytest.mark.parametrize(
    ("X", "Y", "message"),
    [
        (np.ones(5), np.ones((5, 1)), r"mmd_test: X: rows must form a 2-d array .* Try X.reshape\(-1, 1\)"),
        (np.ones((5, 2)), np.ones((5, 3)), "X and Y must have equal width, got 2 and 3 features"),
        (np.ones((1, 2)), np.ones((5, 2)), r"X must have at least 2 rows and one feature, got shape \(1, 2\)"),
        (
            np.ones((5, 2)),
            np.ones((0, 2)),
            r"mmd_test: Y must have at least 2 rows and one feature, got shape \(0, 2\)",
        ),
        (np.ones((5, 0)), np.ones((5, 0)), r"X must have at least 2 rows and one feature"),
        (np.ones((5, 2)), np.full((5, 2), np.nan), "mmd_test: Y: rows must be finite"),
        (np.ones((5, 2)), np.array([["a", "b"]] * 3), "mmd_test: Y: rows must be numbers"),
    ],
)
def test_invalid_rows_raise(X, Y, message):
    with pytest.raises(DataError, match=message):
        mmd_test(X, Y)


def test_invalid_parameters_raise():
    X, Y = samples()
    for bad in (0, 2.5, True, "many"):
        with pytest.raises(ParameterError, match="n_permutations must be an integer >= 1"):
            mmd_test(X, Y, n_permutations=bad)
    with pytest.raises(ParameterError, match="kernel must be 'adaptive', a mercer map"):
        mmd_test(X, Y, "rbf")
    with pytest.raises(ParameterError, match="needs real features"):
        mmd_test(X, Y, RandomFourier(Gaussian(), form="complex"))


def test_samples_in_files_give_the_result_of_arrays(tmp_path):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(60, 3)), rng.normal(size=(40, 3)) + 0.3
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", np.column_stack([Y, np.zeros(40)]))
    in_files = mmd_test(open_rows(tmp_path / "x.npy"), open_rows(tmp_path / "y.npy", target=-1), random_state=0)
    expected = mmd_test(X, Y, random_state=0)
    assert (in_files.statistic, in_files.p_value) == (expected.statistic, expected.p_value)
    with pytest.raises(DataError, match=r"mmd_test: Y must be rows in memory, or the result of open_rows, got Array"):
        mmd_test(X, da.from_array(Y), None)


def test_progress_counts_all_rows():
    rng = np.random.default_rng(0)
    X, Y, seen = rng.normal(size=(300, 2)), rng.normal(size=(200, 2)), []
    result = mmd_test(X, Y, None, n_permutations=19, random_state=0, progress=seen.append)
    assert result.p_value == mmd_test(X, Y, None, n_permutations=19, random_state=0).p_value
    assert list(dict.fromkeys(p.stage for p in seen)) == ["fit map", "divide"]
    assert (seen[-1].rows, seen[-1].total, seen[-1].fraction) == (500, 500, 1.0)
    with pytest.raises(ParameterError, match="mmd_test: progress must be one of True, False or a callable, got 1"):
        mmd_test(X, Y, progress=1)
