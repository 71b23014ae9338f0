"""Sampled paths: functions with the posterior's mean and variance, and exact gradients."""

import numpy as np
import pytest

from mercer import (
    ArcCosine,
    Gaussian,
    GaussianProcessRegressor,
    Matern,
    Nystroem,
    Polynomial,
    RandomFourier,
    RandomNeurons,
)
from mercer.errors import ParameterError

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, size=(60, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * RNG.normal(size=60)
NEW = np.vstack([RNG.uniform(-2, 2, size=(5, 2)), [[6.0, -6.0]]])
PATHS = 600

MODELS = {
    "fourier": GaussianProcessRegressor(RandomFourier(Gaussian(1.0), 64, random_state=0), lengthscale_tuning=None),
    "landmarks": GaussianProcessRegressor(
        Nystroem(Matern(2.5, 1.0), 12, random_state=0), lengthscale_tuning=None, noise=0.1, amplitude=1.3
    ),
    "leading": GaussianProcessRegressor(
        Nystroem(Matern(2.5, 1.0), 12, landmarks="uniform", random_state=0), lengthscale_tuning=None
    ),
    "pathwise": GaussianProcessRegressor(
        RandomFourier(Gaussian(1.0), 512, random_state=0), lengthscale_tuning=None, variance_method="pathwise"
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_paths_have_the_mean_and_the_variance_of_predict(name):
    model = MODELS[name].fit(X, Y)
    mean, std = model.predict(NEW, return_std=True)
    draws = model.sample_path(PATHS, random_state=1)(NEW)
    assert draws.shape == (len(NEW), PATHS)
    # A mean of normal variables is within 4.5 standard errors, and a log standard deviation within 4.5 / sqrt(2 n),
    # with probability 1 - 7e-6 each; random features of prior paths add their own error to the latter.
    assert (np.abs(draws.mean(axis=1) - mean) <= 4.5 * std / np.sqrt(PATHS) + 1e-9).all()
    ratio = np.log(draws.std(axis=1) / std)
    prior = 0.05 if name == "pathwise" else 0.0  # 512 features: the variance of the paths is that of their kernel
    assert (np.abs(ratio) <= 4.5 / np.sqrt(2 * PATHS) + prior).all(), ratio


@pytest.mark.parametrize("kernel", [Matern(0.5, 0.7), Gaussian(0.5)])
def test_the_residual_of_landmarks_has_its_variance_at_every_row(kernel):
    model = GaussianProcessRegressor(Nystroem(kernel, 40, random_state=0), noise=0.1, amplitude=1.3)
    model.set_params(lengthscale_tuning=None).fit(X, Y)
    new = np.vstack([RNG.uniform(-3, 3, size=(50, 2)), X])
    part = model.sample_path(2).parts[1]
    Z = model.feature_map_.transform(new)
    residual = 1 - np.square(Z).sum(axis=1)
    _, _, square = part._rest(new)
    np.testing.assert_allclose(np.square(part.basis(new)).sum(axis=1), residual, rtol=1e-6, atol=2e-9)
    # Without the factor, errors of random features are large where the residual is small.
    large = residual > 1e-3
    assert np.abs(square[large] / residual[large] - 1).max() > 0.03


def test_paths_without_the_residual_of_landmarks_would_be_too_certain():
    model = MODELS["landmarks"].fit(X, Y)
    paths = model.sample_path(PATHS, random_state=1)
    std = model.predict(NEW, return_std=True)[1]
    of_features = paths.parts[0].values(NEW).std(axis=1)
    assert np.abs(np.log(of_features[-1] / std[-1])) > 1  # far away, where the features are zero


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_differences(name):
    model = MODELS[name].fit(X, Y)
    paths = model.sample_path(3, random_state=0)
    gradient, step = paths.gradient(NEW), 1e-5
    assert gradient.shape == (len(NEW), 2, 3)
    for j, e in enumerate(np.eye(2) * step):
        differences = (paths(NEW + e) - paths(NEW - e)) / (2 * step)
        np.testing.assert_allclose(gradient[:, j], differences, atol=1e-6 * max(1.0, np.abs(gradient).max()))


def test_a_path_is_one_function_of_x():
    paths = MODELS["landmarks"].fit(X, Y).sample_path(4, random_state=0)
    together = paths(NEW)
    for i, path in enumerate(paths):
        np.testing.assert_allclose(path(NEW[2:3])[0, 0], together[2, i], rtol=1e-10)
    np.testing.assert_allclose(paths[-1](NEW), together[:, 3:], rtol=1e-10)
    again = MODELS["landmarks"].fit(X, Y).sample_path(4, random_state=0)
    np.testing.assert_array_equal(again(NEW), together)
    with pytest.raises(IndexError, match="4 paths"):
        paths[4]


def test_paths_of_several_targets():
    model = GaussianProcessRegressor(Nystroem(Gaussian(1.0), 20, random_state=0), lengthscale_tuning=None)
    model.fit(X, np.column_stack([Y, -Y]))
    paths = model.sample_path(5, random_state=0)
    assert paths(NEW).shape == (len(NEW), 2, 5)
    assert paths.gradient(NEW).shape == (len(NEW), 2, 2, 5)
    assert paths[1](NEW).shape == (len(NEW), 2, 1)
    np.testing.assert_allclose(paths[1](NEW)[:, 1, 0], paths(NEW)[:, 1, 1])


def test_what_has_no_paths_or_gradients_is_refused():
    model = GaussianProcessRegressor(Nystroem(Polynomial(2), 20, random_state=0)).fit(X, Y)
    with pytest.raises(ParameterError, match="shift-invariant"):
        model.sample_path()
    with pytest.raises(ParameterError, match="n_samples"):
        MODELS["fourier"].fit(X, Y).sample_path(0)
    neurons = GaussianProcessRegressor(RandomNeurons(ArcCosine(1), 40, random_state=0)).fit(X, Y)
    assert np.isfinite(neurons.sample_path()(NEW)).all()
    with pytest.raises(ParameterError, match="no closed form"):
        neurons.sample_path().gradient(NEW)
