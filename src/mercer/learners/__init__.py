"""What for: estimators on features, each one summable statistic and one solve."""

from mercer.learners.ridge import KernelRidge, KernelRidgeClassifier

__all__ = ["KernelRidge", "KernelRidgeClassifier"]
