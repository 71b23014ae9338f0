"""Phi' M Phi against the dense product, for any power, memory, number of threads and kind of rows."""

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import Gaussian, NeighborGraph, RandomFourier
from mercer.graphs import roughness
from mercer.graphs.roughness import sum_roughness

N, D = 150, 70


def rows(seed=0):
    return np.random.default_rng(seed).normal(0.3, 1.0, size=(N, 4))


def drawn(X, seed=0):
    return RandomFourier(Gaussian(1.5), D, random_state=seed).fit(X)


def exact(fitted, X, power):
    Phi = fitted.transform(X)
    return Phi.T @ NeighborGraph(5).laplacian(X).power(power) @ Phi


def upper(A):
    return np.triu(A)


@pytest.mark.parametrize("power", [1, 2, 3, 4])
@pytest.mark.parametrize("columns", [D, 40, 24, 1, 0], ids=lambda c: f"{c}-columns")
def test_is_the_dense_product(power, columns, monkeypatch):
    monkeypatch.setattr(roughness, "SLICE_ROWS", 32)
    monkeypatch.setattr(roughness, "TASK_ROWS", 40)
    monkeypatch.setattr(roughness, "NARROW_COLUMNS", 24)
    monkeypatch.setattr(roughness, "block_rows_for", lambda *_: 50)
    X = rows()
    fitted, root = drawn(X), NeighborGraph(5).laplacian(X).root(power)
    found = sum_roughness(fitted.features_, X, root, alpha=2.5, memory=columns * N * 8, n_jobs=2)
    np.testing.assert_allclose(upper(found), upper(2.5 * exact(fitted, X, power)), atol=1e-11)


@pytest.mark.parametrize("columns", [D, 24])
def test_fractional_powers(columns):
    X = rows()
    fitted, root = drawn(X), NeighborGraph(5).laplacian(X).root(2.5)
    found = sum_roughness(fitted.features_, X, root, alpha=1.0, memory=columns * N * 8, n_jobs=1)
    gap = upper(found) + upper(found).T - np.diag(np.diagonal(found)) - exact(fitted, X, 2.5)
    largest = np.linalg.norm(fitted.transform(X), 2) ** 2
    assert np.linalg.norm(gap, 2) <= root.error * largest


def test_power_zero_is_the_second_moment():
    X = rows()
    Phi = drawn(X).transform(X)
    root = NeighborGraph(5).laplacian(X).root(0)
    found = sum_roughness(drawn(X).features_, X, root, alpha=1.0, memory=2**30, n_jobs=1)
    np.testing.assert_allclose(upper(found), upper(Phi.T @ Phi), atol=1e-11)


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("columns", [D, 24])
def test_threads_change_no_bit(power, columns, monkeypatch):
    monkeypatch.setattr(roughness, "SLICE_ROWS", 16)
    X = rows()
    root = NeighborGraph(5).laplacian(X).root(power)
    sums = [
        sum_roughness(drawn(X).features_, X, root, alpha=1.0, memory=columns * N * 8, n_jobs=jobs) for jobs in (1, 2, 5)
    ]
    assert all(np.array_equal(upper(sums[0]), upper(other)) for other in sums)


@pytest.mark.parametrize("columns", [D, 24])
def test_sparse_rows(columns):
    X = rows() * (np.random.default_rng(1).uniform(size=(N, 4)) < 0.5)
    X[:, 0] += 0.01 * np.arange(N)
    root = NeighborGraph(5).laplacian(X).root(2)
    dense, sparse = (
        sum_roughness(drawn(X).features_, form, root, alpha=1.0, memory=columns * N * 8, n_jobs=1)
        for form in (X, sp.csr_array(X))
    )
    np.testing.assert_allclose(upper(dense), upper(sparse), atol=1e-11)


@pytest.mark.parametrize("power", [1, 2, 3])
def test_float32_is_close_and_turns_to_float64_where_it_must(power, monkeypatch):
    X = rows().astype(np.float32)
    root = NeighborGraph(5).laplacian(X).root(power)
    expected = exact(drawn(X), X.astype(np.float64), power)
    near = sum_roughness(drawn(X).features_, X, root, alpha=1.0, memory=2**30, n_jobs=1)
    np.testing.assert_allclose(upper(near), upper(expected), atol=1e-4)
    # Beside the identity a rounding of 1e6 times that would not be small.
    used = []
    original = roughness._Sum.__init__

    def spy(self, features, X, root, dtype, team):
        used.append(dtype)
        original(self, features, X, root, dtype, team)

    monkeypatch.setattr(roughness._Sum, "__init__", spy)
    large = sum_roughness(drawn(X).features_, X, root, alpha=1e7, memory=2**30, n_jobs=1)
    assert used == [np.float32, np.float64]
    np.testing.assert_allclose(upper(large) / 1e7, upper(expected), atol=1e-5)
    used.clear()
    sum_roughness(drawn(X).features_, X, root, alpha=1.0, memory=2**30, n_jobs=1)
    assert used == [np.float32]


def dtypes_of_products(monkeypatch):
    """Return a list that the dtype of every dense product of a sum is added to."""
    used, original = [], roughness.add_products

    def spy(total, block, beside, *rest, **options):
        used.append(block.dtype)
        original(total, block, beside, *rest, **options)

    monkeypatch.setattr(roughness, "add_products", spy)
    return used


class OneLargeColumn:
    """Features of which one column is larger than all others, and is not among those that are looked at."""

    def __init__(self, features, factor):
        self.features, self.factor, self.n_components = features, factor, features.n_components

    def astype(self, dtype):
        return OneLargeColumn(self.features.astype(dtype), self.factor)

    def output_dtype(self, dtype):
        return self.features.output_dtype(dtype)

    def __call__(self, X, out):
        self.features(X, out)
        out[:, 1] *= self.factor


@pytest.mark.parametrize("power", [1, 2, 2.5, 3])
@pytest.mark.parametrize("columns", [D, 24])
def test_a_look_at_few_columns_saves_products_in_float32(power, columns, monkeypatch):
    X = rows().astype(np.float32)
    root, features = NeighborGraph(5).laplacian(X).root(power), drawn(X).features_
    used = dtypes_of_products(monkeypatch)
    large = sum_roughness(features, X, root, alpha=1e7, memory=columns * N * 4, n_jobs=1)
    assert set(used) == {np.dtype(np.float64)}
    monkeypatch.setattr(roughness, "ROUNDING", 1e-30)
    used.clear()
    near = sum_roughness(features, X, root, alpha=1e7, memory=columns * N * 4, n_jobs=1)
    assert set(used) == {np.dtype(np.float32)}
    np.testing.assert_allclose(upper(near) / 1e7, upper(large) / 1e7, atol=1e-4)


@pytest.mark.parametrize("power", [1, 2, 3])
def test_the_look_is_right_to_the_last_columns(power, monkeypatch):
    # At a little more than the largest entry of those looked at, products in float32 are not begun.
    X = rows().astype(np.float32)
    root, features = NeighborGraph(5).laplacian(X).root(power), drawn(X).features_
    entries = np.diagonal(exact(drawn(X), X.astype(np.float64), power))[:: -(-D // roughness.LOOK_COLUMNS)]
    used = dtypes_of_products(monkeypatch)
    most = roughness.MOST_ROUNDING / roughness.ROUNDING
    for share, dtype in ((0.99, np.float32), (1.01, np.float64)):
        used.clear()
        sum_roughness(features, X, root, alpha=share * most / entries.max(), memory=2**30, n_jobs=1)
        assert used[0] == dtype


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("columns", [D, 24, 1])
def test_what_the_look_does_not_see_the_sum_does(power, columns, monkeypatch):
    monkeypatch.setattr(roughness, "LOOK_COLUMNS", 4)
    X = rows().astype(np.float32)
    root = NeighborGraph(5).laplacian(X).root(power)
    features = OneLargeColumn(drawn(X).features_, np.float32(1e4))
    used = dtypes_of_products(monkeypatch)
    found = sum_roughness(features, X, root, alpha=1.0, memory=columns * N * 4, n_jobs=1)
    assert used[0] == np.float32
    assert used[-1] == np.float64
    expected = exact(drawn(X), X.astype(np.float64), power)
    expected[1] *= 1e4
    expected[:, 1] *= 1e4
    np.testing.assert_allclose(upper(found), upper(expected), rtol=1e-3, atol=1e-2)
    # No product in float32 after the panel that has the column.
    assert used.count(np.dtype(np.float32)) <= (3 if columns == 1 else 1)


def test_without_alpha_no_rounding_is_too_large():
    X = rows().astype(np.float32)
    root = NeighborGraph(5).laplacian(X).root(1)
    assert not sum_roughness(drawn(X).features_, X, root, alpha=0.0, memory=2**30, n_jobs=1).any()
