"""Predictions from near rows with local scales: the exact process where all rows are near, and calibrated elsewhere."""

import numpy as np
import pytest

from mercer import GaussianProcessRegressor, LocalCorrection, Matern
from mercer.solvers.neighbor_processes.posterior import best_prior, local_scales, normal_variance


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize("parts", ["local", "both"])
def test_all_rows_near_is_the_exact_process(parts):
    X, y = rows(120)
    new, _ = rows(30, 1)
    kernel, noise, amplitude = Matern(1.5, 1.2), 0.1, 1.4
    settings = {"noise": noise, "amplitude": amplitude, "lengthscale_tuning": None, "normalize_y": False}
    near = LocalCorrection(120, parts=parts)
    model = GaussianProcessRegressor(kernel, neighbors=near, random_state=0, **settings).fit(X, y)
    mean, std = model.predict(new, return_std=True)
    K = amplitude**2 * kernel(X) + noise**2 * np.eye(120)
    cross = amplitude**2 * kernel(X, new)
    np.testing.assert_allclose(mean, cross.T @ np.linalg.solve(K, y), atol=1e-6)
    expected = amplitude**2 - np.einsum("ij,ij->j", cross, np.linalg.solve(K, cross))
    np.testing.assert_allclose(std**2, expected, atol=1e-6)
    assert model.noise_ == pytest.approx(noise)
    assert model.amplitude_ == pytest.approx(amplitude)
    value = -0.5 * (y @ np.linalg.solve(K, y) + np.linalg.slogdet(K)[1] + 120 * np.log(2 * np.pi))
    assert model.log_marginal_likelihood_value_ == pytest.approx(value, rel=1e-8)
    assert model.log_marginal_likelihood(noise, 2 * amplitude) < value


def test_local_scales_are_posterior_means():
    squares, count = np.array([[10.0], [40.0]]), np.array([20, 20])
    np.testing.assert_allclose(local_scales(squares, count, np.array([4.0]))[:, 0], [14 / 24, 44 / 24])
    np.testing.assert_array_equal(local_scales(squares, count, np.array([np.inf])), np.ones((2, 1)))


def test_prior_of_local_scales_is_found():
    rng = np.random.default_rng(0)
    n, count = 4000, 32
    # Standard deviations of regions differ by a factor of about e, and near rows show them.
    variance = np.exp(2 * rng.normal(size=n) * 0.5)
    squares = variance * rng.chisquare(count, size=n)
    counts, ones = np.full(n, count), np.ones(n)
    choices = (np.inf, 64.0, 4.0, 0.25)
    errors = np.abs(np.sqrt(variance) * rng.normal(size=n))
    assert best_prior(errors, squares, counts, ones, choices) < 64
    same = np.abs(rng.normal(size=n))
    assert best_prior(same, rng.chisquare(count, size=n), counts, ones, choices) >= 64


@pytest.mark.slow
def test_regions_of_different_roughness_have_their_own_error_bars():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(3000, 2))
    spread = np.where(X[:, 0] > 0, 1.0, 0.05)
    # The mean depends on both columns, so that rows are near in both: local scales are those of near rows.
    y = np.sin(2 * X[:, 0]) + X[:, 1] + spread * rng.normal(size=3000)
    model = GaussianProcessRegressor(neighbors=32, random_state=0).fit(X[:2000], y[:2000])
    _, std = model.predict(X[2000:], return_std=True, with_noise=True)
    far = np.abs(X[2000:, 0]) > 0.5
    right = X[2000:, 0] > 0
    assert np.median(std[far & right]) == pytest.approx(1.0, rel=0.3)
    assert np.median(std[far & ~right]) < 0.3
    ends = model.predict_interval(X[2000:], 0.9)
    inside = (y[2000:] > ends[:, 0]) & (y[2000:] < ends[:, 1])
    # The standard deviation of the share is 0.01, and that of the quantile of 2000 left-out rows 0.007.
    assert abs(inside.mean() - 0.9) < 0.04


def test_factor_and_sum_of_normal_variances_are_recovered():
    rng = np.random.default_rng(0)
    variance, weight = np.exp(rng.normal(size=20_000)), rng.uniform(0.5, 1.5, 20_000)
    spread = 2 * variance + 3
    squares = spread * np.square(rng.normal(size=20_000))
    found = normal_variance(squares, variance, weight)
    # Five standard errors by the Fisher information of independent rows; weights make them somewhat larger.
    slopes = np.stack([variance, np.ones(20_000)]) / spread
    errors = np.sqrt(np.diag(np.linalg.inv(0.5 * slopes @ slopes.T)) * np.mean(weight**2) / np.mean(weight) ** 2)
    assert (np.abs(np.subtract(found, (2, 3))) < 5 * errors).all()
    # The sum is zero where variances are right up to a factor, which is that of the mean square of ratios.
    squares = 2 * variance * np.square(rng.normal(size=20_000))
    assert normal_variance(squares, variance, weight) == (weight @ (squares / variance) / weight.sum(), 0.0)
    assert normal_variance(0 * squares, variance, weight) == (0.0, 0.0)
    assert np.multiply(normal_variance(1e-200 * squares, variance, weight), 1e200)[0] == pytest.approx(2, rel=0.1)
