"""Memory that is used again: never while anyone can see it, never more than a limit, from any thread."""

import gc
import threading

import numpy as np
import pytest

from mercer import Gaussian, RandomFourier
from mercer.engines import buffers as recycled
from mercer.engines import empty_rows

MB = 2**20


@pytest.fixture(autouse=True)
def nothing_idle():
    gc.collect()  # otherwise results of earlier tests that are parts of cycles become idle at any later moment
    recycled._idle.clear()
    yield
    recycled._idle.clear()


def idle_bytes():
    return sum(owner.size for owner in recycled._idle.values())


def address(array):
    return array.__array_interface__["data"][0]


def test_memory_of_a_result_that_is_gone_serves_the_next():
    first = empty_rows(1000, 1000, np.float64, recycled=True)
    where = address(first)
    del first
    assert idle_bytes() >= 8 * MB * 0.9
    second = empty_rows(1000, 990, np.float64, recycled=True)
    assert address(second) == where
    assert not recycled._idle


@pytest.mark.covering(0)
@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[3:5],
        lambda a: a.T,
        lambda a: a.ravel(),
        lambda a: a.view(np.uint8),
        lambda a: memoryview(a),
        lambda a: np.asarray(a)[::2, 1:],
        lambda a: a.reshape(500, -1)[0],
    ],
)
def test_memory_that_anyone_can_still_see_is_not_used_again(view):
    whole = empty_rows(1000, 1000, np.float64, recycled=True)
    whole[:] = 7.0
    part = view(whole)
    before = bytes(part) if isinstance(part, memoryview) else part.copy()
    del whole
    gc.collect()
    assert not recycled._idle
    other = empty_rows(1000, 1000, np.float64, recycled=True)
    other[:] = 1.0
    assert np.array_equal(part, before) if not isinstance(part, memoryview) else bytes(part) == before
    del part
    gc.collect()
    assert len(recycled._idle) == 1


def test_results_are_plain_arrays():
    rows = empty_rows(1000, 1000, np.float32, recycled=True)
    assert type(rows) is np.ndarray
    rows[...] = 0.0  # it may hold anything, also NaN that warns
    assert type(rows + 1) is np.ndarray
    assert rows.flags.writeable
    assert rows.flags.c_contiguous
    assert rows.ctypes.data % 64 == 0


def test_small_results_are_left_to_the_heap_and_others_of_unlike_size_too():
    small = empty_rows(10, 10, np.float64, recycled=True)
    del small
    assert not recycled._idle
    large = empty_rows(2000, 1000, np.float64, recycled=True)
    where = address(large)
    del large
    half = empty_rows(1000, 1000, np.float64, recycled=True)  # it would hold twice its size
    assert address(half) != where


def test_idle_memory_is_limited():
    many = [empty_rows(5000, 1000, np.float64, recycled=True) for _ in range(5)]
    many.clear()
    assert 0 < idle_bytes() <= recycled.POOL_BYTES
    huge = recycled.recycled_bytes(recycled.POOL_BYTES + MB)
    del huge
    assert 0 < idle_bytes() <= recycled.POOL_BYTES


def test_threads_never_get_the_same_memory():
    clashes = []

    def work(number):
        for _ in range(200):
            rows = empty_rows(600, 500, np.float64, recycled=True)
            rows[::50] = number
            if not (rows[::50] == number).all():
                clashes.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not clashes


def test_features_of_one_call_do_not_change_with_the_next():
    X = np.random.default_rng(0).normal(size=(3000, 5))
    m = RandomFourier(Gaussian(1.0), 256, random_state=0).fit(X)
    kept = m.transform(X)
    copy = kept.copy()
    for _ in range(3):
        m.transform(X + 1)
    assert np.array_equal(kept, copy)
