"""Blocks that arrive one after another."""

import threading

import numpy as np
import pytest

from mercer import DataError
from mercer.engines import StreamEngine


def accept(X, y=None, weight=None):
    return X, y, weight


BLOCKS = [(np.full((n, 2), float(n)),) for n in (3, 0, 2, 4)]


def test_replayable_or_not():
    assert StreamEngine(BLOCKS, accept).replayable
    assert not StreamEngine(iter(BLOCKS), accept).replayable
    assert not StreamEngine((b for b in BLOCKS), accept).replayable


@pytest.mark.parametrize("wrap", [list, iter], ids=["list", "iterator"])
def test_looking_at_the_first_block_loses_nothing(wrap):
    engine = StreamEngine(wrap([BLOCKS[1], *BLOCKS]), accept)
    assert len(engine.first()) == 3
    assert len(engine.first()) == 3
    assert engine.sum(lambda block: block.X.sum()) == 2 * (9 + 4 + 16)


def test_starts_count_the_rows_before():
    assert [b.start for b in StreamEngine(BLOCKS, accept).blocks()] == [0, 3, 3, 5]


def test_no_more_blocks_are_read_ahead_than_threads_can_hold():
    read, done = [], []
    go = threading.Semaphore(0)

    def source():
        for i in range(20):
            read.append(i)
            yield (np.ones((1, 1)),)

    def term(block):
        go.acquire(timeout=5)
        done.append(block.start)
        # Under way or waiting to be added: at most the threads and one more.
        assert len(read) - len(done) <= 4
        go.release()
        return block.X.sum()

    go.release()
    assert StreamEngine(source(), accept, n_jobs=2).sum(term) == 20


def test_errors_name_the_block():
    def refuse(X):
        if X[0, 0] == 4:
            raise ValueError("bad rows")
        return X, None, None

    engine = StreamEngine([b for b in BLOCKS if len(b[0])], refuse)
    with pytest.raises(DataError, match="Block 2, which starts at row 5: bad rows"):
        engine.sum(lambda block: block.X.sum())


def test_bare_rows_are_a_block():
    rows = np.arange(6.0).reshape(3, 2)
    block = StreamEngine([rows], accept).first()
    assert block.X is rows
    assert block.y is None


@pytest.mark.parametrize("bad", [np.zeros(2), (), (1, 2, 3, 4), "rows"])
def test_what_is_not_a_block_is_refused(bad):
    with pytest.raises(DataError, match="Block 0: a block is a tuple"):
        StreamEngine([bad], accept).first()


@pytest.mark.parametrize("blocks", [[], [BLOCKS[1]]])
def test_no_rows_at_all(blocks):
    for ask in (StreamEngine(blocks, accept).first, lambda: StreamEngine(blocks, accept).sum(len)):
        with pytest.raises(DataError, match="There are no rows"):
            ask()


class OnceOnly:
    """An iterable that looks as if it could be read again, like a progress bar around a generator."""

    def __init__(self, blocks):
        self.blocks = iter(blocks)

    def __iter__(self):
        return (block for block in self.blocks)


def test_a_source_that_only_looks_replayable_loses_nothing():
    engine = StreamEngine(OnceOnly(BLOCKS), accept)
    assert engine.replayable
    assert len(engine.first()) == 3
    assert engine.sum(len) == 9


def test_a_second_pass_with_other_rows_raises():
    engine = StreamEngine(OnceOnly(BLOCKS), accept)
    assert engine.sum(len) == 9
    with pytest.raises(DataError, match="The blocks had 9 rows in the first pass and 0 in the next"):
        engine.sum(len)


def test_large_blocks_are_cut():
    engine = StreamEngine([(np.arange(20.0).reshape(10, 2), np.arange(10))], accept, block_rows=lambda X: 4)
    assert [(b.start, len(b), b.y[0]) for b in engine.blocks()] == [(0, 4, 0), (4, 4, 4), (8, 2, 8)]


class Parts:
    """A source with parts and a number of rows, as files have."""

    def __init__(self, sizes, n_rows=None):
        self.sizes, self.n_rows, self.open = sizes, n_rows, 0

    def parts(self):
        return tuple(Part(self, sizes) for sizes in self.sizes)

    def __iter__(self):
        return (block for part in self.parts() for block in part)


class Part:
    def __init__(self, owner, sizes):
        self.owner, self.sizes = owner, sizes

    def __iter__(self):
        self.owner.open += 1
        try:
            for size in self.sizes:
                yield (np.full((size, 2), float(size)),)
        finally:
            self.owner.open -= 1

    def __str__(self):
        return f"a file of {sum(self.sizes)} rows"


def readers():
    return [thread for thread in threading.enumerate() if thread.name == "mercer-reader"]


def test_sources_of_parts_are_read_ahead_and_tell_their_size():
    source = Parts([[3, 4], [], [0, 2], [5]], n_rows=14)
    engine = StreamEngine(source, accept, block_rows=lambda X: 3)
    assert engine.n_rows == 14
    assert len(engine.first()) == 3
    assert [(b.start, len(b)) for b in engine.blocks()] == [(0, 3), (3, 3), (6, 1), (7, 0), (7, 2), (9, 3), (12, 2)]
    assert engine.sum(len) == 14
    assert (readers(), source.open) == ([], 0)


def test_a_pass_starts_in_the_middle():
    for source in (Parts([[3, 4], [], [0, 2], [5]]), [(np.zeros((n, 2)),) for n in (3, 4, 0, 2, 5)]):
        engine = StreamEngine(source, accept, block_rows=lambda X: 3)
        whole = [(b.start, len(b)) for b in engine.blocks() if len(b)]
        for done in range(len(whole) + 1):
            row = sum(size for _, size in whole[:done])
            for block in engine.blocks():  # which records the first rows of its items
                if block.start + len(block) == row or row == 0:
                    break
            position = engine.position(row)
            assert [(b.start, len(b)) for b in engine.blocks(position) if len(b)] == whole[done:]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, ZeroDivisionError])
def test_no_reader_is_left_behind(stop):
    source = Parts([[1] * 1000])

    def term(block):
        if block.start == 5:
            raise stop
        return len(block)

    engine = StreamEngine(source, accept, n_jobs=2)
    with pytest.raises(stop) as caught:
        engine.sum(term)
    assert caught.tb is not None  # the traceback is still there, and keeps frames alive
    assert (readers(), source.open) == ([], 0)
    with pytest.raises(stop):
        engine.sum(term)
    assert (readers(), source.open) == ([], 0)


def test_messages_name_the_part():
    def refuse(X):
        if len(X) == 2:
            raise ValueError("bad rows")
        return X, None, None

    with pytest.raises(DataError, match=r"^a file of 6 rows, in a block that starts at row 7: bad rows"):
        StreamEngine(Parts([[3], [4, 2]]), refuse).sum(len)


def test_a_source_with_another_number_of_rows_raises():
    with pytest.raises(DataError, match="has n_rows=8, but its blocks had 7 rows"):
        StreamEngine(Parts([[3, 4]], n_rows=8), accept).sum(len)
