"""Gaussian processes: learners whose predictions have error bars."""

from mercer.learners.processes.grid import GridGaussianProcessRegressor

__all__ = ["GridGaussianProcessRegressor"]
