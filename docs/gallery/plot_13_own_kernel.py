"""
Your own kernel
===============

An isotropic kernel needs two formulas: its profile, and the mixture of Gaussian kernels that it is. Every map of
isotropic kernels then takes it, and `mercer.testing.check_kernel` verifies that the two belong together.
"""

# %%
# Two formulas
# ------------
# A mixture of Gaussian kernels exp(-tau r^2 / 2) with tau uniform on (0, 2) is (1 - exp(-r^2)) / r^2. It decays
# like one over the squared distance: far rows still know a little about each other.

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np

from mercer import Gaussian, KernelRidge, Laplacian, Nystroem, RandomFourier
from mercer.kernels import IsotropicKernel


@dataclass(frozen=True)
class UniformMixture(IsotropicKernel):
    """The kernel (1 - exp(-r^2)) / r^2."""

    lengthscale: float = 1.0

    def profile(self, r):
        """Return the kernel as a function of the scaled distance."""
        square = np.maximum(np.square(r), 1e-300)
        return -np.expm1(-square) / square

    def mixing(self, u):
        """Return the quantile function of tau."""
        return 2 * u


# %%
# Its features, without another line
# ----------------------------------
# Left: the profile beside known ones, with three draws of Fourier features (dots). Right: functions drawn from the
# processes with these kernels, in the same colors.

r = np.linspace(0, 5, 200)
line = np.column_stack([r, np.zeros_like(r)])
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4))
for color, kernel in zip(("C1", "C0", "C2"), (UniformMixture(), Gaussian(1.0), Laplacian(1.0)), strict=True):
    name = type(kernel).__name__
    left.plot(r, kernel(line[:1], line)[0], color=color, label=name, lw=2)
    features = RandomFourier(kernel, 4096, random_state=1).fit(line).transform(3 * line)
    paths = features @ np.random.default_rng(4).normal(size=(features.shape[1], 1))
    right.plot(3 * r, paths + {"UniformMixture": 0, "Gaussian": 5, "Laplacian": -5}[name], color=color, label=name)
for seed in range(3):
    draw = RandomFourier(UniformMixture(), 256, random_state=seed).fit(line)
    left.plot(r[::6], draw.gram(line[:1], line[::6])[0], ".", color="C1", ms=4)
left.set(xlabel="distance", title="profiles, and features of the new kernel (dots)")
left.legend()
right.set(xlabel="x", yticks=[], title="functions drawn with each kernel")
plt.show()

# %%
# Learners take it like any other kernel:

rng = np.random.default_rng(0)
X = rng.normal(size=(600, 3))
y = np.sin(2 * X[:, 0]) + np.log1p(X[:, 1] ** 2)
model = KernelRidge(Nystroem(UniformMixture(1.5), 200, random_state=0), alpha="loo").fit(X[:400], y[:400])
print(f"R2 {model.score(X[400:], y[400:]):.3f}")
