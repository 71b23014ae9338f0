"""Gaussian processes: learners whose predictions have error bars."""

from mercer.learners.processes.classifier import GaussianProcessClassifier
from mercer.learners.processes.grid import GridGaussianProcessRegressor
from mercer.learners.processes.regressor import GaussianProcessRegressor

__all__ = ["GaussianProcessClassifier", "GaussianProcessRegressor", "GridGaussianProcessRegressor"]
