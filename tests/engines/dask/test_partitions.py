"""What is done with a partition, and how results are joined, without any dask."""

import operator
import pickle
import sys
from functools import reduce

import numpy as np
import pytest

from mercer import DataError
from mercer.engines import TermSum
from mercer.engines.dask.partitions import (
    FAN_IN,
    Packed,
    Work,
    add_up,
    first_rows,
    join,
    memory_advice,
    pack,
)


def total(block):
    return block.X.sum(axis=0)


def starts(block):
    return [(block.start, len(block))]


def as_it_is(X, y=None, weight=None):
    return X, y, weight


def refuse(X, y=None, weight=None):
    raise ValueError("not these")


def work(term, block_rows=4, check=as_it_is):
    return Work(TermSum(term), check, block_rows)


def test_a_partition_is_cut_and_its_rows_keep_their_numbers():
    blocks = [(np.ones((5, 2)),), (np.ones((0, 2)),), (np.ones((6, 2)),)]
    packed = work(starts).on(blocks, number=3, start=100, rows=11)
    assert packed.unpack() == [(100, 4), (104, 1), (105, 4), (109, 2)]
    assert packed.rows == 11


def test_a_partition_without_rows_has_no_sum():
    assert work(total).on([(np.ones((0, 2)),)], number=0, start=0, rows=0) is None
    assert work(total).on([], number=0, start=0, rows=0) is None


@pytest.mark.parametrize("said", [4, 6])
def test_a_partition_that_changes_its_number_of_rows_is_refused(said):
    with pytest.raises(DataError, match=f"Partition 2 was counted to have {said} rows and now has 5"):
        work(total).on([(np.ones((5, 2)),)], number=2, start=0, rows=said)


def test_a_check_that_fails_says_where():
    with pytest.raises(DataError, match="Partition 7, rows from 30 on: not these"):
        work(total, check=refuse).on([(np.ones((5, 2)),)], number=7, start=30, rows=5)


def test_packed_statistics_come_back_and_tell_their_size():
    statistic = {"a": np.arange(1000.0), "b": "text", "c": np.zeros((0, 3))}
    packed = pickle.loads(pickle.dumps(pack(5, statistic)))
    back = packed.unpack()
    np.testing.assert_array_equal(back["a"], statistic["a"])
    assert back["b"] == "text"
    assert back["c"].shape == (0, 3)
    assert 8000 < sys.getsizeof(packed) < 9000
    copy = packed.unpack_copy()
    copy["a"][0] = -1.0  # writable, and not shared
    assert packed.unpack()["a"][0] == 0.0


def test_sums_leave_out_what_had_no_rows():
    one, two = pack(1, np.array([1.0])), pack(2, np.array([2.0]))
    assert add_up([None, None]) is None
    assert add_up([None, one]) is one
    both = add_up([one, None, two])
    assert isinstance(both, Packed)
    assert both.rows == 3
    np.testing.assert_array_equal(both.unpack(), [3.0])


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 63, 64, 65, 513])
def test_the_tree_keeps_the_order_and_has_few_levels(n):
    depth = {}

    def add_some(some):
        assert 1 <= len(some) <= FAN_IN
        joined = reduce(operator.add, some)
        depth[joined] = 1 + max(depth.get(part, 0) for part in some)
        return joined

    whole = join([(i,) for i in range(n)], add_some)
    assert whole == tuple(range(n))
    assert depth.get(whole, 0) == int(np.ceil(np.log(n) / np.log(FAN_IN) - 1e-12))


def test_a_few_rows_tell_what_all_look_like():
    X, y = np.arange(2000.0).reshape(1000, 2), np.arange(1000)
    head = first_rows(X, y, None)
    assert head[0].shape == (256, 2)
    assert head[1].shape == (256,)
    assert head[2] is None


@pytest.mark.parametrize(("threads", "rows"), [(1, 500_000), (4, 125_000)])
def test_advice_names_a_partition_that_fits(threads, rows):
    text = memory_advice(
        rows=10**7, row_bytes=400.0, limit=800_000_000, threads=threads, block_rows=8192, feature_bytes=8192
    )
    assert f"at most {rows:,} rows" in text
    assert "10,000,000 rows, 4.00 GB" in text
    assert 4 * rows * 400 * threads == 800_000_000
    block = int(text.partition("block_size=")[2].rstrip("."))
    assert block == min(8192, 800_000_000 // threads // 8 // 8192)


def test_advice_where_partitions_are_small_already():
    text = memory_advice(rows=10, row_bytes=8.0, limit=10**9, threads=1, block_rows=64, feature_bytes=64)
    assert "at most 10 rows and block_size=64, which is what you have" in text
    assert "n_components" in text


def test_advice_before_a_row_was_seen():
    text = memory_advice(rows=10**6, row_bytes=800.0, limit=10**8, threads=2)
    assert text.endswith("a worker has 0.10 GB for 2 threads. Try partitions of at most 15,625 rows.")


@pytest.mark.parametrize(("limit", "row_bytes"), [(None, 8.0), (10**9, None)])
def test_advice_where_little_is_known(limit, row_bytes):
    text = memory_advice(rows=1000, row_bytes=row_bytes, limit=limit, threads=1, block_rows=64, feature_bytes=64)
    assert text.endswith("Try partitions of half as many rows, 500, and block_size=32.")
