"""Groups of rows, their permutations, and the combination of several statistics."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import nnls

from mercer import DataError, open_rows
from mercer.engines import MemoryEngine
from mercer.hypothesis_tests.frequencies import pooled_rows, shared_frequencies
from mercer.hypothesis_tests.groups import (
    RIDGE,
    SumByGroup,
    combine_scales,
    likelihood_ratios,
    mean_differences,
    permuted_labels,
    plan_groups,
    sample_engine,
    shuffled,
)

da = pytest.importorskip("dask.array")


@pytest.mark.parametrize("n", [1, 2, 3, 7, 64, 1000, 4097])
def test_shuffled_is_a_permutation(n):
    found = shuffled(np.arange(n), n, seed=3)
    assert sorted(found.tolist()) == list(range(n))
    part = np.arange(0, n, 3)
    assert np.array_equal(shuffled(part, n, seed=3), found[part])
    assert n < 10 or not np.array_equal(found, shuffled(np.arange(n), n, seed=4))


def test_positions_of_a_shuffled_row_are_uniform():
    # 1200 seeds; each of the 12 positions has a standard error of 9.6 around 100.
    counts = np.bincount([shuffled(np.array([3]), 12, seed=seed)[0] for seed in range(1200)], minlength=12)
    assert np.abs(counts - 100).max() < 5 * np.sqrt(100 * 11 / 12)


@pytest.mark.parametrize("rows", [(2, 2), (2, 500), (30, 20), (500, 500), (3000, 3000), (10**6, 100), (100, 10**6, 7)])
def test_groups_have_equal_sizes_and_enough_of_them(rows):
    plan = plan_groups(rows, seed=0)
    for number, n in enumerate(rows):
        if n > 10**5:
            continue
        counts = np.bincount(plan.groups_of(number, np.arange(n)), minlength=plan.counts[number] + 1)
        assert (counts[:-1] == plan.size).all()
        assert counts[-1] == n - plan.size * plan.counts[number]
    assert min(plan.counts) >= min(40, *rows)
    assert sum(plan.counts) <= 1200


def group_sums(X, Y, weights=(None, None), block_rows=8192, seed=0):
    engines = [
        MemoryEngine(rows, weight=weight, block_rows=block_rows) for rows, weight in zip((X, Y), weights, strict=True)
    ]
    pool = pooled_rows(engines[0], seed) + pooled_rows(engines[1], seed)
    features = shared_frequencies(pool, np.random.default_rng(seed), n_components=64, n_kernels=3)
    plan = plan_groups((len(X), len(Y)), seed, groups=30)
    return features, plan, [engine.sum(SumByGroup(features, plan, i)) for i, engine in enumerate(engines)]


def test_statistics_are_those_of_the_rows_of_permuted_groups():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(97, 2)), rng.normal(size=(131, 2)) * [1, 3]
    weights = rng.uniform(size=97), rng.uniform(size=131)
    features, plan, sums = group_sums(X, Y, weights)
    labels = permuted_labels(plan.counts, 5, rng)
    found = features.statistics(mean_differences(sums, labels))
    groups = [plan.groups_of(0, np.arange(97)), plan.groups_of(1, np.arange(131)) + 1000]
    for row, expected in zip(labels, found, strict=True):
        label = np.concatenate(
            [np.append(row[: plan.counts[0]], 0)[groups[0]], np.append(row[plan.counts[0] :], 1)[groups[1] - 1000]]
        )
        Z = np.empty((228, 64))
        features(np.concatenate([X, Y]), Z)
        w = np.concatenate(weights)
        a, b = (np.average(Z[label == i], axis=0, weights=w[label == i]) for i in (0, 1))
        squares = np.square(a - b).reshape(2, -1).sum(axis=0)
        np.testing.assert_allclose(expected, features.weights @ squares, rtol=1e-10)


def test_sums_do_not_depend_on_blocks():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(300, 3)), rng.normal(size=(200, 3))
    _, _, expected = group_sums(X, Y)
    for rows in (7, 100):
        _, _, found = group_sums(X, Y, block_rows=rows)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a.sums, b.sums, atol=1e-12)


def test_all_kinds_of_samples_become_engines(tmp_path):
    X = np.abs(np.random.default_rng(0).normal(size=(60, 3)))
    np.save(tmp_path / "x.npy", X)
    kinds = [X, X.tolist(), sp.csr_array(X), [X[:20], X[20:]], open_rows(tmp_path / "x.npy"), da.from_array(X, (25, 3))]
    expected = pooled_rows(sample_engine("a_test: X", X)[0], 0)
    for kind in kinds:
        found = pooled_rows(sample_engine("a_test: X", kind)[0], 0)
        assert found.rows == 60
        assert np.array_equal(found.sample.hash, expected.sample.hash)
        np.testing.assert_array_equal(found.high, expected.high)
    with pytest.raises(DataError, match="a_test: X: the rows are read twice, but generator can be read only once"):
        sample_engine("a_test: X", (X for _ in range(2)))
    with pytest.raises(DataError, match="a_test: X: weights must be 60 finite numbers >= 0"):
        sample_engine("a_test: X", X, np.full(60, -1.0))


def test_combined_p_value_is_exact_for_exchangeable_statistics():
    # The rank of the first of 20 exchangeable rows is uniform: a p-value of at most 0.1 has probability 0.1.
    rng = np.random.default_rng(0)
    squares = np.array([0.1, 0.5, 0.9])
    p = np.array([combine_scales(rng.gamma(2.0, size=(20, 3)), squares).p_value for _ in range(2000)])
    assert abs(np.mean(p <= 0.1) - 0.1) < 4 * np.sqrt(0.09 / 2000)
    assert p.min() == 0.05


def test_equal_statistics_count_against_the_alternative():
    M = np.ones((50, 2))
    assert combine_scales(M, np.array([0.1, 0.5])).p_value == 1.0
    M[:, 0] = np.repeat([2.0, 1.0], 25) * (1 + 1e-14 * np.arange(50))
    assert combine_scales(M, np.array([0.1, 0.5])).p_value == 0.5
    assert combine_scales(np.zeros((9, 2)), np.array([0.1, 0.5])).p_value == 1.0


def test_likelihood_ratios_are_those_of_nonnegative_least_squares():
    rng = np.random.default_rng(1)
    covariance = 0.9 ** np.abs(np.subtract.outer(range(10), range(10)))
    z = rng.multivariate_normal(np.zeros(10), covariance, 300)
    z = (z - z.mean(axis=0)) / z.std(axis=0)
    L = np.linalg.cholesky(np.linalg.inv(np.corrcoef(z.T) + RIDGE * np.eye(10))).T
    # |L z|^2 less the least |L (z - mean)|^2 of nonnegative means.
    expected = [np.square(L @ v).sum() - nnls(L, L @ v)[1] ** 2 for v in z]
    np.testing.assert_allclose(likelihood_ratios(z), expected, atol=1e-6)
    np.testing.assert_array_equal(likelihood_ratios(-np.ones((4, 2))), 0.0)


def test_differences_of_small_statistics_are_no_evidence():
    rng = np.random.default_rng(3)
    M = rng.gamma(5.0, size=(200, 1)) + 0.05 * rng.random((200, 2))
    M[0] = [0.3, 1.5]  # far below all others, but the second is large, given the first
    M /= M.mean(axis=0)
    roots = np.cbrt(M)
    z = (roots - roots.mean(axis=0)) / roots.std(axis=0)
    assert np.mean(likelihood_ratios(z) >= likelihood_ratios(z)[0]) < 0.05
    assert combine_scales(M, np.full(2, 0.5)).p_value > 0.9


@pytest.mark.parametrize("rule", ["likelihood ratio", "largest"])
def test_several_kernels_that_differ_slightly_are_evidence_together(rule):
    # Six independent statistics, all one and a half standard deviations above their mean.
    draws, level = 300, 0.05
    rng = np.random.default_rng(2)
    M = rng.gamma(20.0, size=(draws, 100, 6))
    M[:, 0] += 1.5 * np.sqrt(20.0)
    power = np.mean([combine_scales(rows, np.full(6, 0.5), rule=rule).p_value <= level for rows in M])
    # The sum of the six has a power above 0.95, the largest one of about a half.
    assert (power > 0.8) == (rule == "likelihood ratio")


def test_loudest_kernel_is_the_one_that_differs():
    rng = np.random.default_rng(0)
    M = rng.gamma(5.0, size=(200, 4))
    M[0, 2] = 40.0
    found = combine_scales(M, np.full(4, 0.5))
    assert found.loudest == 2
    assert found.p_values[2] == 1 / 200
    assert found.p_value == 1 / 200
