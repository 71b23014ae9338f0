"""Kernels of rows >= 0: values against other formulas, zeros, extremes, wrong rows, spectral distributions."""

from dataclasses import dataclass
from itertools import pairwise

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats
from scipy.spatial.distance import cdist, jensenshannon
from sklearn.metrics.pairwise import additive_chi2_kernel

from mercer import Chi2, DataError, Hellinger, Intersection, JensenShannon, Min, Transformed
from mercer.kernels.histogram import HomogeneousKernel, ThresholdKernel

from ..instances import HISTOGRAM

HOMOGENEOUS = [kernel for kernel in HISTOGRAM if isinstance(kernel, HomogeneousKernel)]
ADDITIVE = [*HOMOGENEOUS, Hellinger()]

every_kernel = pytest.mark.parametrize("kernel", HISTOGRAM, ids=repr)


def histograms(seed, n=25, d=5, *, sum_one=False):
    rng = np.random.default_rng(seed)
    X = rng.gamma(0.5, size=(n, d)) * rng.binomial(1, 0.7, size=(n, d))
    X[:, 0] += 0.01  # no empty rows
    return X / X.sum(axis=1, keepdims=True) if sum_one else X


def pairwise_sum(function, X, Y):
    return function(X[:, None], Y).sum(axis=2)


@pytest.mark.parametrize("d", [1, 2, 5, 17])
@pytest.mark.parametrize("sum_one", [True, False])
def test_values_are_those_of_independent_formulas(d, sum_one):
    X, Y = histograms(0, d=d, sum_one=sum_one), histograms(1, n=11, d=d, sum_one=sum_one)
    sums = X.sum(axis=1)[:, None] + Y.sum(axis=1)
    close = {"rtol": 1e-12, "atol": 1e-14}
    np.testing.assert_allclose(Min()(X, Y), np.minimum(X[:, None], Y).prod(axis=2), **close)
    # |x - y| = x + y - 2 min(x, y).
    np.testing.assert_allclose(Intersection()(X, Y), (sums - cdist(X, Y, "cityblock")) / 2, **close)
    np.testing.assert_allclose(Chi2()(X, Y), (sums + additive_chi2_kernel(X, Y)) / 2, **close)
    np.testing.assert_allclose(Hellinger()(X, Y), np.sqrt(X) @ np.sqrt(Y).T, **close)


def test_jensen_shannon_is_one_minus_the_divergence_of_histograms():
    X, Y = histograms(0, sum_one=True), histograms(1, n=11, sum_one=True)
    divergence = np.array([[jensenshannon(x, y, base=2) ** 2 for y in Y] for x in X])
    np.testing.assert_allclose(JensenShannon()(X, Y), 1 - divergence, rtol=1e-12)


def test_jensen_shannon_of_any_rows_is_the_formula_of_its_docstring():
    X, Y = histograms(0) + 0.01, histograms(1) + 0.01  # without zeros, which the formula below does not take

    def formula(x, y):
        return 0.5 * (x * np.log2((x + y) / x) + y * np.log2((x + y) / y))

    np.testing.assert_allclose(JensenShannon()(X, Y), pairwise_sum(formula, X, Y), rtol=1e-12)


def test_min_and_intersection_are_equal_for_one_feature_and_not_for_two():
    X = histograms(0, d=2)
    np.testing.assert_array_equal(Min()(X[:, :1]), Intersection()(X[:, :1]))
    np.testing.assert_array_equal(Min()([[2.0, 3.0]], [[1.0, 5.0]]), [[3.0]])
    np.testing.assert_array_equal(Intersection()([[2.0, 3.0]], [[1.0, 5.0]]), [[4.0]])


def test_one_plus_min_does_not_saturate_above_one():
    np.testing.assert_array_equal((1 + Min())([[1.5], [7.0]]), [[2.5, 2.5], [2.5, 8.0]])


@pytest.mark.parametrize("kernel", ADDITIVE, ids=repr)
def test_zeros_add_nothing_and_the_diagonal_is_the_sum_of_the_row(kernel):
    X = np.array([[0.0, 0.0], [0.0, 2.0], [3.0, 0.0]])
    np.testing.assert_allclose(kernel(X), np.diag([0.0, 2.0, 3.0]), rtol=1e-14)
    np.testing.assert_allclose(np.diagonal(kernel(X, X.copy())), X.sum(axis=1), rtol=1e-14)


@pytest.mark.parametrize("kernel", ADDITIVE, ids=repr)
def test_kernels_are_homogeneous_and_add_over_columns(kernel):
    X, Y = histograms(0), histograms(1)
    for scale in (1e-200, 1e-3, 7.0, 1e200):
        np.testing.assert_allclose(kernel(scale * X, scale * Y), scale * kernel(X, Y), rtol=1e-12)
    columns = sum(kernel(X[:, [j]], Y[:, [j]]) for j in range(5))
    np.testing.assert_allclose(kernel(X, Y), columns, rtol=1e-12)


@pytest.mark.parametrize("kernel", HOMOGENEOUS, ids=repr)
@given(x=st.floats(1e-250, 1e250), y=st.floats(1e-250, 1e250))
def test_values_hold_to_rounding_over_the_whole_range(kernel, x, y):
    exact = {
        Intersection(): min,
        Chi2(): lambda a, b: 2 * a * b / (a + b),
        JensenShannon(): lambda a, b: (a * mpmath.log1p(b / a) + b * mpmath.log1p(a / b)) / (2 * mpmath.log(2)),
    }[kernel]
    with mpmath.workdps(60):
        expected = float(exact(mpmath.mpf(x), mpmath.mpf(y)))
    value = kernel([[x]], [[y]])[0, 0]
    # Below a ratio of 1e-300 digits are given up: nothing beside the larger value.
    assert value == pytest.approx(expected, rel=1e-12, abs=1e-290 * max(x, y))


@every_kernel
@given(seed=st.integers(0, 2**32), d=st.sampled_from([1, 2, 5, 17]), sum_one=st.booleans())
def test_matrices_are_positive_semi_definite(kernel, seed, d, sum_one):
    K = kernel(histograms(seed, n=12, d=d, sum_one=sum_one))
    assert np.linalg.eigvalsh(K).min() >= -1e-12 * 12 * np.abs(K).max()


@every_kernel
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_negative_values_are_refused(kernel, kind):
    good, bad = np.ones((2, 3)), np.array([[1.0, 0.0, 2.0], [0.5, -0.25, 0.0]])
    for call in (kernel, kernel.diag, lambda X: kernel(kind(good), X), (1 + 2 * kernel).diag):
        with pytest.raises(DataError, match=r"rows must be >= 0, as counts and histograms are, got -0.25"):
            call(kind(bad))


@every_kernel
def test_values_that_overflow_are_refused(kernel):
    X = np.full((2, 20), 1.7e308)
    for call in (kernel, kernel.diag):
        with pytest.raises(DataError, match=r"the kernel overflows on these rows. Scale them down"):
            call(X)


def test_combinations_with_histogram_kernels_need_non_negative_rows():
    assert all(kernel.positive_only for kernel in HISTOGRAM)
    assert (1 + 2 * Chi2()).positive_only
    assert Transformed(Min(), columns=(0,)).positive_only


@pytest.mark.parametrize("kernel", ADDITIVE, ids=repr)
def test_values_of_wide_sparse_rows_are_computed_without_making_them_dense(kernel, monkeypatch):
    rng = np.random.default_rng(0)
    X = sp.random_array((30, 3000), density=0.02, rng=rng, format="csr")
    expected, cross = kernel(X.toarray()), kernel(X.toarray(), X[:7].toarray())

    def refuse(rows):
        raise AssertionError("made dense")

    monkeypatch.setattr("mercer.kernels.base.dense64", refuse)
    for wrap in (sp.csr_array, sp.csr_matrix):
        np.testing.assert_allclose(kernel(wrap(X)), expected, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(kernel(wrap(X), wrap(X[:7])), cross, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kernel", ADDITIVE, ids=repr)
def test_duplicate_csr_entries_are_summed_without_changing_the_input(kernel):
    X = sp.csr_array(([1.0, 3.0, -1.0, 2.0], ([0, 0, 0, 1], [1, 1, 1, 0])), shape=(2, 2))
    twice = sp.csr_array((np.array([1.0, 3.0, -1.0, 2.0]), np.array([1, 1, 1, 0]), np.array([0, 3, 4])), shape=(2, 2))
    np.testing.assert_allclose(kernel(twice), kernel(X.toarray()), rtol=1e-14)
    assert twice.nnz == 4


@pytest.mark.parametrize("kernel", HOMOGENEOUS, ids=repr)
def test_density_and_signature_are_a_fourier_pair(kernel):
    for lag in (0.0, 0.3, 1.0, 4.0):
        # Quadrature with a weight: the spectral density of Intersection has the tail of a Cauchy density.
        if lag:
            value = 2 * integrate.quad(kernel.spectral_density, 0, np.inf, weight="cos", wvar=lag)[0]
        else:
            value = 2 * integrate.quad(kernel.spectral_density, 0, np.inf)[0]
        assert value == pytest.approx(float(kernel.signature(np.array(lag))), abs=1e-7)


@pytest.mark.parametrize("kernel", HOMOGENEOUS, ids=repr)
def test_frequencies_have_the_density(kernel, seed):
    drawn = kernel.frequencies(40_000, np.random.default_rng(seed))
    edges = np.linspace(0, 3, 200)
    steps = [integrate.quad(kernel.spectral_density, a, b)[0] for a, b in pairwise(edges)]
    table = np.concatenate([[0.0], np.cumsum(steps)])

    def cdf(w):  # of |w|, up to 3
        return 2 * np.interp(w, edges, table)

    inside = np.abs(drawn)[np.abs(drawn) <= 3]
    # Kolmogorov: P(sqrt(n) D > 3.3) < 1e-9; conditional on |w| <= 3, the distribution has the truncated density.
    assert stats.kstest(inside, lambda w: cdf(w) / cdf(3.0)).statistic * np.sqrt(len(inside)) < 3.3
    other = Chi2() if kernel != Chi2() else JensenShannon()
    wrong = np.abs(other.frequencies(40_000, np.random.default_rng(seed)))
    wrong = wrong[wrong <= 3]
    assert stats.kstest(wrong, lambda w: cdf(w) / cdf(3.0)).statistic * np.sqrt(len(wrong)) > 3.3


def test_summands_are_weighted_kernels():
    kernel = 1 + 2.0 * (Chi2() + 3.0 * Intersection()) + Chi2()
    assert kernel.summands() == ((1.0, None), (2.0, Chi2()), (6.0, Intersection()), (1.0, Chi2()))
    product = Chi2() * Min()
    assert product.summands() == ((1.0, product),)


@dataclass(frozen=True)
class TwoFormulas(HomogeneousKernel):
    """A homogeneous kernel by its two formulas, without draws from its density."""

    source: HomogeneousKernel

    def coordinate(self, x, y):
        return self.source.coordinate(x, y)

    def spectral_density(self, frequencies):
        return self.source.spectral_density(frequencies)


@pytest.mark.parametrize("kernel", HOMOGENEOUS, ids=repr)
def test_draws_by_numerical_inversion_have_the_density(kernel):
    drawn = TwoFormulas(kernel).frequencies(40_000, np.random.default_rng(0))
    exact = kernel.frequencies(40_000, np.random.default_rng(1))
    # Kolmogorov and Smirnov: for two samples of n, P(sqrt(n / 2) D > 3.3) < 1e-9.
    assert stats.ks_2samp(drawn, exact).statistic * np.sqrt(20_000) < 3.3
    assert stats.ks_2samp(1.2 * drawn, exact).statistic * np.sqrt(20_000) > 3.3
    np.testing.assert_array_equal(TwoFormulas(kernel)([[0.3, 0.0]], [[0.7, 0.3]]), kernel([[0.3, 0.0]], [[0.7, 0.3]]))


@dataclass(frozen=True)
class Pairs(ThresholdKernel):
    """Minima of neighboring features, multiplied and added up."""

    def boxes(self, d):
        return tuple((i, i + 1) for i in range(d - 1))


def test_values_of_minima_follow_from_the_boxes():
    X, Y = histograms(0, d=4), histograms(1, n=11, d=4)
    minima = np.minimum(X[:, None], Y)
    np.testing.assert_allclose(Pairs()(X, Y), (minima[..., 1:] * minima[..., :-1]).sum(axis=2), rtol=1e-12)
    np.testing.assert_allclose(Pairs().diag(X), (X[:, 1:] * X[:, :-1]).sum(axis=1), rtol=1e-12)
