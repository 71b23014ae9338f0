"""
A Dask cluster that loses a worker
==================================

A fit on a cluster only sums over partitions, so a worker that dies costs the partitions that it had, and not the
fit. Here one of three worker processes is killed in the middle of a fit, and the model is the same up to the last
bits.
"""

# %%
# A cluster of three processes
# ----------------------------
# The blocks take a moment to make, as if they were read from a disk.

import logging
import subprocess
import sys
import threading
import time

import dask
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from distributed import Client, LocalCluster, get_task_stream

from mercer import Gaussian, KernelRidge, RandomFourier

logging.getLogger("distributed").setLevel(logging.CRITICAL)  # the death of a worker is expected


def block(seed):
    """Return the rows of one partition, of four features, with their target as a fifth column."""
    time.sleep(0.12)
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2000, 4))
    return np.column_stack([X, np.sin(X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=2000)])


parts = [da.from_delayed(dask.delayed(block)(seed), (2000, 5), float) for seed in range(45)]
rows = da.concatenate(parts)
model = KernelRidge(RandomFourier(Gaussian(1.0), 200, random_state=0), alpha=1e-3)
cluster = LocalCluster(n_workers=0, processes=False, dashboard_address=None, host="127.0.0.1", protocol="tcp")
command = [sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address, "--nthreads", "1"]
options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
command += ["--no-nanny", "--name"]
processes = {name: subprocess.Popen([*command, name], **options) for name in ("one", "two", "three")}
client = Client(cluster)
client.wait_for_workers(3, timeout=120)
names = {worker["id"]: address for address, worker in client.scheduler_info()["workers"].items()}

# %%
# Kill one of them
# ----------------
# First a fit without a fault, then one in which a worker gets SIGKILL after 0.8 seconds.

undisturbed = model.fit(rows[:, :4], rows[:, 4]).coef_.copy()
address = names["two"]
died = []


def kill():
    """End the process of a worker by SIGKILL."""
    died.append(time.time())
    processes["two"].kill()


with get_task_stream(client) as stream:
    timer = threading.Timer(0.8, kill)
    timer.start()
    model.fit(rows[:, :4], rows[:, 4])
    timer.join()
difference = np.abs(model.coef_ - undisturbed).max() / np.abs(undisturbed).max()
print(f"largest difference of coefficients {difference:.1e}")
client.close()
for process in processes.values():
    process.kill()
    process.wait()
cluster.close()

# %%
# Each bar is a task. The others compute the partitions of the process that was killed.

workers = sorted({record["worker"] for record in stream.data})
zero = min(step["start"] for record in stream.data for step in record["startstops"])
figure, axes = plt.subplots(figsize=(10, 3.2))
for record in stream.data:
    for step in record["startstops"]:
        if step["action"] == "compute":
            color = "C1" if record["worker"] == address else "C0"
            row, length = workers.index(record["worker"]), step["stop"] - step["start"]
            axes.barh(row, length, left=step["start"] - zero, color=color, edgecolor="white", lw=0.6)
axes.axvline(died[0] - zero, color="k", ls="--")
axes.text(died[0] - zero, len(workers) - 0.4, " SIGKILL", va="bottom")
labels = ["killed" if worker == address else "worker" for worker in workers]
axes.set_yticks(range(len(workers)), labels)
axes.set(xlabel="seconds", title=f"the coefficients differ by {difference:.0e}")
plt.show()
