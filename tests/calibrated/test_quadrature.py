"""Spherical-radial rules have the kernel as their mean, for every unbiased design, number of components and dimension.

The weights 1 / rho^2 have heavy tails, without a fourth moment in six dimensions and fewer. A rule with its signed
constant is bounded by an interval of known length (`theory.quadrature_range`), and this rule is averaged here. A map
without the constant differs from it by `constant_`, whose mean of zero follows from two one-dimensional distributions.
A cosine with a random phase is averaged with the same cosine turned by a quarter, which does not change its mean.
"""

from dataclasses import replace
from itertools import cycle, product

import numpy as np
import pytest
from scipy import stats

from mercer import Gaussian, Matern, RationalQuadratic, SphericalRadial, Transformed
from mercer.maps.fourier.projections import chi_quantile
from mercer.maps.fourier.spherical_radial import LEAST_AMBIENT, isotropic_part

from .calibrated import kernel_of_pairs, misfit, pairs_of_rows

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:SphericalRadial. without the constant")]

DRAWS = 400
BLOCKS = 4000
UNBIASED = ("big_block", "orthogonal", "simplex", "butterfly", "iid")
KERNELS = [
    Gaussian(),
    2.5 * Gaussian(0.7),
    Matern(2.5),
    1.5 + 0.5 * RationalQuadratic(2.0),
    "ARD",
    3 * Matern(1.7, 2.0) + 1,
    RationalQuadratic(0.8),
]


def kernel_for(kernel, d):
    return Transformed(2 * Gaussian(1.2), lengthscales=np.linspace(0.6, 2.0, d)) if kernel == "ARD" else kernel


def squared_distances(kernel, X, Y):
    """Return |delta|^2 in units of the lengthscale of the isotropic part, times the mean of its mixing distribution."""
    factor = isotropic_part(kernel)[1]
    for affine in factor.inputs:
        X, Y = affine(X), affine(Y)
    return factor.kernel.mean_mixing * np.square((X - Y) / factor.kernel.lengthscale).sum(axis=1)


def ambient_of(name, m, d):
    """Return the dimension of the directions and the largest number of dependent directions."""
    padded = d if d >= LEAST_AMBIENT - 1 else LEAST_AMBIENT
    if name == "big_block":
        return max(m, padded), m
    if name == "simplex":
        return padded, padded + 1
    return padded, 1 if name == "iid" else padded


def full_estimates(feature_map, X, Y, n, seed):
    """Return the rule with its constant for n draws and each pair of rows, averaged over two phases."""
    feature_map.set_params(random_state=np.random.default_rng(seed))
    mass, _, offset = isotropic_part(feature_map.kernel)
    rows = np.concatenate([X, Y])
    values = np.empty((n, len(X)))
    for i in range(n):
        features = feature_map.fit_sample(X[:1]).features_.astype(X.dtype)
        turned = replace(features, phases=features.phases + 0.5 * np.pi * (features.phases != 0))
        total = np.zeros(len(X))
        for drawn in (features, turned):
            Z = np.empty((len(rows), features.n_components))
            drawn(rows, Z)
            signs = 1.0 if features.signs is None else features.signs
            total += 0.5 * (signs * Z[: len(X)] * Z[len(X) :]).sum(axis=1)
        if len(features.heads) == (offset > 0 and features.n_components > 1):  # the constant was dropped
            total += (
                (mass + offset * (features.n_components == 1)) * feature_map.constant_ * bool(len(features.amplitudes))
            )
        values[i] = total
    return values


def full_widths(feature_map, X, Y):
    """Return the length of an interval that contains every value of `full_estimates`."""
    mass, _, offset = isotropic_part(feature_map.kernel)
    width = feature_map.n_components - (offset > 0) - (feature_map.constant == "signed")
    width = max(width, 1)
    m = -(-width // 2)
    if feature_map.directions == "butterfly":
        ambient = block = feature_map.fit_sample(X[:1]).features_.projection.width
    else:
        ambient, block = ambient_of(feature_map.directions, m, X.shape[1])
    # Each block adds at most share * P * |delta|^2 / 2, and a simplex (P + 1) / P times as much.
    frame = ambient * min(2 / width, 1.0) * -(-m // block) * max(1.0, block / ambient)
    return np.maximum((mass + offset) * frame * squared_distances(feature_map.kernel, X, Y) / 2, 1e-6)


GRID = [
    (SphericalRadial(kernel_for(kernel, d), n, directions=directions, radii=radii, constant=constant), d)
    for (directions, radii, n), kernel, d, constant in zip(
        product(UNBIASED, ("stratified", "plain"), (1, 7, 40)),
        cycle(KERNELS),
        cycle((2, 5, 16, 1, 3, 11)),
        cycle(("drop", "signed", "drop", "drop")),
        strict=False,
    )
]


def name_of(cell):
    m, d = cell
    return f"{m.directions}-{m.radii}-{m.constant}-{m.n_components}-d{d}-{m.kernel!r}"


@pytest.mark.parametrize("cell", GRID, ids=name_of)
def test_mean_over_draws_is_the_kernel(cell, seed):
    m, d = cell
    assert m.unbiased is True
    X, Y = pairs_of_rows(d, seed)
    samples = full_estimates(m, X, Y, DRAWS, seed)
    widths = full_widths(m, X, Y)
    assert (np.ptp(samples, axis=0) <= widths + 1e-9).all()
    assert misfit(samples, kernel_of_pairs(m.kernel, X, Y), width=widths) <= 1


@pytest.mark.parametrize("directions", ["big_block", "simplex"])
@pytest.mark.parametrize("wrong", [Gaussian(1.1), 1.05 * Gaussian(), 0.05 + Gaussian()], ids=repr)
def test_misfit_detects_a_wrong_kernel(directions, wrong, seed):
    X, Y = pairs_of_rows(5, seed)
    m = SphericalRadial(Gaussian(), 60, directions=directions, constant="signed")
    samples, widths = full_estimates(m, X, Y, DRAWS, seed), full_widths(m, X, Y)
    assert misfit(samples, kernel_of_pairs(Gaussian(), X, Y), width=widths) <= 1
    assert misfit(samples, kernel_of_pairs(wrong, X, Y), width=widths) > 1


# ---- many blocks of one draw ----------------------------------------------------------------------------------------


def lags_of(d, length, seed):
    """Return lags along the first and the last axis, and two in random directions."""
    lags = np.random.default_rng(seed).normal(size=(4, d))
    lags[:2] = np.eye(d)[[0, -1]]
    return length * lags / np.linalg.norm(lags, axis=1, keepdims=True)


def block_estimates(directions, kernel, lags, seed, blocks=BLOCKS):
    """Return the estimates by the independent blocks of one wide draw with plain radii, and the size of a block.

    Butterflies share their mixing. Given the mixing they are independent, and each is unbiased.
    """
    d = lags.shape[1]
    _, size = ambient_of(directions, 1, d)
    if directions in ("butterfly", "hadamard"):
        size = 1 << (max(d, LEAST_AMBIENT) - 1).bit_length()
        size = max(size, 64) if directions == "butterfly" else size
        blocks = max(1000, blocks * 4 // size)
    m = SphericalRadial(kernel, 2 * size * blocks, directions=directions, radii="plain", random_state=seed).fit(lags)
    features = m.features_.astype(lags.dtype)
    squares = np.square(features.amplitudes) * blocks / isotropic_part(kernel)[0]
    terms = squares * (1 - np.cos(features.projection(lags)))
    return isotropic_part(kernel)[0] * (1 - terms.reshape(len(lags), blocks, size).sum(axis=2)).T, size


def block_misfit(directions, kernel, d, length, seed):
    lags = lags_of(d, length, seed)
    samples, size = block_estimates(directions, kernel, lags, seed)
    frame = max(d, LEAST_AMBIENT) if size == 1 else 1  # a single direction is no tight frame
    origin = np.zeros_like(lags)
    width = isotropic_part(kernel)[0] * frame * squared_distances(kernel, lags, origin) / 2
    return misfit(samples, kernel_of_pairs(kernel, lags, origin), width=width)


@pytest.mark.parametrize("directions", ["orthogonal", "simplex", "butterfly", "iid"])
@pytest.mark.parametrize(
    ("kernel", "d", "length"),
    [(Gaussian(), 1, 2.0), (Gaussian(0.5), 2, 0.6), (2 * Matern(2.5), 5, 1.5), (Gaussian(), 16, 2.0)],
    ids=repr,
)
def test_mean_over_blocks_is_the_kernel(directions, kernel, d, length, seed):
    assert block_misfit(directions, kernel, d, length, seed) <= 1


@pytest.mark.parametrize(("directions", "d"), [("hadamard", 4), ("hadamard", 3)])
def test_misfit_detects_biased_directions_which_are_declared_as_such(directions, d, seed):
    assert isinstance(SphericalRadial(directions=directions).unbiased, str)
    assert block_misfit(directions, Gaussian(), d, 2.0, seed) > 1


# ---- radii and the constant -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("ambient", [3, 4, 5, 16, 256])
def test_weights_have_mean_one(ambient):
    # Together with the mixing distributions tested in tests/kernels, this makes the mean of the constant zero. The
    # midpoint rule is in the variable t with u = t^4, because the weights are unbounded at zero.
    t = (np.arange(200_000) + 0.5) / 200_000
    weights = ambient / np.square(chi_quantile(t**4, ambient + 2))
    assert np.mean(weights * 4 * t**3) == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("radii", ["plain", "stratified"])
@pytest.mark.parametrize("directions", ["orthogonal", "simplex", "butterfly", "iid", "hadamard"])
def test_radii_have_the_size_biased_distribution_and_matching_weights(directions, radii, seed):
    d = 64
    for kernel, distribution in (
        (3 * Gaussian(0.7), stats.chi2(d + 2, scale=0.7**-2)),
        (Matern(2.5), stats.betaprime((d + 2) / 2, 1.5, scale=5.0)),
    ):
        m = SphericalRadial(kernel, 2 * 5000, directions=directions, radii=radii, random_state=seed)
        features = m.fit(np.zeros((1, d))).features_
        projection = features.projection
        lengths = getattr(projection, "radii", None)
        squares = np.square(projection.weights).sum(axis=0) if lengths is None else np.square(lengths)
        # Stratified radii are closer to their distribution than independent ones.
        assert stats.kstest(squares, distribution.cdf).pvalue > 1e-9
        assert stats.kstest(squares, stats.chi2(d, scale=0.7**-2).cdf).pvalue < 1e-9  # without size bias
        mass, factor, _ = isotropic_part(kernel)
        share = mass * factor.kernel.mean_mixing * d / factor.kernel.lengthscale**2 / 5000
        np.testing.assert_allclose(np.square(features.amplitudes) * squares, share, rtol=1e-9)
        assert m.constant_ == pytest.approx(1 - np.square(features.amplitudes).sum() / mass, abs=1e-12)


def test_phases_are_uniform(seed):
    m = SphericalRadial(Gaussian(), 7, random_state=np.random.default_rng(seed))
    phases = np.array([m.fit_sample(np.zeros((1, 3))).features_.phases for _ in range(DRAWS)])
    assert (phases[:, :-1] == 0).all()
    assert stats.kstest(phases[:, -1] / (2 * np.pi), "uniform").pvalue > 1e-9


def test_resampled_radii_are_biased_and_declared_as_such(seed):
    # One rule with six points in five dimensions, resampled as in the supplement of Munkhoeva et al. (2018, NeurIPS).
    X, Y = np.zeros((1, 5)), 2.0 * np.eye(5)[:1]
    m = SphericalRadial(Gaussian(), 13, directions="simplex", radii="plain", constant="resample")
    assert "have another distribution" in m.unbiased
    samples = full_estimates(m, X, Y, 7 * DRAWS, seed)
    assert misfit(samples, np.exp(-2.0), width=2.0) > 1
    assert misfit(samples, np.exp(-2.0) + 0.086, width=2.0) <= 1
    signed = full_estimates(m.set_params(constant="signed"), X, Y, 2 * DRAWS, seed)
    assert misfit(signed, np.exp(-2.0), width=2.0) <= 1


def test_stratified_radii_have_a_small_constant(seed):
    # So the constant can be dropped. Its standard deviation with independent radii is sqrt(2 / (m (P - 2))), here 0.16.
    m = SphericalRadial(Gaussian(), 32, directions="orthogonal", random_state=np.random.default_rng(seed))
    spreads = {}
    for radii in ("plain", "stratified"):
        m.set_params(radii=radii)
        spreads[radii] = np.median(np.abs([m.fit_sample(np.zeros((1, 7))).constant_ for _ in range(DRAWS)]))
    assert spreads["stratified"] < 0.5 * spreads["plain"]
