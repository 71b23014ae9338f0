"""Feature maps of kernels that are power series of the inner product.

`RandomMaclaurin` approximates each term of the series separately. `PolynomialSketch` and `TensorSketch` approximate a
polynomial kernel of degree p as one product of p factors.
"""

from mercer.maps.series.polynomial_sketch import PolynomialSketch
from mercer.maps.series.random_maclaurin import RandomMaclaurin
from mercer.maps.series.tensor_sketch import TensorSketch

__all__ = ["PolynomialSketch", "RandomMaclaurin", "TensorSketch"]
