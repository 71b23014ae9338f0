"""Bounds of spherical-radial rules hold in simulation; the printed ones do not."""

import math

import numpy as np
import pytest
from scipy import stats

from mercer import Gaussian, ParameterError, RandomFourier
from mercer.maps.fourier.directions import simplex_products
from mercer.theory import (
    cosine_variance,
    fourier_failure,
    fourier_uniform_failure,
    phase_variance,
    quadrature_failure,
    quadrature_gaussian_variance,
    quadrature_range,
    quadrature_rules,
    quadrature_uniform_failure,
    quadrature_variance,
)

FAILURE = 1e-9


def simplex_rules(n, d, distance, rng):
    """Return n rules of the source for the Gaussian kernel at a distance: what Q does to a lag is all that matters."""
    lags = rng.standard_normal((n, d))
    lags *= distance / np.linalg.norm(lags, axis=1, keepdims=True)
    squares = rng.chisquare(d + 2, (n, d + 1))
    terms = (1 - np.cos(np.sqrt(squares) * simplex_products(lags))) / squares
    return 1 - d / (d + 1) * terms.sum(axis=1)


def iid_rules(n, d, distance, rng):
    """Return n rules of d + 1 independent directions, with the constant left as it is."""
    coordinates = rng.standard_normal((n, d + 1, d))
    coordinates = distance * coordinates[:, :, 0] / np.linalg.norm(coordinates, axis=2)
    squares = rng.chisquare(d + 2, (n, d + 1))
    return 1 - d / (d + 1) * ((1 - np.cos(np.sqrt(squares) * coordinates)) / squares).sum(axis=1)


def least_probability(hits, n):
    """Return what the probability of a hit exceeds, except with probability `FAILURE` (Clopper and Pearson)."""
    return stats.beta.ppf(FAILURE, hits, n - hits + 1) if hits else 0.0


def printed_failure(eps, n_rules, d):
    """Pointwise part of Proposition 3.2 as printed: M = 1/2, as many terms as points, and half of an error of 2 eps."""
    return 2 * math.exp(-n_rules * (d + 1) * (2 * eps) ** 2 / 2)


@pytest.fixture(scope="module")
def many_errors():
    """Errors of 28 000 means of 60 rules at d = 5 and a distance of 2."""
    rng = np.random.default_rng(20260)
    means = [simplex_rules(60 * 4000, 5, 2.0, rng).reshape(4000, 60).mean(axis=1) for _ in range(7)]
    return np.concatenate(means) - math.exp(-2.0)


def test_the_printed_tail_bound_is_violated_and_ours_holds(many_errors):
    n = len(many_errors)
    hits = int((np.abs(many_errors) >= 0.1).sum())
    assert printed_failure(0.1, 60, 5) == pytest.approx(0.0015, rel=0.02)
    assert least_probability(hits, n) > printed_failure(0.1, 60, 5)
    assert hits / n == pytest.approx(0.0036, rel=0.25)
    for eps in (0.05, 0.1, 0.15, 0.2, 0.3):
        assert least_probability(int((np.abs(many_errors) >= eps).sum()), n) <= quadrature_failure(
            eps, 60, diameter=2.0
        )


@pytest.mark.parametrize(("d", "distance", "eps", "n"), [(1, 1.0, 0.05, 150), (2, 0.5, 0.02, 60), (5, 1.0, 0.03, 400)])
def test_tail_bound_holds_where_it_is_below_one_half(d, distance, eps, n, seed):
    bound = quadrature_failure(eps, n, diameter=distance)
    assert bound < 0.5
    means = simplex_rules(1000 * n, d, distance, np.random.default_rng(seed)).reshape(1000, n).mean(axis=1)
    hits = int((np.abs(means - math.exp(-0.5 * distance**2)) >= eps).sum())
    assert least_probability(hits, 1000) <= bound


def test_the_tail_bound_is_hoeffdings():
    # Derived anew: 2 exp(-2 n eps^2 / width^2) with the width of the sure interval.
    lower, upper = quadrature_range(1.7)
    assert quadrature_failure(0.2, 300, diameter=1.7) == pytest.approx(
        2 * math.exp(-2 * 300 * (0.2 / (upper - lower)) ** 2)
    )
    # Half the error, as the proof of the source has it: exponent 2 n eps^2 / l^4.
    assert quadrature_failure(0.2 / 2, 900, diameter=1.7) == pytest.approx(2 * math.exp(-2 * 900 * 0.2**2 / 1.7**4))
    assert quadrature_failure(1e-6, 1, diameter=1.0) == 1.0


@pytest.mark.parametrize("eps", [0.01, 0.1])
@pytest.mark.parametrize("delta", [0.05, 1e-6])
@pytest.mark.parametrize("diameter", [0.3, 1.0, 4.0])
def test_number_of_rules_is_the_least_that_meets_the_bound(eps, delta, diameter):
    n = quadrature_rules(eps, delta, diameter=diameter)
    assert quadrature_failure(eps, n, diameter=diameter) <= delta * (1 + 1e-9)
    assert n == 1 or quadrature_failure(eps, n - 1, diameter=diameter) > delta


@pytest.mark.parametrize("d", [1, 2, 5, 16])
def test_every_rule_lies_in_its_interval_and_comes_near_both_ends(d, seed):
    rng = np.random.default_rng(seed)
    for distance in (0.1, 1.0, 3.0):
        values = simplex_rules(20_000, d, distance, rng)
        lower, upper = quadrature_range(distance)
        assert (values >= lower - 1e-9).all()
        assert (values <= upper + 1e-9).all()
    # At small distances a rule is at its lower end.
    assert simplex_rules(100, d, 1e-3, rng) == pytest.approx(quadrature_range(1e-3)[0], abs=1e-11 * d)
    np.testing.assert_allclose(quadrature_range(np.array([1.0, 2.0]), share=0.25)[0], [-1.0, -7.0])


def least_deviation(values, width):
    """Return what the deviation exceeds, except with probability `FAILURE`, for values in an interval of that length.

    Maurer and Pontil (2009), Theorem 10.
    """
    return values.std(ddof=1) - width * math.sqrt(2 * math.log(1 / FAILURE) / (len(values) - 1))


@pytest.mark.parametrize(("rules", "frame"), [(simplex_rules, 1), (iid_rules, "d")])
@pytest.mark.parametrize("d", [3, 5, 16])
def test_the_variances_are_below_their_bounds(rules, frame, d, seed):
    rng = np.random.default_rng(seed)
    for distance in (0.5, 2.0):
        values = rules(20_000, d, distance, rng)
        width = 0.5 * distance**2 * (d if frame == "d" else 1)  # independent directions are no tight frame
        assert least_deviation(values, width) <= math.sqrt(quadrature_variance(1, dimension=d))
        if rules is simplex_rules:
            assert least_deviation(values, width) <= math.sqrt(quadrature_gaussian_variance(distance, 1))


def test_the_check_above_sees_a_bound_that_is_too_small(seed):
    # Both are far from tight at this distance; that of forty rules is too small for one.
    values = simplex_rules(20_000, 5, 2.0, np.random.default_rng(seed))
    assert least_deviation(values, 2.0) > math.sqrt(quadrature_variance(40, dimension=5))
    assert least_deviation(values, 2.0) > math.sqrt(quadrature_gaussian_variance(2.0, 40))


def test_the_variance_bound_keeps_its_terms_apart():
    # One term at a time: the constant alone is exact, 2 f(0)^2 / ((d + 1)(d - 2)).
    d, n = 7, 10
    assert quadrature_variance(n, dimension=d, bound=1e-12) == pytest.approx(2 / (n * (d + 1) * (d - 2)))
    squares = 1 / np.random.default_rng(0).chisquare(d + 2, 400_000).reshape(-1, d + 1)
    assert np.var(1 - d * squares.mean(axis=1)) == pytest.approx(2 / ((d + 1) * (d - 2)), rel=0.05)
    assert quadrature_variance(n, dimension=d, at_zero=0.0) == pytest.approx(d / (n * (d + 1) * (d - 2)))
    assert quadrature_variance(n, dimension=d, at_zero=-1.0) == quadrature_variance(n, dimension=d, at_zero=1.0)
    both = quadrature_variance(1, dimension=d, bound=2.0, at_zero=3.0)
    root = math.sqrt(2 * 9) + math.sqrt(d * 4)
    assert both == pytest.approx(root**2 / ((d + 1) * (d - 2)))  # the square of a sum of two deviations
    # Far apart, with independent directions, all there is to lose is the covariance.
    far = iid_rules(100_000, d, 50.0, np.random.default_rng(1)).var()
    assert far == pytest.approx((d + 4) / (2 * (d - 2)) / (d + 1), rel=0.05)


def test_variance_shrinks_with_the_number_of_rules():
    assert quadrature_gaussian_variance(2.0, 10) == pytest.approx(0.1)
    np.testing.assert_allclose(quadrature_gaussian_variance(np.array([0.0, 1.0]), 4), [0.0, 1 / 64])
    assert quadrature_variance(10, dimension=5) == pytest.approx(quadrature_variance(1, dimension=5) / 10)


# ---- all pairs at once ------------------------------------------------------------------------


def largest_errors(n, repeats, diameter, rng):
    """Return the largest error over all lags up to the diameter, on a line, of means of n simplex rules."""
    lags = np.linspace(0, diameter, 101)
    errors = np.zeros((repeats, len(lags)))
    squares = rng.chisquare(3, (repeats, 2 * n))
    for i, lag in enumerate(lags):  # in one dimension the simplex is {-1, 1}
        errors[:, i] = 1 - ((1 - np.cos(np.sqrt(squares) * lag)) / squares).mean(axis=1) - math.exp(-0.5 * lag**2)
    return np.abs(errors).max(axis=1)


def test_no_pair_of_rows_exceeds_the_uniform_bound(seed):
    eps, n, repeats = 0.1, 140, 400
    bound = quadrature_uniform_failure(eps, n, dimension=1, diameter=1.0)
    assert 1e-4 < bound < 0.2
    assert bound > quadrature_failure(eps, n, diameter=1.0)
    errors = largest_errors(n, repeats, 1.0, np.random.default_rng(seed))
    assert least_probability(int((errors >= eps).sum()), repeats) <= bound


@pytest.mark.parametrize(("diameter", "steepest", "n"), [(0.5, 0.5 * math.exp(-0.125), 4), (2.0, math.exp(-0.5), 1500)])
def test_the_uniform_bounds_are_the_least_of_their_formulas(diameter, steepest, n):
    eps, d = 0.2, 2
    r = np.geomspace(1e-8, eps / (diameter + steepest), 100_000)
    left = eps - r * (diameter + steepest)
    least = (2 * (1 + 2 * diameter / r) ** d * np.exp(-8 * n * left**2 / diameter**4)).min()
    bound = quadrature_uniform_failure(eps, n, dimension=d, diameter=diameter)
    assert bound == pytest.approx(least, rel=1e-3, abs=0.0)
    assert 1e-9 < bound < 0.5
    columns = 8000
    for form, exponent, power, b in (("pairs", 16 * (0.5 + eps / 3), d, 2), ("phase", 8 + 4 * eps, 2 * d, 2 + 2**0.5)):
        nodes = 2 * (1 + 2 * diameter / r) ** power * np.exp(-columns * eps**2 / exponent)
        least = (nodes + (2 * b * 2**0.5 * r / eps) ** 2).min()
        settings = dict(dimension=d, diameter=diameter, spread=2**0.5, variance={"pairs": 0.5, "phase": 1.0}[form])
        bound = fourier_uniform_failure(eps, columns, form=form, **settings)
        assert bound == pytest.approx(least, rel=1e-2, abs=0.0)
        assert 1e-9 < bound < 0.5


def test_the_slope_of_a_rule_is_at_most_the_distance(seed):
    # What the uniform bound rests on, for any radii; with finite differences along and across the lag.
    rng = np.random.default_rng(seed)
    d, h = 5, 1e-6
    radii = np.sqrt(rng.chisquare(d + 2, (200, d + 1)))
    lags = rng.normal(size=(200, d))
    steps = rng.normal(size=(200, d))
    steps[:100] = lags[:100]
    steps /= np.linalg.norm(steps, axis=1, keepdims=True)

    def rule(lags):
        return 1 - d / (d + 1) * ((1 - np.cos(radii * simplex_products(lags))) / radii**2).sum(axis=1)

    slopes = (rule(lags + h * steps) - rule(lags - h * steps)) / (2 * h)
    assert (np.abs(slopes) <= np.linalg.norm(lags, axis=1) + 1e-6).all()
    assert (np.abs(slopes) > 0.5 * np.linalg.norm(lags, axis=1)).any()


def test_the_mean_square_of_the_steepest_slope_exceeds_the_usual_bound_and_not_ours():
    # One frequency w ~ N(0, 1), all lags: -w sin(w t) + t exp(-t^2 / 2) against E[w^2] = 1.
    w = stats.norm.ppf((np.arange(2000) + 0.5) / 2000)
    t = np.linspace(-40, 40, 4001)
    steepest = np.abs(-w[:, None] * np.sin(w[:, None] * t) + t * np.exp(-0.5 * t**2)).max(axis=1)
    assert 1.1 < np.mean(steepest**2) <= 4.0


@pytest.mark.parametrize(("form", "variance"), [("pairs", 0.5), ("pairs", None), ("phase", 1.0)])
def test_fourier_features_stay_within_their_uniform_bound(form, variance):
    eps, n = {"pairs": (0.15, 6000), "phase": (0.25, 8000)}[form]
    bound = fourier_uniform_failure(eps, n, dimension=1, diameter=1.0, spread=1.0, variance=variance, form=form)
    assert bound < 0.2
    X = np.linspace(-0.5, 0.5, 21)[:, None]
    hits = 0
    for seed in range(20):
        m = RandomFourier(Gaussian(), n, form=form, directions="iid", random_state=seed).fit(X)
        hits += np.abs(m.gram(X) - Gaussian()(X)).max() >= eps
    assert least_probability(hits, 20) <= bound


def largest_fourier_errors(draws, n_frequencies, diameter, n_lags, rng):
    """Return the largest errors of sine-cosine pairs over random lags of the plane up to the diameter."""
    found = np.empty(draws)
    for i in range(draws):
        lags = rng.normal(size=(n_lags, 2))
        lags *= (diameter * np.sqrt(rng.random(n_lags)) / np.linalg.norm(lags, axis=1))[:, None]
        cosines = np.cos(lags @ rng.normal(size=(2, n_frequencies)))
        found[i] = np.abs(cosines.mean(axis=1) - np.exp(-0.5 * np.square(lags).sum(axis=1))).max()
    return found


@pytest.mark.parametrize(("diameter", "eps", "n"), [(2.0, 0.4, 800), (40.0, 0.4, 1200)])
def test_largest_errors_in_the_plane_are_rarer_than_the_uniform_bound(diameter, eps, n, seed):
    # Far from tight, as every bound by a net: the frequency of these errors is zero. What it is derived from is
    # checked below: the bound at one point, and the slope.
    bound = fourier_uniform_failure(eps, n, dimension=2, diameter=diameter, spread=2**0.5, variance=0.5)
    assert 0.1 < bound < 0.5
    errors = largest_fourier_errors(100, n // 2, diameter, 300, np.random.default_rng(seed))
    assert least_probability(int((errors >= eps).sum()), 100) <= bound


def test_the_bound_of_one_pair_does_not_hold_for_the_largest_error_in_the_plane(seed):
    errors = largest_fourier_errors(100, 40, 40.0, 1000, np.random.default_rng(seed))
    assert least_probability(int((errors >= 0.35).sum()), 100) > fourier_failure(0.35, 40)
    assert fourier_uniform_failure(0.35, 80, dimension=2, diameter=40.0, spread=2**0.5, variance=0.5) == 1.0


def test_largest_errors_of_phases_in_the_plane_are_rarer_than_the_uniform_bound(seed):
    eps, n, rng = 0.4, 1600, np.random.default_rng(seed)
    bound = fourier_uniform_failure(eps, n, dimension=2, diameter=2.0, spread=2**0.5, variance=1.0, form="phase")
    assert 0.1 < bound < 0.5
    angles = np.linspace(0, 2 * np.pi, 25)
    X = np.concatenate([r * np.column_stack([np.cos(angles), np.sin(angles)]) for r in (0.5, 1.0)])
    K, hits = Gaussian()(X), 0
    for _ in range(100):
        Z = math.sqrt(2 / n) * np.cos(X @ rng.normal(size=(2, n)) + rng.uniform(0, 2 * np.pi, n))
        hits += np.abs(Z @ Z.T - K).max() >= eps
    assert least_probability(hits, 100) <= bound


def test_one_point_of_the_net_has_the_bound_of_bernstein(seed):
    # Errors of eps / 2 at one lag, for pairs: 2 exp(-D eps^2 / c) with c = 16 (v + eps / 3), v = 1/2 far apart.
    eps, n, draws = 1.0, 24, 20_000
    means = np.cos(3.0 * np.random.default_rng(seed).normal(size=(draws, n // 2)).astype(np.float32)).mean(axis=1)
    hits = int((np.abs(means - math.exp(-4.5)) >= eps / 2).sum())
    assert least_probability(hits, draws) <= 2 * math.exp(-n * eps**2 / (16 * (0.5 + eps / 3)))
    # With an eighth of it, which is the constant of an error of eps at the point and not of half of it, it is broken.
    assert least_probability(hits, draws) > 2 * math.exp(-n * eps**2 / (2 * (0.5 + eps / 3)))


def test_the_mean_square_of_the_steepest_slope_in_the_plane():
    # Along the direction of one frequency w, the slope is -|w| sin(|w| t) + t exp(-t^2 / 2), against E|w|^2 = 2.
    w = stats.chi(2).ppf((np.arange(1000) + 0.5) / 1000)
    t = np.linspace(-20, 20, 1001)
    steepest = np.square(-w[:, None] * np.sin(w[:, None] * t) + t * np.exp(-0.5 * t**2)).max(axis=1)
    assert 2.2 < steepest.mean() <= 4 * 2.0


def test_the_uniform_bound_of_fourier_features_has_the_exponents_of_the_paper():
    # In large D the radius of the net is small, and the minimum over it falls as exp(-D eps^2 / (8 (d + 2) alpha)),
    # with 32 (d + 1) alpha' for phases.
    eps, d = 0.3, 3
    for form, v, rate in (
        ("pairs", 0.5, 8 * (d + 2) * min(1.0, 0.5 + eps / 3)),
        ("phase", 1.0, 32 * (d + 1) * min(1.0, 1.0 / 4 + eps / 8)),
    ):
        settings = dict(dimension=d, diameter=1.0, spread=math.sqrt(d), variance=v, form=form)
        low, high = (math.log(fourier_uniform_failure(eps, D, **settings)) for D in (6000, 8000))
        assert (low - high) / 2000 == pytest.approx(eps**2 / rate, rel=0.01)


def test_the_variances_of_the_terms_are_those_of_the_bound():
    k = np.exp(-0.5 * np.linspace(0, 6, 200) ** 2)
    assert cosine_variance(k, k**4).max() <= 0.5
    assert phase_variance(k, k**4).max() <= 1.0


def test_uniform_bounds_are_probabilities_and_fall_with_the_number_of_components():
    settings = dict(dimension=4, diameter=2.0, spread=2.0)
    bounds = [fourier_uniform_failure(0.2, n, **settings) for n in (10, 1000, 20_000, 40_000)]
    assert bounds[0] == 1.0
    assert bounds == sorted(bounds, reverse=True)
    rules = [quadrature_uniform_failure(0.2, n, dimension=4, diameter=2.0) for n in (10, 1000, 20_000)]
    assert rules[0] == 1.0
    assert rules == sorted(rules, reverse=True)
    assert fourier_uniform_failure(0.2, 40_000, form="phase", **settings) > bounds[-1]  # the weaker form


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: quadrature_range(1.0, share=1.5), r"quadrature_range: share must be in \(0, 1\], got 1.5"),
        (
            lambda: quadrature_variance(5, dimension=2),
            "quadrature_variance: dimension must be an integer >= 3, got 2. Below 3",
        ),
        (
            lambda: quadrature_variance(0, dimension=5),
            "quadrature_variance: n_rules must be an integer >= 1, got 0",
        ),
        (lambda: quadrature_gaussian_variance(1.0, 0), "quadrature_gaussian_variance: n_rules must be"),
        (lambda: quadrature_failure(0.0, 5, diameter=1.0), "quadrature_failure: eps must be"),
        (lambda: quadrature_rules(0.1, 1.0, diameter=1.0), r"quadrature_rules: delta must be in \(0, 1\), got 1.0"),
        (
            lambda: quadrature_uniform_failure(0.1, 5, dimension=0, diameter=1.0),
            "dimension must be an integer >= 1",
        ),
        (
            lambda: fourier_uniform_failure(0.1, 5, dimension=1, diameter=1.0, spread=1.0, form="complex"),
            "fourier_uniform_failure: form must be one of pairs, phase, got 'complex'",
        ),
    ],
)
def test_wrong_numbers_are_refused(call, text):
    with pytest.raises(ParameterError, match=text):
        call()
