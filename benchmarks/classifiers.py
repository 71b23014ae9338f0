"""Logistic regression and support vector machines on features: time, test loss, and how near the minimum they end.

    python benchmarks/classifiers.py --data DIR [--quick] [--rounds 3] [--sets covtype adult mnist] [--output DIR]

DIR holds covtype.npz with arrays X, y, and mnist.npz and adult.npz with arrays X_train, y_train, X_test, y_test. Of
covtype, 450,000 random rows are fitted and the others are test rows. Rows are float32: pixels in [0, 1], columns of the
others standardized. Peers are scikit-learn's RBFSampler with its LogisticRegression and LinearSVC of the same C, kernel
and number of components, at their default tolerances; LogisticRegression also with a limit of 400 iterations instead
of 100, at which it stops before its tolerance is reached. Support vector machines are fitted
to adult only: LinearSVC takes many minutes on the others. Fits take turns.

A second table fits scikit-learn's solvers to our own features of a part of the rows, where coefficients can be compared
one by one: how many digits does each tolerance buy, and in what time.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from harness import Check, Report, format_table, interleave, parser_for, pick, ratio
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from mercer import Gaussian, KernelLogisticRegression, KernelSVC, RandomFourier

ROWS, COLUMNS = 450_000, 1024
QUICK_ROWS, QUICK_COLUMNS = 5000, 512
DIGITS_ROWS, DIGITS_COLUMNS = 5000, 256
SEED, C = 0, 1.0
# Tolerance of coefficients that are exact to about ten digits.
EXACT = 1e-22
LOGISTIC, SVC = "mercer logistic", "mercer SVC"
PEERS = {
    "RBFSampler + LogisticRegression": LOGISTIC,
    "RBFSampler + LogisticRegression, 400 iterations": LOGISTIC,
    "RBFSampler + LinearSVC": SVC,
}
SETS = ("covtype", "adult", "mnist")
# The speed that is asked for, at a test loss that is at most this many times that of the peer.
LEAST_SPEED, EQUAL_LOSS = 3.0, 1.002


@dataclass(frozen=True)
class Data:
    """Rows and labels to fit and to test."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    @classmethod
    def load(cls, directory: Path, name: str, rows: int) -> Data:
        """Load the first rows of a data set."""
        with np.load(directory / f"{name}.npz") as arrays:
            if "X" in arrays:
                order = np.random.default_rng(SEED).permutation(len(arrays["X"]))
                X, y = arrays["X"][order].astype(np.float32), arrays["y"][order]
                X, y, X_test, y_test = X[:rows], y[:rows], X[ROWS:], y[ROWS:]
            else:
                X, y = arrays["X_train"][:rows].astype(np.float32), arrays["y_train"][:rows]
                X_test, y_test = arrays["X_test"].astype(np.float32), arrays["y_test"]
        if name == "mnist":
            return cls(X / 255, y, X_test / 255, y_test)
        mean, deviation = X.mean(axis=0), X.std(axis=0)
        keep = deviation > 0
        X, X_test = (((part - mean)[:, keep] / deviation[keep]) for part in (X, X_test))
        return cls(X, y, X_test, y_test)


def new_models(lengthscale: float, columns: int) -> dict[str, Any]:
    """Return all models, unfitted."""
    feature_map = RandomFourier(Gaussian(lengthscale), columns, random_state=SEED)
    sampler = RBFSampler(gamma=0.5 / lengthscale**2, n_components=columns, random_state=SEED)
    usual, longer, svc = PEERS
    return {
        LOGISTIC: KernelLogisticRegression(feature_map, C=C),
        usual: make_pipeline(sampler, LogisticRegression(C=C)),
        longer: make_pipeline(sampler, LogisticRegression(C=C, max_iter=400)),
        SVC: KernelSVC(feature_map, C=C),
        svc: make_pipeline(sampler, LinearSVC(C=C, dual=False)),
    }


def compare(report: Report, data: Data, name: str, columns: int, rounds: int) -> None:
    """Time all fits in turn and score their models."""
    kernel = RandomFourier(Gaussian("median"), 2, random_state=SEED).fit(data.X).kernel_
    fitted: dict[str, Any] = {}

    def fit(which: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted[which] = new_models(kernel.lengthscale, columns)[which].fit(data.X, data.y)

    chosen = [which for which in new_models(1.0, 1) if name == "adult" or "SVC" not in which]
    timings = interleave({which: lambda w=which: fit(w) for which in chosen}, rounds, warm_up=False)
    rows, losses = [], {}
    for which, model in fitted.items():
        accuracy = model.score(data.X_test, data.y_test)
        loss = None
        if hasattr(model, "predict_proba"):
            loss = losses[which] = log_loss(data.y_test, np.asarray(model.predict_proba(data.X_test), float))
        passes = getattr(model, "n_passes_", None)
        report.results[f"{name}: {which}"] = timings[which].to_dict() | {
            "accuracy": accuracy,
            "log loss": loss,
            "passes": passes,
        }
        texts = ("" if loss is None else f"{loss:.4f}", "" if passes is None else str(passes))
        rows.append((which, f"{timings[which].best:.1f}", f"{accuracy:.4f}", *texts, ""))
    print(f"\n{name}: {len(data.X)} rows, {columns} components, C={C:g}")
    print(format_table(("model", "seconds", "accuracy", "log loss", "passes", ""), rows))
    for peer, ours in PEERS.items():
        if peer in fitted:
            speed = ratio(timings[peer], timings[ours])
            target = LEAST_SPEED if peer in losses else None
            report.checks.append(Check(f"{name}: times faster than {peer}", speed, at_least=target))
        if peer in losses:
            report.checks.append(
                Check(f"{name}: test loss relative to {peer}", losses[ours] / losses[peer], at_most=EQUAL_LOSS)
            )


def count_digits(report: Report, data: Data, name: str) -> None:
    """Fit scikit-learn's solvers to our own features and compare coefficients with those of the minimum."""
    X, y = data.X[:DIGITS_ROWS].astype(float), data.y[:DIGITS_ROWS]
    start = time.perf_counter()
    feature_map = RandomFourier(Gaussian("median"), DIGITS_COLUMNS, random_state=SEED)
    model = KernelLogisticRegression(feature_map, C=C, tol=EXACT, max_iter=1000).fit(X, y)
    seconds = time.perf_counter() - start
    Z = model.feature_map_.transform(X)
    again = KernelLogisticRegression(feature_map, C=C, tol=EXACT, max_iter=1000, block_size=999).fit(X, y)
    rows = [(f"mercer, tol={EXACT:g}, blocks of 999 rows", f"{seconds:.1f}", gap_of(model, again), "")]
    start = time.perf_counter()
    usual = KernelLogisticRegression(feature_map, C=C).fit(X, y)
    rows.append((f"mercer, tol={usual.tol:g}", f"{time.perf_counter() - start:.1f}", gap_of(model, usual), ""))
    for solver, tol in (("lbfgs", 1e-4), ("lbfgs", 1e-12), ("newton-cg", 1e-12), ("newton-cholesky", 1e-12)):
        peer = LogisticRegression(C=C, solver=solver, tol=tol, max_iter=5000)
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", RuntimeWarning)
            peer.fit(Z, y)
        rows.append((f"{solver}, tol={tol:g}", f"{time.perf_counter() - start:.1f}", gap_of(model, peer), ""))
    report.results[f"{name}: digits"] = rows
    print(f"\n{name}: {len(X)} rows, {DIGITS_COLUMNS} features: coefficients beside the minimum")
    print(format_table(("solver", "seconds", "largest difference", ""), rows))


def gap_of(model: Any, other: Any) -> str:
    """Return the largest difference of coefficients relative to the largest of them."""
    return f"{np.abs(model.coef_ - other.coef_).max() / np.abs(model.coef_).max():.0e}"


def main() -> None:
    """Run the benchmark."""
    parser = parser_for(__doc__.splitlines()[0], rounds=3, quick_rounds=1)
    parser.add_argument("--data", type=Path, required=True, help="directory of the data sets")
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--rows", type=int, help=f"rows to fit (default {ROWS}; quick {QUICK_ROWS})")
    parser.add_argument("--columns", type=int, help=f"features (default {COLUMNS}; quick {QUICK_COLUMNS})")
    options: argparse.Namespace = parser.parse_args()
    rows = pick(options.quick, options.rows, ROWS, QUICK_ROWS)
    columns = pick(options.quick, options.columns, COLUMNS, QUICK_COLUMNS)
    rounds = pick(options.quick, options.rounds, 3, 1)
    settings = {"rows": rows, "columns": columns, "rounds": rounds, "seed": SEED, "C": C}
    report = Report("classifiers", settings, judged=not options.quick)
    report.begin()
    for name in options.sets:
        data = Data.load(options.data, name, rows)
        compare(report, data, name, columns, rounds)
        count_digits(report, data, name)
    report.finish(options.output)


if __name__ == "__main__":
    main()
