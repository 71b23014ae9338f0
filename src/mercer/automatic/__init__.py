"""Models that choose everything by themselves: columns, kernel, metric, penalty, near rows and weights of members."""

from mercer.automatic.models import KernelClassifier, KernelRegressor

__all__ = ["KernelClassifier", "KernelRegressor"]
