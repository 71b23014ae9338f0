"""How: maps from rows to features. Fit draws, transform applies."""

from mercer.kernels import Kernel
from mercer.maps.algebra.composition import CompositionMap
from mercer.maps.algebra.product_map import ProductMap
from mercer.maps.algebra.sum_map import SumMap
from mercer.maps.base import BaseMap
from mercer.maps.drawn import DrawnMap, maps_for
from mercer.maps.fourier.random_fourier import RandomFourier
from mercer.maps.fourier.spherical_radial import SphericalRadial
from mercer.maps.histogram.homogeneous import HomogeneousFeatures
from mercer.maps.histogram.thresholds import ThresholdFeatures
from mercer.maps.landmarks.nystroem import Nystroem
from mercer.maps.neurons.random_neurons import RandomNeurons
from mercer.maps.series.polynomial_sketch import PolynomialSketch
from mercer.maps.series.random_maclaurin import RandomMaclaurin
from mercer.maps.series.tensor_sketch import TensorSketch

__all__ = [
    "BaseMap",
    "CompositionMap",
    "DrawnMap",
    "HomogeneousFeatures",
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
