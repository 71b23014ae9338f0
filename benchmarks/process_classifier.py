"""Compare probabilities of `GaussianProcessClassifier` with those of a calibrated SVC and of logistic regression.

Log loss, accuracy, expected calibration error and seconds, on random splits of all rows; means over seeds. Every
contender chooses everything on training rows. Differences of log losses from ours are shown with their standard error:
that of the paired differences of rows, or, if it is larger, of the means of splits, since all rows of a split share the
choices that were made on its training rows:

- mercer: `GaussianProcessClassifier` without arguments but for its lengthscales (`--tuning`) and the rows on which they
  are tuned; on usps, whose columns have one unit, with the Matern kernel of the given columns,
- logistic: `KernelLogisticRegression` on the same features, those of the fitted process, with C on rows held out,
- SVC: scikit-learn's `CalibratedClassifierCV` of an RBF `SVC`, on standardized columns (usps as given), with C and
  gamma chosen by three-fold cross-validated accuracy among 3 x 3 values on 1500 rows, fitted to `--svc-rows` of the
  training rows at most, which the output says where it is less than all,
- ridge: `KernelRidgeClassifier` on the same features.

With `--components`, the features are landmarks of a Matern kernel with the median distance of standardized columns (of
usps: as given) as its lengthscale, which is not tuned: a cheap comparison of all but the SVC.

    OMP_NUM_THREADS=1 python benchmarks/process_classifier.py --data DIR [--seeds 5] [--rows 0] [--datasets adult ...]

DIR holds adult.npz, spambase.npz, letter.npz and usps.npz. `--rows` limits the training rows; 0 means all, less a
quarter (at most 4000 rows) for the test.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from mercer import GaussianProcessClassifier, KernelLogisticRegression, KernelRidgeClassifier, Matern, Nystroem

DATA = ("adult", "spambase", "letter", "usps")
FIGURES = ("log loss", "accuracy", "calibration error", "seconds")
MOST_TEST_ROWS = 4000


def split(path: Path, seed: int, rows: int) -> tuple[np.ndarray, ...]:
    """Return training and test rows of a random split of all rows of a file."""
    with np.load(path) as z:
        if "X" in z:
            X, y = z["X"], z["y"]
        else:
            X, y = np.vstack([z["X_train"], z["X_test"]]), np.concatenate([z["y_train"], z["y_test"]])
    order = np.random.default_rng(seed).permutation(len(X))
    count = min(MOST_TEST_ROWS, len(X) // 4)
    test, train = order[:count], order[count:]
    train = train[:rows] if rows else train
    X, y = X.astype(np.float64), y.astype(int)
    return X[train], y[train], X[test], y[test]


def calibration_error(y: np.ndarray, P: np.ndarray, classes: np.ndarray) -> float:
    """Return the mean distance of the probability of the predicted label from its frequency, in 15 equal bins."""
    top, hit = P.max(axis=1), classes[P.argmax(axis=1)] == y
    parts = np.array_split(np.argsort(top, kind="stable"), 15)
    return float(sum(len(part) * abs(top[part].mean() - hit[part].mean()) for part in parts) / len(y))


def figures(model: Any, X: np.ndarray, y: np.ndarray, seconds: float) -> dict[str, Any]:
    """Return the figures of a fitted model on test rows, and the loss of each row."""
    P = model.predict_proba(X)
    rows = -np.log(np.maximum(P[np.arange(len(y)), np.searchsorted(model.classes_, y)], np.finfo(float).eps))
    values = (log_loss(y, P, labels=model.classes_), (model.classes_[P.argmax(axis=1)] == y).mean())
    cells = (*map(float, values), calibration_error(y, P, model.classes_), seconds)
    return {**dict(zip(FIGURES, cells, strict=True)), "losses": rows.tolist()}


def timed(model: Any, X: np.ndarray, y: np.ndarray) -> tuple[Any, float]:
    """Return the fitted model and the seconds of the fit."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    return model, time.perf_counter() - start


def svc(X: np.ndarray, y: np.ndarray, raw: bool) -> tuple[Any, float]:
    """Return a calibrated SVC with tuned parameters, and the seconds of tuning and fitting."""
    start = time.perf_counter()
    scaler = [] if raw else [StandardScaler()]
    model = make_pipeline(*scaler, SVC())
    unit = 1 / (X.shape[1] * (X.var() if raw else 1.0))
    grid = {"svc__C": [1.0, 10.0, 100.0], "svc__gamma": [0.3 * unit, unit, 3 * unit]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        best = GridSearchCV(model, grid, cv=3).fit(X[:1500], y[:1500]).best_estimator_
        fitted = CalibratedClassifierCV(best, cv=5, ensemble=True).fit(X, y)
    return fitted, time.perf_counter() - start


def measure(path: Path, seed: int, arguments: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Return the figures of all contenders on one split."""
    X, y, X_test, y_test = split(path, seed, arguments.rows)
    raw = path.stem == "usps"
    feature_map = Matern(2.5, "median") if raw else None
    if arguments.components:
        mean, scale = (0.0, 1.0) if raw else (X.mean(axis=0), X.std(axis=0))
        scale = np.where(scale > 0, scale, 1.0)
        X, X_test = (X - mean) / scale, (X_test - mean) / scale
        feature_map = Nystroem(Matern(2.5, "median"), arguments.components, random_state=seed)
    tuning = None if arguments.components else "shared" if raw else arguments.tuning
    process = GaussianProcessClassifier(
        feature_map,
        lengthscale_tuning=tuning,
        tune_rows=arguments.tune_rows,
        random_state=seed,
    )
    out = {}
    process, seconds = timed(process, X, y)
    out["mercer"] = figures(process, X_test, y_test, seconds)
    for name, kind in (("logistic", KernelLogisticRegression), ("ridge", KernelRidgeClassifier)):
        out[name] = figures(*with_test(timed(kind(process.feature_map_, random_state=seed), X, y), X_test, y_test))
    if "SVC" in arguments.without:
        return out
    count = min(len(X), arguments.svc_rows)
    fitted, seconds = svc(X[:count], y[:count], raw)
    out["SVC" if count == len(X) else f"SVC on {count}"] = figures(fitted, X_test, y_test, seconds)
    return out


def with_test(pair: tuple[Any, float], X: np.ndarray, y: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray, float]:
    """Return the arguments of `figures`."""
    return pair[0], X, y, pair[1]


def main() -> None:
    """Measure, print a table, and say which targets are met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--datasets", nargs="+", default=DATA)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--svc-rows", type=int, default=6000)
    parser.add_argument("--tuning", default="ard")
    parser.add_argument("--tune-rows", type=int, default=3000)
    parser.add_argument("--components", type=int, default=0, help="landmarks of a kernel that is not tuned")
    parser.add_argument("--without", nargs="*", default=(), choices=("SVC",), help="contenders to leave out")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    print(f"{'data':<10}{'':<14}" + "".join(f"{figure:>20}" for figure in FIGURES), flush=True)
    results: dict[str, Any] = {}
    for name in arguments.datasets:
        runs = results[name] = []
        for seed in range(arguments.seeds):
            runs.append(measure(arguments.data / f"{name}.npz", seed, arguments))
            if arguments.json:
                arguments.json.write_text(json.dumps(results, indent=1))
        means = {who: [np.mean([run[who][figure] for run in runs]) for figure in FIGURES] for who in runs[0]}
        for who, values in means.items():
            print(f"{name:<10}{who:<14}" + "".join(f"{value:>20.4f}" for value in values), flush=True)
        worse = []
        for who in [who for who in means if who != "mercer"]:
            of_splits = [np.subtract(run[who]["losses"], run["mercer"]["losses"]) for run in runs]
            gaps, splits = np.concatenate(of_splits), np.array([gap.mean() for gap in of_splits])
            error = gaps.std() / np.sqrt(len(gaps))
            if len(splits) > 1:
                error = max(error, splits.std(ddof=1) / np.sqrt(len(splits)))
            print(f"{name:<10}{who:<14} minus ours: {gaps.mean():+.5f} +- {error:.5f}", flush=True)
            worse += [who] if gaps.mean() < -2 * error else []
        verdict = "missed, " + ", ".join(worse) if worse else "met"
        print(f"{name:<10}log loss at or below all, but for two standard errors: {verdict}", flush=True)


if __name__ == "__main__":
    main()
