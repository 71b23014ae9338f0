"""Kernels made of others, rows for them, and maps that are exact."""

import numpy as np

from mercer import (
    DotProduct,
    ExponentialDotProduct,
    Gaussian,
    Polynomial,
    RandomMaclaurin,
    Transformed,
)

FRONT, BACK = Transformed(Polynomial(2), columns=(0, 1)), Transformed(Polynomial(1), columns=(2,))
SIGNED = DotProduct([1.0, -0.5, 0.3], signed=True)
MIXED_PRODUCT = Transformed(Gaussian(), columns=(0, 1)) * Transformed(ExponentialDotProduct(0.2), columns=(2,))


def name_of(feature_map):
    return "".join(repr(feature_map).split())


def rows(seed=0, n=40, d=3):
    return np.random.default_rng(seed).normal(0.2, 0.7, size=(n, d))


def exact_maps(count):
    return [RandomMaclaurin()] * count
