"""Graphs over rows: what tells a deformation which rows are near each other."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from numbers import Real
from operator import itemgetter
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp

from mercer.engines import Block, Engine
from mercer.errors import DataError, MercerWarning, ParameterError
from mercer.features import Features
from mercer.graphs.laplacian import GraphLaplacian
from mercer.graphs.neighbors import distances, distinct_rows, nearest_neighbors
from mercer.graphs.roughness import sum_roughness
from mercer.io.archive import storable
from mercer.kernels.base import as_rows
from mercer.maps.base import Estimator
from mercer.maps.parameters import check_choice, check_count
from mercer.statistics import RowSample

__all__ = ["GivenGraph", "Graph", "GraphFacts", "Measure", "NeighborGraph", "Nodes", "Penalty", "Roughness"]

Array = np.ndarray
# Powers above are of no use: 2^power is how much the roughest function counts.
MOST_POWER = 100
# Up to so many rows are kept, so that the exact deformed kernel, cubic in them, can be had to compare with.
EXACT_ROWS = 4000
# An edge so much shorter than the longest of both its ends is one between near copies of a row.
NEGLIGIBLE = 1e-6
# A share of rows without an edge from which on it is said; with fewer neighbors than these, small parts are usual.
MOST_ISOLATED = 0.1
FEW_NEIGHBORS = 3


@dataclass(frozen=True)
class Penalty:
    """The roughness that a deformation penalizes: M = alpha L^power."""

    alpha: float
    power: float


@dataclass(frozen=True)
class GraphFacts:
    """What there is to know of a graph; None where it is not known.

    Attributes
    ----------
    n_nodes : int
        Rows, equal ones counted once where neighbors were searched.
    n_edges : int or None
        Pairs of nodes with a weight above zero.
    n_isolated : int
        Nodes without an edge to another.
    n_parts : int or None
        Parts that no edge connects: functions of no roughness have as many dimensions.
    search : str
        How edges were found: "exact", "approximate", "given", or "features".
    bandwidth : float or None
        Scale of Gaussian weights.
    """

    n_nodes: int
    n_edges: int | None
    n_isolated: int
    n_parts: int | None
    search: str
    bandwidth: float | None


@dataclass(frozen=True, eq=False)
class Nodes:
    """The rows of a graph, and its Laplacian, whose `power` is a dense matrix: kept where they are few."""

    rows: Any
    laplacian: Any


@dataclass(frozen=True, eq=False)
class Roughness:
    """What a graph says of features.

    Attributes
    ----------
    matrix : ndarray of shape (D, D)
        Phi' M Phi in float64; only the upper triangle counts.
    graph : GraphFacts
        The graph that was built.
    exact : Nodes or None
        All of it, if the rows are few.
    error : float
        Bound on the spectral norm of what M / alpha is off, for fractional powers.
    moments : object
        What rows can be added to, of a graph that grows.
    """

    matrix: Array
    graph: GraphFacts
    exact: Nodes | None
    error: float = 0.0
    moments: Any = None


#: Tells the roughness of features on one graph, for any penalty: the graph is made once.
Measure = Callable[[Penalty], Roughness]


class Graph(Estimator, ABC):
    """A rule that makes a graph of rows, and can tell how rough features are on it."""

    #: Whether rows can be added one block after another.
    grows: bool = False

    @abstractmethod
    def check(self) -> None:
        """Raise if a parameter lies outside its domain."""

    @abstractmethod
    def measure(self, features: Features, engine: Engine, *, memory: int, seed: int) -> Measure:
        """Make the graph of the rows of an engine that can be read again, and return what measures features on it.

        `memory` is the number of bytes that features of all rows may take at a time.
        """


class NeighborGraph(Graph):
    r"""The graph of nearest neighbors: two rows have an edge if one is among the nearest of the other.

    Weights are one, or :math:`\exp(-\|x - y\|^2 / (2 s^2))`. A row is one node however often it occurs: copies would
    be each other's nearest neighbors, and cut off from all others.

    Parameters
    ----------
    n_neighbors : int, default=10
        Nearest rows of each; all others, if there are fewer.
    weight : {"gaussian", "binary"}, default="gaussian"
        Weights of edges.
    bandwidth : "median" or float, default="median"
        The scale s; "median" is the median length of the edges, but for those between near copies of a row: edges of
        less than a millionth of the longest of both their ends. Binary weights have none.
    search : {"auto", "exact", "approximate"}, default="auto"
        Exact by scikit-learn, at a cost quadratic in the rows; approximate by nearest-neighbor descent [1]_, which
        needs ``mercer[graph]``. "auto" takes it from 20,000 rows on, where it is installed; `graph_` of the map tells.
        What an approximate search finds depends on the number of threads, too.
    max_rows : int or None, default=None
        The graph is made of a seeded uniform sample if there are more rows. None means all: the rows, not their
        features, then have to fit in memory, also where they come from files.

    References
    ----------
    .. [1] Dong, Moses, Li (2011), Efficient k-nearest neighbor graph construction, WWW.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import NeighborGraph
    >>> X = np.concatenate([np.arange(5.0), 100 + np.arange(5.0)])[:, None]
    >>> graph = NeighborGraph(n_neighbors=2).laplacian(X)
    >>> graph.n_nodes, graph.n_parts, graph.bandwidth
    (10, 2, 1.0)
    """

    def __init__(
        self,
        n_neighbors: int = 10,
        weight: Literal["gaussian", "binary"] = "gaussian",
        *,
        bandwidth: float | Literal["median"] = "median",
        search: Literal["auto", "exact", "approximate"] = "auto",
        max_rows: int | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.weight = weight
        self.bandwidth = bandwidth
        self.search = search
        self.max_rows = max_rows

    def check(self) -> None:
        check_count(self, "n_neighbors")
        check_choice(self, "weight", ("gaussian", "binary"))
        check_choice(self, "search", ("auto", "exact", "approximate"))
        check_bandwidth(self)
        if self.max_rows is not None:
            check_count(self, "max_rows")

    def laplacian(self, X: Any, *, seed: int = 0, n_jobs: int | None = None) -> GraphLaplacian:
        """Return the Laplacian of the graph of distinct, finite rows.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows.
        seed : int, default=0
            Seed of an approximate search.
        n_jobs : int or None, default=None
            Threads; None means all cores.

        Returns
        -------
        GraphLaplacian
        """
        self.check()
        X = as_rows(self, X)
        n = X.shape[0]
        count = min(self.n_neighbors, n - 1)
        if count < 1:
            return GraphLaplacian.of(sp.csr_array((n, n)), search="exact")
        found, search = nearest_neighbors(X, count, search=self.search, seed=seed, n_jobs=n_jobs)
        row, place = np.nonzero(found >= 0)  # an approximate search may miss some
        links = sp.csr_array((np.ones(len(row)), (row, found[row, place])), shape=(n, n))
        i, j = sp.triu(links.maximum(links.T), 1).tocoo().coords
        lengths = distances(X, i, j)
        bandwidth = None if self.weight == "binary" else self._scale(lengths, i, j, n)
        values = np.ones(len(lengths)) if bandwidth is None else np.exp(-0.5 * np.square(lengths / bandwidth))
        upper = sp.csr_array((values, (i, j)), shape=(n, n))
        graph = GraphLaplacian.of(upper + upper.T, search=search, bandwidth=bandwidth)
        if bandwidth is not None and graph.n_isolated > MOST_ISOLATED * n:
            msg = (
                f"NeighborGraph: of {n} rows {graph.n_isolated} have no edge, since their weights at bandwidth "
                f"{bandwidth:.3g} are zero: the graph says nothing of them. Try a larger bandwidth, or weight='binary'."
            )
            warnings.warn(msg, MercerWarning, stacklevel=2)
        elif count >= FEW_NEIGHBORS and graph.n_parts > max(10, n / (2 * (count + 1))):
            msg = (
                f"NeighborGraph: {n} rows fall into {graph.n_parts} parts, hardly larger than a row and its {count} "
                "neighbors, and no label gets beyond its part. Try more neighbors. If rows have near copies, these "
                "take the places of all others: have more neighbors than copies, or round the rows, for equal ones "
                "are one node."
            )
            warnings.warn(msg, MercerWarning, stacklevel=2)
        return graph

    def _scale(self, lengths: Array, i: Array, j: Array, n: int) -> float:
        if self.bandwidth != "median":
            return float(self.bandwidth)
        longest = np.zeros(n)
        for ends in (i, j):
            np.maximum.at(longest, ends, lengths)
        # Between near copies weights are one at any scale; as many as there are, they must not decide on it.
        apart = lengths[lengths > NEGLIGIBLE * np.minimum(longest[i], longest[j])]
        return float(np.median(apart)) if apart.size else 1.0

    def measure(self, features: Features, engine: Engine, *, memory: int, seed: int) -> Measure:
        self.check()
        X = gathered_rows(engine, self.max_rows, seed)
        distinct = distinct_rows(X)
        X = X if distinct is None else X[distinct]
        return partial(
            of_laplacian,
            self.laplacian(X, seed=seed, n_jobs=engine.n_jobs),
            features,
            X,
            memory=memory,
            n_jobs=engine.n_jobs,
        )


class GivenGraph(Graph):
    """The graph of weights that somebody made: one node for each row, in their order."""

    def __init__(self, weights: Any) -> None:
        self.weights = weights

    def check(self) -> None:
        pass  # of weights all that matters is checked where they are used

    def measure(self, features: Features, engine: Engine, *, memory: int, seed: int) -> Measure:
        laplacian = GraphLaplacian.of(self.weights)
        X = gathered_rows(engine, None, seed)
        if X.shape[0] != laplacian.n_nodes:
            msg = (
                f"Deformed: the weights of the graph are for {laplacian.n_nodes} rows, got {X.shape[0]} of weight > 0. "
                "Give one row and one column of weights for each, in their order, or a NeighborGraph."
            )
            raise DataError(msg)
        return partial(of_laplacian, laplacian, features, X, memory=memory, n_jobs=engine.n_jobs)


def of_laplacian(
    laplacian: GraphLaplacian, features: Features, X: Any, penalty: Penalty, *, memory: int, n_jobs: int | None
) -> Roughness:
    """Return the roughness of the features of the nodes of a graph."""
    root = laplacian.root(penalty.power)
    matrix = sum_roughness(features, X, root, alpha=penalty.alpha, memory=memory, n_jobs=n_jobs)
    parts = laplacian.n_parts, laplacian.search, laplacian.bandwidth
    facts = GraphFacts(laplacian.n_nodes, laplacian.n_edges, laplacian.n_isolated, *parts)
    return Roughness(matrix, facts, Nodes(X.copy(), laplacian) if X.shape[0] <= EXACT_ROWS else None, root.error)


@storable
@dataclass(frozen=True, eq=False)
class AllRows:
    """The rows of weight above zero, in parts that are put together once: block by block would be quadratic in them."""

    parts: tuple[tuple[int, Any], ...]  # the place of the first row, and rows

    @classmethod
    def of(cls, block: Block) -> Self:
        """Return the rows of one block: a copy, since whoever made the block may use its memory again."""
        X = block.X.copy() if block.weight is None else block.X[block.weight > 0]
        return cls(((block.start, X),))

    def __add__(self, other: AllRows) -> AllRows:
        return AllRows(self.parts + other.parts)

    def joined(self) -> Any:
        """Return the rows in the order of the data."""
        parts = [X for _, X in sorted(self.parts, key=itemgetter(0))]
        if len(parts) == 1:
            return parts[0]
        return sp.vstack(parts, format="csr") if any(map(sp.issparse, parts)) else np.concatenate(parts)


def gathered_rows(engine: Engine, most: int | None, seed: int) -> Any:
    """Return all rows of an engine that have a weight above zero, or a uniform sample of them."""
    rows = engine.in_memory
    if rows is not None and rows.weight is None and (most is None or len(rows) <= most):
        return rows.X
    if most is None:
        return engine.sum(AllRows.of).joined()
    return engine.sum(partial(RowSample.of, size=most, seed=seed, targets=False)).X


def check_bandwidth(owner: Any) -> None:
    """Raise unless the bandwidth is a finite number above zero, or "median"."""
    value = owner.bandwidth
    if isinstance(value, str):
        check_choice(owner, "bandwidth", ("median",))
    elif not (isinstance(value, Real) and not isinstance(value, bool) and 0 < float(value) < np.inf):
        msg = f"{type(owner).__name__}: bandwidth must be 'median' or a finite number > 0, got {value!r}."
        raise ParameterError(msg)
