"""One list of kernels for every test that holds for all of them."""

import numpy as np

from mercer import (
    ArcCosine,
    Cauchy,
    Chi2,
    Constant,
    DotProduct,
    ExponentialDotProduct,
    Gaussian,
    Geometric,
    Hellinger,
    Intersection,
    JensenShannon,
    Laplacian,
    Matern,
    Min,
    Polynomial,
    RationalQuadratic,
    Transformed,
    neural_tangent_kernel,
)

ISOTROPIC = [
    Gaussian(0.8),
    Matern(0.1, 1.3),
    Matern(0.5),
    Matern(1.0, 0.7),
    Matern(1.5),
    Matern(2.5, 2.0),
    Matern(150.0),
    Matern(np.inf, 1.2),
    RationalQuadratic(0.3),
    RationalQuadratic(1.0, 0.6),
    RationalQuadratic(20.0, 1.5),
]
PRODUCT = [Laplacian(1.4), Cauchy(0.9)]
SHIFT_INVARIANT = ISOTROPIC + PRODUCT
DOT_PRODUCT = [
    Polynomial(),
    Polynomial(2, 0.0),
    Polynomial(1, 0.5),
    Polynomial(3, 0.5, scale=0.3),
    ExponentialDotProduct(1.5),
    Geometric(terms=4, scale=0.5),
    DotProduct([0.5, 0.0, 1.0, 0.25]),
]
ARC_COSINE = [ArcCosine(0), ArcCosine(1), ArcCosine(2)]
HISTOGRAM = [Min(), Intersection(), Chi2(), JensenShannon(), Hellinger()]
# Made by the algebra, for rows of width 3.
COMPOSITE = [
    Constant(0.7),
    Gaussian() + Laplacian(),
    2.5 * Matern() * Cauchy(),
    1 + 0.5 * RationalQuadratic() + Polynomial(2),
    ExponentialDotProduct() @ Gaussian(),
    neural_tangent_kernel(),
    1 + 2.0 * Min() + Chi2() * Gaussian(),
    Polynomial(2) @ (Laplacian() + 0.5),
    Transformed(Gaussian(), lengthscales=(0.5, 1.0, 4.0)),
    Transformed(Laplacian(), columns=(2, 0), lengthscales=(0.5, 2.0)),
    Transformed(Polynomial(), columns=(1,), center=(0.3,)),
    Transformed(Transformed(Matern(), columns=(1,)) + Cauchy(), columns=(2, 1), center=(1.0, 0.0)),
]
KERNELS = SHIFT_INVARIANT + DOT_PRODUCT + ARC_COSINE + HISTOGRAM + COMPOSITE


def rows_for(kernel, seed, n=40, d=3):
    """Return rows that are not centered, >= 0 and with zeros where the kernel needs that."""
    X = np.random.default_rng(seed).normal(0.2, 1.0, size=(n, d))
    return np.maximum(X, 0.0) if kernel.positive_only else X


def parts_of(kernel):
    """Yield a kernel and every kernel inside it."""
    yield kernel
    for value in kernel.get_params(deep=False).values():
        if hasattr(value, "get_params"):
            yield from parts_of(value)
