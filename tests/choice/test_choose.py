"""The rows on which errors are measured."""

import numpy as np

from mercer import Gaussian, Polynomial
from mercer.choice.choose import MEASURED_ROWS, measured_rows

RNG = np.random.default_rng(0)


def test_few_rows_are_all_measured():
    X = RNG.normal(size=(100, 3))
    rows, weight = measured_rows(Polynomial(2), X, None, 0)
    assert rows is X
    assert weight is None


def test_rows_of_kernels_with_a_constant_diagonal_are_uniform():
    X = RNG.normal(size=(3000, 3))
    rows, weight = measured_rows(Gaussian(1.0), X, None, 0)
    assert rows.shape == (MEASURED_ROWS, 3)
    assert weight is None


def test_rows_of_large_values_are_measured_without_bias():
    # Ten of 4000 rows have nearly all of k(x, x). Weighted means of the rows drawn estimate means of all rows. A uniform
    # sample of 1000 rows misses half of these ten rows on average in more than 5 %, and varies by far more.
    X = RNG.normal(size=(4000, 3))
    X[:10] *= 100
    kernel = Polynomial(2)
    exact = kernel.diag(X).mean()
    estimates, uniform = [], []
    for seed in range(30):
        rows, weight = measured_rows(kernel, X, None, seed)
        assert np.isin(X[:10], rows).all(axis=1).sum() >= 8
        estimates.append(np.average(kernel.diag(rows), weights=weight))
        uniform.append(kernel.diag(RNG.choice(X, MEASURED_ROWS, replace=False)).mean())
    assert abs(np.mean(estimates) / exact - 1) < 0.01
    assert np.std(estimates) / exact < 0.02
    assert np.std(uniform) / exact > 0.1


def test_weights_multiply_the_probabilities():
    X = RNG.normal(size=(4000, 2))
    weight = RNG.integers(1, 4, size=4000).astype(float)
    rows, given = measured_rows(Gaussian(1.0), X, weight, 0)
    np.testing.assert_allclose(np.average(rows[:, 0], weights=given), np.average(X[:, 0], weights=weight), atol=0.1)
