"""Feature maps from the smoothest eigenvectors of a graph."""

from mercer.graphs.basis.eigenvectors import Eigenvectors, smoothest_eigenvectors
from mercer.graphs.basis.extension import GraphFeatures, Neighborhood
from mercer.graphs.basis.graph_basis import GraphBasis, spectral_weights
from mercer.graphs.basis.kernel import GraphKernel

__all__ = [
    "Eigenvectors",
    "GraphBasis",
    "GraphFeatures",
    "GraphKernel",
    "Neighborhood",
    "smoothest_eigenvectors",
    "spectral_weights",
]
