"""What it costs to use an automatic model: rows per second, latency of one row, memory of predictions, size of files.

    python benchmarks/serving.py --data DIR [--names NAME ...] [--quick] [--rounds 9] [--output DIR]

DIR holds the data sets of race.py; "synthetic" needs none. A model without arguments is fitted to 80 % of the rows.
Predictions of the other rows are timed for all of them at once and for one row. Seconds are those of the fastest round,
and processor time is that of all threads, which depends less on other processes. The memory of a prediction is the
largest size of all arrays that it allocates, which is measured in a round of its own.
"""

from __future__ import annotations

import pickle
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness import Check, Report, format_table, parser_for, pick
from race import data

from mercer import KernelClassifier, KernelRegressor, save_model

ROUNDS, QUICK_ROUNDS = 9, 3
NAMES, QUICK_NAMES = ("concrete", "cal_housing", "letter", data.SYNTHETIC), ("concrete",)
LEAST_ROWS_PER_SECOND, MOST_FIT_SECONDS = 5000, 60


def best_of(case: Callable[[], Any], rounds: int) -> tuple[float, float]:
    """Return the least seconds and the least processor seconds of a case."""
    case()
    wall, processor = [], []
    for _ in range(rounds):
        start, used = time.perf_counter(), time.process_time()
        case()
        wall.append(time.perf_counter() - start)
        processor.append(time.process_time() - used)
    return min(wall), min(processor)


def memory_of(case: Callable[[], Any]) -> int:
    """Return the largest number of bytes that a case allocates."""
    tracemalloc.start()
    case()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def measure(split: data.Split, rounds: int) -> dict[str, Any]:
    """Fit a model, and return what it costs to use it."""
    labels = split.classes is not None
    model = KernelClassifier(random_state=0) if labels else KernelRegressor(random_state=0)
    start, used = time.perf_counter(), time.process_time()
    model.fit(split.X, split.y)
    fit = time.perf_counter() - start, time.process_time() - used
    predict = model.predict_proba if labels else model.predict
    rows = split.X_test
    results: dict[str, Any] = {"fit seconds": fit[0], "fit processor seconds": fit[1], "rows": len(rows)}
    many, one = best_of(lambda: predict(rows), rounds), best_of(lambda: predict(rows[:1]), 5 * rounds)
    results |= {"rows per second": len(rows) / many[0], "processor seconds per row": many[1] / len(rows)}
    results |= {"seconds of one row": one[0], "processor seconds of one row": one[1]}
    if not labels:
        both = best_of(lambda: predict(rows, return_std=True), max(1, rounds // 3))
        results["rows per second with std"] = len(rows) / both[0]
        results["processor seconds per row with std"] = both[1] / len(rows)
    results["prediction bytes"] = memory_of(lambda: predict(rows))
    results["pickle bytes"] = len(pickle.dumps(model))
    with tempfile.TemporaryDirectory() as folder:
        results["file bytes"] = Path(save_model(model, Path(folder) / "model.mercer")).stat().st_size
    results["members"] = [one.learner.local_.parts for one in model._members]
    return results


def main() -> None:
    """Run, print, write."""
    parser = parser_for(__doc__.splitlines()[0], ROUNDS, QUICK_ROUNDS)
    parser.add_argument("--data", type=Path, required=True, help="folder with the data sets")
    parser.add_argument("--names", nargs="+", help="data sets")
    options = parser.parse_args()
    rounds = pick(options.quick, options.rounds, ROUNDS, QUICK_ROUNDS)
    names = pick(options.quick, options.names, NAMES, QUICK_NAMES)
    report = Report("serving", {"names": ", ".join(names), "rounds": rounds})
    report.begin()
    warnings.simplefilter("ignore")
    rows = []
    for name in names:
        found = report.results[name] = measure(data.load(options.data, name, 0), rounds)
        rows.append(
            (
                name,
                f"{found['fit seconds']:.1f}",
                f"{found['rows per second']:,.0f}",
                f"{1e6 * found['processor seconds per row']:.0f}",
                f"{1e3 * found['seconds of one row']:.2f}",
                f"{found['prediction bytes'] / 1e6:.1f}",
                f"{found['pickle bytes'] / 1e6:.1f}",
                f"{found['file bytes'] / 1e6:.1f}",
                ", ".join(found["members"]),
            )
        )
        report.checks.append(Check(f"{name}: rows per second", found["rows per second"], LEAST_ROWS_PER_SECOND, None))
        if name == data.SYNTHETIC:
            report.checks.append(Check(f"{name}: seconds of fit", found["fit seconds"], None, MOST_FIT_SECONDS))
    header = (
        "data",
        "fit s",
        "rows/s",
        "us/row, processor",
        "ms, one row",
        "MB to predict",
        "MB, pickle",
        "MB, file",
        "",
    )
    print(f"\n{format_table(header, rows)}")
    report.finish(options.output)


if __name__ == "__main__":
    main()
