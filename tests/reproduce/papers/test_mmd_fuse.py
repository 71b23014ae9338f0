"""Problems of MMD-FUSE: the densities are those that the paper describes."""

import numpy as np

from mercer.reproduce.papers.mmd_fuse import AMPLITUDES, bump, mixture, perturbed

# The mean of exp(1 - 1 / (1 - u^2)) over (-1, 1).
MEAN_OF_A_BUMP = 0.60345


def test_one_component_of_the_mixture_has_another_deviation():
    X, Y = mixture(40_000, np.random.default_rng(0))
    for rows, deviation in ((X, 1.0), (Y, 1.3)):
        near = rows[(rows > 0).all(axis=1)] - 20
        # The standard error of the deviation of 20,000 numbers is 0.005.
        assert abs(near.std() - deviation) < 0.03
        other = rows[(rows < 0).all(axis=1)] + 20
        assert abs(other.std() - 1.0) < 0.03


def test_bumps_integrate_to_zero_and_have_the_stated_height():
    x = np.linspace(-1, 0, 10_001)
    assert abs(bump(x).mean()) < 1e-12
    np.testing.assert_allclose(bump(np.array([-0.75, -0.25])), [np.exp(-1), -np.exp(-1)])


def test_the_perturbed_density_in_one_dimension():
    n = 200_000
    X, Y = perturbed(n, np.random.default_rng(3), 1)
    for rows, height in ((X, 0.0), (Y, AMPLITUDES[1] * MEAN_OF_A_BUMP)):
        counts, _ = np.histogram(rows[:, 0], bins=8, range=(0, 1))
        # A bump has two bins, which it fills alike. The standard error of a share times 8 is at most sqrt(8 / n).
        np.testing.assert_allclose(np.abs(8 * counts / n - 1), height, atol=4.5 * np.sqrt(8 / n))
    assert AMPLITUDES[1] * MEAN_OF_A_BUMP > 3 * 4.5 * np.sqrt(8 / n)
