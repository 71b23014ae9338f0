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


# ---- the adaptive test -------------------------------------------------------------------------


def test_adaptive_result_is_the_same_in_memory_from_blocks_from_files_and_on_dask(tmp_path):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(260, 3)), rng.normal(size=(140, 3)) + 0.2
    X = X[np.argsort(X[:, 0])]  # sorted rows
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", np.column_stack([Y, np.zeros(140)]))
    options = dict(n_permutations=99, random_state=0)
    for size in (None, 64):  # exact kernels, and features
        expected = mmd_test(X, Y, n_components=size, **options)
        others = {
            "blocks": mmd_test([X[:33], X[33:]], [Y], n_components=size, **options),
            "files": mmd_test(
                open_rows(tmp_path / "x.npy"), open_rows(tmp_path / "y.npy", target=-1), n_components=size, **options
            ),
            "dask": mmd_test(da.from_array(X, (50, 3)), da.from_array(Y, (70, 3)), n_components=size, **options),
            "threads": mmd_test(X, Y, n_components=size, n_jobs=2, **options),
        }
        for name, found in others.items():
            assert found.p_value == expected.p_value, name
            np.testing.assert_allclose(found.null, expected.null, atol=1e-8, err_msg=name)
            np.testing.assert_allclose(found.scales.statistics, expected.scales.statistics, rtol=1e-9, err_msg=name)


def test_features_approximate_the_exact_kernels():
    X, Y = samples(200, 150, shift=0.4)
    exact = mmd_test(X, Y, n_permutations=9, random_state=0).scales
    approximate = mmd_test(X, Y, n_components=4000, n_permutations=9, random_state=0).scales
    np.testing.assert_array_equal(exact.lengthscales[0], approximate.lengthscales[0])
    np.testing.assert_allclose(approximate.statistics[3:], exact.statistics[3:], rtol=0.1)
    W = np.concatenate([X, Y])
    scaling = mmd_test(X, Y, n_permutations=9, random_state=0).witness.features.scaling
    signs = np.where(np.arange(350) < 200, 1 / 200, -1 / 150)
    expected = [signs @ Gaussian(h)(scaling(W)) @ signs for h in exact.lengthscales[0]]
    np.testing.assert_allclose(exact.statistics, expected, rtol=1e-9)


def test_adaptive_test_sees_what_the_median_lengthscale_does_not():
    rng = np.random.default_rng(0)
    centers = 20 * np.array([[1, 1], [-1, 1], [1, -1], [-1, -1]])

    def mixture(n, last):
        number = rng.integers(4, size=n)
        return centers[number] + rng.normal(size=(n, 2)) * np.where(number == 3, last, 1.0)[:, None]

    X, Y = mixture(600, 1.0), mixture(600, 2.0)
    found = mmd_test(X, Y, n_permutations=199, random_state=0)
    assert found.p_value == 0.005
    assert mmd_test(X, Y, None, n_permutations=199, random_state=0).p_value > 0.05
    assert found.scales.lengthscale[0] < 0.2  # in spreads of 20: the width of a cluster


def test_units_and_heavy_tails_do_not_matter():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_cauchy(size=(200, 3)), rng.standard_cauchy(size=(250, 3)) + np.eye(3)[1]
    units = np.array([1e-8, 1.0, 1e8])
    expected = mmd_test(X, Y, n_permutations=99, random_state=0)
    assert expected.p_value == 0.01
    assert expected.witness.columns(1)[0].column == 1
    found = mmd_test(X * units, Y * units, n_permutations=99, random_state=0)
    assert found.p_value == expected.p_value
    np.testing.assert_allclose(found.scales.z, expected.scales.z, atol=0.05)
    with_constant = mmd_test(np.c_[X, np.ones(200)], np.c_[Y, np.ones(250)], n_permutations=99, random_state=0)
    assert with_constant.p_value == 0.01


def test_ties_of_the_adaptive_test_count_against_the_alternative():
    for values in ([0.0, 1.0], [0.0, 0.0, 0.0]):
        X = np.tile(values, 6)[:, None]
        for size in (None, 16):
            assert mmd_test(X, X[: len(values) * 3], n_components=size, random_state=0).p_value == 1.0
    X, Y = np.array([[0.0], [0.0], [1.0]]), np.array([[0.0], [1.0], [1.0]])
    assert mmd_test(X, Y, random_state=0).p_value > 0.5  # 18 of the 20 divisions are as extreme


def test_constant_weights_change_nothing_and_rows_of_weight_zero_are_ignored():
    X, Y = samples(150, 120, shift=0.3)
    options = dict(n_permutations=99, random_state=0)
    for size in (None, 64):
        expected = mmd_test(X, Y, n_components=size, **options)
        weighted = mmd_test(
            X, Y, sample_weight_x=np.full(150, 3.0), sample_weight_y=np.full(120, 3.0), n_components=size, **options
        )
        np.testing.assert_allclose(weighted.null, expected.null, atol=1e-8)
    weight = np.r_[np.ones(150), np.zeros(50)]
    far = np.concatenate([X, X[:50] + 5])
    assert mmd_test(far, Y, random_state=0).p_value == 0.001
    found = mmd_test(far, X + 1e-9, sample_weight_x=weight, random_state=0)
    assert found.p_value > 0.05
    with pytest.raises(DataError, match="mmd_test: X must have a row of positive weight"):
        mmd_test(X, Y, sample_weight_x=np.zeros(150))
    with pytest.raises(ParameterError, match="mmd_test: sample_weight_y is for kernel='adaptive', got kernel=None"):
        mmd_test(X, Y, None, sample_weight_y=np.ones(120))


def test_rows_pass_through_a_transform():
    rng = np.random.default_rng(0)
    words = np.array([["a b c"], ["c d"], ["e e e"], ["a"]])
    X, Y = words[rng.integers(0, 3, 100)], words[rng.integers(1, 4, 100)]

    def letters(rows):
        return np.array([[text.count(letter) for letter in "abcde"] for (text,) in np.asarray(rows)], dtype=float)

    found = mmd_test(X, Y, transform=letters, n_permutations=99, random_state=0)
    assert found.p_value == 0.01
    expected = mmd_test(letters(X), letters(Y), n_permutations=99, random_state=0)
    np.testing.assert_array_equal(found.null, expected.null)


def test_adaptive_progress_ends_with_the_permutations():
    X, Y = samples(300, 200)
    seen = []
    result = mmd_test(X, Y, n_permutations=19, random_state=0, progress=seen.append)
    assert result.p_value == mmd_test(X, Y, n_permutations=19, random_state=0).p_value
    assert list(dict.fromkeys(p.stage for p in seen)) == ["sample rows", "sum over groups", "permute"]
    assert (seen[-1].rows, seen[-1].total, seen[-1].fraction) == (19, 19, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["unequal", "ties", "sorted", "weights", "groups", "unequal groups"])
def test_level_of_the_adaptive_test(kind):
    runs, rejected = 400, 0
    for run in range(runs):
        rng = np.random.default_rng([run, 5])
        sizes = {"unequal": (60, 9), "groups": (400, 300), "unequal groups": (900, 90)}.get(kind, (40, 30))
        X, Y = (rng.standard_t(2, size=(n, 2)) for n in sizes)
        options = {"n_components": 32} if "groups" in kind else {}
        if kind == "ties":
            X, Y = np.sign(X), np.sign(Y)
        if kind == "sorted":
            X, Y = X[np.argsort(X[:, 0])], Y[np.argsort(-Y[:, 0])]
        if kind == "weights":
            options = {"sample_weight_x": np.abs(X[:, 1]) + 0.1, "sample_weight_y": np.abs(Y[:, 1]) + 0.1}
        rejected += mmd_test(X, Y, n_permutations=19, random_state=run, n_jobs=1, **options).p_value <= 0.1
    # Five standard errors of 400 draws; ties make the test conservative.
    assert rejected / runs < 0.1 + 5 * np.sqrt(0.09 / runs)
    assert kind == "ties" or rejected / runs > 0.1 - 5 * np.sqrt(0.09 / runs)


@pytest.mark.slow
def test_level_is_exceeded_for_repeated_rows():
    """The twin of the test of the level: copies of rows are not independent."""
    rejected = 0
    for run in range(200):
        rng = np.random.default_rng([run, 5])
        X, Y = (np.repeat(rng.standard_t(2, size=(n, 2)), 4, axis=0) for n in (20, 15))
        rejected += mmd_test(X, Y, n_permutations=19, random_state=run, n_jobs=1).p_value <= 0.1
    assert rejected / 200 > 0.1 + 5 * np.sqrt(0.09 / 200)
