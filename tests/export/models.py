"""Fitted models for the tests of exports: all maps and learners, and what the model itself computes."""

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from mercer import (
    CallableKernel,
    Deformed,
    FewLabelClassifier,
    GaussianProcessClassifier,
    GraphBasis,
    KernelLogisticRegression,
    KernelRidgeClassifier,
    KernelSVC,
    Matern,
    Precomputed,
)
from mercer.export.checks import expected

from ..instances import KERNELS, LEARNERS, MAPS

X = np.abs(np.random.default_rng(0).normal(size=(60, 3))) + 0.01
Y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(1).normal(size=60)
LABELS = np.array(["low", "middle", "high"])[np.digitize(Y, np.quantile(Y, [0.3, 0.6]))]
# Rows that were not seen, which float32 represents exactly.
ROWS = (0.99 * X[:20]).astype(np.float32).astype(np.float64)


def is_of_graph(model):
    """Return whether a model has the features of a GraphBasis."""
    parts = getattr(model, "maps", None) or ()
    return isinstance(model, GraphBasis | FewLabelClassifier) or any(isinstance(part, GraphBasis) for part in parts)


CLASSIFIERS = (KernelRidgeClassifier, KernelLogisticRegression, KernelSVC)
# The rows of a local correction may be where the fit has read them: such a model cannot be exported.
# Nor can eigenvectors of a graph, whose values at new rows are found by a search, and averages over posteriors.
MODELS = [
    m
    for m in MAPS + LEARNERS
    if getattr(getattr(m, "neighbors", None), "rows", None) != "source"
    and not is_of_graph(m)
    and not isinstance(m, GaussianProcessClassifier)
]

# One kernel of each class that has values for all rows, and a Matern kernel without an elementary formula.
KERNELS_BY_CLASS = list({type(k): k for k in KERNELS if not isinstance(k, CallableKernel | Precomputed)}.values())
KERNELS_BY_CLASS.append(Matern(0.7))


def fitted(model):
    """Return a fitted copy; graphs of given weights have 24 rows."""
    n = 24 if isinstance(model, Deformed) and sp.issparse(model.graph) else len(X)
    model = clone(model)
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    return model.fit(X[:n], (LABELS if isinstance(model, CLASSIFIERS) else Y)[:n])


def name_of(model):
    return type(model).__name__


def differences(program, found, model, rows):
    """Return the largest difference of each output, in units of its largest value or of one; labels must be equal."""
    out = {}
    for name, truth in expected(model, program, rows).items():
        values = np.asarray(found[name])
        if name == "label":
            if program.classes is not None and values.dtype.kind in "iu" and program.classes.dtype.kind not in "iu":
                values = program.classes[values]
            assert values.tolist() == truth.tolist()
            continue
        out[name] = np.abs(values.reshape(truth.shape) - truth).max() / max(1.0, np.abs(truth).max())
    return out
