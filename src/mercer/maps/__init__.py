"""Feature maps from rows to features: `fit` draws, `transform` applies."""

from mercer.maps.algebra.composition import CompositionMap
from mercer.maps.algebra.product_map import ProductMap
from mercer.maps.algebra.sum_map import SumMap
from mercer.maps.base import BaseMap, DrawnMap
from mercer.maps.fourier.random_fourier import RandomFourier
from mercer.maps.fourier.spherical_radial import SphericalRadial
from mercer.maps.histogram.homogeneous import HomogeneousFeatures
from mercer.maps.histogram.thresholds import ThresholdFeatures
from mercer.maps.landmarks.nystroem import Nystroem
from mercer.maps.neurons.random_neurons import RandomNeurons
from mercer.maps.registry import default_map, maps_for, why
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
    "why",
]
