"""Features of sums, products and compositions of kernels, from maps of their parts."""

from mercer.maps.algebra.composition import CompositionMap
from mercer.maps.algebra.product_map import ProductMap
from mercer.maps.algebra.sum_map import SumMap

__all__ = ["CompositionMap", "ProductMap", "SumMap"]
