"""Errors of Fourier features whose frequencies are chosen for the rows, beside plain ones of the same width.

    python benchmarks/resampled.py --data DIR [--sets letter adult ...] [--widths 128 512] [--seeds 5]

For each data set, kernel and width: the root mean square error of the kernel over pairs of rows that no map has seen,
divided by that of `RandomFourier`, and in the same way the test error of a ridge regression or classification with
`alpha="loo"`. All numbers are means over seeds. Features of X are standardized.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np

from mercer import (
    Gaussian,
    KernelRidge,
    KernelRidgeClassifier,
    Laplacian,
    Matern,
    MercerWarning,
    RandomFourier,
    ResampledFourier,
    audit,
)

SETS = ("letter", "adult", "cal_housing", "protein", "usps")
FITTED, AUDITED, TESTED = 4000, 1000, 2000
MAPS = {
    "auto": lambda kernel, n, seed: RandomFourier(kernel, n, random_state=seed),
    "iid": lambda kernel, n, seed: RandomFourier(kernel, n, directions="iid", random_state=seed),
    "leverage": lambda kernel, n, seed: ResampledFourier(kernel, n, sampling="leverage", random_state=seed),
    "balanced": lambda kernel, n, seed: ResampledFourier(kernel, n, random_state=seed),
}


def load(directory: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return shuffled, standardized rows without constant features, and their targets."""
    with np.load(directory / f"{name}.npz") as arrays:
        parts = [("X", "y")] if "X" in arrays else [("X_train", "y_train"), ("X_test", "y_test")]
        X, y = (np.concatenate([arrays[pair[i]] for pair in parts]) for i in range(2))
    order = np.random.default_rng(0).permutation(len(X))[: FITTED + TESTED]
    X, y = X[order].astype(np.float64), y[order]
    X = (X - X.mean(axis=0))[:, X.std(axis=0) > 0]
    return X / X.std(axis=0), y


def ridge_error(feature_map, X: np.ndarray, y: np.ndarray) -> float:
    """Return the share of wrong labels, or the root mean square error in units of the deviation of y, on test rows."""
    if np.issubdtype(y.dtype, np.floating):
        y = (y - y[:FITTED].mean()) / y[:FITTED].std()
        found = KernelRidge(feature_map, alpha="loo").fit(X[:FITTED], y[:FITTED]).predict(X[FITTED:])
        return float(np.sqrt(np.square(found - y[FITTED:]).mean()))
    model = KernelRidgeClassifier(feature_map, alpha="loo").fit(X[:FITTED], y[:FITTED])
    return float(np.mean(model.predict(X[FITTED:]) != y[FITTED:]))


def main() -> None:
    """Print one line for each data set, width and kernel."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="directory of the data sets")
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--widths", nargs="+", type=int, default=[128, 512])
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore", MercerWarning)
    print("set width kernel", *(f"{name}:kernel/ridge" for name in MAPS))
    for name in options.sets:
        X, y = load(options.data, name)
        median = Gaussian("median").resolve(X[:FITTED]).lengthscale
        kernels = {f"Gaussian {factor}": Gaussian(factor * median) for factor in (0.5, 1.0, 2.0)}
        kernels |= {"Matern 3/2": Matern(1.5, median), "Laplacian": Laplacian("median").resolve(X[:FITTED])}
        for width in options.widths:
            for label, kernel in kernels.items():
                errors = {}
                for key, make in MAPS.items():
                    pairs = []
                    for seed in range(options.seeds):
                        fitted = make(kernel, width, seed).fit(X[:FITTED])
                        measured = audit(fitted, X[FITTED : FITTED + AUDITED])
                        pairs.append((measured.rmse, ridge_error(make(kernel, width, seed), X, y)))
                    errors[key] = np.mean(pairs, axis=0)
                first = errors["auto"]
                ratios = (f"{e[0] / first[0]:.2f}/{e[1] / first[1]:.3f}" for e in list(errors.values())[1:])
                print(name, width, label, f"{first[0]:.4f}/{first[1]:.4f}", *ratios, flush=True)


if __name__ == "__main__":
    main()
