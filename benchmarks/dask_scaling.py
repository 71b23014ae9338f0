"""Two dask workers beside one, and what that means for a billion rows.

    python benchmarks/dask_scaling.py [--quick] [--rounds 5] [--output DIR]

Ridge regression on rows that lie in the memory of the workers, so that no disk counts. Each worker is a process of one
thread. Clusters of one and of two workers stand side by side and fit in turn; the best of several rounds counts. Then
the parts of a large fit are measured alone: rows a second of a worker, one addition of the tree, one task of the
scheduler. From them comes the estimate for clusters that nobody has here.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import cloudpickle
import dask.array as da
import numpy as np
from distributed import wait
from harness import Check, Report, format_table, interleave, parser_for, pick

from mercer import Gaussian, KernelRidge, RandomFourier
from mercer.engines.dask.collections import partitions_of
from mercer.engines.dask.engine import DaskEngine
from mercer.engines.dask.partitions import FAN_IN, Packed, Work, add_up, pack
from mercer.statistics.moments import Moments, MomentSum, TargetMoments

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "engines"))
import faults

ROWS, WIDTH, COLUMNS, PARTITION = 1_440_000, 50, 1024, 40_000
QUICK_ROWS, QUICK_COLUMNS = 240_000, 512
TASKS, QUICK_TASKS = 2000, 400
TIMES_FASTER = 1.7
# The graph that is weighed: many partitions, a wide map of wide rows.
GRAPH_PARTITIONS, GRAPH_COLUMNS, GRAPH_WIDTH = 5000, 4096, 784
# The clusters of the estimate: threads of one worker each, as many partitions a thread as keep all busy to the end.
SIZES = ((10**9, 64), (10**9, 256), (10**10, 256), (10**10, 1024))
PARTITIONS_A_THREAD = 20
# A link of 10 Gbit/s, of which three quarters are data.
WIRE = 10e9 / 8 * 0.75


def fit_on(client: Any, X: Any, y: Any, columns: int) -> Callable[[], Any]:
    """Return a fit on one of the clusters."""

    def fit() -> np.ndarray:
        with client.as_current():
            return KernelRidge(RandomFourier(Gaussian(5.0), columns, random_state=0)).fit(X, y).coef_

    return fit


@dataclass(frozen=True)
class Costs:
    """What the parts of a large fit take."""

    n_components: int
    row_seconds: float  # of one thread, in a fit
    addition_seconds: float  # of FAN_IN statistics, packed, to one
    statistic_bytes: int  # on the wire
    task_seconds: float  # of the scheduler, a partition

    def estimate(self, rows: int, threads: int) -> dict[str, float]:
        """Return the seconds of a fit by workers of one thread, all as fast as this one."""
        partitions = threads * PARTITIONS_A_THREAD
        additions = partitions / (FAN_IN - 1)  # tasks of the tree
        levels = math.ceil(math.log(partitions, FAN_IN))
        work = rows * self.row_seconds / threads
        # Sums are made while other partitions are worked on, except for the last of each level.
        adding = (additions / threads + levels) * self.addition_seconds
        moving = (additions / threads + levels) * FAN_IN * self.statistic_bytes / WIRE
        scheduling = (partitions + additions) * self.task_seconds
        # The scheduler works beside the workers: it counts only where it is the slower one.
        total = max(work + adding + moving, scheduling)
        parts = {"work": work, "adding": adding, "moving": moving, "scheduling": scheduling}
        return {"rows": rows, "threads": threads, "partitions": partitions, **parts, "seconds": total}


def statistic(columns: int) -> Packed:
    """Return moments as they travel."""
    gram = np.random.default_rng(0).normal(size=(columns, columns))
    targets = TargetMoments.of(gram[:16], np.ones((16, 1)))
    return pack(16, Moments(gram, targets))


def addition_seconds(columns: int, rounds: int) -> float:
    """Return the time of one task of the tree."""
    some = [statistic(columns)] * FAN_IN
    return interleave({"addition": lambda: add_up(some)}, rounds)["addition"].best


def as_it_is(X: Any, y: Any = None, weight: Any = None) -> tuple[Any, Any, Any]:
    """Leave a partition unchecked."""
    return X, y, weight


def task_seconds(client: Any, tasks: int, rounds: int) -> float:
    """Return the time that a partition takes where there is nothing to do with it."""
    with client.as_current():
        rows = da.ones((tasks, 1), chunks=(1, 1))
        engine = DaskEngine(partitions_of(rows), as_it_is, block_rows=1)
        return interleave({"tasks": lambda: engine.sum(len)}, rounds)["tasks"].best / tasks


def graph_of(partitions: int, columns: int) -> dict[str, float]:
    """Return the size of the graph of a fit, beside that of the map in it, and the time to make it."""
    rows = da.zeros((partitions * 1000, GRAPH_WIDTH), chunks=(1000, GRAPH_WIDTH))
    # Dense directions: the largest map there is.
    dense = RandomFourier(Gaussian(), columns, directions="orthogonal", random_state=0)
    features = dense.fit(np.zeros((1, GRAPH_WIDTH))).features_
    engine = DaskEngine(partitions_of(rows), as_it_is, block_rows=1000)
    start = time.perf_counter()
    work = cloudpickle.dumps(Work(MomentSum(features, double=False), as_it_is, 1000))
    total = engine._graph(work, "0" * 32, None)
    seconds = time.perf_counter() - start
    ours = next(layer for name, layer in total.dask.layers.items() if name.startswith("mercer-"))
    return {
        "partitions": partitions,
        "n_components": columns,
        "tasks": len(ours),
        "map_bytes": len(work),
        "graph_bytes": len(cloudpickle.dumps(dict(ours))),
        "seconds": seconds,
    }


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = parser_for(__doc__.splitlines()[0], rounds=5, quick_rounds=2)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--n-components", type=int)
    options = parser.parse_args(arguments)
    options.rows = pick(options.quick, options.rows, ROWS, QUICK_ROWS)
    options.n_components = pick(options.quick, options.n_components, COLUMNS, QUICK_COLUMNS)
    options.rounds = pick(options.quick, options.rounds, 5, 2)
    options.tasks = QUICK_TASKS if options.quick else TASKS
    return options


def run(options: argparse.Namespace) -> None:
    """Run, print, write."""
    sizes = {"rows": options.rows, "n_components": options.n_components}
    settings = sizes | {"width": WIDTH, "partition": PARTITION, "rounds": options.rounds}
    report = Report("dask_scaling", settings, judged=sizes == {"rows": ROWS, "n_components": COLUMNS})
    report.begin()
    columns = options.n_components
    with ExitStack() as stack:
        clients = {n: stack.enter_context(faults.cluster(n))[0] for n in (1, 2)}
        cases = {}
        for n, client in clients.items():
            with client.as_current():
                rng = da.random.default_rng(0)
                X = rng.standard_normal((options.rows, WIDTH), dtype=np.float32, chunks=(PARTITION, WIDTH)).persist()
                y = (da.sin(X[:, 0]) + X[:, 1]).persist()
                wait([X, y])
            cases[f"{n} worker{'s' if n > 1 else ''}"] = fit_on(client, X, y, columns)
        bits = [case() for case in cases.values()]
        timings = interleave(cases, options.rounds, warm_up=False)
        one, two = (timing.best for timing in timings.values())
        task = task_seconds(clients[2], options.tasks, 3)
    costs = Costs(
        n_components=columns,
        row_seconds=one / options.rows,
        addition_seconds=addition_seconds(columns, options.rounds),
        statistic_bytes=sys.getsizeof(statistic(columns)),
        task_seconds=task,
    )
    graph = graph_of(GRAPH_PARTITIONS, GRAPH_COLUMNS)
    estimates = [costs.estimate(rows, threads) for rows, threads in SIZES]
    rows = [(name, f"{t.best:.2f}", f"{t.median:.2f}", f"{options.rows / t.best:,.0f}") for name, t in timings.items()]
    print(f"\n{format_table(('', 'best s', 'median', 'rows a second'), rows)}")
    print(
        f"\nan addition of {FAN_IN} statistics of {columns} columns: {costs.addition_seconds * 1e3:.1f} ms, "
        f"{costs.statistic_bytes / 1e6:.1f} MB each on the wire; a task: {task * 1e3:.2f} ms\n"
        f"graph of {graph['partitions']} partitions, {graph['n_components']} columns: {graph['tasks']} tasks, "
        f"{graph['graph_bytes'] / 1e6:.1f} MB, of which the map {graph['map_bytes'] / 1e6:.1f} MB; "
        f"{graph['seconds'] * 1e3:.0f} ms to make"
    )
    rows = [
        (
            f"{e['rows']:.0e} rows",
            f"{e['threads']}",
            f"{e['partitions']:,}",
            *(f"{e[key]:,.1f}" for key in ("work", "adding", "moving", "scheduling", "seconds")),
        )
        for e in estimates
    ]
    header = ("estimate", "threads", "partitions", "work s", "adding", "moving", "scheduling", "in all s")
    print(f"\n{format_table(header, rows)}")
    report.results = {
        "seconds": {name: timing.to_dict() for name, timing in timings.items()},
        "costs": asdict(costs),
        "graph": graph,
        "estimates": estimates,
    }
    report.checks = [
        Check("two workers / one, times faster", one / two, at_least=TIMES_FASTER),
        Check("bits equal on one and two workers", float(np.array_equal(*bits)), at_least=1.0),
    ]
    report.finish(options.output)


if __name__ == "__main__":
    run(options_of())
