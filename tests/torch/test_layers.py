"""Modules of PyTorch: the numbers of maps and learners, and gradients in inputs and lengthscales."""

import copy
import pickle
import sys

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import mercer.torch
from mercer import (
    ColumnScaler,
    ExportError,
    Gaussian,
    GaussianProcessRegressor,
    KernelLogisticRegression,
    KernelPCA,
    KernelRidge,
    KernelRidgeClassifier,
    KernelSVC,
    Laplacian,
    LocalCorrection,
    Matern,
    MissingPackageError,
    Nystroem,
    ParameterError,
    Polynomial,
    RandomFourier,
    RandomMaclaurin,
    RandomNeurons,
    ScaledColumns,
    TensorSketch,
    Transformed,
)

from ..export.models import KERNELS_BY_CLASS, LABELS, ROWS, X, Y, fitted, is_of_graph, name_of
from ..instances import MAPS

pytestmark = pytest.mark.filterwarnings("ignore")  # of few rows, which are not the subject


def test_without_torch_the_message_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingPackageError, match=r"FeatureLayer needs torch.*pip install 'mercer\[torch\]'"):
        _ = mercer.torch.FeatureLayer
    with pytest.raises(AttributeError, match="has no attribute 'Layer'"):
        _ = mercer.torch.Layer


torch = pytest.importorskip("torch")
FeatureLayer, LinearHead = mercer.torch.FeatureLayer, mercer.torch.LinearHead
DOUBLE = {"dtype": torch.float64}


def of(layer, rows, dtype=torch.float64):
    return layer(torch.from_numpy(np.asarray(rows)).to(dtype)).detach().numpy()


@pytest.mark.covering(1, model=type)
@pytest.mark.parametrize("model", [model for model in MAPS if not is_of_graph(model)], ids=name_of)
def test_features_are_those_of_the_map(model):
    model = fitted(model)
    truth = model.transform(ROWS)
    size = max(1.0, np.abs(truth).max())
    for trainable in (None, "lengthscale", "all"):
        layer = FeatureLayer(model, trainable=trainable, **DOUBLE)
        assert np.abs(of(layer, ROWS) - truth).max() < 1e-10 * size
        assert bool(list(layer.parameters())) == (trainable is not None)
    single = FeatureLayer(model)
    found = of(single, ROWS, torch.float32)
    assert found.dtype in (np.float32, np.complex64, np.complex128)
    assert np.abs(found - truth).max() < 1e-5 * size
    assert layer.n_components == truth.shape[1]


@pytest.mark.parametrize("kernel", KERNELS_BY_CLASS, ids=repr)
def test_values_of_kernels(kernel):
    model = Nystroem(kernel, 5, landmarks="uniform", random_state=0).fit(X)
    truth = model.transform(ROWS)
    assert np.abs(of(FeatureLayer(model), ROWS) - truth).max() < 1e-8 * max(1.0, np.abs(truth).max())


GRADIENTS = {
    "fourier": RandomFourier(2.0 * Gaussian(0.7), 12),
    "butterfly": RandomFourier(Matern(), 12, directions="butterfly"),
    "phase": RandomFourier(Gaussian(), 7, form="phase"),
    "landmarks": Nystroem(Matern(1.5), 6),
    "bessel": Nystroem(Matern(1.2), 6),
    "laplacian": Nystroem(Laplacian(), 6),
    "scaled": ScaledColumns(Nystroem(Gaussian("median"), 6)),
    "series": RandomMaclaurin(Gaussian(3.0), 20),
    "sketch": TensorSketch(Polynomial(3), 8),
    "neurons": RandomNeurons(n_components=20),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_in_inputs_and_lengthscales(name):
    layer = FeatureLayer(fitted(GRADIENTS[name]), **DOUBLE)
    rows = torch.from_numpy(ROWS[:3]).requires_grad_()

    def function(X, log_lengthscale):
        return torch.func.functional_call(layer, {"log_lengthscale": log_lengthscale}, X)

    start = (layer.log_lengthscale.detach() + 0.1).requires_grad_()
    assert torch.autograd.gradcheck(function, (rows, start), atol=1e-5)


def test_rounding_of_scaled_columns_does_not_stop_gradients():
    gradients = []
    for spacing in (None, 2.0**-26):
        kernel = Transformed(Gaussian(), lengthscales=(1.0, 2.0, 3.0), spacing=spacing)
        layer = FeatureLayer(Nystroem(kernel, 6, random_state=0).fit(X), **DOUBLE)
        rows = torch.from_numpy(ROWS[:3]).requires_grad_()
        layer(rows).square().sum().backward()
        gradients.append([rows.grad.numpy(), layer.log_lengthscale.grad.numpy()])
    assert all(np.abs(one).max() > 1e-3 for one in gradients[0])
    for expected, found in zip(*gradients, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_gradient_at_a_landmark_is_finite():
    model = Nystroem(Matern(0.5), 8, random_state=0).fit(X)
    rows = torch.from_numpy(np.array(model.features_.landmarks)).requires_grad_()
    FeatureLayer(model)(rows).sum().backward()
    assert torch.isfinite(rows.grad).all()


@pytest.mark.parametrize(
    ("kernel", "lengthscales"),
    [
        (Gaussian(2.0), [2.0, 2.0, 2.0]),
        (3.0 * Matern(1.5, 0.5) + 1, [0.5, 0.5, 0.5]),
        (Transformed(Gaussian(2.0), lengthscales=(1.0, 2.0, 3.0)), [2.0, 4.0, 6.0]),
        (Gaussian(2.0) + Gaussian(3.0), [1.0, 1.0, 1.0]),
    ],
    ids=repr,
)
def test_lengthscales_start_at_those_of_the_kernel(kernel, lengthscales):
    layer = FeatureLayer(RandomFourier(kernel, 16, random_state=0).fit(X), **DOUBLE)
    assert layer.lengthscale.tolist() == pytest.approx(lengthscales)


@pytest.mark.parametrize("make", [RandomFourier, Nystroem])
def test_features_of_other_lengthscales_are_those_of_another_kernel(make):
    model = make(Gaussian(1.0), 12, random_state=0).fit(X)
    layer = FeatureLayer(model, **DOUBLE)
    with torch.no_grad():
        layer.log_lengthscale.copy_(torch.log(torch.tensor([0.5, 1.0, 2.0], **DOUBLE)))
    factors = np.array([0.5, 1.0, 2.0])
    Z = model.features_.lengthscales.multiplied(factors)
    truth = np.empty((20, 12))
    Z(ROWS, truth)
    found = of(layer, ROWS)
    assert found @ found.T == pytest.approx(truth @ truth.T, abs=1e-9)


def test_training_recovers_lengthscales():
    model = KernelRidge(RandomFourier(Gaussian(2.0), 60, random_state=0)).fit(X, Y)
    layer, head = FeatureLayer(model.feature_map_, **DOUBLE), LinearHead(model, trainable=False, **DOUBLE)
    rows, wanted = torch.from_numpy(X), torch.tensor([1.6, 2.0, 2.5], **DOUBLE)
    with torch.no_grad():
        layer.log_lengthscale.copy_(wanted.log())
        targets = head(layer(rows))
        layer.log_lengthscale.fill_(np.log(2.0))
    module = torch.nn.Sequential(layer, head)
    optimizer = torch.optim.LBFGS(module.parameters(), max_iter=50, line_search_fn="strong_wolfe")

    def loss():
        optimizer.zero_grad()
        value = torch.mean((module(rows) - targets) ** 2)
        value.backward()
        return value

    optimizer.step(loss)
    assert layer.lengthscale.detach().numpy() == pytest.approx(wanted.numpy(), rel=0.05)


@pytest.mark.parametrize("feature_map", ["landmarks", "fourier"])
def test_state_copies_pickles_and_dtypes(feature_map):
    layer = FeatureLayer(fitted(GRADIENTS[feature_map]), trainable="all", **DOUBLE)
    truth = of(layer, ROWS)
    for again in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert of(again, ROWS).tolist() == truth.tolist()
    other = FeatureLayer(fitted(GRADIENTS[feature_map]), trainable="all", **DOUBLE)
    with torch.no_grad():
        for one in other.parameters():
            one.add_(1.0)
    other.load_state_dict(layer.state_dict())
    assert of(other, ROWS).tolist() == truth.tolist()
    single = layer.to(torch.float32)
    assert of(single, ROWS, torch.float32) == pytest.approx(truth, abs=1e-5)
    if feature_map == "landmarks":  # whitening magnifies rounding errors, so that its constants stay in float64
        assert {one.dtype for one in single.parameters()} == {torch.float64}
        assert single(torch.zeros(1, 3)).dtype == torch.float32
    else:
        assert {one.dtype for one in single.parameters()} == {torch.float32}


@pytest.mark.parametrize("feature_map", ["landmarks", "butterfly"])
def test_export_and_trace(feature_map):
    layer = FeatureLayer(fitted(GRADIENTS[feature_map]), trainable=None, **DOUBLE)
    rows = torch.from_numpy(ROWS)
    truth = layer(rows)
    assert torch.equal(torch.jit.trace(layer, rows[:3])(rows), truth)
    exported = torch.export.export(layer, (rows,))
    assert torch.allclose(exported.module()(rows), truth)


LEARNERS = {
    "ridge": KernelRidge(random_state=0),
    "process": GaussianProcessRegressor(random_state=0),
    "features alone": KernelRidge(Matern(), neighbors=LocalCorrection(5, parts="global"), random_state=0),
}


@pytest.mark.parametrize("targets", [Y, np.column_stack([Y, Y**2])], ids=["one", "two"])
@pytest.mark.parametrize("name", LEARNERS)
def test_regressors(name, targets):
    model = LEARNERS[name].fit(X, targets)
    module = torch.nn.Sequential(FeatureLayer(model.feature_map_, **DOUBLE), LinearHead(model, **DOUBLE))
    truth = model.predict(ROWS)
    assert of(module, ROWS).shape == truth.shape
    assert np.abs(of(module, ROWS) - truth).max() < 1e-9 * max(1, np.abs(truth).max())
    single = torch.nn.Sequential(FeatureLayer(model.feature_map_), LinearHead(model))
    assert np.abs(of(single, ROWS, torch.float32) - truth).max() < 1e-5 * max(1, np.abs(truth).max())


@pytest.mark.parametrize("labels", [LABELS, LABELS == "low"], ids=["three", "two"])
@pytest.mark.parametrize("make", [KernelRidgeClassifier, KernelLogisticRegression, KernelSVC])
def test_classifiers(make, labels):
    model = make(random_state=0).fit(X, labels)
    layer, head = FeatureLayer(model.feature_map_, **DOUBLE), LinearHead(model, trainable=False, **DOUBLE)
    Z = layer(torch.from_numpy(ROWS))
    assert head(Z).detach().numpy() == pytest.approx(model.decision_function(ROWS), abs=1e-9)
    assert head.classes.tolist() == model.classes_.tolist()
    assert not list(head.parameters())
    if make is KernelSVC:
        with pytest.raises(AttributeError, match="no probabilities"):
            head.predict_proba(Z)
    else:
        assert head.predict_proba(Z).detach().numpy() == pytest.approx(model.predict_proba(ROWS), abs=1e-9)


def test_transformers_and_components():
    model = make_pipeline(ColumnScaler("ranks"), RandomFourier(Gaussian(), 10, random_state=0)).fit(X)
    assert of(FeatureLayer(model, **DOUBLE), ROWS) == pytest.approx(model.transform(ROWS), abs=1e-12)
    model = KernelPCA(Gaussian(), 3, random_state=0).fit(X)
    module = torch.nn.Sequential(FeatureLayer(model.feature_map_, **DOUBLE), LinearHead(model, **DOUBLE))
    assert of(module, ROWS) == pytest.approx(model.transform(ROWS), abs=1e-9)


def test_mistakes_are_explained():
    model = KernelRidge(Matern(), neighbors=LocalCorrection(5, parts="local"), random_state=0).fit(X, Y)
    with pytest.raises(ExportError, match=r"predicts from near rows \(local_.parts is 'local'\)"):
        LinearHead(model)
    with pytest.raises(ExportError, match="needs a fitted learner of mercer that is linear"):
        LinearHead(ColumnScaler().fit(X))
    with pytest.raises(ExportError, match="needs a fitted map or transformer, got KernelRidge"):
        FeatureLayer(KernelRidge(random_state=0).fit(X, Y))
    layer = FeatureLayer(RandomFourier(Gaussian(), 8, random_state=0).fit(X))
    with pytest.raises(ValueError, match=r"X must have the shape \(n, 3\), got \(2, 4\)"):
        layer(torch.zeros(2, 4))
    with pytest.raises(ParameterError, match="trainable must be one of 'lengthscale', 'all', None"):
        FeatureLayer(RandomFourier(Gaussian(), 8).fit(X), trainable="everything")
    assert repr(layer) == "FeatureLayer(n_features=3, n_components=8)"
