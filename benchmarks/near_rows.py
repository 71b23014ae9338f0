"""Errors of ridge models that are corrected by near rows in a learned metric, and the time of their predictions.

    python benchmarks/near_rows.py --data DIR [--parts regression classification units time fit] [--quick]

DIR holds .npz files with arrays X and y, or X_train, y_train, X_test, y_test. Columns are raw.

regression
    Seven tables, five splits: 64 % of the rows for the fit, 20 % for the test; root mean square error over the standard
    deviation of the test targets, and the share of new targets in intervals of 90 %. The other 16 % are not used: every
    choice is made by leave-one-out.
classification
    Test error and logarithmic loss. letter and usps: 80 % of all rows, five splits; covtype: all 581,012 rows, 80 % for
    the fit, one split; MNIST: the official split, on 50 principal components of the training rows, whose scales are
    meaningful: a Matern kernel with nu 5/2 and the best of three multiples of the median distance by left-out losses.
units
    Columns times powers of ten from 1e-6 to 1e6: the largest change of predictions, relative to their spread.
time
    Prediction from 64 near rows with the search, compared with NearestNeighbors of scikit-learn and NumPy's batched
    solver, which is the prototype of this method: MNIST (50 components, 10,000 queries) and covtype (4000 queries).
sizes
    cal_housing: test error and time of prediction by the number of near rows and by the number of landmarks of the
    global part, in one metric; and the distance from predictions with 1024 near rows (`local_.audit`). A plot.
fit
    Seconds of a fit with a learned metric on 50,000 rows of 50 columns.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from harness import Check, Report, interleave, parser_for, pick
from sklearn.decomposition import PCA
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.neighbors import NearestNeighbors

from mercer import (
    Gaussian,
    KernelRidge,
    KernelRidgeClassifier,
    LearnedMetric,
    LocalCorrection,
    Matern,
    MercerWarning,
    Nystroem,
)

REGRESSION = {
    "cal_housing": 0.365,
    "protein": 0.54,
    "ccpp": 0.172,
    "superconduct76": 0.290,
    "bike": 0.225,
    "kin8nm": 0.25,
    "energy": 0.052,
}
CLASSIFICATION = {"letter": 2.1, "usps": 2.6, "covtype": 4.0, "mnist": 1.4}
PARTS = ("regression", "classification", "units", "time", "sizes", "fit")


def load(directory: Path, name: str) -> tuple[np.ndarray, ...]:
    """Return the arrays X and y of all rows, or those of the official split if the data set has one."""
    with np.load(directory / f"{name}.npz", allow_pickle=False) as data:
        names = ("X_train", "y_train", "X_test", "y_test") if "X_train" in data.files else ("X", "y")
        return tuple(data[key].astype(np.float64) if key.startswith("X") else data[key] for key in names)


def all_rows(directory: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return X and y of all rows."""
    arrays = load(directory, name)
    if len(arrays) == 2:
        return arrays[0], arrays[1]
    return np.concatenate(arrays[::2]), np.concatenate(arrays[1::2])


def regressor(seed: int) -> KernelRidge:
    """Return the model that is measured, with no parameter that depends on the data."""
    feature_map = LearnedMetric(method="neighbors", random_state=seed)
    return KernelRidge(feature_map, alpha="loo", neighbors=64, random_state=seed)


def classifier(seed: int) -> KernelRidgeClassifier:
    """Return the same for labels."""
    feature_map = LearnedMetric(method="neighbors", random_state=seed)
    return KernelRidgeClassifier(feature_map, alpha="loo", neighbors=64, random_state=seed)


def with_shared_lengthscale(X: np.ndarray, y: np.ndarray) -> KernelRidgeClassifier:
    """Return the classifier whose lengthscale has the least left-out loss among multiples of the median distance."""
    median = Gaussian("median").resolve(X[:2000]).lengthscale
    models = []
    for factor in (0.5, 0.7, 1.0):
        feature_map = Nystroem(Matern(2.5, factor * median), 256, landmarks="uniform", random_state=0)
        correction = LocalCorrection("auto", parts="local")
        models.append(KernelRidgeClassifier(feature_map, alpha="loo", neighbors=correction, random_state=0).fit(X, y))
    return min(models, key=lambda model: min(score.loss for score in model.local_.scores))


def split(X: np.ndarray, y: np.ndarray, seed: int) -> tuple[np.ndarray, ...]:
    """Return rows and targets: 64 % to fit, 20 % to test."""
    X_fit, X_test, y_fit, y_test = train_test_split(X, y, test_size=0.2, random_state=seed)
    X_fit, _, y_fit, _ = train_test_split(X_fit, y_fit, test_size=0.2, random_state=seed)
    return X_fit, X_test, y_fit, y_test


def measure_regression(directory: Path, names: list[str], splits: int) -> Iterator[dict[str, Any]]:
    """Yield the errors of each table and split."""
    for name in names:
        X, y = all_rows(directory, name)
        for seed in range(splits):
            X_fit, X_test, y_fit, y_test = split(X, y, seed)
            start = time.perf_counter()
            model = regressor(seed).fit(X_fit, y_fit)
            fitted = time.perf_counter() - start
            start = time.perf_counter()
            error = float(np.sqrt(np.mean(np.square(model.predict(X_test) - y_test))) / y_test.std())
            predicted = time.perf_counter() - start
            low, high = model.predict_interval(X_test, 0.9).T
            yield {
                "name": name,
                "split": seed,
                "error": error,
                "coverage": float(np.mean((low <= y_test) & (y_test <= high))),
                "parts": model.local_.parts,
                "kernel": type(model.feature_map_.feature_map_.kernel_).__name__,
                "fit": fitted,
                "predict": predicted,
            }


def measure_classification(directory: Path, names: list[str], splits: int) -> Iterator[dict[str, Any]]:
    """Yield the errors of each data set and split."""
    for name in names:
        arrays = load(directory, name)
        for seed in range(1 if name in ("mnist", "covtype") else splits):
            if name == "mnist":
                X_fit, y_fit, X_test, y_test = arrays
                components = PCA(50, random_state=0).fit(X_fit)
                X_fit, X_test = components.transform(X_fit), components.transform(X_test)
            else:
                X, y = all_rows(directory, name)
                X_fit, X_test, y_fit, y_test = train_test_split(X, y, test_size=0.2, random_state=seed)
            start = time.perf_counter()
            model = with_shared_lengthscale(X_fit, y_fit) if name == "mnist" else classifier(seed).fit(X_fit, y_fit)
            fitted = time.perf_counter() - start
            start = time.perf_counter()
            probabilities = model.predict_proba(X_test)
            predicted = time.perf_counter() - start
            yield {
                "name": name,
                "split": seed,
                "error": 100 * float(np.mean(model.classes_[probabilities.argmax(axis=1)] != y_test)),
                "log loss": float(log_loss(y_test, probabilities, labels=model.classes_)),
                "parts": model.local_.parts,
                "fit": fitted,
                "predict": predicted,
            }


def measure_units(directory: Path) -> dict[str, float]:
    """Return the largest relative change of predictions if columns have other units."""
    changes = {}
    for name in ("energy", "ccpp"):
        X, y = all_rows(directory, name)
        X_fit, X_test, y_fit, _ = split(X, y, 0)
        factors = 10.0 ** np.random.default_rng(0).integers(-6, 7, X.shape[1])
        plain = regressor(0).fit(X_fit, y_fit).predict(X_test)
        scaled = regressor(0).fit(X_fit * factors, y_fit).predict(X_test * factors)
        changes[name] = float(np.abs(scaled - plain).max() / plain.std())
    return changes


def prototype(rows: np.ndarray, targets: np.ndarray, queries: np.ndarray, noise: float, k: int) -> np.ndarray:
    """Predict from the k nearest rows by scikit-learn's search and NumPy's solver, in units of the lengthscale."""
    found = NearestNeighbors(n_neighbors=k).fit(rows).kneighbors(queries, return_distance=False)
    out = []
    for i in range(0, len(queries), 500):
        near, query = rows[found[i : i + 500]], queries[i : i + 500]
        squares = (near * near).sum(-1)
        apart = squares[:, :, None] + squares[:, None] - 2 * near @ near.transpose(0, 2, 1)
        K = np.exp(-np.sqrt(np.maximum(apart, 0))) + noise * np.eye(k)
        cross = np.exp(-np.sqrt(((near - query[:, None]) ** 2).sum(-1)))
        weights = np.linalg.solve(K, cross[..., None])[..., 0]
        out.append(np.einsum("nk,nkc->nc", weights, targets[found[i : i + 500]]))
    return np.concatenate(out)


def measure_time(directory: Path, rounds: int) -> dict[str, dict[str, float]]:
    """Return the seconds of predictions, and those of the prototype, in turn."""
    out = {}
    for name, count in (("mnist", 10_000), ("covtype", 4000)):
        arrays = load(directory, name)
        X, y = arrays[:2]
        T = arrays[2] if len(arrays) == 4 else X[:0]
        if name == "mnist":
            components = PCA(50, random_state=0).fit(X)
            X, T = components.transform(X), components.transform(T)
        else:
            X, T, y, _ = train_test_split(X, y, test_size=0.2, random_state=0)
        T = T[:count]
        mean, scale = X.mean(axis=0), X.std(axis=0)
        scale[scale == 0] = 1
        X, T = np.float32((X - mean) / scale), np.float32((T - mean) / scale)
        median = float(np.median(np.linalg.norm(X[:300, None] - X[None, 300:600], axis=-1)))
        codes = (y[:, None] == np.unique(y)) * 1.0
        X, T = X / median, T / median
        correction = LocalCorrection(64, parts="local")
        feature_map = Nystroem(Matern(0.5, 1.0), 64, landmarks="uniform", random_state=0)
        model = KernelRidge(feature_map, alpha=0.05, fit_intercept=False, neighbors=correction, random_state=0)
        model.fit(X, codes)
        cases = {
            "mercer": lambda model=model, T=T: model.predict(T),
            "prototype": lambda X=X, T=T, codes=codes: prototype(X, codes, T, 0.05, 64),
        }
        difference = float(np.abs(cases["mercer"]() - cases["prototype"]()).max())
        timings = interleave(cases, rounds, warm_up=False)
        seconds = {case: timing.best for case, timing in timings.items()}
        out[name] = {**seconds, "ratio": seconds["mercer"] / seconds["prototype"], "largest difference": difference}
    return out


def measure_sizes(directory: Path) -> list[dict[str, Any]]:
    """Return errors and times for numbers of near rows and of landmarks, in one learned metric."""
    X, y = all_rows(directory, "cal_housing")
    X_fit, X_test, y_fit, y_test = split(X, y, 0)
    kernel = LearnedMetric(method="neighbors", random_state=0).fit(X_fit, y_fit).kernel_
    out = []
    cases = [(k, 512, "local") for k in (4, 8, 16, 32, 64, 128, 256)]
    cases += [(k, D, "both") for D in (128, 512, 1024) for k in (8, 16, 32, 64, 128)]
    cases += [(1, D, "global") for D in (128, 512, 1024)]
    for k, D, parts in cases:
        feature_map = Nystroem(kernel, D, landmarks="uniform", random_state=0)
        correction = LocalCorrection(k, parts=parts)
        model = KernelRidge(feature_map, alpha="loo", neighbors=correction, random_state=0)
        start = time.perf_counter()
        model.fit(X_fit, y_fit)
        fitted = time.perf_counter() - start
        start = time.perf_counter()
        predicted = model.predict(X_test)
        seconds = time.perf_counter() - start
        error = float(np.sqrt(np.mean(np.square(predicted - y_test))) / y_test.std())
        row = {"near rows": k, "landmarks": D, "parts": parts, "error": error, "fit": fitted}
        row["predictions per second"] = len(X_test) / seconds
        row["distance"] = model.local_.audit(X_test).rmse if parts != "global" else None
        out.append(row)
        print(row, flush=True)
    return out


def plot_sizes(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw error by the number of near rows, with and without a global part, and error by time."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained", sharey=True)
    for (parts, D), color in zip(
        [("local", 512), ("both", 128), ("both", 512), ("both", 1024)], ("C0", "C1", "C2", "C3"), strict=True
    ):
        some = [row for row in rows if row["parts"] == parts and row["landmarks"] == D]
        label = "near rows only" if parts == "local" else f"near rows and {D} landmarks"
        for axis, key in zip(axes, ("near rows", "predictions per second"), strict=True):
            axis.plot([row[key] for row in some], [row["error"] for row in some], "o-", color=color, label=label)
    for row in rows:
        if row["parts"] == "global":
            axes[0].axhline(row["error"], color="0.6", linewidth=1, linestyle=":")
            text = f"{row['landmarks']} landmarks only"
            axes[0].annotate(text, (4, row["error"]), fontsize=8, va="bottom", color="0.4")
    axes[0].set(xscale="log", xlabel="near rows", ylabel="relative RMSE of new rows", title="cal_housing")
    axes[0].set_xticks([4, 8, 16, 32, 64, 128, 256], ["4", "8", "16", "32", "64", "128", "256"])
    axes[1].set(xscale="log", xlabel="predictions per second", title="two cores")
    axes[1].legend(frameon=False, fontsize=8)
    for axis in axes:
        axis.grid(visible=True, alpha=0.3)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def measure_fit() -> float:
    """Return the seconds of a fit with a learned metric on 50,000 rows of 50 columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50_000, 50)) * 10.0 ** rng.integers(-3, 4, 50)
    Z = X / np.abs(X).mean(axis=0)
    y = np.sin(2 * Z[:, 0]) + Z[:, 1] * Z[:, 2] + 0.3 * rng.normal(size=len(X))
    start = time.perf_counter()
    regressor(0).fit(X, y)
    return time.perf_counter() - start


def main() -> None:
    """Measure, print and store the figures."""
    parser = parser_for(__doc__, 3, 1)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--names", nargs="+", default=None)
    parser.add_argument("--splits", type=int, default=5)
    arguments: argparse.Namespace = parser.parse_args()
    warnings.simplefilter("ignore", MercerWarning)
    splits = 1 if arguments.quick else arguments.splits
    report = Report("near_rows", {"splits": splits}, judged=splits == 5)
    report.begin()
    names = arguments.names
    if "regression" in arguments.parts:
        chosen = [name for name in REGRESSION if names is None or name in names]
        rows = []
        for row in measure_regression(arguments.data, chosen, splits):
            print(row, flush=True)
            rows.append(row)
        report.results["regression"] = rows
        for name in chosen:
            some = [row for row in rows if row["name"] == name]
            error, coverage = (float(np.mean([row[key] for row in some])) for key in ("error", "coverage"))
            report.checks += [
                Check(f"{name}: relative RMSE", error, at_most=REGRESSION[name]),
                Check(f"{name}: coverage of 90 % intervals", coverage, at_least=0.88, at_most=0.92),
            ]
    if "classification" in arguments.parts:
        chosen = [name for name in CLASSIFICATION if names is None or name in names]
        rows = []
        for row in measure_classification(arguments.data, chosen, splits):
            print(row, flush=True)
            rows.append(row)
        report.results["classification"] = rows
        for name in chosen:
            error = float(np.mean([row["error"] for row in rows if row["name"] == name]))
            report.checks.append(Check(f"{name}: test error, %", error, at_most=CLASSIFICATION[name]))
    if "units" in arguments.parts:
        report.results["units"] = measure_units(arguments.data)
        report.checks += [Check(f"{n}: other units", v, at_most=1e-6) for n, v in report.results["units"].items()]
    if "time" in arguments.parts:
        report.results["time"] = measure_time(arguments.data, pick(arguments.quick, arguments.rounds, 3, 1))
        report.checks += [
            Check(f"{name}: time over the prototype", row["ratio"], at_most=0.2)
            for name, row in report.results["time"].items()
        ]
    if "sizes" in arguments.parts:
        report.results["sizes"] = measure_sizes(arguments.data)
        arguments.output.mkdir(parents=True, exist_ok=True)
        plot_sizes(report.results["sizes"], arguments.output / "near_rows_sizes.png")
    if "fit" in arguments.parts:
        report.results["fit"] = measure_fit()
        report.checks.append(Check("fit, 50,000 rows of 50 columns, s", report.results["fit"], at_most=60.0))
    report.finish(arguments.output)


if __name__ == "__main__":
    main()
