"""Left-out latent values against refits, and the factors that calibrate a posterior."""

import numpy as np

from mercer import Gaussian, GaussianProcessClassifier, RandomFourier
from mercer.solvers.laplace.posterior import BOUNDS, LeftOutLabels, calibrated

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
        found = LeftOutLabels.of(model.posterior_, X, Z, F, y, np.ones(N))
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
    assert rows.loss(np.array([scale, variance, 0.01])) < rows.loss(np.array([1.0, 0.01, 0.01])) - 1e-3
    # Factors of mean and variance have nearly the same effect: their combination is determined.
    slope = scale / np.sqrt(1 + np.pi / 8 * 4 * variance)
    assert abs(slope / (1 / np.sqrt(1 + np.pi / 8 * 4)) - 1) < 0.13


def test_factors_of_few_rows_stay_near_their_prior():
    rows = LeftOutLabels(np.array([[5.0], [-5.0]]), np.ones((2, 1)), np.ones(2), np.array([0, 1]), np.ones(2))
    for value, (low, high) in zip(calibrated(rows)[0], BOUNDS, strict=True):
        assert low <= value <= high
