"""Dot-product kernels for every test of a power series."""

from mercer import ExponentialDotProduct, Geometric, Polynomial

LINEAR = Polynomial(1, coef0=0.0)
KERNELS = [LINEAR, Polynomial(3, coef0=0.5), ExponentialDotProduct(), ExponentialDotProduct(2.0), Geometric()]
BASES = (1.5, 2.0, 3.0)
RADIUS = 0.5  # base 3 leaves it inside the radius of convergence of the geometric series
