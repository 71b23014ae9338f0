"""Variances against mpmath, against brute-force moments and against each other."""

import mpmath as mp
import numpy as np
import pytest

from mercer.theory import cosine_variance, orthogonal_covariance, phase_variance


def covariance_in_high_precision(s, P):
    s, P = mp.mpf(s), mp.mpf(P)
    return float(mp.hyp1f1(P, P / 2, -(s**2) / 2) - mp.exp(-(s**2)))


@pytest.mark.parametrize("P", [2, 3, 4, 5, 16, 17, 256, 1001])
def test_orthogonal_covariance_is_the_confluent_hypergeometric_function(P):
    distances = np.array([0.0, 1e-8, 1e-3, 0.1, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 25.0])
    with mp.workdps(60):
        expected = [covariance_in_high_precision(s, P) for s in distances]
    np.testing.assert_allclose(orthogonal_covariance(distances, P), expected, rtol=0, atol=5e-15)
    np.testing.assert_allclose(
        [orthogonal_covariance(np.array(s), P) for s in distances],
        orthogonal_covariance(distances, P),
        atol=1e-15,
    )


@pytest.mark.parametrize("P", [2, 3, 5, 16])
def test_orthogonal_covariance_vanishes_far_away(P):
    distances = np.array([26.4, 27.0, 100.0, 1e10, np.inf])
    assert (np.abs(orthogonal_covariance(distances, P)) <= 1e-8).all()


@pytest.mark.parametrize("P", [2, 7, 64])
def test_orthogonal_covariance_starts_like_its_series(P):
    # The next term is of order s^6, a hundredth of a per cent here.
    s = np.array([0.01, 0.02])
    np.testing.assert_allclose(orthogonal_covariance(s, P), -(s**4) / (2 * (P + 2)), rtol=1e-3)


@pytest.mark.parametrize("mass", [1.0, 0.3, 4.0])
def test_variances_are_the_moments_of_their_terms(mass):
    # Two frequencies, -1 and 1, or three, with the probabilities of a symmetric distribution: moments by direct sums.
    frequencies, weights = np.array([-2.0, 0.0, 2.0]), np.array([0.3, 0.4, 0.3])
    x, y = 0.7, 0.2
    k, k_double = (mass * weights @ np.cos(frequencies * t) for t in (x - y, 2 * (x - y)))
    term = mass * np.cos(frequencies * (x - y))
    assert cosine_variance(k, k_double, mass) == pytest.approx(weights @ term**2 - k**2, rel=1e-12)
    # Equally spaced phases integrate trigonometric polynomials exactly.
    phases = 2 * np.pi * np.arange(16) / 16
    term = 2 * mass * np.cos(frequencies[:, None] * x + phases) * np.cos(frequencies[:, None] * y + phases)
    assert weights @ term.mean(axis=1) == pytest.approx(k, rel=1e-12)
    assert phase_variance(k, k_double, mass) == pytest.approx(weights @ (term**2).mean(axis=1) - k**2, rel=1e-12)


def test_variances_of_the_gaussian_kernel():
    k = np.exp(-0.5 * np.array([0.0, 0.5, 0.64, 1.0, 4.0]) ** 2)
    np.testing.assert_allclose(cosine_variance(k, k**4), (1 - k**2) ** 2 / 2, atol=1e-15)
    assert cosine_variance(1.0, 1.0) == 0.0
    assert phase_variance(1.0, 1.0) == 0.5
    # One frequency at |delta| = .64 (docs/theory/fourier.md).
    assert phase_variance(k[2], k[2] ** 4) == pytest.approx(0.557, abs=0.001)
