"""Fourier features of shift-invariant kernels: random, chosen, quadrature and equispaced frequencies."""

from mercer.maps.fourier.grid_fourier import GridFourier
from mercer.maps.fourier.random_fourier import RandomFourier
from mercer.maps.fourier.resampled import ResampledFourier
from mercer.maps.fourier.spherical_radial import SphericalRadial

__all__ = ["GridFourier", "RandomFourier", "ResampledFourier", "SphericalRadial"]
