"""Tests of several samples, of pairs, and against a sampler: exact levels, power, ties, backends."""

import numpy as np
import pytest
from scipy.stats import binom, norm

from mercer import DataError, ParameterError, goodness_of_fit_test, k_sample_test, mmd_test, open_rows, paired_test
from mercer.hypothesis_tests.groups import SumByGroup, plan_groups, sample_engine
from mercer.hypothesis_tests.samples import _drawn


def three(seed, shift=0.0, sizes=(25, 40, 15)):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, 2)) + (i == 2) * shift for i, n in enumerate(sizes)]


def test_level_of_three_unequal_samples_is_exact():
    draws = 60
    options = {"n_permutations": 19, "n_components": 40}
    rejected = sum(k_sample_test(*three(s), random_state=s, **options).p_value <= 0.1 for s in range(draws))
    assert rejected <= binom.isf(1e-4, draws, 0.1)
    twin = sum(k_sample_test(*three(s, shift=1.5), random_state=s, **options).p_value <= 0.1 for s in range(15))
    assert twin >= 13


def test_statistic_is_the_weighted_distance_of_mean_features():
    samples = three(0)
    engines = [sample_engine("test", X)[0] for X in samples]
    _, features, seed = _drawn("test", "ABC", engines, 60, 0, None)
    result = k_sample_test(*samples, n_components=60, n_permutations=9, random_state=0)
    plan = plan_groups([len(X) for X in samples], seed)
    sums = [engine.sum(SumByGroup(features, plan, i)).sums.sum(axis=0) for i, engine in enumerate(engines)]
    mean = sum(sums) / 80
    expected = sum(
        len(X) / 80 * features.statistics((s / len(X) - mean)[None]) for X, s in zip(samples, sums, strict=True)
    )
    np.testing.assert_allclose(result.scales.statistics, expected[0], rtol=1e-10)


def test_equal_rows_have_a_p_value_of_one():
    same = np.ones((10, 2))
    assert k_sample_test(same, same, same, random_state=0).p_value == 1.0
    X = three(1)[0]
    assert paired_test(X, X, random_state=0).p_value == 1.0


def test_samples_in_files_and_blocks_give_the_same_result(tmp_path):
    samples = three(2)
    expected = k_sample_test(*samples, random_state=0).p_value
    np.save(tmp_path / "a.npy", samples[0])
    blocks = [(samples[1][:7],), (samples[1][7:],)]
    assert k_sample_test(open_rows(tmp_path / "a.npy"), blocks, samples[2], random_state=0).p_value == expected


def test_level_of_pairs_that_depend_on_each_other_is_exact():
    draws, rejected, twin = 60, 0, 0
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        common = rng.normal(size=(30, 2))
        X, Y = common + 0.5 * rng.normal(size=(30, 2)), common + 0.5 * rng.normal(size=(30, 2))
        options = {"n_permutations": 19, "n_components": 40, "random_state": seed}
        rejected += paired_test(X, Y, **options).p_value <= 0.1
        if seed < 15:
            twin += paired_test(X, Y + 0.6, **options).p_value <= 0.1
    assert rejected <= binom.isf(1e-4, draws, 0.1)
    assert twin >= 13


def test_pairs_that_are_not_divided_by_the_number_of_groups():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1301, 2))
    result = paired_test(X, X + 0.05 * rng.normal(size=(1301, 2)) + 0.05, random_state=0)
    assert result.p_value <= 0.01
    assert result.rows == (1301, 1301)
    assert result.witness is not None


def test_goodness_of_fit_to_scipy_distributions_and_functions():
    X = np.random.default_rng(0).normal(size=200)[:, None]
    assert goodness_of_fit_test(X, norm(), n_permutations=99, random_state=0).p_value > 0.05
    assert goodness_of_fit_test(X, norm(0.5), n_permutations=99, random_state=0).p_value == 0.01
    result = goodness_of_fit_test(X, lambda n, rng: rng.normal(size=(n, 1)), n_permutations=99, random_state=0)
    assert result.p_value > 0.05
    assert result.rows == (200, 1000)
    assert repr(result).startswith("goodness_of_fit_test: p = ")


def test_level_of_goodness_of_fit_is_exact():
    draws, rejected = 40, 0
    for seed in range(draws):
        X = np.random.default_rng([seed, 1]).exponential(size=(20, 1))
        result = goodness_of_fit_test(
            X, lambda n, rng: rng.exponential(size=(n, 1)), n_drawn=20, n_permutations=19, random_state=seed
        )
        rejected += result.p_value <= 0.1
    assert rejected <= binom.isf(1e-4, draws, 0.1)


def test_documents_through_a_vectorizer():
    from sklearn.feature_extraction.text import HashingVectorizer

    rng = np.random.default_rng(0)
    words, others = ["red", "green", "blue"], ["one", "two", "blue"]
    A, B, C = ([[" ".join(rng.choice(v, 5))] for _ in range(40)] for v in (words, words, others))

    def transform(rows):
        return HashingVectorizer(n_features=16).transform([row[0] for row in np.asarray(rows, dtype=object)]).toarray()

    samples = [np.array(S, dtype=object) for S in (A, B, C)]
    assert k_sample_test(*samples[:2], transform=transform, random_state=0).p_value > 0.05
    assert k_sample_test(*samples, transform=transform, random_state=0).p_value == 0.001


def test_invalid_input_is_refused():
    X, Y, _ = three(0)
    with pytest.raises(ParameterError, match="at least two samples, got 1"):
        k_sample_test(X)
    with pytest.raises(DataError, match="equal width, got 2, 1 features"):
        k_sample_test(X, Y[:, :1])
    with pytest.raises(DataError, match="equal length, got 25 and 40"):
        paired_test(X, Y)
    with pytest.raises(ParameterError, match="sampler must be a function"):
        goodness_of_fit_test(X, 3)
    with pytest.raises(DataError, match="must return 125 rows, got 3"):
        goodness_of_fit_test(X, lambda n, rng: Y[:3])
    with pytest.raises(DataError, match="sample 1 must have at least 2 rows"):
        k_sample_test(X, Y[:1])


def test_two_samples_agree_with_mmd_test():
    X, _, Z = three(3, shift=1.0)
    pair = k_sample_test(X, Z, random_state=0), mmd_test(X, Z, random_state=0)
    assert pair[0].p_value == pytest.approx(pair[1].p_value, abs=0.02)


def test_columns_in_another_order_are_refused():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    A, B = (pd.DataFrame({"age": rng.normal(40, 10, 60), "income": rng.normal(5e4, 1e4, 60)}) for _ in range(2))
    for test in (mmd_test, k_sample_test, paired_test):
        test(A, B, n_permutations=19, random_state=0)
        with pytest.raises(DataError, match="columns in another order"):
            test(A, B[["income", "age"]], n_permutations=19, random_state=0)
        with pytest.raises(DataError, match="columns with other names"):
            test(A, B.rename(columns={"age": "years"}), n_permutations=19, random_state=0)
