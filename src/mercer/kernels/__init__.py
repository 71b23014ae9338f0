"""Kernels: immutable objects that compute the exact values k(x, y) that feature maps approximate."""

from mercer.kernels.algebra import Composed, Constant, Product, Scaled, Sum, Transformed
from mercer.kernels.arc_cosine import ArcCosine, neural_tangent_kernel
from mercer.kernels.base import Kernel
from mercer.kernels.deformed import DeformedKernel
from mercer.kernels.dot_product import DotProduct, DotProductKernel, ExponentialDotProduct, Geometric, Polynomial
from mercer.kernels.histogram import (
    Chi2,
    Hellinger,
    HomogeneousKernel,
    Intersection,
    JensenShannon,
    Min,
    ThresholdKernel,
)
from mercer.kernels.isotropic import Gaussian, IsotropicKernel, Matern, RationalQuadratic
from mercer.kernels.power_series import PowerSeries
from mercer.kernels.separable import Cauchy, Laplacian, SeparableKernel
from mercer.kernels.spectral import ShiftInvariantKernel
from mercer.kernels.sphere import gegenbauer_coefficients, positive_definite_on_sphere
from mercer.kernels.values import CallableKernel, Precomputed

__all__ = [
    "ArcCosine",
    "CallableKernel",
    "Cauchy",
    "Chi2",
    "Composed",
    "Constant",
    "DeformedKernel",
    "DotProduct",
    "DotProductKernel",
    "ExponentialDotProduct",
    "Gaussian",
    "Geometric",
    "Hellinger",
    "HomogeneousKernel",
    "Intersection",
    "IsotropicKernel",
    "JensenShannon",
    "Kernel",
    "Laplacian",
    "Matern",
    "Min",
    "Polynomial",
    "PowerSeries",
    "Precomputed",
    "Product",
    "RationalQuadratic",
    "Scaled",
    "SeparableKernel",
    "ShiftInvariantKernel",
    "Sum",
    "ThresholdKernel",
    "Transformed",
    "gegenbauer_coefficients",
    "neural_tangent_kernel",
    "positive_definite_on_sphere",
]
