r"""Values of the eigenvectors of a graph at rows of the graph, and at new rows by their neighbors.

The eigenvectors v of the random-walk Laplacian :math:`I - D^{-1} W` satisfy
:math:`(1 - \lambda) v_i = \sum_j W_{ij} v_j / D_{ii}`: up to a factor, the value at a node is the weighted mean of the
values at its neighbors. Nystroem's extension defines the value at a new row by the same formula.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from mercer.features import Features
from mercer.graphs.neighbors import self_tuned_weights
from mercer.neighbors.base import NeighborIndex

__all__ = ["GraphFeatures", "Neighborhood"]

Array = np.ndarray
# A row whose nearest node is closer than this fraction of the distance of its farthest neighbor is a near copy of that
# node, and gets its values.
NEGLIGIBLE = 1e-6
# Least factor 1 - eigenvalue by which the mean over neighbors is divided. Eigenvectors of larger eigenvalues change
# sign from neighbor to neighbor, and the quotient would magnify what is random in the mean.
LEAST_DIVISOR = 0.5
# Nodes that are searched for a row, in units of the number of its neighbors: some of those beyond its nearest ones
# would have it as a neighbor.
SEARCHED = 3


@dataclass(frozen=True, eq=False)
class Neighborhood:
    """The nodes of a graph, and the weights of the neighbors of a new row.

    Attributes
    ----------
    index : NeighborIndex
        The nodes.
    count : int
        Number of nearest nodes of a row that are its neighbors.
    bandwidth : float or None
        Bandwidth of Gaussian weights; None for other weights.
    radii : ndarray of shape (n,) or None, default=None
        Distance of each node from the farthest of its own nearest nodes. Nodes that are nearer to a row than this are
        its neighbors, too, as in a graph in which two nodes have an edge if one of them is a nearest neighbor of the
        other. None: only the nearest nodes of a row are its neighbors.
    self_tuned : bool, default=False
        Whether weights are relative to the distances from farthest neighbors; needs `radii`.
    """

    index: NeighborIndex
    count: int
    bandwidth: float | None
    radii: Array | None = None
    self_tuned: bool = False

    def __call__(self, X: Any) -> tuple[Array, Array]:
        """Return the neighbors of rows, and their weights, which sum to one.

        The neighbors are among the `SEARCHED` times `count` nearest nodes.

        Parameters
        ----------
        X : ndarray or CSR of shape (m, d)
            Rows.

        Returns
        -------
        indices : ndarray of shape (m, c)
            Indices of nodes. Neighbors at equal distances are sorted by index.
        weights : ndarray of shape (m, c)
            Weights >= 0. A row that is a node, or a near copy of one, has this node as its only neighbor.
        """
        if sp.issparse(X) != self.index.sparse:  # a fit to sparse rows, and queries that are dense, or the reverse
            X = X.toarray() if sp.issparse(X) else sp.csr_array(X)
        searched = self.count if self.radii is None else min(SEARCHED * self.count, self.index.n_rows)
        found, distances = self.index.query(X, searched, n_jobs=1)
        farthest = distances[:, self.count - 1, None]
        radii = np.zeros_like(distances) if self.radii is None else self.radii[found]
        nearest, back = np.arange(searched) < self.count, distances < radii
        if self.self_tuned:
            weights = nearest * self_tuned_weights(distances, farthest) + back * self_tuned_weights(distances, radii)
        elif self.bandwidth is None:
            weights = (nearest | back).astype(float)
        else:
            # Relative to the nearest neighbor, so that the weights of far rows do not all underflow.
            squares = np.square(distances / self.bandwidth)
            weights = (nearest | back) * np.exp(-0.5 * (squares - squares[:, :1]))
        weights[found < 0] = 0.0
        copies = distances[:, 0] <= NEGLIGIBLE * farthest[:, 0]
        weights[copies, 1:] = 0.0
        weights /= weights.sum(axis=1, keepdims=True)
        return np.maximum(found, 0), weights

    def copies(self, weights: Array) -> Array:
        """Return which rows have a single neighbor, given the weights of neighbors."""
        return (weights[:, 0] == 1.0) & (weights[:, 1:] == 0.0).all(axis=1)


@dataclass(frozen=True, eq=False)
class GraphFeatures(Features):
    """Weighted eigenvectors of a graph as functions of rows.

    Attributes
    ----------
    neighborhood : Neighborhood
        The nodes and the weights of neighbors.
    vectors : ndarray of shape (n, k)
        Values of the eigenvectors at the nodes, divided by `node_scale`.
    node_scale : ndarray of shape (n,) or None
        Factors of the values at the nodes; None means one. They are the roots of the degrees for eigenvectors of the
        symmetric Laplacian.
    factors : ndarray of shape (k,)
        Weights of the eigenvectors.
    divisors : ndarray of shape (k,)
        Numbers 1 - eigenvalue, by which means over neighbors are divided.
    """

    neighborhood: Neighborhood
    vectors: Array
    node_scale: Array | None
    factors: Array
    divisors: Array

    @property
    def n_components(self) -> int:
        return len(self.factors)

    def astype(self, dtype: Any) -> Self:
        scale = None if self.node_scale is None else self.node_scale.astype(dtype, copy=False)
        return replace(self, vectors=self.vectors.astype(dtype, copy=False), node_scale=scale)

    def with_factors(self, factors: Array) -> Self:
        """Return the same eigenvectors with other weights."""
        return replace(self, factors=np.asarray(factors, dtype=np.float64))

    def at_nodes(self, nodes: Any) -> Array:
        """Return the features of some nodes, given their indices or a slice."""
        values = self.vectors[nodes] * self.factors.astype(self.vectors.dtype)
        return values if self.node_scale is None else values * self.node_scale[nodes][..., None]

    def __call__(self, X: Any, out: Array) -> None:
        found, weights = self.neighborhood(X)
        copies = self.neighborhood.copies(weights)
        weights = weights.astype(out.dtype)
        out[:] = 0.0
        scale = np.zeros(len(out), out.dtype)
        for j in range(found.shape[1]):
            nodes, weight = found[:, j], weights[:, j]
            used = np.flatnonzero(weight)
            out[used] += weight[used, None] * self.vectors[nodes[used]]
            if self.node_scale is not None:
                scale[used] += weight[used] * self.node_scale[nodes[used]]
        factors = self.factors.astype(out.dtype)
        out[copies] *= factors
        out[~copies] *= factors / np.maximum(self.divisors, LEAST_DIVISOR).astype(out.dtype)
        if self.node_scale is not None:
            out *= scale[:, None]
