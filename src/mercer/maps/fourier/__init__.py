"""Fourier features of shift-invariant kernels: random, chosen and quadrature frequencies."""

from mercer.maps.fourier.random_fourier import RandomFourier
from mercer.maps.fourier.resampled import ResampledFourier
from mercer.maps.fourier.spherical_radial import SphericalRadial

__all__ = ["RandomFourier", "ResampledFourier", "SphericalRadial"]
