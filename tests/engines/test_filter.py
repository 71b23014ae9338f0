"""Engines over some rows of another: the same sums as over these rows alone, in any blocks."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest

from mercer.engines import Accumulator, FilteredEngine, MemoryEngine, StreamEngine, some_rows
from mercer.errors import DataError
from mercer.statistics import RowSample

X = np.arange(40.0).reshape(20, 2)
Y = np.tile([1, -1, -1, 2, -1], 4)


@dataclass(frozen=True)
class Known:
    unlabeled: int = -1

    def __call__(self, block):
        return some_rows(block, block.y != self.unlabeled)


class Total(Accumulator):
    def __init__(self):
        self.total = None

    def add(self, block, workers):
        part = block.X.sum(axis=0)
        self.total = part if self.total is None else self.total + part

    def result(self):
        return self.total

    def restore(self, state):
        self.total = state


def engine(block_rows=3, y=Y, rule=None, **options):
    return FilteredEngine(MemoryEngine(X, y, block_rows=block_rows, **options), rule or Known(), "nothing there")


def column_sum(block):
    return block.X.sum(axis=0)


@pytest.mark.parametrize("block_rows", [1, 2, 3, 7, 20, 50])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_sums_are_over_the_selected_rows(block_rows, n_jobs):
    some = engine(block_rows, n_jobs=n_jobs)
    assert np.array_equal(some.sum(column_sum), X[Y != -1].sum(axis=0))
    assert np.array_equal(some.accumulate(Total()), X[Y != -1].sum(axis=0))
    assert np.array_equal(np.concatenate([b.X for b in some.blocks()]), X[Y != -1])
    assert np.array_equal(some.first().X[0], X[0])


@pytest.mark.parametrize("block_rows", [1, 4, 20])
def test_rows_know_their_indices_so_samples_do_not_depend_on_blocks(block_rows):
    some = engine(block_rows)
    assert np.array_equal(np.concatenate([b.index for b in some.blocks()]), np.flatnonzero(Y != -1))
    sample = some.sum(partial(RowSample.of, size=4, seed=0))
    expected = engine(20).sum(partial(RowSample.of, size=4, seed=0))
    assert np.array_equal(sample.index, expected.index)
    assert np.array_equal(sample.X, X[sample.index.astype(int)])
    assert set(Y[sample.index.astype(int)]) <= {1, 2}


def test_weights_and_targets_stay_with_their_rows():
    weight = np.arange(20.0)
    some = FilteredEngine(MemoryEngine(X, Y, weight, block_rows=6), Known(), "")
    assert np.array_equal(np.concatenate([b.weight for b in some.blocks()]), weight[Y != -1])
    assert np.array_equal(np.concatenate([b.y for b in some.blocks()]), Y[Y != -1])


def test_no_selected_row_raises_with_the_given_message():
    with pytest.raises(DataError, match="nothing there"):
        engine(rule=Known(), y=np.full(20, -1)).sum(column_sum)
    with pytest.raises(DataError, match="nothing there"):
        engine(y=np.full(20, -1)).accumulate(Total())


def test_a_sum_continues_from_a_result():
    from mercer.engines.base import workers
    from mercer.engines.filter import SelectedSum

    blocks = list(MemoryEngine(X, Y, block_rows=4).blocks())
    whole, first, second = (SelectedSum(Total(), Known()) for _ in range(3))
    with workers(1) as team:
        for block in blocks:
            whole.add(block, team)
        for block in blocks[:2]:
            first.add(block, team)
        second.restore(first.result())
        for block in blocks[2:]:
            second.add(block, team)
    assert np.array_equal(whole.result().value, second.result().value)
    empty = SelectedSum(Total(), Known())
    empty.restore(SelectedSum(Total(), Known()).result())
    assert empty.result().value is None


def test_streams_that_can_be_read_once_stay_so():
    source = iter([(X, Y)])
    some = FilteredEngine(StreamEngine(source, lambda X, y=None, w=None: (X, y, w)), Known(), "")
    assert not some.replayable
    assert np.array_equal(some.sum(column_sum), X[Y != -1].sum(axis=0))


def test_sums_report_after_each_block_of_all_rows():
    told = []
    assert np.array_equal(engine(8).sum(column_sum, told.append), X[Y != -1].sum(axis=0))
    assert [(one.rows, one.total) for one in told] == [(8, 20), (16, 20), (20, 20)]
    assert [one.seconds for one in told] == sorted(one.seconds for one in told)
