"""What is approximated: kernels as frozen values with exact formulas."""

from mercer.kernels.base import Kernel
from mercer.kernels.compose import Composed, Constant, Product, Scaled, Sum, Transformed
from mercer.kernels.dot_product import DotProduct, Exponential, Geometric, Polynomial
from mercer.kernels.isotropic import Gaussian, Matern, RationalQuadratic
from mercer.kernels.product import Cauchy, Laplacian
from mercer.kernels.sphere import gegenbauer_coefficients, positive_definite_on_sphere

__all__ = [
    "Cauchy",
    "Composed",
    "Constant",
    "DotProduct",
    "Exponential",
    "Gaussian",
    "Geometric",
    "Kernel",
    "Laplacian",
    "Matern",
    "Polynomial",
    "Product",
    "RationalQuadratic",
    "Scaled",
    "Sum",
    "Transformed",
    "gegenbauer_coefficients",
    "positive_definite_on_sphere",
]
