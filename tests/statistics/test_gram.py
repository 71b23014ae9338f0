"""Products of tall matrices add up to the same however tiles, blocks and threads are cut."""

import numpy as np
import pytest

from mercer.engines.base import workers
from mercer.statistics import GramSum, add_products


def upper_as_whole(upper):
    return np.triu(upper) + np.triu(upper, 1).T


@pytest.mark.parametrize("D", [1, 7, 64, 65, 200, 700])
@pytest.mark.parametrize("threads", [1, 3])
def test_tiles_make_the_whole_matrix(D, threads):
    Z = np.random.default_rng(0).normal(size=(50, D))
    total = GramSum(D)
    with workers(threads) as team:
        total.add(Z[:20], team)
        total.add(Z[20:], team)
    np.testing.assert_allclose(upper_as_whole(total.result()), Z.T @ Z, rtol=1e-10, atol=1e-10)


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
