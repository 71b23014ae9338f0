"""Time and memory of a fit as the rows grow: the time should be linear, the memory constant.

    python benchmarks/scaling.py [--quick] [--rounds 3] [--output DIR]

Kernel ridge regression from blocks of rows that are made on the fly, each number of rows in a fresh process.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import machine
import numpy as np
import plots
from harness import Check, Report, Timing, format_table, parser_for, pick

from mercer import Gaussian, KernelRidge, RandomFourier
from mercer.engines import block_rows_for

ROWS = (100_000, 300_000, 1_000_000, 3_000_000)
QUICK_ROWS = (30_000, 100_000, 300_000)
WIDTH, COLUMNS = 20, 512
SEED = 0
LINEAR = (0.95, 1.05)
CONSTANT = 1.10


@dataclass(frozen=True)
class Blocks:
    """Rows of a smooth function with noise, made block by block, the same in every pass."""

    rows: int

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        size = block_rows_for(COLUMNS, np.dtype(np.float32).itemsize)
        for number, start in enumerate(range(0, self.rows, size)):
            rng = np.random.default_rng([SEED, 1, number])
            X = rng.standard_normal((min(size, self.rows - start), WIDTH), dtype=np.float32)
            yield X, np.sin(X[:, 0]) + 0.1 * rng.standard_normal(len(X), dtype=np.float32)


def fit(rows: int) -> KernelRidge:
    """Fit the model on blocks."""
    feature_map = RandomFourier(Gaussian(lengthscale=float(np.sqrt(WIDTH))), COLUMNS, random_state=SEED)
    return KernelRidge(feature_map, alpha=1.0).fit(Blocks(rows))


def measure(rows: int) -> dict[str, Any]:
    """Return the seconds and the peak memory of one fit in this process, and the seconds of making its rows."""
    before = machine.resident_bytes()
    fit(block_rows_for(COLUMNS, np.dtype(np.float32).itemsize))  # libraries and threads start up once
    start = time.perf_counter()
    model = fit(rows)
    seconds = time.perf_counter() - start
    peak = machine.peak_bytes()
    start = time.perf_counter()
    for _ in Blocks(rows):
        pass
    making = time.perf_counter() - start
    X, y = next(iter(Blocks(rows)))
    score = float(model.score(X[:2000], y[:2000]))
    return {"seconds": seconds, "making_rows": making, "peak": peak, "own": peak - before, "r2": score}


def measure_all(sizes: tuple[int, ...], rounds: int) -> dict[int, list[dict[str, Any]]]:
    """Measure every number of rows in turn, several times, each in a fresh process."""
    found: dict[int, list[dict[str, Any]]] = {rows: [] for rows in sizes}
    for _ in range(rounds):
        for rows in sizes:
            found[rows].append(machine.in_fresh_process(__file__, "--measure", str(rows)))
    return found


def summary(measured: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the best times and the largest memory of all rounds."""
    worst = {key: max(one[key] for one in measured) for key in ("peak", "own")}
    making = min(one["making_rows"] for one in measured)
    return Timing(tuple(one["seconds"] for one in measured)).to_dict() | worst | {"making_rows": making}


def exponent(rows: tuple[int, ...], seconds: list[float]) -> float:
    """Return the slope of time against rows, both logarithmic."""
    return float(np.polyfit(np.log(rows), np.log(seconds), 1)[0])


def checks_of(found: dict[int, dict[str, Any]]) -> list[Check]:
    """Return the figures that have targets."""
    sizes = tuple(found)
    slope = exponent(sizes, [one["best"] for one in found.values()])
    process, own = ([one[key] for one in found.values()] for key in ("peak", "own"))
    at_least, at_most = LINEAR
    return [
        Check("exponent of time in rows", slope, at_least=at_least, at_most=at_most),
        Check("largest / smallest peak memory of the process", max(process) / min(process), at_most=CONSTANT),
        Check("the same, above that of a process that has only imported", max(own) / min(own)),
    ]


def table(found: dict[int, dict[str, Any]]) -> str:
    """Return one line a number of rows."""
    lines = [
        (
            f"{rows:,}",
            f"{one['best']:.2f}",
            f"{one['median']:.2f}",
            f"{1e6 * one['best'] / rows:.2f}",
            f"{one['making_rows']:.2f}",
            f"{one['own'] / 1e9:.3f}",
            f"{one['peak'] / 1e9:.3f}",
        )
        for rows, one in found.items()
    ]
    header = ("rows", "best s", "median", "µs a row", "s making rows", "GB of the fit", "GB in all")
    return format_table(header, lines)


def run(options: argparse.Namespace) -> None:
    """Run, print, write."""
    sizes = QUICK_ROWS if options.quick else ROWS
    settings = {"rows": sizes, "d": WIDTH, "n_components": COLUMNS, "dtype": "float32", "seed": SEED}
    report = Report("scaling", settings | {"rounds": options.rounds}, judged=sizes == ROWS)
    report.begin()
    measured = measure_all(sizes, options.rounds)
    found = {rows: summary(rounds) for rows, rounds in measured.items()}
    print(f"\n{table(found)}")
    report.results = {str(rows): one for rows, one in found.items()}
    report.checks = checks_of(found)
    stem = report.finish(options.output)
    seconds, memory = ([one[key] for one in found.values()] for key in ("best", "peak"))
    title = report.caption(f"Kernel ridge regression from blocks, d={WIDTH}, {COLUMNS} features, float32")
    plots.against_rows(sizes, seconds, [one / 1e9 for one in memory], title, stem.with_suffix(".png"))


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = parser_for(__doc__.splitlines()[0], rounds=3, quick_rounds=2)
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.rounds = pick(options.quick, options.rounds, 3, 2)
    return options


def main() -> None:
    """Run the benchmark, or in a child process measure one number of rows."""
    options = options_of()
    if options.measure:
        print(json.dumps(measure(options.measure)))
    else:
        run(options)


if __name__ == "__main__":
    main()
