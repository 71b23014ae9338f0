"""One list of maps for every test that holds for all of them."""

from itertools import cycle, product

import numpy as np
from sklearn.utils import get_tags

from mercer import (
    ArcCosine,
    Cauchy,
    Chi2,
    CompositionMap,
    DotProduct,
    ExponentialDotProduct,
    Gaussian,
    HomogeneousFeatures,
    Intersection,
    JensenShannon,
    Laplacian,
    Matern,
    Min,
    Nystroem,
    Polynomial,
    PolynomialSketch,
    ProductMap,
    RandomFourier,
    RandomMaclaurin,
    RandomNeurons,
    RationalQuadratic,
    ResampledFourier,
    SphericalRadial,
    SumMap,
    TensorSketch,
    ThresholdFeatures,
    Transformed,
)

FORMS = ("pairs", "phase", "complex")
DENSE = ("iid", "orthogonal", "big_block", "sobol", "simplex")
DIRECTIONS = (*DENSE, "butterfly", "hadamard")
RADII = ("plain", "stratified")
KERNEL = Gaussian(1.3)

DESIGNS = [
    {"form": form, "directions": directions, "radii": radii}
    for form, directions, radii in product(FORMS, DIRECTIONS, RADII)
    if (directions, radii) != ("sobol", "stratified")  # Sobol points carry radii of their own
]
FOURIER = [
    *(RandomFourier(KERNEL, 20, **design) for design in DESIGNS),
    *(RandomFourier(KERNEL, n) for n in (1, 2, 7)),
    RandomFourier(1 + 2 * Matern(0.5), 7, directions="hadamard"),
    RandomFourier(3 + Laplacian() * Gaussian(), 12),
    RandomFourier(Transformed(Cauchy(), columns=(2, 0), lengthscales=(0.5, 2.0)), 9, form="complex"),
    RandomFourier(Transformed(Gaussian(), lengthscales=(0.5, 2.0, 1.0)), 9, directions="hadamard"),
]
NYSTROEM = [
    Nystroem(KERNEL, 10),
    Nystroem(ExponentialDotProduct() @ Laplacian(), 8, landmarks="uniform"),
    Nystroem(Polynomial(2), 20),
]
PLANS = ("optimal", "truncated", "random", "h01", "geometric", "degrees")
PROJECTIONS = ("rademacher", "gaussian", "sphere", "complex", "srht")
MACLAURIN = [
    *(RandomMaclaurin(Gaussian(3.0), 40, plan=plan) for plan in PLANS),
    *(RandomMaclaurin(Polynomial(4, 0.5, scale=0.3), 30, projection=projection) for projection in PROJECTIONS),
    *(RandomMaclaurin(ExponentialDotProduct(0.1), n) for n in (1, 2, 7)),
    RandomMaclaurin(Gaussian("median") + Polynomial(2), 9, projection="complex"),
    RandomMaclaurin(Polynomial(3), 9, plan="degrees", projection="srht"),
    RandomMaclaurin(Transformed(Polynomial(3), columns=(2, 0), center=(0.5, 1.0)), 9, plan="random"),
    RandomMaclaurin(DotProduct([0.5, 0.0, 1.0, 0.5]), 9),
]
RULES = ("big_block", "orthogonal", "simplex", "butterfly", "iid", "hadamard")
QUADRATURE = [
    *(
        SphericalRadial(KERNEL, 20, directions=directions, radii=radii, constant=constant)
        for (directions, radii), constant in zip(
            product(RULES, RADII), cycle(("drop", "signed", "resample")), strict=False
        )
    ),
    *(SphericalRadial(KERNEL, n, constant="signed") for n in (1, 2, 3, 7)),
    SphericalRadial(1 + 2 * Matern(2.5), 7, directions="butterfly"),
    SphericalRadial(3 + RationalQuadratic(2.0), 1),
    SphericalRadial(3 + RationalQuadratic(2.0), 9, constant="signed"),
    SphericalRadial(Transformed(Gaussian(), columns=(2, 0), lengthscales=(0.5, 2.0)), 12, directions="butterfly"),
    SphericalRadial(Transformed(Gaussian(), lengthscales=(0.5, 2.0, 1.0)), 9, directions="simplex"),
]
RESAMPLED = [
    ResampledFourier(KERNEL, 7, pool=4),
    ResampledFourier(3 + Laplacian(), 8, sampling="leverage"),
]
COMPOSED = [
    SumMap(KERNEL + Laplacian(), 20),
    ProductMap(KERNEL * Polynomial(2), 20),
    CompositionMap(ExponentialDotProduct() @ KERNEL, 20),
]
# Those that are drawn: mid-points and grids are the same for every seed.
HISTOGRAM = [
    ThresholdFeatures(Intersection(), 20, upper=8.0),
    ThresholdFeatures(1 + 0.01 * Min() + Intersection(), 40, thresholds="random", upper=8.0),
    HomogeneousFeatures(1 + JensenShannon(), 2, frequencies="random"),
    HomogeneousFeatures(Chi2(), 21, frequencies="random"),
    Nystroem(Intersection(), 7),
]
SKETCHES = [
    PolynomialSketch(Polynomial(3, 0.5), 9),
    PolynomialSketch(Polynomial(2, 0.0), 9, projection="srht"),
    TensorSketch(Polynomial(2), 12),
    TensorSketch(3 * Polynomial(3, coef0=0.0), 7),
    TensorSketch(Transformed(Polynomial(1), columns=(2, 0), center=(0.5, 1.0)), 5),
]
NEURONS = [
    *(RandomNeurons(ArcCosine(order), n) for order in (0, 1, 2) for n in (4, 6, 20)),
    # A single neuron is zero for most pairs of rows: its variance must be the closed form, not that of few draws.
    *(RandomNeurons(ArcCosine(order), 1, directions="iid") for order in (0, 1, 2)),
    *(
        RandomNeurons(0.5 + 2.0 * ArcCosine(1), 25, layout=layout)
        for layout in ("residual", "parity", "relu", "single")
    ),
    *(RandomNeurons(ArcCosine(2), 15, directions=directions) for directions in ("iid", "simplex", "butterfly")),
]
MAPS = FOURIER + QUADRATURE + RESAMPLED + NYSTROEM + NEURONS + MACLAURIN + COMPOSED + HISTOGRAM + SKETCHES


def rows_for(feature_map, seed, n=40, d=3):
    """Return rows that are not centered, >= 0 and with zeros where the map needs that."""
    X = np.random.default_rng(seed).normal(0.2, 1.0, size=(n, d))
    return np.maximum(X, 0.0) if get_tags(feature_map).input_tags.positive_only else X


def name_of(value):
    """Return a short identity for a map or a design."""
    if isinstance(value, dict):
        return "-".join(value.values())
    return "".join(repr(value).split())
