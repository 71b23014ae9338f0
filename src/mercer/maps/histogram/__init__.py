"""Feature maps of kernels for histograms, whose rows are non-negative."""

from mercer.maps.histogram.homogeneous import HomogeneousFeatures
from mercer.maps.histogram.thresholds import ThresholdFeatures

__all__ = ["HomogeneousFeatures", "ThresholdFeatures"]
