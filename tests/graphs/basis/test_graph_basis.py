"""Graph features against the exact kernel of the graph, which is a deformed kernel."""

import pickle

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_moons

from mercer import (
    DataError,
    Deformed,
    FeatureGraph,
    Gaussian,
    GraphBasis,
    KernelRidgeClassifier,
    NeighborGraph,
    Nystroem,
    ParameterError,
    ScaledColumns,
    SumMap,
    UnsupportedKernelError,
    load_model,
    save_model,
)
from mercer.maps.registry import check_grows
from mercer.theory import graph_truncation_error

GRAPH = NeighborGraph(6)
COMPLETE = {"laplacian": "symmetric", "normalize": False}


def rows(n=150, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


@pytest.mark.parametrize(("strength", "power"), [(50.0, 1), (1000.0, 2.5)])
def test_complete_basis_is_the_deformed_kernel_of_the_identity(strength, power):
    X = rows()
    basis = GraphBasis(GRAPH, 1000, strength, power, **COMPLETE).fit(X)
    L = GRAPH.laplacian(X)
    assert basis.gram(X) == pytest.approx(np.linalg.inv(np.eye(len(X)) + strength * L.power(power)), abs=1e-8)
    assert basis.next_eigenvalue_ == np.inf


@pytest.mark.parametrize("width", [20, 150])
def test_deforming_unweighted_eigenvectors_weighs_them(width):
    X = rows()
    plain = GraphBasis(GRAPH, width, 0.0, **COMPLETE)
    deformed = Deformed(plain, GRAPH, strength=30.0, power=2).fit(X)
    weighted = GraphBasis(GRAPH, width, 30.0, 2, **COMPLETE).fit(X)
    assert deformed.gram(X) == pytest.approx(weighted.gram(X), abs=1e-8)
    new = rows(20, seed=1)
    assert deformed.gram(new, X) == pytest.approx(weighted.gram(new, X), abs=1e-8)


def test_truncation_costs_what_the_theory_says():
    X = rows()
    L = GRAPH.laplacian(X)
    exact = np.linalg.inv(np.eye(len(X)) + 40.0 * L.power(1))
    basis = GraphBasis(GRAPH, 12, 40.0, 1, **COMPLETE).fit(X)
    gap = np.linalg.norm(exact - basis.gram(X), 2)
    assert gap == pytest.approx(graph_truncation_error(basis.next_eigenvalue_, 40.0, 1), abs=1e-10)


def test_random_walk_eigenvectors_solve_their_equation_and_start_with_a_constant():
    X = rows()
    basis = GraphBasis(GRAPH, 10, 0.0).fit(X)
    U = basis.transform(X)
    L = GRAPH.laplacian(X)
    root = np.sqrt(L.degree)[:, None]
    assert (L.matrix @ (U * root)) / root == pytest.approx(U * basis.eigenvalues_, abs=1e-8)
    assert np.ptp(U[:, 0]) < 1e-10
    assert np.square(U).sum(axis=1).mean() == pytest.approx(1.0)  # normalize=True


def test_equal_rows_are_one_node_and_have_equal_features():
    X = rows(60)
    doubled = np.concatenate([X, X[:10]])
    basis = GraphBasis(GRAPH, 8, random_state=0).fit(doubled)
    assert basis.graph_.n_nodes == 60
    assert basis.nodes_[60:].tolist() == basis.nodes_[:10].tolist()
    single = GraphBasis(GRAPH, 8, random_state=0).fit(X)
    assert np.abs(basis.gram(doubled[60:]) - single.gram(X[:10])).max() < 1e-10


def test_graph_that_falls_apart_has_indicators_of_its_parts():
    X = np.concatenate([rows(40), rows(60, seed=1) + 100.0])
    basis = GraphBasis(GRAPH, 5, strength=0.0).fit(X)
    Z = basis.transform(X)
    assert basis.eigenvalues_[:2] == pytest.approx([0.0, 0.0])
    assert np.abs(Z[:40, 0]).max() == 0.0  # the larger part comes first
    assert np.ptp(Z[40:, 0]) < 1e-12 < Z[40, 0]


def test_given_weights_and_isolated_rows():
    X = rows(30)
    W = np.zeros((30, 30))
    i = np.arange(27)
    W[i, i + 1] = W[i + 1, i] = 1.0
    basis = GraphBasis(sp.csr_array(W), 30, 5.0, **COMPLETE).fit(X)
    assert basis.graph_.n_isolated == 2
    assert np.isfinite(basis.transform(rows(5, seed=3))).all()
    expected = np.eye(30)
    degree = W.sum(axis=1)
    scaled = W[:28, :28] / np.sqrt(np.outer(degree[:28], degree[:28]))
    expected[:28, :28] = np.linalg.inv(np.eye(28) + 5.0 * (np.eye(28) - scaled))
    assert basis.gram(X) == pytest.approx(expected, abs=1e-8)


def test_rows_on_dask_in_blocks_and_in_memory_have_the_same_model():
    X, truth = make_moons(200, noise=0.05, random_state=0)
    y = np.where(np.arange(200) % 10 == 0, truth, -1)
    model = KernelRidgeClassifier(GraphBasis(GRAPH, 10, random_state=0), unlabeled=-1)
    first = model.fit(X, y).decision_function(X)
    blocks = [(X[i : i + 50], y[i : i + 50]) for i in range(0, 200, 50)]
    assert model.fit(blocks).decision_function(X) == pytest.approx(first, abs=1e-6)
    model.fit(da.from_array(X, chunks=(70, 2)), da.from_array(y, chunks=70))
    assert model.decision_function(X) == pytest.approx(first, abs=1e-6)


def test_rows_of_a_memory_map_are_read_where_they_are(tmp_path):
    X = rows()
    np.save(tmp_path / "rows.npy", X)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    assert np.array_equal(GraphBasis(GRAPH, 6).fit(mapped).gram(X), GraphBasis(GRAPH, 6).fit(X).gram(X))


def test_sparse_and_float32_rows():
    X = np.maximum(rows(), 0.0)
    dense = GraphBasis(GRAPH, 8).fit(X)
    sparse = GraphBasis(GRAPH, 8).fit(sp.csr_array(X))
    assert np.abs(dense.gram(X) - sparse.gram(X)).max() < 1e-8  # also dense queries
    single = GraphBasis(GRAPH, 8).fit(X.astype(np.float32))
    Z = single.transform(X.astype(np.float32))
    assert Z.dtype == np.float32
    assert np.abs(Z @ Z.T - dense.gram(X)).max() < 1e-3


def test_maps_join_as_a_sum():
    X = rows()
    joined = SumMap(maps=[Nystroem(Gaussian(1.0), 20), GraphBasis(GRAPH, 9)], weights=[1.0, 2.0], random_state=0)
    joined.fit(X)
    new = rows(10, seed=5)
    parts = [part.gram(new) for part in joined.maps_]
    assert joined.gram(new) == pytest.approx(parts[0] + 2.0 * parts[1])
    assert joined.kernel_(new) == pytest.approx(Gaussian(1.0)(new) + 2.0 * parts[1])
    assert joined.width == joined.features_.n_components == 29
    with pytest.raises(ParameterError, match="weights must be 2 finite numbers > 0"):
        SumMap(maps=[Nystroem(), GraphBasis()], weights=[1.0, -1.0]).fit(X)
    with pytest.raises(ParameterError, match="weights are for maps with kernels of their own"):
        SumMap(weights=[1.0, 1.0]).fit(X)
    scaled = ScaledColumns(GraphBasis(GRAPH, 9)).fit(X * [1e-3, 1.0, 1e4])
    assert scaled.features_.n_components == 9


def test_one_row_and_constant_rows():
    assert GraphBasis().fit(np.zeros((1, 2))).transform([[1.0, 1.0]]).shape == (1, 1)
    assert GraphBasis().fit(np.zeros((9, 2))).graph_.n_nodes == 1


def test_pickles_and_model_files_have_no_edges(tmp_path):
    X = rows()
    basis = GraphBasis(GRAPH, 8).fit(X)
    assert basis._laplacian is not None
    again = pickle.loads(pickle.dumps(basis))
    assert again._laplacian is None
    new = rows(10, seed=2)
    assert np.array_equal(again.transform(new), basis.transform(new))
    loaded = load_model(save_model(basis, tmp_path / "map.mercer"))
    assert np.array_equal(loaded.transform(new), basis.transform(new))


def test_errors_name_what_is_needed():
    with pytest.raises(ParameterError, match="graph must be a graph with a sparse Laplacian"):
        GraphBasis(FeatureGraph()).fit(rows())
    with pytest.raises(UnsupportedKernelError, match="GraphBasis cannot approximate Gaussian"):
        GraphBasis().with_kernel(Gaussian())
    with pytest.raises(DataError, match="can be read only once"):
        KernelRidgeClassifier(GraphBasis()).fit(iter([(rows(), np.arange(150) % 2)]))
    with pytest.raises(ParameterError, match="partial_fit needs a map to which rows can be added"):
        check_grows(KernelRidgeClassifier(GraphBasis()))
