"""Moments of products of projections: every formula against the mean over all patterns of weights."""

from itertools import permutations, product

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import hadamard

from mercer.theory.products import PROJECTIONS, Pairs, ScaledPairs, second_moment, sketch_variance, summed_variance

X = np.array([[0.7, -1.2, 0.4, 0.9], [0.3, 0.8, -0.6, 0.0], [0.0, 0.0, 0.0, 0.0]])
Y = np.array([[1.1, 0.5, -0.2, 0.3], [-0.4, 0.9, 0.1, 0.7]])


def rows(d):
    return X[:, :d], Y[:, :d]


def patterns(values, d):
    return np.array(list(product(values, repeat=d)))


def circle():
    angles = 2 * np.pi * np.arange(16) / 16  # exact for trigonometric polynomials up to degree 15
    return np.sqrt(2) * np.column_stack([np.cos(angles), np.sin(angles)]), np.full(16, 1 / 16)


def ball():
    z, weights = np.polynomial.legendre.leggauss(5)
    angles = 2 * np.pi * np.arange(12) / 12
    r = np.sqrt(1 - z**2)
    points = np.stack([np.outer(r, np.cos(angles)), np.outer(r, np.sin(angles)), np.outer(z, np.ones(12))], axis=-1)
    return np.sqrt(3) * points.reshape(-1, 3), np.repeat(weights / 24, 12)


def normal(d):
    nodes, weights = np.polynomial.hermite_e.hermegauss(4)
    return patterns(nodes, d), patterns(weights / weights.sum(), d).prod(axis=1)


def weight_vectors(projection, d):
    """Return weight vectors of one factor with their probabilities: a rule that is exact for these moments."""
    if projection == "gaussian":
        return normal(d)
    if projection == "sphere":
        return {1: lambda: (np.array([[1.0], [-1.0]]), np.full(2, 0.5)), 2: circle, 3: ball}[d]()
    values = (1, -1, 1j, -1j) if projection == "complex" else (1, -1)
    W = patterns(values, d)
    return W, np.full(len(W), 1 / len(W))


def components(projection, d, n):
    """Return products of n independent projections of both rows, over all patterns, and their probabilities."""
    W, probabilities = weight_vectors(projection, d)
    A, B = rows(d)
    left, right, weight = np.ones((1, len(A))), np.ones((1, len(B))), np.ones(1)
    for _ in range(n):
        left = (left[:, None] * (W @ A.T)[None]).reshape(-1, len(A))
        right = (right[:, None] * (W @ B.T)[None]).reshape(-1, len(B))
        weight = np.outer(weight, probabilities).ravel()
    return left, right, weight


def moments(values, weight):
    """Return mean and variance over the patterns."""
    mean = np.tensordot(weight, values, 1)
    return mean, np.tensordot(weight, np.square(values - mean), 1)


CASES = [
    *(("rademacher", d, n) for d in (1, 2, 3, 4) for n in (0, 1, 2)),
    *(("gaussian", d, n) for d in (1, 2, 3) for n in (0, 1, 2)),
    *(("sphere", d, n) for d in (1, 2, 3) for n in (0, 1, 2)),
    ("rademacher", 2, 4),
]


@pytest.mark.parametrize(("projection", "d", "n"), CASES)
def test_real_components_have_the_mean_and_the_second_moment_of_all_patterns(projection, d, n):
    left, right, weight = components(projection, d, n)
    pairs = Pairs.all_of(*rows(d))
    estimates = left[:, :, None] * right[:, None, :]
    np.testing.assert_allclose(np.tensordot(weight, estimates, 1), pairs.inner**n, atol=1e-13)
    second = np.tensordot(weight, estimates**2, 1)
    np.testing.assert_allclose(second_moment(projection, pairs, n), second, rtol=1e-12, atol=1e-13)
    for m in (1, 5):
        variance = (second - pairs.inner ** (2 * n)) / m
        np.testing.assert_allclose(sketch_variance(projection, pairs, n, m), variance, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(("d", "n"), [(1, 1), (2, 0), (2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (4, 1)])
def test_complex_components_have_the_moments_of_all_patterns(d, n):
    left, right, weight = components("complex", d, n)
    pairs = Pairs.all_of(*rows(d))
    paired = (left[:, :, None] * right[:, None, :].conj()).real
    # A real part alone is scaled by the root of two, unless it is the constant one.
    lone = (2 if n else 1) * left.real[:, :, None] * right.real[:, None, :]
    for values, alone in ((paired, False), (lone, True)):
        mean, variance = moments(values, weight)
        np.testing.assert_allclose(mean, pairs.inner**n, atol=1e-13)
        second = second_moment("complex", pairs, n, lone=alone)
        np.testing.assert_allclose(second - mean**2, variance, rtol=1e-11, atol=1e-12)
    # m real components: m // 2 complex ones of weight 2 / m, and maybe a lone one of weight 1 / m.
    for m in (1, 2, 5):
        variance = (m // 2) * (2 / m) ** 2 * moments(paired, weight)[1] + (m % 2) / m**2 * moments(lone, weight)[1]
        np.testing.assert_allclose(sketch_variance("complex", pairs, n, m), variance, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("d", [2, 3, 4])
@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_rows_of_sign_hadamard_matrices_have_the_variance_of_all_signs_and_orders(d, n, m):
    width = 2 if d == 2 else 4
    if m > width:
        pytest.skip("a second block")
    H, (A, B) = hadamard(width), rows(d)
    i, j = (np.pad(Z, ((0, 0), (0, width - d))) for Z in (A[:1], B[:1]))
    signs = patterns((1.0, -1.0), width)
    # Values (patterns, width) of x and y, and then of all ordered choices of m rows.
    values = (signs * i) @ H.T * ((signs * j) @ H.T)
    chosen = values[:, list(permutations(range(width), m))].reshape(-1, m)
    weight = np.full(len(chosen), 1 / len(chosen))
    estimates = chosen.mean(axis=1) if n == 1 else (chosen @ chosen.T / m).ravel()
    weight = weight if n == 1 else np.outer(weight, weight).ravel()
    pairs = Pairs.all_of(A[:1], B[:1])
    mean, variance = moments(estimates, weight)
    np.testing.assert_allclose(mean, pairs.inner[0, 0] ** n, atol=1e-12)
    np.testing.assert_allclose(sketch_variance("srht", pairs, n, m)[0, 0], variance, rtol=1e-10, atol=1e-12)


def test_blocks_of_sign_hadamard_matrices_are_independent():
    pairs = Pairs.all_of(*rows(3))
    for m, blocks in ((4, 1), (8, 2), (20, 5)):
        whole = sketch_variance("srht", pairs, 2, 4)
        np.testing.assert_allclose(sketch_variance("srht", pairs, 2, m), whole / blocks, atol=1e-15)
    # 7 components are a block of 4 and one of 3: variances of sums add.
    cut = (16 * whole + 9 * sketch_variance("srht", pairs, 2, 3)) / 49
    np.testing.assert_allclose(sketch_variance("srht", pairs, 2, 7), cut, atol=1e-15)
    # A complete block of a width that is a power of two is an orthogonal matrix: degree one without any error.
    np.testing.assert_allclose(sketch_variance("srht", Pairs.all_of(*rows(4)), 1, 4), 0.0, atol=1e-14)


def scaled_pairs(X, Y):
    return ScaledPairs.all_of(X, Y, np.zeros(len(X)), np.zeros(len(Y)))


@pytest.mark.parametrize("a", [(0.7, 0.5, 0.3), (0.0, 1.0, 0.5), (0.4, 0.0, 1.0)])
def test_components_that_sum_degrees_have_the_variance_of_all_patterns(a):
    d = 2
    pairs = scaled_pairs(*rows(d))
    for projection in ("rademacher", "complex"):
        if projection == "complex" and a[0]:
            continue  # the constant has a component of its own there
        one, two = components(projection, d, 1), components(projection, d, 2)

        def total(side, one=one, two=two):
            return np.sqrt(a[0]) + np.sqrt(a[1]) * one[side][:, None] + np.sqrt(a[2]) * two[side][None, :]

        left, right = (total(side).reshape(-1, total(side).shape[-1]) for side in (0, 1))
        weight = np.outer(one[2], two[2]).ravel()
        real = left.real[:, :, None] * right.real[:, None, :]
        if projection == "rademacher":
            for m in (1, 4):
                expected = moments(real, weight)[1] / m
                np.testing.assert_allclose(summed_variance(projection, pairs, a, m), expected, rtol=1e-10, atol=1e-12)
            continue
        paired = moments((left[:, :, None] * right[:, None, :].conj()).real, weight)[1]
        lone = moments(2 * real, weight)[1]
        for m in (1, 2, 5):
            expected = (4 * (m // 2) * paired + (m % 2) * lone) / m**2
            np.testing.assert_allclose(summed_variance(projection, pairs, a, m), expected, rtol=1e-10, atol=1e-12)


def test_components_that_sum_degrees_have_the_cross_terms_of_the_formula():
    # The sum of a_i^2 V_i, and of a_i a_j (|x|^2i |y|^2j + t^(i+j)) over i != j.
    pairs, a = Pairs.all_of(X, Y), (0.0, 1.0, 0.5, 0.25)
    expected = sum(a[i] ** 2 * sketch_variance("gaussian", pairs, i, 1) for i in (1, 2, 3))
    for i, j in permutations((1, 2, 3), 2):
        expected = expected + a[i] * a[j] * (pairs.left**i * pairs.right**j + pairs.inner ** (i + j))
    np.testing.assert_allclose(summed_variance("gaussian", scaled_pairs(X, Y), a, 3), expected / 3, rtol=1e-12)


def test_pairs_of_sparse_rows_are_those_of_dense_ones():
    dense, sparse = Pairs.all_of(X, Y), Pairs.all_of(sp.csr_array(X), sp.csr_array(Y))
    for name in ("inner", "left", "right", "overlap"):
        np.testing.assert_allclose(getattr(sparse, name), getattr(dense, name), atol=1e-15)
    np.testing.assert_allclose(dense.overlap, (X**2) @ (Y**2).T)
    some = dense.at(np.array([0, 1]), np.array([1, 0]))
    np.testing.assert_allclose(some.norms, [(X[0] @ X[0]) * (Y[1] @ Y[1]), (X[1] @ X[1]) * (Y[0] @ Y[0])])
    single = Pairs.all_of(X.astype(np.float32), Y.astype(np.float32))
    assert single.inner.dtype == np.float64


@pytest.mark.parametrize("projection", PROJECTIONS)
def test_moments_of_scaled_rows(projection):
    pairs, longer = Pairs.all_of(X, Y), Pairs.all_of(2 * X, 1.5 * Y)
    scaled = ScaledPairs.all_of(2 * X, 1.5 * Y, np.log(np.full(len(X), 0.5)), np.zeros(len(Y)))
    for n in (1, 3):
        np.testing.assert_allclose(
            second_moment(projection, longer, n), 9.0**n * second_moment(projection, pairs, n), rtol=1e-12
        )
        moment = second_moment(projection, scaled.directions, n)
        expected = 0.25 * second_moment(projection, longer, n)
        np.testing.assert_allclose(scaled.square(moment, (n, n), 0.0), expected, rtol=1e-12)
        np.testing.assert_allclose(scaled.term(n, np.log(3.0), -1.0), -1.5 * longer.inner**n, rtol=1e-12)


def test_scaled_pairs_of_long_rows_of_zeros_and_of_sparse_rows():
    A = np.array([[3e200, 4e200, 0.0], [0.0, 0.0, 0.0], [3e-200, 0.0, 4e-200]])
    for rows_of in (np.asarray, sp.csr_array):
        pairs = ScaledPairs.all_of(rows_of(A), rows_of(A), np.zeros(3), np.zeros(3))
        np.testing.assert_allclose(pairs.directions.left.ravel(), [1.0, 0.0, 1.0], rtol=1e-14)
        np.testing.assert_allclose(pairs.log_left.ravel(), np.log([5e200, 1.0, 5e-200]), rtol=1e-14)
        np.testing.assert_allclose(pairs.term(1, 0.0)[0, 2], 9.0, rtol=1e-12)
        assert pairs.squared_radius == np.inf
        np.testing.assert_array_equal(pairs.term(1, 0.0)[1], 0.0)
        np.testing.assert_array_equal(pairs.term(0, 0.0), 1.0)
