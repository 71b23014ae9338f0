"""The evidence of sums on a grid is that of the targets, and its derivatives are those of its values."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from mercer import Gaussian, Matern
from mercer.solvers.grid.evidence import evidence_of, lengthscale_slopes
from mercer.theory.fourier.grid import frequency_weights, lattice_ball

from .problems import problem


@pytest.mark.parametrize("rest", [0.0, 0.2])
def test_evidence_is_the_density_of_the_targets(rest):
    system, Z, y, weight, features = problem(1, n=40)
    roots, noise = features.roots(), 0.4
    F = np.sqrt(weight)[:, None] * Z * roots  # a weight divides the variance of the noise
    covariance = F @ F.T + (noise**2 + rest) * np.eye(40)
    scaled = np.sqrt(weight)[:, None] * y
    expected = sum(multivariate_normal(np.zeros(40), covariance).logpdf(column) for column in scaled.T)
    # For weights, the number of rows is their sum.
    expected -= (weight.sum() - 40) * np.log(2 * np.pi * (noise**2 + rest))
    assert evidence_of(system, roots, noise, rest=rest, gradient=False).value == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("rest", [0.0, 0.2])
def test_derivatives_are_those_of_the_value(rest):
    system, _, _, _, features = problem(2)
    roots, noise, step = features.roots(), 0.3, 1e-5
    total = rest + np.square(roots).sum()
    evidence = evidence_of(system, roots, noise, rest=rest)

    def value(roots, noise, rest):
        return evidence_of(system, roots, noise, rest=rest, gradient=False).value

    by_noise = (value(roots, noise * np.exp(step), rest) - value(roots, noise * np.exp(-step), rest)) / (2 * step)
    assert evidence.by_noise == pytest.approx(by_noise, rel=1e-5)
    up, down = np.exp(step), np.exp(-step)
    by_all = (value(up * roots, noise, up**2 * rest) - value(down * roots, noise, down**2 * rest)) / (2 * step)
    assert evidence.by_amplitude == pytest.approx(by_all, rel=1e-4)
    for m in (0, 3, 40):
        ends = []
        for sign in (1, -1):
            changed = roots.copy()
            changed[m] *= np.exp(sign * step)
            ends.append(value(changed, noise, total - np.square(changed).sum() if rest else 0.0))
        assert evidence.by_root[m] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("kernel", [Gaussian(), Matern(1.5), Matern(2.5)], ids=repr)
def test_slopes_of_weights_by_lengthscales(kernel):
    spacing = np.array([0.2, 0.3])
    index = lattice_ball(spacing, 20)
    complete = np.concatenate([np.zeros((1, 2)), index])
    slopes, step = lengthscale_slopes(kernel, spacing, index), 1e-5
    for axis in range(2):
        ends = []
        for sign in (1, -1):
            factors = np.ones(2)
            factors[axis] = np.exp(sign * step)
            ends.append(np.log(frequency_weights(kernel, spacing, complete, factors)) / 2)
        assert np.allclose(slopes[:, axis], (ends[0] - ends[1]) / (2 * step), atol=1e-5)
