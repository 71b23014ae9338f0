"""How good, before drawing: variances, bounds and sample sizes as functions, one theorem each."""

from mercer.theory.bounds import fourier_failure, hoeffding_radius
from mercer.theory.sizes import required_components
from mercer.theory.sketch import tensor_sketch_variance
from mercer.theory.thresholds import jittered_variance, threshold_variance
from mercer.theory.variance import cosine_variance, orthogonal_covariance, phase_variance

__all__ = [
    "cosine_variance",
    "fourier_failure",
    "hoeffding_radius",
    "jittered_variance",
    "orthogonal_covariance",
    "phase_variance",
    "required_components",
    "tensor_sketch_variance",
    "threshold_variance",
]
