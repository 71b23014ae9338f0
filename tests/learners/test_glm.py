"""Logistic regression and support vector machines: at the minimum of scikit-learn's problems."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.svm import LinearSVC

from mercer import (
    Gaussian,
    KernelLogisticRegression,
    KernelSVC,
    Nystroem,
    RandomFourier,
)

from .labeled_rows import BOTH, data, fresh

# ---- against scikit-learn and against the exact kernel machines -------------------------------


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_logistic_is_scikit_learns_on_the_same_features(classes, C, fit_intercept):
    X, y = data(classes=classes)
    w = np.random.default_rng(1).uniform(0, 2, len(X))
    model = fresh(KernelLogisticRegression, C=C, fit_intercept=fit_intercept).fit(X, y, w)
    Z = model.feature_map_.transform(X)
    peer = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-11, max_iter=200, fit_intercept=fit_intercept)
    peer.fit(Z, y, w)
    assert model.coef_.shape == peer.coef_.shape
    np.testing.assert_allclose(model.coef_, peer.coef_, rtol=0, atol=1e-7 * np.abs(peer.coef_).max())
    np.testing.assert_allclose(model.intercept_, peer.intercept_, rtol=0, atol=1e-7 * np.abs(peer.coef_).max())
    np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(Z), atol=1e-7)
    np.testing.assert_allclose(model.predict_log_proba(X), peer.predict_log_proba(Z), atol=1e-6)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_svc_is_scikit_learns_linear_one_on_the_same_features(classes, C):
    X, y = data(classes=classes)
    w = np.random.default_rng(1).uniform(0, 2, len(X))
    model = fresh(KernelSVC, C=C, fit_intercept=False).fit(X, y, w)
    Z = model.feature_map_.transform(X)
    peer = LinearSVC(C=C, loss="squared_hinge", dual=False, tol=1e-12, max_iter=10_000, fit_intercept=False)
    peer.fit(Z, y, w)
    # With much weight on the loss the peer stops a little before its minimum.
    close = (1e-7 if C < 100 else 2e-6) * np.abs(peer.coef_).max()
    np.testing.assert_allclose(model.coef_, peer.coef_, rtol=0, atol=close)
    assert np.array_equal(model.predict(X), peer.predict(Z))

    def objective(coef):
        signs = np.where(y[:, None] == model.classes_, 1, -1)[:, -len(coef) :]
        missing = np.maximum(1 - signs * (Z @ coef.T), 0)
        return C * (w @ missing**2).sum() + np.square(coef).sum() / 2

    assert objective(model.coef_) <= objective(peer.coef_) * (1 + 1e-13)


def test_the_intercept_of_svc_is_the_one_without_penalty():
    X, y = data(classes=2)
    y = np.where(X[:, 0] > -1, y, 1)  # far from balanced
    model = fresh(KernelSVC).fit(X, y)
    Z, signs = model.feature_map_.transform(X), 2 * y - 1

    def objective(v):
        missing = np.maximum(1 - signs * (Z @ v[:-1] + v[-1]), 0)
        gradient = np.append(-2 * Z.T @ (signs * missing) + v[:-1], -2 * (signs * missing).sum())
        return (missing**2).sum() + v[:-1] @ v[:-1] / 2, gradient

    found = np.append(model.coef_, model.intercept_)
    oracle = minimize(objective, np.zeros(len(found)), jac=True, method="BFGS", options={"gtol": 1e-7, "maxiter": 5000})
    np.testing.assert_allclose(found, oracle.x, atol=1e-6)
    assert np.abs(objective(found)[1]).max() < 1e-9 < np.abs(objective(found + 1e-6)[1]).max()


@pytest.mark.parametrize("kind", BOTH)
def test_with_an_exact_map_it_is_the_machine_on_the_gram_matrix(kind):
    # In the span of the training rows the coefficients are sums of kernels: f = K a + b with penalty a'K a / 2.
    X, y = data(150, classes=2)
    X_new, _ = data(40, classes=2, seed=1)
    kernel = Gaussian(0.9)
    K, signs = kernel(X), 2 * y - 1
    model = kind(Nystroem(kernel, 150, landmarks="uniform", random_state=0), C=0.7).fit(X, y)

    def objective(v):
        f = K @ v[:-1] + v[-1]
        if kind is KernelSVC:
            missing = np.maximum(1 - signs * f, 0)
            value, slope = (missing**2).sum(), -2 * signs * missing
        else:
            value, slope = np.logaddexp(0, -signs * f).sum(), -signs / (1 + np.exp(signs * f))
        gradient = np.append(K @ (0.7 * slope + v[:-1]), 0.7 * slope.sum())
        return 0.7 * value + v[:-1] @ K @ v[:-1] / 2, gradient

    oracle = minimize(objective, np.zeros(151), jac=True, method="BFGS", options={"gtol": 1e-8, "maxiter": 5000})
    exact = kernel(X_new, X) @ oracle.x[:-1] + oracle.x[-1]
    np.testing.assert_allclose(model.decision_function(X_new), exact, atol=1e-5)


# ---- probabilities ----------------------------------------------------------------------------


def test_probabilities_beat_those_of_a_constant_on_new_rows():
    X, y = make_classification(3000, 10, n_informative=5, n_classes=4, flip_y=0.1, random_state=0)
    X, X_new, y, y_new = train_test_split(X, y, random_state=0)
    model = KernelLogisticRegression(RandomFourier(Gaussian("median"), 300, random_state=0)).fit(X, y)
    proba = model.predict_proba(X_new)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert np.array_equal(model.classes_[proba.argmax(axis=1)], model.predict(X_new))
    assert log_loss(y_new, proba) < 0.8 * np.log(4)


def test_constant_features_leave_the_shares_of_the_labels():
    X, y = np.ones((60, 2)), np.repeat([0, 1, 2], [10, 20, 30])
    proba = fresh(KernelLogisticRegression).fit(X, y).predict_proba(X[:1])
    # The penalty shrinks coefficients to zero, where the intercept says it all.
    np.testing.assert_allclose(proba, [[1 / 6, 1 / 3, 1 / 2]], rtol=1e-9)
