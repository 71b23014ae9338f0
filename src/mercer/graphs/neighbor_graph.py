"""The graph of nearest neighbors."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp

from mercer.engines import Report
from mercer.errors import MercerWarning
from mercer.graphs.base import BANDWIDTH
from mercer.graphs.laplacian import GraphLaplacian
from mercer.graphs.laplacian_graph import LaplacianGraph
from mercer.graphs.neighbors import distances, nearest_neighbors, radii_of, search_cost, self_tuned_weights
from mercer.kernels.base import as_rows
from mercer.parameters import Choice, Domain, Integer

__all__ = ["NeighborGraph"]

Array = np.ndarray
# An edge that is shorter than this fraction of the longest edge of each of its two nodes joins near copies of a row.
NEGLIGIBLE = 1e-6
# Fraction of isolated rows above which a warning is issued.
MAX_ISOLATED = 0.1
# With fewer neighbors than this, small connected components are usual and no warning is issued.
FEW_NEIGHBORS = 3


class NeighborGraph(LaplacianGraph):
    r"""The graph of nearest neighbors: x and y have an edge if x is a nearest neighbor of y, or y of x.

    The weight of an edge between rows x and y is 1 ("binary"), or :math:`\exp(-\|x - y\|^2 / (2 s^2))` ("gaussian"), or
    half the sum of :math:`\exp(-4 \|x - y\|^2 / r^2)` over those of the two rows that have the other one as a nearest
    neighbor, where r is the distance of that row from its farthest one ("self_tuned", as in [2]_). Equal rows are one
    node, because copies of a row would be each other's nearest neighbors, without an edge to any other row.

    Parameters
    ----------
    n_neighbors : int, default=10
        Number of nearest neighbors of each row. If there are fewer other rows, all of them are neighbors.
    weights : {"gaussian", "self_tuned", "binary"}, default="gaussian"
        Weights of the edges. Those of "self_tuned" do not depend on a bandwidth that all rows share.
    bandwidth : "median" or float, default="median"
        The bandwidth s of Gaussian weights. "median" is the median length of the edges, without those between near
        copies of a row, which are edges shorter than a millionth of the longest edge of each of their two nodes. The
        parameter is ignored for other weights.
    search : {"auto", "exact", "approximate"}, default="auto"
        "exact" finds all nearest neighbors, at a cost that is up to quadratic in the number of rows. "approximate" uses
        nearest-neighbor descent [1]_, which needs ``mercer[graph]`` and whose result also depends on the number of
        threads. "auto" is approximate if that package is installed and there are 100,000 rows or more, which are
        sparse, or for which the descent is expected to take less time. The attribute `graph_` of `Deformed` reports
        which search was used.
    max_rows : int or None, default=None
        Largest number of rows. If there are more, the graph is built from a uniform sample of this size. None means all
        rows, which must then fit in memory, even if they are read from files. Their features need not fit in memory.

    See Also
    --------
    FeatureGraph : A graph of all pairs of rows that needs no search.
    sklearn.neighbors.kneighbors_graph : The matrix of directed nearest-neighbor edges.

    References
    ----------
    .. [1] Dong, Moses, Li (2011), Efficient k-nearest neighbor graph construction, WWW.
    .. [2] Calder, Cook, Thorpe, Slepcev (2020), Poisson learning: graph based semi-supervised learning at very low
       label rates, ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import NeighborGraph
    >>> X = np.concatenate([np.arange(5.0), 100 + np.arange(5.0)])[:, None]
    >>> graph = NeighborGraph(n_neighbors=2).laplacian(X)
    >>> graph.n_nodes, graph.n_connected_components, graph.bandwidth
    (10, 2, 1.0)
    """

    merges_equal_rows: ClassVar[bool] = True
    laplacian_reports: ClassVar[bool] = True
    parameter_domains: ClassVar[Mapping[str, Domain]] = {
        "n_neighbors": Integer(1),
        "weights": Choice("gaussian", "self_tuned", "binary"),
        "bandwidth": BANDWIDTH,
        "search": Choice("auto", "exact", "approximate"),
        "max_rows": Integer(1) | Choice(None),
    }

    def __init__(
        self,
        n_neighbors: int = 10,
        weights: Literal["gaussian", "self_tuned", "binary"] = "gaussian",
        *,
        bandwidth: float | Literal["median"] = "median",
        search: Literal["auto", "exact", "approximate"] = "auto",
        max_rows: int | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.weights = weights
        self.bandwidth = bandwidth
        self.search = search
        self.max_rows = max_rows

    def _build_cost(self, n: int, d: int, D: int) -> float:  # noqa: ARG002 - the signature of the contract
        nodes = n if self.max_rows is None else min(n, self.max_rows)
        return search_cost(nodes, d, search=self.search)

    def laplacian(
        self, X: Any, *, seed: int = 0, n_jobs: int | None = None, report: Report | None = None
    ) -> GraphLaplacian:
        """Return the Laplacian of the graph of distinct, finite rows.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Distinct rows.
        seed : int, default=0
            Seed of an approximate search.
        n_jobs : int or None, default=None
            Number of threads; None means all cores.
        report : callable or None, default=None
            Receives the progress.

        Returns
        -------
        GraphLaplacian
        """
        self.check()
        X = as_rows(self, X)
        n = X.shape[0]
        count = min(self.n_neighbors, n - 1)
        if count < 1:
            return GraphLaplacian.from_weights(sp.csr_array((n, n)), search="exact")
        found, search = nearest_neighbors(X, count, search=self.search, seed=seed, n_jobs=n_jobs, report=report)
        row, position = np.nonzero(found >= 0)  # an approximate search may miss some
        links = sp.csr_array((np.ones(len(row)), (row, found[row, position])), shape=(n, n))
        radii = radii_of(X, found)
        bandwidth: float | None = None
        if self.weights == "self_tuned":
            row, column = links.tocoo().coords
            values = self_tuned_weights(distances(X, row, column), radii[row])
            directed = sp.csr_array((values, (row, column)), shape=(n, n))
            W = 0.5 * (directed + directed.T)
        else:
            i, j = sp.triu(links.maximum(links.T), 1).tocoo().coords
            values = np.ones(len(i))
            if self.weights == "gaussian":
                lengths = distances(X, i, j)
                bandwidth = self._resolved_bandwidth(lengths, i, j, n)
                values = np.exp(-0.5 * np.square(lengths / bandwidth))
            upper = sp.csr_array((values, (i, j)), shape=(n, n))
            W = upper + upper.T
        graph = replace(GraphLaplacian.from_weights(W, search=search, bandwidth=bandwidth), radii=radii)
        if bandwidth is not None and graph.n_isolated > MAX_ISOLATED * n:
            msg = (
                f"NeighborGraph: {graph.n_isolated} of {n} rows have no edge, because all their weights are zero at "
                f"bandwidth {bandwidth:.3g}, and the graph does not affect them. Try a larger bandwidth, or "
                "weights='binary'."
            )
            warnings.warn(msg, MercerWarning, stacklevel=2)
        elif count >= FEW_NEIGHBORS and graph.n_connected_components > max(10, n / (2 * (count + 1))):
            msg = (
                f"NeighborGraph: the graph of {n} rows has {graph.n_connected_components} connected components, hardly "
                f"larger than a row and its {count} neighbors, and no label spreads beyond its component. Try more "
                "neighbors. If rows have near copies, these are their nearest neighbors: use more neighbors than "
                "copies, or round the rows, since equal rows are one node."
            )
            warnings.warn(msg, MercerWarning, stacklevel=2)
        return graph

    def _resolved_bandwidth(self, lengths: Array, i: Array, j: Array, n: int) -> float:
        """Return the bandwidth. Edge k connects the nodes i[k] and j[k] of n nodes and has the length lengths[k]."""
        if self.bandwidth != "median":
            return float(self.bandwidth)
        longest = np.zeros(n)
        for ends in (i, j):
            np.maximum.at(longest, ends, lengths)
        # Edges between near copies have a weight of one at any bandwidth. If they are many, their lengths would
        # otherwise be the median.
        apart = lengths[lengths > NEGLIGIBLE * np.minimum(longest[i], longest[j])]
        return float(np.median(apart)) if apart.size else 1.0
