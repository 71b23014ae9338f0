"""Feature maps: `fit` samples the random parameters, `transform` computes the features of rows."""

from mercer.maps.algebra import CompositionMap, ProductMap, SumMap
from mercer.maps.base import BaseMap, DrawnMap
from mercer.maps.fourier import GridFourier, RandomFourier, ResampledFourier, SphericalRadial
from mercer.maps.histogram import HomogeneousFeatures, ThresholdFeatures
from mercer.maps.landmarks import Nystroem
from mercer.maps.neurons import RandomNeurons
from mercer.maps.registry import default_map, maps_for, why
from mercer.maps.series import PolynomialSketch, RandomMaclaurin, TensorSketch

__all__ = [
    "BaseMap",
    "CompositionMap",
    "DrawnMap",
    "GridFourier",
    "HomogeneousFeatures",
    "Nystroem",
    "PolynomialSketch",
    "ProductMap",
    "RandomFourier",
    "RandomMaclaurin",
    "RandomNeurons",
    "ResampledFourier",
    "SphericalRadial",
    "SumMap",
    "TensorSketch",
    "ThresholdFeatures",
    "default_map",
    "maps_for",
    "why",
]
