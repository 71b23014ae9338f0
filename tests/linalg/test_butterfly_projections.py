"""Butterfly matrices: the plan against the published recursion, the compiled products against the NumPy kernels."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import block_diag, hadamard

from mercer.linalg import ButterflyPlan, butterfly_plan, numpy_kernels

SEEDS = st.integers(0, 2**32 - 1)
PAIR_ERROR = {np.dtype(np.float32): 2e-7, np.dtype(np.float64): 4e-16}


def random_rotations(rng, blocks, width):
    """Return the cosines and sines of all nodes; about one in six is a multiple of a right angle."""
    sizes = [width >> (level + 1) for level in range(width.bit_length() - 1)] or [0]
    angles = [rng.uniform(0, 2 * np.pi, (blocks, size)) for size in sizes]
    right = [rng.integers(0, 24, (blocks, size)) for size in sizes]
    exact = [np.where(k < 4, np.round(np.cos(k * np.pi / 2)), np.cos(a)) for k, a in zip(right, angles, strict=True)]
    sines = [np.where(k < 4, np.round(np.sin(k * np.pi / 2)), np.sin(a)) for k, a in zip(right, angles, strict=True)]
    return exact, sines


def dense(cosines, sines, block):
    """Return the matrix B by its definition, diag(B, B^) R from the smallest up."""
    matrices = [np.eye(1) for _ in range(max(1, 2 * cosines[0].shape[1]))]
    for level, (c, s) in enumerate(zip(cosines, sines, strict=True)):
        eye = np.eye(1 << level)
        matrices = [
            block_diag(matrices[2 * k], matrices[2 * k + 1])
            @ np.block([[c[block, k] * eye, -s[block, k] * eye], [s[block, k] * eye, c[block, k] * eye]])
            for k in range(c.shape[1])
        ] or matrices
    [matrix] = matrices
    return matrix


def project(kernels, X, signs, plan, m):
    out = np.full((len(X), m), np.nan, X.dtype)
    kernels.butterfly(X, signs, *plan.arrays, out)
    return out


def pairs(kernels, X, signs, plan, radii, width):
    out = np.full((len(X), width), np.nan, X.dtype)
    kernels.butterfly_pairs(X, signs, *plan.arrays, radii, 0.7, out)
    return out


def rounding(X, width):
    """Bound the rounding error of one result: a multiple of eps for each level of transform and rotations."""
    norms = np.sqrt((X.astype(float) ** 2).sum(axis=1, keepdims=True))
    return 4 * (2 * np.log2(width) + 4) * np.finfo(X.dtype).eps * norms


@st.composite
def problems(draw, max_bits=11):
    """Draw rows, signs, a plan and a number of projections, of matching sizes."""
    width = 2 ** draw(st.integers(0, max_bits))
    n = draw(st.sampled_from([0, 1, 2, 15, 16, 17]) | st.integers(0, 40))
    d = draw(st.sampled_from([width, width // 2 + 1, 0]) | st.integers(0, width))
    blocks = draw(st.integers(1, max(2, min(5, 2048 // width))))
    m = (blocks - 1) * width + draw(st.sampled_from([1, width]) | st.integers(1, width))
    rng = np.random.default_rng(draw(SEEDS))
    X = rng.normal(size=(n, d))
    signs = rng.choice([-1.0, 1.0], (2, width))
    return X, signs, butterfly_plan(*random_rotations(rng, blocks, width)), m


def as_dtype(problem, dtype):
    X, signs, plan, m = problem
    return X.astype(dtype), signs.astype(dtype), plan.astype(dtype), m


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16, 32, 64, 128, 256])
def test_plan_is_the_transposed_product_of_rotations(width):
    rng = np.random.default_rng(width)
    for _ in range(20 if width <= 16 else 2):
        cosines, sines = random_rotations(rng, 3, width)
        plan = butterfly_plan(cosines, sines)
        signs = rng.choice([-1.0, 1.0], (2, width))
        out = np.empty((width, 3 * width))
        numpy_kernels.butterfly(np.eye(width), signs, *plan.arrays, out)
        mixing = signs[1][:, None] * (hadamard(width) / np.sqrt(width)) * signs[0]
        for block, columns in enumerate(np.split(out, 3, axis=1)):
            matrix = dense(cosines, sines, block)
            np.testing.assert_allclose(matrix @ matrix.T, np.eye(width), rtol=0, atol=1e-13)
            np.testing.assert_allclose(columns.T, matrix.T @ mixing, rtol=0, atol=1e-13)


@given(seed=SEEDS, bits=st.integers(0, 10))
@settings(deadline=None, max_examples=30)
def test_factors_and_multipliers_of_a_plan_are_bounded(seed, bits):
    width = 2**bits
    plan = butterfly_plan(*random_rotations(np.random.default_rng(seed), 2, width))
    assert plan.shape == (2, width)
    np.testing.assert_array_equal(np.sort(plan.order, axis=1), [range(width)] * 2)
    assert np.all(np.abs(plan.factors) >= (1 - 1e-12) * width**-0.5)
    assert np.all(np.abs(plan.factors) <= 1 + 1e-12)
    # A multiplier is at most the ratio of the factors of the two columns of a pair so far.
    for level in range(bits):
        assert np.all(np.abs(plan.multipliers[:, level]) <= (1 + 1e-12) * 2 ** (level / 2))


def test_astype_rounds_all_but_the_order():
    plan = butterfly_plan(*random_rotations(np.random.default_rng(0), 2, 16))
    rounded = plan.astype(np.float32)
    assert isinstance(rounded, ButterflyPlan)
    assert rounded.order is plan.order
    assert rounded.multipliers.dtype == rounded.factors.dtype == np.float32
    np.testing.assert_array_equal(rounded.multipliers, plan.multipliers.astype(np.float32))
    np.testing.assert_array_equal(rounded.factors, plan.factors.astype(np.float32))


@pytest.mark.parametrize(
    ("cosines", "sines", "text"),
    [
        ([], [], "cosines must have shapes"),
        ([np.ones((1, 3))], [np.zeros((1, 3))], "cosines must have shapes"),
        ([np.ones((1, 2))], [np.zeros((1, 2))], "cosines must have shapes"),
        ([np.ones((0, 1))], [np.zeros((0, 1))], "cosines must have shapes"),
        ([np.ones((1, 1))], [np.zeros((2, 1))], "sines must have the shapes of cosines"),
        ([np.ones((1, 1))], [np.ones((1, 1))], "must be 1 in every node, got a value that differs by 0.414"),
        ([np.full((1, 1), np.nan)], [np.ones((1, 1))], "must be 1 in every node, got a value that differs by nan"),
    ],
)
def test_plan_raises_for_arrays_that_are_no_tree_of_rotations(cosines, sines, text):
    with pytest.raises(ValueError, match=f"^butterfly_plan: .*{text}"):
        butterfly_plan(cosines, sines)


def test_columns_of_the_matrix_are_uniform_on_the_sphere():
    # cos^2 ~ Beta(h/2, h/2): each coordinate squared then has mean 1/P and second moment 3/(P (P + 2)).
    rng, width, blocks = np.random.default_rng(5), 8, 40_000
    cosines, sines = [], []
    for half in (1, 2, 4):
        squared = rng.beta(half / 2, half / 2, (blocks, width // (2 * half)))
        cosines.append(np.sqrt(squared) * rng.choice([-1, 1], squared.shape))
        sines.append(np.sqrt(1 - squared) * rng.choice([-1, 1], squared.shape))
    plan = butterfly_plan(cosines, sines)
    out = np.empty((1, blocks * width))
    x = np.array([[0.8, 0.0, 0.0, 0.6, 0.0, 0.0, 0.0, 0.0]])
    numpy_kernels.butterfly(x, np.ones((2, width)), *plan.arrays, out)
    z = out.reshape(blocks, width) ** 2
    np.testing.assert_allclose(z.mean(axis=0), 1 / width, rtol=0, atol=5 * (0.149 / np.sqrt(blocks)))
    np.testing.assert_allclose((z**2).mean(axis=0), 3 / (width * (width + 2)), rtol=0.06)


@pytest.mark.covering(0)
def test_matrix_of_the_kernels_is_orthogonal_and_matches_the_numpy_kernels(kernels, dtype):
    rng = np.random.default_rng(1)
    for width in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048):
        signs = rng.choice([-1.0, 1.0], (2, width))
        plan = butterfly_plan(*random_rotations(rng, 1, width))
        expected = np.empty((width, width))
        numpy_kernels.butterfly(np.eye(width), signs, *plan.arrays, expected)
        matrix = project(kernels, np.eye(width, dtype=dtype), signs.astype(dtype), plan.astype(dtype), width)
        tolerance = 20 * np.finfo(dtype).eps
        np.testing.assert_allclose(matrix, expected, rtol=0, atol=tolerance)
        wide = matrix.astype(float)
        np.testing.assert_allclose(wide @ wide.T, np.eye(width), rtol=0, atol=width * tolerance)


@settings(deadline=None)
@given(data=st.data(), problem=problems())
def test_projections_match_the_numpy_kernels(kernels, dtype, layouts, filled, data, problem):
    X, signs, plan, m = as_dtype(problem, dtype)
    expected = np.empty((len(X), m), dtype)
    numpy_kernels.butterfly(X, signs, *plan.arrays, expected)
    tolerance = rounding(X, signs.shape[1])
    X = data.draw(layouts, label="layout of X").holding(X)
    layout = data.draw(layouts, label="layout of out")
    found = filled(lambda out: kernels.butterfly(X, signs, *plan.arrays, out), layout, expected.shape, dtype)
    assert np.all(np.abs(found - expected) <= tolerance)


@settings(deadline=None)
@given(data=st.data(), problem=problems())
def test_pairs_equal_sincos_pairs_of_the_scaled_projections(kernels, dtype, layouts, filled, data, problem):
    X, signs, plan, m = as_dtype(problem, dtype)
    blocks, P = plan.shape
    width = data.draw(st.sampled_from([m, 2 * m - 1, 2 * m]) | st.integers(m, 2 * m), label="width")
    # Angles on both sides of the limit of the fast reduction; powers of two, so that the factors of the plan
    # can absorb them without rounding.
    size = data.draw(st.sampled_from([1.0, 2.0**10, 2.0**20, 2.0**30]), label="size of radii")
    radii = (size * 2.0 ** np.random.default_rng(m).integers(-3, 3, m)).astype(dtype)
    grown = np.ones(blocks * P, dtype)
    grown[:m] = radii
    scaled = ButterflyPlan(plan.order, plan.multipliers, plan.factors * grown.reshape(blocks, P))
    unfused = np.empty((len(X), width), dtype)
    kernels.sincos_pairs(project(kernels, X, signs, scaled, m), 0.7, unfused)
    X = data.draw(layouts, label="layout of X").holding(X)
    layout = data.draw(layouts, label="layout of out")
    fused = filled(
        lambda out: kernels.butterfly_pairs(X, signs, *plan.arrays, radii, 0.7, out), layout, unfused.shape, dtype
    )
    np.testing.assert_array_equal(fused, unfused)


@settings(deadline=None)
@given(problem=problems())
def test_pairs_match_the_numpy_kernels(kernels, dtype, problem):
    X, signs, plan, m = as_dtype(problem, dtype)
    radii = np.random.default_rng(m).uniform(0, 3, m).astype(dtype)
    expected = np.empty((len(X), 2 * m), dtype)
    numpy_kernels.butterfly_pairs(X, signs, *plan.arrays, radii, 0.7, expected)
    found = pairs(kernels, X, signs, plan, radii, 2 * m)
    # A cosine moves by no more than its angle does.
    assert np.all(np.abs(found - expected) <= 4 * rounding(X, signs.shape[1]) + 2 * PAIR_ERROR[dtype])


@settings(deadline=None)
@given(data=st.data(), problem=problems(max_bits=8))
def test_result_of_a_row_does_not_depend_on_the_batch(kernels, dtype, data, problem):
    X, signs, plan, m = as_dtype(problem, dtype)
    if len(X) > 2:
        X[1] = np.inf
    radii = np.random.default_rng(m).uniform(0, 1e5, m).astype(dtype)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(X)), max_size=4), label="cuts"))
    full = project(kernels, X, signs, plan, m)
    full_pairs = pairs(kernels, X, signs, plan, radii, 2 * m)
    for bounds in ([0, *cuts, len(X)], range(len(X) + 1)):
        for start, stop in pairwise(bounds):
            part = X[start:stop]
            np.testing.assert_array_equal(project(kernels, part, signs, plan, m), full[start:stop])
            found = pairs(kernels, part, signs, plan, radii, 2 * m)
            np.testing.assert_array_equal(found, full_pairs[start:stop])


def test_instruction_sets_with_fused_multiply_add_agree_exactly(all_kernels, dtype):
    fused = all_kernels[:-1]  # the baseline rounds products
    if len(fused) < 2:
        pytest.skip("this processor runs fewer than two sets with a fused multiply-add")
    rng = np.random.default_rng(4)
    for width in (4, 64, 128, 1024, 2048):
        plan = butterfly_plan(*random_rotations(rng, 2, width)).astype(dtype)
        X, signs = rng.normal(size=(9, width)).astype(dtype), rng.choice([-1.0, 1.0], (2, width)).astype(dtype)
        first, *others = [project(kernels, X, signs, plan, 2 * width) for kernels in fused]
        for other in others:
            np.testing.assert_array_equal(other, first)


def test_large_and_small_rows_do_not_overflow_or_underflow(kernels, dtype):
    rng, width = np.random.default_rng(6), 1024
    plan = butterfly_plan(*random_rotations(rng, 1, width)).astype(dtype)
    signs = rng.choice([-1.0, 1.0], (2, width)).astype(dtype)
    info = np.finfo(dtype)
    x = rng.normal(size=(1, width)).astype(dtype)
    plain = project(kernels, x, signs, plan, width)
    for power in (info.maxexp - 14, info.minexp + 30):
        size = dtype.type(2.0**power)
        np.testing.assert_allclose(project(kernels, x * size, signs, plan, width) / size, plain, rtol=0, atol=1e-6)


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_infinite_values_and_nan_affect_only_their_row(kernels, dtype, bad):
    rng, width = np.random.default_rng(7), 64
    plan = butterfly_plan(*random_rotations(rng, 2, width)).astype(dtype)
    X, signs = rng.normal(size=(20, width)).astype(dtype), rng.choice([-1.0, 1.0], (2, width)).astype(dtype)
    good = project(kernels, X, signs, plan, 100)
    X[3, 5] = bad
    found = project(kernels, X, signs, plan, 100)
    assert not np.isfinite(found[3]).any()
    others = np.arange(20) != 3
    np.testing.assert_array_equal(found[others], good[others])


def test_widths_that_take_several_passes(kernels, dtype):
    rng = np.random.default_rng(2)
    for width in (4096, 8192, 2**15, 2**17):
        X = rng.normal(size=(3, width - 1)).astype(dtype)
        signs = rng.choice([-1.0, 1.0], (2, width)).astype(dtype)
        plan = butterfly_plan(*random_rotations(rng, 1, width)).astype(dtype)
        expected = np.empty((3, width), dtype)
        numpy_kernels.butterfly(X, signs, *plan.arrays, expected)
        assert np.all(np.abs(project(kernels, X, signs, plan, width) - expected) <= rounding(X, width))


@pytest.mark.parametrize("step", [2, 3])
def test_plan_and_signs_may_be_strided(kernels, dtype, step):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(5, 30)).astype(dtype)
    plan = butterfly_plan(*random_rotations(rng, 6, 32)).astype(dtype)
    signs = rng.choice([-1.0, 1.0], (step + 1, 64)).astype(dtype)[::step, 32:]
    levels = np.repeat(plan.multipliers, step, axis=1)[::step, ::step]
    strided = ButterflyPlan(plan.order[::step], levels, plan.factors[::step])
    copied = ButterflyPlan(*(a.copy() for a in strided.arrays))
    m = 32 * strided.shape[0]
    found = project(kernels, X, signs, strided, m)
    np.testing.assert_array_equal(found, project(kernels, X, signs.copy(), copied, m))
