"""Error of ridge regression with a learned metric, on raw and on standardized columns, and the time of a fit.

    python benchmarks/learned_metric.py --data DIR [--names bike protein] [--quick] [--rounds 5] [--output DIR]

DIR holds .npz files with arrays X and y. In each round (of the benchmark), 64 % of the rows are fitted and 20 % are
tested; the other 16 % are left for methods that need them. Errors are root mean squared errors divided by the standard
deviation of the targets that are tested. "no metric" is the same map with scaled columns only. The last line is the
time of a fit of 50,000 rows of 50 columns with all defaults; it should be at most 60 s on two cores.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from harness import Report, format_table, parser_for, pick
from sklearn.model_selection import train_test_split

from mercer import KernelRidge, LearnedMetric

NAMES, QUICK_NAMES = ("bike", "protein", "concrete", "kin8nm"), ("concrete",)


def split(path: Path, seed: int) -> tuple[np.ndarray, ...]:
    """Return rows and targets to fit, and others to test."""
    with np.load(path) as data:
        X, y = data["X"].astype(float), data["y"].astype(float)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, random_state=seed)
    X, _, y, _ = train_test_split(X, y, test_size=0.2, random_state=seed)
    return X, X_test, y, y_test


def error_of(model: Any, rows: tuple[np.ndarray, ...]) -> float:
    """Return the relative root mean squared error of a model on the tested rows."""
    X, X_test, y, y_test = rows
    missed = model.fit(X, y).predict(X_test) - y_test
    return float(np.sqrt(np.square(missed).mean()) / y_test.std())


def standardized(rows: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """Return the same rows with columns of mean zero and standard deviation one."""
    X, X_test, y, y_test = rows
    mean, scale = X.mean(axis=0), X.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    return (X - mean) / scale, (X_test - mean) / scale, y, y_test


def seconds_of_large_fit(n: int) -> float:
    """Return the time of a fit of `n` rows of 50 columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 50))
    y = np.sin(2 * X[:, 0] + X[:, 1]) + X[:, 2] * X[:, 3] + 0.1 * rng.normal(size=n)
    start = time.perf_counter()
    LearnedMetric(random_state=0).fit(X, y)
    return time.perf_counter() - start


def main() -> None:
    """Fit all data sets, and print one row per data set."""
    parser = parser_for(__doc__.splitlines()[0], 5, 1)
    parser.add_argument("--data", type=Path, required=True, help="directory of .npz files")
    parser.add_argument("--names", nargs="+", help="names of files without .npz")
    options = parser.parse_args()
    rounds = pick(options.quick, options.rounds, 5, 1)
    names = pick(options.quick, options.names, NAMES, QUICK_NAMES)
    report = Report("learned_metric", {"rounds": rounds, "names": list(names)}, not options.quick)
    lines = []
    for name in names:
        errors: dict[str, list[float]] = {"no metric": [], "learned": [], "standardized": [], "kept": [], "seconds": []}
        for seed in range(rounds):
            rows = split(options.data / f"{name}.npz", seed)
            plain, learned = (
                KernelRidge(LearnedMetric(rounds=steps, random_state=seed), alpha="loo") for steps in (0, 5)
            )
            errors["no metric"].append(error_of(plain, rows))
            start = time.perf_counter()
            errors["learned"].append(error_of(learned, rows))
            errors["seconds"].append(time.perf_counter() - start)
            errors["kept"].append(learned.feature_map_.rounds_.kept.number)
            errors["standardized"].append(error_of(learned, standardized(rows)))
        report.results[name] = errors
        means = {key: float(np.mean(values)) for key, values in errors.items()}
        lines.append(
            (
                name,
                *(f"{means[key]:.4f}" for key in ("no metric", "learned", "standardized")),
                *(f"{means[key]:.1f}" for key in ("kept", "seconds")),
            )
        )
        print(*lines[-1], flush=True)
    n = 5000 if options.quick else 50_000
    report.results["seconds of a large fit"] = seconds_of_large_fit(n)
    print(format_table(("data", "no metric", "learned", "learned, standardized", "round kept", "seconds"), lines))
    print(f"{n:,} rows of 50 columns: {report.results['seconds of a large fit']:.1f} s")
    report.finish(options.output)


if __name__ == "__main__":
    main()
