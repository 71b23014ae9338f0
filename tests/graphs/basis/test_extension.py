"""Values of eigenvectors at new rows."""

import numpy as np
import pytest

from mercer import GraphBasis, NeighborGraph
from mercer.graphs.basis.extension import Neighborhood
from mercer.neighbors import neighbor_index


def test_weights_are_those_of_a_gaussian_and_sum_to_one():
    nodes = np.array([[0.0], [1.0], [3.0]])
    found, weights = Neighborhood(neighbor_index(nodes), 2, 1.0)(np.array([[0.25]]))
    assert found.tolist() == [[0, 1]]
    raw = np.exp(-0.5 * np.array([0.25, 0.75]) ** 2)
    assert weights[0] == pytest.approx(raw / raw.sum())


def test_nodes_and_near_copies_have_one_neighbor_and_far_rows_have_finite_weights():
    nodes = np.array([[0.0], [1.0], [3.0]])
    neighborhood = Neighborhood(neighbor_index(nodes), 3, 1.0)
    found, weights = neighborhood(np.array([[1.0], [1.0 + 1e-9], [1e6]]))
    assert found[:, 0].tolist() == [1, 1, 2]
    assert weights[:2].tolist() == [[1.0, 0.0, 0.0]] * 2
    assert weights[2] == pytest.approx([1.0, 0.0, 0.0])
    assert neighborhood.copies(weights)[:2].all()


def test_binary_weights_are_equal():
    neighborhood = Neighborhood(neighbor_index(np.arange(4.0)[:, None]), 2, None)
    assert neighborhood(np.array([[0.4]]))[1].tolist() == [[0.5, 0.5]]


@pytest.mark.parametrize("laplacian", ["random_walk", "symmetric"])
def test_extension_is_the_mean_of_neighbors_divided_by_one_minus_the_eigenvalue(laplacian):
    X = np.random.default_rng(0).normal(size=(200, 3))
    basis = GraphBasis(NeighborGraph(5), 10, laplacian=laplacian).fit(X)
    new = np.random.default_rng(1).normal(size=(7, 3))
    found, weights = basis.features_.neighborhood(new)
    at_nodes = basis.transform(X)
    if laplacian == "symmetric":
        roots = basis.features_.node_scale
        expected = np.einsum("ij,ijk->ik", weights, (at_nodes / roots[:, None])[found])
        expected *= (weights * roots[found]).sum(axis=1)[:, None]
    else:
        expected = np.einsum("ij,ijk->ik", weights, at_nodes[found])
    assert basis.transform(new) == pytest.approx(expected / (1 - basis.eigenvalues_), abs=1e-12)


def test_extension_of_eigenvectors_of_a_line_is_near_their_values():
    # The eigenvectors of a dense sample of an interval are cosines.
    t = np.linspace(0, 1, 801)
    X = np.column_stack([t, t])
    basis = GraphBasis(NeighborGraph(4), 4, strength=0.0).fit(X[::2])
    values, middle = basis.transform(X[::2]), basis.transform(X[1::2])
    between = (values[1:] + values[:-1]) / 2
    assert np.abs(middle - between)[5:-5].max() < 1e-3


def test_nodes_of_which_a_row_would_be_a_neighbor_are_its_neighbors():
    nodes, radii = np.array([[0.0], [1.0], [3.0], [7.0]]), np.array([1.0, 1.0, 2.0, 4.0])
    row = np.array([[1.6]])
    found, weights = Neighborhood(neighbor_index(nodes), 1, None, radii)(row)
    assert found.tolist() == [[1, 2, 0]]
    assert weights.tolist() == [[0.5, 0.5, 0.0]]
    _, weights = Neighborhood(neighbor_index(nodes), 1, None, radii, self_tuned=True)(row)
    raw = np.array([np.exp(-4.0) + np.exp(-4 * 0.6**2), np.exp(-4 * (1.4 / 2.0) ** 2), 0.0])
    assert weights[0] == pytest.approx(raw / raw.sum())


@pytest.mark.parametrize("weights", ["gaussian", "binary"])
def test_weights_of_a_new_row_are_those_of_the_graph_to_which_it_is_added(weights):
    rng = np.random.default_rng(3)
    X, new = rng.normal(size=(300, 3)), rng.normal(size=(20, 3))
    graph = NeighborGraph(6, weights, bandwidth=0.7)
    neighborhood = GraphBasis(graph, 5).fit(X).features_.neighborhood
    missed = total = 0
    for row, found, weight in zip(new, *neighborhood(new), strict=True):
        laplacian = graph.laplacian(np.vstack([X, row]))
        expected = -laplacian.matrix[[300]].toarray()[0, :300] * np.sqrt(laplacian.degree[:300])
        ours = np.zeros(300)
        np.add.at(ours, found, weight)
        beyond = np.setdiff1d(np.flatnonzero(expected), found)  # not searched
        missed, total = missed + len(beyond), total + np.count_nonzero(expected)
        expected[beyond] = 0.0
        assert ours == pytest.approx(expected / expected.sum(), abs=1e-12)
    assert missed <= 0.05 * total


def test_far_rows_and_copies_have_finite_weights_with_self_tuned_weights():
    X = np.random.default_rng(0).normal(size=(200, 3))
    neighborhood = GraphBasis(NeighborGraph(5, "self_tuned"), 10).fit(X).features_.neighborhood
    found, weights = neighborhood(np.vstack([X[:3], [[1e6, 0.0, 0.0]]]))
    assert found[:3, 0].tolist() == [0, 1, 2]
    assert neighborhood.copies(weights).tolist() == [True, True, True, False]
    assert weights.sum(axis=1) == pytest.approx(np.ones(4))
