"""Maps of histogram kernels that are declared `unbiased` have the kernel as their mean, and the stated variance."""

from itertools import cycle, product

import numpy as np
import pytest

from mercer import Chi2, HomogeneousFeatures, Intersection, JensenShannon, Min, ThresholdFeatures
from mercer.theory import jittered_variance, threshold_variance

from .calibrated import estimates, kernel_of_pairs, misfit

pytestmark = pytest.mark.slow

DRAWS = 1000
VARIANCE_DRAWS = 6000
UPPER = 3.0
WIDTHS = (1, 2, 7, 40)
DIMENSIONS = (1, 2, 5, 17)


def pairs_of_histograms(d, seed, *, sum_one=False):
    """Return non-negative rows and partners: equal, close, much smaller, with zeros, all zero."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.05, 2.5, size=(5, d))
    Y = X.copy()
    Y[1] *= rng.uniform(0.9, 1.1, size=d)
    Y[2] *= rng.uniform(0.02, 0.1, size=d)
    Y[3:] = rng.uniform(0.0, 2.5, size=(2, d))
    X[3, ::2] = 0.0
    Y[4] = 0.0
    if sum_one:
        X, Y = (Z / np.maximum(Z.sum(axis=1, keepdims=True), 1e-300) for Z in (X, Y))
    return X, Y


def total_of(kernel, d):
    """Return the largest value of a kernel of minima, which is the range of every estimate."""
    return kernel(np.full((1, d), UPPER))[0, 0]


# ---- thresholds -----------------------------------------------------------------------------------------------------

THRESHOLD_KERNELS = [Intersection(), 1.5 + 2.0 * Intersection(), 1 + Min(), Intersection() + 0.01 * Min()]
THRESHOLD_GRID = [
    (ThresholdFeatures(kernel, n, thresholds=thresholds, upper=UPPER), d, sum_one)
    for (thresholds, d, n), kernel, sum_one in zip(
        product(("jittered", "random"), DIMENSIONS, WIDTHS),
        cycle(THRESHOLD_KERNELS),
        cycle((False, True, True)),
        strict=False,
    )
    if d < 5 or kernel not in THRESHOLD_KERNELS[2:]  # the box of Min would take almost all thresholds
]


def name_of(cell):
    return "-".join(map(str, cell)).replace("\n", "").replace(" ", "")


@pytest.mark.parametrize("cell", THRESHOLD_GRID, ids=name_of)
def test_mean_over_thresholds_is_the_kernel(cell, seed):
    m, d, sum_one = cell
    X, Y = pairs_of_histograms(d, seed, sum_one=sum_one)
    assert m.unbiased is True
    samples = estimates(m, X, Y, DRAWS, seed)
    assert misfit(samples, kernel_of_pairs(m.kernel, X, Y), width=total_of(m.kernel, d)) <= 1


@pytest.mark.parametrize("thresholds", ["jittered", "random"])
@pytest.mark.parametrize("n", WIDTHS)
def test_misfit_detects_ignored_lengths_and_omitted_features(thresholds, n, seed):
    X, Y = pairs_of_histograms(2, seed)
    m = ThresholdFeatures(Intersection(), n, thresholds=thresholds, upper=UPPER)
    samples = estimates(m, X, Y, DRAWS, seed)
    k, total = kernel_of_pairs(Intersection(), X, Y), total_of(Intersection(), 2)
    assert misfit(samples, k, width=total) <= 1
    assert misfit(samples / UPPER, k, width=total) > 1  # the amplitudes of thresholds on [0, 1]
    first = np.minimum(X[:, 0], Y[:, 0])
    assert misfit(samples, first, width=total) > 1


def test_mid_points_are_biased_and_declared_as_such(seed):
    X, Y = np.array([[1.0]]), np.array([[1.0]])
    m = ThresholdFeatures(Min(), 2, thresholds="stratified", upper=UPPER)
    assert isinstance(m.unbiased, str)
    assert misfit(estimates(m, X, Y, DRAWS, seed), 1.0, width=UPPER) > 1
    drawn = ThresholdFeatures(Min(), 2, upper=UPPER)
    assert misfit(estimates(drawn, X, Y, DRAWS, seed), 1.0, width=UPPER) <= 1


@pytest.mark.parametrize(
    ("thresholds", "kernel", "d", "n"),
    [
        ("jittered", 2.0 * Intersection(), 1, 2),
        ("jittered", Intersection(), 5, 7),  # strata that start in one feature and end in another
        ("jittered", 1 + Intersection() + 0.01 * Min(), 5, 1),
        ("jittered", 1 + Intersection() + 0.05 * Min(), 2, 4),
        ("random", 2.0 * Intersection(), 5, 1),
        ("random", 1 + Intersection() + 0.05 * Min(), 2, 7),
    ],
    ids=str,
)
def test_variance_over_thresholds_is_the_closed_form(thresholds, kernel, d, n, seed):
    X, Y = pairs_of_histograms(d, seed)
    m = ThresholdFeatures(kernel, n, thresholds=thresholds, upper=UPPER)
    deviations = estimates(m, X, Y, VARIANCE_DRAWS, seed) - kernel_of_pairs(kernel, X, Y)
    width = total_of(kernel, d) ** 2
    claimed = np.diagonal(m.variance(X, Y))
    assert misfit(np.square(deviations), claimed, width=width) <= 1
    assert misfit(np.square(deviations), 3 * claimed + 0.02 * width, width=width) > 1


@pytest.mark.parametrize("d", [1, 3])
def test_misfit_distinguishes_jittered_from_random_thresholds(d, seed):
    X, Y = pairs_of_histograms(d, seed)
    n, total = 9, UPPER * d
    samples = {
        t: np.square(
            estimates(ThresholdFeatures(Intersection(), n, thresholds=t, upper=UPPER), X, Y, VARIANCE_DRAWS, seed)
            - kernel_of_pairs(Intersection(), X, Y)
        )
        for t in ("jittered", "random")
    }
    k = kernel_of_pairs(Intersection(), X, Y)
    random = threshold_variance(k, total, n)
    covered = np.minimum(X, Y) / UPPER
    jittered = jittered_variance([(UPPER, covered[:, i], 1.0) for i in range(d)], n)
    # At most 2 d - 1 strata are partly covered, and the others have no error.
    width = ((2 * d - 1) * total / n) ** 2
    assert misfit(samples["jittered"], jittered, width=width) <= 1
    assert misfit(samples["jittered"], random, width=width) > 1
    assert misfit(samples["random"], random, width=total**2) <= 1
    assert misfit(samples["random"], jittered, width=total**2) > 1


# ---- homogeneous kernels --------------------------------------------------------------------------------------------

HOMOGENEOUS_KERNELS = [Chi2(), 1.5 + 2.0 * JensenShannon(), Intersection(), 2.0 * Chi2() + Intersection()]
HOMOGENEOUS_GRID = [
    (HomogeneousFeatures(kernel, n, frequencies="random"), d, sum_one)
    for (d, n), kernel, sum_one in zip(
        product(DIMENSIONS, (2, 3, 7, 40)),
        cycle([*HOMOGENEOUS_KERNELS, Chi2()]),
        cycle((False, True, True)),
        strict=False,
    )
] + [(HomogeneousFeatures(JensenShannon(), 1, frequencies="random"), d, False) for d in DIMENSIONS]


def largest_of(m, X, Y):
    """Return a bound of the absolute value of each random estimate, without the exact constant."""
    total = sum(weight for weight, leaf in m.kernel.summands() if leaf is not None)
    width = m.n_components - (m.kernel.summands()[0][1] is None)
    roots = np.sort(np.sqrt(X * Y), axis=1)[:, ::-1]
    d, terms = X.shape[1], -(-width // 2)
    # With fewer frequencies than features, a subset represents all. One cosine may have a phase, which doubles it.
    largest = roots[:, :terms].sum(axis=1) + (width % 2) * roots[:, 0]
    return np.maximum(total * largest * max(1.0, d / terms), 1e-12)


def range_of(m, X, Y):
    """Return the length of an interval that contains every estimate for each pair."""
    return 2 * largest_of(m, X, Y)


@pytest.mark.parametrize("cell", HOMOGENEOUS_GRID, ids=name_of)
def test_mean_over_frequencies_is_the_kernel(cell, seed):
    m, d, sum_one = cell
    X, Y = pairs_of_histograms(d, seed, sum_one=sum_one)
    assert m.unbiased is True
    samples = estimates(m, X, Y, DRAWS, seed)
    assert misfit(samples, kernel_of_pairs(m.kernel, X, Y), width=range_of(m, X, Y)) <= 1


@pytest.mark.parametrize("n", [2, 7, 40])
def test_misfit_detects_another_kernel_and_ignored_weights(n, seed):
    X, Y = pairs_of_histograms(5, seed)
    m = HomogeneousFeatures(2.0 * Chi2(), n, frequencies="random")
    samples = estimates(m, X, Y, 4 * DRAWS, seed)
    width = range_of(m, X, Y)
    k = kernel_of_pairs(Chi2(), X, Y)
    assert misfit(samples, 2 * k, width=width) <= 1
    assert misfit(samples, k, width=width) > 1
    terms = -(-n // 2)
    if terms < 5:
        assert misfit(samples * terms / 5, 2 * k, width=width) > 1
    if n == 40:  # enough components to distinguish the kernels
        assert misfit(samples, 2 * kernel_of_pairs(Intersection(), X, Y), width=width) > 1


def test_grid_is_biased_and_declared_as_such(seed):
    X, Y = np.array([[1.0]]), np.array([[0.2]])
    m = HomogeneousFeatures(Chi2(), 1)
    assert isinstance(m.unbiased, str)
    assert misfit(estimates(m, X, Y, DRAWS, seed), kernel_of_pairs(Chi2(), X, Y), width=1.0) > 1


@pytest.mark.parametrize(
    ("kernel", "d", "n"),
    [
        (Chi2(), 1, 2),
        (Chi2(), 1, 1),
        (2.0 * Chi2() + Intersection(), 2, 4),  # one pair for each feature
        (JensenShannon() + Intersection(), 2, 6),  # one feature has one more pair
        (Intersection(), 2, 5),  # one cosine is unpaired
        (1 + Chi2(), 5, 5),  # two of five features
        (JensenShannon(), 5, 3),
    ],
    ids=str,
)
def test_variance_over_frequencies_is_the_closed_form(kernel, d, n, seed):
    X, Y = pairs_of_histograms(d, seed)
    m = HomogeneousFeatures(kernel, n, frequencies="random")
    k = kernel_of_pairs(kernel, X, Y)
    squares = np.square(estimates(m, X, Y, 2 * VARIANCE_DRAWS, seed) - k)
    width = (largest_of(m, X, Y) + k) ** 2
    claimed = np.diagonal(m.variance(X, Y))
    assert misfit(squares, claimed, width=width) <= 1
    assert misfit(squares, 0.5 * claimed, width=width) > 1
    assert misfit(squares, 1.5 * claimed + 1e-9, width=width) > 1


def test_variance_of_a_grid_with_fewer_components_than_features(seed):
    X, Y = pairs_of_histograms(5, seed)
    m = HomogeneousFeatures(Chi2(), 2)
    samples = estimates(m, X, Y, VARIANCE_DRAWS, seed)
    claimed = np.diagonal(m.variance(X, Y))
    products = m.features_.amplitudes[0] ** 2 * np.sort(
        np.sqrt(X * Y), axis=1
    )  # contribution of each feature if it is chosen
    mean = 2 / 5 * products.sum(axis=1)
    width = np.maximum(products[:, -2:].sum(axis=1) ** 2, 1e-12)
    assert misfit(samples, mean, width=np.sqrt(width)) <= 1
    assert misfit(np.square(samples - mean), claimed, width=width) <= 1
    # The variance of a choice with replacement, without the finite-population correction.
    assert misfit(np.square(samples - mean), claimed / (1 - 2 / 5), width=width) > 1
