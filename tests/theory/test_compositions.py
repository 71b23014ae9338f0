"""Bounds for compositions: constants, exact means, and the misprinted theorem."""

import math

import numpy as np
import pytest
from scipy import stats

from mercer import ExponentialDotProduct, Gaussian, ParameterError, Polynomial
from mercer.theory import (
    InnerConstants,
    composed_bound,
    composed_failure,
    composed_gradient,
    dot_product_gradient,
    gaussian_phase_constants,
)

from ..calibrated.calibrated import misfit
from .instances import BASES, LINEAR

pytestmark = pytest.mark.covering(1)

FAILURE = 1e-9
every_base = pytest.mark.parametrize("base", BASES)


def least_probability(hits, n):
    """Return what the probability of a hit exceeds, except with probability `FAILURE` (Clopper and Pearson)."""
    return stats.beta.ppf(FAILURE, hits, n - hits + 1) if hits else 0.0


@pytest.mark.parametrize("dimension", [1, 3, 20])
def test_constants_of_the_gaussian_kernel_with_phases(dimension):
    s = 1.7
    inner = gaussian_phase_constants(s, dimension)
    r = np.linspace(0, 10, 100_001)
    steepest = (r / s**2 * Gaussian(s)(r[:, None], np.zeros((1, 1)))[:, 0]).max()
    assert inner.kernel_gradient == pytest.approx(steepest, rel=1e-6)
    assert inner.kernel_bound == Gaussian(s).diag(np.ones((1, dimension)))[0]
    assert inner.feature_bound == 2.0
    # The mean length of a frequency is that of a chi variable; its root mean square is in the bound.
    mean_largest = math.sqrt(2) * stats.chi(dimension).mean() / s
    assert 0.75 * inner.feature_gradient < mean_largest <= inner.feature_gradient


@every_base
@pytest.mark.parametrize("kernel", [LINEAR, Polynomial(3, coef0=0.5), ExponentialDotProduct()], ids=repr)
def test_features_of_compositions_stay_within_their_bounds(kernel, base, seed):
    d, n = 3, 20_000
    rng = np.random.default_rng(seed)
    inner = gaussian_phase_constants(1.0, d)
    x, y = rng.normal(size=(2, d))
    degrees = rng.geometric((base - 1) / base, size=n) - 1
    products = np.empty(n)
    coefficients = kernel.series.coefficients(degrees.max() + 1)
    for i, degree in enumerate(degrees):
        w, b = rng.normal(size=(degree, d)), rng.uniform(0, 2 * np.pi, degree)
        scale = coefficients[degree] * base ** (degree + 1) / (base - 1)
        at_x, at_y = (math.sqrt(2) * np.cos(w @ rows + b) for rows in (x, y))
        products[i] = scale * at_x.prod() * at_y.prod()
    bound = composed_bound(kernel, inner, base=base)
    assert np.abs(products).max() <= bound
    assert misfit(products[:, None], kernel.function(Gaussian()(x[None], y[None])[0, 0]), width=2 * bound) <= 1


@every_base
@pytest.mark.parametrize("kernel", [LINEAR, Polynomial(3, coef0=0.5), ExponentialDotProduct()], ids=repr)
def test_the_mean_largest_gradient_does_not_depend_on_the_base(kernel, base):
    d, n = 3, np.arange(60)
    inner = gaussian_phase_constants(1.0, d)
    probabilities = (base - 1) / base ** (n + 1.0)
    # Degree n: n factors sqrt(2) |w_j| in turn, the 2 n - 1 others at most sqrt(2) each.
    largest = kernel.series.coefficients(60) / probabilities * n * 2.0 ** (n - 0.5) * math.sqrt(2) * stats.chi(d).mean()
    of_features = composed_gradient(kernel, inner) - inner.kernel_gradient * dot_product_gradient(kernel, 1.0)
    expected = of_features * stats.chi(d).mean() / math.sqrt(d)
    assert (probabilities * largest).sum() == pytest.approx(expected, rel=1e-9)
    # The print takes the worst degree, with the scale of base two.
    slope = dot_product_gradient(kernel, math.sqrt(2 * base)) / math.sqrt(2 * base)
    assert of_features < inner.feature_gradient * base**2 * math.sqrt(2) * slope


def printed_failure(eps, n, *, bound, gradient, radius, dimension):
    """Theorem 15 as it is printed."""
    return 32 * radius * gradient / eps * math.exp(-n * eps**2 / (8 * bound**2 * dimension))


def optimum_of_the_printed_proof(eps, n, *, bound, gradient, radius, dimension):
    """The sum k_1 r^-d + k_2 r of the proof of Theorem 15 at its own choice of r."""
    k1 = 2 * (4 * radius) ** dimension * math.exp(-n * eps**2 / (8 * bound**2))
    k2 = 2 * gradient / eps
    r = (k1 / k2) ** (1 / (dimension + 1))
    return k1 * r**-dimension + k2 * r


def test_the_printed_theorem_is_below_the_optimum_of_its_own_proof():
    sizes = {"bound": 1.0, "gradient": 1.5, "radius": 1.0, "dimension": 5}
    printed, own = (f(0.05, 1_000_000, **sizes) for f in (printed_failure, optimum_of_the_printed_proof))
    assert printed == pytest.approx(6.9e-25, rel=0.01)
    assert own == pytest.approx(5.2e-21, rel=0.01)
    assert composed_failure(0.05, 1_000_000, **sizes) > own > printed


def test_the_corrected_theorem_is_the_sum_of_its_two_parts():
    eps, n, sizes = 0.3, 10_000, {"bound": 1.5, "gradient": 2.5, "radius": 1.2, "dimension": 3}
    r = np.geomspace(1e-6, 4.0, 200_001)
    net = 2 * (4 * 1.2 / r) ** 6 * math.exp(-n * eps**2 / (8 * 1.5**2))
    steep = 4 * r * 2.5 / eps
    total = net + steep
    claimed = composed_failure(eps, n, **sizes)
    assert total.min() <= claimed <= 1.5 * total.min()  # equal parts are near the optimum
    at = np.argmin(np.abs(net - steep))
    assert claimed == pytest.approx(total[at], rel=1e-3)
    for worse in ({"bound": 1.6}, {"gradient": 2.6}, {"radius": 1.3}):
        assert composed_failure(eps, n, **(sizes | worse)) > claimed
    assert composed_failure(eps, 2 * n, **sizes) < claimed


def test_composed_failure_refuses_errors_beyond_the_range_of_the_theorem():
    sizes = {"bound": 1.0, "gradient": 0.5, "radius": 1.0, "dimension": 2}
    assert composed_failure(8.0, 10, **sizes) <= 1.0
    with pytest.raises(
        ParameterError, match=r"composed_failure: eps must be at most 16 R L = 8, the range of the theorem"
    ):
        composed_failure(8.1, 10, **sizes)


@pytest.mark.parametrize("wrong", [0, -1.0, math.nan, math.inf])
def test_constants_that_are_not_positive_are_refused(wrong):
    with pytest.raises(ParameterError, match="gaussian_phase_constants: lengthscale must be a finite number > 0, got"):
        gaussian_phase_constants(wrong, 2)
    with pytest.raises(ParameterError, match="InnerConstants: feature_bound must be a finite number > 0, got"):
        InnerConstants(1.0, wrong, 1.0, 1.0)


# ---- simulation ------------------------------------------------------------------------------------


def largest_composed_errors(kernel, n, draws, rng):
    """Return the largest errors of n features of f(K) over all pairs of some rows of the unit disk, for each draw."""
    angles = np.linspace(0, 2 * np.pi, 13)[:-1]
    X = np.concatenate([r * np.column_stack([np.cos(angles), np.sin(angles)]) for r in (0.3, 1.0)])
    exact = kernel.function(Gaussian()(X))
    found = np.empty(draws)
    for i in range(draws):
        degrees = rng.geometric(0.5, n) - 1  # base two
        coefficients = kernel.series.coefficients(degrees.max() + 1)
        Z = np.sqrt(coefficients[degrees] * 2.0 ** (degrees + 1)) * np.ones((len(X), 1))
        for factor in range(degrees.max()):
            mine = np.flatnonzero(degrees > factor)
            phases = rng.uniform(0, 2 * np.pi, len(mine))
            Z[:, mine] *= math.sqrt(2) * np.cos(X @ rng.normal(size=(2, len(mine))) + phases)
        found[i] = np.abs(Z @ Z.T / n - exact).max()
    return found


def test_largest_errors_of_compositions_are_rarer_than_their_bound(seed):
    kernel, inner = ExponentialDotProduct(0.1), gaussian_phase_constants(1.0, 2)
    sizes = {"bound": composed_bound(kernel, inner), "gradient": composed_gradient(kernel, inner)}
    eps, n, rng = 1.0, 1400, np.random.default_rng(seed)
    bound = composed_failure(eps, n, **sizes, radius=1.0, dimension=2)
    assert 0.1 < bound < 0.5
    # The bound at one pair takes the range of the values for their deviation, and the net is another factor: errors
    # of this size are not seen. Its constants are attained, or compared with exact means, above.
    errors = largest_composed_errors(kernel, n, 50, rng)
    assert least_probability(int((errors >= eps).sum()), 50) <= bound
    # A bound of the values that they exceed is broken.
    few = largest_composed_errors(kernel, 20, 400, rng)
    hits = int((few >= 0.5).sum())
    wrong = composed_failure(0.5, 20, **(sizes | {"bound": sizes["bound"] / 30}), radius=1.0, dimension=2)
    assert least_probability(hits, 400) > wrong
    assert composed_failure(0.5, 20, **sizes, radius=1.0, dimension=2) == 1.0
