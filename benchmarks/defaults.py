"""Learners with no arguments, on raw columns, against a straight line, boosted trees and an exact machine.

    python benchmarks/defaults.py DATA [--tables cal_housing,letter] [--rows 10000] [--seed 0]

DATA is a folder of .npz files with arrays X, y or X_train, y_train, X_test, y_test. A quarter of the rows, 5000 at
most, is held out. The exact machine, `SVC` or `SVR` of scikit-learn, is fitted to 5000 standardized rows at most. The
table has R2 or accuracy and the seconds of the fit.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

import mercer

REGRESSION = ("cal_housing", "ccpp", "kin8nm", "concrete", "energy", "wine_red", "protein", "bike")
LABELS = ("letter", "adult", "spambase", "usps", "nursery")
MOST_EXACT, MOST_HELD_OUT = 5000, 5000


def load(folder: Path, name: str, rows: int, seed: int) -> tuple[np.ndarray, ...]:
    """Return rows and targets of a fit, and those held out."""
    with np.load(folder / f"{name}.npz") as file:
        parts = [("X", "y")] if "X" in file else [("X_train", "y_train"), ("X_test", "y_test")]
        X = np.concatenate([file[x] for x, _ in parts]).astype(np.float64)
        y = np.concatenate([file[y] for _, y in parts])
    y = y[:, 0] if y.ndim == 2 else y
    order = np.random.default_rng(seed).permutation(len(X))
    held_out = min(MOST_HELD_OUT, len(X) // 4)
    test, train = order[:held_out], order[held_out:][:rows]
    return X[train], y[train], X[test], y[test]


def contenders(labels: bool) -> dict[str, Any]:
    """Return the models by name."""
    if labels:
        return {
            "KernelRidgeClassifier()": mercer.KernelRidgeClassifier(random_state=0),
            "KernelLogisticRegression()": mercer.KernelLogisticRegression(random_state=0),
            "KernelSVC()": mercer.KernelSVC(random_state=0),
            "LogisticRegression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
            "HistGradientBoosting": HistGradientBoostingClassifier(random_state=0),
            "SVC, 5000 rows": make_pipeline(StandardScaler(), SVC()),
        }
    return {
        "KernelRidge()": mercer.KernelRidge(random_state=0),
        "LinearRegression": LinearRegression(),
        "HistGradientBoosting": HistGradientBoostingRegressor(random_state=0),
        "SVR, 5000 rows": make_pipeline(StandardScaler(), SVR()),
    }


def main() -> None:
    """Print one line per table and model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--tables", default=",".join(REGRESSION + LABELS))
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for name in options.tables.split(","):
        X, y, X_test, y_test = load(options.data, name, options.rows, options.seed)
        for title, model in contenders(name in LABELS).items():
            rows = MOST_EXACT if "5000" in title else len(X)
            start = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("error", mercer.MercerWarning)
                model.fit(X[:rows], y[:rows])
            seconds = time.perf_counter() - start
            score = model.score(X_test, y_test)
            print(f"{name:<14} {len(X[:rows]):>6} rows  {title:<28} {score:8.4f}  {seconds:7.2f} s", flush=True)


if __name__ == "__main__":
    main()
