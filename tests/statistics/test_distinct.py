"""Samples of distinct rows: the same whatever the blocks, the order and the number of copies."""

from functools import reduce
from itertools import pairwise
from operator import add

import numpy as np
import pytest
import scipy.sparse as sp

from mercer.engines import Block
from mercer.statistics import DistinctRows, SampleDistinct, exponentials, row_hashes


def rows(n=60, d=3, seed=0):
    """Rows of which many are equal."""
    return np.random.default_rng(seed).integers(0, 3, size=(n, d)).astype(float)


def sample(block, size, seed=5):
    hashes = row_hashes(block.X)
    return DistinctRows.of(block, hashes, exponentials(hashes, seed), size=size)


def by_hand(X, weight, size, seed=5):
    """The distinct rows of smallest keys and their total weights, found the long way."""
    totals = {}
    for x, w in zip(X, weight, strict=True):
        if w > 0:
            totals[tuple(x)] = totals.get(tuple(x), 0.0) + w
    keyed = sorted(totals, key=lambda x: exponentials(row_hashes(np.array([x])), seed)[0])
    return {x: totals[x] for x in keyed[:size]}


def as_dict(found):
    return {tuple(x): w for x, w in zip(found.X, found.weight, strict=True)}


# ---- hashes -----------------------------------------------------------------------------------


def test_hashes_are_of_the_content():
    X = rows()
    expected = row_hashes(X)
    assert np.array_equal(row_hashes(X.astype(np.float32)), expected)
    assert np.array_equal(row_hashes(np.asfortranarray(X)), expected)
    assert np.array_equal(row_hashes(np.where(X == 0, -0.0, X)), expected)
    for sparse in (sp.csr_array(X), sp.csr_matrix(X)):
        assert np.array_equal(row_hashes(sparse), expected)
    tiled = np.tile(X, (12, 1))  # more rows than a tile
    assert np.array_equal(row_hashes(tiled), np.tile(expected, 12))
    assert np.array_equal(np.unique(expected).size, np.unique(X, axis=0).shape[0])


def test_hashes_of_sparse_rows_with_stored_zeros_and_split_entries():
    X = np.array([[0.0, 3.0, 0.0], [1.5, 0.0, 0.0]])
    split = sp.csr_array(([1.0, 0.0, 2.0, 1.5], [1, 0, 1, 0], [0, 3, 4]), shape=(2, 3))
    before = split.data.copy()
    assert np.array_equal(row_hashes(split), row_hashes(X))
    assert np.array_equal(split.data, before)


def test_hashes_tell_rows_apart():
    # All 2^12 rows of zeros and ones, whose floats have few bits set, and rows that differ by order or by one bit.
    binary = ((np.arange(2**12)[:, None] >> np.arange(12)) & 1).astype(float)
    assert len(np.unique(row_hashes(binary))) == 2**12
    counts = np.random.default_rng(0).integers(0, 256, size=(20_000, 4)).astype(float)
    assert len(np.unique(row_hashes(counts))) == len(np.unique(counts, axis=0))
    x = np.array([[1.0, 2.0], [2.0, 1.0], [np.nextafter(1.0, 2.0), 2.0], [-1.0, 2.0]])
    assert len(np.unique(row_hashes(x))) == 4


# ---- samples ----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 4, 20, 100])
@pytest.mark.parametrize("cuts", [[], [1], [10, 10, 37], list(range(1, 60))])
@pytest.mark.parametrize("weighted", [False, True])
def test_samples_of_parts_make_the_sample_of_the_whole(size, cuts, weighted):
    X = rows()
    weight = np.random.default_rng(1).integers(0, 3, len(X)).astype(float) if weighted else None
    ends = [0, *cuts, len(X)]
    blocks = [Block(a, X[a:b], None, None if weight is None else weight[a:b]) for a, b in pairwise(ends)]
    found = reduce(add, [sample(block, size) for block in blocks if len(block)])
    assert as_dict(found) == by_hand(X, np.ones(len(X)) if weight is None else weight, size)
    assert found.seen == (len(X) if weight is None else np.count_nonzero(weight))
    assert (np.diff(found.hash.astype(float)) >= 0).all()


def test_order_and_repetition_do_not_matter():
    X = rows()
    repeats = np.random.default_rng(2).integers(0, 4, len(X))
    order = np.random.default_rng(3).permutation(repeats.sum())
    weighted = sample(Block(0, X, None, repeats.astype(float)), 7)
    repeated = sample(Block(0, np.repeat(X, repeats, axis=0)[order]), 7)
    assert as_dict(weighted) == as_dict(repeated)
    assert np.array_equal(weighted.hash, repeated.hash)


def test_sparse_and_dense_rows_meet():
    X = rows()
    both = sample(Block(0, X[:30]), 7) + sample(Block(30, sp.csr_array(X[30:])), 7)
    assert np.array_equal(both.hash, sample(Block(0, X), 7).hash)
    assert np.array_equal(both.X.toarray(), sample(Block(0, X), 7).X)


def test_a_sample_keeps_no_block_alive():
    X = rows()
    assert not np.shares_memory(sample(Block(0, X), 3).X, X)


def test_keys_of_infinity_never_count():
    X = np.arange(10.0)[:, None]
    hashes = row_hashes(X)
    keys = np.where(np.arange(10) < 7, np.inf, 1.0)
    found = DistinctRows.of(Block(0, X), hashes, keys, size=5)
    assert sorted(found.X[:, 0]) == [7.0, 8.0, 9.0]
    nothing = DistinctRows.of(Block(0, X), hashes, np.full(10, np.inf), size=5)
    assert len(nothing) == 0
    assert as_dict(nothing + found) == as_dict(found)


@pytest.mark.parametrize("size", [5, 1000])
def test_a_sample_with_labels_counts_copies_as_weights(size):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y, weight = rng.choice(["a", "b"], 60), rng.integers(0, 4, 60).astype(float)
    weighted = SampleDistinct(size, seed=3)(Block(0, X, y, weight))
    rows = rng.permutation(np.repeat(np.arange(60), weight.astype(int)))
    parts = [SampleDistinct(size, seed=3)(Block(0, X[some], y[some])) for some in np.array_split(rows, 4)]
    repeated = sum(parts[1:], parts[0])
    assert len(weighted) == min(size, np.count_nonzero(weight))
    for name in ("hash", "key", "X", "y", "weight"):
        assert np.array_equal(getattr(weighted, name), getattr(repeated, name)), name
    assert repeated.seen == weight.sum()
    sparse = SampleDistinct(size, seed=3)(Block(0, sp.csr_array(X), y, weight))
    assert np.array_equal(sparse.hash, weighted.hash)
    other = SampleDistinct(5, seed=4)(Block(0, X, y, weight))
    assert not np.array_equal(other.hash, weighted.hash)


def test_equal_rows_with_different_labels_are_not_copies():
    found = SampleDistinct(10, seed=0)(Block(0, np.ones((4, 2)), np.array([0, 1, 1, 1])))
    assert sorted(zip(found.y.tolist(), found.weight.tolist(), strict=True)) == [(0, 1.0), (1, 3.0)]


def test_a_sample_with_labels_is_uniform_over_distinct_rows():
    X, y = np.arange(40.0)[:, None], np.zeros(40)
    drawn = [SampleDistinct(10, seed)(Block(0, X, y)).X[:, 0].astype(int) for seed in range(400)]
    share = np.bincount(np.concatenate(drawn), minlength=40) / 400
    # Standard error of a share of a fourth over 400 draws: 0.022; the largest of 40 deviations is below four of them.
    assert np.abs(share - 0.25).max() < 4 * 0.022
