"""Gradients of linear functions of features with respect to the rows, against finite differences."""

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import Gaussian, Matern, Nystroem, Polynomial, RandomFourier, RationalQuadratic, Transformed
from mercer.features import rows_to_features

STEP = 1e-5


def rows(n=60, d=3):
    return np.random.default_rng(0).normal(0.5, 1.0, size=(n, d))


def differences(features, X, coef):
    """Return the gradients (t, n, d) by central differences, whose error is about STEP^2 times third derivatives."""
    columns = []
    for step in STEP * np.eye(X.shape[1]):
        high, low = (rows_to_features(features, X + sign * step) for sign in (1, -1))
        columns.append((high - low) @ coef / (2 * STEP))
    return np.stack(columns, axis=-1).transpose(1, 0, 2)


@pytest.mark.parametrize(
    "feature_map",
    [
        Nystroem(Gaussian(1.3), 12),
        Nystroem(Matern(1.5, 0.9), 12, n_landmarks=20),
        Nystroem(Matern(0.5), 12),
        Nystroem(2.0 * Matern(2.5) + 0.5 * RationalQuadratic(0.7, 2.0) + 1, 12),
        Nystroem(Transformed(Matern(1.5), lengthscales=(0.5, 2.0, 1.0)), 12),
        RandomFourier(Gaussian(), 12),
        RandomFourier(2.0 * Matern() + 1, 12),
        RandomFourier(Gaussian(), 13, form="phase"),
        RandomFourier(Gaussian(), 11),
        RandomFourier(Matern(1.5), 12, directions="butterfly"),
    ],
    ids=repr,
)
def test_gradients(feature_map):
    fitted = feature_map.set_params(random_state=0).fit(rows())
    X = rows(70)[60:]  # none of them is a landmark, where rough kernels have no gradient
    coef = np.random.default_rng(1).normal(size=(fitted.features_.n_components, 2))
    gradients = fitted.features_.gradients(coef)
    expected = differences(fitted.features_, X, coef)
    found = np.stack(list(gradients(X)))
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())
    np.testing.assert_allclose(np.stack(list(gradients(sp.csr_array(X)))), found, atol=1e-12 * np.abs(found).max())
    wrong = np.stack(list(fitted.features_.gradients(coef[::-1])(X)))  # the twin: coefficients in another order
    assert np.abs(wrong - expected).max() > 0.1 * np.abs(expected).max()


def test_gradients_at_landmarks_are_finite():
    X = rows(20)
    fitted = Nystroem(Matern(0.5), 20, random_state=0).fit(X)
    assert np.isfinite(next(fitted.features_.gradients(np.ones((20, 1)))(X))).all()


def test_no_closed_form():
    fitted = Nystroem(Polynomial(2), 5, random_state=0).fit(rows())
    assert fitted.features_.gradients(np.ones((5, 1))) is None
    assert RandomFourier(Gaussian(), 4, form="complex").fit(rows()).features_.gradients(np.ones((4, 1))) is None
