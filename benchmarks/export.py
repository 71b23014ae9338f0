"""Differences and speed of exported models on a real table: ``python benchmarks/export.py --data DIR [--rows N]``.

The folder has npz files with `X` and `y`. For each model: the largest difference of the ONNX graph in float32 and of
the Python file, in units of the largest value, and the rows per second of mercer, onnxruntime and the Python file.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

import mercer
from mercer import (
    ColumnScaler,
    Gaussian,
    GaussianProcessRegressor,
    KernelKMeans,
    KernelLogisticRegression,
    KernelPCA,
    KernelRidge,
    KernelRidgeClassifier,
    KernelSVC,
    LearnedMetric,
    Matern,
    Nystroem,
    RandomFourier,
    RandomMaclaurin,
    RandomNeurons,
    ScaledColumns,
    SphericalRadial,
    TensorSketch,
    export_model,
)


def scaled(feature_map: Any) -> ScaledColumns:
    """Return a map of scaled columns."""
    return ScaledColumns(feature_map, random_state=0)


MODELS: dict[str, Callable[[], Any]] = {
    "ColumnScaler(ranks)": lambda: ColumnScaler("ranks"),
    "RandomFourier": lambda: scaled(RandomFourier(Gaussian("median"), 1024)),
    "RandomFourier(butterfly)": lambda: scaled(RandomFourier(Gaussian("median"), 1024, directions="butterfly")),
    "RandomFourier(hadamard)": lambda: scaled(RandomFourier(Gaussian("median"), 1024, directions="hadamard")),
    "SphericalRadial": lambda: scaled(SphericalRadial(Gaussian("median"), 1024)),
    "Nystroem(Matern 0.5)": lambda: scaled(Nystroem(Matern(0.5, "median"), 512)),
    "Nystroem(Matern 1.3)": lambda: scaled(Nystroem(Matern(1.3, "median"), 512)),
    "RandomMaclaurin": lambda: scaled(RandomMaclaurin(Gaussian(10.0), 1024)),
    "RandomNeurons": lambda: scaled(RandomNeurons(n_components=1024)),
    "TensorSketch": lambda: scaled(TensorSketch(n_components=1024)),
    "KernelPCA": lambda: KernelPCA(Gaussian(), 10, random_state=0),
    "KernelKMeans": lambda: KernelKMeans(n_clusters=10, random_state=0),
    "KernelRidge": lambda: KernelRidge(random_state=0),
    "KernelRidge(metric)": lambda: KernelRidge(LearnedMetric(random_state=0), random_state=0),
    "KernelRidge(neighbors=64)": lambda: KernelRidge(neighbors=64, random_state=0),
    "KernelRidgeClassifier": lambda: KernelRidgeClassifier(random_state=0),
    "KernelRidgeClassifier(neighbors=64)": lambda: KernelRidgeClassifier(neighbors=64, random_state=0),
    "KernelLogisticRegression": lambda: KernelLogisticRegression(random_state=0),
    "KernelSVC": lambda: KernelSVC(random_state=0),
    "GaussianProcessRegressor": lambda: GaussianProcessRegressor(random_state=0),
}


def speed(function: Callable[[], Any], rows: int) -> float:
    """Return the number of rows per second, of the fastest of three calls."""
    best = np.inf
    for _ in range(3):
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return rows / best


def main() -> None:
    """Print one line per model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of npz files")
    parser.add_argument("--table", default="cal_housing")
    parser.add_argument("--rows", type=int, default=5000, help="rows of a fit")
    parser.add_argument("--models", nargs="*", help="names; all by default")
    options = parser.parse_args()
    with np.load(options.data / f"{options.table}.npz", allow_pickle=False) as file:
        X, y = np.asarray(file["X"], dtype=float), file["y"]
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]
    n = min(options.rows, len(X) - 500)
    labels = y if len(np.unique(y)) < 50 else np.digitize(y, np.quantile(y, [1 / 3, 2 / 3]))
    test = X[n : n + 500]
    print(f"{options.table}: {n} rows of {X.shape[1]} features; mercer {mercer.__version__}")
    print(f"{'model':<36} {'ONNX':>8} {'Python':>8} {'rows/s: mercer':>15} {'ONNX':>10} {'Python':>10} {'MB':>6}")
    for name, make in MODELS.items():
        if options.models and name not in options.models:
            continue
        model = make()
        with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
            warnings.simplefilter("ignore")
            model.fit(X[:n], labels[:n] if hasattr(model, "decision_function") else y[:n].astype(float))
            onnx = export_model(model, f"{folder}/model.onnx", rows=test)
            python = export_model(model, f"{folder}/model.py", to="python", rows=test)
            names: dict[str, Any] = {"__name__": "model", "__file__": f"{folder}/model.py"}
            exec(compile(python.path.read_text(), "model.py", "exec"), names)
            session = onnxruntime.InferenceSession(str(onnx.path), providers=["CPUExecutionProvider"])
            batches = np.split(test.astype(np.float32), 5)
            method = model.predict if hasattr(model, "predict") else model.transform
            rates = [
                speed(lambda method=method: method(test), 500),
                speed(lambda s=session, b=batches: [s.run(None, {"X": one}) for one in b], 500),
                speed(lambda names=names: names["in_blocks"](test), 500),
            ]
            print(
                f"{name:<36} {onnx.relative_difference:8.1e} {python.relative_difference:8.1e} {rates[0]:15,.0f} "
                f"{rates[1]:10,.0f} {rates[2]:10,.0f} {onnx.size / 2**20:6.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
