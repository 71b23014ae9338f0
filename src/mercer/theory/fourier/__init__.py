"""Errors of grids of Fourier frequencies."""
