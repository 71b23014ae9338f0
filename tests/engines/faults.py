"""Workers killed in the middle of a fit: what the tests and the benchmark of faults share."""

import os
import random
import signal
from contextlib import contextmanager

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster
from distributed.diagnostics.plugin import SchedulerPlugin

from mercer import Gaussian, KernelKMeans, KernelLogisticRegression, KernelRidge, RandomFourier

PENDING = {"waiting", "processing", "queued", "no-worker"}


class Killer(SchedulerPlugin):
    """Counts partitions that are done, and after so many kills a random worker that is at work."""

    name = "killer"

    def __init__(self, local):
        self.scheduler = local.scheduler
        self.nannies = local.workers  # each knows the process of its worker
        self.arm(None, random.Random(0))

    def arm(self, after, rng):
        """Begin to count anew; kill after so many partitions, or never."""
        self.after = after
        self.rng = rng
        self.done = 0
        self.victim = None
        self.lost = []  # of workers that were removed: address, tasks that were pending then

    def transition(self, key, start, finish, *args, **kwargs):
        if finish != "memory" or not (isinstance(key, tuple) and str(key[0]).startswith("mercer-part")):
            return
        self.done += 1
        if self.after is not None and self.done >= self.after and self.victim is None:
            processes = {nanny.worker_address: nanny.pid for nanny in self.nannies.values()}
            workers = self.scheduler.workers.values()
            at_work = sorted(w.address for w in workers if w.processing and processes.get(w.address))
            if at_work:
                self.victim = self.rng.choice(at_work)
                os.kill(processes[self.victim], signal.SIGKILL)

    def remove_worker(self, scheduler, worker, **kwargs):
        self.lost.append((worker, sum(task.state in PENDING for task in scheduler.tasks.values())))

    @property
    def hit(self):
        """How many tasks were pending when the victim was gone; None if no worker was killed, or not in time."""
        return dict(self.lost).get(self.victim) or None


@contextmanager
def cluster(workers=3, threads=1, **options):
    """Provide a client of worker processes on this machine, and a killer that watches them."""
    with (
        # A cluster gives up a worker that is not back so soon; on a busy machine the imports alone take longer.
        dask.config.set({"distributed.deploy.lost-worker-timeout": "300s"}),
        LocalCluster(
            n_workers=workers,
            threads_per_worker=threads,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",  # any free port: two clusters at once do not quarrel about one
            **{"silence_logs": 50} | options,
        ) as local,
        Client(local) as client,
    ):
        killer = Killer(local)
        local.scheduler.add_plugin(killer)
        yield client, killer


def fit_and_kill(client, killer, fit, after, seed, workers=3):
    """Return what `fit` returns while a worker is killed after so many partitions; None kills none."""
    client.wait_for_workers(workers, timeout=600)
    killer.arm(after, random.Random(seed))
    return fit()


def rows(n, size, d=8, seed=0):
    """Rows that workers make, the same ones whenever they are asked, with numbers and labels to learn."""
    X = da.random.default_rng(seed).normal(size=(n, d), chunks=(size, d))
    numbers = da.sin(2 * X[:, 0]) + X[:, 1]
    return X, numbers, (numbers > 0.3).astype(int) + (X[:, 2] > 1)


def fits(X, numbers, labels, width=128):
    """Return fits of learners that pass over the rows once, and often; each gives all its numbers in one vector."""
    draw = RandomFourier(Gaussian(2.0), width, random_state=0)

    def ridge():
        model = KernelRidge(draw, alpha=1.0).fit(X, numbers)
        return np.append(model.coef_, model.intercept_)

    def logistic():
        model = KernelLogisticRegression(draw, C=0.1, tol=1e-3).fit(X, labels)
        return np.append(model.coef_.ravel(), model.intercept_)

    def kmeans():
        model = KernelKMeans(draw, 5, max_iter=8, n_init=1, random_state=0).fit(X)
        return model.cluster_centers_.ravel()

    return {"ridge": ridge, "logistic": logistic, "k-means": kmeans}
