"""Each butterfly direction is exactly uniform on the sphere, and maps with them are unbiased."""

import numpy as np
import pytest
from scipy.stats import kstest

from mercer import Gaussian, Matern, RandomFourier, linalg
from mercer.maps.fourier.projections import butterfly_rotations

from .calibrated import estimates, kernel_of_pairs, misfit, pairs_of_rows

pytestmark = pytest.mark.slow

DRAWS = 1600


def directions_of(m, d, rng, squared_cosines=None, premix=True):
    """Return the m directions of one draw as rows of length P.

    `squared_cosines` replaces the distribution of the squared cosines of the angles.
    """
    signs, rotations = butterfly_rotations(m, d, rng)
    cosines, sines = list(rotations.cosines), list(rotations.sines)
    if squared_cosines is not None:
        for level in range(1, len(cosines)):
            squares = squared_cosines(rng, cosines[level].shape)
            cosines[level], sines[level] = np.sqrt(squares), np.sqrt(1 - squares)
    plan = linalg.butterfly_plan(cosines, sines)
    P = signs.shape[1]
    out = np.empty((P, m))
    if not premix:  # undo the mixing, whose inverse is the same with the two sign vectors exchanged
        mixed = np.empty((P, P))
        linalg.sign_hadamard(np.eye(P) * signs[1], signs[:1, None, :].copy() ** 2, mixed)
        linalg.butterfly(np.ascontiguousarray(mixed * signs[0]), signs, plan, out)
    else:
        linalg.butterfly(np.eye(P), signs, plan, out)
    return out.T


@pytest.mark.parametrize("d", [1, 2, 5, 16, 100])
def test_directions_of_a_block_are_orthonormal(d):
    W = directions_of(128, d, np.random.default_rng(0))
    P = W.shape[1]
    for block in (W[i : i + P] for i in range(0, 128 - P + 1, P)):
        np.testing.assert_allclose(block @ block.T, np.eye(len(block)), atol=1e-12)


@pytest.mark.parametrize("index", [0, 3, 15])
def test_each_direction_is_uniform_on_the_sphere(index, seed):
    # The squared coordinate of a uniform direction of R^16 along any axis is Beta(1/2, 15/2).
    rng = np.random.default_rng(seed)
    axis = rng.normal(size=16)
    axis /= np.linalg.norm(axis)
    for lag in (np.eye(16)[2], axis):
        squares = [np.square(directions_of(16, 16, rng)[index] @ lag) for _ in range(800)]
        assert kstest(squares, "beta", args=(0.5, 7.5)).pvalue > 1e-9


def test_uniform_angles_do_not_give_uniform_directions(seed):
    # Munkhoeva et al. (2018, NeurIPS) take angles that are uniform at every level, so that cos^2 is Beta(1/2, 1/2). The
    # deviation is visible without the mixing, where coordinates are products of few cosines and sines.
    rng = np.random.default_rng(seed)

    def uniform_angles(rng, shape):
        return rng.beta(0.5, 0.5, shape)

    squares = [np.square(directions_of(16, 16, rng, uniform_angles, premix=False)[3, 2]) for _ in range(800)]
    assert kstest(squares, "beta", args=(0.5, 7.5)).pvalue < 1e-9
    # With the correct distribution, directions are uniform without the mixing, too.
    squares = [np.square(directions_of(16, 16, rng, premix=False)[3, 2]) for _ in range(800)]
    assert kstest(squares, "beta", args=(0.5, 7.5)).pvalue > 1e-9


@pytest.mark.parametrize("kernel", [Gaussian(), 2.5 * Gaussian(0.7), Gaussian() + Matern(1.5)], ids=repr)
@pytest.mark.parametrize("d", [2, 5, 17])
@pytest.mark.parametrize(("form", "n"), [("pairs", 1), ("pairs", 7), ("pairs", 40), ("phase", 40), ("complex", 20)])
def test_mean_over_draws_is_the_kernel(kernel, d, form, n, seed):
    X, Y = pairs_of_rows(d, seed, unit_norm=n == 40)
    m = RandomFourier(kernel, n, form=form, directions="butterfly", radii="stratified")
    assert m.unbiased is True
    mass = float(kernel.diag(np.zeros((1, d)))[0])
    width = mass * (4 if form == "phase" or n % 2 else 2)
    samples = estimates(m, X, Y, DRAWS, seed)
    assert misfit(samples, kernel_of_pairs(kernel, X, Y), width=width) <= 1


def test_axis_aligned_lags_are_unbiased_in_contrast_to_sign_hadamard(seed):
    X, Y = np.zeros((1, 4)), np.array([[2.0, 0.0, 0.0, 0.0]])
    expected = kernel_of_pairs(Gaussian(), X, Y)
    for directions, unbiased in (("butterfly", True), ("hadamard", False)):
        m = RandomFourier(Gaussian(), 8, directions=directions)
        assert (misfit(estimates(m, X, Y, 2 * DRAWS, seed), expected, width=2) <= 1) == unbiased


def test_variance_is_close_to_that_of_haar_directions(seed):
    # One block of 16 directions. Butterflies match the closed form for Haar-distributed directions within a few percent
    # (docs/theory/directions.md).
    rng = np.random.default_rng(seed)
    X = np.zeros((1, 16))
    for Y in (np.eye(16)[:1] * 1.5, rng.normal(size=(1, 16)) * 0.375):
        samples = estimates(RandomFourier(Gaussian(), 32, directions="butterfly"), X, Y, 4 * DRAWS, seed)
        haar = RandomFourier(Gaussian(), 32, directions="orthogonal").fit(X).variance(X, Y)[0, 0]
        iid = RandomFourier(Gaussian(), 32, directions="iid").fit(X).variance(X, Y)[0, 0]
        # The relative error of a variance from N draws is about sqrt(2 / N) = 0.018, or more for heavy tails.
        assert 0.8 * haar < samples.var() < 1.3 * haar
        assert samples.var() < 0.8 * iid
