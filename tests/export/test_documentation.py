"""Every line of the tables of docs/export.md is true."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import mercer
from mercer import (
    CallableKernel,
    ColumnScaler,
    Composed,
    Constant,
    Deformed,
    DeformedSearchCV,
    ExportError,
    Gaussian,
    GaussianProcessClassifier,
    Kernel,
    KernelClassifier,
    KernelRegressor,
    KernelRidgeClassifier,
    LocalCorrection,
    NeighborGraph,
    Nystroem,
    Polynomial,
    Precomputed,
    Product,
    Scaled,
    Sum,
    TablePreprocessor,
    Transformed,
)
from mercer.export import graph as g
from mercer.export.kernels import kernel_values
from mercer.export.numpy_file import numpy_source
from mercer.export.program import program_of

from ..instances import KERNELS
from .models import LABELS, MODELS, X, Y, fitted

pytestmark = pytest.mark.filterwarnings("ignore")  # of few rows, which are not the subject
TEXT = (Path(__file__).parents[2] / "docs" / "export.md").read_text(encoding="utf-8")
ESTIMATORS = dict(re.findall(r"^\| `(\w+)` \| yes \| yes \| (.*) \|$", TEXT, re.MULTILINE))
NOT_EXPORTED = set(re.findall(r"^\| `(\w+)` \| no \| no \| no \|$", TEXT, re.MULTILINE))
OF_KERNELS = dict(re.findall(r"^\| `(\w+)` \| (yes|no) \|$", TEXT, re.MULTILINE))
EXAMPLES = {type(model).__name__: model for model in reversed(MODELS)} | {
    "ColumnScaler": ColumnScaler(),
    "TablePreprocessor": TablePreprocessor(),
    "KernelRegressor": KernelRegressor(random_state=0, time_limit=0.5),
    "KernelClassifier": KernelClassifier(random_state=0, time_limit=0.5),
}
EXAMPLES_OF_KERNELS = {type(kernel).__name__: kernel for kernel in KERNELS} | {
    "Composed": Composed(Polynomial(2), Gaussian()),
    "Constant": Constant(2.0),
    "Product": Product(Gaussian(), Polynomial()),
    "Scaled": Scaled(Gaussian(), 2.0),
    "Sum": Sum(Gaussian(), Polynomial()),
    "Transformed": Transformed(Gaussian(), columns=(0,)),
    "CallableKernel": CallableKernel(np.dot),
}


def public(base):
    """Return the names of the public classes with a base class, except for abstract ones and parameters."""
    found = (getattr(mercer, name) for name in mercer.__all__ if name not in ("Kernel", "torch"))
    others = (LocalCorrection, mercer.FeatureGraph, mercer.NeighborGraph, mercer.GraphBasis, mercer.FewLabelClassifier)
    return {cls.__name__ for cls in found if isinstance(cls, type) and issubclass(cls, base) and cls not in others}


def test_all_public_estimators_and_kernels_are_in_the_tables():
    assert set(ESTIMATORS) | NOT_EXPORTED == public(BaseEstimator)
    assert set(OF_KERNELS) == public(Kernel)


def model_of(name):
    """Return a fitted model of a class."""
    if name == "DeformedSearchCV":
        y = np.where(np.arange(60) % 4 == 0, (LABELS == "low").astype(int), -1)
        deformed = Deformed(Nystroem(Gaussian("median"), 12, random_state=0), NeighborGraph(4))
        return DeformedSearchCV(KernelRidgeClassifier(deformed, unlabeled=-1)).fit(X, y)
    if name == "TablePreprocessor":
        return EXAMPLES[name].fit(np.array([[1.0, "a"], [2.0, "b"], [3.0, None]] * 5, dtype=object))
    if name in ("KernelRegressor", "KernelClassifier"):
        return EXAMPLES[name].fit(X, Y if name == "KernelRegressor" else LABELS)
    return fitted(EXAMPLES[name])


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators(name):
    # That the numbers are right is tested for all instances elsewhere.
    model = model_of(name)
    program = program_of(model)
    source, _ = numpy_source(program, "model.npz")
    compile(source, "model.py", "exec")
    if "FeatureLayer" not in ESTIMATORS[name]:
        assert ESTIMATORS[name] == "no"
    pytest.importorskip("onnx")
    from mercer.export.onnx_file import onnx_model

    assert onnx_model(program).graph.node
    pytest.importorskip("torch")
    from mercer.torch import FeatureLayer, LinearHead

    if ESTIMATORS[name] == "no":
        with pytest.raises(ExportError):
            LinearHead(model)
        with pytest.raises(ExportError):
            FeatureLayer(model)
    elif "LinearHead" in ESTIMATORS[name]:
        model = getattr(model, "best_estimator_", model)
        assert FeatureLayer(model.feature_map_).n_components == LinearHead(model).weight.shape[1]
    else:
        assert FeatureLayer(model).n_components == program.outputs["variable"].shape[1]


def test_what_is_not_exported_is_refused():
    assert {"GaussianProcessClassifier"} == NOT_EXPORTED
    model = GaussianProcessClassifier(Nystroem(Gaussian(), 10, random_state=0), amplitude=2.0).fit(X, LABELS)
    with pytest.raises(ExportError, match="GaussianProcessClassifier"):
        program_of(model)
    pytest.importorskip("torch")
    from mercer.torch import LinearHead

    with pytest.raises(ExportError, match="GaussianProcessClassifier"):
        LinearHead(model)


@pytest.mark.parametrize("name", OF_KERNELS)
def test_kernels(name):
    kernel = EXAMPLES_OF_KERNELS[name]
    rows = kernel.matrix if isinstance(kernel, Precomputed) else X[:5]
    if OF_KERNELS[name] == "yes":
        assert kernel_values(kernel, g.rows(3), g.constant(rows)).shape == (2, len(rows))
    else:
        with pytest.raises(ExportError):
            kernel_values(kernel, g.rows(3), g.constant(rows))
