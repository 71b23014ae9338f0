"""Drawn threshold features: sparse rows, dtypes, and overflow."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from mercer import DataError, Intersection, Min, ThresholdFeatures

THRESHOLDS = ("jittered", "random", "stratified")
DIMENSIONS = (1, 2, 5, 17)


def histograms(seed, n=30, d=5):
    rng = np.random.default_rng(seed)
    X = rng.gamma(0.6, size=(n, d)) * rng.binomial(1, 0.7, size=(n, d))
    X[:, 0] += 0.01
    return X


@pytest.mark.parametrize("thresholds", THRESHOLDS)
@given(seed=st.integers(0, 2**32), d=st.sampled_from(DIMENSIONS), dtype=st.sampled_from([np.float32, np.float64]))
def test_sparse_rows_have_exactly_the_features_of_dense_rows(thresholds, seed, d, dtype):
    X = histograms(seed, d=d).astype(dtype)
    kernel = 1 + Intersection() + (0 if thresholds == "stratified" else Min())
    m = ThresholdFeatures(kernel, 3 * d + 4, thresholds=thresholds, random_state=seed).fit(X)
    Z = m.transform(X)
    assert Z.dtype == dtype
    for kind in (sp.csr_array, sp.csr_matrix, sp.csc_array):
        np.testing.assert_array_equal(m.transform(kind(X)), Z)
        again = ThresholdFeatures(kernel, 3 * d + 4, thresholds=thresholds, random_state=seed).fit(kind(X))
        np.testing.assert_array_equal(again.transform(X), Z)


def test_overflow_raises():
    with pytest.raises(DataError, match=r"Min\(\) overflows at values up to 1e\+200. Scale the rows down"):
        ThresholdFeatures(Min(), 8, upper=1e200).fit(np.ones((2, 3)))
    m = ThresholdFeatures(Intersection(), 8, upper=1e200).fit(np.zeros((2, 3)))
    with pytest.raises(DataError, match=r"overflow float32. Pass float64"):
        m.transform(np.zeros((2, 3), dtype=np.float32))
