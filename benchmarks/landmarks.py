"""Error of the kernel on new rows, by the choice of landmarks.

    python benchmarks/landmarks.py --data DIR [--quick] [--rounds 2] [--output DIR]

DIR holds .npz files with an array X, or X_train and X_test. Maps are fitted to all rows but 1000, which are drawn at
random, with standardized features, and the root mean squared error is that of all pairs of these 1000 rows, over the
rounds. Gaussian kernels of half and one median distance, and the Laplacian kernel of median distance. The last
columns are the best directions of two and four times as many landmarks, and a Fourier map of the same width.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from harness import Report, format_table, parser_for, pick

from mercer import Gaussian, Kernel, Laplacian, MercerWarning, Nystroem, RandomFourier

NAMES, QUICK_NAMES = ("letter", "adult", "cal_housing", "usps"), ("letter",)
WIDTHS, QUICK_WIDTHS = (128, 512), (128,)
NEW_ROWS = 1000


def maps_for(kernel: Kernel, width: int, seed: int) -> dict[str, Any]:
    """Return the maps that are compared, by name."""
    choices = {name: {"landmarks": name} for name in ("pivoted", "uniform", "kmeans", "leverage")}
    more: dict[str, dict[str, Any]] = {f"{q} times as many": {"n_landmarks": q * width} for q in (2, 4)}
    more["kmeans, 4 times"] = {"landmarks": "kmeans", "n_landmarks": 4 * width}
    landmarks = {
        name: Nystroem(kernel, width, random_state=seed, **options) for name, options in {**choices, **more}.items()
    }
    return {**landmarks, "RandomFourier": RandomFourier(kernel, width, random_state=seed)}


def standardized_rows(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return rows to fit maps to, and other rows to measure errors on."""
    with np.load(path) as data:
        X = np.concatenate([data["X_train"], data["X_test"]]) if "X_train" in data else data["X"]
    X = X.astype(float)
    scale = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order[NEW_ROWS:]], X[order[:NEW_ROWS]]


def main() -> None:
    """Fit all maps, and print one row of errors per data set, kernel and width."""
    parser = parser_for(__doc__.splitlines()[0], 2, 1)
    parser.add_argument("--data", type=Path, required=True, help="directory of .npz files")
    parser.add_argument("--names", nargs="+", help="names of files without .npz")
    options = parser.parse_args()
    warnings.simplefilter("ignore", MercerWarning)
    rounds = pick(options.quick, options.rounds, 2, 1)
    names = pick(options.quick, options.names, NAMES, QUICK_NAMES)
    widths = QUICK_WIDTHS if options.quick else WIDTHS
    report = Report("landmarks", {"rounds": rounds, "names": list(names), "widths": list(widths)}, not options.quick)
    rows, header = [], ()
    for name in names:
        X, Y = standardized_rows(options.data / f"{name}.npz")
        different = ~np.eye(len(Y), dtype=bool)
        median = Gaussian("median").resolve(X[:1000]).lengthscale
        kernels = {
            "Gaussian, 1/2": Gaussian(median / 2),
            "Gaussian, 1": Gaussian(median),
            "Laplacian": Laplacian("median").resolve(X[:1000]),
        }
        for label, kernel in kernels.items():
            K = kernel(Y)[different]
            for width in widths:
                squares: dict[str, list[float]] = {}
                for seed in range(rounds):
                    for choice, m in maps_for(kernel, width, seed).items():
                        error = m.fit(X).gram(Y)[different] - K
                        squares.setdefault(choice, []).append(float(np.square(error).mean()))
                errors = {choice: float(np.sqrt(np.mean(values))) for choice, values in squares.items()}
                report.results[f"{name}, {label}, {width}"] = errors
                rows.append((f"{name}, {label}, {width}", *(f"{error:.2e}" for error in errors.values())))
                header = ("data, kernel, width", *errors)
                print("  ".join(rows[-1]), flush=True)
    print(format_table(header, rows))
    report.finish(options.output)


if __name__ == "__main__":
    main()
