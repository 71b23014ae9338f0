"""Homogeneous features: agreement with scikit-learn, error bounds, zeros, sparse rows, extreme values."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.kernel_approximation import AdditiveChi2Sampler

from mercer import (
    Chi2,
    DataError,
    Gaussian,
    Hellinger,
    HomogeneousFeatures,
    Intersection,
    JensenShannon,
    KernelRidgeClassifier,
    Min,
    Nystroem,
    ParameterError,
    ThresholdFeatures,
    UnsupportedKernelError,
)
from mercer.maps import maps_for

KERNELS = [Chi2(), JensenShannon(), Intersection(), 1 + 2.0 * Chi2() + 0.5 * JensenShannon()]
DIMENSIONS = (1, 2, 5, 17)
FREQUENCIES = ("grid", "random")

every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=repr)
each_choice = pytest.mark.parametrize("frequencies", FREQUENCIES)


def histograms(seed, n=30, d=5, *, sum_one=False):
    rng = np.random.default_rng(seed)
    X = rng.gamma(0.6, size=(n, d)) * rng.binomial(1, 0.7, size=(n, d))
    X[:, 0] += 0.01
    return X / X.sum(axis=1, keepdims=True) if sum_one else X


@pytest.mark.parametrize("steps", [1, 2, 3, 5])
@pytest.mark.parametrize("interval", [0.3, 0.5, 0.8])
@pytest.mark.parametrize("d", DIMENSIONS)
def test_grid_equals_that_of_scikit_learn(steps, interval, d):
    X, Y = histograms(0, d=d), histograms(1, d=d)
    sampler = AdditiveChi2Sampler(sample_steps=steps, sample_interval=interval).fit(X)
    m = HomogeneousFeatures(Chi2(), d * (2 * steps - 1), step=interval).fit(X)
    np.testing.assert_allclose(m.gram(X, Y), sampler.transform(X) @ sampler.transform(Y).T, rtol=1e-9, atol=1e-12)


def test_grid_of_seven_components_at_one_pair_of_values():
    m = HomogeneousFeatures(Chi2(), 7, step=0.5).fit([[1.0]])
    assert m.gram([[0.3]], [[0.7]])[0, 0] == pytest.approx(0.4242, abs=5e-5)  # the kernel is 0.42


@pytest.mark.parametrize("steps", [2, 3])
def test_auto_step_has_less_error_than_that_of_scikit_learn(steps):
    X = histograms(0, n=200, d=10, sum_one=True)
    exact = Chi2()(X)
    theirs = AdditiveChi2Sampler(sample_steps=steps).fit_transform(X)
    ours = HomogeneousFeatures(Chi2(), theirs.shape[1]).fit(X).gram(X)
    assert np.abs(ours - exact).max() < 0.7 * np.abs(theirs @ theirs.T - exact).max()
    assert np.linalg.norm(ours - exact) < 0.7 * np.linalg.norm(theirs @ theirs.T - exact)


@every_kernel
@given(seed=st.integers(0, 2**32), d=st.sampled_from(DIMENSIONS), width=st.integers(1, 9), sum_one=st.booleans())
def test_error_bound_holds(kernel, seed, d, width, sum_one):
    X = histograms(seed, d=d, sum_one=sum_one)
    m = HomogeneousFeatures(kernel, d * width + 1).fit(X)
    larger = np.maximum(X[:, None], X).sum(axis=2)
    # The bound is the largest error on a grid of lags; a thousandth is allowed for lags between.
    assert (np.abs(m.gram(X) - kernel(X)) <= 1.001 * m.error_bound_ * larger + 1e-12).all()


def test_error_bound_is_attained_and_decreases_with_the_number_of_components():
    lags = np.linspace(0, 20, 4000)[:, None]
    bounds = []
    for width in (1, 3, 5, 7, 9):
        m = HomogeneousFeatures(Chi2(), width).fit([[1.0]])
        error = np.abs(m.gram(np.exp(-lags), [[1.0]]) - Chi2()(np.exp(-lags), [[1.0]])).max()
        assert error == pytest.approx(m.error_bound_, rel=1e-3)
        bounds.append(m.error_bound_)
    assert np.all(np.diff(bounds) < 0)
    np.testing.assert_allclose(bounds[:4], [0.106, 0.0314, 0.0125, 0.00578], rtol=0.01)  # the values in the docstring


@every_kernel
def test_many_random_frequencies_are_close_to_the_kernel(kernel):
    X = histograms(0)
    m = HomogeneousFeatures(kernel, 40_001, frequencies="random", random_state=0).fit(X)
    error = m.gram(X) - kernel(X)
    assert (np.abs(error) <= 6 * np.sqrt(m.variance(X)) + 1e-9).all()
    np.testing.assert_allclose(np.diagonal(error), 0.0, atol=1e-3 * kernel.diag(X).max())  # pairs are exact there


@each_choice
@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("n", [2, 3, 6, 18])
@every_kernel
def test_any_number_of_components_and_features(kernel, frequencies, d, n):
    X = histograms(0, d=d)
    m = HomogeneousFeatures(kernel, n, frequencies=frequencies, random_state=0).fit(X)
    Z = m.transform(X)
    assert Z.shape == (30, n)
    assert np.isfinite(Z).all()
    assert (m.variance(X) >= 0).all()
    constant = kernel.summands()[0][0] if kernel.summands()[0][1] is None else 0.0
    if frequencies == "random":
        assert m.unbiased is True
        assert m.error_bound_ is None
    else:
        assert "not random" in m.unbiased
        assert (m.error_bound_ is None) == (n - (constant > 0) < d)


def test_single_component_with_a_constant_raises():
    assert HomogeneousFeatures(Chi2(), 1).fit(histograms(0)).transform(histograms(0)).shape == (30, 1)
    with pytest.raises(ParameterError, match=r"n_components must be at least 2 for 1.0 \+ Chi2"):
        HomogeneousFeatures(1 + Chi2(), 1).fit(histograms(0))


@each_choice
@every_kernel
def test_rows_of_zeros_and_constants_are_exact(kernel, frequencies):
    m = HomogeneousFeatures(kernel, 40, frequencies=frequencies, random_state=0).fit(histograms(0))
    zero = np.zeros((1, 5))
    np.testing.assert_array_equal(m.gram(zero, histograms(0)), kernel(zero, histograms(0)))
    np.testing.assert_array_equal(m.transform(sp.csr_array(zero)), m.transform(zero))
    np.testing.assert_array_equal(m.variance(zero), 0.0)


@each_choice
@given(seed=st.integers(0, 2**32), d=st.sampled_from(DIMENSIONS), n=st.integers(2, 60), kernel=st.sampled_from(KERNELS))
def test_sparse_and_float32_rows_have_the_features_of_dense_rows(frequencies, seed, d, n, kernel):
    X = histograms(seed, d=d)
    m = HomogeneousFeatures(kernel, n, frequencies=frequencies, random_state=seed).fit(X)
    Z = m.transform(X)
    for kind in (sp.csr_array, sp.csr_matrix, sp.csc_array):
        np.testing.assert_allclose(m.transform(kind(X)), Z, rtol=0, atol=1e-11 * np.abs(Z).max())
    stored_zeros = sp.csr_array(X)
    stored_zeros.data[::3] = 0.0
    np.testing.assert_allclose(m.transform(stored_zeros), m.transform(stored_zeros.toarray()), rtol=0, atol=1e-11)
    Z32 = m.transform(X.astype(np.float32))
    assert Z32.dtype == np.float32
    # The error of an angle is that of the logarithm times the frequency, which has a heavy tail for Intersection.
    highest = np.abs(m.features_.frequencies).max()
    np.testing.assert_allclose(Z32, Z, rtol=0, atol=2e-6 * (10 + highest) * np.abs(Z).max())


@each_choice
@pytest.mark.parametrize("scale", [1e-290, 1e-30, 1e30, 1e290])
def test_tiny_and_huge_values_are_homogeneous(frequencies, scale):
    # Scaling the rows shifts all angles of a frequency equally, and inner products depend only on differences.
    X = histograms(0)
    m = HomogeneousFeatures(Chi2(), 35, frequencies=frequencies, random_state=0).fit(X)
    if frequencies == "grid":
        assert np.allclose(m.gram(scale * X) / scale, m.gram(X), rtol=1e-9, atol=1e-9)
    else:  # an odd number has a cosine with a random phase, which is not homogeneous
        even = HomogeneousFeatures(Chi2(), 34, frequencies="random", random_state=0).fit(X)
        assert np.allclose(even.gram(scale * X) / scale, even.gram(X), rtol=1e-9, atol=1e-9)


def test_left_over_component_of_a_grid_is_zero():
    X = histograms(0, d=5)
    for n in (6, 8, 16):  # after one for each feature, an odd number is left
        Z = HomogeneousFeatures(Chi2(), n).fit_transform(X)
        assert (np.abs(Z).max(axis=0) == 0).sum() == 1


@pytest.mark.parametrize("step", [0, -1.0, np.nan, np.inf, True, "best", None])
def test_invalid_steps_raise(step):
    with pytest.raises(ParameterError, match="step must be 'auto' or a finite number > 0, got"):
        HomogeneousFeatures(step=step).fit(histograms(0))


def test_invalid_choices_negative_rows_and_other_kernels_raise():
    X = histograms(0)
    with pytest.raises(ParameterError, match="frequencies must be one of 'grid', 'random', got 'sobol'"):
        HomogeneousFeatures(frequencies="sobol").fit(X)
    wrong = X.copy()
    wrong[-1, 2] = -0.25
    m = HomogeneousFeatures(n_components=9).fit(X)
    for call in (HomogeneousFeatures().fit, m.transform, m.gram):
        for kind in (np.asarray, sp.csr_array):
            with pytest.raises(DataError, match=r"HomogeneousFeatures: rows must be >= 0, .* got -0.25"):
                call(kind(wrong))
    for kernel in (Gaussian(), Min(), Hellinger(), Chi2() * Chi2()):
        with pytest.raises(UnsupportedKernelError, match="needs: a homogeneous kernel") as error:
            HomogeneousFeatures(kernel).fit(X)
        assert kernel.structure in str(error.value)
    assert set(maps_for(Intersection())) == {HomogeneousFeatures, ThresholdFeatures, Nystroem}
    assert set(maps_for(1 + Chi2())) == {HomogeneousFeatures, Nystroem}


def test_ridge_classifier_with_the_chi_squared_kernel_separates_histograms():
    rng = np.random.default_rng(0)
    centers = rng.dirichlet(np.full(20, 0.5), size=3)
    y = rng.integers(0, 3, 400)
    X = np.array([rng.multinomial(60, centers[label]) / 60 for label in y])
    model = KernelRidgeClassifier(HomogeneousFeatures(Chi2(), 60), alpha=1e-2)
    assert model.fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.95
