"""The spectral distribution of every kernel has its values as Fourier transform (Bochner), by sampling."""

import numpy as np
import pytest

from mercer import Cauchy, Gaussian, Laplacian, Matern, RandomFourier, RationalQuadratic, Transformed

from ..instances import COMPOSITE as ALGEBRA
from ..instances import SEPARABLE, SHIFT_INVARIANT
from .calibrated import mass_of, misfit

N = 120_000
DIMENSIONS = [1, 2, 5, 17]


def lags_of(kernel, d, rng):
    """Return lags on the axes and off them, of lengths at which the values of the kernel are neither 0 nor 1."""
    axis = np.zeros((3, d))
    axis[:, rng.integers(d)] = [0.5, 1.0, 2.0]
    lags = rng.normal(size=(4, d))
    norms = np.abs(lags).sum(axis=1) if isinstance(kernel, Laplacian) else np.linalg.norm(lags, axis=1)
    lags *= np.array([0.5, 1.0, 1.5, 2.0])[:, None] / norms[:, None]
    return kernel.lengthscale * np.concatenate([axis, lags])


def values_at(kernel, lags):
    return kernel(lags, np.zeros((1, lags.shape[1])))[:, 0]


@pytest.mark.covering(1)
@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("kernel", SHIFT_INVARIANT, ids=repr)
def test_mean_cosines_are_the_kernel_and_distinguish_its_lengthscale(kernel, d, seed):
    rng = np.random.default_rng(seed)
    lags = lags_of(kernel, d, rng)
    frequencies = kernel.frequencies(rng.standard_normal((N, d)), rng.random(N))
    cosines = np.cos(frequencies @ lags.T)
    assert misfit(cosines, values_at(kernel, lags), width=2) <= 1
    # The roughest kernel hardly depends on its lengthscale.
    for factor in (0.5, 2.0) if kernel == Matern(0.1, 1.3) else (0.9, 1.1):
        wrong = kernel.with_params(lengthscale=factor * kernel.lengthscale)
        assert misfit(cosines, values_at(wrong, lags), width=2) > 1


@pytest.mark.covering(1)
@pytest.mark.parametrize("d", DIMENSIONS[1:])
@pytest.mark.parametrize("kernel", SEPARABLE, ids=repr)
def test_separable_kernels_are_distinguished_from_isotropic_ones(kernel, d, seed):
    rng = np.random.default_rng(seed)
    lags = lags_of(kernel, d, rng)
    cosines = np.cos(kernel.frequencies(rng.standard_normal((N, d)), rng.random(N)) @ lags.T)
    turned = np.zeros_like(lags)
    turned[:, 0] = np.linalg.norm(lags, axis=1)  # the same lengths, all on one axis
    assert misfit(cosines, values_at(kernel, turned), width=2) > 1
    assert misfit(cosines[:, :3], values_at(kernel, turned[:3]), width=2) <= 1


COMPOSITE = [
    *(kernel for kernel in ALGEBRA if kernel.spectral_parts() is not None),
    2.5 * Gaussian(0.7),
    Gaussian() + 0.5 * Laplacian(),
    3 * Matern(0.5) * Gaussian(2.0),
    Laplacian(3.0) * Cauchy(2.0) + 2 * RationalQuadratic(),
    Transformed(Gaussian(), lengthscales=(0.5, 1.0, 4.0)),
    Transformed(Laplacian(), columns=(2, 0), lengthscales=(0.5, 2.0)),
    Transformed(Transformed(Matern(), columns=(1,)) + Cauchy(), columns=(2, 1), center=(1.0, 0.0)),
    (Gaussian() + Transformed(Laplacian(), columns=(0,))) * Transformed(Matern(), columns=(1,)),
]


def cosines_of(kernel, lags, seed):
    """Return Z cos(w . lag) for iid frequencies as a map draws them."""
    m = RandomFourier(kernel, 2 * N, directions="iid", random_state=seed).fit(lags)
    constant = m.features_.constant**2  # an exact component of its own
    return constant + (mass_of(kernel) - constant) * np.cos(m.features_.projection.weights.T @ lags.T)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", COMPOSITE, ids=repr)
def test_spectral_measures_follow_the_algebra_of_kernels(kernel, seed):
    lags = np.concatenate([np.random.default_rng(seed).normal(size=(6, 3)), np.eye(3)])
    assert misfit(cosines_of(kernel, lags, seed), values_at(kernel, lags), width=2 * mass_of(kernel)) <= 1


A, B, ARD = Gaussian(0.7), Laplacian(1.5), Transformed(Gaussian(), lengthscales=(0.5, 1.0, 4.0))


@pytest.mark.parametrize(
    ("drawn", "claimed"),
    [
        (A, 2.5 * A),
        (A + B, 0.7 * A + 1.3 * B),
        (A + A, A + A * A),
        (A * B, A * B.with_params(lengthscale=1.0)),
        (ARD, ARD.with_params(lengthscales=(0.5, 1.2, 4.0))),
        (ARD, ARD.with_params(lengthscales=(4.0, 1.0, 0.5))),
        (Transformed(A, columns=(2, 0)), Transformed(A, columns=(2, 1))),
        (
            Transformed(B, columns=(2, 0), lengthscales=(1, 3)),
            Transformed(B, columns=(2, 0), lengthscales=(3, 1)),
        ),
    ],
    ids=repr,
)
def test_a_wrong_mass_share_scale_or_feature_is_detected(drawn, claimed, seed):
    lags = np.concatenate([np.random.default_rng(seed).normal(size=(6, 3)), np.eye(3)])
    assert misfit(cosines_of(drawn, lags, seed), values_at(claimed, lags), width=2 * mass_of(drawn)) > 1
