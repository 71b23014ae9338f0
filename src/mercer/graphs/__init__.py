"""Graphs over rows, graph Laplacians, and feature maps of kernels that are deformed by a graph."""

from mercer.graphs.base import Graph, GraphSummary, GrowingGraph
from mercer.graphs.basis import GraphBasis
from mercer.graphs.deformed import Deformed
from mercer.graphs.feature_graph import FeatureGraph
from mercer.graphs.laplacian import GraphLaplacian
from mercer.graphs.laplacian_graph import LaplacianGraph
from mercer.graphs.neighbor_graph import NeighborGraph

__all__ = [
    "Deformed",
    "FeatureGraph",
    "Graph",
    "GraphBasis",
    "GraphLaplacian",
    "GraphSummary",
    "GrowingGraph",
    "LaplacianGraph",
    "NeighborGraph",
]
