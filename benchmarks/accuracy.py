"""How far from the kernel is each map at equal width? Ours beside scikit-learn's, on real rows.

Relative Frobenius error of the approximate kernel matrix, the mean of several seeds, for

- the Gaussian kernel on standardized rows at the median lengthscale,
- the Gaussian kernel on the LETTER protocol of Munkhoeva et al. 2018: rows / 15, gamma = 1/16, 340 columns,
- the polynomial kernel (1 + x.y)^7 on rows of unit norm: as they are, and with columns scaled to [0, 1] before.

    python benchmarks/accuracy.py --data DIR [--rows 1000] [--seeds 5] [--json FILE] [--plot FILE]

DIR holds letter.npz, adult.npz and covtype.npz, each with an array X or X_train.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import plots
from sklearn.kernel_approximation import Nystroem as SklearnNystroem
from sklearn.kernel_approximation import PolynomialCountSketch, RBFSampler

from mercer import Gaussian, Kernel, Polynomial, RandomFourier, RandomMaclaurin

Rows = np.ndarray
Features = Callable[[Rows, int], Rows]  # rows and a seed -> features


@dataclass(frozen=True)
class Case:
    """One kernel on one set of rows, the maps to try, and what is required of the best of ours."""

    title: str
    rows: Rows
    kernel: Kernel
    maps: dict[str, Features]
    reference: str
    at_most: float  # of the reference's error, or absolute if there is no reference


def mercer_map(kind: type, kernel: Kernel, width: int, **options: Any) -> Features:
    """Return the features of one of our maps."""
    return lambda X, seed: kind(kernel, width, random_state=seed, **options).fit(X).transform(X)


def sample(path: Path, n: int) -> Rows:
    """Return a seeded sample of the rows of a file, without columns that do not vary."""
    with np.load(path) as data:
        X = data["X_train" if "X_train" in data else "X"]
    X = X[np.random.default_rng(0).permutation(len(X))[:n]].astype(float)
    return X[:, X.std(axis=0) > 0]


def standardized(X: Rows) -> Rows:
    """Return rows of columns with mean zero and variance one."""
    return (X - X.mean(axis=0)) / X.std(axis=0)


def unit_norm(X: Rows) -> Rows:
    """Return rows of length one."""
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def gaussian_case(title: str, X: Rows, kernel: Gaussian, width: int, reference: str, at_most: float) -> Case:
    """Return the case of a Gaussian kernel, with the peers of random Fourier features."""
    gamma = 0.5 / kernel.lengthscale**2
    maps: dict[str, Features] = {
        "RBFSampler": lambda X, seed: RBFSampler(gamma=gamma, n_components=width, random_state=seed).fit_transform(X),
        "sklearn Nystroem": lambda X, seed: SklearnNystroem(
            gamma=gamma, n_components=width, random_state=seed
        ).fit_transform(X),
        "mercer Fourier, orthogonal": mercer_map(RandomFourier, kernel, width, directions="orthogonal"),
        "mercer Fourier, default": mercer_map(RandomFourier, kernel, width),
        "mercer Maclaurin": mercer_map(RandomMaclaurin, kernel, width),
        "mercer Maclaurin, complex": mercer_map(RandomMaclaurin, kernel, width, projection="complex"),
        "mercer Maclaurin, srht": mercer_map(RandomMaclaurin, kernel, width, projection="srht"),
    }
    return Case(title, X, kernel, maps, reference, at_most)


def polynomial_case(title: str, X: Rows, degree: int, width: int, at_most: float) -> Case:
    """Return the case of a polynomial kernel, with the source's plan and the peer's sketch."""
    kernel = Polynomial(degree)
    maps: dict[str, Features] = {
        "PolynomialCountSketch": lambda X, seed: PolynomialCountSketch(
            gamma=1.0, degree=degree, coef0=1, n_components=width, random_state=seed
        ).fit_transform(X),
        "mercer Maclaurin, geometric p=2": mercer_map(RandomMaclaurin, kernel, width, plan="geometric"),
        "mercer Maclaurin, h01": mercer_map(RandomMaclaurin, kernel, width, plan="h01"),
        "mercer Maclaurin": mercer_map(RandomMaclaurin, kernel, width),
        "mercer Maclaurin, complex": mercer_map(RandomMaclaurin, kernel, width, projection="complex"),
        "mercer Maclaurin, srht": mercer_map(RandomMaclaurin, kernel, width, projection="srht"),
    }
    return Case(title, X, kernel, maps, "mercer Maclaurin, geometric p=2", at_most)


def cases(data: Path, n: int) -> list[Case]:
    """Return all cases."""
    found = []
    for name, at_most in (("letter", 1 / 12), ("adult", 1 / 4), ("covtype", 1 / 4)):
        X = standardized(sample(data / f"{name}.npz", n))
        title = f"{name}: Gaussian, median lengthscale, {X.shape[1]} columns to 512"
        found.append(gaussian_case(title, X, Gaussian("median").resolve(X), 512, "RBFSampler", at_most))
    letter = sample(data / "letter.npz", n) / 15
    title = "letter: Gaussian, Munkhoeva's protocol, 16 columns to 340"
    found.append(gaussian_case(title, letter, Gaussian.from_gamma(1 / 16), 340, "", 1e-5))
    adult = sample(data / "adult.npz", n)
    found.append(polynomial_case("adult: (1 + x.y)^7, unit norm, 640", unit_norm(adult), 7, 640, 1 / 5))
    scaled = (adult - adult.min(axis=0)) / np.ptp(adult, axis=0)
    title = "adult: (1 + x.y)^7, columns in [0, 1], unit norm, 640"
    found.append(polynomial_case(title, unit_norm(scaled), 7, 640, 1 / 5))
    return found


def errors(case: Case, seeds: int) -> dict[str, float]:
    """Return the mean relative error of every map."""
    K = case.kernel(case.rows)
    size = np.linalg.norm(K)
    result = {}
    for name, features in case.maps.items():
        print(f"  {name} ...", file=sys.stderr)
        drawn = (features(case.rows, seed) for seed in range(seeds))
        result[name] = float(np.mean([np.linalg.norm(Z @ Z.T - K) / size for Z in drawn]))
    return result


def main() -> None:
    """Print one table a case, and whether the best of our plans is where it has to be."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    results, panels = {}, {}
    for case in cases(options.data, options.rows):
        print(case.title, file=sys.stderr)
        found = errors(case, options.seeds)
        unit = found[case.reference] if case.reference else 1.0
        plain = found["mercer Maclaurin"] / unit
        print(f"\n{case.title}: mean of {options.seeds} seeds on {len(case.rows)} rows")
        print(f"{'map':<34}{'relative error':>16}{'/ reference':>14}")
        for name, value in sorted(found.items(), key=lambda item: item[1]):
            print(f"{name:<34}{value:>16.3g}{value / unit if case.reference else np.nan:>14.3f}")
        print(
            f"default plan {plain:.3g}, required at most {case.at_most:.3g}: "
            f"{'met' if plain <= case.at_most else 'NOT MET'}"
        )
        results[case.title] = {"errors": found, "reference": case.reference, "at_most": case.at_most}
        panels[case.title] = {name: value / max(found.values()) for name, value in found.items()}
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))
    if options.plot:
        plots.bars(panels, (), "relative error, in units of the largest", options.plot)


if __name__ == "__main__":
    main()
