"""The Laplace evidence: values against a direct computation, derivatives against differences."""

import numpy as np
import pytest
import scipy.optimize
from scipy import special

from mercer.solvers.laplace.evidence import INTERCEPT_DEVIATION, LabeledFeatures, curvature_coupling

RNG = np.random.default_rng(0)
M, D = 50, 6
Z = RNG.normal(size=(M, D))
WEIGHT = RNG.uniform(0.5, 2.0, size=M)


def labeled(n_labels, features=Z, fit_intercept=True):
    codes = np.random.default_rng(1).integers(0, n_labels, size=M)
    codes[Z[:, 0] > 0.3] = 1
    return LabeledFeatures(features, codes, WEIGHT, n_labels, fit_intercept)


def direct(rows, variance):
    """Return the evidence from a mode by BFGS and dense determinants."""
    K, columns, c = rows.n_labels, rows.columns, curvature_coupling(rows.n_labels)
    width = D + int(rows.fit_intercept)
    A = np.column_stack([np.sqrt(variance) * rows.features, np.ones(M)])[:, :width]

    def objective(flat):
        U = flat.reshape(width, columns)
        F = A @ U
        logits = np.column_stack([np.zeros(M), F]) if columns == 1 else F
        losses = special.logsumexp(logits, axis=1) - logits[np.arange(M), rows.codes]
        return rows.weight @ losses + 0.5 * np.square(U[:D]).sum()

    found = scipy.optimize.minimize(objective, np.zeros(width * columns), method="BFGS", options={"gtol": 1e-7})
    F = A @ found.x.reshape(width, columns)
    P = special.expit(F) if columns == 1 else special.softmax(F, axis=1)
    total = 0.0
    for k in range(columns):
        H = c * (A.T * (rows.weight * P[:, k] * (1 - P[:, k]))) @ A + np.eye(width)
        if rows.fit_intercept:
            H[-1, -1] += INTERCEPT_DEVIATION**-2 - 1
            total += 2 * np.log(INTERCEPT_DEVIATION)
        total += np.linalg.slogdet(H)[1]
    return -found.fun - 0.5 * total * (1 if K == 2 else (K - 1) / K)


@pytest.mark.parametrize("n_labels", [2, 3])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_value_is_that_of_dense_determinants(n_labels, fit_intercept):
    rows = labeled(n_labels, fit_intercept=fit_intercept)
    assert rows.evidence(3.0).value == pytest.approx(direct(rows, 3.0), rel=1e-6)


@pytest.mark.parametrize("n_labels", [2, 4])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_derivatives_are_those_of_differences(n_labels, fit_intercept, monkeypatch):
    monkeypatch.setattr("mercer.solvers.laplace.evidence.MODE_TOL", 1e-15)
    found = labeled(n_labels, fit_intercept=fit_intercept).evidence(3.0)
    step = 1e-4

    def value(features, variance):
        return labeled(n_labels, features, fit_intercept).evidence(variance).value

    in_variance = (value(Z, 3.0 * np.exp(step)) - value(Z, 3.0 * np.exp(-step))) / (2 * step)
    assert found.in_log_variance == pytest.approx(in_variance, rel=1e-5)
    direction = np.random.default_rng(2).normal(size=Z.shape)
    in_features = (value(Z + step * direction, 3.0) - value(Z - step * direction, 3.0)) / (2 * step)
    assert np.vdot(found.in_features, direction) == pytest.approx(in_features, rel=1e-5, abs=1e-6)


def test_two_labels_and_a_softmax_of_two_labels_have_the_same_curvature():
    # Two functions with half the variance each have the difference of one function; c makes the blocks agree.
    assert curvature_coupling(2) == 1.0
    assert curvature_coupling(3) == 1.5
