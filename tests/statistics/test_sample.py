"""Samples of rows that do not depend on how the rows were cut."""

from functools import reduce
from itertools import pairwise
from operator import add

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from mercer import ParameterError
from mercer.engines import Block
from mercer.statistics import RowSample
from mercer.statistics.sample import as_generator, seed_of

X = np.arange(200.0).reshape(100, 2)
Y = np.arange(100)


def sample(size, cuts=(), seed=0, weight=None, by_weight=False, rows=X):
    edges = [0, *sorted(cuts), 100]
    parts = [
        RowSample.of(
            Block(a, rows[a:b], Y[a:b], None if weight is None else weight[a:b]),
            size=size,
            seed=seed,
            by_weight=by_weight,
        )
        for a, b in pairwise(edges)
    ]
    return reduce(add, parts)


@settings(deadline=None, max_examples=50)
@given(cuts=st.lists(st.integers(0, 100), max_size=5), size=st.integers(1, 120), weighted=st.booleans())
def test_cuts_do_not_matter(cuts, size, weighted):
    weight = np.random.default_rng(0).integers(0, 3, 100).astype(float) if weighted else None
    whole = sample(size, weight=weight, by_weight=weighted)
    parts = sample(size, cuts, weight=weight, by_weight=weighted)
    np.testing.assert_array_equal(parts.X, whole.X)
    np.testing.assert_array_equal(parts.y, whole.y)


def test_rows_keep_their_order_and_their_targets():
    s = sample(30)
    assert len(s.X) == 30
    assert (np.diff(s.index) > 0).all()
    np.testing.assert_array_equal(s.X[:, 0], 2 * s.y)


def test_few_rows_are_all_kept():
    np.testing.assert_array_equal(sample(100).X, X)
    np.testing.assert_array_equal(sample(1000).X, X)


def test_rows_without_weight_never_count():
    weight = (np.arange(100) % 2).astype(float)
    assert set(sample(70, weight=weight).y) == set(range(1, 100, 2))


def test_sparse_rows():
    s = sample(20, (30, 60), rows=sp.csr_array(X))
    np.testing.assert_array_equal(s.X.toarray(), sample(20).X)


def inclusion_counts(by_weight):
    weight = np.ones(100)
    weight[:10] = 5.0
    counts = np.zeros(100)
    for seed in range(4000):
        counts[sample(1, seed=seed, weight=weight, by_weight=by_weight).y] += 1
    return counts[:10].sum()


@pytest.mark.parametrize(("by_weight", "probability"), [(False, 10 / 100), (True, 50 / 140)])
def test_rows_are_drawn_with_the_right_probability(by_weight, probability):
    low, high = binom.interval(1 - 1e-9, 4000, probability)
    assert low <= inclusion_counts(by_weight) <= high


def test_the_check_above_tells_the_two_apart():
    low, high = binom.interval(1 - 1e-9, 4000, 50 / 140)
    assert not low <= inclusion_counts(by_weight=False) <= high


def test_rows_without_weights_count_once_beside_rows_with_weights():
    weighted = RowSample.of(Block(0, X[:50], Y[:50], np.full(50, 2.0)), size=200, seed=0)
    plain = RowSample.of(Block(50, X[50:], Y[50:], None), size=200, seed=0)
    for total in (weighted + plain, plain + weighted):
        np.testing.assert_array_equal(total.weight, np.where(total.y < 50, 2.0, 1.0))


def test_a_sample_knows_whether_it_is_complete():
    assert sample(100).is_complete
    assert not sample(99).is_complete
    assert sample(50, weight=(np.arange(100) % 2).astype(float)).is_complete


# ---- seeds


def test_a_seed_gives_the_same_numbers_again_but_not_those_of_numpy():
    one, two, other, plain = (
        rng.random(4) for rng in (as_generator(3), as_generator(np.int32(3)), as_generator(4), np.random.default_rng(3))
    )
    assert np.array_equal(one, two)
    assert not np.isin(one, other).any()
    assert not np.isin(one, plain).any()  # data made with the same seed must not be the draw


def test_generators_and_states_advance():
    rng = np.random.default_rng(0)
    assert as_generator(rng) is rng
    state, same = np.random.RandomState(0), np.random.RandomState(0)
    first = as_generator(state).random()
    assert first == as_generator(same).random()
    assert as_generator(state).random() != first  # the state has moved on
    assert as_generator(None).random() != as_generator(None).random()


@pytest.mark.parametrize("wrong", [-1, "seed", 1.5, object()], ids=["negative", "text", "fraction", "object"])
def test_other_random_states_are_refused(wrong):
    with pytest.raises(ParameterError, match="random_state must be None, an integer >= 0, or a numpy Generator"):
        as_generator(wrong)


def test_seeds_differ_between_purposes():
    assert seed_of(3, "map") == seed_of(np.int64(3), "map")
    assert len({seed_of(3, "map"), seed_of(3, "audit"), seed_of(4, "map")}) == 3
    rng, same = np.random.default_rng(0), np.random.default_rng(0)
    assert seed_of(rng, "map") == seed_of(same, "audit")  # a generator goes on by itself
    assert seed_of(rng, "map") != seed_of(np.random.default_rng(0), "map")
    assert 0 <= seed_of(None, "map") < 2**63
