"""Nearest-neighbor graphs against dense formulas."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from mercer import DataError, Deformed, Gaussian, MercerWarning, NeighborGraph, ParameterError, RandomFourier


def adjacency(X, k):
    gaps = np.linalg.norm(X[:, None] - X[None], axis=2)
    order = np.argsort(gaps + np.diag(np.full(len(X), np.inf)), axis=1)[:, :k]
    links = np.zeros((len(X), len(X)), dtype=bool)
    links[np.arange(len(X))[:, None], order] = True
    return links | links.T, gaps


def laplacian_of(W):
    root = W.sum(axis=1) ** -0.5
    return np.eye(len(W)) - root[:, None] * W * root


@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("bandwidth", ["median", 0.4])
def test_gaussian_weights(wrap, bandwidth):
    X = np.random.default_rng(0).normal(size=(50, 3))
    links, gaps = adjacency(X, 5)
    s = np.median(gaps[np.triu(links)]) if bandwidth == "median" else bandwidth
    W = np.where(links, np.exp(-np.square(gaps / s) / 2), 0.0)
    graph = NeighborGraph(5, bandwidth=bandwidth).laplacian(wrap(X))
    np.testing.assert_allclose(graph.matrix.toarray(), laplacian_of(W), atol=1e-12)
    assert graph.bandwidth == pytest.approx(s)
    assert (graph.matrix != graph.matrix.T).nnz == 0


def test_self_tuned_weights_are_means_over_the_two_directions_of_an_edge():
    X = np.random.default_rng(1).normal(size=(60, 3))
    gaps = np.linalg.norm(X[:, None] - X, axis=2)
    W = np.zeros_like(gaps)
    for i in range(60):
        nearest = np.argsort(gaps[i])[1:6]
        W[i, nearest] += np.exp(-4 * np.square(gaps[i, nearest] / gaps[i, nearest[-1]])) / 2
        W[nearest, i] += np.exp(-4 * np.square(gaps[i, nearest] / gaps[i, nearest[-1]])) / 2
    graph = NeighborGraph(5, "self_tuned").laplacian(X)
    np.testing.assert_allclose(graph.matrix.toarray(), laplacian_of(W), atol=1e-12)
    np.testing.assert_allclose(graph.radii, np.sort(gaps, axis=1)[:, 5])
    assert graph.bandwidth is None
    scaled = NeighborGraph(5, "self_tuned").laplacian(1e3 * X)
    np.testing.assert_allclose(scaled.matrix.toarray(), graph.matrix.toarray(), atol=1e-12)


def test_binary_weights():
    X = np.random.default_rng(1).normal(size=(50, 3))
    links, _ = adjacency(X, 4)
    graph = NeighborGraph(4, "binary").laplacian(X)
    np.testing.assert_allclose(graph.matrix.toarray(), laplacian_of(links.astype(float)), atol=1e-12)
    assert graph.bandwidth is None


def test_few_rows_are_all_neighbors():
    X = np.random.default_rng(2).normal(size=(4, 2))
    graph = NeighborGraph(10, "binary").laplacian(X)
    assert graph.n_edges == 6
    assert NeighborGraph().laplacian(X[:1]).n_isolated == 1


def test_rows_with_weights_of_zero_are_isolated():
    X = np.concatenate([np.random.default_rng(3).normal(size=(20, 2)), [[1e3, 1e3]]])
    graph = NeighborGraph(3).laplacian(X)
    # Weights at that distance underflow to zero, so that the row has no edge and no roughness.
    assert graph.n_isolated == 1
    np.testing.assert_array_equal(graph.matrix.toarray()[-1], 0)


def test_bandwidth_without_edges_warns():
    X = np.random.default_rng(3).normal(size=(20, 2))
    with pytest.warns(MercerWarning, match=r"20 of 20 rows have no edge.*bandwidth 0.0001.*Try a larger"):
        Deformed(RandomFourier(Gaussian(), 4), NeighborGraph(3, bandwidth=1e-4)).fit(X)


def near_copies(copies, share=1.0):
    """Return 60 rows about 1 apart, a share of which have copies about 1e-12 away."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    some = X[: int(share * 60)]
    return X, np.concatenate([X, *(some + 1e-12 * rng.normal(size=some.shape) for _ in range(copies))])


@pytest.mark.parametrize("share", [0.8, 1.0])
def test_near_copies_do_not_determine_the_median_bandwidth(share):
    X, with_copies = near_copies(7, share)
    # Of nine neighbors seven are copies, so that most edges are of length 1e-12.
    graph, binary = NeighborGraph(9).laplacian(with_copies), NeighborGraph(9, "binary").laplacian(with_copies)
    assert 0.3 < graph.bandwidth / NeighborGraph(2).laplacian(X).bandwidth < 3
    assert (graph.n_connected_components, graph.n_isolated) == (binary.n_connected_components, 0)
    assert graph.n_edges > 0.95 * binary.n_edges  # weights of zero only for rows that are far from all others


def test_short_edges_determine_the_bandwidth_if_most_edges_are_short():
    X = np.concatenate([1e-9 * np.random.default_rng(0).normal(size=(50, 2)), [[1.0, 1.0]]])
    links, gaps = adjacency(X[:50], 5)
    graph = NeighborGraph(5).laplacian(X)
    assert graph.bandwidth == pytest.approx(np.median(gaps[np.triu(links)]), rel=0.1)
    assert graph.n_isolated == 1


def test_distant_row_does_not_turn_other_edges_into_near_copies():
    X = np.concatenate([np.random.default_rng(0).normal(size=(50, 2)), [[1e9, 0.0]]])
    plain, graph = NeighborGraph(5).laplacian(X[:50]), NeighborGraph(5).laplacian(X)
    assert graph.bandwidth == pytest.approx(plain.bandwidth, rel=0.1)
    # Nor if it is a neighbor of eight of twelve rows.
    assert NeighborGraph(8).laplacian(X[-13:]).bandwidth < 10


def test_copies_that_are_all_neighbors_warn():
    _, X = near_copies(3)
    with pytest.warns(
        MercerWarning, match=r"240 rows has 60 connected components.*its 3 neighbors.*Try more neighbors"
    ):
        graph = NeighborGraph(3).laplacian(X)
    assert graph.n_connected_components == 60
    NeighborGraph(9).laplacian(X)  # no warning, or the test fails


def test_rows_isolated_by_the_bandwidth_of_other_rows_warn():
    rng = np.random.default_rng(0)
    X = np.concatenate([1e-4 * rng.normal(size=(80, 2)), 10 + rng.normal(size=(20, 2))])
    with pytest.warns(MercerWarning, match=r"20 of 100 rows have no edge.*Try a larger bandwidth, or weights='binary'"):
        NeighborGraph(4).laplacian(X)
    NeighborGraph(4, "binary").laplacian(X)


def test_lists_are_converted_and_checked():
    assert NeighborGraph(1).laplacian([[0], [1], [3]]).n_edges == 2
    with pytest.raises(DataError, match=r"NeighborGraph\(\): rows must be finite"):
        NeighborGraph().laplacian(np.array([[0.0], [np.nan]]))
    with pytest.raises(DataError, match="must form a 2-d array"):
        NeighborGraph().laplacian(np.arange(4.0))


def test_equal_rows_are_one_node():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(30, 2))
    many = np.concatenate([X, np.repeat(X[:5], 20, axis=0)])[rng.permutation(130)]
    fourier = RandomFourier(Gaussian(), 20, random_state=0)
    once, often = (Deformed(fourier, NeighborGraph(4), power=2).fit(rows) for rows in (X, many))
    assert once.graph_ == often.graph_
    assert often.graph_.n_nodes == 30
    np.testing.assert_allclose(once.gram(X), often.gram(X), atol=1e-10)


def test_equal_rows_have_no_roughness():
    X = np.ones((6, 3))
    fitted = Deformed(RandomFourier(Gaussian(), 10, random_state=0)).fit(X)
    assert (fitted.graph_.n_nodes, fitted.graph_.n_edges) == (1, 0)
    np.testing.assert_allclose(fitted.gram(X), fitted.feature_map_.gram(X))


def test_max_rows_draws_a_seeded_sample():
    X = np.random.default_rng(5).normal(size=(100, 2))
    fourier = RandomFourier(Gaussian(), 20, random_state=0)
    some = Deformed(fourier, NeighborGraph(4, max_rows=40), random_state=1).fit(X)
    assert some.graph_.n_nodes == 40
    again = Deformed(fourier, NeighborGraph(4, max_rows=40), random_state=1).fit(X)
    other = Deformed(fourier, NeighborGraph(4, max_rows=40), random_state=2).fit(X)
    np.testing.assert_array_equal(some.transform(X), again.transform(X))
    assert not np.allclose(some._exact.rows, other._exact.rows)


@pytest.mark.parametrize(
    ("graph", "says"),
    [
        (NeighborGraph(0), "n_neighbors must be an integer >= 1, got 0"),
        (NeighborGraph(2.5), "n_neighbors must be an integer"),
        (NeighborGraph(weights="cosine"), "weights must be one of 'gaussian', 'self_tuned', 'binary'"),
        (NeighborGraph(bandwidth=0.0), "bandwidth must be 'median' or a finite number > 0, got 0.0"),
        (NeighborGraph(bandwidth="mean"), "bandwidth must be 'median' or a finite number > 0, got 'mean'"),
        (NeighborGraph(search="fast"), "search must be one of"),
        (NeighborGraph(max_rows=0), "max_rows must be an integer >= 1"),
    ],
)
def test_invalid_parameters_raise(graph, says):
    with pytest.raises(ParameterError, match=says):
        graph.laplacian(np.zeros((5, 2)))
    with pytest.raises(ParameterError, match=says):
        Deformed(graph=graph).fit(np.zeros((5, 2)))


def test_nested_parameters():
    deformed = clone(Deformed(graph=NeighborGraph(3))).set_params(graph__n_neighbors=7)
    assert deformed.graph.n_neighbors == 7
    assert clone(deformed).get_params()["graph__weights"] == "gaussian"
