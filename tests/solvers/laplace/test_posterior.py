"""Left-out latent values against refits, and the factors that calibrate a posterior."""

import numpy as np
import pytest

from mercer import Gaussian, GaussianProcessClassifier, RandomFourier
from mercer.solvers.laplace.posterior import BOUNDS, LeftOutLabels, calibrated, refined

RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 2))
LABELS = {
    2: (X[:, 0] + 0.7 * RNG.logistic(size=N) > 0).astype(int),
    3: np.digitize(2 * X[:, 0] + 0.7 * RNG.logistic(size=N), [-1, 1]),
}
OPTIONS = {"amplitude": 2.0, "lengthscale_tuning": None, "calibrate": False, "tol": 1e-18, "max_iter": 500}


def test_left_out_values_are_near_those_of_refits():
    for n_labels, tolerance in ((2, 0.02), (3, 0.12)):
        y = LABELS[n_labels]
        feature_map = RandomFourier(Gaussian(1.5), 20, random_state=0)
        model = GaussianProcessClassifier(feature_map, **OPTIONS).fit(X, y)
        Z = model.feature_map_.transform(X)
        F = Z @ model.coef_.T + model.intercept_
        found = LeftOutLabels.of(model.posterior_, X, Z, F, y, np.ones(N), np.eye(n_labels)[y])
        refits = []
        for i in range(N):
            rest = np.arange(N) != i
            other = GaussianProcessClassifier(feature_map, **OPTIONS).fit(X[rest], y[rest])
            refits.append(np.atleast_1d(np.squeeze(other.latent_mean_and_variance(X[i : i + 1])[0])))
        refits, left = np.array(refits), found.mean
        if n_labels > 2:  # only differences matter
            refits, left = (values - values.mean(axis=1, keepdims=True) for values in (refits, left))
            F = F - F.mean(axis=1, keepdims=True)
        error = np.sqrt(np.square(left - refits).mean())
        assert error < tolerance * np.sqrt(np.square(refits).mean())
        # The values with the row are farther away.
        assert error < 0.5 * np.sqrt(np.square(F - refits).mean())


def test_copies_of_a_row_are_left_out_with_it():
    y, rng = LABELS[2], np.random.default_rng(3)
    repeats = rng.integers(1, 6, N)
    feature_map = RandomFourier(Gaussian(1.5), 20, random_state=0)
    model = GaussianProcessClassifier(feature_map, **OPTIONS).fit(X, y, repeats)
    Z = model.feature_map_.transform(X)
    F = Z @ model.coef_.T + model.intercept_
    one = np.eye(2)[y]
    found, alone = (
        LeftOutLabels.of(model.posterior_, X, Z, F, y, np.ones(N), copies).mean[:, 0]
        for copies in (repeats[:, None] * one, one)
    )
    refits = []
    for i in range(N):
        rest = np.arange(N) != i
        other = GaussianProcessClassifier(feature_map, **OPTIONS).fit(X[rest], y[rest], repeats[rest])
        refits.append(other.latent_mean_and_variance(X[i : i + 1])[0][0])
    size = np.sqrt(np.square(refits).mean())
    assert np.sqrt(np.square(found - refits).mean()) < 0.05 * size
    # Values without one of the copies are far from those without the row.
    assert np.sqrt(np.square(alone - refits).mean()) > 0.1 * size


def test_factors_recover_those_that_generated_the_labels():
    # Labels follow latent values of twice the mean and no variance: the factors are 2 and about zero.
    rng = np.random.default_rng(1)
    n = 3000
    mean = rng.normal(size=(n, 1))
    y = (2 * mean[:, 0] + rng.logistic(size=n) > 0).astype(int)
    rows = LeftOutLabels(mean, np.full((n, 1), 0.5), np.zeros(n), y, np.ones(n))
    (scale, variance, _), _ = calibrated(rows)
    # The standard error of the slope of a logistic regression with 3000 rows is about 0.07.
    assert abs(scale - 2) < 0.3
    assert variance < 0.5
    # Latent values with the given variance: the factors are one.
    y = (mean[:, 0] + 2 * rng.normal(size=n) + rng.logistic(size=n) > 0).astype(int)
    rows = LeftOutLabels(mean, np.full((n, 1), 4.0), np.zeros(n), y, np.ones(n))
    (scale, variance, _), _ = calibrated(rows)
    assert rows.loss(np.array([scale, variance, 0.01]))[0] < rows.loss(np.array([1.0, 0.01, 0.01]))[0] - 1e-3
    # Factors of mean and variance have nearly the same effect: their combination is determined.
    slope = scale / np.sqrt(1 + np.pi / 8 * 4 * variance)
    assert abs(slope / (1 / np.sqrt(1 + np.pi / 8 * 4)) - 1) < 0.13


def test_factors_of_few_rows_stay_near_their_prior():
    rows = LeftOutLabels(np.array([[5.0], [-5.0]]), np.ones((2, 1)), np.ones(2), np.array([0, 1]), np.ones(2))
    for value, (low, high) in zip(calibrated(rows)[0], BOUNDS, strict=True):
        assert low <= value <= high


@pytest.mark.parametrize("n_labels", [2, 3])
def test_factors_change_no_more_than_latent_values(n_labels):
    # Factors that are rounded, or that a search stops near, would change by far more now and then.
    rng = np.random.default_rng(4)
    for _ in range(20):
        mean = 2 * rng.normal(size=(100, 1 if n_labels == 2 else 3))
        y = np.argmax(1.5 * np.column_stack([-mean, mean] if n_labels == 2 else [mean]) + rng.gumbel(size=(100, 1)), 1)
        leverages, residuals = rng.uniform(0.1, 1, size=mean.shape), rng.uniform(size=100)
        found = [
            np.log(calibrated(LeftOutLabels(moved, leverages, residuals, y, np.ones(100)))[0])
            for moved in (mean, mean * (1 + 1e-11 * rng.normal(size=mean.shape)), 1.001 * mean)
        ]
        assert np.abs(found[1] - found[0]).max() < 1e-9
        assert np.abs(found[2] - found[0]).max() > 1e-4


def test_newtons_method_is_exact_within_bounds():
    # The minimum of exp(x) - a x is log a; the second number is bounded by 0.5 < log 3.
    def gradient(x):
        return np.exp(x) - [2.0, 3.0]

    bounds = np.array([[-5.0, 5.0], [-5.0, 0.5]])
    found = refined(gradient, np.array([0.6, 0.5]), bounds)
    np.testing.assert_allclose(found, [np.log(2), 0.5], rtol=1e-14)
    inside = refined(gradient, np.array([0.6, 0.4]), np.array([[-5.0, 5.0], [-5.0, 5.0]]))
    np.testing.assert_allclose(inside, np.log([2, 3]), rtol=1e-14)


def test_derivatives_of_the_loss_are_exact():
    rng = np.random.default_rng(5)
    for columns in (1, 4):
        rows = LeftOutLabels(
            2 * rng.normal(size=(50, columns)), rng.uniform(0, 4, size=(50, columns)), rng.uniform(0, 9, size=50),
            rng.integers(0, max(2, columns), 50), rng.uniform(1, 2, size=50),
        )  # fmt: skip
        logs, step = np.log([0.8, 1.3, 0.5]), 1e-5
        _, gradient = rows.loss(np.exp(logs))
        differences = [rows.loss(np.exp(logs + e))[0] - rows.loss(np.exp(logs - e))[0] for e in step * np.eye(3)]
        np.testing.assert_allclose(gradient, np.array(differences) / (2 * step), rtol=1e-6, atol=1e-9)


def test_rows_without_curvature_and_variance_have_finite_derivatives():
    rows = LeftOutLabels(np.array([[1.0], [900.0]]), np.zeros((2, 1)), np.zeros(2), np.array([1, 0]), np.ones(2))
    value, gradient = rows.loss(np.ones(3))
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()
    assert (gradient[1:] == 0).all()
