"""Reading ahead changes when things are read, and nothing else."""

import os
import threading
import time

import pytest

from mercer.engines import read_ahead


def readers():
    return [thread for thread in threading.enumerate() if thread.name == "mercer-reader"]


def test_items_come_in_order_and_the_thread_ends():
    assert list(read_ahead(iter(range(100)))) == list(range(100))
    assert list(read_ahead(iter(()))) == []
    assert readers() == []


@pytest.mark.parametrize("depth", [1, 2])
def test_no_more_is_read_ahead_than_allowed(depth):
    read = []

    def source():
        for i in range(20):
            read.append(i)
            yield i

    items = read_ahead(source(), depth)
    for i in range(10):
        assert next(items) == i
        time.sleep(0.01)
        assert len(read) <= i + 1 + depth
    deadline = time.monotonic() + 10
    while len(read) < 10 + depth and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(read) == 10 + depth  # and so much is
    items.close()
    assert readers() == []


def test_reading_overlaps_with_work():
    working, read = threading.Event(), threading.Event()

    def source():
        yield 0
        assert working.wait(10)  # in the middle of the work on the first item
        read.set()
        yield 1

    items = read_ahead(source())
    assert next(items) == 0
    working.set()
    assert read.wait(10)
    assert list(items) == [1]


def test_errors_arrive_where_they_belong():
    def source():
        yield 1
        raise ValueError("bad block")

    items = read_ahead(source())
    assert next(items) == 1
    with pytest.raises(ValueError, match="bad block"):
        next(items)
    assert readers() == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_stopping_closes_the_source(error):
    closed = []

    def source():
        try:
            yield from range(1000)
        finally:
            closed.append(threading.current_thread().name)

    items = read_ahead(source())
    next(items)
    with pytest.raises(error):
        items.throw(error)
    assert closed == ["mercer-reader"]
    assert readers() == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_raises_instead_of_hanging():
    items = read_ahead(iter(range(1000)))
    next(items)
    child = os.fork()
    if not child:
        try:
            next(items)
        except RuntimeError:
            ok = list(read_ahead(iter(range(3)))) == [0, 1, 2]  # a new pass works
            os._exit(0 if ok else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    items.close()
    assert readers() == []
