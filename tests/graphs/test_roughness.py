"""Phi' M Phi against the dense product, for all powers, panel widths, numbers of threads and kinds of rows."""

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import Gaussian, NeighborGraph, RandomFourier
from mercer.graphs import roughness
from mercer.graphs.roughness import sum_roughness

pytestmark = pytest.mark.covering(1)

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
def test_roughness_is_the_dense_product(power, columns, monkeypatch):
    monkeypatch.setattr(roughness, "SLICE_ROWS", 32)
    monkeypatch.setattr(roughness, "TASK_ROWS", 40)
    monkeypatch.setattr(roughness, "NARROW_COLUMNS", 24)
    monkeypatch.setattr(roughness, "block_rows_for", lambda *_: 50)
    X = rows()
    fitted, root = drawn(X), NeighborGraph(5).laplacian(X).root(power)
    found = sum_roughness(fitted.features_, X, root, strength=2.5, max_bytes=columns * N * 8, n_jobs=2)
    np.testing.assert_allclose(upper(found), upper(2.5 * exact(fitted, X, power)), atol=1e-11)


@pytest.mark.parametrize("columns", [D, 24])
def test_fractional_powers(columns):
    X = rows()
    fitted, root = drawn(X), NeighborGraph(5).laplacian(X).root(2.5)
    found = sum_roughness(fitted.features_, X, root, strength=1.0, max_bytes=columns * N * 8, n_jobs=1)
    gap = upper(found) + upper(found).T - np.diag(np.diagonal(found)) - exact(fitted, X, 2.5)
    largest = np.linalg.norm(fitted.transform(X), 2) ** 2
    assert np.linalg.norm(gap, 2) <= root.error * largest


def test_power_zero_is_the_second_moment():
    X = rows()
    Phi = drawn(X).transform(X)
    root = NeighborGraph(5).laplacian(X).root(0)
    found = sum_roughness(drawn(X).features_, X, root, strength=1.0, max_bytes=2**30, n_jobs=1)
    np.testing.assert_allclose(upper(found), upper(Phi.T @ Phi), atol=1e-11)


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("columns", [D, 24])
def test_result_does_not_depend_on_threads(power, columns, monkeypatch):
    monkeypatch.setattr(roughness, "SLICE_ROWS", 16)
    X = rows()
    root = NeighborGraph(5).laplacian(X).root(power)
    sums = [
        sum_roughness(drawn(X).features_, X, root, strength=1.0, max_bytes=columns * N * 8, n_jobs=jobs)
        for jobs in (1, 2, 5)
    ]
    assert all(np.array_equal(upper(sums[0]), upper(other)) for other in sums)


@pytest.mark.parametrize("columns", [D, 24])
def test_sparse_rows(columns):
    X = rows() * (np.random.default_rng(1).uniform(size=(N, 4)) < 0.5)
    X[:, 0] += 0.01 * np.arange(N)
    root = NeighborGraph(5).laplacian(X).root(2)
    dense, sparse = (
        sum_roughness(drawn(X).features_, form, root, strength=1.0, max_bytes=columns * N * 8, n_jobs=1)
        for form in (X, sp.csr_array(X))
    )
    np.testing.assert_allclose(upper(dense), upper(sparse), atol=1e-11)


@pytest.mark.parametrize("power", [1, 2, 3])
def test_float32_switches_to_float64_for_a_large_strength(power, monkeypatch):
    X = rows().astype(np.float32)
    root = NeighborGraph(5).laplacian(X).root(power)
    expected = exact(drawn(X), X.astype(np.float64), power)
    near = sum_roughness(drawn(X).features_, X, root, strength=1.0, max_bytes=2**30, n_jobs=1)
    np.testing.assert_allclose(upper(near), upper(expected), atol=1e-4)
    # A rounding error that is 1e7 times larger is not small compared with the identity.
    used = []
    original = roughness._Sum.__init__

    def spy(self, features, X, root, dtype, team, report):
        used.append(dtype)
        original(self, features, X, root, dtype, team, report)

    monkeypatch.setattr(roughness._Sum, "__init__", spy)
    large = sum_roughness(drawn(X).features_, X, root, strength=1e7, max_bytes=2**30, n_jobs=1)
    assert used == [np.float32, np.float64]
    np.testing.assert_allclose(upper(large) / 1e7, upper(expected), atol=1e-5)
    used.clear()
    sum_roughness(drawn(X).features_, X, root, strength=1.0, max_bytes=2**30, n_jobs=1)
    assert used == [np.float32]


def dtypes_of_products(monkeypatch):
    """Return a list to which the dtype of every dense product of a sum is appended."""
    used, original = [], roughness.add_products

    def spy(total, block, beside, *rest, **options):
        used.append(block.dtype)
        original(total, block, beside, *rest, **options)

    monkeypatch.setattr(roughness, "add_products", spy)
    return used


class OneLargeColumn:
    """Features with one large column that is not among the pilot columns."""

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
def test_pilot_columns_prevent_products_in_float32(power, columns, monkeypatch):
    X = rows().astype(np.float32)
    root, features = NeighborGraph(5).laplacian(X).root(power), drawn(X).features_
    used = dtypes_of_products(monkeypatch)
    large = sum_roughness(features, X, root, strength=1e7, max_bytes=columns * N * 4, n_jobs=1)
    assert set(used) == {np.dtype(np.float64)}
    monkeypatch.setattr(roughness, "ROUNDING", 1e-30)
    used.clear()
    near = sum_roughness(features, X, root, strength=1e7, max_bytes=columns * N * 4, n_jobs=1)
    assert set(used) == {np.dtype(np.float32)}
    np.testing.assert_allclose(upper(near) / 1e7, upper(large) / 1e7, atol=1e-4)


@pytest.mark.parametrize("power", [1, 2, 3])
def test_pilot_columns_detect_the_limit_exactly(power, monkeypatch):
    # Just above the limit of the largest pilot entry, no product is computed in float32.
    X = rows().astype(np.float32)
    root, features = NeighborGraph(5).laplacian(X).root(power), drawn(X).features_
    entries = np.diagonal(exact(drawn(X), X.astype(np.float64), power))[:: -(-D // roughness.PILOT_COLUMNS)]
    used = dtypes_of_products(monkeypatch)
    most = roughness.MAX_ROUNDING / roughness.ROUNDING
    for share, dtype in ((0.99, np.float32), (1.01, np.float64)):
        used.clear()
        sum_roughness(features, X, root, strength=share * most / entries.max(), max_bytes=2**30, n_jobs=1)
        assert used[0] == dtype


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("columns", [D, 24, 1])
def test_sum_detects_large_columns_that_are_not_pilot_columns(power, columns, monkeypatch):
    monkeypatch.setattr(roughness, "PILOT_COLUMNS", 4)
    X = rows().astype(np.float32)
    root = NeighborGraph(5).laplacian(X).root(power)
    features = OneLargeColumn(drawn(X).features_, np.float32(1e4))
    used = dtypes_of_products(monkeypatch)
    found = sum_roughness(features, X, root, strength=1.0, max_bytes=columns * N * 4, n_jobs=1)
    assert used[0] == np.float32
    assert used[-1] == np.float64
    expected = exact(drawn(X), X.astype(np.float64), power)
    expected[1] *= 1e4
    expected[:, 1] *= 1e4
    np.testing.assert_allclose(upper(found), upper(expected), rtol=1e-3, atol=1e-2)
    # No product in float32 after the panel that contains the large column.
    assert used.count(np.dtype(np.float32)) <= (3 if columns == 1 else 1)


def test_strength_of_zero_gives_zero_in_float32():
    X = rows().astype(np.float32)
    root = NeighborGraph(5).laplacian(X).root(1)
    assert not sum_roughness(drawn(X).features_, X, root, strength=0.0, max_bytes=2**30, n_jobs=1).any()
