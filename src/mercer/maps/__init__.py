"""How: maps from rows to features. Fit draws, transform applies."""

from mercer.kernels import Kernel
from mercer.maps.base import BaseMap
from mercer.maps.composition import CompositionMap
from mercer.maps.deformed import Deformed
from mercer.maps.drawn import DrawnMap, maps_for
from mercer.maps.feature_graph import FeatureGraph
from mercer.maps.fourier import RandomFourier
from mercer.maps.graphs import NeighborGraph
from mercer.maps.homogeneous import HomogeneousFeatures
from mercer.maps.maclaurin import RandomMaclaurin
from mercer.maps.neurons import RandomNeurons
from mercer.maps.nystroem import Nystroem
from mercer.maps.polynomial_sketch import PolynomialSketch
from mercer.maps.product_map import ProductMap
from mercer.maps.quadrature import SphericalRadial
from mercer.maps.sketch import TensorSketch
from mercer.maps.sum_map import SumMap
from mercer.maps.thresholds import ThresholdFeatures

__all__ = [
    "BaseMap",
    "CompositionMap",
    "Deformed",
    "DrawnMap",
    "FeatureGraph",
    "HomogeneousFeatures",
    "NeighborGraph",
    "Nystroem",
    "PolynomialSketch",
    "ProductMap",
    "RandomFourier",
    "RandomMaclaurin",
    "RandomNeurons",
    "SphericalRadial",
    "SumMap",
    "TensorSketch",
    "ThresholdFeatures",
    "default_map",
    "maps_for",
]


def default_map(kernel: Kernel | None, *, random_state: object = None) -> BaseMap:
    """Return an unfitted map for a kernel: explicit features where they exist, landmarks otherwise."""
    return (RandomFourier if kernel is None else maps_for(kernel)[0])(kernel, random_state=random_state)
