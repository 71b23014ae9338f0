"""The contract of drawn features."""

import numpy as np
import pytest

from mercer import DataError, Gaussian, Polynomial, RandomFourier, TensorSketch
from mercer.features import Features, check_finite, features_of, rows_to_features


class Doubled(Features):
    n_components = 3

    def astype(self, dtype):
        return self

    def __call__(self, X, out):
        out[:] = 2 * X


def test_a_subclass_needs_a_width_a_cast_and_a_call_only():
    features = Doubled()
    assert (features.signs, features.is_complex, features.lengthscales) == (None, False, None)
    X = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(features_of(features, X), 2 * X)
    with pytest.raises(TypeError, match="abstract"):
        Features()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_features_have_the_precision_of_the_rows(dtype):
    X = np.random.default_rng(0).normal(size=(4, 2)).astype(dtype)
    real, complex_ = (RandomFourier(Gaussian(), 6, form=form).fit(X).features_ for form in ("pairs", "complex"))
    assert rows_to_features(real, X).dtype == real.output_dtype(dtype) == dtype
    assert rows_to_features(complex_, X).dtype == complex_.output_dtype(dtype) == np.result_type(dtype, np.complex64)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_features_are_those_of_the_map_in_the_dtype_of_the_rows(dtype):
    X = np.random.default_rng(0).normal(size=(20, 3)).astype(dtype)
    feature_map = TensorSketch(Polynomial(2), 16, random_state=0).fit(X)
    Z = rows_to_features(feature_map.features_, X)
    assert Z.dtype == dtype
    assert np.array_equal(Z, feature_map.transform(X))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_features_that_overflow_are_refused(dtype):
    large = np.full((3, 2), np.finfo(dtype).max, dtype)
    check_finite("Map", np.ones((3, 2), dtype))
    check_finite("Map", large)  # the sum is infinite, the features are not
    for bad in (np.inf, -np.inf, np.nan):
        large[1, 1] = bad
        with pytest.raises(DataError, match=f"Map: features overflow {np.dtype(dtype).name}. Scale the rows down"):
            check_finite("Map", large)
