"""Kernels of conditioning variables that are tuned, and the test of what residuals still depend on."""

import numpy as np
import pytest
from scipy.stats import binom

from mercer.hypothesis_tests.given.conditioning import NormalScores
from mercer.hypothesis_tests.given.tuning import (
    ScaledColumnsOf,
    best_starts,
    dependence_of_neighbors,
    leading,
    mean_log_slope,
    tuned_sides,
)
from mercer.kernels import Matern


def test_columns_that_matter_get_short_lengthscales():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(500, 4))
    x = np.sin(6 * z[:, 2]) + 0.3 * rng.normal(size=500)
    y = z[:, 0] * z[:, 1] + 0.3 * rng.normal(size=500)
    of_x, of_y = tuned_sides(np.column_stack([z, x, y]), ((4,), (5,)), (0, 1, 2, 3), 500)
    others = np.delete(of_x.lengthscales, 2)
    assert of_x.lengthscales[2] < 0.5
    assert others.min() > 4 * of_x.lengthscales[2]
    assert of_y.lengthscales[:2].max() < of_y.lengthscales[2:].min()


def test_leave_one_out_errors_of_starts_are_those_of_refits():
    rng = np.random.default_rng(1)
    U = rng.normal(size=(40, 2))
    T = leading(np.sin(U[:, :1]) + 0.3 * rng.normal(size=(40, 1)))
    start = best_starts([U], [T])[0]
    K = start.kernel(U / start.lengthscales, U / start.lengthscales)
    errors = []
    for i in range(40):
        rest = np.delete(np.arange(40), i)
        A = K[np.ix_(rest, rest)] + start.ratio * np.eye(39)
        errors.append(T[i, 0] - K[i, rest] @ np.linalg.solve(A, T[rest, 0]))
    assert start.left_out == pytest.approx(np.square(errors).mean(), rel=1e-8)


def test_slopes_of_normal_scores_are_those_of_the_density():
    rng = np.random.default_rng(4)
    x = np.exp(rng.normal(size=(4000, 1)))
    # The normal score of a lognormal value is its logarithm, whose derivative is 1 / x with the mean logarithm zero.
    # The error of this mean is 1 / sqrt(4000).
    assert mean_log_slope(NormalScores.of(x, (0,)), x) == pytest.approx(0.0, abs=0.06)
    assert mean_log_slope(ScaledColumnsOf.of(x, (0,)), x) == pytest.approx(-np.log(x.std()), rel=1e-9)
    two = (x > 1).astype(float)  # both codings of two values are the same
    assert mean_log_slope(NormalScores.of(two, (0,)), two) == pytest.approx(-np.log(two.std()))


def test_frequencies_of_matern_kernels_have_its_covariance():
    rng = np.random.default_rng(2)
    z = rng.normal(size=(300, 1))
    step = np.sign(z) + 0.1 * rng.normal(size=(300, 1))
    side = tuned_sides(np.column_stack([z, step, step]), ((1,), (2,)), (0,), 300)[0]
    assert isinstance(side.kernel, Matern)
    W = side.frequencies(40_000, rng)
    t = 0.7 * side.lengthscales[0]
    expected = sum(
        share * side.kernel.profile(np.array(0.7 / relative)) for relative, share in ((1.0, 0.7), (0.5, 0.3))
    )
    # The variance of a cosine is at most 1/2: five standard errors.
    assert np.cos(W[0] * t).mean() == pytest.approx(float(expected), abs=5 * np.sqrt(0.5 / 40_000))


def test_residuals_that_depend_on_neighbors_are_found():
    draws = 200
    rng = np.random.default_rng(3)
    alarms = sum(
        dependence_of_neighbors(rng.normal(size=(120, 2)), rng.standard_t(3, size=(120, 2))) <= 0.05
        for _ in range(draws)
    )
    assert alarms <= binom.isf(1e-4, draws, 0.05)
    U = rng.normal(size=(400, 1))
    assert dependence_of_neighbors(U, np.sin(10 * U) + rng.normal(size=(400, 1))) < 1e-6
