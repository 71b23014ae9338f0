"""Variances, error bounds and required numbers of components of feature maps, computed without fitting a map.

Each function implements one theorem. It raises `ParameterError` if an argument lies outside its domain. Arguments that
exceed a boundary of the domain only by rounding error are clipped to the boundary. A bound that exceeds the range of
float64 is returned as infinity, or as 1 if it bounds a probability. `docs/theory/` states the theorems and where they
differ from their sources.
"""

from mercer.theory.bounds import fourier_failure, hoeffding_radius
from mercer.theory.compositions import (
    InnerConstants,
    composed_bound,
    composed_failure,
    composed_gradient,
    gaussian_phase_constants,
)
from mercer.theory.deformation import (
    deformation_components,
    deformation_error,
    deformation_factor,
    deformation_mean_error,
    graph_truncation_error,
    kernel_matrix_failure,
    kernel_matrix_mean_error,
    matrix_bernstein,
    penalty_norm,
)
from mercer.theory.fourier.grid import grid_error, grid_mean_error
from mercer.theory.maclaurin import (
    dot_product_gradient,
    maclaurin_bound,
    maclaurin_failure,
    maclaurin_gradient,
    maclaurin_sharp_bound,
    maclaurin_uniform_failure,
)
from mercer.theory.power import linear_mmd_power, mmd_power, permutation_level
from mercer.theory.quadrature import (
    fourier_uniform_failure,
    quadrature_failure,
    quadrature_gaussian_variance,
    quadrature_range,
    quadrature_rules,
    quadrature_uniform_failure,
    quadrature_variance,
)
from mercer.theory.sizes import maclaurin_components, required_components
from mercer.theory.sketch import tensor_sketch_variance
from mercer.theory.thresholds import jittered_variance, threshold_variance
from mercer.theory.truncation import truncation_degree, truncation_error
from mercer.theory.variance import cosine_variance, orthogonal_covariance, phase_variance

__all__ = [
    "InnerConstants",
    "composed_bound",
    "composed_failure",
    "composed_gradient",
    "cosine_variance",
    "deformation_components",
    "deformation_error",
    "deformation_factor",
    "deformation_mean_error",
    "dot_product_gradient",
    "fourier_failure",
    "fourier_uniform_failure",
    "gaussian_phase_constants",
    "graph_truncation_error",
    "grid_error",
    "grid_mean_error",
    "hoeffding_radius",
    "jittered_variance",
    "kernel_matrix_failure",
    "kernel_matrix_mean_error",
    "linear_mmd_power",
    "maclaurin_bound",
    "maclaurin_components",
    "maclaurin_failure",
    "maclaurin_gradient",
    "maclaurin_sharp_bound",
    "maclaurin_uniform_failure",
    "matrix_bernstein",
    "mmd_power",
    "orthogonal_covariance",
    "penalty_norm",
    "permutation_level",
    "phase_variance",
    "quadrature_failure",
    "quadrature_gaussian_variance",
    "quadrature_range",
    "quadrature_rules",
    "quadrature_uniform_failure",
    "quadrature_variance",
    "required_components",
    "tensor_sketch_variance",
    "threshold_variance",
    "truncation_degree",
    "truncation_error",
]
