"""Moments of features and targets add up to the same for any division of the rows into blocks."""

import pickle
from dataclasses import replace
from functools import partial, reduce
from itertools import pairwise
from operator import add

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge, RidgeClassifier

from mercer import (
    Gaussian,
    GaussianProcessRegressor,
    KernelPCA,
    KernelRidge,
    KernelRidgeClassifier,
    Nystroem,
    Polynomial,
    RandomFourier,
    RandomMaclaurin,
)
from mercer.engines import Block, MemoryEngine
from mercer.engines.base import row_blocks, workers
from mercer.features import Features, LinearForm
from mercer.io.archive import store
from mercer.solvers.ridge.least_squares import centered_moments
from mercer.statistics import RowSample
from mercer.statistics import moments as moments_module
from mercer.statistics.moments import (
    GramSum,
    Moments,
    MomentSum,
    TargetMoments,
    add_products,
    far_mean,
    label_indicators,
    largest_eigenvalue,
    moved_gram,
    no_targets,
    pack_upper,
    point_near,
    rows_as_targets,
    symmetric,
    unpack_upper,
    upper_norm,
)


def sampled(size=1000, seed=3, **options):
    return partial(RowSample.of, size=size, seed=seed, **options)


def label_sum(features, **options):
    return MomentSum(features, label_indicators, **{"sample": sampled(), "centered": True, **options})


def features(n=80, D=6, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(0.5, 1.0, size=(n, D)), rng.normal(size=(n, 2)) + 3.0, rng.uniform(0.1, 3.0, size=n)


class Identity(Features):
    """Features that are the rows themselves."""

    def __init__(self, n_components):
        self.n_components = n_components

    def astype(self, dtype):
        return self

    def __call__(self, X, out):
        out[:] = X


def assert_same(a, b, rtol=1e-10):
    for name in ("rows", "weight", "feature_sum", "target_mean", "cross", "target_scatter"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=rtol, atol=1e-9, err_msg=name)


@settings(deadline=None, max_examples=40)
@given(cuts=st.lists(st.integers(0, 80), max_size=6), weighted=st.booleans())
def test_moments_of_parts_add_up_to_those_of_the_whole(cuts, weighted):
    Z, T, w = features()
    edges = [0, *sorted(cuts), 80]
    w = w if weighted else None
    parts = [TargetMoments.of(Z[a:b], T[a:b], None if w is None else w[a:b]) for a, b in pairwise(edges) if b > a]
    assert_same(reduce(add, parts), TargetMoments.of(Z, T, w))


def test_moments_are_sums_about_the_means():
    Z, T, w = features()
    m = TargetMoments.of(Z, T, w)
    mean, target = np.average(Z, axis=0, weights=w), np.average(T, axis=0, weights=w)
    np.testing.assert_allclose(m.cross, ((Z - mean) * w[:, None]).T @ (T - target), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(m.target_scatter, w @ np.square(T - target))
    np.testing.assert_allclose(m.feature_sum, w @ Z)


def test_addition_is_associative_and_commutes():
    Z, T, w = features()
    a, b, c = (TargetMoments.of(Z[i : i + 20], T[i : i + 20], w[i : i + 20]) for i in (0, 20, 40))
    assert_same((a + b) + c, a + (b + c))
    assert_same(a + b, b + a)


def test_weights_equal_repetition():
    Z, T, _ = features()
    counts = np.random.default_rng(1).integers(0, 4, len(Z))
    weighted = TargetMoments.of(Z, T, counts.astype(float))
    repeated = TargetMoments.of(np.repeat(Z, counts, 0), np.repeat(T, counts, 0))
    np.testing.assert_allclose(weighted.cross, repeated.cross, rtol=1e-12, atol=1e-12)
    assert weighted.weight == repeated.weight


def test_a_block_without_weight_adds_nothing_but_rows():
    Z, T, w = features()
    whole, nothing = TargetMoments.of(Z, T, w), TargetMoments.of(Z[:5], T[:5] + 1e6, np.zeros(5))
    for total in (whole + nothing, nothing + whole):
        assert total.rows == 85
        np.testing.assert_allclose(total.cross, whole.cross)
        np.testing.assert_allclose(total.target_mean, whole.target_mean)


def test_targets_far_from_zero_keep_their_digits():
    Z, T, _ = features()
    near = reduce(add, [TargetMoments.of(Z[i : i + 9], T[i : i + 9]) for i in range(0, 80, 9)])
    far = reduce(add, [TargetMoments.of(Z[i : i + 9], T[i : i + 9] + 1e8) for i in range(0, 80, 9)])
    # The targets themselves have been rounded to 1e8 * eps = 1e-8 before anything is computed.
    np.testing.assert_allclose(far.target_scatter, near.target_scatter, rtol=1e-6)
    np.testing.assert_allclose(far.cross, near.cross, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_accumulated_moments_are_those_of_all_rows(dtype, weighted):
    Z, T, w = features(700, 5)
    Z, w = Z.astype(dtype), w if weighted else None
    total = MomentSum(Identity(5))
    with workers(2) as team:
        for a, b in ((0, 400), (400, 401), (401, 700)):
            block = Block(a, Z[a:b], T[a:b], None if w is None else w[a:b])
            total.add(block, team)
    moments = total.result()
    weight = np.ones(700) if w is None else w
    rtol = 1e-4 if dtype == np.float32 else 1e-10
    np.testing.assert_allclose(symmetric(moments.gram), Z.T.astype(float) @ (Z * weight[:, None]), rtol=rtol)
    assert_same(moments.targets, TargetMoments.of(Z.astype(float), T, w), rtol=rtol * 10)
    assert moments.rows == 700


@pytest.mark.parametrize("kind", ["numbers", "labels"])
def test_a_restored_sum_continues_to_the_bit(kind):
    rng = np.random.default_rng(0)
    draw = RandomFourier(Gaussian(), 70, random_state=0).fit(np.zeros((1, 3))).features_
    y = rng.normal(size=(900, 2)) if kind == "numbers" else rng.choice(["a", "b", "c"], 900)
    data = Block(0, rng.normal(size=(900, 3)), y, rng.uniform(size=900))

    def empty():
        return MomentSum(draw, centered=True) if kind == "numbers" else label_sum(draw)

    through, before, after = empty(), empty(), empty()
    with workers(1) as team:
        for block in row_blocks(data, 300):
            if block.start < 600:  # whose rounding is that of the whole
                block = replace(block, X=block.X.astype(np.float32))
            through.add(block, team)
            if block.start < 600:
                before.add(block, team)
            else:
                state = before.result()
                after.restore(state)
                after.add(block, team)
    a, b = through.result(), after.result()
    assert np.array_equal(a.gram, b.gram)
    assert not np.array_equal(a.gram, state.gram)  # a copy: what was saved did not change
    assert (a.roundoff, a.rows) == (b.roundoff, b.rows)
    for one, other in zip(parts(a), parts(b), strict=True):
        assert np.array_equal(one, other)


def parts(moments):
    targets = moments.targets
    sums = [targets.weight, targets.feature_sum, targets.target_mean, targets.cross, targets.target_scatter]
    return sums if moments.sample is None else [*sums, moments.labels, moments.sample.X, moments.sample.index]


# ---- pickles ----------------------------------------------------------------------------------


def test_pickles_hold_the_upper_triangle_only():
    Z, T, w = features(D=200)
    moments = Moments(Z.T @ Z, TargetMoments.of(Z, T, w), 0.5)
    pickled = pickle.dumps(moments)
    assert len(pickled) < 0.55 * moments.gram.nbytes
    back = pickle.loads(pickled)
    np.testing.assert_array_equal(back.gram, np.triu(moments.gram))
    assert_same(back.targets, moments.targets, rtol=0)
    assert (back.roundoff, back.rows) == (0.5, moments.rows)


def test_pickles_of_moments_of_labels_hold_the_upper_triangle_only():
    Z, _, w = features(D=300)
    total = label_sum(Identity(300))
    with workers(1) as team:
        total.add(Block(0, Z, np.arange(len(Z)) % 3, w), team)
    moments = total.result()
    pickled = pickle.dumps(moments)
    assert len(pickled) < 0.55 * moments.gram.nbytes + moments.sample.X.nbytes + moments.targets.cross.nbytes
    back = pickle.loads(pickled)
    np.testing.assert_array_equal(symmetric(back.gram), symmetric(moments.gram))
    np.testing.assert_array_equal(back.labels, [0, 1, 2])


def test_an_empty_sum_is_small():
    assert len(pickle.dumps(label_sum(Identity(4000)))) < 20_000


def test_rounding_bound_does_not_compound_over_transformations():
    Z, y, _ = features()
    moments = Moments(Z.T @ Z, TargetMoments.of(Z, y), roundoff=1e-7)
    up = np.diag([1e3, *[1.0] * 5])
    there = moments.transformed(up)
    assert there.roundoff == pytest.approx(1e-7 * 1e6 * upper_norm(moments.gram) / upper_norm(there.gram), rel=1e-6)
    back = there
    for _ in range(10):
        back = back.transformed(np.linalg.inv(up)).transformed(up)
    assert back.roundoff < 1.01 * there.roundoff
    both = back.transformed(np.linalg.inv(up)) + moments
    np.testing.assert_allclose(both.gram, 2 * moments.gram)
    assert 1e-7 <= both.roundoff < 1.1e-7
    assert pickle.loads(pickle.dumps(both)).roundoff == both.roundoff


def test_power_iteration_estimates_the_largest_eigenvalue():
    A = np.random.default_rng(0).normal(size=(40, 30))
    assert largest_eigenvalue(A.T @ A) == pytest.approx(np.linalg.norm(A, 2) ** 2, rel=0.05)
    assert largest_eigenvalue(np.zeros((3, 3))) == 0.0
    assert largest_eigenvalue(np.diag([0.0, 7.0, 0.0])) == 7.0


# ---- targets ----------------------------------------------------------------------------------


def test_rules_for_targets():
    block = Block(0, np.arange(6, dtype=np.float32).reshape(3, 2))
    values, labels = rows_as_targets(block)
    assert values.dtype == np.float64
    assert (values.tolist(), labels) == ([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], None)
    assert no_targets(block)[0].shape == (3, 0)
    block = Block(0, block.X, np.array(["b", "a", "c"]), np.array([1.0, 2.0, 0.0]))
    indicators, labels = label_indicators(block)
    assert labels.tolist() == ["a", "b"]  # not that of the row without weight
    assert indicators.tolist() == [[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]


# ---- labels that are not known in advance -----------------------------------------------------

RNG = np.random.default_rng(0)
X, WEIGHT = RNG.normal(size=(80, 3)), RNG.uniform(0, 2, 80)
LABELS = np.sort(RNG.choice(["ant", "bee", "cat", "dog"], 80))  # later blocks have new labels
MAP = RandomFourier(Gaussian(), 10, random_state=0).fit(X)
Z = MAP.transform(X)


def label_moments_of(rows=slice(None), start=0, into=None):
    engine = MemoryEngine(X[rows], LABELS[rows], WEIGHT[rows], block_rows=13, n_jobs=1, start=start)
    return engine.accumulate(label_sum(MAP.features_, double=True) if into is None else into)


def signs(labels):
    columns = np.where(LABELS[:, None] == np.array(labels), 1.0, -1.0)
    return columns[:, 1:] if len(labels) == 2 else columns


def check_labels(found, labels=("ant", "bee", "cat", "dog")):
    assert found.labels.tolist() == list(labels)
    assert found.rows == 80
    signed = found.signed()
    expected = TargetMoments.of(Z, signs(labels), WEIGHT)
    for name in ("weight", "feature_sum", "target_mean", "cross", "target_scatter"):
        np.testing.assert_allclose(getattr(signed.targets, name), getattr(expected, name), rtol=1e-10, atol=1e-10)
    upper = np.triu_indices(10)
    np.testing.assert_allclose(signed.about(None)[upper], (Z.T @ (Z * WEIGHT[:, None]))[upper], rtol=1e-10, atol=1e-10)


def test_signed_moments_are_sums_over_rows():
    check_labels(label_moments_of())


def test_parts_with_different_labels_add_up():
    one, two = label_moments_of(slice(0, 30)), label_moments_of(slice(30, None), start=30)
    assert set(one.labels) != set(two.labels)
    check_labels(one + two)
    assert np.array_equal((one + two).sample.index, label_moments_of().sample.index)


def test_a_sum_of_labels_continues_from_a_result():
    into = label_sum(MAP.features_, double=True)
    into.restore(label_moments_of(slice(0, 30)))
    check_labels(label_moments_of(slice(30, None), start=30, into=into))


def test_labels_without_rows_have_targets_of_minus_one():
    found = label_moments_of().with_labels(np.array(["ape", "bee"]))
    check_labels(found, labels=("ant", "ape", "bee", "cat", "dog"))
    again = label_moments_of()
    assert again.targets.with_labels(np.array(["bee"])) is again.targets  # nothing new


def test_two_labels_have_one_column_of_signs():
    y = np.array([0, 1, 1, 0, 1])
    indicators = np.where(y[:, None] == [0, 1], 1.0, 0.0)
    signed = TargetMoments.of(Z[:5], indicators, labels=np.array([0, 1])).signed()
    expected = TargetMoments.of(Z[:5], np.where(y == 1, 1.0, -1.0)[:, None])
    np.testing.assert_allclose(signed.target_mean, expected.target_mean)
    np.testing.assert_allclose(signed.cross, expected.cross, atol=1e-14)
    np.testing.assert_allclose(signed.target_scatter, expected.target_scatter)


@pytest.mark.parametrize("size", [10, 1000])
def test_the_sample_is_uniform_and_seeded(size):
    sample = label_moments_of(into=label_sum(MAP.features_, double=True, sample=sampled(size))).sample
    whole = RowSample.of(Block(0, X, LABELS, WEIGHT), size=size, seed=3)
    assert np.array_equal(sample.index, whole.index)
    assert np.array_equal(sample.y, LABELS[sample.index.astype(int)])
    assert len(sample.index) == min(size, 80)


def test_labels_without_weight_are_left_out():
    weight = np.where(LABELS == "bee", 0.0, 1.0)
    engine = MemoryEngine(X, LABELS, weight, block_rows=80, n_jobs=1)
    found = engine.accumulate(label_sum(MAP.features_, double=True))
    assert found.labels.tolist() == ["ant", "cat", "dog"]
    assert found.targets.weight == weight.sum()


def test_a_sum_has_the_larger_roundoff():
    fine, coarse = (
        MemoryEngine(X.astype(kind), LABELS, block_rows=80, n_jobs=1).accumulate(label_sum(MAP.features_))
        for kind in (np.float64, np.float32)
    )
    assert fine.roundoff < coarse.roundoff
    assert (fine + coarse).roundoff == (coarse + fine).roundoff == coarse.roundoff


def far_moments(rows, start=0, into=None):
    """Moments of features far from zero, which are summed about a point near them."""
    far = RandomMaclaurin(Polynomial(2, coef0=30.0), 10, random_state=0).fit(X)
    engine = MemoryEngine(X[rows], LABELS[rows], block_rows=13, n_jobs=1, start=start)
    return engine.accumulate(label_sum(far.features_, double=True) if into is None else into(far)), far


def test_a_restored_sum_continues_about_the_same_point():
    first, _ = far_moments(slice(0, 30))
    assert first.shift is not None

    def restored(far):
        into = label_sum(far.features_, double=True)
        into.restore(first)
        return into

    found, far = far_moments(slice(30, None), 30, restored)
    assert np.array_equal(found.shift, first.shift)
    F = far.transform(X)
    upper = np.triu_indices(10)
    np.testing.assert_allclose(found.signed().about(None)[upper], (F.T @ F)[upper], rtol=1e-10)


def test_moments_of_labels_follow_a_linear_transformation():
    found, far = far_moments(slice(None))
    matrix = np.random.default_rng(1).normal(size=(10, 10)) / 4
    other = found.transformed(matrix)
    F = far.transform(X) @ matrix
    upper = np.triu_indices(10)
    np.testing.assert_allclose(other.signed().about(None)[upper], (F.T @ F)[upper], rtol=1e-8, atol=1e-8)
    expected = TargetMoments.of(F, signs(("ant", "bee", "cat", "dog")))
    for name in ("weight", "feature_sum", "target_mean", "cross", "target_scatter"):
        np.testing.assert_allclose(getattr(other.signed().targets, name), getattr(expected, name), atol=1e-8)
    assert other.sample is found.sample
    # The rounding error is a larger part of features that have shrunk.
    same = found.transformed(1e-3 * np.eye(10)).roundoff  # except for the rounding of this product
    assert found.roundoff <= same < 2.1 * found.roundoff
    assert found.transformed(np.diag([1.0, *[1e-6] * 9])).roundoff >= found.roundoff


# ---- with a sample of rows --------------------------------------------------------------------

PX, Y, PWEIGHT = RNG.normal(size=(90, 3)), RNG.normal(size=(90, 2)), RNG.uniform(0, 2, 90)
PMAP = RandomFourier(Gaussian(), 10, random_state=0).fit(PX)


def process_sum(keep):
    """The sum of a Gaussian process: products in float64, and a sample in proportion to the weights."""
    sample = sampled(keep, seed=5, by_weight=True) if keep else None
    return MomentSum(PMAP.features_, double=True, sample=sample)


def process_moments_of(rows=slice(None), keep=20, start=0, dtype=np.float64, into=None):
    engine = MemoryEngine(PX[rows].astype(dtype), Y[rows], PWEIGHT[rows], block_rows=16, n_jobs=1, start=start)
    return engine.accumulate(process_sum(keep) if into is None else into)


def check_process(found, rtol=1e-12):
    Z = PMAP.transform(PX)
    upper = np.triu_indices(10)
    centered = Y - PWEIGHT @ Y / PWEIGHT.sum()
    np.testing.assert_allclose(found.gram[upper], (Z.T @ (Z * PWEIGHT[:, None]))[upper], rtol=rtol, atol=rtol)
    targets = found.targets
    np.testing.assert_allclose(targets.cross, Z.T @ (PWEIGHT[:, None] * centered), rtol=rtol, atol=30 * rtol)
    np.testing.assert_allclose(targets.target_scatter, PWEIGHT @ centered**2, rtol=rtol)
    assert found.rows == 90


def test_the_sample_by_weight_is_that_of_all_rows():
    found = process_moments_of()
    check_process(found)
    whole = RowSample.of(Block(0, PX, Y, PWEIGHT), size=20, seed=5, by_weight=True)
    assert np.array_equal(found.sample.index, whole.index)
    assert np.array_equal(found.sample.X, whole.X)
    assert np.array_equal(found.sample.y, whole.y)


def test_parts_with_samples_add_up():
    both = process_moments_of(slice(0, 40)) + process_moments_of(slice(40, None), start=40)
    check_process(both)
    assert np.array_equal(both.sample.index, process_moments_of().sample.index)


def test_a_sum_with_moments_without_a_sample_has_none():
    one = process_moments_of(keep=0)
    assert one.sample is None
    assert (one + process_moments_of()).sample is None
    assert (process_moments_of() + one).sample is None


def test_moments_of_float32_rows_are_summed_in_float64():
    found = process_moments_of(dtype=np.float32)
    check_process(found, rtol=1e-5)
    assert found.roundoff == np.finfo(np.float64).eps


@pytest.mark.parametrize("keep", [0, 20])
def test_a_sum_with_a_sample_continues_from_a_result(keep):
    into = process_sum(keep)
    into.restore(process_moments_of(slice(0, 40), keep))
    found = process_moments_of(slice(40, None), start=40, into=into)
    check_process(found)
    if keep:
        assert np.array_equal(found.sample.index, process_moments_of().sample.index)


# ---- features far from zero -------------------------------------------------------------------

# Coordinates and a constant: exactly the features of Polynomial(1).
LINEAR = RandomMaclaurin(Polynomial(1), 4, random_state=0)
SLOPES = np.array([1.0, 2.0, -3.0])


def far_rows(offset, dtype=np.float32, n=700):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(n, 3)) * [3, 2, 1] + offset).astype(dtype)
    return X, (X.astype(float) - offset) @ SLOPES + 0.1 * rng.normal(size=n)


def total(X, y, accumulator, rows=200):
    with workers(1) as team:
        for block in row_blocks(Block(0, X, y[:, None]), rows):
            accumulator.add(block, team)
    return accumulator.result()


def drawn(X):
    return LINEAR.fit(X).features_


def test_features_of_a_bounded_kernel_are_not_shifted():
    X = np.random.default_rng(0).normal(size=(500, 3))
    features = RandomFourier(Gaussian(1.5), 64, random_state=0).fit(X).features_
    assert total(X, X[:, 0], MomentSum(features, centered=True)).shift is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [1e2, 1e4, 1e6])
def test_moments_of_features_far_from_zero_keep_their_digits(offset, dtype):
    X, y = far_rows(offset, dtype)
    moments = total(X, y, MomentSum(drawn(X), centered=True))
    found, _ = centered_moments(moments, centered=True)
    Z = X.astype(float) - offset  # exact
    Z -= Z.mean(axis=0)
    expected = Z.T @ Z
    rtol = 1e-5 if dtype == np.float32 else 1e-9
    np.testing.assert_allclose(symmetric(found)[1:, 1:], expected, rtol=rtol, atol=rtol * expected.max())
    raw = total(X, y, MomentSum(drawn(X)))
    assert raw.shift is None
    if offset >= 1e4 and dtype == np.float32:  # the check above can fail: moments about zero do
        lost = symmetric(centered_moments(raw, centered=True)[0])[1:, 1:]
        assert np.abs(lost - expected).max() > 100 * rtol * expected.max()


def test_moments_about_different_points_add_up():
    X, y = far_rows(1000.0, np.float64)
    X[400:] += 5  # the parts have different means
    whole = total(X, y, MomentSum(drawn(X), centered=True))
    near = far_rows(0.0, np.float64)
    parts = [total(X[i : i + 100], y[i : i + 100], MomentSum(drawn(X), centered=True)) for i in range(0, 700, 100)]
    assert not np.array_equal(parts[0].shift, parts[-1].shift)
    assert total(*near, MomentSum(drawn(X), centered=True)).shift is None
    for moments in (reduce(add, parts), reduce(add, reversed(parts))):
        for centered in (True, False):
            a, b = (symmetric(centered_moments(m, centered=centered)[0]) for m in (whole, moments))
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-8)
        np.testing.assert_allclose(whole.targets.cross, moments.targets.cross, rtol=1e-9, atol=1e-7)
    mixed = total(*near, MomentSum(drawn(X), centered=True)) + whole
    swapped = whole + total(*near, MomentSum(drawn(X), centered=True))
    assert mixed.shift is None
    np.testing.assert_allclose(symmetric(mixed.gram), symmetric(swapped.about(None)), rtol=1e-12)


def test_rows_of_both_dtypes_are_summed_about_the_same_point():
    X, y = far_rows(1000.0, np.float64)
    with workers(1) as team:
        accumulator = MomentSum(drawn(X), centered=True)
        accumulator.add(Block(0, X[:300], y[:300, None]), team)
        accumulator.add(Block(300, X[300:].astype(np.float32), y[300:, None]), team)
    Z = X - X.mean(axis=0)
    found = symmetric(centered_moments(accumulator.result(), centered=True)[0])[1:, 1:]
    np.testing.assert_allclose(found, Z.T @ Z, rtol=1e-4, atol=0.1)


@pytest.mark.parametrize("kind", ["numbers", "labels"])
def test_a_sum_with_a_shift_continues_from_a_result(kind):
    X, y = far_rows(1000.0)
    features = drawn(X)

    def fresh():
        return MomentSum(features, centered=True) if kind == "numbers" else label_sum(features)

    y = y[:, None] if kind == "numbers" else (y > 0).astype(int)
    with workers(1) as team:
        whole, first, second = fresh(), fresh(), fresh()
        for part in (slice(0, 300), slice(300, 700)):
            whole.add(Block(part.start, X[part], y[part]), team)
        first.add(Block(0, X[:300], y[:300]), team)
        state = store(first.result()).value()
        assert state.shift is not None
        second.restore(pickle.loads(pickle.dumps(state)))
        second.add(Block(300, X[300:], y[300:]), team)
    np.testing.assert_array_equal(np.triu(second.result().gram), np.triu(whole.result().gram))
    np.testing.assert_array_equal(second.result().shift, whole.result().shift)


def test_ridge_far_from_zero_agrees_with_scikit_learn_on_every_engine():
    da = pytest.importorskip("dask.array")
    X, y = far_rows(1000.0)
    near = X.astype(float) - 1000
    blocks = [(X[i : i + 130], y[i : i + 130]) for i in range(0, 700, 130)]
    added = KernelRidge(LINEAR)
    for block in blocks:
        added.partial_fit(*block)
    models = [
        KernelRidge(LINEAR).fit(X, y),
        KernelRidge(LINEAR, block_size=7).fit(X, y),
        KernelRidge(LINEAR).fit(blocks),
        KernelRidge(LINEAR).fit(da.from_array(X, chunks=(90, 3)), da.from_array(y, chunks=90)),
        KernelRidge(LINEAR, alpha="gcv").fit(X, y),
        added,
    ]
    for model in models:
        expected = Ridge(alpha=model.alpha_).fit(near, y)
        np.testing.assert_allclose(model.predict(X), expected.predict(near), atol=2e-4)


def test_a_model_without_intercept_uses_moments_about_zero():
    X, y = far_rows(10.0, np.float64)
    model = KernelRidge(LINEAR, alpha=1.0).fit(X, y)
    assert model.statistic_.shift is not None
    model.set_params(fit_intercept=False)
    model._solve(model.statistic_, None)
    Z = LINEAR.fit(X).transform(X)
    expected = Ridge(alpha=1.0, fit_intercept=False).fit(Z, y)
    np.testing.assert_allclose(model.predict(X), expected.predict(Z), atol=1e-8)


def test_classification_and_components_far_from_zero():
    X, y = far_rows(1000.0)
    near = X.astype(float) - 1000
    labels = np.digitize(y, [-3, 3])
    model = KernelRidgeClassifier(LINEAR, alpha=1.0, random_state=0).fit(X, labels)
    expected = RidgeClassifier(alpha=1.0).fit(near, labels).decision_function(near)
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-3)
    X, _ = far_rows(1e6, np.float64)
    components = KernelPCA(LINEAR, 3).fit(X)
    expected = PCA(3).fit(X - 1e6)
    np.testing.assert_allclose(components.eigenvalues_, expected.singular_values_**2, rtol=1e-9)


def test_components_below_the_rounding_error_are_not_found():
    X, _ = far_rows(1000.0, np.float64)
    assert KernelPCA(LINEAR).fit(X).eigenvalues_.shape == (3,)
    constant = np.full((50, 3), 0.1) + 1000
    assert KernelPCA(LINEAR).fit(constant).eigenvalues_.tolist() == [0.0]


def test_moment_sums_are_about_zero_unless_centered():
    X, y = far_rows(1000.0, np.float64)
    with workers(1) as team:
        plain = MomentSum(drawn(X))
        plain.add(Block(0, X, y[:, None]), team)
    moments = plain.result()
    assert moments.shift is None
    Z = np.column_stack([np.ones(len(X)), X])
    np.testing.assert_allclose(symmetric(moments.gram), Z.T @ Z, rtol=1e-12)


# ---- Gram matrices ----------------------------------------------------------------------------


@pytest.mark.parametrize("D", [1, 7, 64, 65, 200, 700])
@pytest.mark.parametrize("threads", [1, 3])
def test_tiles_make_the_complete_matrix(D, threads):
    Z = np.random.default_rng(0).normal(size=(50, D))
    total = GramSum(D)
    with workers(threads) as team:
        total.add(Z[:20], team)
        total.add(Z[20:], team)
    np.testing.assert_allclose(symmetric(total.result()), Z.T @ Z, rtol=1e-10, atol=1e-10)


def test_float32_products_are_added_in_float64():
    # A single product in float32 would lose what is added to a large sum.
    ones = np.ones((1024, 1), dtype=np.float32)
    total = GramSum(1)
    with workers(1) as team:
        total.add(np.full((1, 1), 2.0**13, dtype=np.float32), team)  # 2^26
        for _ in range(3):
            total.add(ones[:1], team)
    assert total.result()[0, 0] == 2.0**26 + 3
    assert np.float32(2.0**26) + np.float32(1) == np.float32(2.0**26)  # as it would have been


@pytest.mark.parametrize(("p", "q"), [(1, 1), (5, 130), (600, 70)])
def test_products_of_two_matrices(p, q):
    rng = np.random.default_rng(1)
    left, right = rng.normal(size=(40, p)), rng.normal(size=(40, q))
    total = np.ones((p, q))
    with workers(2) as team:
        add_products(total, left, right, team, upper=False)
    np.testing.assert_allclose(total, 1 + left.T @ right, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("D", [3, 65, 200])
def test_upper_products_of_two_matrices(D):
    rng = np.random.default_rng(2)
    left, right = rng.normal(size=(40, D)), rng.normal(size=(40, D))
    total = np.zeros((D, D))
    with workers(2) as team:
        add_products(total, left, right, team, upper=True)
    np.testing.assert_allclose(np.triu(total), np.triu(left.T @ right), rtol=1e-12, atol=1e-12)


def test_only_a_mean_far_from_zero_is_a_shift():
    Z = np.random.default_rng(0).normal(size=(300, 5))
    assert far_mean(Z) is None
    assert far_mean(Z + 1) is None
    shift = far_mean(Z + 10)
    np.testing.assert_allclose(shift, 10, atol=0.3)
    np.testing.assert_array_equal(shift, shift.astype(np.float32))  # the same point for features of any dtype
    assert far_mean(np.full((3, 2), 1e200)) is None  # beyond float32
    assert far_mean(np.array([[1e30, 0], [np.inf, 1]])) is None
    np.testing.assert_array_equal(point_near(Z + 10), shift)
    np.testing.assert_array_equal(point_near(Z), np.zeros(5))


def test_moments_move_to_any_point():
    rng = np.random.default_rng(0)
    Z, w = rng.normal(size=(90, 70)) + 3, rng.uniform(0, 2, size=90)
    a, b = rng.normal(size=(2, 70))

    def about(point):
        return ((Z - point) * w[:, None]).T @ (Z - point)

    for start, end in ((a, b), (None, b), (a, np.zeros(70))):
        gram = np.triu(about(0.0 if start is None else start))
        found = moved_gram(gram, w @ Z, w.sum(), start, end)
        np.testing.assert_allclose(symmetric(found), about(end), rtol=1e-11, atol=1e-9)


# ---- triangles --------------------------------------------------------------------------------


@pytest.mark.parametrize("D", [0, 1, 2, 7, 64])
def test_packed_triangles_are_restored(D):
    matrix = np.random.default_rng(D).normal(size=(D, D))
    packed = pack_upper(matrix)
    assert packed.shape == (D * (D + 1) // 2,)
    np.testing.assert_array_equal(packed, matrix[np.triu_indices(D)])
    np.testing.assert_array_equal(unpack_upper(packed), np.triu(matrix))


@pytest.mark.parametrize("unit", [1e-200, 1.0, 1e200])
def test_the_norm_of_a_triangle_is_that_of_the_symmetric_matrix(unit):
    Z = np.random.default_rng(0).normal(size=(9, 5))
    A = Z.T @ Z
    littered = np.where(np.tri(5, k=-1), np.nan, A * unit)
    np.testing.assert_allclose(upper_norm(littered), unit * np.linalg.norm(A), rtol=1e-12)
    assert upper_norm(np.zeros((3, 3))) == 0.0
    assert upper_norm(np.full((2, 2), np.inf)) == np.inf


# ---- moments of a linear form of the features -------------------------------------------------------

LANDMARKS = np.random.default_rng(1).normal(size=(300, 2))


def landmark_moments(spread, dtype=np.float64, n_rows=300, **options):
    """Return moments of landmark features, that are the worse conditioned the smaller the spread of the rows is."""
    X = (spread * LANDMARKS).astype(dtype)
    y, weight = np.sin(X[:, :1]).astype(float) + 5, np.linspace(0.5, 2.0, 300)
    found = Nystroem(Gaussian(), 20, random_state=0).fit(X).features_
    accumulator = MomentSum(found, n_rows=n_rows, **options)
    total = MemoryEngine(X, y, weight, block_rows=70, n_jobs=1).accumulate(accumulator)
    return accumulator.finish(total), found, total


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("options", [{}, {"centered": True}, {"double": True, "sample": sampled()}])
def test_moments_of_a_linear_form_are_those_of_the_features(dtype, options):
    found, form, total = landmark_moments(3.0, dtype, **options)
    expected, _, _ = landmark_moments(3.0, dtype, n_rows=0, **options)
    assert form.share > moments_module.SAFE_SHARE
    assert not np.allclose(np.triu(total.gram), np.triu(found.gram), rtol=0.1)  # the sum is that of kernel values
    tolerance = 1e-9 if dtype == np.float64 else 1e-5
    zero = np.zeros(20)
    difference = np.triu(found.about(zero) - expected.about(zero))
    assert np.linalg.norm(difference) < tolerance * upper_norm(expected.about(zero))
    if dtype == np.float64:
        assert_same(found.targets, expected.targets, rtol=1e-8)
        assert np.linalg.norm(difference) < found.roundoff * upper_norm(found.about(zero))
    assert (found.sample is None) == ("sample" not in options)


def test_ill_conditioned_or_few_rows_are_summed_as_features(monkeypatch):
    found, form, total = landmark_moments(0.2)
    assert 0 < form.share < moments_module.SAFE_SHARE
    assert found is total
    few, _, total = landmark_moments(3.0, n_rows=79)
    assert few is total
    # Without the bound, the rounding error would be that of the condition number, and so is the claimed one.
    monkeypatch.setattr(moments_module, "SAFE_SHARE", 0.0)
    worse, _, _ = landmark_moments(0.2)
    error = np.linalg.norm(np.triu(worse.gram - found.gram)) / upper_norm(found.gram)
    assert 1e-11 < error < worse.roundoff
    assert worse.roundoff > 2e-10


@pytest.mark.parametrize("triangular", [True, False])
def test_linear_forms_need_not_be_triangular(triangular):
    rng = np.random.default_rng(0)
    X, W = rng.normal(size=(50, 4)), rng.normal(size=(4, 5))
    W = np.triu(W) if triangular else W
    total = MemoryEngine(X, X[:, :1], block_rows=20, n_jobs=1).accumulate(MomentSum(Identity(4)))
    found = total.whitened(LinearForm(Identity(4), W, 1.0, triangular))
    np.testing.assert_allclose(np.triu(found.gram), np.triu(W.T @ X.T @ X @ W), atol=1e-10)
    np.testing.assert_allclose(found.targets.cross, W.T @ total.targets.cross, atol=1e-10)


@pytest.mark.parametrize(
    "learner",
    [
        KernelRidge(alpha="loo"),
        KernelRidge(alpha=1e-3, fit_intercept=False),
        KernelRidgeClassifier(),
        GaussianProcessRegressor(lengthscale_tuning=None),
        KernelPCA(n_components=3),
    ],
    ids=lambda learner: type(learner).__name__,
)
def test_learners_are_the_same_with_and_without_linear_forms(learner, monkeypatch):
    X = 3 * LANDMARKS
    y = X[:, 0] > X[:, 1] if isinstance(learner, KernelRidgeClassifier) else np.sin(X[:, 0])
    learner.set_params(feature_map=Nystroem(Gaussian(), 20, random_state=0))

    def results():
        learner.fit(X, y)
        method = next(m for m in ("decision_function", "predict", "transform") if hasattr(learner, m))
        return getattr(learner, method)(X + 0.1)

    found = results()
    sizes = []
    monkeypatch.setattr(moments_module, "SAFE_SHARE", np.inf)
    monkeypatch.setattr(MomentSum, "finish", lambda self, total: sizes.append(self._form) or total)
    expected = results()
    assert sizes == [None]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)
