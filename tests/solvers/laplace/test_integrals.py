"""Averages of probabilities over normal variables, against adaptive quadrature and large samples."""

import numpy as np
import pytest
from scipy import integrate, special

from mercer.solvers.laplace.integrals import average_probabilities


@pytest.mark.parametrize("mean", [-30.0, -3.0, 0.0, 0.4, 5.0])
@pytest.mark.parametrize("deviation", [0.0, 0.3, 1.49, 1.51, 5.0, 40.0])
def test_two_labels_are_exact_to_relative_rounding(mean, deviation):
    found = average_probabilities(np.array([[mean]]), np.array([[deviation**2]]))[0]

    def integrand(u):
        return special.expit(mean + deviation * u) * np.exp(-0.5 * u * u) / np.sqrt(2 * np.pi)

    # The step of the logistic function, in units of the normal variable.
    step = -mean / deviation if deviation else 0.0
    points = np.clip(step + np.array([-5, -1, 0, 1, 5]) / max(deviation, 1.0), -9, 9)
    expected = special.expit(mean)
    if deviation:
        expected = integrate.quad(integrand, -10, 10, points=points, epsabs=0, epsrel=1e-11, limit=400)[0]
    assert found[1] == pytest.approx(expected, rel=1e-9)
    assert found.sum() == pytest.approx(1, abs=1e-15)


def test_several_labels_are_near_the_average_of_a_large_sample():
    rng = np.random.default_rng(0)
    mean, variance = 2 * rng.normal(size=(20, 5)), rng.uniform(0.05, 3.0, size=(20, 5))
    found = average_probabilities(mean, variance)
    draws = mean + np.sqrt(variance) * rng.normal(size=(20_000, 20, 5))
    expected = special.softmax(draws, axis=2).mean(axis=0)
    # The sample has a standard error below 0.5 / sqrt(20000) = 0.0035. Errors of 128 quasi-random vectors are below
    # those of 128 random ones, 0.5 / sqrt(128) = 0.044 at most.
    assert np.abs(found - expected).max() < 0.02
    assert np.abs(special.softmax(mean, axis=1) - expected).max() > 0.1  # no average
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-14)


def test_small_variances_have_the_right_effect():
    mean, variance = np.array([[1.0, 0.0, -1.0]]), np.full((1, 3), 1e-3)
    p = special.softmax(mean[0])
    # Half the sum of the second derivatives, times the variance, is the effect to first order.
    effect = average_probabilities(mean, variance)[0] - p
    step = 1e-3
    differences = sum(
        (special.softmax(mean[0] + step * e) - 2 * p + special.softmax(mean[0] - step * e)) / step**2 for e in np.eye(3)
    )
    np.testing.assert_allclose(effect, 0.5e-3 * differences, rtol=0.05, atol=1e-7)


def test_blocks_do_not_matter(monkeypatch):
    rng = np.random.default_rng(0)
    for columns in (1, 4):
        mean, variance = rng.normal(size=(30, columns)), rng.uniform(0, 9, size=(30, columns))
        expected = average_probabilities(mean, variance)
        monkeypatch.setattr("mercer.solvers.laplace.integrals.ENTRIES", 1)
        np.testing.assert_allclose(average_probabilities(mean, variance), expected, rtol=1e-13)
        monkeypatch.undo()
