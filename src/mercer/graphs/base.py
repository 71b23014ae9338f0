r"""Base classes of graphs over rows, and the objects that graphs and deformed maps exchange.

A graph is an estimator that connects rows by edges. `Deformed` requires only one result from a graph: the roughness
:math:`\Phi^\top M \Phi` of features :math:`\Phi` on the graph, with the penalty matrix :math:`M = \alpha L^c` of
strength :math:`\alpha`, for the graph Laplacian L. Each graph decides how to compute the roughness, with a sparse
Laplacian or without one. To define a new graph:

- Subclass `mercer.graphs.LaplacianGraph` and implement `laplacian` if the graph is built from all rows at once and has
  a sparse Laplacian. The docstring of that class has an example.
- Subclass `Graph` and implement `measure` for any other graph.
- Subclass `GrowingGraph` if rows can be added after the fit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mercer.engines import Engine, Report
from mercer.features import Features
from mercer.maps.base import Estimator
from mercer.parameters import Choice, Interval

__all__ = [
    "BANDWIDTH",
    "EXACT_ROWS",
    "DenseLaplacian",
    "Graph",
    "GraphMoments",
    "GraphSummary",
    "GrowingGraph",
    "Measure",
    "Nodes",
    "Penalty",
    "Roughness",
]

Array = np.ndarray
# If a graph has at most this many rows, they are retained for the exact deformed kernel, whose cost is cubic in them.
EXACT_ROWS = 4000
#: Domain of the bandwidth of Gaussian weights.
BANDWIDTH = Choice("median") | Interval(0, closed="neither")


@dataclass(frozen=True)
class Penalty:
    """The parameters of the penalty matrix M = strength * L^power, for a graph Laplacian L."""

    strength: float
    power: float


@dataclass(frozen=True)
class GraphSummary:
    """Sizes and settings of a graph that was built. Attributes that are not known are None.

    Attributes
    ----------
    n_nodes : int
        Number of nodes. Each row is a node, except that equal rows are one node of a `NeighborGraph`.
    n_edges : int or None
        Number of pairs of nodes with a positive weight.
    n_isolated : int
        Number of nodes without an edge to another node.
    n_connected_components : int or None
        Number of connected components, which is the dimension of the null space of the Laplacian.
    search : str
        How the edges were found: "exact", "approximate", "given", or "features".
    bandwidth : float or None
        Bandwidth of Gaussian weights.
    """

    n_nodes: int
    n_edges: int | None
    n_isolated: int
    n_connected_components: int | None
    search: str
    bandwidth: float | None


class DenseLaplacian(Protocol):
    """A graph Laplacian of few nodes whose powers can be computed as dense matrices."""

    def power(self, power: float) -> Array:
        """Return L^power as a dense matrix of shape (n, n)."""


@dataclass(frozen=True, eq=False)
class Nodes:
    """The rows and the Laplacian of a graph of at most `EXACT_ROWS` nodes."""

    rows: Any
    laplacian: DenseLaplacian


class GraphMoments(Protocol):
    """Sums over the rows of a graph. The roughness is computed from the sums, and more rows can be added to them."""

    def roughness(self, penalty: Penalty) -> Roughness:
        """Return the roughness of the features on the graph of all rows that were added."""


@dataclass(frozen=True, eq=False)
class Roughness:
    """The roughness Phi' M Phi of features Phi (n, D) on a graph with the penalty matrix M = strength * L^power.

    Attributes
    ----------
    matrix : ndarray of shape (D, D)
        The matrix Phi' M Phi in float64, of which only the upper triangle is used.
    graph : GraphSummary
        The graph that was built.
    exact : Nodes or None
        The rows and the Laplacian, for the exact deformed kernel; None if there are more than `EXACT_ROWS` nodes, or
        if the exact kernel is not defined.
    error : float
        Bound on the spectral norm of the error of L^power. It is positive for fractional powers only.
    moments : GraphMoments or None
        The sums to which a `GrowingGraph` adds more rows, or None for other graphs.
    """

    matrix: Array
    graph: GraphSummary
    exact: Nodes | None
    error: float = 0.0
    moments: GraphMoments | None = None


#: The roughness of some features on one graph as a function of the penalty, so that the graph is built only once.
Measure = Callable[[Penalty], Roughness]


class Graph(Estimator, ABC):
    """Base class of estimators that build a graph of rows and measure how rough features are on it.

    A graph is an unfitted estimator: its constructor only stores its parameters, whose domains it declares in
    `parameter_domains`.

    See Also
    --------
    LaplacianGraph : Base class of graphs that have a sparse Laplacian.
    GrowingGraph : Base class of graphs to which rows can be added.
    """

    #: Optional method ``_build_cost(n, d, D) -> float``: the cost of `measure` for n rows of d features and a map of D
    #: components, in the unit of `BaseMap.fit_costs`; displays of progress use it.
    _build_cost: Callable[[int, int, int], float] | None = None

    def check(self) -> None:
        """Raise `ParameterError` if a parameter lies outside its domain."""
        self._check_domains()

    def build_cost(self, n: int, d: int, D: int) -> float | None:
        """Return the cost of building the graph, or None if it is not known."""
        return None if self._build_cost is None else self._build_cost(n, d, D)

    @abstractmethod
    def measure(
        self, features: Features, engine: Engine, *, max_bytes: int, seed: int, report: Report | None = None
    ) -> Measure:
        """Build the graph of the rows of an engine, and return a function that measures the roughness of features.

        Parameters
        ----------
        features : Features
            The features of a fitted map, which must be real.
        engine : Engine
            The rows, which can be read more than once.
        max_bytes : int
            Number of bytes that the features of all rows may take at a time.
        seed : int
            Seed of random choices in the construction of the graph, if there are any.
        report : callable or None, default=None
            Receives the progress, also when the result is called.

        Returns
        -------
        callable
            A function from a `Penalty` to a `Roughness`.
        """


class GrowingGraph(Graph):
    """Base class of graphs to which rows can be added block by block, because they only need sums over rows."""

    @abstractmethod
    def moments(
        self, features: Features, engine: Engine, *, seed: int, previous: GraphMoments | None = None
    ) -> GraphMoments:
        """Return the sums over the rows of an engine, plus the sums in `previous` unless it is None.

        Parameters
        ----------
        features : Features
            The features of a fitted map, which must be real.
        engine : Engine
            The rows to add, which can be read more than once.
        seed : int
            Seed of random choices in the construction of the graph, if there are any.
        previous : GraphMoments or None, default=None
            The sums over the previous rows, as this method returned them for the same features.

        Returns
        -------
        GraphMoments
        """
