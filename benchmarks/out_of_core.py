"""A fit from a Parquet file that is larger than the memory it may use, beside the same fit in memory.

    python benchmarks/out_of_core.py --directory DIR [--rows 20000000] [--rounds 2] [--output DIR]

Kernel ridge regression with 1024 features on rows of 50 float32 columns, on two cores. The file is made by this script,
row group by row group, and kept with --keep; every measurement runs in a fresh process.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from pathlib import Path
from typing import Any

import machine
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from harness import Check, Report, Timing, format_table, parser_for, pick

from mercer import Gaussian, KernelRidge, RandomFourier, open_rows

ROWS, QUICK_ROWS = 20_000_000, 500_000
WIDTH, COLUMNS, JOBS = 50, 1024, 2
GROUP_ROWS = 250_000
ROW_BYTES = 4 * (WIDTH + 1)
SEED = 0
# The fit from the file may take so much memory, and must reach so much of the rate of the fit in memory.
PEAK_GB, RATE = 1.5, 0.9
# Rows for the fit in memory take at most so much of what is free: fit and copies need some, too.
SHARE_OF_MEMORY = 0.4


def file_of(directory: Path, rows: int) -> Path:
    """Return where the file of so many rows is."""
    return directory / f"out_of_core_{rows}.parquet"


def group(number: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return one row group: a smooth function with noise."""
    rng = np.random.default_rng([SEED, number])
    X = rng.standard_normal((rows, WIDTH), dtype=np.float32)
    return X, np.sin(X[:, 0]) + X[:, 1] + np.float32(0.1) * rng.standard_normal(rows, dtype=np.float32)


def make_file(path: Path, rows: int) -> None:
    """Write the file, unless it is there."""
    if path.exists() and pq.ParquetFile(path).metadata.num_rows == rows:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    free, needed = shutil.disk_usage(path.parent).free, int(1.1 * rows * ROW_BYTES)
    if free < needed:
        raise SystemExit(f"{path.parent} has {free / 1e9:.1f} GB free, but {needed / 1e9:.1f} GB are needed.")
    schema = pa.schema([(name, pa.float32()) for name in [*(f"x{j}" for j in range(WIDTH)), "y"]])
    unfinished = path.with_suffix(".part")
    start = time.perf_counter()
    with pq.ParquetWriter(unfinished, schema, use_dictionary=False) as writer:
        for number, begin in enumerate(range(0, rows, GROUP_ROWS)):
            X, y = group(number, min(GROUP_ROWS, rows - begin))
            writer.write_table(pa.table([*map(pa.array, X.T.copy()), pa.array(y)], schema=schema))
    unfinished.rename(path)
    print(f"made {path.name}: {path.stat().st_size / 1e9:.2f} GB in {time.perf_counter() - start:.0f} s")


def learner() -> KernelRidge:
    """Return the model."""
    feature_map = RandomFourier(Gaussian(lengthscale=float(np.sqrt(WIDTH))), COLUMNS, random_state=SEED)
    return KernelRidge(feature_map, alpha=1.0, n_jobs=JOBS)


def warm_up() -> None:
    """Start libraries and threads once."""
    learner().fit(*group(0, 20_000))


def from_file(path: Path, checkpoint: Path | None = None) -> dict[str, Any]:
    """Fit from the file."""
    warm_up()
    imported = machine.resident_bytes()
    start = time.perf_counter()
    model = learner().fit(open_rows(path, target="y"), checkpoint=checkpoint)
    return result(model, time.perf_counter() - start) | {"imported": imported, "peak": machine.peak_bytes()}


def in_memory(path: Path, rows: int) -> dict[str, Any]:
    """Fit on the first rows of the file, read beforehand."""
    X, y = np.empty((rows, WIDTH), np.float32), np.empty(rows, np.float32)
    filled = 0
    start = time.perf_counter()
    for Xb, yb in open_rows(path, target="y"):
        part = slice(filled, min(filled + len(Xb), rows))
        X[part], y[part] = Xb[: rows - filled], yb[: rows - filled]
        filled = part.stop
        if filled == rows:
            break
    reading = time.perf_counter() - start
    warm_up()
    start = time.perf_counter()
    model = learner().fit(X, y)
    return result(model, time.perf_counter() - start) | {"reading": reading, "peak": machine.peak_bytes()}


def result(model: KernelRidge, seconds: float) -> dict[str, Any]:
    """Return the time and what tells one model from another."""
    X, y = group(10**6, 20_000)  # rows that are not in the file
    return {"seconds": seconds, "r2": float(model.score(X, y)), "coef": model.coef_[:8].tolist()}


def measure_all(path: Path, rows: int, memory_rows: int, rounds: int) -> dict[str, list[dict[str, Any]]]:
    """Measure all cases in turn, several times over, each in a fresh process."""
    found: dict[str, list[dict[str, Any]]] = {"file": [], "memory": [], "checkpoint": []}
    for _ in range(rounds):
        for case, one in found.items():
            arguments = ("--measure", case, "--directory", str(path.parent), "--rows", str(rows))
            one.append(machine.in_fresh_process(__file__, *arguments, "--memory-rows", str(memory_rows)))
    return found


def run(options: argparse.Namespace) -> None:
    """Run, print, write."""
    free = int(SHARE_OF_MEMORY * psutil.virtual_memory().available / ROW_BYTES)
    memory_rows = options.memory_rows or min(options.rows, free)
    settings = {
        "rows": options.rows,
        "rows in memory": memory_rows,
        "d": WIDTH,
        "n_components": COLUMNS,
        "dtype": "float32",
        "n_jobs": JOBS,
        "seed": SEED,
        "rounds": options.rounds,
    }
    report = Report("out_of_core", settings, judged=options.rows == ROWS)
    report.begin()
    path = file_of(options.directory, options.rows)
    make_file(path, options.rows)
    found = measure_all(path, options.rows, memory_rows, options.rounds)
    report.results = {case: Timing(tuple(one["seconds"] for one in all_)).to_dict() for case, all_ in found.items()}
    rate = {case: (memory_rows if case == "memory" else options.rows) / report.results[case]["best"] for case in found}
    peak = {case: max(one["peak"] for one in all_) for case, all_ in found.items()}
    reading = min(one["reading"] for one in found["memory"]) / memory_rows
    lines = [
        (
            case,
            f"{report.results[case]['best']:.1f}",
            f"{1e6 / rate[case]:.2f}",
            f"{peak[case] / 1e9:.2f}",
            f"{found[case][0]['r2']:.4f}",
        )
        for case in found
    ]
    print("\n" + format_table(("fit from", "best s", "µs a row", "peak GB", "R²"), lines))
    report.results |= {"peak": peak, "reading_seconds_a_row": reading}
    gap = max(abs(a - b) for a, b in zip(found["file"][0]["coef"], found["memory"][0]["coef"], strict=True))
    report.checks = [
        Check("rate from the file / rate in memory", rate["file"] / rate["memory"], at_least=RATE),
        Check("peak memory of the process that fits from the file, GB", peak["file"] / 1e9, at_most=PEAK_GB),
        Check("rate with a checkpoint / without", rate["checkpoint"] / rate["file"]),
        Check("rate of reading alone / rate of the fit from the file", 1 / reading / rate["file"]),
    ]
    if memory_rows == options.rows:
        report.checks.append(Check("largest difference of coefficients", gap / abs(found["file"][0]["coef"][0])))
    report.finish(options.output)
    if not options.keep:
        path.unlink()


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = parser_for(__doc__.splitlines()[0], rounds=2, quick_rounds=1)
    parser.add_argument("--directory", type=Path, required=True, help="where the Parquet file is, or is made")
    parser.add_argument("--rows", type=int, help=f"of the file (default {ROWS:,}; quick {QUICK_ROWS:,})")
    parser.add_argument("--memory-rows", type=int, help="of the fit in memory (default: as many as there is room for)")
    parser.add_argument("--keep", action="store_true", help="keep the file for the next run")
    parser.add_argument("--measure", choices=["file", "memory", "checkpoint"], help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.rows = pick(options.quick, options.rows, ROWS, QUICK_ROWS)
    options.rounds = pick(options.quick, options.rounds, 2, 1)
    return options


def main() -> None:
    """Run the benchmark, or in a child process measure one case."""
    options = options_of()
    if options.measure is None:
        run(options)
        return
    path = file_of(options.directory, options.rows)
    if options.measure == "memory":
        found = in_memory(path, options.memory_rows)
    else:
        found = from_file(path, path.with_suffix(".checkpoint") if options.measure == "checkpoint" else None)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
