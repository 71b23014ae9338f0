"""What is approximated: kernels as frozen values with exact formulas."""

from mercer.kernels.base import Kernel
from mercer.kernels.compose import Composed, Constant, Product, Scaled, Sum, Transformed
from mercer.kernels.dot_product import Exponential, Polynomial
from mercer.kernels.isotropic import Gaussian, Matern, RationalQuadratic
from mercer.kernels.product import Cauchy, Laplacian

__all__ = [
    "Cauchy",
    "Composed",
    "Constant",
    "Exponential",
    "Gaussian",
    "Kernel",
    "Laplacian",
    "Matern",
    "Polynomial",
    "Product",
    "RationalQuadratic",
    "Scaled",
    "Sum",
    "Transformed",
]
