"""Maclaurin bounds: attained or compared with exact distributions; counterexamples to misprinted ones."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mercer import ExponentialDotProduct, Gaussian, ParameterError, UnsupportedKernelError
from mercer.theory import (
    dot_product_gradient,
    maclaurin_bound,
    maclaurin_components,
    maclaurin_failure,
    maclaurin_gradient,
    maclaurin_sharp_bound,
    maclaurin_uniform_failure,
)

from ..calibrated.calibrated import misfit
from .instances import BASES, KERNELS, LINEAR, RADIUS

FAILURE = 1e-9
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=repr)
every_base = pytest.mark.parametrize("base", BASES)


def least_probability(hits, n):
    """Return what the probability of a hit exceeds, except with probability `FAILURE` (Clopper and Pearson)."""
    return stats.beta.ppf(FAILURE, hits, n - hits + 1) if hits else 0.0


def feature_products(kernel, base, x, y, signs):
    """Return Z(x) Z(y) for the degree len(signs) and these sign vectors."""
    n = len(signs)
    scale = kernel.series.coefficients(n + 1)[n] * base ** (n + 1) / (base - 1)
    return scale * np.prod(signs @ x) * np.prod(signs @ y)


def feature_gradient(kernel, base, x, y, signs):
    """Return the gradient of Z(x) Z(y) by x."""
    n = len(signs)
    scale = kernel.series.coefficients(n + 1)[n] * base ** (n + 1) / (base - 1)
    others = [np.prod(np.delete(signs @ x, j)) for j in range(n)]
    return scale * np.prod(signs @ y) * (np.array(others) @ signs)


def l1_rows(rng, n, d):
    """Return rows of the l1 sphere: corners, edges and points between."""
    rows = rng.dirichlet(np.ones(d), size=n) * rng.choice((-1, 1), size=(n, d))
    return RADIUS * np.concatenate([np.eye(d), rows])


@every_base
@every_kernel
def test_products_of_features_stay_within_the_bounds_and_attain_the_sharp_one(kernel, base):
    rng = np.random.default_rng(0)
    bound, sharp = (f(kernel, RADIUS, base=base) for f in (maclaurin_bound, maclaurin_sharp_bound))
    assert sharp <= bound * (1 + 1e-12)
    largest = 0.0
    for n in range(7):
        for x, y in zip(l1_rows(rng, 20, 3), l1_rows(rng, 20, 3), strict=True):
            largest = max(largest, abs(feature_products(kernel, base, x, y, rng.choice((-1, 1), size=(n, 3)))))
    assert largest == pytest.approx(sharp, rel=1e-12)  # at a corner, for some degree below seven
    assert largest <= bound * (1 + 1e-12)


def test_the_printed_bound_is_broken_below_base_two():
    # f(t) = t at the corner of the unit ball, base 1.5: 1.5^2 / 0.5 = 4.5, while the print has 1.5 f(1.5) = 2.25.
    x = np.array([1.0, 0.0])
    attained = abs(feature_products(LINEAR, 1.5, x, x, np.ones((1, 2))))
    assert attained == 4.5
    assert 1.5 * LINEAR.function(1.5) < attained
    assert maclaurin_bound(LINEAR, 1.0, base=1.5) == maclaurin_sharp_bound(LINEAR, 1.0, base=1.5) == 4.5


@every_base
def test_normalized_degree_distribution_is_unbiased_and_printed_scale_only_at_base_two(base, seed):
    kernel, x = ExponentialDotProduct(), np.array([RADIUS, 0.0])
    rng = np.random.default_rng(seed)
    degrees = rng.geometric((base - 1) / base, size=40_000) - 1  # (p - 1) / p^(n + 1)
    values = np.array([feature_products(kernel, base, x, x, np.ones((n, 2))) for n in range(degrees.max() + 1)])
    samples = values[degrees][:, None]
    exact, width = kernel.function(RADIUS**2), maclaurin_sharp_bound(kernel, RADIUS, base=base)
    assert misfit(samples, exact, width=width) <= 1
    assert (misfit((base - 1) * samples, exact, width=width) <= 1) == (base == 2.0)


@pytest.mark.parametrize("d", [10, 100, 1000])
def test_failures_of_one_value_are_rarer_than_the_bound(d):
    # f(t) = t at the corner of the unit ball, base 2: an average of 4 times a coin of probability 1/4.
    bound = maclaurin_sharp_bound(LINEAR, 1.0)
    assert bound == 4.0
    heads = np.arange(d + 1)
    probabilities = stats.binom(d, 0.25).pmf(heads)
    for eps in (0.1, 0.3, 0.5, 1.0, 2.0):
        exact = probabilities[np.abs(4 * heads / d - 1) > eps * (1 + 1e-12)].sum()
        assert exact <= maclaurin_failure(eps, d, bound=bound)
        # All pairs of the ball at once: the error is largest at the corner, so the exact distribution is the same.
        gradient = dot_product_gradient(LINEAR, 1.0) + maclaurin_gradient(LINEAR, 1.0, 1)
        uniform = maclaurin_uniform_failure(eps, d, bound=bound, gradient=gradient, radius=1.0, dimension=1)
        assert exact <= maclaurin_failure(eps, d, bound=bound) <= uniform
    # A bound of one, which the range of the values does not allow, is broken.
    assert stats.binom(100, 0.25).sf(25 * 1.3) > maclaurin_failure(0.3, 100, bound=1.0)


@every_kernel
def test_the_gradient_of_the_kernel_attains_its_bound(kernel):
    bound = dot_product_gradient(kernel, RADIUS)
    step = 1e-5
    t = RADIUS * np.array([RADIUS - step, RADIUS + step])
    at_the_end = np.diff(kernel.function(t))[0] / (2 * step)  # along x at x = y = R e_1
    assert bound == pytest.approx(at_the_end, rel=1e-7)
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 200, 4))
    x, y = (RADIUS * rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (x, y))
    t = (x * y).sum(axis=1)
    slopes = (kernel.function(t + 1e-6) - kernel.function(t - 1e-6)) / 2e-6
    assert (np.abs(slopes) * np.linalg.norm(y, axis=1)).max() <= bound * (1 + 1e-7)


def test_the_printed_gradient_of_the_kernel_is_broken_beyond_radius_one():
    # f(t) = t: the gradient is y, of length 2; the print has f'(4) = 1.
    assert dot_product_gradient(LINEAR, 2.0) == 2.0 > 1.0


@every_base
@every_kernel
def test_gradients_of_features_stay_within_the_bound(kernel, base):
    rng = np.random.default_rng(2)
    bound = maclaurin_gradient(kernel, RADIUS, 3, base=base)
    lengths = [
        np.linalg.norm(feature_gradient(kernel, base, x, y, rng.choice((-1, 1), size=(n, 3))))
        for n in range(1, 7)
        for x, y in zip(l1_rows(rng, 20, 3), l1_rows(rng, 20, 3), strict=True)
    ]
    assert 0.05 * bound < max(lengths) <= bound * (1 + 1e-12)


def test_the_printed_gradient_of_features_is_broken_below_base_two():
    x = np.array([2.0, 0.0, 0.0, 0.0])
    attained = np.linalg.norm(feature_gradient(LINEAR, 1.5, x, x, np.ones((1, 4))))
    assert attained == pytest.approx(maclaurin_gradient(LINEAR, 2.0, 4, base=1.5), rel=1e-12)
    assert attained > 1.5**2 * 2.0 * 2.0  # p^2 R sqrt(d) f'


def test_the_uniform_bound_has_one_pair_for_large_errors_and_grows_as_it_should():
    sizes = {"bound": 2.0, "gradient": 3.0, "radius": 1.0, "dimension": 4}
    assert maclaurin_uniform_failure(48.0, 1, **sizes) == pytest.approx(2 * math.exp(-(24.0**2) / 8), rel=1e-12)
    expected = 2 * (16 * 3.0 / 0.5) ** 8 * math.exp(-9000 * 0.25**2 / 8)
    assert maclaurin_uniform_failure(0.5, 9000, **sizes) == pytest.approx(expected, rel=1e-9)
    for worse in ({"bound": 2.1}, {"gradient": 3.1}, {"radius": 1.1}, {"dimension": 5}):
        assert maclaurin_uniform_failure(0.5, 9000, **(sizes | worse)) > expected
    assert maclaurin_uniform_failure(0.5, 9001, **sizes) < expected
    assert maclaurin_uniform_failure(0.51, 9000, **sizes) < expected
    assert maclaurin_uniform_failure(0.5, 10, **sizes) == 1.0


def largest_maclaurin_errors(kernel, n, draws, rng):
    """Return the largest errors of n features over all pairs of some rows of the unit l1 ball of the plane."""
    t = np.linspace(0, 1, 5)
    side = np.column_stack([1 - t, t])
    X = np.concatenate([scale * rows for scale in (0.5, 1.0) for rows in (side, side * [1, -1])])
    exact = kernel.function(X @ X.T)
    found = np.empty(draws)
    for i in range(draws):
        degrees = rng.geometric(0.5, n) - 1  # base two
        Z = np.sqrt(kernel.series.coefficients(degrees.max() + 1)[degrees] * 2.0 ** (degrees + 1)) * np.ones(
            (len(X), 1)
        )
        for factor in range(degrees.max()):
            mine = np.flatnonzero(degrees > factor)
            Z[:, mine] *= X @ rng.choice((-1.0, 1.0), size=(2, len(mine)))
        found[i] = np.abs(Z @ Z.T / n - exact).max()
    return found


@pytest.mark.parametrize("kernel", [LINEAR, ExponentialDotProduct()], ids=repr)
def test_largest_errors_in_the_plane_are_rarer_than_the_uniform_bound(kernel, seed):
    rng = np.random.default_rng(seed)
    sizes = {
        "bound": maclaurin_sharp_bound(kernel, 1.0),
        "gradient": dot_product_gradient(kernel, 1.0) + maclaurin_gradient(kernel, 1.0, 2),
        "radius": 1.0,
        "dimension": 2,
    }
    eps, delta = 2.0, 0.3
    n = maclaurin_components(kernel, eps, delta, radius=1.0, dimension=2)
    bound = maclaurin_uniform_failure(eps, n, **sizes)
    assert 0.2 < bound <= delta * (1 + 1e-9)
    # The net makes the bound far from tight: errors of this size are not seen. The range of the values and the
    # gradients, from which it is derived, are attained: see the tests above.
    errors = largest_maclaurin_errors(kernel, n, 60, rng)
    assert least_probability(int((errors >= eps).sum()), 60) <= bound
    # A bound of the values that they exceed is broken.
    hits = int((largest_maclaurin_errors(kernel, 40, 400, rng) >= 0.5).sum())
    wrong = maclaurin_uniform_failure(0.5, 40, **(sizes | {"bound": 0.05 * sizes["bound"]}))
    assert least_probability(hits, 400) > wrong
    assert maclaurin_uniform_failure(0.5, 40, **sizes) == 1.0


# ---- sizes ----------------------------------------------------------------------------------------


@given(
    kernel=st.sampled_from(KERNELS),
    eps=st.floats(0.05, 3.0),
    delta=st.floats(1e-9, 0.99),
    base=st.sampled_from(BASES),
    dimension=st.sampled_from([None, 1, 10]),
)
def test_the_size_is_the_smallest_that_the_bound_allows(kernel, eps, delta, base, dimension):
    columns = maclaurin_components(kernel, eps, delta, radius=RADIUS, dimension=dimension, base=base)
    bound = maclaurin_sharp_bound(kernel, RADIUS, base=base)

    def failure(n):
        if dimension is None:
            return maclaurin_failure(eps, n, bound=bound)
        gradient = dot_product_gradient(kernel, RADIUS) + maclaurin_gradient(kernel, RADIUS, dimension, base=base)
        sizes = {"gradient": gradient, "radius": RADIUS, "dimension": dimension}
        return maclaurin_uniform_failure(eps, n, bound=bound, **sizes)

    assert failure(columns) <= delta * (1 + 1e-9)
    if columns > 1:
        assert failure(columns - 1) > delta * (1 - 1e-9)


def test_sizes_for_kernels_without_a_series_are_refused():
    with pytest.raises(UnsupportedKernelError, match="has no Maclaurin features") as error:
        maclaurin_components(Gaussian(), 0.1, radius=1.0)
    assert "  needs: a dot-product kernel" in str(error.value)
    with pytest.raises(ParameterError, match=r"maclaurin_components: delta must be in \(0, 1\), got 1"):
        maclaurin_components(LINEAR, 0.1, 1, radius=1.0)
    with pytest.raises(ParameterError, match="maclaurin_components: eps must be a finite number > 0, got 0"):
        maclaurin_components(LINEAR, 0, radius=1.0)


# ---- domains ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", [1.0, 0.5, math.inf, math.nan])
def test_base_of_at_most_one_is_refused(base):
    for bound in (maclaurin_bound, maclaurin_sharp_bound):
        with pytest.raises(
            ParameterError, match=f"{bound.__name__}: base must be a finite number > 1, got .* degree distribution"
        ):
            bound(LINEAR, 1.0, base=base)


@pytest.mark.parametrize("wrong", [0, -1.0, math.nan, math.inf])
def test_numbers_that_are_not_positive_are_refused(wrong):
    for call, message in (
        (lambda: maclaurin_bound(LINEAR, wrong), "maclaurin_bound: radius must be a finite number > 0"),
        (lambda: maclaurin_failure(wrong, 10, bound=1.0), "maclaurin_failure: eps must be a finite number > 0"),
        (lambda: maclaurin_gradient(LINEAR, 1.0, wrong), "maclaurin_gradient: dimension must be an integer >= 1"),
    ):
        with pytest.raises(ParameterError, match=f"{message}, got"):
            call()


@pytest.mark.parametrize("wrong", [0, -1.0, math.nan])
def test_bound_that_is_not_positive_is_refused(wrong):
    with pytest.raises(ParameterError, match="maclaurin_failure: bound must be a number > 0, or inf, got"):
        maclaurin_failure(0.1, 10, bound=wrong)


def test_overflowing_bounds_are_infinite_and_give_probability_one():
    kernel = ExponentialDotProduct()
    for bound in (maclaurin_bound, maclaurin_sharp_bound, dot_product_gradient):
        assert bound(kernel, 30.0) == math.inf
    assert maclaurin_gradient(kernel, 30.0, 2) == math.inf
    assert maclaurin_failure(0.1, 10**9, bound=math.inf) == 1.0
    sizes = {"bound": math.inf, "gradient": math.inf, "radius": 30.0, "dimension": 2}
    assert maclaurin_uniform_failure(0.1, 10**9, **sizes) == 1.0
    with pytest.raises(ParameterError, match="maclaurin_components: eps must be large enough"):
        maclaurin_components(kernel, 0.1, radius=30.0)
