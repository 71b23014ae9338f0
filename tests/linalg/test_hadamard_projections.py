"""Compiled sign-Hadamard products against the NumPy kernels and SciPy, row by row, and fused with cosines and sines."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import hadamard

from mercer.linalg import numpy_kernels

SEEDS = st.integers(0, 2**32 - 1)
PAIR_ERROR = {np.dtype(np.float32): 2e-7, np.dtype(np.float64): 4e-16}


@st.composite
def problems(draw, max_bits=11):
    """Draw rows, signs and a number of projections, of matching sizes."""
    width = 2 ** draw(st.integers(0, max_bits))
    n = draw(st.sampled_from([0, 1, 2, 15, 16, 17]) | st.integers(0, 40))
    d = draw(st.sampled_from([width, width // 2 + 1, 0]) | st.integers(0, width))
    blocks = draw(st.integers(1, max(2, min(5, 2048 // width))))
    repeats = draw(st.integers(1, 5))
    m = (blocks - 1) * width + draw(st.sampled_from([1, width]) | st.integers(1, width))
    rng = np.random.default_rng(draw(SEEDS))
    X = rng.normal(size=(n, d))
    signs = rng.choice([-1.0, 1.0], (blocks, repeats, width))
    return X, signs, m


def rounding(X, signs):
    """Bound the rounding error of one result: a multiple of eps per addition."""
    repeats, width = signs.shape[1:]
    norms = np.sqrt((X.astype(float) ** 2).sum(axis=1, keepdims=True))
    return 2 * repeats * (np.log2(width) + 2) * np.finfo(X.dtype).eps * norms


def project(kernels, X, signs, m):
    out = np.full((len(X), m), np.nan, X.dtype)
    kernels.sign_hadamard(X, signs, out)
    return out


@pytest.mark.slow
def test_matrix_is_the_product_of_signs_and_scipys_hadamard(kernels, dtype):
    rng = np.random.default_rng(1)
    for width in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048):
        signs = rng.choice([-1.0, 1.0], (1, 3, width)).astype(dtype)
        matrix = project(kernels, np.eye(width, dtype=dtype), signs, width).T
        expected = np.eye(width)
        for s in signs[0].astype(float):
            expected = (hadamard(width) / np.sqrt(width)) @ (s[:, None] * expected)
        tolerance = 20 * np.finfo(dtype).eps
        np.testing.assert_allclose(matrix, expected, rtol=0, atol=tolerance)
        wide = matrix.astype(float)
        np.testing.assert_allclose(wide @ wide.T, np.eye(width), rtol=0, atol=width * tolerance)


@settings(deadline=None)
@given(data=st.data(), problem=problems())
def test_projections_match_the_numpy_kernels(kernels, dtype, layouts, filled, data, problem):
    X, signs, m = problem
    X, signs = X.astype(dtype), signs.astype(dtype)
    expected = np.empty((len(X), m), dtype)
    numpy_kernels.sign_hadamard(X, signs, expected)
    tolerance = rounding(X, signs)
    X = data.draw(layouts, label="layout of X").holding(X)
    layout = data.draw(layouts, label="layout of out")
    found = filled(lambda out: kernels.sign_hadamard(X, signs, out), layout, expected.shape, dtype)
    assert np.all(np.abs(found - expected) <= tolerance)


@settings(deadline=None)
@given(data=st.data(), problem=problems())
def test_pairs_equal_sincos_pairs_of_the_scaled_projections(kernels, dtype, layouts, filled, data, problem):
    X, signs, m = problem
    X, signs = X.astype(dtype), signs.astype(dtype)
    width = data.draw(st.sampled_from([m, 2 * m - 1, 2 * m]) | st.integers(m, 2 * m), label="width")
    # Angles on both sides of the limit of the fast reduction.
    size = data.draw(st.sampled_from([1.0, 1e3, 1e6, 1e9]), label="size of radii")
    radii = np.random.default_rng(m).uniform(0, size, m).astype(dtype)
    unfused = np.empty((len(X), width), dtype)
    kernels.sincos_pairs(project(kernels, X, signs, m) * radii, 0.7, unfused)
    X = data.draw(layouts, label="layout of X").holding(X)
    layout = data.draw(layouts, label="layout of out")
    fused = filled(lambda out: kernels.sign_hadamard_pairs(X, signs, radii, 0.7, out), layout, unfused.shape, dtype)
    np.testing.assert_array_equal(fused, unfused)


@settings(deadline=None)
@given(problem=problems())
def test_pairs_match_the_numpy_kernels(kernels, dtype, problem):
    X, signs, m = problem
    X, signs = X.astype(dtype), signs.astype(dtype)
    radii = np.random.default_rng(m).uniform(0, 3, m).astype(dtype)
    found, expected = np.full((2, len(X), 2 * m), np.nan, dtype)
    kernels.sign_hadamard_pairs(X, signs, radii, 0.7, found)
    numpy_kernels.sign_hadamard_pairs(X, signs, radii, 0.7, expected)
    # A cosine moves by no more than its angle does.
    assert np.all(np.abs(found - expected) <= 3 * rounding(X, signs) + 2 * PAIR_ERROR[dtype])


@settings(deadline=None)
@given(data=st.data(), problem=problems(max_bits=8))
def test_result_of_a_row_does_not_depend_on_the_batch(kernels, dtype, data, problem):
    X, signs, m = problem
    X, signs = X.astype(dtype), signs.astype(dtype)
    if len(X) > 2:
        X[1] = np.inf
    radii = np.random.default_rng(m).uniform(0, 1e5, m).astype(dtype)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(X)), max_size=4), label="cuts"))
    full = project(kernels, X, signs, m)
    pairs = np.empty((len(X), 2 * m), dtype)
    kernels.sign_hadamard_pairs(X, signs, radii, 0.3, pairs)
    for bounds in ([0, *cuts, len(X)], range(len(X) + 1)):
        for start, stop in pairwise(bounds):
            part = X[start:stop]
            np.testing.assert_array_equal(project(kernels, part, signs, m), full[start:stop])
            found = np.empty((len(part), 2 * m), dtype)
            kernels.sign_hadamard_pairs(part, signs, radii, 0.3, found)
            np.testing.assert_array_equal(found, pairs[start:stop])


@settings(deadline=None)
@given(problem=problems())
def test_instruction_sets_agree_exactly(all_kernels, dtype, problem):
    X, signs, m = problem
    X, signs = X.astype(dtype), signs.astype(dtype)
    first, *others = [project(kernels, X, signs, m) for kernels in all_kernels]
    for other in others:
        np.testing.assert_array_equal(other, first)


def test_large_and_small_rows_do_not_overflow_or_underflow(kernels, dtype):
    signs = np.ones((1, 6, 1024), dtype)
    big, small = np.finfo(dtype).max / 2**12, np.finfo(dtype).tiny
    X = np.zeros((2, 1024), dtype)
    X[:, 7] = [big, small]
    # An even number of transforms without sign flips is the identity.
    np.testing.assert_allclose(project(kernels, X, signs, 1024), X, rtol=0, atol=0)


def test_widths_that_take_several_passes(kernels, dtype):
    rng = np.random.default_rng(2)
    for width in (4096, 8192, 2**15, 2**17):
        X = rng.normal(size=(3, width - 1)).astype(dtype)
        signs = rng.choice([-1.0, 1.0], (1, 2, width)).astype(dtype)
        expected = np.empty((3, width), dtype)
        numpy_kernels.sign_hadamard(X, signs, expected)
        assert np.all(np.abs(project(kernels, X, signs, width) - expected) <= rounding(X, signs))


@pytest.mark.parametrize("step", [2, 3])
def test_blocks_and_repeats_of_signs_may_be_strided(kernels, dtype, step):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(5, 30)).astype(dtype)
    signs = rng.choice([-1.0, 1.0], (6, 9, 64)).astype(dtype)[::step, ::step, 32:]
    m = len(signs) * 32
    np.testing.assert_array_equal(project(kernels, X, signs, m), project(kernels, X, signs.copy(), m))
