"""Errors of a cluster are explained; tests/engines/test_dask_cluster.py has the same with real workers."""

import os
import pickle
import subprocess
import sys
from concurrent.futures import CancelledError
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import pytest
from distributed.client import FutureCancelledError
from distributed.comm import CommClosedError
from distributed.scheduler import KilledWorker, NoWorkerError

from mercer import DataError, MercerError
from mercer.engines.dask.failures import check_imported, check_open, failures_explained

SIZES = {"rows": 1000, "row_bytes": 80.0, "block_rows": 64, "feature_bytes": 64}
WORKER = SimpleNamespace(address="tcp://10.0.0.1:1234", memory_limit=10**6, nthreads=2)
RESUMES = "A fit with a checkpoint continues after its last complete pass"


class Cluster:
    """A client that knows how many workers it has, and which of them exceeded their memory."""

    def __init__(self, status="running", workers=0, exceeded=()):
        self.status, self.workers, self.exceeded = status, workers, exceeded

    def get_events(self, topic):
        assert topic == "worker-restart-memory"
        return [(0.0, {"worker": address, "pid": 1}) for address in self.exceeded]

    def nthreads(self):
        return dict.fromkeys(range(self.workers), 1)


class Gone(Cluster):
    def get_events(self, topic):
        raise CommClosedError("gone")

    def nthreads(self):
        raise CommClosedError("gone")


def explained(error, client, **sizes):
    with pytest.raises(MercerError) as caught, failures_explained(client, **sizes):
        raise error
    assert caught.value.__cause__ is error
    return str(caught.value)


def test_workers_that_were_killed_are_not_said_to_lack_memory():
    killed = KilledWorker("task", WORKER, 3)
    for client, left in ((Cluster(), "No worker is left."), (Cluster(workers=2), "Connected now: 2 workers.")):
        text = explained(killed, client, **SIZES)
        assert text.startswith("The worker of a partition died, 4 times in a row; the last one was tcp://10.0.0.1:1234")
        assert left in text
        assert "Dask did not report that it exceeded a memory limit. It was killed" in text
        assert "If memory was short: A partition has up to 1,000 rows" in text
        assert RESUMES in text
    assert "It was killed" in explained(killed, Gone())
    assert "It was killed" in explained(killed, Cluster(exceeded=["tcp://10.0.0.2:1"]))


def test_workers_that_exceeded_their_memory():
    text = explained(KilledWorker("task", WORKER, 0), Cluster(exceeded=[WORKER.address]), **SIZES)
    assert text.startswith("A worker ran out of memory over a partition, 1 times in a row")
    assert "a worker has 1.0 MB for 2 threads" in text
    assert "killed" not in text
    text = explained(MemoryError(), None, **SIZES)
    assert text.startswith(
        "A worker ran out of memory over a partition (MemoryError). A partition has up to 1,000 rows"
    )
    assert "X.rechunk({0: rows})" in text
    assert "Try smaller partitions" in explained(MemoryError(), None)


@pytest.mark.parametrize(
    ("error", "status", "match"),
    [
        (
            FutureCancelledError("key", "scheduler-connection-lost"),
            "connecting",
            "connection to the Dask scheduler was",
        ),
        (FutureCancelledError("key", "scheduler-restart"), "running", "The Dask cluster was restarted"),
        (FutureCancelledError("key", "lost dependencies"), "running", r"canceled .* \(reason: lost dependencies\)"),
        (CancelledError(), "running", r"reason: unknown"),
        (FutureCancelledError("key", "client-closed"), "closed", "client or its cluster was closed"),
        (RuntimeError("no loop"), "closing", "client or its cluster was closed"),
        (CommClosedError("in read"), "running", r"connection to the Dask scheduler was lost \(in read\)"),
        (NoWorkerError("key", 3.0), "running", "The Dask cluster has no workers"),
    ],
)
def test_clusters_that_are_gone(error, status, match):
    text = explained(error, Cluster(status))
    assert RESUMES in text
    with pytest.raises(MercerError, match=match), failures_explained(Cluster(status)):
        raise error


@pytest.mark.parametrize("error", [ZeroDivisionError(), DataError("rows"), OSError(2, "a file"), TimeoutError()])
def test_errors_of_tasks_are_left_as_they_are(error):
    with pytest.raises(type(error)) as caught, failures_explained(Cluster()):
        raise error
    assert caught.value is error


def test_a_closed_client_is_not_replaced_by_the_threads_of_this_process():
    check_open(None)
    check_open(Cluster())
    with pytest.raises(MercerError, match="Keep both open until fit has returned"):
        check_open(Cluster("closed"))


MODULE = """
import dask, dask.array as da, numpy as np
from dataclasses import dataclass
from mercer.engines.dask.collections import partitions_of
from mercer.engines.dask.engine import DaskEngine

@dataclass(frozen=True)
class Count:
    rows: int

    def __add__(self, other):
        return Count(self.rows + other.rows)

def count(block):
    return Count(len(block))

def check(X, y, weight):
    return X, y, weight

def total():
    return DaskEngine(partitions_of(da.ones((400, 2), chunks=(50, 2))), check, block_rows=10).sum(count)

with dask.config.set(scheduler="synchronous"):
    assert total() == Count(400)
try:
    total()
except Exception as error:
    print(type(error).__name__, error)
"""


def test_modules_that_are_being_imported_are_named(monkeypatch):
    module = ModuleType("own_learner")
    module.Count = type("Count", (), {"__module__": "own_learner"})
    module.__spec__ = ModuleSpec("own_learner", None)
    monkeypatch.setitem(sys.modules, "own_learner", module)
    work = pickle.dumps(module.Count())
    check_imported(work)
    module.__spec__._initializing = True
    check_imported(pickle.dumps(SIZES))
    with pytest.raises(MercerError, match=r"of the module own_learner in other threads .* still being imported"):
        check_imported(work)


@pytest.mark.slow
def test_a_fit_while_its_classes_are_imported_raises_instead_of_a_deadlock(tmp_path):
    (tmp_path / "own_learner.py").write_text(MODULE)
    code = "import own_learner; assert own_learner.total() == own_learner.Count(400)"
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(tmp_path), *sys.path]))
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.startswith("MercerError A fit on Dask needs classes or functions of the module own_learner in")
