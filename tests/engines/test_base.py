"""Sums of terms, threads of the engine and threads of BLAS."""

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from mercer import Gaussian, ParameterError, RandomFourier
from mercer.engines import base
from mercer.engines.base import Block, TermSum, count_threads, workers


def blas_threads():
    np.dot(np.ones((2, 2)), np.ones((2, 2)))
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


@pytest.fixture
def two_blas_threads():
    """Let BLAS have more than the one thread that a worker of the suite has, or there would be nothing to limit."""
    base._release_blas()
    with threadpool_limits(2, user_api="blas"):
        assert set(blas_threads()) == {2}
        yield


@pytest.mark.usefixtures("two_blas_threads")
def test_blas_has_one_thread_inside_and_its_own_number_after():
    before = blas_threads()
    with workers(2):
        assert set(blas_threads()) <= {1}
    assert blas_threads() == before


@pytest.mark.usefixtures("two_blas_threads")
def test_teams_that_overlap_give_blas_back_as_it_was():
    before = blas_threads()
    X = np.random.default_rng(0).normal(size=(3000, 4))
    m = RandomFourier(Gaussian(), 256, random_state=0).fit(X)
    expected = m.transform(X)
    results = []
    threads = [threading.Thread(target=lambda: results.append(m.transform(X))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert blas_threads() == before
    assert len(results) == 6
    assert all(np.array_equal(result, expected) for result in results)


@pytest.mark.usefixtures("two_blas_threads")
def test_the_limit_is_held_until_the_last_team_is_done():
    before = blas_threads()
    first, second = workers(2), workers(2)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert set(blas_threads()) <= {1}
    second.__exit__(None, None, None)
    assert blas_threads() == before


@pytest.mark.parametrize("n_jobs", ["all", 2.5, True])
def test_n_jobs_is_an_integer(n_jobs):
    with pytest.raises(ParameterError, match="n_jobs must be None or an integer"):
        count_threads(n_jobs)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_item_is_done_once(threads):
    done = []
    with workers(threads) as team:
        team.run(done.append, range(100))
        team.run(done.append, [])
    assert sorted(done) == list(range(100))


def test_the_calling_thread_works_too():
    both_at_work = threading.Barrier(2, timeout=60)
    seen = []

    def meet(item):
        seen.append(threading.get_ident())
        both_at_work.wait()

    with workers(2) as team:
        team.run(meet, range(2))
    assert threading.get_ident() in seen
    assert len(set(seen)) == 2


@pytest.mark.parametrize("threads", [1, 2])
def test_the_error_of_the_first_item_is_raised_and_no_more_items_are_begun(threads):
    begun = []
    second_failed = threading.Event()

    def fail(item):
        begun.append(item)
        if threads == 2 and item == 0:
            second_failed.wait(timeout=60)
        if threads == 2 and item == 1:
            second_failed.set()
        raise ValueError(f"item {item}")

    with workers(threads) as team, pytest.raises(ValueError, match="item 0"):
        team.run(fail, range(10))
    assert sorted(begun) == list(range(threads))


def test_a_sum_of_terms_continues_from_a_result():
    sums = TermSum(lambda block: block.X.sum(axis=0))
    sums.restore(np.array([1.0, 1.0]))
    sums.add(Block(0, np.ones((3, 2))), None)
    np.testing.assert_array_equal(sums.result(), [4.0, 4.0])


@pytest.mark.usefixtures("two_blas_threads")
def test_blas_gets_its_threads_back_from_a_thread_that_lives_on():
    # The first user of the limit is a thread of a pool, which stays alive; the last one is this thread.
    entered, leave, left, end = (threading.Event() for _ in range(4))

    def first():
        with workers(1):
            entered.set()
            leave.wait(30)
        left.set()
        end.wait(30)

    before = blas_threads()
    thread = threading.Thread(target=first)
    thread.start()
    assert entered.wait(30)
    with workers(1):
        leave.set()
        assert left.wait(30)
        assert set(blas_threads()) == {1}
    assert blas_threads() == before
    with workers(1):
        assert set(blas_threads()) == {1}
    end.set()
    thread.join()
