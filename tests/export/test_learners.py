"""Graphs of learners compute predictions, labels, probabilities and standard deviations."""

import numpy as np
import pytest
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, RobustScaler, StandardScaler

from mercer import (
    ColumnScaler,
    Deformed,
    DeformedSearchCV,
    ExportError,
    Gaussian,
    GaussianProcessRegressor,
    KernelClassifier,
    KernelKMeans,
    KernelLogisticRegression,
    KernelPCA,
    KernelRegressor,
    KernelRidge,
    KernelRidgeClassifier,
    KernelSVC,
    NeighborGraph,
    Nystroem,
    RandomFourier,
)
from mercer.export.program import program_of

from ..instances import LEARNERS
from .models import LABELS, MODELS, ROWS, X, Y, differences, fitted, name_of

pytestmark = pytest.mark.filterwarnings("ignore")  # of few rows, which are not the subject


@pytest.mark.covering(1, model=type)
@pytest.mark.parametrize("model", [m for m in MODELS if m in LEARNERS], ids=name_of)
def test_results_are_those_of_the_learner(model):
    model = fitted(model)
    program = program_of(model)
    assert max(differences(program, program(ROWS), model, ROWS).values()) < 1e-10


@pytest.mark.parametrize("make", [KernelRidgeClassifier, KernelLogisticRegression, KernelSVC])
@pytest.mark.parametrize("labels", [LABELS, LABELS == "low", np.where(LABELS == "low", 2.0, -1.0)], ids=["3", "2", "f"])
def test_labels_of_any_kind(make, labels):
    model = make(random_state=0).fit(X, labels)
    program = program_of(model)
    assert max(differences(program, program(ROWS), model, ROWS).values()) < 1e-9


def test_several_targets():
    model = KernelRidge(random_state=0).fit(X, np.column_stack([Y, -Y]))
    program = program_of(model)
    assert program(ROWS)["variable"].shape == (20, 2)
    assert max(differences(program, program(ROWS), model, ROWS).values()) < 1e-9


@pytest.mark.parametrize(
    "model",
    [
        GaussianProcessRegressor(RandomFourier(Gaussian(), 40), lengthscale_tuning=None),
        GaussianProcessRegressor(RandomFourier(Gaussian(), 40), lengthscale_tuning=None, variance_method="pathwise"),
        GaussianProcessRegressor(Nystroem(1 + Gaussian(), 10), lengthscale_tuning=None),
        GaussianProcessRegressor(),
    ],
    ids=["weights", "pathwise", "landmarks", "default"],
)
def test_standard_deviations_of_gaussian_processes(model):
    model = model.set_params(random_state=0).fit(X, np.column_stack([Y, Y**2]))
    program = program_of(model, return_std=True)
    found = differences(program, program(ROWS), model, ROWS)
    assert set(found) == {"variable", "std"}
    assert max(found.values()) < 1e-9


def test_landmarks_are_rounded_as_in_the_model():
    # Without noise, weights of nearly equal landmarks are large, and other landmarks would give other predictions.
    X = np.random.default_rng(0).uniform(size=(400, 3))
    model = GaussianProcessRegressor(random_state=0).fit(X, np.exp(X[:, 0] + 0.5 * X[:, 1] * X[:, 2]))
    new = np.random.default_rng(1).uniform(size=(50, 3))
    found = differences(program := program_of(model), program(new), model, new)
    assert max(found.values()) < 1e-7


def test_exact_clusters():
    model = KernelKMeans(Gaussian(0.7), 4, exact=True, random_state=0).fit(X)
    program = program_of(model)
    assert max(differences(program, program(X), model, X).values()) < 1e-7  # distances near zero are roots of rounding


@pytest.mark.parametrize("method", ["spread", "ranks", "components", "ramps"])
def test_scaled_columns(method):
    rows = np.column_stack([X, np.exp(3 * X[:, 0]), np.ones(len(X)), X[:, 0] > 1])
    model = ColumnScaler(method).fit(rows)
    program = program_of(model)
    # Scaled columns are rounded, and half of a step may be rounded up here and down there.
    found, expected = program(3 * rows)["variable"], model.transform(3 * rows)
    assert found == pytest.approx(expected, abs=2e-8)
    assert np.mean(np.abs(found - expected) > 1e-12) < 0.01


@pytest.mark.parametrize(
    "step",
    [
        StandardScaler(),
        StandardScaler(with_mean=False),
        StandardScaler(with_std=False),
        MinMaxScaler(clip=True),
        MaxAbsScaler(),
        RobustScaler(),
        RobustScaler(with_centering=False, with_scaling=False),
        Normalizer(),
        PCA(2, whiten=True),
        TruncatedSVD(2),
        "passthrough",
        RandomFourier(Gaussian(), 10, random_state=0),
    ],
    ids=repr,
)
def test_pipelines(step):
    model = make_pipeline(step, KernelRidgeClassifier(random_state=0)).fit(X, LABELS)
    program = program_of(model)
    assert max(differences(program, program(ROWS), model, ROWS).values()) < 1e-9


def test_pipeline_of_transformers_and_components():
    model = make_pipeline(ColumnScaler(), KernelPCA(Gaussian(), 3, whiten=True, random_state=0)).fit(X)
    assert program_of(model)(ROWS)["variable"] == pytest.approx(model.transform(ROWS), abs=1e-9)


def test_deformed_search():
    y = np.full(60, -1)
    y[::4] = (LABELS == "low")[::4]
    deformed = Deformed(Nystroem(Gaussian("median"), 12, random_state=0), NeighborGraph(4))
    model = DeformedSearchCV(KernelRidgeClassifier(deformed, unlabeled=-1)).fit(X, y)
    program = program_of(model)
    assert max(differences(program, program(ROWS), model, ROWS).values()) < 1e-9


@pytest.mark.parametrize("make", [KernelRegressor, KernelClassifier])
def test_automatic_models(make):
    model = make(random_state=0, time_limit=1).fit(X, Y if make is KernelRegressor else LABELS)
    program = program_of(model, return_std=make is KernelRegressor)
    assert max(differences(program, program(ROWS), model, ROWS).values()) < 1e-9


@pytest.mark.parametrize(
    ("model", "options", "why"),
    [
        (Ridge().fit(X, Y), {}, "Ridge cannot be exported: it has no formula"),
        (KernelRidge(), {}, "needs a fitted model, got KernelRidge, which is not fitted"),
        (object(), {}, "needs a fitted model"),
        (KernelRidge(random_state=0).fit(X, Y), {"return_std": True}, "KernelRidge has no standard deviations"),
        (make_pipeline(Normalizer("l1"), KernelPCA(Gaussian())).fit(X), {}, "only norm='l2' has a formula"),
    ],
    ids=["other", "unfitted", "object", "std", "norm"],
)
def test_models_that_cannot_be_exported_say_why(model, options, why):
    with pytest.raises(ExportError, match=why):
        program_of(model, **options)
