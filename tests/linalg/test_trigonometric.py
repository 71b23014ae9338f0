"""Compiled sines and cosines against the NumPy kernels, against exact values, and row by row."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mercer.linalg import numpy_kernels

# Absolute error of a cosine or sine, for unit scale.
ERROR = {np.dtype(np.float32): 2e-7, np.dtype(np.float64): 4e-16}

# Largest angle of the fast reduction, in any of the kernel sets.
LIMITS = {np.dtype(np.float32): [6434.0, 102944.0], np.dtype(np.float64): [823550.0]}

SEEDS = st.integers(0, 2**32 - 1)
MAGNITUDES = st.sampled_from([1e-30, 1e-3, 1.0, 50.0, 1e4, 2e5, 2e6, 1e12])


def random_angles(seed, n, m, magnitude, dtype):
    rng = np.random.default_rng(seed)
    angles = rng.uniform(-magnitude, magnitude, (n, m))
    # A few angles of every size, so that a row has both fast and slow ones.
    odd_ones_out = 10.0 ** rng.uniform(-10, 20, (n, m))
    return np.where(rng.random((n, m)) < 0.05, odd_ones_out, angles).astype(dtype)


def neighbors(values, dtype, steps=3):
    below = above = values = np.asarray(values, dtype)
    found = [values]
    for _ in range(steps):
        below, above = np.nextafter(below, dtype.type(-np.inf)), np.nextafter(above, dtype.type(np.inf))
        found += [below, above]
    return np.concatenate(found)


def hard_angles(dtype):
    rng = np.random.default_rng(0)
    info = np.finfo(dtype)
    limits = LIMITS[dtype]
    multiples = np.concatenate([np.arange(65), 2.0 ** np.arange(6, 21), rng.integers(0, 2**20, 200)])
    inside = multiples[multiples * np.pi / 2 < limits[-1]]
    large = [1e5, 1e10, 1e22, 1e30]
    if dtype == np.float64:
        large += [1e300, 6381956970095103 * 2.0**797]  # the second is closest to a multiple of pi/2
    positive = np.concatenate(
        [
            neighbors(inside * (np.pi / 2), dtype),
            neighbors(inside * (np.pi / 2) + np.pi / 4, dtype),
            neighbors(limits + large, dtype),
            np.array([0.0, info.smallest_subnormal, info.tiny / 8, info.tiny, info.eps, info.max], dtype),
            *[rng.uniform(0, limit, 500).astype(dtype) for limit in [1, 10, 1000, *limits]],
        ]
    )
    return np.concatenate([positive, -positive])


def exact_pairs(angles):
    with mpmath.workprec(1200):  # enough for 1e308
        exact = [mpmath.mpf(float(a)) for a in angles]
        cosine, sine = [mpmath.cos(a) for a in exact], [mpmath.sin(a) for a in exact]
        return cosine, sine


def errors(found, exact):
    with mpmath.workprec(200):
        return np.array([float(abs(mpmath.mpf(float(f)) - e)) for f, e in zip(found, exact, strict=True)])


@pytest.mark.covering(0)
@pytest.mark.parametrize("scale", [1.0, 0.37])
def test_hard_angles_are_accurate(kernels, dtype, scale):
    angles = hard_angles(dtype)
    m = len(angles)
    found = np.empty((1, 2 * m), dtype)
    kernels.sincos_pairs(angles[None], scale, found)
    alone = np.empty((1, m), dtype)
    kernels.cosines(angles[None], np.zeros(m, dtype), scale, alone)

    exact_scale = float(dtype.type(scale))
    cosine, sine = ([exact_scale * value for value in values] for values in exact_pairs(angles))
    for values, exact in [(found[0, :m], cosine), (found[0, m:], sine), (alone[0], cosine)]:
        error = errors(values, exact)
        worst = error.argmax()
        assert error[worst] <= ERROR[dtype] * scale, f"error {error[worst]} at {angles[worst]!r}"


def test_sines_of_small_angles_equal_the_angles(kernels, dtype):
    info = np.finfo(dtype)
    angles = np.array([[0.0, -0.0, info.smallest_subnormal, -info.tiny / 4, info.tiny]], dtype)
    found = np.empty((1, 10), dtype)
    kernels.sincos_pairs(angles, 1.0, found)
    np.testing.assert_array_equal(found[:, :5], 1.0)
    np.testing.assert_array_equal(found[:, 5:], angles)
    np.testing.assert_array_equal(np.signbit(found[:, 5:]), np.signbit(angles))


@pytest.mark.parametrize("position", [0, 5, 63, 64, 70])
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_infinite_angles_and_nan_give_nan_at_their_position_only(kernels, dtype, position, bad):
    angles = np.linspace(-3, 3, 71, dtype=dtype)[None]
    good, found = np.empty((2, 1, 142), dtype)
    kernels.sincos_pairs(angles, 1.0, good)
    angles[0, position] = bad
    kernels.sincos_pairs(angles, 1.0, found)
    expected = good.copy()
    expected[0, [position, 71 + position]] = np.nan
    np.testing.assert_array_equal(found, expected)

    kernels.cosines(angles, np.zeros(71, dtype), 1.0, angles)
    np.testing.assert_array_equal(angles, expected[:, :71])


@settings(deadline=None)
@given(data=st.data(), n=st.integers(0, 5), m=st.integers(1, 200), seed=SEEDS, magnitude=MAGNITUDES)
def test_pairs_match_the_numpy_kernels(kernels, dtype, layouts, filled, data, n, m, seed, magnitude):
    width = data.draw(st.sampled_from([m, 2 * m - 1, 2 * m]) | st.integers(m, 2 * m), label="width")
    scale = data.draw(st.sampled_from([1.0, 0.01, 3.0]), label="scale")
    angles = random_angles(seed, n, m, magnitude, dtype)
    expected = np.empty((n, width), dtype)
    numpy_kernels.sincos_pairs(angles, scale, expected)
    angles = data.draw(layouts, label="layout of angles").holding(angles)
    found = filled(lambda out: kernels.sincos_pairs(angles, scale, out), data.draw(layouts), (n, width), dtype)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2 * ERROR[dtype] * scale)


@settings(deadline=None)
@given(data=st.data(), n=st.integers(0, 5), m=st.integers(1, 200), seed=SEEDS, magnitude=MAGNITUDES)
def test_cosines_match_the_numpy_kernels(kernels, dtype, layouts, filled, data, n, m, seed, magnitude):
    angles = random_angles(seed, n, m, magnitude, dtype)
    phases = np.random.default_rng(seed).uniform(0, 2 * np.pi, m).astype(dtype)
    expected = np.empty((n, m), dtype)
    numpy_kernels.cosines(angles, phases, 1.5, expected)
    angles = data.draw(layouts, label="layout of angles").holding(angles)
    found = filled(lambda out: kernels.cosines(angles, phases, 1.5, out), data.draw(layouts), (n, m), dtype)
    np.testing.assert_allclose(found, expected, rtol=0, atol=3 * ERROR[dtype])
    kernels.cosines(angles, phases, 1.5, angles)
    np.testing.assert_array_equal(angles, found, err_msg="in place differs")


@settings(deadline=None)
@given(m=st.integers(1, 200), seed=SEEDS, magnitude=MAGNITUDES)
def test_result_of_a_row_does_not_depend_on_the_batch(kernels, dtype, m, seed, magnitude):
    angles = random_angles(seed, 7, m, magnitude, dtype)
    angles[3] = np.nan
    phases = np.ones(m, dtype)
    batch, alone = np.empty((2, 7, 2 * m), dtype)
    kernels.sincos_pairs(angles, 0.3, batch)
    shifted, shifted_alone = np.empty((2, 7, m), dtype)
    kernels.cosines(angles, phases, 0.3, shifted)
    for i in range(7):
        kernels.sincos_pairs(angles[i : i + 1], 0.3, alone[i : i + 1])
        kernels.cosines(angles[i : i + 1], phases, 0.3, shifted_alone[i : i + 1])
    np.testing.assert_array_equal(alone, batch)
    np.testing.assert_array_equal(shifted_alone, shifted)


@settings(deadline=None)
@given(m=st.integers(2, 200), seed=SEEDS, magnitude=MAGNITUDES)
def test_result_of_a_column_does_not_depend_on_its_position(kernels, dtype, m, seed, magnitude):
    angles = random_angles(seed, 1, m, magnitude, dtype)
    found = np.empty((1, 2 * m), dtype)
    kernels.sincos_pairs(angles, 0.3, found)
    backwards = np.empty((1, 2 * m), dtype)
    kernels.sincos_pairs(np.ascontiguousarray(angles[:, ::-1]), 0.3, backwards)
    np.testing.assert_array_equal(backwards.reshape(2, m)[:, ::-1], found.reshape(2, m))
