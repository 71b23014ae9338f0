"""Moments in their eigenbasis give back what they were made of."""

import numpy as np
import pytest

from mercer.solvers.ridge.least_squares import Spectrum, centered_moments
from mercer.statistics.moments import Moments, TargetMoments


def features(n=50, D=6, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(1.0, 1.0, size=(n, D)), rng.normal(2.0, 1.0, size=(n, 3)), rng.uniform(0.0, 3.0, size=n)


def moments_of(Z, T, w):
    return Moments(np.triu(Z.T @ (Z * w[:, None])), TargetMoments.of(Z, T, w))


@pytest.mark.parametrize("D", [1, 63, 64, 65, 200])
@pytest.mark.parametrize("centered", [True, False])
def test_centered_moments_are_those_of_centered_features(D, centered):
    Z, T, w = features(D=D)
    found, center = centered_moments(moments_of(Z, T, w), centered=centered)
    expected = w @ Z / w.sum() if centered else np.zeros(D)
    np.testing.assert_allclose(center, expected)
    about = Z - expected
    np.testing.assert_allclose(np.triu(found), np.triu(about.T @ (about * w[:, None])), rtol=0, atol=1e-10)


@pytest.mark.parametrize(("centered", "offset"), [(True, None), (False, None), (False, np.array([1.0, 2.0, -3.0]))])
def test_coefficients_for_one_penalty_a_target_are_those_of_the_normal_equations(centered, offset):
    Z, T, w = features()
    s = Spectrum.of(moments_of(Z, T, w), centered=centered, offset=offset)
    A, B = (Z - np.average(Z, axis=0, weights=w), T - np.average(T, axis=0, weights=w)) if centered else (Z, T)
    B = B if offset is None else B - offset
    np.testing.assert_allclose(s.energy, w @ np.square(B))
    alphas = np.array([0.1, 1.0, 10.0])
    coef = s.coef(alphas)
    for t, alpha in enumerate(alphas):
        inverse = np.linalg.inv(A.T @ (A * w[:, None]) + alpha * np.eye(6))
        np.testing.assert_allclose(coef[:, t], inverse @ (A.T @ (w * B[:, t])), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(s.root(alpha) @ s.root(alpha).T, inverse, rtol=1e-9, atol=1e-12)


def test_directions_that_no_row_has_are_left_out():
    Z, T, w = features()
    s = Spectrum.of(moments_of(np.column_stack([Z, Z]), T, w))
    assert s.retained.sum() == 6
    assert np.abs(s.coef(0.0)).max() < 10
