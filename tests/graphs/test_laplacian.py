"""Laplacians and their powers against dense formulas, and errors for invalid weights."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import laplacian as scipy_laplacian

from mercer import DataError
from mercer.graphs.laplacian import MAX_DEGREE, GraphLaplacian, error_of_square, fractional_power


def weights(n=30, seed=0, density=0.2):
    rng = np.random.default_rng(seed)
    W = np.triu(rng.uniform(0.1, 2.0, (n, n)) * (rng.uniform(size=(n, n)) < density), 1)
    return W + W.T


def with_gaps(seed=0):
    """Return weights with two connected components, a node without edges and a node with a loop only."""
    W = np.zeros((20, 20))
    W[:8, :8] = weights(8, seed, 0.9)
    W[8:18, 8:18] = weights(10, seed + 1, 0.9)
    W[19, 19] = 3.0
    return W


@pytest.mark.parametrize("W", [weights(), with_gaps()], ids=["connected", "gaps"])
def test_is_the_normalized_laplacian_of_scipy(W):
    found = GraphLaplacian.from_weights(sp.csr_array(W)).matrix.toarray()
    degree = W.sum(axis=1)
    root = np.where(degree > 0, np.maximum(degree, 1e-300) ** -0.5, 0.0)
    np.testing.assert_allclose(found, root[:, None] * (np.diag(degree) - W) * root, atol=1e-14)
    without_loops = W - np.diag(np.diagonal(W))
    if (W == without_loops).all():
        np.testing.assert_allclose(found, scipy_laplacian(W, normed=True), atol=1e-14)


def test_null_space_is_spanned_by_connected_components():
    L = GraphLaplacian.from_weights(sp.csr_array(with_gaps()))
    values = np.linalg.eigvalsh(L.matrix.toarray())
    assert (np.abs(values) < 1e-12).sum() == L.n_connected_components == 4
    assert values.min() > -1e-12
    assert values.max() < 2 + 1e-12
    constant = np.sqrt(with_gaps().sum(axis=1)) * (np.arange(20) < 8)
    np.testing.assert_allclose(L.matrix @ constant, 0, atol=1e-13)
    assert L.n_isolated == 2
    assert L.n_edges == (np.triu(with_gaps(), 1) > 0).sum()


@pytest.mark.parametrize("power", [0, 1, 2, 3, 5])
def test_integer_powers_are_exact(power):
    L = GraphLaplacian.from_weights(sp.csr_array(with_gaps()))
    root = L.root(power)
    identity = np.eye(20)
    found = root(root.middle(root(identity)))
    np.testing.assert_allclose(found, np.linalg.matrix_power(L.matrix.toarray(), power), atol=1e-12)
    if power:
        np.testing.assert_allclose(found, L.power(power), atol=1e-12)
    assert root.error == 0.0


@pytest.mark.parametrize("power", [0.5, 0.9, 1.5, 2.2, 3.7, 6.5])
def test_error_bound_of_fractional_powers(power):
    L = GraphLaplacian.from_weights(sp.csr_array(with_gaps()))
    root = L.root(power)
    assert root.odd == 0
    R = root(np.eye(20))
    gap = np.linalg.norm(R @ R - L.power(power), 2)
    assert gap <= root.error + 1e-12
    assert gap > 1e-3 * root.error  # the bound is not vacuous
    # The null space is preserved.
    constant = np.sqrt(with_gaps().sum(axis=1)) * (np.arange(20) < 8)
    np.testing.assert_allclose(root(constant[:, None]), 0, atol=1e-12)


@given(st.floats(0.05, 4.9).filter(lambda s: abs(s - round(s)) > 1e-3))
def test_error_bound_of_power_polynomials(s):
    coefficients, error = fractional_power(s)
    x = np.concatenate([np.linspace(0, 2, 2001), np.geomspace(1e-12, 1e-2, 200)])
    values = np.polynomial.chebyshev.chebval(x - 1, coefficients)
    assert np.abs(values - x**s).max() <= error * (1 + 1e-9) + 1e-12
    assert abs(np.polynomial.chebyshev.chebval(-1.0, coefficients)) < 1e-12
    assert len(coefficients) <= MAX_DEGREE + 1


def test_error_bound_of_power_polynomials_is_tight():
    coefficients, error = fractional_power(0.5)
    x = np.linspace(0, 2, 200_001)
    assert np.abs(np.polynomial.chebyshev.chebval(x - 1, coefficients) - np.sqrt(x)).max() > 0.4 * error


@pytest.mark.parametrize("power", [0.1, 0.25, 0.5, 0.9, 1.3, 2.5])
def test_error_of_powers_is_concentrated_near_zero(power):
    coefficients, _ = fractional_power(power / 2)
    x = np.concatenate([[0.0], np.geomspace(1e-12, 2, 20_001)])
    gap = np.abs(np.polynomial.chebyshev.chebval(x - 1, coefficients) ** 2 - x**power)
    error = GraphLaplacian.from_weights(sp.csr_array(weights())).root(power).error
    assert gap.max() <= error <= error_of_square(coefficients, power)
    if power < 1:
        assert gap.max() > 0.8 * error  # the bound is tight
    assert gap[x > 0.01].max() < 0.005
    # The bound holds for any series.
    other = coefficients + np.random.default_rng(0).normal(0, 0.02, len(coefficients))
    gap = np.abs(np.polynomial.chebyshev.chebval(x - 1, other) ** 2 - x**power).max()
    assert 0.9 * error_of_square(other, power) < gap <= error_of_square(other, power)


def test_float32_columns_give_float32_products():
    L = GraphLaplacian.from_weights(sp.csr_array(weights()))
    X = np.random.default_rng(1).normal(size=(30, 5)).astype(np.float32)
    for power in (1, 3, 1.5):
        root = L.root(power).astype(np.float32)
        assert root.middle(root(X)).dtype == np.float32
        exact = L.root(power)
        np.testing.assert_allclose(root(X), exact(X.astype(np.float64)), atol=1e-5)


def broken(change):
    W = sp.lil_array(weights())
    change(W)
    return sp.csr_array(W)


def set_entries(W, *entries):
    for i, j, value in entries:
        W[i, j] = value


@pytest.mark.parametrize(
    ("W", "says"),
    [
        (broken(lambda W: set_entries(W, (1, 2, -1.0), (2, 1, -1.0))), "must be >= 0.*got -1"),
        (broken(lambda W: set_entries(W, (1, 2, np.nan), (2, 1, np.nan))), "must be finite"),
        (broken(lambda W: set_entries(W, (1, 2, np.inf), (2, 1, np.inf))), "must be finite"),
        (
            broken(lambda W: set_entries(W, (1, 2, 9.0), (2, 1, 1.0))),
            r"got W\[1, 2\] = 9 and W\[2, 1\] = 1.*maximum",
        ),
        (weights(), "sparse matrix, got ndarray. Try scipy.sparse.csr_array"),
        (sp.csr_array((3, 4)), r"square.*got shape \(3, 4\)"),
        (sp.csr_array(np.eye(3) * 1j), "real numbers, got dtype complex"),
        (sp.csr_array(np.full((3, 3), 1e308)), "finite sums"),
    ],
)
def test_invalid_weights_raise(W, says):
    with np.errstate(over="ignore"), pytest.raises(DataError, match=says):
        GraphLaplacian.from_weights(W)


def test_weights_of_any_format_and_tiny_asymmetry_are_accepted():
    W = weights()
    expected = GraphLaplacian.from_weights(sp.csr_array(W)).matrix.toarray()
    twice = sp.coo_array((np.ones(2) * 0.5, ([0, 0], [1, 1])), shape=(30, 30))
    extra = twice + twice.T
    for form in (sp.csc_matrix(W), sp.coo_array(W), sp.csr_matrix(W)):
        np.testing.assert_allclose(GraphLaplacian.from_weights(form).matrix.toarray(), expected)
    np.testing.assert_allclose(
        GraphLaplacian.from_weights(sp.csr_array(W * (1 + 1e-12 * weights(seed=3)))).matrix.toarray(), expected
    )
    summed = GraphLaplacian.from_weights(sp.csr_array(W) + extra).matrix.toarray()
    np.testing.assert_allclose(summed, GraphLaplacian.from_weights(sp.csr_array(W + extra.toarray())).matrix.toarray())
    kept = sp.csr_array(W)
    before = kept.copy()
    GraphLaplacian.from_weights(kept)
    assert (kept != before).nnz == 0


def test_symmetry_tolerance_is_relative_to_the_degrees():
    # A weight of 5 is small compared with 1e7, but it is the only weight of two other nodes.
    W = np.zeros((4, 4))
    W[0, 1] = W[1, 0] = 1e7
    W[2, 3] = 5.0
    with pytest.raises(DataError, match=r"got W\[2, 3\] = 5 and W\[3, 2\] = 0"):
        GraphLaplacian.from_weights(sp.csr_array(W))
    W[3, 2] = 5.0 * (1 + 1e-9)
    matrix = GraphLaplacian.from_weights(sp.csr_array(W)).matrix
    assert (matrix != matrix.T).nnz == 0


@pytest.mark.parametrize("size", [5e-324, 1e-310, 1e-200, 1e300])
def test_scale_of_weights_does_not_matter(size):
    # The weight of a distant pair of rows may be the smallest positive number.
    W = np.zeros((5, 5))
    W[0, 1] = W[1, 0] = size
    W[2, 3] = W[3, 2] = W[3, 4] = W[4, 3] = 1.0
    found = GraphLaplacian.from_weights(sp.csr_array(W)).matrix.toarray()
    np.testing.assert_allclose(found[:2, :2], [[1, -1], [-1, 1]], atol=1e-12)
    np.testing.assert_allclose(found[2:, 2:], GraphLaplacian.from_weights(sp.csr_array(W[2:, 2:])).matrix.toarray())


def test_integer_weights_and_a_graph_without_edges():
    ring = sp.csr_array(np.roll(np.eye(5, dtype=int), 1, axis=0) + np.roll(np.eye(5, dtype=int), -1, axis=0))
    np.testing.assert_allclose(np.diagonal(GraphLaplacian.from_weights(ring).matrix.toarray()), 1.0)
    empty = GraphLaplacian.from_weights(sp.csr_array((4, 4)))
    assert (empty.n_connected_components, empty.n_isolated, empty.n_edges) == (4, 4, 0)
    assert empty.matrix.nnz == 0
