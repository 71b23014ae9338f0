"""The exact evidence of few rows, against scikit-learn, normal densities and their differences."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor as ExactProcess
from sklearn.gaussian_process import kernels as sk

from mercer import Gaussian, Matern
from mercer.solvers.processes.gram_evidence import GramEvidence, distances

RNG = np.random.default_rng(0)
X, WEIGHT = RNG.normal(size=(25, 2)), RNG.integers(1, 3, 25).astype(float)
Y = np.sin(2 * X) + 0.4 * RNG.normal(size=(25, 2))
LOG_SCALES, LOG_NOISE, LOG_AMPLITUDE = np.log([0.8, 1.6]), np.log([0.3, 0.5]), np.log([1.1, 0.7])


def density(kernel, log_scales, log_noise, log_amplitude, weight=WEIGHT):
    """Return the log density of the targets of rows repeated by their weights."""
    counts = weight.astype(int)
    rows, targets = np.repeat(X * np.exp(-log_scales), counts, axis=0), np.repeat(Y, counts, axis=0)
    total = 0.0
    for t in range(2):
        cov = np.exp(2 * log_amplitude[t]) * kernel(rows) + np.exp(2 * log_noise[t]) * np.eye(len(rows))
        total += multivariate_normal(np.zeros(len(rows)), cov).logpdf(targets[:, t])
    return total


def test_gram_evidence_is_scikit_learns():
    evidence = GramEvidence(Gaussian(), X, Y, np.ones(25))
    value, in_scales, in_noise, in_amplitude = evidence(LOG_SCALES, LOG_NOISE, LOG_AMPLITUDE)
    total, gradient = 0.0, np.zeros((2, 4))
    for t in range(2):
        kernel = np.exp(2 * LOG_AMPLITUDE[t]) * sk.RBF(np.exp(LOG_SCALES)) + sk.WhiteKernel(np.exp(2 * LOG_NOISE[t]))
        peer = ExactProcess(kernel, optimizer=None).fit(X, Y[:, t])
        part, gradient[t] = peer.log_marginal_likelihood(peer.kernel_.theta, eval_gradient=True)
        total += part
    assert value == pytest.approx(total, rel=1e-8)  # theirs has 1e-10 added to the diagonal
    np.testing.assert_allclose(in_scales, gradient[:, 1:3].sum(axis=0), rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(in_noise, 2 * gradient[:, 3], rtol=1e-7)
    np.testing.assert_allclose(in_amplitude, 2 * gradient[:, 0], rtol=1e-7)


@pytest.mark.parametrize("kernel", [Gaussian(), Matern(0.5), Matern(2.5)], ids=repr)
def test_value_and_derivatives_are_those_of_the_density(kernel):
    point = [LOG_SCALES, LOG_NOISE, LOG_AMPLITUDE]
    value, *gradients = GramEvidence(kernel, X, Y, WEIGHT)(*point)
    assert value == pytest.approx(density(kernel, *point), rel=1e-9)
    h = 1e-5
    for which, gradient in enumerate(gradients):
        for i in range(2):
            step = [h * np.eye(2)[i] if which == k else np.zeros(2) for k in range(3)]
            up, down = (density(kernel, *(p + s * d for p, d in zip(point, step, strict=True))) for s in (1, -1))
            assert gradient[i] == pytest.approx((up - down) / (2 * h), rel=1e-5, abs=1e-5)


@pytest.mark.parametrize(("noise", "amplitude"), [(None, None), (0.4, None), (None, 1.2), (0.4, 1.2)])
def test_best_scales_are_at_the_top_of_what_is_free(noise, amplitude):
    # Targets that are repeated to the last digit are best explained by no noise at all.
    weight = np.ones(25) if noise is None else WEIGHT
    value, scales = GramEvidence(Gaussian(), X, Y, weight).best(LOG_SCALES, noise, amplitude)

    def at(in_noise=0.0, in_amplitude=0.0):
        logs = np.log(scales.noise) + in_noise, np.log(scales.amplitude) + in_amplitude
        return density(Gaussian(), LOG_SCALES, *logs, weight)

    assert value == pytest.approx(at(), rel=1e-8)
    for step in (-0.05, 0.05):
        assert noise is not None or at(in_noise=step) < value
        assert amplitude is not None or at(in_amplitude=step) < value


def test_a_matrix_that_is_not_positive_definite_has_no_evidence():
    twice = np.vstack([X, X])
    evidence = GramEvidence(Gaussian(), twice, np.vstack([Y, Y]), np.ones(50))
    value, *gradients = evidence(LOG_SCALES, np.log([1e-12, 1e-12]), LOG_AMPLITUDE)
    assert value == -np.inf
    assert not np.concatenate(gradients).any()


def test_distances_have_an_exact_diagonal_and_survive_an_offset():
    far = X + 1e3
    np.testing.assert_allclose(distances(far), cdist(far, far), rtol=1e-6, atol=1e-6)
    assert not np.diagonal(distances(far)).any()


def test_distances_are_those_of_rows_however_far_from_zero_they_lie():
    far = X + np.array([1e6, -3e6])
    np.testing.assert_allclose(distances(far), cdist(far, far), rtol=1e-6, atol=1e-9)
    for rows in (X, far, 1e8 * X + 1.0):
        assert not np.diagonal(distances(rows)).any()  # exactly: a rough kernel has no slope at zero
    # Otherwise rounding makes a distance of a row from itself, if only of one among many.
    uneven = np.random.default_rng(1).normal(size=(200, 7)) * np.pi
    assert not np.diagonal(distances(uneven)).any()
