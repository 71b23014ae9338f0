"""Dot-product kernels for every test of a power series."""

import numpy as np

from mercer import Exponential, Polynomial
from mercer.kernels.dot_product import DotProductKernel


class Geometric(DotProductKernel):
    """1 / (1 - t), the kernel of Vovk: a series that ends at radius one."""

    radius = 1.0

    def function(self, t):
        return 1 / (1 - t)

    def coefficients(self, n):
        return np.ones(n)

    def __repr__(self):
        return "Geometric()"


LINEAR = Polynomial(1, coef0=0.0)
KERNELS = [LINEAR, Polynomial(3, coef0=0.5), Exponential(), Exponential(0.7), Geometric()]
BASES = (1.5, 2.0, 3.0)
RADIUS = 0.5  # base 3 leaves it inside the radius of convergence of the geometric series
