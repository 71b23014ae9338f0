"""Kernels that are given by values alone: a function of rows, or a matrix."""

from mercer.kernels.values.callable_kernel import CallableKernel
from mercer.kernels.values.precomputed import Precomputed

__all__ = ["CallableKernel", "Precomputed"]
