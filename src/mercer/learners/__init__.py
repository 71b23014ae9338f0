"""Learners: estimators on the features of a map, which sum a statistic over the rows and solve for a model."""

from mercer.learners.deformed_search import DeformedSearchCV
from mercer.learners.few_labels import FewLabelClassifier
from mercer.learners.glm import KernelLogisticRegression, KernelSVC
from mercer.learners.kmeans import KernelKMeans
from mercer.learners.local_correction import LocalCorrection
from mercer.learners.pca import KernelPCA
from mercer.learners.processes import (
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    GridGaussianProcessRegressor,
)
from mercer.learners.ridge import KernelRidge, KernelRidgeClassifier

__all__ = [
    "DeformedSearchCV",
    "FewLabelClassifier",
    "GaussianProcessClassifier",
    "GaussianProcessRegressor",
    "GridGaussianProcessRegressor",
    "KernelKMeans",
    "KernelLogisticRegression",
    "KernelPCA",
    "KernelRidge",
    "KernelRidgeClassifier",
    "KernelSVC",
    "LocalCorrection",
]
