"""Coverage of the 95 % intervals of `mercer.audit`: how often they contain the error over all pairs of rows.

    python benchmarks/audit_coverage.py --data DIR [--quick] [--rounds 400] [--n-rows 1000 100] [--output DIR]

DIR holds .npz files with an array X or X_train. Each map is fitted to 2000 standardized rows of a data set (1000 of a
small one), and the errors of all pairs of at most 5000 other rows are computed once. Then `audit` is repeated with
different seeds: the sample of pairs, the estimates and the interval are computed by the functions that it calls, with
the stored errors in place of the map, and the first result is compared with that of `audit` itself. The interval must
contain the root mean squared error over all pairs in 92 to 98 % of the draws. Beside it is the coverage of the interval
from all pairs of equally many uniformly sampled rows, with the standard error of a U-statistic (version 0.1.0), in 100
draws.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from harness import Check, Report, format_table, parser_for, pick

from mercer import (
    Gaussian,
    MercerWarning,
    Nystroem,
    Polynomial,
    PolynomialSketch,
    RandomFourier,
    RandomMaclaurin,
    SphericalRadial,
    audit,
)
from mercer.diagnostics.audit import row_errors
from mercer.diagnostics.pairs import mean_interval, sample_pairs
from mercer.statistics.sample import seed_of

DRAWS, QUICK_DRAWS, UNIFORM_DRAWS = 400, 100, 100
NAMES = ("cal_housing", "protein", "covtype", "spambase", "superconduct76", "letter", "ijcnn1", "adult")
QUICK_NAMES = ("cal_housing", "spambase")
WIDTH, LOW, HIGH = 512, 92.0, 98.0
MOST_ROWS = 5000
MAPS: dict[str, Callable[[], Any]] = {
    "Nystroem, pivoted": lambda: Nystroem(Gaussian("median"), WIDTH, random_state=0),
    "Nystroem, uniform": lambda: Nystroem(Gaussian("median"), WIDTH, landmarks="uniform", random_state=0),
    "RandomFourier": lambda: RandomFourier(Gaussian("median"), WIDTH, random_state=0),
    "SphericalRadial": lambda: SphericalRadial(Gaussian("median"), WIDTH, random_state=0),
    "RandomMaclaurin": lambda: RandomMaclaurin(Gaussian("median"), WIDTH, random_state=0),
    "PolynomialSketch": lambda: PolynomialSketch(Polynomial(2), WIDTH, random_state=0),
}


def standardized_rows(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return rows to fit maps to, and other rows to measure errors on; columns that do not vary are left out."""
    with np.load(path) as data:
        X = data["X_train" if "X_train" in data else "X"].astype(float)
    X = X[np.random.default_rng(0).permutation(len(X))[:20_000]]
    X = X[:, X.std(axis=0) > 0]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    n_fit = 2000 if len(X) > 2 * 2000 + 1000 else 1000
    return X[:n_fit], X[n_fit : n_fit + MOST_ROWS]


def squared_errors(feature_map: Any, X: np.ndarray) -> np.ndarray:
    """Return the squared errors of all pairs of different rows; zero for a row with itself."""
    Z = feature_map.transform(X)
    squares = np.empty((len(X), len(X)))
    for start in range(0, len(X), 500):
        rows = slice(start, start + 500)
        squares[rows] = np.square(feature_map.inner_products(Z[rows], Z) - feature_map.kernel_(X[rows], X))
    np.fill_diagonal(squares, 0.0)
    return squares


def interval_of_draw(squares: np.ndarray, probability: np.ndarray, n_rows: int, seed: int) -> tuple[float, float]:
    """Return the interval of `audit` for the mean squared error, from stored squared errors."""
    n = len(squares)
    pairs = sample_pairs(probability, n_rows, np.random.default_rng(seed_of(seed, "audit")))
    at = pairs.left[:, :, None] * n + pairs.right[:, None, :]  # indices of the flat array, which are faster than two
    blocks = squares.ravel().take(at)
    estimates = [pairs.sums(number, block)[0] for number, block in enumerate(blocks)]
    low, high = mean_interval(np.array(estimates))
    return max(low, 0.0) / (n * (n - 1)), high / (n * (n - 1))


def interval_of_rows(squares: np.ndarray, n_rows: int, rng: np.random.Generator) -> tuple[float, float]:
    """Return the interval of version 0.1.0 for the mean squared error, from all pairs of uniformly sampled rows."""
    rows = rng.choice(len(squares), n_rows, replace=False)
    means = squares[np.ix_(rows, rows)].sum(axis=1) / (n_rows - 1)
    margin = 1.96 * 2 * means.std(ddof=1) / np.sqrt(n_rows)
    return means.mean() - margin, means.mean() + margin


def coverage(feature_map: Any, X: np.ndarray, sizes: list[int], draws: int) -> dict[str, Any]:
    """Return the percentages of draws in which intervals contain the truth, and their relative half-widths."""
    squares = squared_errors(feature_map, X)
    truth = squares.sum() / (len(X) * (len(X) - 1))
    probability = row_errors(feature_map, X).probability
    result: dict[str, Any] = {"rmse": float(np.sqrt(truth)), "rows": len(X)}
    for n_rows in sizes:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MercerWarning)  # of an infinite variance
            direct = audit(feature_map, X, n_rows=n_rows, random_state=0).rmse_interval
        ends = np.array([interval_of_draw(squares, probability, n_rows, seed) for seed in range(draws)])
        np.testing.assert_allclose(np.sqrt(ends[0]), direct, rtol=1e-6)
        rng = np.random.default_rng(0)
        before = np.array([interval_of_rows(squares, n_rows, rng) for _ in range(min(draws, UNIFORM_DRAWS))])
        result[str(n_rows)] = {
            "coverage": 100 * float(np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1]))),
            "half-width": float(np.mean(np.sqrt(ends[:, 1]) - np.sqrt(ends[:, 0])) / 2 / np.sqrt(truth)),
            "coverage of uniform rows": 100 * float(np.mean((before[:, 0] <= truth) & (truth <= before[:, 1]))),
        }
    return result


def options_of() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = parser_for(__doc__.splitlines()[0], DRAWS, QUICK_DRAWS)
    parser.add_argument("--data", type=Path, required=True, help="directory with the .npz files")
    parser.add_argument("--names", nargs="+", help="data sets")
    parser.add_argument("--n-rows", type=int, nargs="+", default=[1000, 100])
    options = parser.parse_args()
    options.names = pick(options.quick, options.names, NAMES, QUICK_NAMES)
    options.draws = pick(options.quick, options.rounds, DRAWS, QUICK_DRAWS)
    return options


def main() -> None:
    """Print one table per number of rows, and write the results."""
    options = options_of()
    settings = {"draws": options.draws, "n_rows": options.n_rows, "n_components": WIDTH, "names": list(options.names)}
    report = Report("audit_coverage", settings, judged=options.draws >= DRAWS)
    report.begin()
    for name in options.names:
        fit, X = standardized_rows(options.data / f"{name}.npz")
        for label, make in MAPS.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", MercerWarning)
                feature_map = make().fit(fit)
            found = coverage(feature_map, X, options.n_rows, options.draws)
            report.results[f"{name}, {label}"] = found
            for n_rows in options.n_rows:
                value = found[str(n_rows)]["coverage"]
                report.checks.append(Check(f"{name}, {label}, n_rows={n_rows}", value, at_least=LOW, at_most=HIGH))
            print(name, label, found, flush=True)
    for n_rows in options.n_rows:
        rows = []
        for name in options.names:
            cells = [report.results[f"{name}, {label}"][str(n_rows)] for label in MAPS]
            rows.append((name, *(f"{c['coverage']:.1f} ({c['coverage of uniform rows']:.0f})" for c in cells)))
        print(f"\nn_rows={n_rows}: coverage of 95 % intervals in percent (that of uniformly sampled rows)")
        print(format_table(("data", *MAPS), rows))
    report.finish(options.output)


if __name__ == "__main__":
    main()
