"""Rows with labels, classifiers of them, and how far apart two of these are."""

import numpy as np

from mercer import Gaussian, KernelLogisticRegression, KernelSVC, RandomFourier

BOTH = [KernelLogisticRegression, KernelSVC]


def data(n=400, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    score = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=n)
    edges = {2: [0.2], 3: [-0.4, 0.4], 4: [-0.7, 0.0, 0.7]}[classes]
    return X, np.digitize(score, edges)


EXACT = 1e-22  # a tolerance for coefficients that are exact to about ten digits


def fresh(kind, width=40, **options):
    """Return a classifier whose coefficients are exact, so that those of two fits can be compared."""
    options = {"C": 1.0, "tol": EXACT, "max_iter": 1000} | options
    return kind(RandomFourier(Gaussian(1.0), width, random_state=0), **options)


def relative_gap(one, other):
    scale = np.abs(one.coef_).max()
    return max(np.abs(one.coef_ - other.coef_).max(), np.abs(one.intercept_ - other.intercept_).max()) / scale
