"""Gram matrices are the same for any tiles, blocks and threads, about any point."""

import numpy as np
import pytest

from mercer.engines.base import workers
from mercer.statistics.moments import (
    GramSum,
    add_products,
    far_mean,
    moved_gram,
    pack_upper,
    point_near,
    symmetric,
    unpack_upper,
    upper_norm,
)


@pytest.mark.parametrize("D", [1, 7, 64, 65, 200, 700])
@pytest.mark.parametrize("threads", [1, 3])
def test_tiles_make_the_complete_matrix(D, threads):
    Z = np.random.default_rng(0).normal(size=(50, D))
    total = GramSum(D)
    with workers(threads) as team:
        total.add(Z[:20], team)
        total.add(Z[20:], team)
    np.testing.assert_allclose(symmetric(total.result()), Z.T @ Z, rtol=1e-10, atol=1e-10)


def test_float32_products_are_added_in_float64():
    # A single product in float32 would lose what is added to a large sum.
    ones = np.ones((1024, 1), dtype=np.float32)
    total = GramSum(1)
    with workers(1) as team:
        total.add(np.full((1, 1), 2.0**13, dtype=np.float32), team)  # 2^26
        for _ in range(3):
            total.add(ones[:1], team)
    assert total.result()[0, 0] == 2.0**26 + 3
    assert np.float32(2.0**26) + np.float32(1) == np.float32(2.0**26)  # as it would have been


@pytest.mark.parametrize(("p", "q"), [(1, 1), (5, 130), (600, 70)])
def test_products_of_two_matrices(p, q):
    rng = np.random.default_rng(1)
    left, right = rng.normal(size=(40, p)), rng.normal(size=(40, q))
    total = np.ones((p, q))
    with workers(2) as team:
        add_products(total, left, right, team, upper=False)
    np.testing.assert_allclose(total, 1 + left.T @ right, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("D", [3, 65, 200])
def test_upper_products_of_two_matrices(D):
    rng = np.random.default_rng(2)
    left, right = rng.normal(size=(40, D)), rng.normal(size=(40, D))
    total = np.zeros((D, D))
    with workers(2) as team:
        add_products(total, left, right, team, upper=True)
    np.testing.assert_allclose(np.triu(total), np.triu(left.T @ right), rtol=1e-12, atol=1e-12)


def test_only_a_mean_far_from_zero_is_a_shift():
    Z = np.random.default_rng(0).normal(size=(300, 5))
    assert far_mean(Z) is None
    assert far_mean(Z + 1) is None
    shift = far_mean(Z + 10)
    np.testing.assert_allclose(shift, 10, atol=0.3)
    np.testing.assert_array_equal(shift, shift.astype(np.float32))  # the same point for features of any dtype
    assert far_mean(np.full((3, 2), 1e200)) is None  # beyond float32
    assert far_mean(np.array([[1e30, 0], [np.inf, 1]])) is None
    np.testing.assert_array_equal(point_near(Z + 10), shift)
    np.testing.assert_array_equal(point_near(Z), np.zeros(5))


def test_moments_move_to_any_point():
    rng = np.random.default_rng(0)
    Z, w = rng.normal(size=(90, 70)) + 3, rng.uniform(0, 2, size=90)
    a, b = rng.normal(size=(2, 70))

    def about(point):
        return ((Z - point) * w[:, None]).T @ (Z - point)

    for start, end in ((a, b), (None, b), (a, np.zeros(70))):
        gram = np.triu(about(0.0 if start is None else start))
        found = moved_gram(gram, w @ Z, w.sum(), start, end)
        np.testing.assert_allclose(symmetric(found), about(end), rtol=1e-11, atol=1e-9)


# ---- triangles --------------------------------------------------------------------------------


@pytest.mark.parametrize("D", [0, 1, 2, 7, 64])
def test_packed_triangles_are_restored(D):
    matrix = np.random.default_rng(D).normal(size=(D, D))
    packed = pack_upper(matrix)
    assert packed.shape == (D * (D + 1) // 2,)
    np.testing.assert_array_equal(packed, matrix[np.triu_indices(D)])
    np.testing.assert_array_equal(unpack_upper(packed), np.triu(matrix))


@pytest.mark.parametrize("unit", [1e-200, 1.0, 1e200])
def test_the_norm_of_a_triangle_is_that_of_the_symmetric_matrix(unit):
    Z = np.random.default_rng(0).normal(size=(9, 5))
    A = Z.T @ Z
    littered = np.where(np.tri(5, k=-1), np.nan, A * unit)
    np.testing.assert_allclose(upper_norm(littered), unit * np.linalg.norm(A), rtol=1e-12)
    assert upper_norm(np.zeros((3, 3))) == 0.0
    assert upper_norm(np.full((2, 2), np.inf)) == np.inf
