"""Gaussian process classification on features: the Laplace approximation, its evidence, and its calibration."""
