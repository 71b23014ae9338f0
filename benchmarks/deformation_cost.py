"""What a deformation costs beside the second moments of the features alone, in time and memory; and as rows grow.

    python benchmarks/deformation_cost.py --data DIR [--quick] [--rounds 3] [--power 2] [--output DIR]

On MNIST, 60,000 rows and 4096 columns in float32, each figure from a fresh process: the second moments Phi'Phi by
blocks; the deformation (Phi' M Phi, Cholesky factor and its inverse) with room for all features, and with room for a
half of them. The graph is made before, and its time is shown apart. Memory is the peak of the process less what it held
when rows, graph and libraries were loaded: features, sums, buffers and the result. Processor seconds of all threads are
shown as well: they tell more on a busy machine. On covtype the time of the same
deformation, with 512 columns, for 10,000 to 500,000 rows.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import machine
import numpy as np
import plots
import scipy.sparse as sp
from harness import Check, Report, Timing, format_table, parser_for, pick

from mercer import Gaussian, NeighborGraph, RandomFourier
from mercer.engines import block_rows_for
from mercer.engines.base import workers
from mercer.graphs.laplacian import GraphLaplacian
from mercer.graphs.roughness import SLICE_ROWS, slices, sum_roughness
from mercer.graphs.whitening import whitening_of
from mercer.statistics import GramSum

ROWS, COLUMNS = 60_000, 4096
SCALING_ROWS, SCALING_COLUMNS = (10_000, 30_000, 100_000, 300_000, 500_000), 512
NEIGHBORS, STRENGTH = 10, 100.0
MAX_BYTES = 2**30
TARGETS = {"whole": (1.4, 2.0), "halves": (2.0, 1.2)}  # time relative to the second moments, gigabytes
LINEAR = (0.9, 1.1)


def second_moments(features: Any, X: np.ndarray) -> np.ndarray:
    """Return Phi'Phi as learners sum it up: blocks of rows, their features in a buffer, tiles of the matrix."""
    total = GramSum(features.n_components)
    drawn = features.astype(X.dtype)
    with workers(None) as team:
        for block in slices(len(X), block_rows_for(max(features.n_components, X.shape[1]), X.dtype.itemsize)):
            rows = X[block]
            Z = total.buffer(len(rows), X.dtype)
            team.run(lambda part, rows=rows, Z=Z: drawn(rows[part], Z[part]), slices(len(rows), SLICE_ROWS))
            total.add(Z, team)
    return total.result()


def measure(folder: Path, mode: str, columns: int, power: float) -> dict[str, Any]:
    """Return seconds and memory of one piece of work on the rows and the graph of a folder, in this process."""
    X = np.load(folder / "rows.npy")
    laplacian = GraphLaplacian(sp.csr_array(sp.load_npz(folder / "graph.npz")))
    lengthscale = float(Gaussian("median").resolve(X[:1000]).lengthscale)
    features = RandomFourier(Gaussian(lengthscale), columns, random_state=0).fit(X[:1]).features_
    small = RandomFourier(Gaussian(lengthscale), 256, random_state=0).fit(X[:1]).features_
    second_moments(small, X[:2000])  # libraries and threads start up once
    before = machine.resident_bytes()
    start, spent = time.perf_counter(), time.process_time()
    if mode == "moments":
        second_moments(features, X)
        parts = {}
    else:
        max_bytes = MAX_BYTES if mode == "whole" else len(X) * (columns // 2) * X.dtype.itemsize
        root = laplacian.root(power)
        rough = sum_roughness(features, X, root, strength=STRENGTH, max_bytes=max_bytes, n_jobs=None)
        parts = {"roughness": time.perf_counter() - start}
        whitening_of(rough, overwrite=True)
    seconds, spent = time.perf_counter() - start, time.process_time() - spent
    return {"seconds": seconds, "processor": spent, "memory": machine.peak_bytes() - before, **parts}


def prepare(folder: Path, X: np.ndarray) -> dict[str, Any]:
    """Save rows and their graph for the processes that measure, and return what the graph cost."""
    np.save(folder / "rows.npy", X)
    start = time.perf_counter()
    laplacian = NeighborGraph(NEIGHBORS).laplacian(X)
    seconds = time.perf_counter() - start
    sp.save_npz(folder / "graph.npz", sp.csr_matrix(laplacian.matrix), compressed=False)
    return {"graph_seconds": seconds, "edges": laplacian.n_edges, "search": laplacian.search}


def measured(folder: Path, mode: str, columns: int, power: float) -> dict[str, Any]:
    """Measure in a fresh process."""
    return machine.in_fresh_process(__file__, "--measure", str(folder), mode, str(columns), str(power))


def against_moments(report: Report, X: np.ndarray, columns: int, power: float, rounds: int) -> None:
    """Compare the deformation with the second moments, in turn."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        graph = prepare(folder, X)
        found: dict[str, list[dict[str, Any]]] = {mode: [] for mode in ("moments", "whole", "halves")}
        for _ in range(rounds):
            for mode, values in found.items():
                values.append(measured(folder, mode, columns, power))
    seconds = {mode: Timing(tuple(value["seconds"] for value in values)) for mode, values in found.items()}
    memory = {mode: max(value["memory"] for value in values) / 1e9 for mode, values in found.items()}
    report.results["mnist"] = {"graph": graph, "runs": found}
    for mode, words in (("whole", "room for all features"), ("halves", "room for a half of them")):
        most_time, most_memory = TARGETS[mode]
        relative = seconds[mode].best / seconds["moments"].best
        report.checks.append(Check(f"{words}: time / second moments", relative, at_most=most_time))
        spent = [min(value["processor"] for value in found[which]) for which in (mode, "moments")]
        report.checks.append(Check(f"{words}: the same of processor seconds", spent[0] / spent[1]))
        report.checks.append(Check(f"{words}: memory, GB", memory[mode], at_most=most_memory))
    rows = [(mode, f"{seconds[mode].best:.2f}", f"{seconds[mode].median:.2f}", f"{memory[mode]:.2f}") for mode in found]
    print(format_table(("work", "best s", "median s", "GB"), rows))
    print(f"graph: {graph['graph_seconds']:.1f} s, {graph['edges']} edges, {graph['search']} search")


def as_rows_grow(report: Report, X: np.ndarray, sizes: tuple[int, ...], power: float, rounds: int) -> None:
    """Measure the deformation for more and more rows."""
    order = np.random.default_rng(0).permutation(len(X))
    found: dict[int, dict[str, Any]] = {}
    for n in sizes:
        with tempfile.TemporaryDirectory() as name:
            graph = prepare(Path(name), np.ascontiguousarray(X[np.sort(order[:n])]))
            runs = [measured(Path(name), "whole", SCALING_COLUMNS, power) for _ in range(rounds)]
        seconds = min(run["seconds"] for run in runs)
        found[n] = graph | {"seconds": seconds, "memory": max(run["memory"] for run in runs)}
        print(f"{n} rows: {seconds:.2f} s, graph {graph['graph_seconds']:.1f} s ({graph['search']})", flush=True)
    report.results["covtype"] = {str(n): value for n, value in found.items()}
    times = [value["seconds"] for value in found.values()]
    slope = float(np.polyfit(np.log(list(found)), np.log(times), 1)[0])
    report.checks.append(Check("time as a power of rows, covtype", slope, at_least=LINEAR[0], at_most=LINEAR[1]))


def covtype(data: Path) -> np.ndarray:
    """Return standardized rows, every one of them once."""
    with np.load(data / "covtype.npz") as file:
        X = file["X"].astype(np.float32)
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def main() -> None:
    """Run the benchmark."""
    parser = parser_for(__doc__.splitlines()[0], 3, 1)
    parser.add_argument("--data", type=Path, help="directory of the npz files")
    parser.add_argument("--power", type=float, default=2)
    parser.add_argument("--only", choices=("mnist", "covtype"))
    parser.add_argument("--measure", nargs=4, metavar=("FOLDER", "MODE", "COLUMNS", "POWER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        folder, mode, columns, power = options.measure
        print(json.dumps(measure(Path(folder), mode, int(columns), float(power))))
        return
    if options.data is None:
        parser.error("--data is needed")
    rows, columns = (10_000, 1024) if options.quick else (ROWS, COLUMNS)
    sizes = SCALING_ROWS[:3] if options.quick else SCALING_ROWS
    rounds = pick(options.quick, options.rounds, 3, 1)
    settings = {"rows": rows, "columns": columns, "power": options.power, "neighbors": NEIGHBORS, "rounds": rounds}
    report = Report("deformation_cost", settings, judged=not options.quick)
    report.begin()
    if options.only != "covtype":
        with np.load(options.data / "mnist.npz") as file:
            X = (file["X_train"][:rows] / np.float32(255)).astype(np.float32)
        against_moments(report, X, columns, options.power, rounds)
    if options.only != "mnist":
        as_rows_grow(report, covtype(options.data), sizes, options.power, rounds)
    stem = report.finish(options.output)
    grown = report.results.get("covtype")
    if grown:
        plots.against_rows(
            [int(n) for n in grown],
            [value["seconds"] for value in grown.values()],
            [value["memory"] / 1e9 for value in grown.values()],
            report.caption("deformation of 512 columns, covtype, graph apart"),
            stem.with_suffix(".svg"),
        )


if __name__ == "__main__":
    main()
