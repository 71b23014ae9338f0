"""Bounds on the error of grids hold, and are close to the error."""

import numpy as np
import pytest

from mercer import Gaussian, GridFourier, Matern, ParameterError, RationalQuadratic
from mercer.theory import grid_error, grid_mean_error
from mercer.theory.fourier.grid import decay_distance, lattice_ball

KERNELS = [Gaussian(0.2), Matern(1.5, 0.2), Matern(2.5, 0.3)]


@pytest.mark.filterwarnings("ignore:GridFourier:mercer.MercerWarning")  # few components for three columns
@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_error_is_within_the_bound(kernel, d):
    X = np.random.default_rng(d).uniform(size=(60, d))
    X = np.concatenate([X, np.zeros((1, d)), np.ones((1, d))])  # the corners of the box
    feature_map = GridFourier(kernel, 301, tolerance=1e-3).fit(X)
    error = np.abs(feature_map.gram(X) - kernel(X)).max()
    assert error <= feature_map.error_bound_ * (1 + 1e-9)
    assert error >= 0.2 * feature_map.error_bound_  # it is attained where rows are equal, but for aliasing


def test_bound_counts_periodic_images():
    # With all frequencies that matter, what is left is the image of the kernel at one period.
    lag = np.array([0.0, 1.0])
    period = 1.5
    bound = grid_error(Gaussian(0.2), [1.0], [period], 401)
    image = float(Gaussian(0.2)([[0.0]], [[period - 1.0]])[0, 0])
    assert image <= bound <= 2.1 * image
    frequencies = np.arange(-200, 201) / period
    weights = Gaussian().closed_spectral_density(0.2 * np.abs(frequencies), 1) * 0.2 / period
    approximate = (weights * np.cos(2 * np.pi * frequencies * lag[:, None])).sum(axis=1)
    assert np.abs(approximate - Gaussian(0.2)([[0.0]], lag[:, None])[0]).max() <= bound


def test_more_components_lower_the_bound():
    bounds = [grid_error(Matern(1.5), [5.0, 5.0], [15.0, 15.0], n) for n in (101, 301, 1001, 3001)]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] < 0.02 < bounds[0]


def test_mean_error_bounds_the_error_of_a_process():
    rng = np.random.default_rng(0)
    X, new = rng.uniform(size=(50, 1)), rng.uniform(size=(20, 1))
    y, noise, kernel = rng.normal(size=50), 0.5, Gaussian(0.3)
    feature_map = GridFourier(kernel, 13, tolerance=1e-6, bounds=([0.0], [1.0])).fit(X)

    def mean(K, k):
        return k @ np.linalg.solve(K + noise**2 * np.eye(50), y)

    error = np.abs(mean(kernel(X), kernel(new, X)) - mean(feature_map.gram(X), feature_map.gram(new, X))).max()
    bound = grid_mean_error(feature_map.error_bound_, 50, noise=noise, target_norm=float(np.linalg.norm(y)))
    assert 0 < error <= bound


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((RationalQuadratic(), [1.0], [2.0], 5), "closed form"),
        ((Gaussian(), [1.0], [2.0, 2.0], 5), "one to three numbers"),
        ((Gaussian(), [1.0] * 4, [2.0] * 4, 5), "one to three numbers"),
        ((Gaussian(), [2.0], [1.0], 5), "less than the periods"),
        ((Gaussian(), [-1.0], [1.0], 5), ">= 0"),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(ParameterError, match=message):
        grid_error(*arguments)


def test_lattice_has_one_of_each_pair_of_lowest_frequencies():
    spacing = np.array([0.3, 0.5, 0.4])
    index = lattice_ball(spacing, 200)
    length = np.linalg.norm(index * spacing, axis=1)
    assert (np.diff(length) >= -1e-12).all()
    both = {tuple(j) for j in index} | {tuple(-j) for j in index}
    assert len(both) == 400
    axes = np.stack(np.meshgrid(*[np.arange(-30, 31)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    every = np.sort(np.linalg.norm(axes * spacing, axis=1))
    assert np.allclose(every[1:401], np.repeat(np.sort(length), 2))


def test_decay_distance_of_a_gaussian():
    assert decay_distance(Gaussian(), 1e-4) == pytest.approx(np.sqrt(2 * np.log(1e4)), rel=1e-5)
    with pytest.raises(ParameterError, match="decays too slowly"):
        decay_distance(RationalQuadratic(0.1), 1e-4)
