"""Arc-cosine kernels: an oracle, the integral that defines them, zeros, huge and nearly parallel rows."""

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp
from scipy import integrate

from mercer import ArcCosine, DataError, ParameterError, Polynomial, neural_tangent_kernel
from mercer.kernels.arc_cosine import arc_cosine_values

ORDERS = (0, 1, 2)
# An angle is known to some roundings of the rows' coordinates, whatever formula it goes through.
ROUNDING = 1e-15


def oracle(order, x, y):
    """Return the kernel in many digits, from Cho and Saul's formulas; order 4 by the recursion of its derivatives."""
    with mpmath.workdps(250):
        x, y = ([mpmath.mpf(float(value)) for value in row] for row in (x, y))
        lengths = mpmath.sqrt(sum(v**2 for v in x)) * mpmath.sqrt(sum(v**2 for v in y))
        c = sum(a * b for a, b in zip(x, y, strict=True)) / lengths
        angle = mpmath.acos(min(max(c, mpmath.mpf(-1)), mpmath.mpf(1)))
        s, rest = mpmath.sin(angle), mpmath.pi - angle
        J = {
            0: rest,
            1: s + rest * c,
            2: 3 * s * c + rest * (1 + 2 * c**2),
            4: 5 * s * c * (11 + 10 * c**2) + rest * (9 + 72 * c**2 + 24 * c**4),
        }[order]
        return lengths**order * J / mpmath.pi, rest


@pytest.mark.parametrize("order", [*ORDERS, 4])
@pytest.mark.parametrize("gap", [0.0, 1e-12, 1e-9, 1e-6, 1e-3, 0.02, 0.3, 3.0])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_values_are_those_of_the_oracle_also_for_nearly_parallel_rows(order, gap, sign, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(4, 5))
    y = sign * x * rng.uniform(0.1, 10, size=(4, 1)) + gap * rng.normal(size=(4, 5))
    for value, (expected, rest) in zip(
        np.diagonal(arc_cosine_values(order, x, y)), map(oracle, [order] * 4, x, y), strict=True
    ):
        # J_b falls as the power 2b + 1 of the distance to opposite rows, and an error there counts as often.
        tolerance = 20 * ROUNDING * (1 + (2 * order + 1) / max(float(rest), ROUNDING))
        assert abs(value - expected) <= tolerance * expected + 1e-40 * np.abs(x).max()


def test_order_zero_is_accurate_at_small_angles():
    x, y = np.array([[1.0, 1.0]]), np.array([[1.0, 1.0 + 1e-9]])
    expected = 0.5e-9  # the angle, to 1e-18
    assert abs((1 - ArcCosine(0)(x, y)[0, 0]) * np.pi - expected) < 1e-15
    cosine = (x @ y.T)[0, 0] / (np.linalg.norm(x) * np.linalg.norm(y))
    assert abs(np.arccos(min(cosine, 1.0)) - expected) > 1e-10


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("angle", [0.0, 0.4, 1.1, 2.0, 3.0])
def test_values_are_twice_the_mean_of_products_of_activations(order, angle):
    x, y = np.array([2.0, 0.0]), 0.7 * np.array([np.cos(angle), np.sin(angle)])

    def integrand(turn):
        # The radial part of the normal distribution in the plane: E r^2b = 2^b b!
        u, v = x @ [np.cos(turn), np.sin(turn)], y @ [np.cos(turn), np.sin(turn)]
        return (u * v) ** order / (2 * np.pi)

    mean, _ = integrate.quad(integrand, angle - np.pi / 2, np.pi / 2, epsabs=1e-13)
    radial = (1, 2, 8)[order]
    np.testing.assert_allclose(ArcCosine(order)(x[None], y[None]), 2 * radial * mean, rtol=1e-10)


def test_rows_of_zeros_have_the_value_one_half_for_order_zero_and_zero_otherwise():
    X = np.array([[0.0, 0.0], [1.0, -2.0]])
    np.testing.assert_array_equal(ArcCosine(0)(X), [[0.5, 0.5], [0.5, 1.0]])
    np.testing.assert_allclose(ArcCosine(1)(X), [[0.0, 0.0], [0.0, 5.0]], rtol=1e-15)
    np.testing.assert_allclose(ArcCosine(2)(X), [[0.0, 0.0], [0.0, 75.0]], rtol=1e-15)
    for order in ORDERS:
        np.testing.assert_array_equal(ArcCosine(order)(X, X)[0], ArcCosine(order)(sp.csr_array(X))[0])


@pytest.mark.parametrize("order", ORDERS)
def test_order_zero_depends_on_angles_only_and_the_others_are_homogeneous(order, seed):
    X = np.random.default_rng(seed).normal(size=(5, 3))
    np.testing.assert_allclose(ArcCosine(order)(3 * X, X), 3.0**order * ArcCosine(order)(X), rtol=1e-13, atol=1e-13)


def test_huge_and_tiny_rows_have_values_wherever_the_result_is_a_number():
    assert ArcCosine(0)([[1e300, 1e300]], [[1e-300, -1e-300]])[0, 0] == pytest.approx(0.5)
    assert ArcCosine(1)([[1e-200, 0.0]], [[1e300, 0.0]])[0, 0] == pytest.approx(1e100)
    assert ArcCosine(1)([[1e200, 0.0]], [[0.0, 1e100]])[0, 0] == pytest.approx(1e300 / np.pi)
    for kernel, X in ((ArcCosine(1), [[1e200]]), (ArcCosine(2), [[1e100]])):
        with pytest.raises(DataError, match="overflows on these rows"):
            kernel(X)
        with pytest.raises(DataError, match="overflows on these rows"):
            kernel(X, X)


@pytest.mark.parametrize("order", ORDERS)
def test_sparse_rows_with_entries_that_stand_twice_are_those_of_their_sums(order):
    twice = sp.csr_array((np.array([1.0, 2.0, -1.0]), np.array([0, 0, 2]), np.array([0, 2, 3, 3])), shape=(3, 3))
    np.testing.assert_allclose(ArcCosine(order)(twice), ArcCosine(order)(twice.toarray()), atol=1e-15)
    nearly = sp.csr_array(np.array([[1.0, 1.0, 0.0], [1.0, 1.0 + 1e-9, 0.0], [-1.0, -1.0, 0.0]]))
    np.testing.assert_allclose(ArcCosine(order)(nearly), ArcCosine(order)(nearly.toarray()), rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("order", [-1, 3, 0.5, True, "1", None])
def test_other_orders_are_refused(order):
    with pytest.raises(ParameterError, match="ArcCosine: order must be 0, 1 or 2"):
        ArcCosine(order)


def test_the_neural_tangent_kernel_is_made_by_the_algebra(seed):
    kernel = neural_tangent_kernel()
    assert kernel == ArcCosine(1) + Polynomial(1, coef0=0.0) * ArcCosine(0)
    X = np.random.default_rng(seed).normal(size=(6, 3))
    angles = np.arccos(np.clip(X @ X.T / np.sqrt(np.outer(ArcCosine(1).diag(X), ArcCosine(1).diag(X))), -1, 1))
    expected = ArcCosine(1)(X) + X @ X.T * (1 - angles / np.pi)
    np.testing.assert_allclose(kernel(X), expected, atol=1e-6)  # arc cosines of nearly one are that bad
    np.testing.assert_allclose(kernel.diag(X), 2 * ArcCosine(1).diag(X), rtol=1e-14)
