"""Coverage of the 95 % intervals of `mercer.audit`: how often they contain the error over all pairs of rows.

    python benchmarks/audit_coverage.py --data DIR [--quick] [--rounds 400] [--n-rows 1000 100] [--output DIR]

DIR holds .npz files with an array X or X_train. Each map is fitted to 2000 standardized rows of a data set (1000 of a
small one), and the errors of all pairs of at most 5000 other rows are computed once. Then `audit` is repeated with
different seeds: the sample of pairs, the estimates and the intervals are computed as it does, from the stored errors,
and the first result is compared with that of `audit` itself. The intervals must contain the root mean squared error,
the mean error and the relative error over all pairs in 92 to 98 % of the draws, of which there are four times as many
for fewer than 1000 rows. Beside them is the coverage of the interval of the root mean squared error from all pairs of
equally many uniformly sampled rows, with the standard error of a U-statistic (version 0.1.0), in 100 draws.
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
from mercer.diagnostics.pairs import mean_interval, ratio_interval, sample_pairs
from mercer.diagnostics.subject import RowErrors, row_errors
from mercer.statistics.sample import seed_of

DRAWS, QUICK_DRAWS, UNIFORM_DRAWS = 400, 100, 100
NAMES = ("cal_housing", "protein", "covtype", "spambase", "superconduct76", "letter", "ijcnn1", "adult")
QUICK_NAMES = ("cal_housing", "spambase")
# Draws of fewer pairs take less time: their number is multiplied, for figures of less noise.
MANY_ROWS, MORE = 1000, 4
WIDTH, LOW, HIGH = 512, 92.0, 98.0
INTERVALS = ("RMSE", "bias", "relative error")
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


def errors_of_pairs(feature_map: Any, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the errors of all pairs of rows, and the exact kernel in single precision."""
    Z = feature_map.transform(X)
    errors, exact = np.empty((len(X), len(X))), np.empty((len(X), len(X)), dtype=np.float32)
    for start in range(0, len(X), 500):
        rows = slice(start, start + 500)
        kernel = feature_map.kernel_(X[rows], X)
        errors[rows], exact[rows] = feature_map.inner_products(Z[rows], Z) - kernel, kernel
    return errors, exact


def true_values(errors: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Return the mean squared error and the mean error of pairs of different rows, and the squared relative error."""
    n_ordered = len(errors) * (len(errors) - 1)
    square, diagonal = np.vdot(errors, errors), np.diag(errors)
    norm = sum(np.square(row.astype(float)).sum() for row in exact)
    return np.array(
        [
            (square - diagonal @ diagonal) / n_ordered,
            (errors.sum() - diagonal.sum()) / n_ordered,
            square / norm,
        ]
    )


def intervals_of_draw(
    errors: np.ndarray, exact: np.ndarray, rows: RowErrors, n_rows: int, seed: int
) -> list[tuple[float, float]]:
    """Return the intervals of `audit` for the three numbers of `true_values`, from stored errors."""
    n = len(errors)
    pairs = sample_pairs(rows.probability, n_rows, np.random.default_rng(seed_of(seed, "audit")))
    # All blocks at once, which gives the sums of `PairSample.sums` in less time; indices of flat arrays are faster too.
    at = pairs.left[:, :, None] * n + pairs.right[:, None, :]
    side = pairs.left.shape[1]
    left, right = (1 / (rows.probability[one] * side) for one in (pairs.left, pairs.right))
    error, kernel = errors.ravel().take(at), exact.ravel().take(at).astype(float)
    different = pairs.left[:, :, None] != pairs.right[:, None, :]
    estimates = np.stack(
        [
            (((values * different) @ right[:, :, None])[:, :, 0] * left).sum(axis=1)
            for values in (np.square(error), error, np.square(kernel))
        ],
        axis=1,
    )
    squares = estimates[:, 0] + np.square(rows.residual).sum()
    norms = estimates[:, 2] + np.square(rows.exact).sum()
    mean_square, mean = (
        np.array(mean_interval(estimates[:, i], skewed=skewed)) / (n * (n - 1)) for i, skewed in ((0, True), (1, False))
    )
    return [tuple(np.maximum(mean_square, 0)), tuple(mean), tuple(np.maximum(ratio_interval(squares, norms), 0))]


def interval_of_rows(errors: np.ndarray, n_rows: int, rng: np.random.Generator) -> tuple[float, float]:
    """Return the interval of version 0.1.0 for the mean squared error, from all pairs of uniformly sampled rows."""
    rows = rng.choice(len(errors), n_rows, replace=False)
    squares = np.square(errors[np.ix_(rows, rows)])
    np.fill_diagonal(squares, 0.0)
    means = squares.sum(axis=1) / (n_rows - 1)
    margin = 1.96 * 2 * means.std(ddof=1) / np.sqrt(n_rows)
    return means.mean() - margin, means.mean() + margin


def coverage(feature_map: Any, X: np.ndarray, sizes: list[int], draws: int) -> dict[str, Any]:
    """Return the percentages of draws in which intervals contain the truth, and half-widths relative to the RMSE."""
    errors, exact = errors_of_pairs(feature_map, X)
    truth = true_values(errors, exact)
    rows = row_errors(feature_map, X)
    rmse = float(np.sqrt(truth[0]))
    result: dict[str, Any] = {"rmse": rmse, "bias": float(truth[1]), "relative error": float(np.sqrt(truth[2]))}
    for n_rows in sizes:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MercerWarning)  # of an infinite variance
            direct = audit(feature_map, X, n_rows=n_rows, random_state=0)
        count = draws if n_rows >= MANY_ROWS else MORE * draws
        ends = np.array([intervals_of_draw(errors, exact, rows, n_rows, seed) for seed in range(count)])
        np.testing.assert_allclose(np.sqrt(ends[0, 0]), direct.rmse_interval, rtol=1e-6)
        np.testing.assert_allclose(ends[0, 1], direct.mean_error_interval, rtol=1e-6, atol=1e-9 * rmse)
        np.testing.assert_allclose(np.sqrt(ends[0, 2]), direct.relative_error_interval, rtol=1e-5)
        rng = np.random.default_rng(0)
        before = np.array([interval_of_rows(errors, n_rows, rng) for _ in range(min(draws, UNIFORM_DRAWS))])
        covered = 100 * ((ends[:, :, 0] <= truth) & (truth <= ends[:, :, 1])).mean(axis=0)
        result[str(n_rows)] = {
            "coverage": dict(zip(INTERVALS, covered.tolist(), strict=True)),
            "half-width": float(np.mean(np.sqrt(ends[:, 0, 1]) - np.sqrt(ends[:, 0, 0])) / 2 / rmse),
            "half-width of the bias": float(np.mean(ends[:, 1, 1] - ends[:, 1, 0]) / 2 / rmse),
            "coverage of uniform rows": 100 * float(np.mean((before[:, 0] <= truth[0]) & (truth[0] <= before[:, 1]))),
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
                for interval, value in found[str(n_rows)]["coverage"].items():
                    what = f"{name}, {label}, n_rows={n_rows}, {interval}"
                    report.checks.append(Check(what, value, at_least=LOW, at_most=HIGH))
            print(name, label, found, flush=True)
    for n_rows in options.n_rows:
        rows = []
        for name in options.names:
            cells = [report.results[f"{name}, {label}"][str(n_rows)] for label in MAPS]
            found = [" ".join(f"{value:.1f}" for value in c["coverage"].values()) for c in cells]
            before = [f"{c['coverage of uniform rows']:.0f}" for c in cells]
            rows.append((name, *(f"{new} ({old})" for new, old in zip(found, before, strict=True))))
        print(
            f"\nn_rows={n_rows}: coverage of 95 % intervals of {', '.join(INTERVALS)} in percent (RMSE, uniform rows)"
        )
        print(format_table(("data", *MAPS), rows))
    report.finish(options.output)


if __name__ == "__main__":
    main()
