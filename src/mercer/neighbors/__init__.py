"""Nearest neighbors of queries among rows, by exact and approximate search, with one interface."""

from mercer.neighbors.base import NeighborIndex
from mercer.neighbors.index import neighbor_index

__all__ = ["NeighborIndex", "neighbor_index"]
