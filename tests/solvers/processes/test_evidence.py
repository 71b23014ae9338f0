"""The evidence from moments is the density of the targets, and its best scales are its top."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from mercer import DataError
from mercer.solvers.processes.evidence import Evidence, Scales
from mercer.solvers.ridge.least_squares import Spectrum
from mercer.statistics.moments import Moments, TargetMoments


def problem(n=40, D=6, seed=0, weighted=False):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, D))
    Y = Z @ rng.normal(size=(D, 2)) * [1.0, 20.0] + rng.normal(size=(n, 2)) * [0.5, 3.0]
    w = rng.integers(1, 4, n).astype(float) if weighted else np.ones(n)
    moments = Moments(Z.T @ (Z * w[:, None]), TargetMoments.of(Z, Y, w))
    return Z, Y, w.astype(int), Evidence(Spectrum.of(moments, centered=False))


SCALES = Scales(np.array([0.7, 2.0]), np.array([1.3, 15.0]))


@pytest.mark.parametrize("weighted", [False, True])
def test_value_is_the_density_of_the_targets(weighted):
    Z, Y, w, evidence = problem(weighted=weighted)
    Z, Y = np.repeat(Z, w, axis=0), np.repeat(Y, w, axis=0)
    for t, value in enumerate(evidence.value(SCALES)):
        cov = SCALES.amplitude[t] ** 2 * Z @ Z.T + SCALES.noise[t] ** 2 * np.eye(len(Z))
        assert value == pytest.approx(multivariate_normal(np.zeros(len(Z)), cov).logpdf(Y[:, t]), rel=1e-9)


def test_gradient_is_that_of_differences():
    *_, evidence = problem()
    h = 1e-6
    in_noise, in_amplitude = evidence.gradient(SCALES)
    for factor, found in ((lambda s: Scales(SCALES.noise * s, SCALES.amplitude), in_noise),
                          (lambda s: Scales(SCALES.noise, SCALES.amplitude * s), in_amplitude)):  # fmt: skip
        differences = (evidence.value(factor(np.exp(h))) - evidence.value(factor(np.exp(-h)))) / (2 * h)
        np.testing.assert_allclose(found, differences, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize(("noise", "amplitude"), [(None, None), (0.8, None), (None, 2.0), (0.8, 2.0)])
def test_best_scales_are_at_the_top_of_what_is_free(noise, amplitude):
    *_, evidence = problem()
    best = evidence.best(noise, amplitude)
    in_noise, in_amplitude = evidence.gradient(best)
    assert noise is None or (best.noise == noise).all()
    assert amplitude is None or (best.amplitude == amplitude).all()
    if noise is None:
        np.testing.assert_allclose(in_noise, 0.0, atol=1e-8)
    if amplitude is None:
        np.testing.assert_allclose(in_amplitude, 0.0, atol=1e-8)
    # No point of a grid is higher.
    for a in np.geomspace(0.01, 100, 25) if noise is None else [1.0]:
        for b in np.geomspace(0.01, 100, 25) if amplitude is None else [1.0]:
            other = Scales(best.noise * a, best.amplitude * b)
            assert (evidence.value(other) <= evidence.value(best) + 1e-9).all()


def test_targets_that_are_all_noise_or_none_stay_finite():
    Z, Y, *_ = problem()
    for targets in (np.random.default_rng(1).normal(size=(40, 1)), Z[:, :1], np.zeros((40, 1))):
        evidence = Evidence(Spectrum.of(Moments(Z.T @ Z, TargetMoments.of(Z, targets)), centered=False))
        best = evidence.best()
        assert np.isfinite([best.noise, best.amplitude]).all()
        assert (best.noise > 0).all()
        assert (best.amplitude > 0).all()
    huge = Spectrum.of(Moments(Z.T @ Z, TargetMoments.of(Z, 1e200 * Y)), centered=False)
    with pytest.raises(DataError, match=r"log marginal likelihood needs targets .* squares overflow"):
        Evidence(huge)
