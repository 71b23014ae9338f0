"""The posterior on a grid: the series of the variance is the quadratic form of the features."""

import numpy as np
import pytest

from mercer.features import features_of
from mercer.solvers.grid.posterior import GridPosterior, coefficients_of

from .problems import problem


@pytest.mark.parametrize("constant", [0.0, 0.7])
@pytest.mark.parametrize("d", [1, 2])
def test_variance_is_the_quadratic_form_of_the_features(d, constant):
    system, Z, _, weight, features = problem(d, constant)
    coef, steps = coefficients_of(system, features.roots(), 0.5)
    assert steps == 0
    posterior = GridPosterior(features, system, coef, 1.0, 0.5, np.array([2.0, 3.0]), np.zeros(2))
    new = np.random.default_rng(1).uniform(size=(30, d))
    unweighted = features_of(features.unweighted(), new)
    roots = features.roots()
    A = roots * (Z.T @ (weight[:, None] * Z)) * roots[:, None] + 0.25 * np.eye(len(roots))
    F = unweighted * roots
    expected = 0.25 * np.einsum("ij,ij->i", F @ np.linalg.inv(A), F)
    rest = sum(part.summand.mass - part.mass for part in features.parts)
    got = posterior.variance(new)
    assert np.allclose(got, (expected + max(rest, 0.0))[:, None] * [4.0, 9.0], atol=1e-7)
    assert np.allclose(posterior.mean(new), (F @ coef) * [2.0, 3.0], atol=1e-7)
    assert np.allclose(np.diagonal(posterior.covariances(new)[..., 0]), got[:, 0], atol=1e-7)
