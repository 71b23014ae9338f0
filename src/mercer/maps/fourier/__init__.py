"""Fourier features of shift-invariant kernels: random and quadrature frequencies."""

from mercer.maps.fourier.random_fourier import RandomFourier
from mercer.maps.fourier.spherical_radial import SphericalRadial

__all__ = ["RandomFourier", "SphericalRadial"]
