"""Features of kernels of non-negative rows."""

from mercer.maps.histogram.homogeneous import HomogeneousFeatures
from mercer.maps.histogram.thresholds import ThresholdFeatures

__all__ = ["HomogeneousFeatures", "ThresholdFeatures"]
