"""Fits on a cluster of processes on this machine: equal bits whichever worker computes, dies or is stopped."""

import os
import signal
import sys
import threading
import time
from functools import partial

import cloudpickle
import dask
import dask.array as da
import numpy as np
import pytest

from mercer import (
    Checkpoint,
    DataError,
    Gaussian,
    KernelLogisticRegression,
    KernelRidge,
    LocalCorrection,
    MercerError,
    MercerWarning,
    RandomFourier,
)
from mercer.engines import TermSum
from mercer.engines.dask import engine as engine_module
from mercer.engines.dask.collections import partitions_of
from mercer.engines.dask.engine import DaskEngine, active_client
from mercer.io.archive import read_archive

from . import faults

pytestmark = pytest.mark.slow

# Workers cannot import this file: its functions travel by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture(scope="module")
def on_cluster():
    with faults.cluster(3) as (client, killer):
        yield client, killer


def ridge(**options):
    return KernelRidge(RandomFourier(Gaussian(2.0), 32, random_state=0), **{"alpha": 1.0, **options})


def engine(X):
    return DaskEngine(partitions_of(X), as_it_is, block_rows=1000)


def as_it_is(X, y=None, weight=None):
    return X, y, weight


@pytest.mark.parametrize("name", ["ridge", "logistic", "k-means"])
def test_a_worker_that_is_killed_changes_no_bit(on_cluster, name):
    client, killer = on_cluster
    fit = faults.fits(*faults.rows(6000, 500), width=32)[name]
    undisturbed = faults.fit_and_kill(client, killer, fit, None, 0)
    passes = killer.done / 12
    assert passes == 1 if name == "ridge" else passes > 4
    assert killer.hit is None
    disturbed = faults.fit_and_kill(client, killer, fit, killer.done // 2, 1)
    assert killer.hit > 0  # it died while there was work to do
    np.testing.assert_array_equal(disturbed, undisturbed)
    with dask.config.set(scheduler="synchronous"):
        assert active_client() is None
        np.testing.assert_array_equal(fit(), undisturbed)


def test_the_client_in_use_is_found(on_cluster):
    client, _ = on_cluster
    assert active_client() is client


def test_progress_comes_from_the_workers(on_cluster):
    seen = []
    X, numbers, _ = faults.rows(5000, 500)
    ridge(progress=seen.append).fit(X, numbers)
    assert len(seen) == 10
    assert {p.total for p in seen} == {5000}
    assert [p.rows for p in seen] == list(range(500, 5001, 500))
    assert seen[0].seconds_left >= 0


def test_errors_of_workers_arrive_with_their_place(on_cluster):
    X, numbers, _ = faults.rows(2000, 500)
    X = da.where(X == X[1700, 3].compute(), np.inf, X)
    with pytest.raises(DataError, match="Partition 3, rows from 1500 on: Input X contains infinity"):
        ridge().fit(X, numbers)


def blas_threads(block):
    from threadpoolctl import threadpool_info

    return [(os.getpid(), {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"})]


def test_workers_keep_blas_to_one_thread(on_cluster):
    X, _, _ = faults.rows(6000, 500)
    found = engine(X).sum(blas_threads)
    assert os.getpid() not in {process for process, _ in found}
    assert set().union(*(threads for _, threads in found)) == {1}


def first_of(numbers, block):
    return numbers[:1].copy()


def test_a_large_map_is_sent_without_a_warning(on_cluster):
    X, _, _ = faults.rows(2000, 500)
    total = engine(X).sum(partial(first_of, np.ones(2_000_000)))  # 16 MB; warnings are errors here
    np.testing.assert_array_equal(total, [4.0])


def slow(block):
    time.sleep(0.5)
    return 1


@pytest.mark.parametrize("watched", [False, True])
def test_an_interrupt_cancels_what_is_left(on_cluster, watched):
    client, killer = on_cluster
    X, _, _ = faults.rows(4000, 100)
    # A suite that a script started in the background has been told to ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupt = threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT))
    interrupt.start()
    started = time.monotonic()
    total = engine(X)
    with pytest.raises(KeyboardInterrupt):
        total.accumulate(TermSum(slow), (lambda progress: None) if watched else None)
    interrupt.join()
    signal.signal(signal.SIGINT, before)
    for _ in range(100):  # tasks under way end by themselves
        left = [key for key, task in killer.scheduler.tasks.items() if task.state != "released" and ours(key)]
        if not left:
            break
        time.sleep(0.1)
    assert not left
    assert time.monotonic() - started < 40 * 0.5 / 3  # the rest was not worked on
    assert client.submit(sum, [1, 2]).result() == 3


def ours(key):
    return str(key[0] if isinstance(key, tuple) else key).startswith("mercer-")


def test_predictions_are_made_by_the_workers(on_cluster):
    X, numbers, _ = faults.rows(2000, 500)
    model = ridge().fit(X, numbers)
    lazy = model.predict(X)
    assert isinstance(lazy, da.Array)
    assert lazy.chunks == ((500,) * 4,)
    np.testing.assert_allclose(lazy.compute(), model.predict(X.compute()), rtol=1e-12)


def test_predictions_from_rows_in_their_source_read_partitions_within_tasks(on_cluster):
    # More queries than threads wait for the partitions, whose tasks are run by the same workers.
    X, numbers, _ = faults.rows(2000, 500)
    model = ridge(neighbors=LocalCorrection(8, parts="local", rows="source")).fit(X, numbers)
    lazy = model.predict(X[:200].rechunk((25, -1)))
    np.testing.assert_allclose(lazy.compute(), model.predict(X[:200].compute()), rtol=1e-12)


def test_collections_that_lie_on_the_workers(on_cluster):
    client, _ = on_cluster
    X, numbers, _ = faults.rows(2000, 500)
    expected = ridge().fit(X, numbers)
    stored = X.persist(), numbers.persist()
    np.testing.assert_array_equal(ridge().fit(*stored).coef_, expected.coef_)
    lazy = expected.predict(X.persist())  # whose futures have no other reference
    np.testing.assert_allclose(lazy.compute(), expected.predict(X.compute()), rtol=1e-12)
    blocks = [(X.compute()[i : i + 500], numbers.compute()[i : i + 500]) for i in range(0, 2000, 500)]
    futures = client.map(lambda i: blocks[i], range(4))
    np.testing.assert_array_equal(ridge().fit(futures).coef_, expected.coef_)


def greedy(block):
    return np.ones(10**9).sum() + len(block)


def test_a_worker_without_memory_says_what_would_fit():
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        faults.cluster(1, memory_limit="500MB") as (client, _),
    ):
        X = da.random.default_rng(0).normal(size=(8_000_000, 8), chunks=(8_000_000, 8))
        with pytest.raises(MercerError, match="A worker ran out of memory over a partition, 1 times") as caught:
            ridge().fit(X, X[:, 0])  # already the first partition is too large
        text = str(caught.value)
        assert "8,000,000 rows, 0.51 GB; a worker has 0.50 GB for 1 thread." in text
        assert f"at most {int(500e6 / 4 // 64):,} rows" in text
        assert "X.rechunk({0: rows})" in text
        small = da.ones((2000, 8), chunks=(1000, 8))
        with pytest.raises(MercerError, match="at most 1,000 rows and block_size=1000, which is what you have"):
            engine(small).sum(greedy)
        assert client.submit(sum, [1, 2]).result(timeout=60) == 3


class Late(threading.Thread):
    """Does something when a fit has so many partitions done."""

    def __init__(self, killer, after, action):
        super().__init__(daemon=True)
        self.killer, self.after, self.action = killer, after, action
        killer.arm(None, None)
        self.start()

    def run(self):
        while self.killer.done < self.after:
            time.sleep(0.01)
        self.action()


def slowly(X):
    """Return the same rows, each block of which takes a tenth of a second.

    Dask sends a function of this file by its name where it can, and workers that cannot import the file wait for ever.
    A function inside of a function has no such name.
    """

    def slow_block(block):
        time.sleep(0.1)
        return block

    return X.map_blocks(slow_block, dtype=float)


def test_workers_that_are_all_killed_at_once_do_not_lack_memory():
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        faults.cluster(2) as (client, killer),
    ):
        X, numbers, _ = faults.rows(4000, 100)

        def kill_all():
            for nanny in killer.nannies.values():
                os.kill(nanny.pid, signal.SIGKILL)

        Late(killer, 5, kill_all)
        with pytest.raises(
            MercerError, match=r"died, 1 times in a row.*did not report that it exceeded a memory limit"
        ):
            ridge().fit(slowly(X), numbers)
        client.wait_for_workers(2, timeout=300)
        assert np.isfinite(ridge().fit(X, numbers).coef_).all()  # nannies started them again


@pytest.mark.parametrize("what", ["client", "cluster", "scheduler"])
def test_a_cluster_that_is_closed_during_a_fit_is_explained_and_the_fit_continues(what, tmp_path):
    checkpoint = Checkpoint(tmp_path / "fit.checkpoint", seconds=0)
    learner = KernelLogisticRegression(RandomFourier(Gaussian(2.0), 16, random_state=0), C=0.1, tol=1e-20)
    X, _, labels = faults.rows(2000, 200)
    slow_rows = slowly(X)
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "3s"}),  # for the scheduler that is gone
        faults.cluster(1) as (client, killer),
    ):
        actions = {
            "client": client.close,
            "cluster": client.cluster.close,
            "scheduler": lambda: client.loop.add_callback(killer.scheduler.close),
        }
        late = Late(killer, 25, actions[what])  # in the third pass
        match = "connection to the Dask scheduler was lost" if what == "scheduler" else "cluster was closed during"
        with pytest.raises(MercerError, match=f"{match}.*continues after its last complete pass"):
            learner.fit(slow_rows, labels, checkpoint=checkpoint)
        late.join()
    assert read_archive(checkpoint.path, "header")["passes"] >= 2
    with dask.config.set(scheduler="synchronous"):
        resumed = learner.fit(X, labels, checkpoint=checkpoint).coef_
        np.testing.assert_array_equal(resumed, learner.fit(X, labels).coef_)


def test_a_fit_that_waits_for_workers_warns(monkeypatch):
    monkeypatch.setattr(engine_module, "WAIT_SECONDS", 0.2)
    with faults.cluster(1) as (client, _):
        X, _, _ = faults.rows(4000, 100)
        total = engine(X)
        client.cluster.scale(0)
        while client.nthreads():
            time.sleep(0.1)
        threading.Timer(2.0, client.cluster.scale, (1,)).start()
        with pytest.warns(MercerWarning, match="No Dask worker is connected") as caught:
            assert total.sum(len) == 4000
        assert len(caught) == 1
