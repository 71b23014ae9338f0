"""Graphs that are built from all rows at once and have a sparse Laplacian."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from mercer.engines import Block, Engine, Report
from mercer.errors import DataError
from mercer.features import Features
from mercer.graphs.base import EXACT_ROWS, Graph, GraphSummary, Measure, Nodes, Penalty, Roughness
from mercer.graphs.laplacian import GraphLaplacian
from mercer.graphs.neighbors import distinct_rows
from mercer.graphs.roughness import sum_roughness
from mercer.io.archive import storable
from mercer.statistics import RowSample

__all__ = ["GivenGraph", "LaplacianGraph"]

Array = np.ndarray


class LaplacianGraph(Graph):
    """Base class of graphs that are built from all rows at once and have a sparse Laplacian.

    A subclass implements the method `laplacian`.

    See Also
    --------
    NeighborGraph : The graph of nearest neighbors.
    mercer.Deformed : The feature map that uses a graph.

    Examples
    --------
    A graph in which all rows within a given distance have an edge:

    >>> import numpy as np
    >>> from sklearn.neighbors import radius_neighbors_graph
    >>> from mercer import Deformed, Gaussian, RandomFourier
    >>> from mercer.graphs import GraphLaplacian, LaplacianGraph
    >>> from mercer.parameters import Interval
    >>> class RadiusGraph(LaplacianGraph):
    ...     parameter_domains = {"radius": Interval(0, closed="neither")}
    ...
    ...     def __init__(self, radius=1.0):
    ...         self.radius = radius
    ...
    ...     def laplacian(self, X, *, seed=0, n_jobs=None):
    ...         return GraphLaplacian.from_weights(radius_neighbors_graph(X, self.radius, n_jobs=n_jobs))
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> deformed = Deformed(RandomFourier(Gaussian(1.0), 20, random_state=0), RadiusGraph(0.5)).fit(X)
    >>> deformed.graph_.n_nodes
    100
    """

    #: If there are more rows than this, the graph is built from a uniform sample of them; None means all rows.
    max_rows: int | None = None
    #: Whether equal rows are one node.
    merges_equal_rows: ClassVar[bool] = False
    #: Whether `laplacian` has a parameter `report` that receives the progress.
    laplacian_reports: ClassVar[bool] = False

    @abstractmethod
    def laplacian(self, X: Any, *, seed: int = 0, n_jobs: int | None = None) -> GraphLaplacian:
        """Return the Laplacian of the graph of the rows.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            The rows.
        seed : int, default=0
            Seed of random choices in the construction of the graph, if there are any.
        n_jobs : int or None, default=None
            Number of threads; None means all cores.

        Returns
        -------
        GraphLaplacian
            A Laplacian of n nodes, in the order of the rows.
        """

    def measure(
        self, features: Features, engine: Engine, *, max_bytes: int, seed: int, report: Report | None = None
    ) -> Measure:
        self.check()
        X = gathered_rows(engine, self.max_rows, seed, report)
        distinct = distinct_rows(X) if self.merges_equal_rows else None
        X = X if distinct is None else X[distinct]
        options = {"report": report} if self.laplacian_reports else {}
        laplacian = self.laplacian(X, seed=seed, n_jobs=engine.n_jobs, **options)
        return partial(
            laplacian_roughness, laplacian, features, X, max_bytes=max_bytes, n_jobs=engine.n_jobs, report=report
        )


class GivenGraph(LaplacianGraph):
    """The graph with a given matrix of weights. Node i of the graph is row i of the data."""

    def __init__(self, weights: Any) -> None:
        self.weights = weights

    def laplacian(self, X: Any, *, seed: int = 0, n_jobs: int | None = None) -> GraphLaplacian:  # noqa: ARG002
        laplacian = GraphLaplacian.from_weights(self.weights)
        if X.shape[0] != laplacian.n_nodes:
            msg = (
                f"Deformed: the weights of the graph are for {laplacian.n_nodes} rows, got {X.shape[0]} rows with a "
                "positive sample weight. Give one row and one column of weights for each of them, in their order, or "
                "use a NeighborGraph."
            )
            raise DataError(msg)
        return laplacian


def laplacian_roughness(
    laplacian: GraphLaplacian,
    features: Features,
    X: Any,
    penalty: Penalty,
    *,
    max_bytes: int,
    n_jobs: int | None,
    report: Report | None = None,
) -> Roughness:
    """Return the roughness of the features of the rows `X` on a graph of these rows, given its Laplacian."""
    root = laplacian.root(penalty.power)
    matrix = sum_roughness(
        features, X, root, strength=penalty.strength, max_bytes=max_bytes, n_jobs=n_jobs, report=report
    )
    summary = GraphSummary(
        laplacian.n_nodes,
        laplacian.n_edges,
        laplacian.n_isolated,
        laplacian.n_connected_components,
        laplacian.search,
        laplacian.bandwidth,
    )
    return Roughness(matrix, summary, Nodes(X.copy(), laplacian) if X.shape[0] <= EXACT_ROWS else None, root.error)


@storable
@dataclass(frozen=True, eq=False)
class AllRows:
    """Accumulator of the rows with a positive weight, as a list with one array per block.

    The arrays are concatenated only once, because concatenation after every block has a quadratic cost.
    """

    parts: tuple[tuple[int, Any], ...]  # the index of the first row of each part, and its rows

    @classmethod
    def of(cls, block: Block) -> Self:
        """Return an `AllRows` with a copy of the rows of one block, whose memory the reader may reuse."""
        X = block.X.copy() if block.weight is None else block.X[block.weight > 0]
        return cls(((block.start, X),))

    def __add__(self, other: AllRows) -> AllRows:
        return AllRows(self.parts + other.parts)

    def joined(self) -> Any:
        """Return all rows as one array, in the order of the data."""
        parts = [X for _, X in sorted(self.parts, key=itemgetter(0))]
        if len(parts) == 1:
            return parts[0]
        return sp.vstack(parts, format="csr") if any(map(sp.issparse, parts)) else np.concatenate(parts)


@storable
@dataclass(frozen=True, eq=False)
class RowIndices:
    """Accumulator of the indices of the rows with a positive weight."""

    index: Array

    @classmethod
    def of(cls, block: Block) -> Self:
        """Return the indices of the rows of one block."""
        index = np.asarray(block.index, dtype=np.int64)
        return cls(index if block.weight is None else index[block.weight > 0])

    def __add__(self, other: RowIndices) -> RowIndices:
        return RowIndices(np.concatenate([self.index, other.index]))


def gathered_indices(engine: Engine, max_rows: int | None) -> Array | None:
    """Return the indices of the rows that `gathered_rows` returns, or None if it returns a sample."""
    rows = engine.in_memory
    if rows is not None and rows.weight is None:
        return None if max_rows is not None and len(rows) > max_rows else np.arange(len(rows))
    index = np.sort(engine.sum(RowIndices.of).index)
    return None if max_rows is not None and len(index) > max_rows else index


def gathered_rows(engine: Engine, max_rows: int | None, seed: int, report: Report | None = None) -> Any:
    """Return all rows of an engine with a positive weight, or a uniform sample of at most `max_rows` of them."""
    rows = engine.in_memory
    if rows is not None and rows.weight is None and (max_rows is None or len(rows) <= max_rows):
        return rows.X
    if max_rows is None:
        return engine.sum(AllRows.of, report).joined()
    return engine.sum(partial(RowSample.of, size=max_rows, seed=seed, targets=False), report).X
