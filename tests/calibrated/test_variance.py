"""The variance of random Fourier features over draws is the closed form, and not that of another design."""

import numpy as np
import pytest

from mercer import Cauchy, Gaussian, Laplacian, Matern, RandomFourier, RationalQuadratic, Transformed

from .calibrated import estimates, kernel_of_pairs, mass_of, misfit, pairs_of_rows, width_of

pytestmark = pytest.mark.slow

TERMS = 60_000
DRAWS = 10_000
FORMS = ("pairs", "phase", "complex")


def terms(feature_map, X, Y):
    """Return the terms of the approximate kernel, one per frequency, each scaled to have the kernel as its mean."""
    Z, W = feature_map.transform(X), feature_map.transform(Y)
    columns = (Z * W.conj()).real.T
    if feature_map.form == "pairs":
        cosines, sines = np.split(columns, 2)
        columns = cosines + sines
    return len(columns) * columns


def variance_of_pairs(feature_map, X, Y):
    return np.diagonal(feature_map.variance(X, Y))


def squares(samples, feature_map, X, Y):
    """Return squared deviations from the kernel, whose mean is the variance, and the length of their range."""
    deviations = samples - kernel_of_pairs(feature_map.kernel, X, Y)
    return np.square(deviations), width_of(feature_map) ** 2


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "kernel",
    [
        Gaussian(),
        Matern(0.5),
        Matern(2.5, 2.0),
        RationalQuadratic(0.5),
        Laplacian(2.0),
        Cauchy(),
        3 * Gaussian() + Laplacian(),
        0.5 * Gaussian() * Matern(),
        Transformed(Gaussian(), columns=(2, 0), lengthscales=(0.5, 2.0)),
    ],
    ids=repr,
)
def test_variance_of_iid_frequencies_for_every_kernel(kernel, form, seed):
    X, Y = pairs_of_rows(3, seed)
    one = RandomFourier(kernel, 2 if form == "pairs" else 1, form=form, directions="iid").fit(X)
    n = TERMS * one.n_components
    many = RandomFourier(kernel, n, form=form, directions="iid", random_state=seed).fit(X)
    sampled, width = squares(terms(many, X, Y), one, X, Y)
    claimed = variance_of_pairs(one, X, Y)
    assert misfit(sampled, claimed, width=width) <= 1
    np.testing.assert_allclose(variance_of_pairs(many, X, Y), claimed / TERMS, rtol=1e-9, atol=1e-15)
    # The formula for the other form differs by half of the squared mass.
    wrong = claimed + (-0.5 if form == "phase" else 0.5) * mass_of(kernel) ** 2
    assert misfit(sampled, wrong, width=width) > 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("d", [2, 3, 5])
def test_variance_of_orthogonal_blocks_differs_from_that_of_iid_frequencies(d, form, seed):
    X, Y = pairs_of_rows(d, seed)
    n, blocks = (2 * d if form == "pairs" else d), TERMS // d
    kernel = 1.5 * Gaussian(0.8)
    block = RandomFourier(kernel, n, form=form, directions="orthogonal").fit(X)
    many = RandomFourier(kernel, n * blocks, form=form, directions="orthogonal", random_state=seed).fit(X)
    # Blocks are independent, and the mean over one of them is a draw of the map with one block.
    means = terms(many, X, Y).reshape(blocks, d, -1).mean(axis=1)
    sampled, width = squares(means, block, X, Y)
    claimed = variance_of_pairs(block, X, Y)
    assert misfit(sampled, claimed, width=width) <= 1
    np.testing.assert_allclose(variance_of_pairs(many, X, Y), claimed / blocks, rtol=1e-9, atol=1e-15)
    iid = RandomFourier(kernel, n, form=form, directions="iid").fit(X)
    if form != "phase":  # phases add so much variance that the gain is not detected
        assert misfit(sampled, variance_of_pairs(iid, X, Y), width=width) > 1


@pytest.mark.parametrize(
    ("directions", "form", "n", "other"),
    [
        ("orthogonal", "pairs", 7, None),  # a complete block, and one unpaired direction of the next
        ("orthogonal", "complex", 5, "iid"),  # an incomplete block
        ("big_block", "pairs", 10, "iid"),  # five directions of R^5
        ("big_block", "complex", 2, "iid"),  # two directions of R^3
        ("big_block", "pairs", 5, None),
    ],
)
def test_variance_of_odd_widths_incomplete_blocks_and_big_blocks(directions, form, n, other, seed):
    X, Y = pairs_of_rows(3, seed)
    m = RandomFourier(Gaussian(0.7), n, form=form, directions=directions)
    sampled, width = squares(estimates(m, X, Y, DRAWS, seed), m, X, Y)
    assert misfit(sampled, variance_of_pairs(m, X, Y), width=width) <= 1
    if other is not None:  # with an unpaired cosine, the two formulas are too close to distinguish
        twin = RandomFourier(Gaussian(0.7), n, form=form, directions=other).fit(X)
        assert misfit(sampled, variance_of_pairs(twin, X, Y), width=width) > 1


def test_stratified_radii_and_big_blocks_have_less_variance_than_orthogonal_blocks(seed):
    X, Y = np.zeros((1, 4)), np.array([[0.6, 0.6, 0.0, 0.0]])

    def squared_errors(**choices):
        m = RandomFourier(Gaussian(), 24, **choices)
        return squares(estimates(m, X, Y, 3000, seed), m, X, Y)[0].mean()

    # Means of 3000 squares are accurate to a few percent; the gains are larger.
    iid, orthogonal = squared_errors(directions="iid"), squared_errors(directions="orthogonal")
    assert orthogonal < 0.75 * iid
    assert squared_errors(directions="big_block") < 0.75 * orthogonal
    assert squared_errors(directions="orthogonal", radii="stratified") < 0.75 * orthogonal
