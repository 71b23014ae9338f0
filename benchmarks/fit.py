"""Time and memory of a fit on MNIST beside its own matrix products and beside scikit-learn.

    python benchmarks/fit.py --data DIR [--quick] [--rounds 3] [--output DIR]

DIR holds mnist.npz with arrays X_train, y_train, X_test, y_test. Both models are ridge classifiers on as many Fourier
features of the same Gaussian kernel, in float32. Times come from one process, in turn; peak memory from a process each.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import machine
import numpy as np
import plots
from harness import Check, Report, Timing, format_table, interleave, parser_for, pick, ratio
from scipy.linalg.blas import ssyrk
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline

from mercer import Gaussian, KernelRidgeClassifier, RandomFourier
from mercer.engines import block_rows_for

ROWS, COLUMNS = 60000, 4096
QUICK_ROWS, QUICK_COLUMNS = 10000, 2048
ALPHA = 1.0
SEED = 0
WITHIN_PRODUCTS = 1.25
TIMES_FASTER = 2.0
MEMORY_SHARE = 0.25

OURS, PEER = "mercer KernelRidgeClassifier", "RBFSampler + RidgeClassifier"
GEMM = "GEMM of the projection"
SYRKS = ("SYRK of the features, NumPy", "SYRK of the features, BLAS of SciPy")
MODELS = {"ours": OURS, "peer": PEER}


@dataclass(frozen=True)
class Data:
    """Rows scaled to [0, 1] in float32, with their labels."""

    X: np.ndarray
    y: np.ndarray

    @classmethod
    def load(cls, directory: Path, part: str, rows: int | None = None) -> Data:
        """Load the part "train" or "test", or its first rows."""
        with np.load(directory / "mnist.npz") as arrays:
            X, y = arrays[f"X_{part}"][:rows], arrays[f"y_{part}"][:rows]
        X = X.astype(np.float32)
        X /= 255
        return cls(X, y)


def median_kernel(X: np.ndarray) -> Gaussian:
    """Return the Gaussian kernel whose lengthscale is the median distance of a seeded sample of rows."""
    return RandomFourier(Gaussian("median"), 2, random_state=SEED).fit(X).kernel_


def new_model(which: str, lengthscale: float, columns: int) -> Any:
    """Return one of the two models, unfitted."""
    if which == "ours":
        feature_map = RandomFourier(Gaussian(lengthscale), columns, random_state=SEED)
        return KernelRidgeClassifier(feature_map, alpha=ALPHA, random_state=SEED)
    sampler = RBFSampler(gamma=0.5 / lengthscale**2, n_components=columns, random_state=SEED)
    return make_pipeline(sampler, RidgeClassifier(alpha=ALPHA, solver="cholesky"))


def products(X: np.ndarray, columns: int) -> dict[str, Callable[[], None]]:
    """Return the matrix products of a fit, alone: by blocks of the size that a fit uses, on all threads of BLAS."""
    rng = np.random.default_rng(1)
    block = block_rows_for(columns, X.dtype.itemsize)
    frequencies = rng.standard_normal((X.shape[1], columns // 2), dtype=X.dtype)
    angles = np.empty((block, columns // 2), X.dtype)
    features = rng.uniform(-1, 1, (block, columns)).astype(X.dtype) / np.sqrt(columns // 2, dtype=X.dtype)
    gram = np.empty((columns, columns), X.dtype, order="F")
    sizes = [min(block, len(X) - start) for start in range(0, len(X), block)]

    def gemm() -> None:
        for number, size in enumerate(sizes):
            np.matmul(X[number * block : number * block + size], frequencies, out=angles[:size])

    def numpy_syrk() -> None:
        for size in sizes:
            # NumPy sees that this is a matrix times its own transpose, calls SYRK and mirrors the triangle.
            np.matmul(features[:size].T, features[:size], out=gram.T)

    def blas_syrk() -> None:
        for size in sizes:
            ssyrk(1.0, features[:size].T, beta=0.0, c=gram, overwrite_c=True)

    return {GEMM: gemm} | dict(zip(SYRKS, (numpy_syrk, blas_syrk), strict=True))


def floor_of(timings: dict[str, Timing]) -> float:
    """Return the seconds of the projection and of the faster of the two ways to the second moments."""
    return timings[GEMM].best + min(timings[name].best for name in SYRKS)


def measure_times(
    data: Data, test: Data, lengthscale: float, options: argparse.Namespace
) -> tuple[dict[str, Timing], dict[str, float]]:
    """Time both fits and the products in turn, and score the models of the last round."""
    fitted = {}

    def fit(which: str) -> None:
        fitted[which] = new_model(which, lengthscale, options.n_components).fit(data.X, data.y)

    cases: dict[str, Callable[[], Any]] = {name: (lambda w=which: fit(w)) for which, name in MODELS.items()}
    cases |= products(data.X, options.n_components)
    # A fit is long: a first round that is not the best costs less than an untimed one.
    timings = interleave(cases, options.rounds, warm_up=False)
    return timings, {MODELS[which]: float(model.score(test.X, test.y)) for which, model in fitted.items()}


def measure_memory(which: str, lengthscale: float, options: argparse.Namespace) -> dict[str, int]:
    """Return the peak memory of one fit in this process, and how far it is above the memory before."""
    data = Data.load(options.data, "train", options.rows)
    model = new_model(which, lengthscale, options.n_components)
    before = machine.resident_bytes()
    model.fit(data.X, data.y)
    return {"peak": machine.peak_bytes(), "own": machine.peak_bytes() - before}


def memory_of(which: str, lengthscale: float, options: argparse.Namespace) -> dict[str, int]:
    """Measure the memory of one fit in a fresh process."""
    sizes = ("--rows", str(options.rows), "--n-components", str(options.n_components))
    child = ("--memory-of", which, "--lengthscale", repr(lengthscale))
    return machine.in_fresh_process(__file__, "--data", str(options.data), *sizes, *child)


def checks_of(timings: dict[str, Timing], memory: dict[str, dict[str, int]]) -> list[Check]:
    """Return the ratios that have targets."""
    floor = floor_of(timings)
    own, process = (memory[OURS][key] / memory[PEER][key] for key in ("own", "peak"))
    return [
        Check("fit / its own GEMM and SYRK", timings[OURS].best / floor, at_most=WITHIN_PRODUCTS, limit=True),
        Check(f"times faster than {PEER}", ratio(timings[PEER], timings[OURS]), at_least=TIMES_FASTER),
        Check(f"peak memory of the fit / {PEER}", own, at_most=MEMORY_SHARE),
        Check("the same, with data and libraries", process),
    ]


def table(timings: dict[str, Timing], memory: dict[str, dict[str, int]], scores: dict[str, float]) -> str:
    """Return times, memory and accuracy."""
    floor = floor_of(timings)
    rows = [
        (
            name,
            f"{timing.best:.2f}",
            f"{timing.median:.2f}",
            f"{timing.best / floor:.2f}",
            f"{memory[name]['own'] / 1e9:.2f}" if name in memory else "",
            f"{memory[name]['peak'] / 1e9:.2f}" if name in memory else "",
            f"{scores[name]:.4f}" if name in scores else "",
        )
        for name, timing in timings.items()
    ]
    header = ("", "best s", "median", "/ products", "GB of the fit", "GB in all", "test accuracy")
    return format_table(header, rows)


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = parser_for(__doc__.splitlines()[0], rounds=3, quick_rounds=2)
    parser.add_argument("--data", type=Path, required=True, help="directory with mnist.npz")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--n-components", type=int)
    parser.add_argument("--memory-of", choices=MODELS, help=argparse.SUPPRESS)
    parser.add_argument("--lengthscale", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.rows = pick(options.quick, options.rows, ROWS, QUICK_ROWS)
    options.n_components = pick(options.quick, options.n_components, COLUMNS, QUICK_COLUMNS)
    options.rounds = pick(options.quick, options.rounds, 3, 2)
    return options


def run(options: argparse.Namespace) -> None:
    """Run, print, write."""
    data, test = Data.load(options.data, "train", options.rows), Data.load(options.data, "test")
    lengthscale = float(median_kernel(data.X).lengthscale)
    sizes = {"rows": len(data.X), "n_components": options.n_components}
    settings = sizes | {"rounds": options.rounds, "lengthscale": lengthscale, "alpha": ALPHA, "seed": SEED}
    report = Report("fit", settings, judged=sizes == {"rows": ROWS, "n_components": COLUMNS})
    report.begin()
    memory = {name: memory_of(which, lengthscale, options) for which, name in MODELS.items()}
    timings, scores = measure_times(data, test, lengthscale, options)
    print(f"\n{table(timings, memory, scores)}")
    report.results = {
        "default_directions": RandomFourier().directions,
        "seconds": {name: timing.to_dict() for name, timing in timings.items()},
        "memory_bytes": memory,
        "test_accuracy": scores,
    }
    report.checks = checks_of(timings, memory)
    stem = report.finish(options.output)
    floor = floor_of(timings)
    panel = {name: timing.best / floor for name, timing in timings.items()}
    title = f"MNIST, {len(data.X)} rows, {options.n_components} features"
    label = report.caption("time relative to GEMM + SYRK (logarithmic)")
    plots.bars({title: panel}, (GEMM, *SYRKS), label, stem.with_suffix(".png"))


def main() -> None:
    """Run the benchmark, or in a child process measure one fit."""
    options = options_of()
    if options.memory_of:
        print(json.dumps(measure_memory(options.memory_of, options.lengthscale, options)))
    else:
        run(options)


if __name__ == "__main__":
    main()
