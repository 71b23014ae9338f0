"""Random Maclaurin features: the mean over draws is the kernel or its truncation, the variance the closed form."""

from unittest import mock

import numpy as np
import pytest
from scipy.stats import binom

from mercer import DotProduct, ExponentialDotProduct, Gaussian, Geometric, Polynomial, RandomMaclaurin, Transformed
from mercer.maps.series.inputs import PreparedRows
from mercer.maps.series.projection_products import ComplexProducts, DenseProducts, HadamardProducts
from mercer.theory.products import Pairs, sketch_variance

from .calibrated import FAILURE, GROUPS, kernel_of_pairs, median_misfit, pairs_of_rows

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:RandomMaclaurin. the predicted error")]

DRAWS = 20 * GROUPS
MANY = 60 * GROUPS
COMPONENTS = 1000 * GROUPS


def test_median_of_means_has_the_stated_failure_probability():
    assert 100 * binom.sf(GROUPS // 2, GROUPS, 1 / 9) <= FAILURE


def rows_for(d, seed, unit_norm):
    X, Y = pairs_of_rows(d, seed, unit_norm=unit_norm)
    return (X, Y) if unit_norm else (0.6 * X, 0.6 * Y)


def redraws(feature_map, X, Y, n, seed):
    """Return the approximate kernel for each row and its partner in n draws of one plan: (n, rows)."""
    rows = np.concatenate([X, Y])
    feature_map.set_params(random_state=0).fit(rows)
    rng = np.random.default_rng(seed)
    planned = feature_map._plan(feature_map.kernel_, rows, None, rng)
    feature_map._plan = lambda *_: planned
    values = np.empty((n, len(X)))
    # The reach decides about a warning only, and does not depend on the draw.
    reach = mock.patch("mercer.maps.series.random_maclaurin.reach_of", return_value=np.inf)
    for i in range(n):
        with reach:
            features = feature_map._draw(feature_map.kernel_, rows, None, rng)
        Z = np.empty((len(rows), features.n_components))
        features(rows, Z)
        W = Z if features.signs is None else Z * features.signs
        values[i] = (Z[: len(X)] * W[len(X) :]).sum(axis=1)
    del feature_map._plan
    return values


def truncated_kernel(feature_map, X, Y):
    """Return the sum of the terms that a truncated plan represents."""
    [part] = feature_map.kernel_.series_parts()
    last = max(max(s.degrees) for s in feature_map.plan_.strata)
    prepare = feature_map.features_.parts[0].prepare
    left, right = prepare(X), prepare(Y)
    terms = np.polynomial.polynomial.polyval((left.dense * right.dense).sum(axis=1), part.series.coefficients(last + 1))
    return terms if left.prefactor is None else terms * left.prefactor * right.prefactor


def variance_of_pairs(feature_map, X, Y):
    return np.diagonal(feature_map.variance(X, Y))


SIGNED = DotProduct([0.5, -1.0, 0.5, 0.0, -0.25], signed=True)
LISTED = DotProduct([0.5, 0.0, 1.0, 0.25])
CELLS = [
    # plan, projection, kernel, number of components, number of features, unit norm, further choices
    ("optimal", "rademacher", Polynomial(4, 0.0), 12, 5, True, {"anchor": None}),
    ("optimal", "rademacher", Polynomial(4), 30, 17, True, {}),
    ("optimal", "gaussian", ExponentialDotProduct(), 9, 5, True, {"anchor": None}),
    ("optimal", "sphere", Gaussian(2.0), 12, 17, False, {}),
    ("optimal", "complex", Polynomial(5, 0.5), 11, 5, True, {"anchor": None}),
    ("optimal", "complex", ExponentialDotProduct(), 14, 5, True, {}),
    ("optimal", "srht", ExponentialDotProduct(), 30, 17, True, {"anchor": None}),
    ("optimal", "srht", Polynomial(3), 9, 5, True, {}),
    ("optimal", "rademacher", Geometric(scale=0.3), 7, 5, True, {"anchor": None}),
    ("optimal", "rademacher", Geometric(scale=0.3), 7, 5, True, {}),
    ("optimal", "rademacher", Gaussian(2.0) + Polynomial(2) + 1, 20, 5, False, {}),
    ("optimal", "complex", Gaussian(2.0) + Transformed(Polynomial(3), columns=(1,)), 13, 2, False, {}),
    ("optimal", "rademacher", SIGNED, 9, 5, True, {}),
    ("optimal", "srht", SIGNED, 9, 5, True, {}),
    ("optimal", "complex", SIGNED, 9, 5, True, {}),
    ("optimal", "rademacher", ExponentialDotProduct(), 1, 2, True, {}),
    ("optimal", "rademacher", Polynomial(4), 2, 3, True, {}),  # anchored, and every component has a random term
    ("truncated", "rademacher", ExponentialDotProduct(), 12, 5, True, {"eps": 0.05}),
    ("truncated", "srht", ExponentialDotProduct(), 5, 5, True, {"eps": 0.05}),
    ("truncated", "complex", Gaussian(1.5), 14, 5, False, {"eps": 0.01}),
    ("random", "rademacher", ExponentialDotProduct(), 40, 2, True, {}),
    ("random", "gaussian", LISTED, 30, 5, True, {}),
    ("random", "complex", Gaussian(2.0), 31, 5, False, {}),
    ("random", "rademacher", SIGNED, 30, 2, True, {}),
    ("h01", "rademacher", ExponentialDotProduct(), 40, 5, True, {}),
    ("h01", "sphere", Polynomial(4), 40, 17, True, {"p": 1.5}),
    ("h01", "complex", Polynomial(3, 0.0), 20, 5, True, {"p": 3.0}),
    ("geometric", "rademacher", ExponentialDotProduct(), 50, 2, True, {"p": 1.5}),
    ("geometric", "rademacher", ExponentialDotProduct(), 50, 17, True, {"p": 2.0}),
    ("geometric", "rademacher", ExponentialDotProduct(), 50, 5, True, {"p": 3.0}),
    ("geometric", "gaussian", Polynomial(2), 40, 5, False, {"p": 3.0}),
    ("geometric", "complex", Gaussian(2.0), 41, 2, False, {"p": 2.0}),
    ("degrees", "rademacher", Polynomial(3), 12, 5, True, {}),
    ("degrees", "gaussian", LISTED, 1, 2, True, {}),
    ("degrees", "complex", ExponentialDotProduct(), 9, 5, True, {"eps": 0.01}),
    ("degrees", "srht", Polynomial(3), 12, 17, True, {}),
]


def name_of(cell):
    plan, projection, kernel, n, d, unit_norm, choices = cell
    return "-".join(map(str, (plan, projection, repr(kernel), n, f"d{d}", "unit" * unit_norm, *choices.values())))


@pytest.mark.parametrize("cell", CELLS, ids=name_of)
def test_mean_over_draws_is_the_kernel(cell, seed):
    plan, projection, kernel, n, d, unit_norm, choices = cell
    X, Y = rows_for(d, seed, unit_norm)
    m = RandomMaclaurin(kernel, n, plan=plan, projection=projection, **choices)
    samples = redraws(m, X, Y, DRAWS, seed)
    expected = kernel_of_pairs(kernel, X, Y)
    if plan == "truncated" or (plan == "degrees" and m.unbiased is not True):
        truncated = truncated_kernel(m, X, Y)
        assert np.abs(truncated - expected).max() <= m.plan_.truncation_bound + 1e-12
        assert isinstance(m.unbiased, str)
        expected = truncated
    else:
        assert m.unbiased is True
    # Without a closed form, the variance is estimated from the sample.
    known = not (plan == "degrees" and projection == "srht")
    variance = variance_of_pairs(m, X, Y) if known else samples.var(axis=0)
    assert median_misfit(samples, expected, variance=variance) <= 1
    # A bias of 1.5 standard deviations is detected.
    noisy = variance > 1e-12
    shifted = samples + 1.5 * np.sqrt(variance) * noisy
    assert not noisy.any() or median_misfit(shifted, expected, variance=variance) > 1


def squared(samples, expected):
    """Return squared deviations and their variance."""
    squares = np.square(samples - expected)
    return squares, squares.var(axis=0)


VARIANCES = [CELLS[i] for i in (0, 4, 7, 9, 10, 14, 16, 18)]


@pytest.mark.parametrize("cell", VARIANCES, ids=name_of)
def test_variance_over_draws_is_the_closed_form(cell, seed):
    plan, projection, kernel, n, d, unit_norm, choices = cell
    X, Y = rows_for(d, seed, unit_norm)
    m = RandomMaclaurin(kernel, n, plan=plan, projection=projection, **choices)
    samples = redraws(m, X, Y, MANY, seed)
    claimed = variance_of_pairs(m, X, Y)
    squares, spread = squared(
        samples, truncated_kernel(m, X, Y) if plan == "truncated" else kernel_of_pairs(kernel, X, Y)
    )
    assert median_misfit(squares, claimed, variance=spread) <= 1
    # A factor of two in the standard deviation is detected.
    assert median_misfit(squares, 4 * claimed, variance=spread) > 1


def components_as_samples(feature_map, X, Y, seed):
    """Return the estimates by single components (pairs, if complex) of random or summed degree, in random order."""
    Z, W = feature_map.transform(X), feature_map.transform(Y)
    exact = sum(s.n_components for s in feature_map.plan_.strata if s.kind == "exact")
    known = (Z[:, :exact] * W[:, :exact]).sum(axis=1)
    terms = (Z * W)[:, exact:].T
    if feature_map.projection == "complex":
        real, imaginary = np.split(terms, 2)
        terms = real + imaginary
    terms = terms * len(terms)
    # Components are sorted by degree.
    return np.random.default_rng(seed).permutation(terms) + known


WIDE = [
    ("random", "rademacher", ExponentialDotProduct(), {}),
    ("random", "gaussian", LISTED, {}),
    ("random", "sphere", Polynomial(3), {}),
    ("random", "complex", Gaussian(2.0), {}),
    ("geometric", "rademacher", ExponentialDotProduct(), {"p": 3.0}),
    ("geometric", "complex", Polynomial(3), {"p": 2.0}),
    ("h01", "rademacher", ExponentialDotProduct(), {"p": 1.5}),
    ("degrees", "rademacher", Polynomial(3), {}),
    ("degrees", "complex", LISTED, {}),
]


@pytest.mark.parametrize(("plan", "projection", "kernel", "choices"), WIDE)
def test_mean_and_variance_of_single_components(plan, projection, kernel, choices, seed):
    X, Y = rows_for(3, seed, unit_norm=True)
    parts = 2 if projection == "complex" else 1
    extra = {"h01": 4, "degrees": 1}.get(plan, 0)
    m = RandomMaclaurin(
        kernel, parts * COMPONENTS + extra, plan=plan, projection=projection, random_state=seed, **choices
    ).fit(np.concatenate([X, Y]))
    samples = components_as_samples(m, X, Y, seed)
    assert len(samples) == COMPONENTS
    expected = kernel_of_pairs(kernel, X, Y)
    claimed = COMPONENTS * variance_of_pairs(m, X, Y)
    assert median_misfit(samples, expected, variance=claimed) <= 1
    squares, spread = squared(samples, expected)
    assert median_misfit(squares, claimed, variance=spread) <= 1
    # Twice the variance and a scale off by a quarter are detected.
    assert median_misfit(squares, 2 * claimed, variance=spread) > 1
    assert median_misfit(1.25 * samples, expected, variance=claimed) > 1


@pytest.mark.parametrize(
    ("projection", "n", "other"),
    [
        *(("rademacher", n, "sphere") for n in (1, 2, 3)),
        ("gaussian", 1, "sphere"),
        *(("sphere", n, "rademacher") for n in (1, 2, 3)),
        *(("complex", n, "gaussian") for n in (1, 2, 3)),
        *(("srht", n, "rademacher") for n in (1, 2, 3)),
    ],
)
def test_variance_of_one_degree_is_that_of_the_weights_and_of_no_others(projection, n, other, seed):
    d = 2
    X, Y = np.array([[0.7, 0.7]]), np.array([[0.8, 0.6]])
    rng, pairs, rows = np.random.default_rng(seed), Pairs.all_of(X, Y), np.concatenate([X, Y])
    if projection == "srht":
        drawn = HadamardProducts.draw(d, n, 2 * COMPONENTS, 1.0, rng)
    elif projection == "complex":
        degrees, ones = np.full(COMPONENTS, n), np.ones(COMPONENTS)
        drawn = ComplexProducts.draw(d, degrees, ones, ones > 0, rng)
    else:
        drawn = DenseProducts.draw(projection, d, np.full(COMPONENTS, n), np.ones(COMPONENTS), rng)
    Z = np.empty((2, drawn.n_components))
    drawn(PreparedRows(rows, None, 0.0), Z)
    terms = Z[0] * Z[1]
    if projection == "srht":
        terms = terms.reshape(-1, 2).mean(axis=1)  # blocks of two rows
    elif projection == "complex":
        terms = np.add(*np.split(terms, 2))
    samples = terms[:, None]
    m = 2 if projection in ("srht", "complex") else 1
    claimed = sketch_variance(projection, pairs, n, m)[0]
    assert median_misfit(samples, pairs.inner[0] ** n, variance=claimed) <= 1
    squares, spread = squared(samples, pairs.inner[0] ** n)
    assert median_misfit(squares, claimed, variance=spread) <= 1
    assert median_misfit(squares, sketch_variance(other, pairs, n, m)[0], variance=spread) > 1


# ---- detected mistakes ---------------------------------------------------------------------------------------------


def geometric_samples(p, seed):
    X, Y = rows_for(5, seed, unit_norm=True)
    m = RandomMaclaurin(ExponentialDotProduct(), 400, plan="geometric", p=p)
    samples = redraws(m, X, Y, DRAWS, seed)
    return samples, kernel_of_pairs(ExponentialDotProduct(), X, Y), variance_of_pairs(m, X, Y)


@pytest.mark.parametrize("p", [1.5, 3.0])
def test_misfit_detects_unnormalized_degree_probabilities(p, seed):
    samples, expected, variance = geometric_samples(p, seed)
    assert median_misfit(samples, expected, variance=variance) <= 1
    # Scales for the probabilities 1 / p^(n + 1) of Kar and Karnick (2012, AISTATS), which sum to one only for p = 2.
    assert median_misfit((p - 1) * samples, expected, variance=variance) > 1


def test_misfit_detects_independent_weights_for_the_two_rows_of_a_pair(seed):
    X, Y = rows_for(5, seed, unit_norm=True)
    Y[0] = X[0]
    m = RandomMaclaurin(Polynomial(2, 0.0), 12, random_state=0, anchor=None).fit(X)
    rng, values = np.random.default_rng(seed), []
    for _ in range(DRAWS):
        left, right = (m.set_params(random_state=rng).fit_sample(X).features_ for _ in range(2))
        Z, W = np.empty((2, 5, 12))
        left(X, Z)
        right(Y, W)
        values.append((Z * W).sum(axis=1))
    variance = variance_of_pairs(m, X, Y)
    assert median_misfit(np.array(values), kernel_of_pairs(Polynomial(2, 0.0), X, Y), variance=variance) > 1


def test_misfit_detects_a_truncated_series(seed):
    X, Y = rows_for(5, seed, unit_norm=True)
    m = RandomMaclaurin(ExponentialDotProduct(), 19, plan="truncated", eps=0.2)
    samples = redraws(m, X, Y, DRAWS, seed)
    variance = variance_of_pairs(m, X, Y)
    assert median_misfit(samples, truncated_kernel(m, X, Y), variance=variance) <= 1
    assert median_misfit(samples, kernel_of_pairs(ExponentialDotProduct(), X, Y), variance=variance) > 1


@pytest.mark.parametrize("plan", ["optimal", "random", "h01", "geometric"])
@pytest.mark.parametrize("kernel", [ExponentialDotProduct(), Polynomial(3), Gaussian(2.0)], ids=repr)
def test_unbiased_plans_are_unbiased_for_rows_unlike_the_sample(plan, kernel, seed):
    # Rows of zeros have no moments of higher degrees, all of which must have a positive probability nevertheless.
    X, Y = rows_for(3, seed, unit_norm=True)
    sample = np.zeros((4, 3))
    m = RandomMaclaurin(kernel, 6, plan=plan, random_state=0, anchor=None).fit(sample)
    rng = np.random.default_rng(seed)
    planned = m._plan(kernel, sample, None, rng)
    m._plan = lambda *_: planned
    values = np.empty((MANY, 5))
    for i in range(MANY):
        features = m._draw(kernel, sample, None, rng)
        Z = np.empty((10, 6))
        features(np.concatenate([X, Y]), Z)
        values[i] = (Z[:5] * Z[5:]).sum(axis=1)
    variance = variance_of_pairs(m, X, Y)
    assert np.isfinite(variance).all()
    assert median_misfit(values, kernel_of_pairs(kernel, X, Y), variance=variance) <= 1
