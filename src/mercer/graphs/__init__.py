"""Graphs over rows, their Laplacians, and kernels deformed by them."""

from mercer.graphs.deformed import Deformed
from mercer.graphs.feature_graph import FeatureGraph
from mercer.graphs.neighbor_graph import NeighborGraph

__all__ = ["Deformed", "FeatureGraph", "NeighborGraph"]
