"""Functions of projections, written to the output or multiplied into it, for every kind of projection."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mercer.linalg import butterfly_plan, numpy_kernels

pytestmark = pytest.mark.covering(1)

SEEDS = st.integers(0, 2**32 - 1)
FUNCTIONS = st.sampled_from(numpy_kernels.FUNCTION_NAMES)


def apply(kernels, values, function, **options):
    """Apply a function to each value by a product with the 1 x 1 identity matrix."""
    out = np.empty((len(values), 1), values.dtype)
    kernels.dense(values[:, None], np.ones((1, 1), values.dtype), out, function, **options)
    return out[:, 0]


def special_values(dtype):
    info = np.finfo(dtype)
    positive = [0.0, info.smallest_subnormal, info.tiny, 0.3, 1.0, 1.5, 87.0, 1e10, info.max, np.inf]
    return np.array([*positive, *(-p for p in positive), np.nan], dtype)


@pytest.mark.parametrize("function", [name for name in numpy_kernels.FUNCTION_NAMES if name != "exp"])
def test_functions_of_special_values_equal_numpy(kernels, dtype, function):
    values = special_values(dtype)
    expected = {
        "identity": lambda x: x,
        "sign": np.sign,
        "abs": np.abs,
        "relu": lambda x: np.where(x < 0, 0, x),
        "relu_squared": lambda x: np.where(x < 0, 0, x) ** 2,
        "signed_square": lambda x: x * np.abs(x),
    }
    with np.errstate(over="ignore", under="ignore"):
        np.testing.assert_array_equal(apply(kernels, values, function), expected[function](values))


def test_the_sign_of_either_zero_is_positive_zero(kernels, dtype):
    # A Hadamard matrix of size one; a dense product would already lose the sign of a zero.
    zeros, found = np.array([[0.0], [-0.0]], dtype), np.full((2, 1), np.nan, dtype)
    kernels.sign_hadamard(zeros, np.ones((1, 1, 1), dtype), found)
    assert np.signbit(found).ravel().tolist() == [False, True]
    kernels.sign_hadamard(zeros, np.ones((1, 1, 1), dtype), found, None, "sign")
    np.testing.assert_array_equal(found, 0)
    assert not np.signbit(found).any()


def exponents(dtype):
    rng = np.random.default_rng(0)
    info = np.finfo(dtype)
    highest, lowest = np.log(float(info.max)), np.log(float(info.smallest_subnormal))
    multiples = np.arange(-1080, 1030) * (np.log(2) / 2)
    return np.concatenate(
        [
            rng.uniform(lowest - 1, highest, 3000),
            rng.uniform(-1, 1, 1000),
            multiples[(multiples > lowest) & (multiples < highest)],
            np.nextafter(dtype.type(highest), dtype.type(0), dtype=dtype)[None],
            np.log(float(info.tiny)) + np.linspace(-1, 1, 50),
            10.0 ** rng.uniform(-30, -1, 200),
        ]
    ).astype(dtype)


def test_exponentials_are_accurate_to_four_ulp(kernels, dtype):
    x = exponents(dtype)
    found = apply(kernels, x, "exp")
    with mpmath.workprec(120):
        exact = [mpmath.exp(mpmath.mpf(float(a))) for a in x]
        errors = np.array([float(abs(mpmath.mpf(float(f)) - e)) for f, e in zip(found, exact, strict=True)])
    units = errors / np.spacing(np.abs(found)).astype(float)
    worst = units.argmax()
    assert units[worst] <= 4, f"{units[worst]} units at {x[worst]!r}"


def test_exponentials_overflow_and_underflow_where_numpy_does(kernels, dtype):
    info = np.finfo(dtype)
    edges = [np.log(float(info.max)), np.log(float(info.smallest_subnormal)) - np.log(2)]
    near = np.concatenate([edge + np.linspace(-0.01, 0.01, 201) for edge in edges]).astype(dtype)
    far = np.array([np.inf, -np.inf, 1e4, -1e4, info.max, -info.max, 0.0, -0.0], dtype)
    x = np.concatenate([near, far])
    found = apply(kernels, x, "exp")
    with np.errstate(over="ignore", under="ignore"):
        exact = np.exp(x.astype(np.longdouble))
        expected = exact.astype(dtype)
    # Within rounding of the threshold either result is right.
    sure = np.abs(np.subtract.outer(x.astype(float), edges)).min(axis=1) > 4e-6 * np.abs(edges).max()
    np.testing.assert_array_equal(np.isinf(found)[sure], np.isinf(expected)[sure])
    np.testing.assert_array_equal((found == 0)[sure], (expected == 0)[sure])
    np.testing.assert_array_equal(found[-8:], [np.inf, 0, np.inf, 0, np.inf, 0, 1, 1])
    assert np.isnan(apply(kernels, np.array([np.nan], dtype), "exp")).all()


@settings(deadline=None)
@given(data=st.data(), function=FUNCTIONS, product=st.booleans(), use_radii=st.booleans(), seed=SEEDS)
def test_every_projection_applies_every_function(
    kernels, dtype, layouts, filled, data, function, product, use_radii, seed
):
    rng = np.random.default_rng(seed)
    n, width = data.draw(st.integers(0, 40), label="n"), 2 ** data.draw(st.integers(0, 7), label="bits")
    m = width + data.draw(st.integers(1, width), label="columns of the last block")
    X = rng.normal(size=(n, width)).astype(dtype)
    signs = rng.choice([-1.0, 1.0], (2, 2, width)).astype(dtype)
    sizes = [width >> (level + 1) for level in range(width.bit_length() - 1)] or [0]
    angles = [rng.uniform(0, 2 * np.pi, (2, size)) for size in sizes]
    plan = butterfly_plan([np.cos(a) for a in angles], [np.sin(a) for a in angles]).astype(dtype)
    weights = rng.normal(size=(width, m)).astype(dtype) / dtype.type(np.sqrt(width))
    radii = rng.uniform(0.5, 2, m).astype(dtype) if use_radii else None
    before = rng.normal(size=(n, m)).astype(dtype)
    layout = data.draw(layouts, label="layout of out")

    def projections(kernels, kind, out, *options):
        if kind == "sign_hadamard":
            kernels.sign_hadamard(X, signs, out, radii, *options)
        elif kind == "butterfly":
            kernels.butterfly(X, signs[0], plan.order, plan.multipliers, plan.factors, out, radii, *options)
        else:
            kernels.dense(X, weights, out, *options)

    for kind in ("sign_hadamard", "butterfly", "dense"):
        plain = np.empty((n, m), dtype)
        projections(kernels, kind, plain)
        # Exactly the function of the projections of the same kernels, applied one by one ...
        expected = apply(kernels, plain.ravel(), function, scale=0.3).reshape(n, m)
        if product:
            expected = before * expected

        def fill(out, kind=kind):
            out[...] = before
            projections(kernels, kind, out, function, 0.3, product)

        found = filled(fill, layout, (n, m), dtype)
        np.testing.assert_array_equal(found, expected)
        # ... and the results of the NumPy kernels, where rounding cannot change the sign.
        reference, plain_reference = before.copy(), np.empty((n, m), dtype)
        projections(numpy_kernels, kind, reference, function, 0.3, product)
        projections(numpy_kernels, kind, plain_reference)
        error = 200 * np.finfo(dtype).eps * (1 + np.abs(plain_reference) + np.exp(np.abs(plain_reference)))
        clear = np.abs(plain_reference) > 1e-4
        difference = np.abs(found - reference) / (np.abs(before) if product else 1)
        norms = 1 + np.sqrt((X.astype(float) ** 2).sum(axis=1, keepdims=True))
        assert np.all((difference <= error * norms**2)[clear])


@settings(deadline=None)
@given(function=FUNCTIONS, product=st.booleans(), seed=SEEDS)
def test_result_of_a_row_does_not_depend_on_the_batch(kernels, dtype, function, product, seed):
    rng = np.random.default_rng(seed)
    X, weights = rng.normal(size=(30, 3)).astype(dtype), rng.normal(size=(3, 90)).astype(dtype)
    X[4] = np.nan
    batch, alone = np.full((2, 30, 90), 1.5, dtype)
    kernels.dense(X, weights, batch, function, 0.3, product)
    for i in range(30):
        kernels.dense(X[i : i + 1], weights, alone[i : i + 1], function, 0.3, product)
    np.testing.assert_array_equal(alone, batch)
