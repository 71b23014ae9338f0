"""The NumPy kernels against the formulas that they implement."""

import numpy as np
import pytest
from scipy.linalg import hadamard

from mercer.linalg import numpy_kernels

TOLERANCE = {np.dtype(np.float32): 2e-6, np.dtype(np.float64): 1e-14}


def random_signs(rng, shape, dtype):
    return rng.choice([-1.0, 1.0], shape).astype(dtype)


@pytest.mark.parametrize("width", [5, 7, 9, 10])
def test_sincos_pairs(dtype, width):
    angles = np.random.default_rng(0).normal(size=(4, 5)).astype(dtype)
    out = np.empty((4, width), dtype)
    numpy_kernels.sincos_pairs(angles, 0.5, out)
    wide = angles.astype(float)
    expected = 0.5 * np.hstack([np.cos(wide), np.sin(wide)])[:, :width]
    np.testing.assert_allclose(out, expected, atol=TOLERANCE[dtype])


def test_cosines_in_place(dtype):
    rng = np.random.default_rng(0)
    angles, phases = rng.normal(size=(4, 5)).astype(dtype), rng.normal(size=5).astype(dtype)
    expected = 0.5 * np.cos(angles.astype(float) + phases)
    numpy_kernels.cosines(angles, phases, 0.5, angles)
    np.testing.assert_allclose(angles, expected, atol=TOLERANCE[dtype])


@pytest.mark.parametrize(("d", "width", "m"), [(1, 1, 3), (3, 4, 9), (8, 8, 24), (20, 32, 70)])
@pytest.mark.parametrize("repeats", [1, 3])
def test_sign_hadamard(dtype, d, width, m, repeats):
    rng = np.random.default_rng(0)
    X, signs = rng.normal(size=(6, d)).astype(dtype), random_signs(rng, (3, repeats, width), dtype)
    out = np.empty((6, m), dtype)
    numpy_kernels.sign_hadamard(X, signs, out)
    H = hadamard(width) / np.sqrt(width)
    expected = []
    for block in signs:
        product = np.eye(width)
        for s in block:
            product = H @ np.diag(s) @ product
        expected.append(X @ product[:, :d].T)
    np.testing.assert_allclose(out, np.hstack(expected)[:, :m], atol=TOLERANCE[dtype])


def test_sign_hadamard_pairs(dtype):
    rng = np.random.default_rng(0)
    X, signs, radii = rng.normal(size=(6, 3)).astype(dtype), random_signs(rng, (2, 3, 4), dtype), np.arange(7)
    radii = radii.astype(dtype)
    out, angles = np.empty((6, 13), dtype), np.empty((6, 7), dtype)
    numpy_kernels.sign_hadamard_pairs(X, signs, radii, 0.5, out)
    numpy_kernels.sign_hadamard(X, signs, angles)
    angles = angles.astype(float) * radii
    expected = 0.5 * np.hstack([np.cos(angles), np.sin(angles)])[:, :13]
    np.testing.assert_allclose(out, expected, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("width", [5, 7, 10])
def test_dense_pairs_and_cosines(dtype, width):
    rng = np.random.default_rng(0)
    X, weights, phases = (rng.normal(size=size).astype(dtype) for size in [(6, 3), (3, 5), 5])
    angles = X.astype(float) @ weights
    out, shifted = np.empty((6, width), dtype), np.empty((6, 5), dtype)
    numpy_kernels.dense_pairs(X, weights, 0.5, out)
    expected = 0.5 * np.hstack([np.cos(angles), np.sin(angles)])[:, :width]
    np.testing.assert_allclose(out, expected, atol=TOLERANCE[dtype])
    numpy_kernels.dense_cosines(X, weights, phases, 0.5, shifted)
    np.testing.assert_allclose(shifted, 0.5 * np.cos(angles + phases), atol=TOLERANCE[dtype])


@pytest.mark.parametrize("product", [False, True])
@pytest.mark.parametrize("function", numpy_kernels.FUNCTION_NAMES)
def test_functions_of_dense_products(dtype, function, product):
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(6, 3)).astype(dtype), rng.normal(size=(3, 5)).astype(dtype)
    before = rng.normal(size=(6, 5)).astype(dtype)
    u = X.astype(float) @ weights
    values = {
        "identity": u,
        "sign": np.sign(u),
        "abs": np.abs(u),
        "relu": u * (u > 0),
        "relu_squared": u**2 * (u > 0),
        "signed_square": u**2 * np.sign(u),
        "exp": np.exp(u),
    }
    out = before.copy()
    numpy_kernels.dense(X, weights, out, function, 0.5, product)
    expected = 0.5 * values[function] * (before if product else 1)
    np.testing.assert_allclose(out, expected, atol=20 * TOLERANCE[dtype])


def test_radii_are_applied_before_the_function(dtype):
    X, signs, radii = np.array([[3.0]], dtype), np.ones((1, 1, 1), dtype), np.array([-2.0], dtype)
    out = np.empty((1, 1), dtype)
    numpy_kernels.sign_hadamard(X, signs, out, radii, "signed_square", 0.5)
    assert out == -18


def test_infinite_values_give_nan_without_a_warning(dtype):
    infinite = np.full((1, 2), np.inf, dtype)
    signs, radii = np.ones((1, 1, 2), dtype), np.ones(2, dtype)
    arrays = np.array([[0, 1]]), np.zeros((1, 1, 2), dtype), np.ones((1, 2), dtype)
    for fill in (
        lambda out: numpy_kernels.butterfly_pairs(infinite, np.ones((2, 2), dtype), *arrays, radii, 1.0, out),
        lambda out: numpy_kernels.dense_pairs(infinite, np.array([[1, 1], [-1, -1]], dtype), 1.0, out),
        lambda out: numpy_kernels.sincos_pairs(infinite, 1.0, out),
        lambda out: numpy_kernels.sign_hadamard_pairs(infinite, signs, radii, 1.0, out),
        lambda out: numpy_kernels.cosines(np.repeat(infinite, 2, axis=1), np.ones(4, dtype), 1.0, out),
    ):
        out = np.zeros((1, 4), dtype)
        with np.errstate(all="raise"):
            fill(out)
        assert np.isnan(out).all()
