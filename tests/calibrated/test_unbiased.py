"""Random Fourier features that are declared `unbiased` have the kernel as their mean over draws."""

from functools import partial
from itertools import cycle, product

import numpy as np
import pytest
from scipy.stats import qmc

from mercer import (
    Cauchy,
    Constant,
    Gaussian,
    Laplacian,
    Matern,
    RandomFourier,
    RationalQuadratic,
    Transformed,
)
from mercer.maps.fourier import directions as directions_module
from mercer.maps.fourier.directions import haar

from .calibrated import estimates, kernel_of_pairs, misfit, pairs_of_rows, width_of

DRAWS = 1600
SOBOL_DRAWS = 700  # a Sobol engine takes a millisecond to build

DESIGNS = [
    *product(("iid", "orthogonal", "big_block"), ("plain", "stratified")),
    ("sobol", "plain"),
]
FORMS = ("pairs", "phase", "complex")
WIDTHS = (1, 2, 7, 40)
# Kernels and dimensions are cycled over the cells of the grid; cycles of coprime lengths reach every combination.
KERNELS = [
    Gaussian(),
    2.5 * Gaussian(0.7),
    Gaussian() + 2 * Laplacian(3.0),
    3 * Matern(1.5) * Cauchy(4.0),
    1.5 + 0.5 * RationalQuadratic(2.0),
]
GRID = [
    (RandomFourier(kernel, n, form=form, directions=directions, radii=radii), d, unit_norm)
    for ((directions, radii), form, n), kernel, d, unit_norm in zip(
        product(DESIGNS, FORMS, WIDTHS), cycle(KERNELS), cycle((2, 5, 17)), cycle((False, True)), strict=False
    )
    if not (directions == "sobol" and n in (2, 40) and form != "pairs")
]


def name_of(cell):
    m, d, unit_norm = cell
    return f"{m.directions}-{m.radii}-{m.form}-{m.n_components}-d{d}-{m.kernel!r}" + "-unit" * unit_norm


def bias(feature_map, kernel, X, Y, draws, seed):
    samples = estimates(feature_map, X, Y, draws, seed)
    return misfit(samples, kernel_of_pairs(kernel, X, Y), width=width_of(feature_map))


def draws_for(feature_map):
    return SOBOL_DRAWS if feature_map.directions == "sobol" else DRAWS


@pytest.mark.parametrize("cell", GRID, ids=name_of)
def test_mean_over_draws_is_the_kernel(cell, seed):
    m, d, unit_norm = cell
    assert m.unbiased is True
    X, Y = pairs_of_rows(d if m.directions != "sobol" else min(d, 5), seed, unit_norm=unit_norm)
    assert bias(m, m.kernel, X, Y, draws_for(m), seed) <= 1


ALL_KERNELS = [
    Matern(0.3),
    Matern(150.0),
    RationalQuadratic(0.5),
    Laplacian(),
    Cauchy(),
    Constant(0.5) + Gaussian(),
    Transformed(Gaussian(), lengthscales=(0.5, 1.0, 4.0)),
    Transformed(2 * Laplacian() + Gaussian(), columns=(2, 0), center=(1.0, -1.0), lengthscales=(0.5, 2.0)),
    Gaussian() * Transformed(Laplacian(), columns=(1,)) + Transformed(Matern(), columns=(0,)),
]


@pytest.mark.parametrize("directions", ["orthogonal", "big_block"])
@pytest.mark.parametrize("kernel", ALL_KERNELS, ids=repr)
def test_mean_over_draws_is_the_kernel_for_every_kernel(kernel, directions, seed):
    X, Y = pairs_of_rows(3, seed)
    m = RandomFourier(kernel, 9, directions=directions, radii="stratified")
    assert bias(m, kernel, X, Y, DRAWS, seed) <= 1


@pytest.mark.parametrize(("d", "n", "form", "radii"), [(2, 7, "pairs", "stratified"), (5, 12, "phase", "plain")])
def test_simplex_directions_are_unbiased(d, n, form, radii, seed):
    X, Y = pairs_of_rows(d, seed)
    m = RandomFourier(Gaussian() + 2 * Laplacian(3.0), n, form=form, directions="simplex", radii=radii)
    assert m.unbiased is True
    assert bias(m, m.kernel, X, Y, DRAWS, seed) <= 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n", WIDTHS)
def test_misfit_detects_an_ignored_mass(form, n, seed):
    X, Y = pairs_of_rows(3, seed)
    # A map of mass one where 2.5 is claimed, and a map of mass 2.5 where its square is claimed.
    for drawn, claimed in ((1.0, 2.5), (2.5, 6.25)):
        m = RandomFourier(drawn * Gaussian(), n, form=form)
        assert bias(m, claimed * Gaussian(), X, Y, DRAWS, seed) > 1


def test_misfit_detects_an_unpaired_cosine_counted_as_a_pair(seed):
    X, Y = pairs_of_rows(3, seed)
    m = RandomFourier(Gaussian(), 7)
    samples = estimates(m, X, Y, 3 * DRAWS, seed)
    expected = kernel_of_pairs(Gaussian(), X, Y)
    assert misfit(samples, expected, width=4) <= 1
    assert misfit(samples * 7 / 8, expected, width=4) > 1  # the scale of four pairs for seven components


def test_misfit_detects_a_lengthscale_off_by_ten_percent(seed):
    X, Y = pairs_of_rows(5, seed)
    m = RandomFourier(Gaussian(), 400)  # many components, for less variance per draw
    samples = estimates(m, X, Y, 2 * DRAWS, seed)
    assert misfit(samples, kernel_of_pairs(Gaussian(), X, Y), width=2) <= 1
    assert misfit(samples, kernel_of_pairs(Gaussian(1.1), X, Y), width=2) > 1


@pytest.mark.parametrize("directions", ["iid", "orthogonal", "big_block"])
def test_every_frequency_of_a_sum_is_of_each_part_with_its_probability(directions, seed):
    # Two parts that depend on one feature each: the nonzero coordinate of a frequency identifies its part.
    kernel = 3 * Transformed(Gaussian(), columns=(0,)) + Transformed(Laplacian(), columns=(1,))
    m = RandomFourier(kernel, 5, directions=directions, random_state=np.random.default_rng(seed))
    X = np.zeros((1, 2))
    weights = [m.fit_sample(X).features_.projection.weights[0] for _ in range(DRAWS)]
    assert misfit(np.not_equal(weights, 0).astype(float), 0.75, width=1) <= 1
    # If frequencies were ordered by part, the last one, which is unpaired, would always be of the last part.
    assert misfit(np.sort(np.not_equal(weights, 0), axis=1).astype(float), 0.75, width=1) > 1


def test_sign_hadamard_directions_are_biased_in_low_dimension_and_declared_as_such(seed):
    X = np.zeros((1, 4))
    Y = np.array([[2.0, 0.0, 0.0, 0.0]])
    m = RandomFourier(Gaussian(), 8, directions="hadamard")
    assert isinstance(m.unbiased, str)
    samples = estimates(m, X, Y, 2 * DRAWS, seed)
    expected = kernel_of_pairs(Gaussian(), X, Y)
    assert misfit(samples, expected, width=2) > 1
    assert misfit(samples, expected - 0.14, width=2) <= 1  # docs/theory/directions.md
    haar_directions = RandomFourier(Gaussian(), 8, directions="orthogonal")
    assert bias(haar_directions, Gaussian(), X, Y, 2 * DRAWS, seed) <= 1


def test_bias_of_sign_hadamard_directions_is_not_detected_in_high_dimension(seed):
    X = np.zeros((1, 64))
    Y = 2.0 * np.eye(64)[:1]
    for kernel in (Gaussian(), 2 * Matern(1.5) + 1):
        m = RandomFourier(kernel, 32, directions="hadamard", radii="stratified")
        assert bias(m, kernel, X, Y, DRAWS, seed) <= 1


def first_signs(make, n, seed):
    rng = np.random.default_rng(seed)
    return np.sign([make(4, 4, rng)[0, :2] for _ in range(n)])


def test_haar_matrices_have_symmetric_signs_in_contrast_to_raw_qr_factors(seed):
    def raw(n, d, rng):
        return np.linalg.qr(rng.standard_normal((n, d)))[0]

    assert misfit(first_signs(haar, DRAWS, seed), 0.0, width=2) <= 1
    assert misfit(first_signs(raw, DRAWS, seed), 0.0, width=2) > 1


def test_haar_matrices_have_the_moments_of_uniform_directions(seed):
    rng = np.random.default_rng(seed)
    matrices = np.array([haar(4, 3, rng) for _ in range(3 * DRAWS)])
    entries = matrices[:, [0, 1, 3, 2], [0, 2, 1, 0]]
    assert misfit(entries**2, 0.25, width=1) <= 1
    assert misfit(entries**4, 3 / (4 * 6), width=1) <= 1  # 3 / (n (n + 2))
    assert misfit(entries**4, 3 / 16, width=1) > 1  # the moment of normal entries


def test_sobol_points_are_unbiased_only_when_scrambled(seed, monkeypatch):
    X, Y = pairs_of_rows(2, seed)
    m = RandomFourier(Gaussian(), 2, directions="sobol")  # the first point, which is a corner without scrambling
    assert bias(m, Gaussian(), X, Y, SOBOL_DRAWS, seed) <= 1

    plain = partial(qmc.Sobol, scramble=False)
    monkeypatch.setattr(
        directions_module.qmc, "Sobol", lambda dimension, *, scramble, **choices: plain(dimension, **choices)
    )
    assert bias(m, Gaussian(), X, Y, SOBOL_DRAWS, seed) > 1
