"""Compiled dense products against the NumPy kernels and exact sums, row by row, and fused with cosines and sines."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mercer.linalg import numpy_kernels

SEEDS = st.integers(0, 2**32 - 1)
PAIR_ERROR = {np.dtype(np.float32): 2e-7, np.dtype(np.float64): 4e-16}


@st.composite
def problems(draw):
    """Draw rows and weights of matching sizes; sizes on both sides of the groups and panels of the kernels."""
    n = draw(st.sampled_from([0, 1, 5, 6, 7, 24, 25]) | st.integers(0, 60))
    d = draw(st.sampled_from([0, 1, 2]) | st.integers(0, 90))
    m = draw(st.sampled_from([1, 63, 64, 65, 128]) | st.integers(1, 200))
    rng = np.random.default_rng(draw(SEEDS))
    return rng.normal(size=(n, d)), rng.normal(size=(d, m))


def as_dtype(problem, dtype):
    return tuple(array.astype(dtype) for array in problem)


def rounding(X, weights):
    """Bound the rounding error of each product."""
    terms = np.abs(X.astype(float)) @ np.abs(weights.astype(float))
    return (len(weights) + 1) * np.finfo(X.dtype).eps * terms


def multiply(kernels, X, weights):
    out = np.full((len(X), weights.shape[1]), np.nan, X.dtype)
    kernels.dense(X, weights, out)
    return out


@settings(deadline=None)
@given(data=st.data(), problem=problems())
def test_products_match_the_numpy_kernels(kernels, dtype, layouts, filled, data, problem):
    X, weights = as_dtype(problem, dtype)
    expected = np.empty((len(X), weights.shape[1]), dtype)
    numpy_kernels.dense(X, weights, expected)
    tolerance = 2 * rounding(X, weights)
    X = data.draw(layouts, label="layout of X").holding(X)
    weights = data.draw(layouts, label="layout of weights").holding(weights)
    layout = data.draw(layouts, label="layout of out")
    found = filled(lambda out: kernels.dense(X, weights, out), layout, expected.shape, dtype)
    assert np.all(np.abs(found - expected) <= tolerance)


def test_products_of_integers_are_exact(kernels, dtype):
    rng = np.random.default_rng(0)
    X, weights = rng.integers(-50, 50, (31, 70)), rng.integers(-50, 50, (70, 150))
    found = multiply(kernels, X.astype(dtype), weights.astype(dtype))
    np.testing.assert_array_equal(found, X @ weights)


def test_products_are_summed_in_the_order_of_the_columns(kernels, dtype):
    big = dtype.type(2 / np.finfo(dtype).eps)  # adding one to it is lost to rounding
    X = np.array([[big, 1, -big], [big, -big, 1]], dtype)
    np.testing.assert_array_equal(multiply(kernels, X, np.ones((3, 5), dtype)), [[0] * 5, [1] * 5])


def test_products_are_within_the_rounding_bound_of_exact_ones(kernels, dtype):
    rng = np.random.default_rng(1)
    X, weights = rng.normal(size=(3, 40)).astype(dtype), rng.normal(size=(40, 5)).astype(dtype)
    found, bound = multiply(kernels, X, weights), rounding(X, weights)
    for i, j in np.ndindex(found.shape):
        exact = sum(Fraction(float(a)) * Fraction(float(b)) for a, b in zip(X[i], weights[:, j], strict=True))
        assert abs(Fraction(float(found[i, j])) - exact) <= bound[i, j]


@settings(deadline=None)
@given(data=st.data(), problem=problems())
def test_pairs_equal_sincos_pairs_of_the_products(kernels, dtype, layouts, filled, data, problem):
    X, weights = as_dtype(problem, dtype)
    weights = weights * dtype.type(data.draw(st.sampled_from([1.0, 1e4, 1e9]), label="size of weights"))
    m = weights.shape[1]
    width = data.draw(st.sampled_from([m, 2 * m - 1, 2 * m]) | st.integers(m, 2 * m), label="width")
    unfused = np.empty((len(X), width), dtype)
    kernels.sincos_pairs(multiply(kernels, X, weights), 0.7, unfused)
    layout = data.draw(layouts, label="layout of out")
    fused = filled(lambda out: kernels.dense_pairs(X, weights, 0.7, out), layout, unfused.shape, dtype)
    np.testing.assert_array_equal(fused, unfused)


@settings(deadline=None)
@given(data=st.data(), problem=problems())
def test_cosines_equal_cosines_of_the_products(kernels, dtype, layouts, filled, data, problem):
    X, weights = as_dtype(problem, dtype)
    phases = np.random.default_rng(0).uniform(0, 7, weights.shape[1]).astype(dtype)
    unfused = multiply(kernels, X, weights)
    kernels.cosines(unfused, phases, 0.7, unfused)
    layout = data.draw(layouts, label="layout of out")
    fused = filled(lambda out: kernels.dense_cosines(X, weights, phases, 0.7, out), layout, unfused.shape, dtype)
    np.testing.assert_array_equal(fused, unfused)


@settings(deadline=None)
@given(problem=problems())
def test_pairs_and_cosines_match_the_numpy_kernels(kernels, dtype, problem):
    X, weights = as_dtype(problem, dtype)
    n, m = len(X), weights.shape[1]
    phases = np.random.default_rng(0).uniform(0, 7, m).astype(dtype)
    # A cosine moves by no more than its angle does; adding a phase rounds once more.
    tolerance = 2 * rounding(X, weights) + 2 * PAIR_ERROR[dtype]
    found, expected = np.full((2, n, 2 * m), np.nan, dtype)
    kernels.dense_pairs(X, weights, 0.7, found)
    numpy_kernels.dense_pairs(X, weights, 0.7, expected)
    assert np.all(np.abs(found - expected) <= np.tile(tolerance, 2))
    found, expected = np.full((2, n, m), np.nan, dtype)
    kernels.dense_cosines(X, weights, phases, 0.7, found)
    numpy_kernels.dense_cosines(X, weights, phases, 0.7, expected)
    largest = np.abs(X.astype(float) @ weights) + phases
    assert np.all(np.abs(found - expected) <= tolerance + np.finfo(dtype).eps * largest)


@settings(deadline=None)
@given(data=st.data(), problem=problems())
def test_result_of_a_row_does_not_depend_on_the_batch(kernels, dtype, data, problem):
    X, weights = as_dtype(problem, dtype)
    if len(X) > 2:
        X[1] = np.inf
    cuts = sorted(data.draw(st.lists(st.integers(0, len(X)), max_size=4), label="cuts"))
    full = multiply(kernels, X, weights)
    for bounds in ([0, *cuts, len(X)], range(len(X) + 1)):
        for start, stop in pairwise(bounds):
            np.testing.assert_array_equal(multiply(kernels, X[start:stop], weights), full[start:stop])


@settings(deadline=None)
@given(problem=problems())
def test_result_of_a_column_does_not_depend_on_its_position(kernels, dtype, problem):
    X, weights = as_dtype(problem, dtype)
    backwards = multiply(kernels, X, np.ascontiguousarray(weights[:, ::-1]))
    np.testing.assert_array_equal(backwards[:, ::-1], multiply(kernels, X, weights))


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_infinite_values_and_nan_affect_only_their_row(kernels, dtype, bad):
    rng = np.random.default_rng(7)
    X, weights = rng.normal(size=(20, 9)).astype(dtype), rng.normal(size=(9, 70)).astype(dtype)
    good = multiply(kernels, X, weights)
    X[3, 5] = bad
    found = multiply(kernels, X, weights)
    np.testing.assert_array_equal(found[3], bad * weights[5])
    others = np.arange(20) != 3
    np.testing.assert_array_equal(found[others], good[others])
