"""What for: estimators on features, each one summable statistic and one solve."""

from mercer.learners.deformation_search import TunedDeformation, tune_deformation
from mercer.learners.glm import KernelLogisticRegression, KernelSVC
from mercer.learners.gp import GaussianProcessRegressor
from mercer.learners.independence import hsic_test
from mercer.learners.kmeans import KernelKMeans
from mercer.learners.pca import KernelPCA
from mercer.learners.ridge import KernelRidge, KernelRidgeClassifier
from mercer.learners.two_sample import mmd_test

__all__ = [
    "GaussianProcessRegressor",
    "KernelKMeans",
    "KernelLogisticRegression",
    "KernelPCA",
    "KernelRidge",
    "KernelRidgeClassifier",
    "KernelSVC",
    "TunedDeformation",
    "hsic_test",
    "mmd_test",
    "tune_deformation",
]
