"""Maps of sums, products and compositions have the kernel as their mean over draws, and the predicted variance.

If components are independent and identically distributed, D z(x) z(y) has mean k(x, y) for each of them, and a single
fit gives tens of thousands of samples. If components depend on each other, every draw is one sample.
"""

from dataclasses import replace

import numpy as np
import pytest

from mercer import (
    CompositionMap,
    ExponentialDotProduct,
    Gaussian,
    Geometric,
    Laplacian,
    Matern,
    Polynomial,
    ProductMap,
    RandomFourier,
    RandomMaclaurin,
    RationalQuadratic,
    SumMap,
    Transformed,
)
from mercer.maps.algebra import composition, copies
from mercer.maps.algebra.copies import Sample, scalar_copies
from mercer.maps.series.plans import DegreeDistribution

from .calibrated import (
    bernstein_radius_of_sum,
    estimates,
    kernel_of_pairs,
    median_misfit,
    misfit,
    pairs_of_rows,
    products,
)

pytestmark = pytest.mark.slow

COMPONENTS = 40_000
DRAWS = 800
GAUSSIAN = Transformed(Gaussian(), columns=(0, 1))
MATERN = Transformed(Matern(1.5), columns=(2, 3))


def component_samples(feature_map, X, Y, seed):
    """Return D z(x) z(y) for every component and pair of rows: (D, pairs)."""
    m = feature_map.set_params(random_state=np.random.default_rng(seed)).fit(X)
    return (m.transform(X) * m.transform(Y)).T * m.n_components


def moment_of_phases(kernel, X, Y):
    """Return E[w(x)^2 w(y)^2] of a cosine with a random phase, for a shift-invariant kernel of mass one."""
    return 1 + kernel_of_pairs(kernel, 2 * X, 2 * Y) / 2


def bound_of_a_component(feature_map):
    """Return the largest |D z(x) z(y)| of the geometric plan, for phase cosines of mass one, w(x) w(y) <= 2.

    It is the supremum over n of a_n 2^n / P[N = n] (docs/theory/maclaurin.md).
    """
    a = feature_map.kernel.outer.series.coefficients(100)
    n, p = np.arange(100), feature_map.p
    return float(np.max(a * 2.0**n * p ** (n + 1.0) / (p - 1)))


def bias(feature_map, X, Y, seed):
    expected = kernel_of_pairs(feature_map.kernel, X, Y)
    width = 2 * bound_of_a_component(feature_map)
    return misfit(component_samples(feature_map, X, Y, seed), expected, width=width)


# ---- compositions: random degrees -----------------------------------------------------------------------------------


def geometric(kernel, p=2.0, **choices):
    return CompositionMap(kernel, COMPONENTS, plan="geometric", p=p, **choices)


@pytest.mark.parametrize(
    "feature_map",
    [
        geometric(ExponentialDotProduct() @ Gaussian()),
        geometric(ExponentialDotProduct(0.5) @ Gaussian(2.0), p=3.0),
        geometric(Polynomial(3, 0.5) @ Gaussian(), p=1.5),
        geometric(Polynomial(2) @ Matern(1.5)),
        geometric(
            ExponentialDotProduct() @ Gaussian(), inner_map=RandomFourier(directions="orthogonal", radii="stratified")
        ),
    ],
    ids=repr,
)
def test_mean_over_components_of_random_degree_is_the_kernel(feature_map, seed):
    assert feature_map.unbiased is True
    X, Y = pairs_of_rows(4, seed)
    assert bias(feature_map, X, Y, seed) <= 1


def test_misfit_detects_unnormalized_degree_probabilities(seed, monkeypatch):
    X, Y = pairs_of_rows(4, seed)
    # The probabilities 1 / p^(n + 1) of Kar and Karnick (2012, AISTATS) sum to one only for p = 2.
    monkeypatch.setattr(
        DegreeDistribution, "probability", lambda distribution, n: distribution.base ** -(np.asarray(n) + 1.0)
    )
    assert bias(geometric(Polynomial(2) @ Gaussian(), p=2.0), X, Y, seed) <= 1
    assert bias(geometric(Polynomial(2) @ Gaussian(), p=3.0), X, Y, seed) > 1


def test_misfit_detects_equal_draws_in_two_factors(seed, monkeypatch):
    def same_draw(prototype, kernel, sample, count):
        return scalar_copies(prototype, kernel, Sample(sample.X, sample.weight, np.random.default_rng(seed)), count)

    X, Y = pairs_of_rows(4, seed)
    monkeypatch.setattr(composition, "scalar_copies", same_draw)
    # All components have degree two or zero, so that both factors have the same width and the same draw.
    assert bias(geometric(Polynomial(2, coef0=0.0) @ Gaussian()), X, Y, seed) > 1


def test_misfit_detects_a_cosine_without_sine_or_phase(seed, monkeypatch):
    draw = RandomFourier._draw

    def without_phase(self, *arguments):
        features = draw(self, *arguments)
        return replace(features, phases=np.zeros_like(features.phases))

    # The mean of 2 cos(w'x) cos(w'y) is k(x - y) + k(x + y), which differs most near the origin.
    X, Y = (0.2 * rows for rows in pairs_of_rows(4, seed))
    monkeypatch.setattr(RandomFourier, "_draw", without_phase)
    assert bias(geometric(Polynomial(2) @ Gaussian()), X, Y, seed) > 1


# ---- compositions: the optimal plan ---------------------------------------------------------------------------------

PHASES = RandomFourier(form="phase", directions="iid")


def variance_and_bound(feature_map, X, Y):
    """Return the variance of a sum of independent components, given its plan, and a bound of single components.

    A component of degree n has the mean square a^2 M^n, where M is the moment of phase cosines, and values up to a 2^n.
    """
    k, moment = kernel_of_pairs(feature_map.kernel_.inner, X, Y), moment_of_phases(feature_map.kernel_.inner, X, Y)
    n = np.arange(100)
    a = feature_map.kernel_.outer.series.coefficients(100)
    variance, bound = np.zeros(len(X)), 0.0
    for stratum in feature_map.plan_.strata:
        m = stratum.n_components
        if stratum.kind == "sketched":
            [i] = stratum.degrees
            variance += a[i] ** 2 * (moment**i - k ** (2 * i)) / m
            bound = max(bound, a[i] * 2.0**i / m)
        elif stratum.kind == "random":
            probabilities = stratum.distribution.probability(n)
            used = (probabilities > 0) & (a > 0)
            variance += sum(a[i] ** 2 / probabilities[i] * moment**i for i in n[used]) / m
            bound = max(bound, float(np.max(a[used] * 2.0 ** n[used] / probabilities[used])) / m)
    return variance, bound


@pytest.mark.parametrize(
    "kernel",
    [
        Polynomial(3, 0.5) @ Gaussian(),
        Polynomial(2) @ Matern(1.5),
        Geometric(terms=5) @ Transformed(RationalQuadratic(), lengthscales=(1.0, 2.0, 3.0)),
    ],
    ids=repr,
)
def test_mean_of_the_optimal_plan_is_the_kernel(kernel, seed):
    # Finite series only: the components of random degree of an infinite series have no useful bound.
    X, Y = pairs_of_rows(3, seed)
    m = CompositionMap(kernel, COMPONENTS, inner_map=PHASES, random_state=np.random.default_rng(seed)).fit(X)
    gap = products(m.transform(X), m.transform(Y)) - kernel_of_pairs(kernel, X, Y)
    radius = bernstein_radius_of_sum(*variance_and_bound(m, X, Y), columns=len(X))
    assert (np.abs(gap) <= radius).all()
    # A deviation of a tenth of the kernel is detected.
    assert (np.abs(gap + 0.1 * kernel_of_pairs(kernel, X, Y)) > radius).any()


def test_features_of_a_multiple_of_a_composition_are_scaled_by_the_square_root():
    X, Y = pairs_of_rows(3, 0)
    kernel = ExponentialDotProduct(0.5) @ Gaussian()
    plain, tripled = (CompositionMap(k, 50, random_state=1).fit(X).transform(Y) for k in (kernel, 1.5 * (2.0 * kernel)))
    np.testing.assert_allclose(tripled, np.sqrt(3) * plain, rtol=1e-12)


@pytest.mark.parametrize("degree", [2, 3])
def test_variance_of_a_power_of_phase_cosines(degree, seed):
    # The variance is M^n - k^2n with M = 1 + k(2 delta) / 2, since the mean square of a component is M^n.
    X, Y = pairs_of_rows(3, seed)
    m = CompositionMap(Polynomial(degree, coef0=0.0) @ Gaussian(), COMPONENTS)
    samples = component_samples(m, X, Y, seed)
    expected, moment = kernel_of_pairs(m.kernel, X, Y), moment_of_phases(Gaussian(), X, Y)
    assert misfit(samples, expected, width=2 * 2.0**degree) <= 1
    assert misfit(np.square(samples), moment**degree, width=4.0**degree) <= 1
    pairs = (1 + kernel_of_pairs(Gaussian(), 2 * X, 2 * Y)) / 2  # the moment of sine-cosine pairs
    assert misfit(np.square(samples), pairs**degree, width=4.0**degree) > 1


# ---- products -------------------------------------------------------------------------------------------------------


def paired_fourier():
    return ProductMap(GAUSSIAN * MATERN, COMPONENTS, maps=[RandomFourier(), RandomFourier()], method="paired")


def test_mean_and_variance_of_paired_components_are_products_over_the_factors(seed):
    X, Y = pairs_of_rows(4, seed)
    samples = component_samples(paired_fourier(), X, Y, seed)
    moments = moment_of_phases(GAUSSIAN, X, Y) * moment_of_phases(MATERN, X, Y)
    assert misfit(samples, kernel_of_pairs(GAUSSIAN * MATERN, X, Y), width=8) <= 1
    assert misfit(np.square(samples), moments, width=16) <= 1
    assert (
        misfit(np.square(samples), moment_of_phases(GAUSSIAN * MATERN, X, Y), width=16) > 1
    )  # the moment of a common frequency


def test_misfit_detects_equal_draws_in_two_factors_of_a_product(seed, monkeypatch):
    def same_draw(prototype, kernel, sample, count):
        return scalar_copies(prototype, kernel, Sample(sample.X, sample.weight, np.random.default_rng(seed)), count)

    X, Y = pairs_of_rows(4, seed)
    monkeypatch.setattr("mercer.maps.algebra.product_map.scalar_copies", same_draw)
    square = ProductMap(Gaussian() * Gaussian(), COMPONENTS, maps=[RandomFourier(), RandomFourier()], method="paired")
    assert misfit(component_samples(square, X, Y, seed), kernel_of_pairs(Gaussian() * Gaussian(), X, Y), width=8) > 1


def second_moment_of_maclaurin(kernel, X, Y):
    """Return E[w(x)^2 w(y)^2] of one component of random degree, with the distribution chosen for these rows."""
    m = RandomMaclaurin(kernel, COMPONENTS, plan="random").fit(X)
    variance = np.diagonal(m.variance(X, Y)) * COMPONENTS
    return variance + np.square(kernel_of_pairs(kernel, X, Y))


def test_paired_components_of_a_gaussian_and_a_polynomial_kernel(seed):
    X, Y = (0.5 * rows for rows in pairs_of_rows(4, seed))
    polynomial = Transformed(Polynomial(2), columns=(2, 3))
    kernel = GAUSSIAN * polynomial
    samples = component_samples(ProductMap(kernel, COMPONENTS, method="paired"), X, Y, seed)
    expected = kernel_of_pairs(kernel, X, Y)
    moment = moment_of_phases(GAUSSIAN, X, Y) * second_moment_of_maclaurin(polynomial, X, Y)
    assert median_misfit(samples, expected, variance=moment - expected**2) <= 1
    wrong = kernel_of_pairs(GAUSSIAN * Transformed(Polynomial(2, coef0=0.8), columns=(2, 3)), X, Y)
    assert median_misfit(samples, wrong, variance=moment - expected**2) > 1


def test_components_sorted_by_degree_are_shuffled_before_they_are_paired(seed, monkeypatch):
    # Both maps sort components by decreasing degree. Without shuffling, equal degrees would be paired, and the signs of
    # their means, (-1)^n here, would cancel.
    X = np.array([[0.7, 0.7, 0.7, 0.7], [0.2, 0.5, 0.5, 0.2]])
    Y = -X
    left, right = (
        Transformed(ExponentialDotProduct(), columns=(0, 1)),
        Transformed(ExponentialDotProduct(), columns=(2, 3)),
    )
    m = ProductMap(left * right, COMPONENTS, maps=[RandomMaclaurin(), RandomMaclaurin()], method="paired")
    expected = kernel_of_pairs(left * right, X, Y)
    variance = second_moment_of_maclaurin(left, X, Y) * second_moment_of_maclaurin(right, X, Y) - expected**2
    assert median_misfit(shuffled(component_samples(m, X, Y, seed), seed), expected, variance=variance) <= 1
    monkeypatch.setattr(copies.np, "take", lambda columns, order, axis: columns)
    assert median_misfit(shuffled(component_samples(m, X, Y, seed), seed), expected, variance=variance) > 1


def shuffled(samples, seed):
    """Return the samples in random order, so that groups of them are identically distributed."""
    return np.random.default_rng(seed).permutation(samples)


def test_kronecker_product_of_a_gaussian_and_a_polynomial_kernel(seed):
    X, Y = (0.5 * rows for rows in pairs_of_rows(4, seed))
    polynomial = Transformed(Polynomial(2), columns=(2, 3))
    m = ProductMap(
        GAUSSIAN * polynomial, COMPONENTS, maps=[PHASES, RandomMaclaurin()], random_state=np.random.default_rng(seed)
    ).fit(X)
    assert m.method_ == "kronecker"
    # Each of six monomials has its own cosines; the j-th cosines of all monomials are one sample.
    size = COMPONENTS // 6
    starts = np.cumsum([0, *(features.n_components for features in m.features_.inner)])[:-1]
    sizes = [features.n_components for features in m.features_.inner]
    assert len(sizes) == 6
    Z, W = m.transform(X), m.transform(Y)
    samples = sum((Z * W)[:, a : a + size].T * n for a, n in zip(starts, sizes, strict=True))
    expected = kernel_of_pairs(m.kernel, X, Y)
    width = 4 * float(kernel_of_pairs(polynomial, np.abs(X), np.abs(Y)).max())  # products of two cosines are within +-2
    assert misfit(samples, expected, width=width) <= 1
    # The kernel without the product of the constant monomial and the Gaussian kernel.
    assert misfit(samples, expected - kernel_of_pairs(GAUSSIAN, X, Y), width=width) > 1


def test_kronecker_product_of_two_random_maps_needs_independent_draws(seed, monkeypatch):
    X, Y = pairs_of_rows(3, seed)
    maps = [RandomFourier(n_components=4), RandomFourier(n_components=4)]
    m = ProductMap(Gaussian() * Gaussian(), 16, maps=maps, method="kronecker")
    expected = kernel_of_pairs(m.kernel, X, Y)
    assert misfit(estimates(m, X, Y, DRAWS, seed), expected, width=2) <= 1
    draw = RandomFourier._draw
    seeds = iter(np.repeat(np.arange(2 * DRAWS), 5))  # one for the first map and four for the second
    monkeypatch.setattr(
        RandomFourier, "_draw", lambda self, *arguments: draw(self, *arguments[:3], np.random.default_rng(next(seeds)))
    )
    assert misfit(estimates(m, X, Y, DRAWS, seed), expected, width=2) > 1


# ---- sums and nested kernels ----------------------------------------------------------------------------------------


def test_sum_of_a_matern_and_a_polynomial_kernel(seed):
    X, Y = (0.5 * rows for rows in pairs_of_rows(3, seed))
    kernel = 2 * (Matern() + 0.5 * Polynomial(2))
    m = SumMap(kernel, COMPONENTS, maps=[PHASES, RandomMaclaurin()], random_state=np.random.default_rng(seed)).fit(X)
    first, second = (feature_map.n_components for feature_map in m.maps_)
    assert (first, second) == (COMPONENTS - 10, 10)  # ten monomials
    Z, W = m.transform(X), m.transform(Y)
    np.testing.assert_allclose(products(Z[:, first:], W[:, first:]), kernel_of_pairs(Polynomial(2), X, Y), rtol=1e-12)
    samples = (Z * W)[:, :first].T * first
    assert misfit(samples, kernel_of_pairs(2 * Matern(), X, Y), width=8) <= 1
    assert misfit(samples, kernel_of_pairs(Matern(), X, Y), width=8) > 1  # without the weight


def test_nested_products_sums_and_multiples(seed):
    X, Y = pairs_of_rows(4, seed)
    kernel = 2 * ((0.5 * (GAUSSIAN * MATERN)) * (Transformed(Laplacian(3.0), columns=(0,)) + 2 * Gaussian(3.0)))
    m = ProductMap(kernel, COMPONENTS, maps=[RandomFourier()] * 3, method="paired")
    samples = component_samples(m, X, Y, seed)
    assert misfit(samples, kernel_of_pairs(kernel, X, Y), width=2 * 2**3 * 3) <= 1
    assert misfit(samples, kernel_of_pairs(2 * kernel, X, Y), width=2 * 2**3 * 3) > 1
    squared = CompositionMap(Polynomial(2, coef0=0.0) @ (GAUSSIAN + 0.5 * MATERN), COMPONENTS)
    samples = component_samples(squared, X, Y, seed)
    assert misfit(samples, kernel_of_pairs(squared.kernel, X, Y), width=2 * 3**2) <= 1
    assert misfit(samples, kernel_of_pairs(Polynomial(2, coef0=0.0) @ (GAUSSIAN + MATERN), X, Y), width=2 * 3**2) > 1


# ---- mixed copies ---------------------------------------------------------------------------------------------------


def test_signs_of_mixed_copies_are_symmetric_and_pairwise_independent(seed):
    X = np.zeros((1, 2))
    rng = np.random.default_rng(seed)
    prototype = RandomFourier(0.5 + Laplacian(), 4)
    mixed = scalar_copies(prototype, prototype.kernel, Sample(X, None, rng), COMPONENTS)
    signs = mixed.mixing.T
    assert signs.shape == (COMPONENTS, 4)
    assert set(np.unique(signs)) == {-1.0, 1.0}
    pairs = np.column_stack([signs[:, i] * signs[:, j] for i in range(4) for j in range(i)])
    assert misfit(signs, 0.0, width=2) <= 1
    assert misfit(pairs, 0.0, width=2) <= 1
    assert misfit(np.abs(pairs), 0.0, width=2) > 1


# ---- the spectrum of a composition ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kernel",
    [
        ExponentialDotProduct() @ Gaussian(),
        Polynomial(3, 0.5) @ (Laplacian(2.0) + 0.5),
        ExponentialDotProduct(0.5) @ RationalQuadratic(0.7, 2.0),
        Geometric() @ (0.4 * Matern(0.5, 2.0)),
        2 * (Polynomial(2) @ (Matern(1.5) + Transformed(Gaussian(), columns=(0,)))),
    ],
    ids=repr,
)
def test_mean_over_frequencies_of_a_composition_is_the_kernel(kernel, seed):
    X, Y = pairs_of_rows(3, seed)
    m = RandomFourier(kernel, COMPONENTS + 1, form="phase", directions="iid", random_state=np.random.default_rng(seed))
    Z, W = m.fit(X).transform(X), m.transform(Y)
    constant = sum(part.mass for part in kernel.spectral_parts() if not part.factors)
    np.testing.assert_allclose(Z[:, 0] * W[:, 0], constant, rtol=1e-12)
    samples = (Z[:, 1:] * W[:, 1:]).T * COMPONENTS
    expected = kernel_of_pairs(kernel, X, Y) - constant
    width = 4 * (float(kernel.diag(X[:1])[0]) - constant)
    assert misfit(samples, expected, width=width) <= 1
    inner = kernel.kernel.inner if hasattr(kernel, "weight") else kernel.inner
    assert misfit(samples, kernel_of_pairs(inner, X, Y), width=width) > 1  # the inner kernel alone
