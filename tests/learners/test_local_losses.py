"""Local corrections of logistic regression and support vector machines: dense matrices and refits as oracles."""

import pickle

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, logsumexp, softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from mercer import (
    Gaussian,
    KernelLogisticRegression,
    KernelSVC,
    LocalCorrection,
    Matern,
    Nystroem,
    ParameterError,
)
from mercer.solvers.local.near_logits import two_factors
from mercer.solvers.ridge.paths import log_loss_scale

BOTH = (KernelLogisticRegression, KernelSVC)
KERNEL = Matern(1.5, 1.1)
EXACT = 1e-22


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(120, 2)), rng.normal(size=(15, 2))
    f = np.sin(3 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=120)
    return X, np.digitize(f, [-0.5, 0.6]), T


def model_of(kind, parts="auto", n_neighbors=20, feature_map=None, **parameters):
    feature_map = Nystroem(KERNEL, 12, random_state=0) if feature_map is None else feature_map
    correction = LocalCorrection(n_neighbors, parts=parts)
    return kind(feature_map, **{"C": 1.0, "neighbors": correction, "random_state": 0, **parameters})


def labels_of(y, classes):
    return y if classes == 3 else (y > 1).astype(int)


def signs_of(y):
    return np.where(y[:, None] == np.unique(y), 1.0, -1.0)[:, -1 if len(np.unique(y)) == 2 else 0 :]


def column(values):
    return values[:, None] if values.ndim == 1 else values


def left_out_values(model, X):
    """Return the left-out logits of all rows in the order of X."""
    left_out = model.local_.left_out
    logits, _, _ = left_out.decisions()
    index = [int(np.flatnonzero((left_out.rows.X == row).all(axis=1))[0]) for row in X]
    return logits[index]


# ---- left-out decision values of the global part ------------------------------------------------


@pytest.mark.parametrize("classes", [2, 3])
def test_left_out_decision_values_of_svc_are_those_of_refits(rows, classes):
    # With few losses all margins are below one, so that the loss is quadratic, and a Newton step is exact.
    X, y, _ = rows
    X, y = X[:60], labels_of(y[:60], classes)
    feature_map = Nystroem(KERNEL, 12, landmarks=X[:12])
    parameters = {"feature_map": feature_map, "C": 0.02, "fit_intercept": False, "tol": EXACT}
    model = model_of(KernelSVC, "global", **parameters).fit(X, y)
    factor = model.local_.model.part.coef[0, 0] / model.coef_[0, 0]
    found = left_out_values(model, X) / factor
    plain = clone(model).set_params(neighbors=None)
    inside = column(plain.fit(X, y).decision_function(X))
    for i in range(0, 60, 6):
        others = np.arange(60) != i
        expected = column(plain.fit(X[others], y[others]).decision_function(X[i : i + 1]))[0]
        np.testing.assert_allclose(found[i], expected, rtol=1e-4, atol=1e-6)
        assert np.abs(inside[i] - expected).max() > 1e-3  # the twin: the row itself changes its decision values


@pytest.mark.parametrize("classes", [2, 3])
def test_left_out_decision_values_of_logistic_regression_are_close_to_those_of_refits(rows, classes):
    # One Newton step has an error of second order, and for three labels the Hessian is approximated.
    X, y, _ = rows
    X, y = X[:60], labels_of(y[:60], classes)
    feature_map = Nystroem(KERNEL, 12, landmarks=X[:12])
    model = model_of(KernelLogisticRegression, "global", feature_map=feature_map, tol=EXACT).fit(X, y)
    factor = model.local_.model.part.coef[0, 0] / model.coef_[0, 0]
    found = left_out_values(model, X) / factor
    plain = clone(model).set_params(neighbors=None)
    inside = column(plain.fit(X, y).decision_function(X))
    errors, shifts = [], []
    for i in range(0, 60, 5):
        others = np.arange(60) != i
        expected = column(plain.fit(X[others], y[others]).decision_function(X[i : i + 1]))[0]
        errors.append(found[i] - expected)
        shifts.append(inside[i] - expected)
    ratio = np.linalg.norm(errors) / np.linalg.norm(shifts)
    assert ratio < (0.1 if classes == 2 else 0.3)


# ---- predictions --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("classes", [2, 3])
def test_with_all_rows_as_near_rows_the_local_part_is_the_exact_process_of_the_codes(rows, kind, classes):
    X, y, T = rows
    y = labels_of(y, classes)
    model = model_of(kind, "local", len(X)).fit(X, y)
    (score,), signs = model.local_.scores, signs_of(y)
    mean, factor = signs.mean(axis=0), model.local_.model.residual.factor
    P = np.linalg.inv(KERNEL(X) + score.alpha * np.eye(len(X)))
    expected = factor * (mean + KERNEL(T, X) @ P @ (signs - mean))
    np.testing.assert_allclose(column(model.decision_function(T)), expected, rtol=1e-8, atol=1e-8)
    left_out = factor * (signs - P @ (signs - mean) / np.diag(P)[:, None])
    np.testing.assert_allclose(left_out_values(model, X), left_out, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("classes", [2, 3])
def test_with_all_rows_as_near_rows_both_parts_are_the_sum_of_classifier_and_exact_process(rows, kind, classes):
    X, y, T = rows
    y = labels_of(y, classes)
    model, alone = (model_of(kind, parts, len(X)).fit(X, y) for parts in ("both", "global"))
    a0, a = (fit.local_.model.part.coef[0, 0] / fit.coef_[0, 0] for fit in (alone, model))
    b, signs = model.local_.model.residual.factor, signs_of(y)
    mean = signs.mean(axis=0)
    P = np.linalg.inv(KERNEL(X) + model.local_.scores[0].alpha * np.eye(len(X)))
    f = model.feature_map_.transform(T) @ model.coef_.T + model.intercept_
    expected = a * f + b * (mean + KERNEL(T, X) @ P @ (signs - mean))
    np.testing.assert_allclose(column(model.decision_function(T)), expected, rtol=1e-7, atol=1e-8)
    G = signs - P @ (signs - mean) / np.diag(P)[:, None]
    left_out = a / a0 * left_out_values(alone, X) + b * G
    np.testing.assert_allclose(left_out_values(model, X), left_out, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("columns", [1, 4])
def test_the_two_factors_have_the_least_loss(columns):
    rng = np.random.default_rng(1)
    codes, weight = rng.integers(0, max(2, columns), 200), rng.uniform(0.5, 2, 200)
    signs = np.where(codes[:, None] == (1 if columns == 1 else np.arange(columns)), 1.0, -1.0)
    F, G = (30 * (signs + noise * rng.normal(size=signs.shape)) for noise in (2.0, 3.0))
    G /= 1000
    found = two_factors(F, G, codes, weight)

    def loss(factors):  # with one more row whose label is uniformly distributed
        logits = factors[0] * F / 30 + factors[1] * G * 30
        logits = logits * [-0.5, 0.5] if columns == 1 else logits
        known, n = logits[np.arange(200), codes], weight.sum()
        return weight @ (logsumexp(logits, axis=1) - (n * known + logits.mean(axis=1)) / (n + 1))

    oracle = minimize(loss, [1.0, 1.0], method="BFGS", options={"gtol": 1e-9}).x
    np.testing.assert_allclose(found, oracle * [1 / 30, 30], rtol=1e-5)
    # No factor is negative.
    assert two_factors(F, -G, codes, weight) == (pytest.approx(log_loss_scale(F, codes, weight)), 0.0)
    assert two_factors(-F, G, codes, weight) == (0.0, pytest.approx(log_loss_scale(G, codes, weight)))


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("classes", [2, 3])
def test_the_parts_of_least_left_out_loss_are_chosen_and_results_are_consistent(rows, kind, classes):
    X, y, T = rows
    y = labels_of(y, classes)
    model = model_of(kind).fit(X, y)
    assert [score.parts for score in model.local_.scores] == ["global", "local", "both"]
    best = min(model.local_.scores, key=lambda score: score.loss)
    assert model.local_.parts == best.parts
    logits, codes, weight = model.local_.left_out.decisions()
    columns = logits * [-0.5, 0.5] if classes == 2 else logits
    loss = -(weight @ log_softmax(columns, axis=1)[np.arange(len(codes)), codes]) / weight.sum()
    n_parameters = {"global": 1, "local": 2, "both": 3}[best.parts]
    assert best.loss == pytest.approx(loss + n_parameters / 120, rel=1e-10)
    assert model.local_.probability_scale() == pytest.approx(1.0, rel=1e-6)  # calibrated
    probabilities, values = model.predict_proba(T), model.decision_function(T)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    np.testing.assert_array_equal(model.predict(T), model.classes_[probabilities.argmax(axis=1)])
    expected = expit(values) if classes == 2 else softmax(values, axis=1)
    np.testing.assert_allclose(probabilities[:, -1] if classes == 2 else probabilities, expected)


def test_near_rows_help_where_features_do_not_suffice():
    rng = np.random.default_rng(5)
    arm, t = rng.integers(0, 3, 900), rng.uniform(0.5, 3, 900)
    angle = 3 * t + 2 * np.pi * arm / 3
    X = t[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]) + 0.15 * rng.normal(size=(900, 2))
    for kind in BOTH:
        model = model_of(kind, feature_map=Nystroem(Matern(0.5, "median"), 40, random_state=0))
        model.fit(X[:600], arm[:600])
        plain = clone(model).set_params(neighbors=None).fit(X[:600], arm[:600])
        assert 1 - model.score(X[600:], arm[600:]) < 0.6 * (1 - plain.score(X[600:], arm[600:]))
        P = model.predict_proba(X[600:])
        # Calibrated: the log loss is close to the entropy that the model itself states.
        entropy = -np.sum(P * np.log(np.maximum(P, 1e-300)), axis=1).mean()
        assert abs(-np.log(P[np.arange(300), arm[600:]]).mean() - entropy) < 0.1


def test_labels_that_depend_linearly_on_rows_need_no_near_rows():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(500, 6))
    y = rng.uniform(size=500) < expit(2 * X[:, 0])
    model = model_of(KernelLogisticRegression, feature_map=Nystroem(Gaussian(6.0), 20, random_state=0)).fit(X, y)
    scores = {score.parts: score.loss for score in model.local_.scores}
    assert scores["global"] < scores["local"]
    assert model.local_.parts in ("global", "both")


# ---- all kinds of rows --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", BOTH)
def test_integer_weights_are_repetitions(rows, kind):
    X, y, T = rows
    X = X.round(1)  # some rows are equal, with different labels
    weight = np.random.default_rng(2).integers(0, 3, len(X))
    index = np.repeat(np.arange(len(X)), weight)
    weighted, repeated = model_of(kind, tol=EXACT).fit(X, y, weight), model_of(kind, tol=EXACT).fit(X[index], y[index])
    np.testing.assert_allclose(weighted.predict_proba(T), repeated.predict_proba(T), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("parts", ["auto", "both"])
def test_models_from_blocks_on_dask_and_in_the_source_are_the_same(rows, parts):
    da = pytest.importorskip("dask.array")
    X, y, T = rows
    names = np.array(["b", "a", "c"])[y]
    model = model_of(KernelLogisticRegression, parts, tol=EXACT)
    expected = clone(model).fit(X, names).predict_proba(T)
    blocks = [(X[i : i + 50], names[i : i + 50]) for i in range(0, 120, 50)]
    on_dask = da.from_array(X, chunks=(50, 2)), da.from_array(names, chunks=50)
    for where in ("model", "source"):
        model.set_params(neighbors__rows=where)
        for data in ((blocks,), on_dask):
            np.testing.assert_allclose(clone(model).fit(*data).predict_proba(T), expected, rtol=1e-5, atol=1e-6)
    again = pickle.loads(pickle.dumps(clone(model).fit(blocks)))
    np.testing.assert_allclose(again.predict_proba(T), expected, rtol=1e-5, atol=1e-6)


def test_unlabeled_rows_are_not_near_rows(rows):
    X, y, T = rows
    some = np.where(np.arange(120) % 3 == 0, -1, y)
    model = model_of(KernelSVC, "local", unlabeled=-1).fit(X, some)
    assert model.local_.model.n_rows == 80
    assert set(model.predict(T)) <= {0, 1, 2}


def test_parameters_and_methods_that_need_neighbors(rows):
    X, y, T = rows
    assert model_of(KernelLogisticRegression, neighbors=None).fit(X, y).local_ is None
    plain = model_of(KernelSVC, neighbors=None).fit(X, y)
    assert not hasattr(plain, "predict_proba")
    with pytest.raises(ParameterError, match="KernelSVC: predict_proba needs a fit with neighbors"):
        plain.set_params(neighbors=8).predict_proba(T)
    with pytest.raises(NotFittedError):
        model_of(KernelSVC).predict_proba(T)
    with pytest.raises(ParameterError, match=r"KernelSVC: class_weight must be None with neighbors=.*sample_weight"):
        model_of(KernelSVC, class_weight="balanced").fit(X, y)
    with pytest.raises(ParameterError, match="neighbors must be"):
        model_of(KernelSVC, neighbors=0).fit(X, y)
    counts = model_of(KernelLogisticRegression, "local", "auto").fit(X, y).local_.scores
    assert [score.n_neighbors for score in counts] == [16, 32, 64]


@pytest.mark.parametrize("kind", BOTH)
def test_few_rows(kind):
    X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0, 1, 1])
    for n in (2, 3):
        model = kind(Nystroem(Gaussian(1.0), 2, random_state=0), neighbors=64).fit(X[:n], y[:n])
        assert np.isfinite(model.decision_function(X)).all()
