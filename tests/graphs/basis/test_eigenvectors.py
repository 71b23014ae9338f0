"""Eigenvectors of Laplacians against dense decompositions and closed forms."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import MercerWarning, NeighborGraph
from mercer.graphs import GraphLaplacian
from mercer.graphs.basis import eigenvectors
from mercer.graphs.basis.eigenvectors import null_space, smoothest_eigenvectors


def laplacian_of(n=700, d=3, seed=0, parts=1):
    X = np.random.default_rng(seed).normal(size=(n, d))
    X[:, 0] += 100.0 * (np.arange(n) % parts)
    return NeighborGraph(6).laplacian(X)


@pytest.fixture
def iterated(monkeypatch):
    """Make the iteration run where a dense decomposition would take less time."""
    monkeypatch.setattr(eigenvectors, "DENSE_NODES", 0)
    monkeypatch.setattr(eigenvectors, "DENSE_FRACTION", 1.0)


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.usefixtures("iterated")
def test_iteration_finds_the_eigenpairs_of_a_dense_decomposition(parts):
    laplacian = laplacian_of(parts=parts)
    exact = np.linalg.eigvalsh(laplacian.matrix.toarray())
    found = smoothest_eigenvectors(laplacian, 25, tol=1e-6)
    assert found.values == pytest.approx(exact[:25], abs=1e-9)
    assert found.next_value == pytest.approx(exact[25], abs=1e-3)
    assert found.vectors.T @ found.vectors == pytest.approx(np.eye(25), abs=1e-9)
    residuals = np.linalg.norm(laplacian.matrix @ found.vectors - found.vectors * found.values, axis=0)
    assert residuals.max() == pytest.approx(found.residual, abs=1e-9)
    assert found.residual <= 1e-6


@pytest.mark.usefixtures("iterated")
def test_rows_in_float32_have_residuals_of_that_precision():
    laplacian = laplacian_of()
    exact = np.linalg.eigvalsh(laplacian.matrix.toarray())
    found = smoothest_eigenvectors(laplacian, 20, dtype=np.float32)
    assert found.vectors.dtype == np.float32
    assert found.values == pytest.approx(exact[:20], abs=1e-5)
    assert found.residual < 1e-4


def test_a_ring_has_the_eigenvalues_of_its_closed_form():
    n = 3000
    ring = sp.diags_array([1.0, 1.0], offsets=[1, -1], shape=(n, n)).tolil()
    ring[0, -1] = ring[-1, 0] = 1.0
    found = smoothest_eigenvectors(GraphLaplacian.from_weights(ring.tocsr()), 7, tol=1e-7)
    assert found.values == pytest.approx(1 - np.cos(2 * np.pi * np.array([0, 1, 1, 2, 2, 3, 3]) / n), abs=1e-9)


def test_null_space_has_one_vector_per_component_and_the_largest_come_first():
    W = sp.block_diag([np.ones((3, 3)), np.ones((5, 5)), np.ones((2, 2))], format="csr")
    laplacian = GraphLaplacian.from_weights(W)
    vectors = null_space(laplacian.matrix, laplacian.degree, 2)
    assert abs(laplacian.matrix @ vectors).max() < 1e-14
    assert np.flatnonzero(vectors[:, 0]).tolist() == [3, 4, 5, 6, 7]
    assert np.flatnonzero(vectors[:, 1]).tolist() == [0, 1, 2]


def test_rows_without_an_edge_come_last():
    W = np.zeros((6, 6))
    W[0, 1] = W[1, 0] = W[1, 2] = W[2, 1] = 1.0
    found = smoothest_eigenvectors(GraphLaplacian.from_weights(sp.csr_array(W)), 5)
    assert found.values == pytest.approx([0.0, 1.0, 2.0, 0.0, 0.0], abs=1e-12)
    assert found.vectors[3:5, 3:] == pytest.approx(np.eye(2))
    assert found.next_value == 0.0
    complete = smoothest_eigenvectors(GraphLaplacian.from_weights(sp.csr_array(W)), 6)
    assert complete.vectors @ complete.vectors.T == pytest.approx(np.eye(6), abs=1e-12)
    assert complete.next_value == np.inf


def test_degrees_that_are_not_known_do_not_change_the_result():
    known = laplacian_of(n=300)
    found = smoothest_eigenvectors(GraphLaplacian(known.matrix), 10)
    assert found.values == pytest.approx(smoothest_eigenvectors(known, 10).values, abs=1e-12)


@pytest.mark.usefixtures("iterated")
def test_an_iteration_that_ends_early_warns(monkeypatch):
    monkeypatch.setattr(eigenvectors, "MOST_ITERATIONS", 1)
    with pytest.warns(MercerWarning, match="have residuals up to .* after 1 iterations"):
        smoothest_eigenvectors(laplacian_of(), 60, tol=1e-12)


@pytest.mark.usefixtures("iterated")
def test_result_does_not_depend_on_threads():
    one, two = (smoothest_eigenvectors(laplacian_of(), 12, n_jobs=jobs) for jobs in (1, 2))
    assert np.array_equal(one.vectors, two.vectors)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other = smoothest_eigenvectors(laplacian_of(), 12, seed=1)
    assert other.values == pytest.approx(one.values, abs=1e-7)
