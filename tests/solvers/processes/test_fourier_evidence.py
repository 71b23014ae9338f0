"""The evidence on random Fourier features, against normal densities and their differences."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from mercer import Gaussian, RandomFourier
from mercer.solvers.processes.evidence import Scales
from mercer.solvers.processes.fourier_evidence import FourierEvidence

RNG = np.random.default_rng(0)
X, WEIGHT = RNG.normal(size=(25, 2)), RNG.integers(1, 3, 25).astype(float)
Y = np.sin(2 * X) + 0.4 * RNG.normal(size=(25, 2))
MAP = RandomFourier(Gaussian(1.3), 12, directions="iid", random_state=0).fit(X)
LOG_SCALES, LOG_NOISE, LOG_AMPLITUDE = np.log([0.8, 1.6]), np.log([0.3, 0.5]), np.log([1.1, 0.7])


def evidence():
    return FourierEvidence(MAP.features_, X, Y, WEIGHT)


def density(log_scales, log_noise, log_amplitude):
    """Return the log density of the targets of rows repeated by their weights."""
    counts = WEIGHT.astype(int)
    # Frequencies divided by lengthscales are rows divided by lengthscales.
    Z, targets = np.repeat(MAP.transform(X * np.exp(-log_scales)), counts, axis=0), np.repeat(Y, counts, axis=0)
    total = 0.0
    for t in range(2):
        cov = np.exp(2 * log_amplitude[t]) * Z @ Z.T + np.exp(2 * log_noise[t]) * np.eye(len(Z))
        total += multivariate_normal(np.zeros(len(Z)), cov).logpdf(targets[:, t])
    return total


def test_the_value_is_the_density_of_the_targets():
    value = evidence()(LOG_SCALES, LOG_NOISE, LOG_AMPLITUDE)[0]
    assert value == pytest.approx(density(LOG_SCALES, LOG_NOISE, LOG_AMPLITUDE), rel=1e-9)


def test_derivatives_are_differences_of_the_density():
    point = [LOG_SCALES, LOG_NOISE, LOG_AMPLITUDE]
    _, *gradients = evidence()(*point)
    h = 1e-5
    for which, gradient in enumerate(gradients):
        for i in range(2):
            step = [h * np.eye(2)[i] if which == k else np.zeros(2) for k in range(3)]
            up, down = (density(*(p + s * d for p, d in zip(point, step, strict=True))) for s in (1, -1))
            assert gradient[i] == pytest.approx((up - down) / (2 * h), rel=1e-5, abs=1e-5)


@pytest.mark.parametrize(("noise", "amplitude"), [(None, None), (0.4, None), (0.4, 1.2)])
def test_best_scales_are_at_the_top_of_what_is_free(noise, amplitude):
    value, scales = evidence().best(LOG_SCALES, noise, amplitude)
    logs = np.log(scales.noise), np.log(scales.amplitude)
    assert value == pytest.approx(density(LOG_SCALES, *logs), rel=1e-9)
    for step in (-0.05, 0.05):
        if noise is None:
            assert density(LOG_SCALES, logs[0] + step, logs[1]) < value
        if amplitude is None:
            assert density(LOG_SCALES, logs[0], logs[1] + step) < value
    if noise is not None and amplitude is not None:
        assert (scales.noise == noise).all()
        assert (scales.amplitude == amplitude).all()
    assert isinstance(scales, Scales)
