"""How many queries a second the kernel systems of their neighbors take, beside batched solves of NumPy.

    python benchmarks/local_systems.py [--quick] [--rounds 7] [--output DIR]

Kernel values, factorization and weights of `linalg.local_systems.solve_local` for random neighbors, Matern 1/2, on all
cores; the same by NumPy, with distances from matrix products and `numpy.linalg.solve`; and the gradient with respect to
lengthscales. Cases run in turn, best of several rounds. NumPy is timed at the size of the target only. Processor time
on one thread is given too, because the time of a few milliseconds on all cores says little on a busy machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from harness import Check, Report, Timing, format_table, interleave, parser_for, pick, ratio

from mercer.linalg.local_systems import metric_gradient, solve_local

SEED = 0
ROWS, QUERIES, QUICK_QUERIES = 50_000, 4_000, 1_000
NOISE = 0.1
# Neighbors, features of the rows, components of a feature map.
CASES = ((64, 50, 0), (16, 10, 0), (32, 20, 0), (128, 50, 0), (64, 784, 0), (64, 20, 1000))
# Queries a second on two cores that k = 64, d = 50 must reach.
TARGET = {"float32": 20_000, "float64": 12_000}
BATCH = 500


def by_numpy(rows: np.ndarray, indices: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Return the weights by batched matrix products and solves."""
    k, weights = indices.shape[1], np.empty(indices.shape, rows.dtype)
    for start in range(0, len(queries), BATCH):
        part = slice(start, start + BATCH)
        N, x = rows[indices[part]], queries[part]
        square = (N * N).sum(-1)
        products = square[:, :, None] + square[:, None] - 2 * N @ N.transpose(0, 2, 1)
        K = np.exp(-np.sqrt(np.maximum(products, 0))) + rows.dtype.type(NOISE) * np.eye(k, dtype=rows.dtype)
        cross = np.exp(-np.sqrt(((N - x[:, None]) ** 2).sum(-1)))
        weights[part] = np.linalg.solve(K, cross[..., None])[..., 0]
    return weights


def cases_of(dtype: str, k: int, d: int, D: int, m: int) -> tuple[dict[str, Callable[[], Any]], Callable[[], Any]]:
    """Return what is timed for one size, and the same on one thread."""
    rng = np.random.default_rng(SEED)
    rows, queries = ((rng.standard_normal((size, d)) / d**0.5).astype(dtype) for size in (ROWS, m))
    indices = rng.integers(0, ROWS, (m, k))
    options: dict[str, Any] = {}
    if D:
        names = {"features": ROWS, "query_features": m}
        options = {
            name: (rng.standard_normal((size, D)) / (4 * D) ** 0.5).astype(dtype) for name, size in names.items()
        }
    solve = partial(solve_local, rows, indices, queries, "matern12", NOISE, **options)
    if D:
        return {"solve": solve}, partial(solve, n_jobs=1)
    weights = solve().weights
    gradient = partial(metric_gradient, rows, indices, queries, "matern12", weights, weights, weights)
    cases: dict[str, Callable[[], Any]] = {"solve": solve, "gradient": gradient}
    if (k, d, D) == CASES[0]:
        cases["numpy"] = partial(by_numpy, rows, indices, queries)
    return cases, partial(solve, n_jobs=1)


def processor_seconds(case: Callable[[], Any], rounds: int) -> float:
    """Return the least processor time of several calls."""
    found = []
    for _ in range(rounds):
        start = time.process_time()
        case()
        found.append(time.process_time() - start)
    return min(found)


def main() -> None:
    """Run, print, write."""
    options = parser_for(__doc__.splitlines()[0], rounds=7, quick_rounds=3).parse_args()
    rounds, m = pick(options.quick, options.rounds, 7, 3), QUICK_QUERIES if options.quick else QUERIES
    report = Report("local_systems", {"rounds": rounds, "quick": options.quick, "rows": ROWS, "queries": m})
    report.begin()
    table = []
    for dtype in ("float32", "float64"):
        for k, d, D in CASES:
            cases, alone = cases_of(dtype, k, d, D, m)
            timings: dict[str, Timing] = interleave(cases, rounds)
            processor = processor_seconds(alone, rounds) / m
            rates = {name: m / timing.best for name, timing in timings.items()}
            name = f"{dtype}, k={k}, d={d}" + (f", D={D}" if D else "")
            cells = [f"{rates[case]:.0f}" if case in rates else "-" for case in ("solve", "numpy", "gradient")]
            table.append((name, *cells, f"{1e6 * processor:.1f}", ""))
            report.results[name] = {key: timing.to_dict() for key, timing in timings.items()}
            report.results[name]["processor_seconds_per_query"] = processor
            if (k, d, D) == CASES[0]:
                report.checks.append(Check(f"queries a second, {name}", rates["solve"], at_least=TARGET[dtype]))
                report.checks.append(
                    Check(f"times faster than NumPy, {name}", ratio(timings["numpy"], timings["solve"]))
                )
    header = ("case", "solved a second", "by NumPy", "gradients", "processor us each", "")
    print(f"\n{format_table(header, table)}")
    report.finish(options.output)


if __name__ == "__main__":
    main()
