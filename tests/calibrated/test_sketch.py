"""Tensor sketches over many draws: mean, variance, and the distribution of scikit-learn's sketches."""

from itertools import cycle, product

import numpy as np
import pytest
from sklearn.kernel_approximation import PolynomialCountSketch

from mercer import Polynomial, TensorSketch, Transformed

from .calibrated import (
    FAILURE,
    estimates,
    excess,
    kernel_of_pairs,
    median_misfit,
    misfit,
    pairs_of_rows,
    products,
)

pytestmark = pytest.mark.slow

DRAWS = 3600

GRID = [
    (TensorSketch(Polynomial(degree, coef0), width), d, unit_norm)
    for (d, unit_norm, degree), coef0, width in zip(
        product((2, 5, 17), (True, False), (1, 2, 3)),
        cycle((0.0, 1.0, 0.4, 2.5)),
        cycle((3, 8, 25, 1, 16)),
        strict=False,
    )
]


def name_of(cell):
    m, d, unit_norm = cell
    return f"d{d}-{m.kernel!r}-{m.n_components}" + "-unit" * unit_norm


def variance_of_pairs(feature_map, X, Y):
    return np.diagonal(feature_map.fit(X).variance(X, Y))


@pytest.mark.parametrize("cell", GRID, ids=name_of)
def test_mean_over_draws_is_the_kernel_and_variance_at_most_the_closed_form(cell, seed):
    m, d, unit_norm = cell
    X, Y = pairs_of_rows(d, seed, unit_norm=unit_norm)
    samples = estimates(m, X, Y, DRAWS, seed)
    variance = variance_of_pairs(m, X, Y)
    expected = kernel_of_pairs(m.kernel, X, Y)
    assert median_misfit(samples, expected, variance=variance) <= 1
    assert excess(samples, expected, variance) <= 1
    # A third of the variance and a kernel off by 1.5 standard deviations are detected.
    assert excess(samples, expected, variance / 3) > 1
    assert median_misfit(samples, expected + 1.5 * np.sqrt(variance), variance=variance) > 1


@pytest.mark.parametrize(
    ("drawn", "claimed"),
    [
        (Polynomial(2, 0.0), Polynomial(2, 1.0)),
        (Polynomial(2, 1.0), Polynomial(2, 0.0)),
        (2.0 * Polynomial(2), Polynomial(2)),
        (Polynomial(3), Polynomial(2)),
        (Polynomial(2, scale=0.5), Polynomial(2)),
        (Transformed(Polynomial(2), center=(0.0,) * 5), Transformed(Polynomial(2), center=(1.0,) * 5)),
    ],
    ids=repr,
)
def test_misfit_detects_another_kernel(drawn, claimed, seed):
    X, Y = pairs_of_rows(5, seed)
    m = TensorSketch(drawn, 100)
    samples = estimates(m, X, Y, DRAWS, seed)
    variance = variance_of_pairs(m, X, Y)
    assert median_misfit(samples, kernel_of_pairs(drawn, X, Y), variance=variance) <= 1
    assert median_misfit(samples, kernel_of_pairs(claimed, X, Y), variance=variance) > 1


def test_variance_of_degree_one_is_the_closed_form(seed):
    # Rows with few entries, whose estimates have a range narrow enough for a two-sided test.
    X = np.array([[1.0, 0.5, 0.0, 0.3], [0.2, 1.0, 1.0, 0.0]])
    Y = np.array([[0.5, 1.0, 0.7, 0.0], [0.4, -0.6, 1.0, 0.5]])
    m = TensorSketch(Polynomial(1, 0.0), 3)
    samples, expected = estimates(m, X, Y, 3 * DRAWS, seed), kernel_of_pairs(m.kernel, X, Y)
    # No estimate exceeds the product of the l1 norms, which is attained with all features in one bucket.
    farthest = np.abs(X).sum(axis=1) * np.abs(Y).sum(axis=1) + np.abs(expected)
    squares, variance = np.square(samples - expected), variance_of_pairs(m, X, Y)
    assert misfit(squares, variance, width=farthest**2) <= 1
    assert misfit(squares, 1.5 * variance, width=farthest**2) > 1
    assert misfit(squares, 0.5 * variance, width=farthest**2) > 1


def estimates_of_scikit_learn(degree, coef0, width, X, Y, n):
    """Return the estimates of the same kernel by scikit-learn's sketch."""
    values = np.empty((n, len(X)))
    for i in range(n):
        other = PolynomialCountSketch(gamma=1.0, degree=degree, coef0=coef0, n_components=width, random_state=i).fit(X)
        values[i] = products(other.transform(X), other.transform(Y))
    return values


def largest_gap(one, two):
    """Return the Kolmogorov-Smirnov distance between two samples."""
    at = np.concatenate([one, two])
    functions = [np.searchsorted(np.sort(values), at, side="right") / len(values) for values in (one, two)]
    return np.abs(functions[0] - functions[1]).max()


@pytest.mark.parametrize(("degree", "coef0"), [(2, 1.0), (3, 0.0)])
def test_errors_are_distributed_like_those_of_scikit_learn(degree, coef0, seed):
    # An independent implementation, whose hashes and signs are independent, too.
    X, Y = pairs_of_rows(5, seed)
    n, width = 1500, 20
    theirs = estimates_of_scikit_learn(degree, coef0, width, X, Y, n)
    ours, narrow = (estimates(TensorSketch(Polynomial(degree, coef0), w), X, Y, n, seed) for w in (width, 2))
    # The Dvoretzky-Kiefer-Wolfowitz inequality with Massart's constant, for both samples and all pairs of rows.
    radius = 2 * np.sqrt(np.log(2 * 2 * X.shape[0] / FAILURE) / (2 * n))
    errors = [np.abs(values - kernel_of_pairs(Polynomial(degree, coef0), X, Y)) for values in (ours, theirs, narrow)]
    gaps = [[largest_gap(errors[k][:, i], errors[1][:, i]) for i in range(len(X))] for k in (0, 2)]
    assert max(gaps[0]) <= radius
    assert max(gaps[1]) > radius
