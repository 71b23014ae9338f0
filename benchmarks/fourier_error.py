"""How far from the kernel are Fourier features of equal width? Ours beside scikit-learn's RBFSampler.

Relative Frobenius error of the approximate Gaussian kernel on standardized rows at the median lengthscale, the mean of
several seeds, for every design of directions and radii.

    python benchmarks/fourier_error.py --data DIR [--names letter adult] [--n-components 512] [--json FILE]

DIR holds .npz files with an array X or X_train.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from sklearn.kernel_approximation import RBFSampler

from mercer import Gaussian, RandomFourier

DESIGNS = {
    f"{directions}, {radii}": {"directions": directions, "radii": radii}
    for directions in ("iid", "orthogonal", "big_block", "butterfly", "hadamard")
    for radii in ("plain", "stratified")
} | {"sobol": {"directions": "sobol"}}


def standardized_rows(path: Path, n: int) -> np.ndarray:
    """Return a seeded sample of rows; columns that do not vary are left out."""
    with np.load(path) as data:
        X = data["X_train" if "X_train" in data else "X"].astype(float)
    X = X[np.random.default_rng(0).permutation(len(X))[:n]]
    scale = X.std(axis=0)
    return (X[:, scale > 0] - X[:, scale > 0].mean(axis=0)) / scale[scale > 0]


def errors(X: np.ndarray, n_components: int, seeds: int) -> dict[str, float]:
    """Return the mean relative error of every design, and of the peer under the key 'RBFSampler'."""
    kernel = Gaussian("median").resolve(X)
    K = kernel(X)

    def relative(gram: np.ndarray) -> float:
        return float(np.linalg.norm(gram - K) / np.linalg.norm(K))

    result = {}
    for name, design in DESIGNS.items():
        maps = [RandomFourier(kernel, n_components, random_state=s, **design) for s in range(seeds)]
        result[name] = float(np.mean([relative(m.fit(X).gram(X)) for m in maps]))
    gamma = 0.5 / kernel.lengthscale**2
    peers = [RBFSampler(gamma=gamma, n_components=n_components, random_state=s) for s in range(seeds)]
    features = [peer.fit_transform(X) for peer in peers]
    result["RBFSampler"] = float(np.mean([relative(Z @ Z.T) for Z in features]))
    return result


def main() -> None:
    """Print one table a data set: error, and its ratio to the peer's."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--names", nargs="+", default=["letter", "adult"])
    parser.add_argument("--n-components", type=int, default=512)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = {}
    for name in options.names:
        X = standardized_rows(options.data / f"{name}.npz", options.rows)
        results[name] = errors(X, options.n_components, options.seeds)
        peer = results[name]["RBFSampler"]
        print(f"\n{name}: {X.shape[1]} columns, {options.n_components} features, mean of {options.seeds} seeds")
        print(f"{'map':<24}{'relative error':>16}{'/ RBFSampler':>14}")
        for key, value in sorted(results[name].items(), key=lambda item: item[1]):
            print(f"{key:<24}{value:>16.5f}{value / peer:>14.3f}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
