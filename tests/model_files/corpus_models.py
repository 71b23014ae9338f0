"""The corpus of model files, which every later version must read: models, rows and the script that writes them.

    python tests/model_files/corpus_models.py

writes the files of the current format that are missing, each with what its model computed. Files are never written
again: those of earlier versions are what the corpus is for. A new class of models gets a line in `MODELS`.
"""

import json
from pathlib import Path

import numpy as np
from sklearn.pipeline import make_pipeline

from mercer import (
    ArcCosine,
    Chi2,
    ColumnScaler,
    CompositionMap,
    Deformed,
    ExponentialDotProduct,
    FeatureMap,
    Gaussian,
    GaussianProcessRegressor,
    HomogeneousFeatures,
    Intersection,
    KernelClassifier,
    KernelKMeans,
    KernelLogisticRegression,
    KernelPCA,
    KernelRegressor,
    KernelRidge,
    KernelRidgeClassifier,
    KernelSVC,
    LearnedMetric,
    LocalCorrection,
    Matern,
    NeighborGraph,
    Nystroem,
    Polynomial,
    PolynomialSketch,
    ProductMap,
    RandomFourier,
    RandomMaclaurin,
    RandomNeurons,
    ResampledFourier,
    ScaledColumns,
    SphericalRadial,
    SumMap,
    TensorSketch,
    ThresholdFeatures,
    Transformed,
    save_model,
)
from mercer.automatic import models
from mercer.model_files.files import FORMAT

FOLDER = Path(__file__).parent / "corpus"
METHODS = ("predict", "transform", "predict_proba", "decision_function")


def numbers(n, shift):
    """Return rows of three positive features, by a formula that no version of NumPy changes."""
    i = np.arange(3.0 * n).reshape(n, 3) + shift
    return 1 + np.sin(i * i)


TRAIN, TEST = numbers(40, 0.1), numbers(5, 0.7)
TARGETS = np.cos(TRAIN[:, 0]) + TRAIN[:, 1] * TRAIN[:, 2]
LABELS = np.array(["low", "mid", "high"], dtype=object)[np.digitize(TARGETS, [0.5, 1.5])]


def fourier(kernel=None, n_components=8, **options):
    return RandomFourier(kernel or Gaussian("median"), n_components, random_state=0, **options)


def landmarks(kernel=None):
    return Nystroem(kernel or Matern(1.5, "median"), 6, landmarks="uniform", random_state=0)


MODELS = {
    "fourier": fourier(Matern(2.5) + 1.0),
    "butterflies": fourier(Gaussian(0.7), directions="butterfly", radii="stratified"),
    "hadamard": fourier(Gaussian(0.7), directions="hadamard"),
    "complex": fourier(form="complex"),
    "spherical": SphericalRadial(Gaussian("median"), 9, random_state=0),
    "resampled": ResampledFourier(Gaussian("median"), 7, random_state=0),
    "thresholds": ThresholdFeatures(1 + Intersection(), 12, random_state=0),
    "homogeneous": HomogeneousFeatures(Chi2(), 12, random_state=0),
    "neurons": RandomNeurons(0.5 + ArcCosine(1), 12, random_state=0),
    "landmarks": Nystroem(Polynomial(2) + Gaussian(), 6, landmarks="kmeans", n_landmarks=8, random_state=0),
    "maclaurin": RandomMaclaurin(Gaussian(3.0), 16, random_state=0),
    "polynomial_sketch": PolynomialSketch(Polynomial(3, 0.5), 9, random_state=0),
    "tensor_sketch": TensorSketch(Polynomial(2), 9, random_state=0),
    "sum": SumMap(Gaussian() + Polynomial(2), 16, random_state=0),
    "product": ProductMap(Gaussian(3.0) * Polynomial(2), 16, random_state=0),
    "composition": CompositionMap(ExponentialDotProduct() @ Gaussian(), 16, random_state=0),
    "feature_map": FeatureMap(Gaussian(0.7), 8, random_state=0),
    "deformed": Deformed(fourier(), NeighborGraph(4)),
    "metric": LearnedMetric(fourier(), rounds=1),
    "scaled": ScaledColumns(fourier()),
    "ridge": KernelRidge(landmarks(), alpha="loo"),
    "ridge_near_rows": KernelRidge(landmarks(), alpha=0.1, neighbors=LocalCorrection(6, parts="both")),
    "ridge_classifier": KernelRidgeClassifier(fourier(), alpha="evidence"),
    "logistic": KernelLogisticRegression(fourier(), C=10.0),
    "svc": KernelSVC(fourier()),
    "process": GaussianProcessRegressor(landmarks(), lengthscale_tuning=None),
    "k_means": KernelKMeans(fourier(), 3, random_state=0),
    "pca": KernelPCA(fourier(), 3, fit_inverse_transform=True),
    "pipeline": make_pipeline(ColumnScaler("ranks"), KernelRidge(fourier())),
    "regressor": KernelRegressor(random_state=0),
    "classifier": KernelClassifier(random_state=0),
    "kernel": Transformed(2.0 * Gaussian(0.5) + Polynomial(2), columns=(2, 0), lengthscales=(0.5, 2.0)),
}


def fitted(model):
    """Return a fitted model. Automatic models have few rows."""
    if not hasattr(model, "fit"):
        return model
    n = 24 if isinstance(model, KernelRegressor | KernelClassifier) else len(TRAIN)
    has_labels = hasattr(model, "predict_proba") or hasattr(model, "decision_function")
    return model.fit(TRAIN[:n], (LABELS if has_labels else TARGETS)[:n])


def results(model):
    """Return what a model computes for rows that were not seen, as JSON values; complex numbers as pairs."""
    if not hasattr(model, "fit"):
        return {"kernel": model(TEST, TRAIN[:5]).tolist()}
    found = {name: np.asarray(getattr(model, name)(TEST)) for name in METHODS if hasattr(model, name)}
    if isinstance(model, GaussianProcessRegressor | KernelRegressor):
        found["std"] = np.asarray(model.predict(TEST, return_std=True)[1])
    pairs = {name: values.view(float) if values.dtype.kind == "c" else values for name, values in found.items()}
    return {name: values.tolist() for name, values in pairs.items()}


def main():
    models.MOST_MEMBERS = 1  # a file of several would be large
    FOLDER.mkdir(exist_ok=True)
    for name, model in MODELS.items():
        path = FOLDER / f"format{FORMAT}-{name}.mercer"
        if not path.exists():
            save_model(fitted(model), path)
            path.with_suffix(".json").write_text(json.dumps(results(model)) + "\n")
            print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
