"""Moments add up to the same however the rows are cut, whoever adds them."""

import pickle
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from operator import add

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mercer import Gaussian, RandomFourier
from mercer.engines import Block
from mercer.engines.base import row_blocks, workers
from mercer.learners.ridge import NumberSum
from mercer.statistics.label_moments import LabelSum
from mercer.statistics.moments import (
    Moments,
    MomentSum,
    TargetMoments,
    largest_eigenvalue,
    pack_upper,
    symmetric,
    unpack_upper,
    upper_norm,
)


def features(n=80, D=6, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(0.5, 1.0, size=(n, D)), rng.normal(size=(n, 2)) + 3.0, rng.uniform(0.1, 3.0, size=n)


class Identity:
    """A drawn map that leaves rows as they are."""

    def __init__(self, n_components):
        self.n_components = n_components

    def astype(self, dtype):
        return self

    def output_dtype(self, dtype):
        return np.dtype(dtype)

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


def test_moments_are_what_they_say():
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
def test_blocks_of_features_and_targets(dtype, weighted):
    Z, T, w = features(700, 5)
    Z, w = Z.astype(dtype), w if weighted else None
    total, parts = MomentSum(Identity(5)), []
    with workers(2) as team:
        for a, b in ((0, 400), (400, 401), (401, 700)):
            block = Block(a, Z[a:b], None, None if w is None else w[a:b])
            parts.append(total.add(block, T[a:b], team))
    moments = total.moments(reduce(add, parts))
    weight = np.ones(700) if w is None else w
    rtol = 1e-4 if dtype == np.float32 else 1e-10
    np.testing.assert_allclose(symmetric(moments.gram), Z.T.astype(float) @ (Z * weight[:, None]), rtol=rtol)
    assert_same(moments.targets, TargetMoments.of(Z.astype(float), T, w), rtol=rtol * 10)
    assert moments.rows == 700


@pytest.mark.parametrize("kind", ["numbers", "labels"])
def test_a_restored_sum_goes_on_to_the_bit(kind):
    rng = np.random.default_rng(0)
    draw = RandomFourier(Gaussian(), 70, random_state=0).fit(np.zeros((1, 3))).features_
    y = rng.normal(size=(900, 2)) if kind == "numbers" else rng.choice(["a", "b", "c"], 900)
    data = Block(0, rng.normal(size=(900, 3)), y, rng.uniform(size=900))

    def empty():
        return NumberSum(draw, double=False) if kind == "numbers" else LabelSum(draw, 3, double=False)

    through, before, after = empty(), empty(), empty()
    with workers(1) as team:
        for block in row_blocks(data, 300):
            if block.start < 600:  # whose rounding is that of the whole
                block = replace(block, X=block.X.astype(np.float32))
            through.add(block, team)
            if block.start < 600:
                before.add(block, team)
            else:
                state = before.state()
                after.restore(state)
                after.add(block, team)
    a, b = through.result(), after.result()
    assert np.array_equal(a.gram, b.gram)
    assert not np.array_equal(a.gram, state.gram)  # a copy: what was saved did not change
    assert (a.roundoff, a.rows) == (b.roundoff, b.rows)
    for one, other in zip(parts(a), parts(b), strict=True):
        assert np.array_equal(one, other)


def parts(moments):
    if isinstance(moments, Moments):
        targets = moments.targets
        return [targets.weight, targets.feature_sum, targets.target_mean, targets.cross, targets.target_scatter]
    return [moments.labels, moments.sample.X, moments.sample.index, *parts(moments.signed())]


# ---- what travels -----------------------------------------------------------------------------


@pytest.mark.parametrize("D", [0, 1, 2, 7, 64])
def test_a_packed_triangle_comes_back(D):
    matrix = np.random.default_rng(D).normal(size=(D, D))
    packed = pack_upper(matrix)
    assert packed.shape == (D * (D + 1) // 2,)
    np.testing.assert_array_equal(packed, matrix[np.triu_indices(D)])
    np.testing.assert_array_equal(unpack_upper(packed), np.triu(matrix))


def test_pickles_carry_the_triangle_that_counts():
    Z, T, w = features(D=200)
    moments = Moments(Z.T @ Z, TargetMoments.of(Z, T, w), 0.5)
    travelled = pickle.dumps(moments)
    assert len(travelled) < 0.55 * moments.gram.nbytes
    back = pickle.loads(travelled)
    np.testing.assert_array_equal(back.gram, np.triu(moments.gram))
    assert_same(back.targets, moments.targets, rtol=0)
    assert (back.roundoff, back.rows) == (0.5, moments.rows)


def test_pickles_of_labeled_moments_carry_the_triangle_too():
    Z, _, w = features(D=300)
    total = LabelSum(Identity(300), 0, double=False)
    with workers(1) as team:
        total.add(Block(0, Z, np.arange(len(Z)) % 3, w), team)
    moments = total.result()
    travelled = pickle.dumps(moments)
    assert len(travelled) < 0.55 * moments.gram.nbytes + moments.sample.X.nbytes + moments.labeled.targets.cross.nbytes
    back = pickle.loads(travelled)
    np.testing.assert_array_equal(symmetric(back.gram), symmetric(moments.gram))
    np.testing.assert_array_equal(back.labels, [0, 1, 2])


def test_an_empty_sum_is_small():
    assert len(pickle.dumps(LabelSum(Identity(4000), 0, double=False))) < 20_000


@pytest.mark.parametrize("unit", [1e-200, 1.0, 1e200])
def test_the_norm_of_a_triangle_is_that_of_the_whole_matrix(unit):
    Z = np.random.default_rng(0).normal(size=(9, 5))
    A = Z.T @ Z
    littered = np.where(np.tri(5, k=-1), np.nan, A * unit)
    np.testing.assert_allclose(upper_norm(littered), unit * np.linalg.norm(A), rtol=1e-12)
    assert upper_norm(np.zeros((3, 3))) == 0.0
    assert upper_norm(np.full((2, 2), np.inf)) == np.inf


def test_rounding_that_is_magnified_and_shrunk_again_is_what_it_was():
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


def test_powers_tell_the_largest_eigenvalue():
    A = np.random.default_rng(0).normal(size=(40, 30))
    assert largest_eigenvalue(A.T @ A) == pytest.approx(np.linalg.norm(A, 2) ** 2, rel=0.05)
    assert largest_eigenvalue(np.zeros((3, 3))) == 0.0
    assert largest_eigenvalue(np.diag([0.0, 7.0, 0.0])) == 7.0
