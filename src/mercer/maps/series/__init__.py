"""Features of power series of the inner product: Maclaurin features and sketches of polynomial kernels."""

from mercer.maps.series.polynomial_sketch import PolynomialSketch
from mercer.maps.series.random_maclaurin import RandomMaclaurin
from mercer.maps.series.tensor_sketch import TensorSketch

__all__ = ["PolynomialSketch", "RandomMaclaurin", "TensorSketch"]
