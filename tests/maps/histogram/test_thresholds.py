"""Threshold features: error bounds, upper ends, numbers of components, constants, and invalid parameters."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from mercer import (
    Chi2,
    DataError,
    Gaussian,
    Intersection,
    KernelRidge,
    Min,
    Nystroem,
    ParameterError,
    ThresholdFeatures,
    Transformed,
    UnsupportedKernelError,
    audit,
)
from mercer.maps import maps_for

THRESHOLDS = ("jittered", "random", "stratified")
DIMENSIONS = (1, 2, 5, 17)

each_choice = pytest.mark.parametrize("thresholds", THRESHOLDS)


def histograms(seed, n=30, d=5, *, sum_one=False):
    rng = np.random.default_rng(seed)
    X = rng.gamma(0.6, size=(n, d)) * rng.binomial(1, 0.7, size=(n, d))
    X[:, 0] += 0.01
    return X / X.sum(axis=1, keepdims=True) if sum_one else X


@given(
    seed=st.integers(0, 2**32),
    d=st.sampled_from(DIMENSIONS),
    spare=st.integers(0, 60),
    weight=st.sampled_from([1.0, 0.3, 5.0]),
    sum_one=st.booleans(),
)
def test_error_bound_of_mid_points_holds(seed, d, spare, weight, sum_one):
    X, kernel = histograms(seed, d=d, sum_one=sum_one), 0.5 + weight * Intersection()
    m = ThresholdFeatures(kernel, d + 1 + spare, thresholds="stratified").fit(X)
    error = np.abs(m.gram(X) - kernel(X))
    assert error.max() <= m.error_bound_ * (1 + 1e-9) + 1e-12
    # The bound is at most that of equal numbers of thresholds.
    if (m.upper_ > 0).all():
        assert m.error_bound_ <= weight * m.upper_.sum() / (2 * ((d + spare) // d)) * (1 + 1e-9)


def test_error_bound_of_mid_points_is_half_a_step_and_is_attained():
    T, n = 3.0, 12
    m = ThresholdFeatures(Min(), n, thresholds="stratified", upper=T).fit([[0.0]])
    assert m.error_bound_ == pytest.approx(T / (2 * n))
    X = np.linspace(0, T, 1000)[:, None]
    error = np.abs(m.gram(X) - Min()(X)).max()
    assert 0.98 * m.error_bound_ < error <= m.error_bound_ * (1 + 1e-12)
    assert f"at most {m.error_bound_:.3g}" in m.unbiased


def test_numbers_of_mid_points_minimize_the_error_bound():
    # For 6 thresholds on lengths 1 and 9, 2 and 4 is best: 1/4 + 9/8.
    m = ThresholdFeatures(Intersection(), 6, thresholds="stratified", upper=(1.0, 9.0)).fit(np.zeros((1, 2)))
    bounds = [1 / (2 * n) + 9 / (2 * (6 - n)) for n in range(1, 6)]
    assert m.error_bound_ == pytest.approx(min(bounds))


@each_choice
def test_values_above_one_do_not_saturate(thresholds):
    # Thresholds on [0, 1] would give 1 + 1.0 instead of 1 + 1.5.
    kernel = 1 + Min()
    X = np.array([[1.5], [2.0], [0.25]])
    m = ThresholdFeatures(kernel, 40_001, thresholds=thresholds, random_state=0).fit(X)
    # Six standard deviations of 40 000 independent thresholds on [0, 2].
    np.testing.assert_allclose(m.gram(X), kernel(X), atol=6 * np.sqrt(1 / 40_000))


@each_choice
def test_values_above_the_upper_end_raise(thresholds):
    X = histograms(0, d=2)
    m = ThresholdFeatures(Intersection(), 20, thresholds=thresholds, random_state=0).fit(X)
    beyond = X.copy()
    beyond[3, 1] = X[:, 1].max() + 0.5
    text = rf"values of feature 1 must be at most {X[:, 1].max():.6g}, the upper end .*, got {beyond[3, 1]:.6g}"
    for wrong in (beyond, sp.csr_array(beyond), beyond.astype(np.float32)):
        for call in (m.transform, m.gram, m.variance):
            with pytest.raises(DataError, match=text + ".*Set upper="):
                call(wrong)
    with pytest.raises(DataError, match=r"feature 0 must be at most 0.5"):
        ThresholdFeatures(upper=0.5).fit(X[:1]).transform(np.full((1, 2), 0.6))


def test_features_that_were_zero_in_fit_raise_for_other_values():
    X = np.array([[1.0, 0.0], [2.0, 0.0]])
    m = ThresholdFeatures(Intersection(), 8, random_state=0).fit(X)
    assert m.transform(X).shape == (2, 8)
    with pytest.raises(DataError, match=r"feature 1 must be at most 0, the upper end of its thresholds, got 0.1"):
        m.transform([[1.0, 0.1]])


@pytest.mark.parametrize(("dtype", "other"), [(np.float32, np.float64), (np.float64, np.float32)])
def test_rows_of_fit_are_within_the_upper_ends_in_either_dtype(dtype, other):
    X = histograms(0, n=500)
    m = ThresholdFeatures(Intersection(), 8).fit(X.astype(dtype))
    assert np.isfinite(m.transform(X.astype(other))).all()
    assert np.isfinite(m.transform(X.astype(dtype).astype(other))).all()


def test_upper_ends_are_the_largest_values_of_all_rows():
    X = np.zeros((5000, 1))
    X[4321] = 7.0
    m = ThresholdFeatures(Min(), 10).fit(X)
    np.testing.assert_array_equal(m.upper_, [7.0])
    model = KernelRidge(ThresholdFeatures(Min(), 10)).fit(X, X[:, 0])
    np.testing.assert_array_equal(model.feature_map_.upper_, [7.0])


@pytest.mark.parametrize("thresholds", ["jittered", "random"])
@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("n", [1, 2, 7])
def test_any_number_of_components_and_features(thresholds, d, n):
    X = histograms(0, d=d)
    for kernel in (Intersection(), Min(), 2 + 0.5 * Intersection() + Min()):
        m = ThresholdFeatures(kernel, n, thresholds=thresholds, random_state=0).fit(X)
        assert m.transform(X).shape == (30, n)
        assert m.unbiased is True
        assert m.error_bound_ is None
        assert (m.variance(X) >= 0).all()


def test_mid_points_need_a_component_per_feature_and_minima_of_single_features():
    X = histograms(0, d=5)
    with pytest.raises(
        ParameterError, match=r"needs a component for each of the 5 features .* got n_components=4. Try .*jitt"
    ):
        ThresholdFeatures(Intersection(), 4, thresholds="stratified").fit(X)
    with pytest.raises(UnsupportedKernelError, match=r"minima of single features\n.*products of minima over several"):
        ThresholdFeatures(Min(), 40, thresholds="stratified").fit(X)
    ThresholdFeatures(Min(), 40, thresholds="stratified").fit(X[:, :1])


def test_constant_is_one_exact_component():
    X = histograms(0)
    for thresholds in THRESHOLDS:
        m = ThresholdFeatures(4 + Intersection(), 30, thresholds=thresholds).fit(X)
        np.testing.assert_array_equal(m.transform(X)[:, 0], 2.0)
        np.testing.assert_array_equal(m.gram(np.zeros((1, 5))), [[4.0]])
    alone = ThresholdFeatures(4 + Intersection(), 1).fit(np.zeros((2, 3)))
    np.testing.assert_array_equal(alone.transform(np.zeros((2, 3))), 2.0)


@each_choice
def test_rows_of_zeros_have_zero_features(thresholds):
    X = np.zeros((4, 3))
    m = ThresholdFeatures(Intersection(), 5, thresholds=thresholds).fit(X)
    np.testing.assert_array_equal(m.transform(X), 0.0)
    np.testing.assert_array_equal(m.variance(X), 0.0)
    other = ThresholdFeatures(Intersection(), 50, thresholds=thresholds, random_state=0).fit(histograms(0, d=3))
    np.testing.assert_array_equal(other.transform(X), 0.0)
    np.testing.assert_array_equal(other.transform(sp.csr_array(X)), 0.0)


@pytest.mark.parametrize("scale", [1e-310, 1e-300, 1e-30, 1e30, 1e300])
def test_tiny_and_huge_values_are_homogeneous(scale):
    X = histograms(0)
    near, far = (ThresholdFeatures(Intersection(), 64, random_state=0).fit(s * X) for s in (1.0, scale))
    if scale > 1e-308:  # below, values are subnormal and have few digits
        np.testing.assert_allclose(far.gram(scale * X) / scale, near.gram(X), rtol=1e-9)
    assert np.isfinite(far.transform(scale * X)).all()


@pytest.mark.parametrize("upper", [0, -1.0, np.nan, np.inf, "auto", True, (1.0, 2.0), (1.0, 0.0, 1.0), [[1.0]]])
def test_invalid_upper_ends_raise(upper):
    with pytest.raises(
        ParameterError, match="upper must be None, a finite number > 0, or 3 of them, one per feature, got"
    ):
        ThresholdFeatures(upper=upper).fit(np.ones((2, 3)))


def test_invalid_choices_negative_rows_and_other_kernels_raise():
    X = histograms(0, d=3)
    with pytest.raises(
        ParameterError, match="thresholds must be one of 'jittered', 'random', 'stratified', got 'sobol'"
    ):
        ThresholdFeatures(thresholds="sobol").fit(X)
    with pytest.raises(DataError, match=r"ThresholdFeatures: rows must be >= 0, .* got -1"):
        ThresholdFeatures().fit(X - 1.0 * (np.arange(30) == 29)[:, None] - X * (np.arange(30) == 29)[:, None])
    m = ThresholdFeatures().fit(X)
    with pytest.raises(DataError, match=r"ThresholdFeatures: rows must be >= 0"):
        m.transform(-X)
    for kernel in (Gaussian(), Chi2(), Intersection() * Min(), Transformed(Min(), columns=(0,))):
        with pytest.raises(UnsupportedKernelError, match="needs: a kernel of minima") as error:
            ThresholdFeatures(kernel).fit(X)
        assert kernel.structure in str(error.value)
    assert set(maps_for(Min())) == {ThresholdFeatures, Nystroem}


def test_error_of_jittered_thresholds_is_a_fraction_of_that_of_random_ones():
    X = histograms(0, n=60, d=3, sum_one=True)
    errors = {}
    for thresholds in THRESHOLDS:
        m = ThresholdFeatures(Intersection(), 600, thresholds=thresholds, upper=1.0, random_state=0).fit(X)
        errors[thresholds] = audit(m, X)
    # The closed forms give 0.041 and 0.0030. Errors of independent thresholds are correlated over pairs of rows, and
    # the error of a single draw may be half of this.
    assert errors["random"].predicted_rmse == pytest.approx(0.041, rel=0.05)
    assert errors["jittered"].predicted_rmse == pytest.approx(0.0030, rel=0.05)
    assert errors["jittered"].rmse == pytest.approx(0.0030, rel=0.3)
    assert errors["jittered"].rmse < 0.2 * errors["random"].rmse
    assert errors["stratified"].predicted_rmse is None


def test_ridge_on_threshold_features_learns_steps():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 3, size=(400, 2))
    y = (X[:, 0] > 1).astype(float) - 2.0 * (X[:, 1] > 2)
    model = KernelRidge(ThresholdFeatures(1 + Intersection(), 200, upper=3.0, random_state=0), alpha=1e-3)
    assert model.fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.95
