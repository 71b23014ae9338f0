"""What is approximated: kernels as frozen values with exact formulas."""

from mercer.kernels.algebra import Composed, Constant, Product, Scaled, Sum, Transformed
from mercer.kernels.arc_cosine import ArcCosine, neural_tangent_kernel
from mercer.kernels.base import Kernel
from mercer.kernels.deformed import DeformedKernel
from mercer.kernels.dot_product import DotProduct, ExponentialDotProduct, Geometric, Polynomial
from mercer.kernels.histogram import Chi2, Hellinger, Intersection, JensenShannon, Min
from mercer.kernels.isotropic import Gaussian, Matern, RationalQuadratic
from mercer.kernels.separable import Cauchy, Laplacian
from mercer.kernels.sphere import gegenbauer_coefficients, positive_definite_on_sphere

__all__ = [
    "ArcCosine",
    "Cauchy",
    "Chi2",
    "Composed",
    "Constant",
    "DeformedKernel",
    "DotProduct",
    "ExponentialDotProduct",
    "Gaussian",
    "Geometric",
    "Hellinger",
    "Intersection",
    "JensenShannon",
    "Kernel",
    "Laplacian",
    "Matern",
    "Min",
    "Polynomial",
    "Product",
    "RationalQuadratic",
    "Scaled",
    "Sum",
    "Transformed",
    "gegenbauer_coefficients",
    "neural_tangent_kernel",
    "positive_definite_on_sphere",
]
