"""Polynomial sketches over many draws: mean and variance."""

from itertools import cycle, product

import numpy as np
import pytest

from mercer import Polynomial, PolynomialSketch

from .calibrated import GROUPS, estimates, excess, kernel_of_pairs, median_misfit, pairs_of_rows

pytestmark = pytest.mark.slow

DRAWS = 30 * GROUPS

GRID = [
    (PolynomialSketch(Polynomial(degree, coef0, scale), width, projection=projection), d, unit_norm)
    for (d, unit_norm, projection), degree, coef0, scale, width in zip(
        product((2, 5, 17), (True, False), ("rademacher", "gaussian", "sphere", "complex", "srht")),
        cycle((1, 2, 3)),
        cycle((0.0, 1.0, 0.4, 2.5)),
        cycle((1.0, 0.5)),
        cycle((25, 64, 33, 100, 48, 75, 129)),
        strict=False,
    )
]


def name_of(cell):
    m, d, unit_norm = cell
    return f"d{d}-{m.projection}-{m.kernel!r}-{m.n_components}" + "-unit" * unit_norm


def variance_of_pairs(feature_map, X, Y):
    return np.diagonal(feature_map.fit(X).variance(X, Y))


@pytest.mark.parametrize("cell", GRID, ids=name_of)
def test_mean_over_draws_is_the_kernel_and_variance_at_most_the_closed_form(cell, seed):
    m, d, unit_norm = cell
    X, Y = pairs_of_rows(d, seed, unit_norm=unit_norm)
    samples = estimates(m, X, Y, DRAWS, seed)
    variance = variance_of_pairs(m, X, Y)
    expected = kernel_of_pairs(m.kernel, X, Y)
    assert m.unbiased is True
    assert median_misfit(samples, expected, variance=variance) <= 1
    # Complete Hadamard blocks of degree one are exact for some pairs, up to rounding.
    noisy = variance > 1e-12 * np.square(expected)
    assert noisy.any() or (m.projection == "srht" and m.kernel.degree == 1)
    if not noisy.any():
        return
    assert excess(samples[:, noisy], expected[noisy], variance[noisy]) <= 1
    # A fifth of the variance and a kernel off by 1.5 standard deviations are detected.
    assert excess(samples[:, noisy], expected[noisy], variance[noisy] / 5) > 1
    assert median_misfit(samples, expected + 1.5 * np.sqrt(variance), variance=variance) > 1


@pytest.mark.parametrize(
    ("drawn", "claimed"),
    [
        (Polynomial(2, 0.0), Polynomial(2, 1.0)),
        (Polynomial(2, 1.0), Polynomial(2, 0.0)),
        (2.0 * Polynomial(2), Polynomial(2)),
        (Polynomial(3), Polynomial(2)),
        (Polynomial(2, scale=0.5), Polynomial(2)),
    ],
    ids=repr,
)
def test_misfit_detects_another_kernel(drawn, claimed, seed):
    X, Y = pairs_of_rows(5, seed)
    m = PolynomialSketch(drawn, 100)
    samples = estimates(m, X, Y, DRAWS, seed)
    variance = variance_of_pairs(m, X, Y)
    assert median_misfit(samples, kernel_of_pairs(drawn, X, Y), variance=variance) <= 1
    assert median_misfit(samples, kernel_of_pairs(claimed, X, Y), variance=variance) > 1
