"""Graphs with a sparse Laplacian: those of users, given weights, and the collection of rows from engines."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.neighbors import radius_neighbors_graph

from mercer import DataError, Deformed, Gaussian, KernelRidge, ParameterError, RandomFourier
from mercer.engines import Block, MemoryEngine, StreamEngine
from mercer.graphs import GraphLaplacian, LaplacianGraph
from mercer.graphs.laplacian_graph import AllRows, gathered_rows
from mercer.io.archive import store
from mercer.parameters import Interval


class RadiusGraph(LaplacianGraph):
    """A graph as a user may define one."""

    parameter_domains = {"radius": Interval(0, closed="neither")}  # noqa: RUF012 - as a user would write it

    def __init__(self, radius=1.0):
        self.radius = radius

    def laplacian(self, X, *, seed=0, n_jobs=None):
        return GraphLaplacian.from_weights(radius_neighbors_graph(X, self.radius, n_jobs=n_jobs))


def test_graphs_of_users_are_those_of_their_weights():
    X = np.random.default_rng(0).normal(size=(80, 2))
    fourier = RandomFourier(Gaussian(1.0), 20, random_state=0)
    model = Deformed(fourier, RadiusGraph(0.7), strength=3.0, power=2)
    given = Deformed(fourier, sp.csr_array(radius_neighbors_graph(X, 0.7)), strength=3.0, power=2).fit(X)
    np.testing.assert_allclose(clone(model).fit(X).gram(X), given.gram(X), atol=1e-12)
    learner = KernelRidge(model, alpha=0.1).fit([(X[:30], X[:30, 0]), (X[30:], X[30:, 0])])
    assert learner.feature_map_.graph_ == given.graph_
    assert model.set_params(graph__radius=0.5).graph.radius == 0.5
    assert not hasattr(model, "partial_fit")


def test_domains_of_graphs_of_users_are_checked():
    with pytest.raises(ParameterError, match=r"^RadiusGraph: radius must be a finite number > 0, got -1\.0\.$"):
        Deformed(graph=RadiusGraph(-1.0)).fit(np.zeros((5, 2)))


def test_weights_for_another_number_of_rows_raise():
    with pytest.raises(
        DataError, match=r"weights of the graph are for 4 rows, got 6 rows with a positive sample weight"
    ):
        Deformed(graph=sp.csr_array(np.ones((4, 4)))).fit(np.random.default_rng(0).normal(size=(6, 2)))


def test_rows_from_blocks_are_those_in_memory():
    X = np.random.default_rng(6).normal(size=(50, 2))
    stream = StreamEngine([(X[:7],), (X[7:],)], lambda X: (X, None, None))
    memory = MemoryEngine(X, block_rows=9)
    assert gathered_rows(memory, None, 0) is X  # no copy
    for most in (None, 20):
        np.testing.assert_array_equal(gathered_rows(stream, most, 0), gathered_rows(memory, most, 0))
    sparse = StreamEngine([(sp.csr_array(X[:7]),), (sp.csr_array(X[7:]),)], lambda X: (X, None, None))
    np.testing.assert_array_equal(gathered_rows(sparse, None, 0).toarray(), X)
    weighted = MemoryEngine(X, None, np.r_[np.zeros(10), np.ones(40)], block_rows=9)
    np.testing.assert_array_equal(gathered_rows(weighted, None, 0), X[10:])


def test_rows_of_many_blocks_are_concatenated_once(monkeypatch):
    # Concatenation after every block would copy all previous rows 200 times.
    X = np.random.default_rng(6).normal(size=(2000, 3))
    stream = StreamEngine([(X[i : i + 10],) for i in range(0, 2000, 10)], lambda X: (X, None, None))
    copied, original = [], np.concatenate
    monkeypatch.setattr(np, "concatenate", lambda parts, *args: copied.append(sum(map(len, parts))) or original(parts))
    np.testing.assert_array_equal(gathered_rows(stream, None, 0), X)
    assert sum(copied) == 2000


def test_gathered_rows_are_copies_of_reused_buffers():
    X = np.random.default_rng(6).normal(size=(40, 3))

    class Reader:
        def __init__(self):
            self.buffer = np.empty((10, 3))

        def __iter__(self):
            for i in range(0, 40, 10):
                self.buffer[:] = X[i : i + 10]
                yield (self.buffer,)

    stream = StreamEngine(Reader(), lambda X: (X, None, None), n_jobs=1)
    np.testing.assert_array_equal(gathered_rows(stream, None, 0), X)


def test_gathered_rows_can_be_stored_in_checkpoints():
    X = np.random.default_rng(6).normal(size=(40, 3))
    for form in (X, sp.csr_array(X)):
        rows = AllRows.of(Block(30, form[30:])) + AllRows.of(Block(0, form[:30]))
        kept = store(rows).value().joined()
        np.testing.assert_array_equal(kept.toarray() if sp.issparse(kept) else kept, X)
