"""Feature maps of sums, products and compositions of kernels, built from maps for the single kernels."""

from mercer.maps.algebra.composition import CompositionMap
from mercer.maps.algebra.product_map import ProductMap
from mercer.maps.algebra.sum_map import SumMap

__all__ = ["CompositionMap", "ProductMap", "SumMap"]
