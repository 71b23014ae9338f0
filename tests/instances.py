"""One list each of kernels, maps and learners, for all tests that hold for every one of them.

A public class that is missing from its list fails `contracts/test_contracts.py`. A kernel in the list is checked by
`mercer.testing.check_kernel`, which compares its formulas with each other, and its maps by `calibrated/`.
"""

from itertools import product

import numpy as np
import scipy.sparse as sp

from mercer import (
    ArcCosine,
    CallableKernel,
    Cauchy,
    Chi2,
    CompositionMap,
    Constant,
    Deformed,
    DeformedKernel,
    DotProduct,
    ExponentialDotProduct,
    FeatureGraph,
    FeatureMap,
    FewLabelClassifier,
    Gaussian,
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    Geometric,
    GraphBasis,
    GridFourier,
    GridGaussianProcessRegressor,
    Hellinger,
    HomogeneousFeatures,
    Intersection,
    JensenShannon,
    KernelKMeans,
    KernelLogisticRegression,
    KernelPCA,
    KernelRidge,
    KernelRidgeClassifier,
    KernelSVC,
    Laplacian,
    LearnedMetric,
    LocalCorrection,
    Matern,
    Min,
    NeighborGraph,
    Nystroem,
    Polynomial,
    PolynomialSketch,
    Precomputed,
    ProductMap,
    RandomFourier,
    RandomMaclaurin,
    RandomNeurons,
    RationalQuadratic,
    ResampledFourier,
    ScaledColumns,
    SphericalRadial,
    SumMap,
    TensorSketch,
    ThresholdFeatures,
    Transformed,
    neural_tangent_kernel,
)

ISOTROPIC = [
    Gaussian(0.8),
    Matern(0.1, 1.3),
    Matern(0.3, 2.0),
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
SEPARABLE = [Laplacian(1.4), Cauchy(0.9)]
SHIFT_INVARIANT = ISOTROPIC + SEPARABLE
DOT_PRODUCT = [
    Polynomial(),
    Polynomial(2, 0.0),
    Polynomial(1, 0.5),
    Polynomial(3, 0.5, scale=0.3),
    ExponentialDotProduct(0.4),
    ExponentialDotProduct(1.5),
    Geometric(terms=4, scale=0.5),
    DotProduct([0.5, 0.0, 1.0, 0.25]),
]
ARC_COSINE = [ArcCosine(0), ArcCosine(1), ArcCosine(2)]
HISTOGRAM = [Min(), Intersection(), Chi2(), JensenShannon(), Hellinger()]
DEFORMED_KERNELS = [
    DeformedKernel(Gaussian(0.7), [[0.1, 0.2, 0.3], [1.0, 0.0, -1.0]], [[2.0, -1.0], [-1.0, 3.0]]),
    DeformedKernel(Polynomial(2), np.eye(3), np.full((3, 3), 0.5)),
]
# Made by the algebra, for rows of 3 features.
COMPOSITE = [
    Constant(0.7),
    2.5 * Gaussian(0.7),
    Gaussian() + Laplacian(),
    Gaussian(0.7) * Laplacian(2.0),
    2.5 * Matern() * Cauchy(),
    1 + 0.5 * RationalQuadratic() + Polynomial(2),
    ExponentialDotProduct() @ Gaussian(),
    neural_tangent_kernel(),
    Polynomial(2) @ ArcCosine(1),
    1 + 0.5 * Min(),
    1 + 2.0 * Min() + Chi2() * Gaussian(),
    Polynomial(2) @ (Laplacian() + 0.5),
    Transformed(Gaussian(), lengthscales=(0.5, 1.0, 4.0)),
    Transformed(Gaussian(), columns=(2, 0), center=(0.1, -1.0), lengthscales=(0.5, 2.0)),
    Transformed(Laplacian(), columns=(2, 0), lengthscales=(0.5, 2.0)),
    Transformed(Polynomial(), columns=(1,), center=(0.3,)),
    Transformed(Transformed(Matern(), columns=(1,)) + Cauchy(), columns=(2, 1), center=(1.0, 0.0)),
    Transformed(Matern(1.5), lengthscales=(0.5, 1.0, 4.0), matrix=[[1.0, 0.5], [0.0, 2.0], [-1.0, 0.3]]),
    Transformed(Polynomial(2), center=(0.1, 0.0, -1.0), matrix=[[1.0, 0.5], [0.0, 2.0], [-1.0, 0.3]]),
]


def squared_products(X, Y):
    """Return the values of a polynomial kernel for all pairs of rows, for `CallableKernel`."""
    return np.square(0.5 + X @ Y.T)


BY_VALUES = [
    CallableKernel(squared_products),
    Precomputed([[2.0, 1.0, 0.0], [1.0, 2.0, 1.0], [0.0, 1.0, 2.0]]),
]
KERNELS = SHIFT_INVARIANT + DOT_PRODUCT + ARC_COSINE + HISTOGRAM + COMPOSITE + DEFORMED_KERNELS + BY_VALUES

PLANS = ("optimal", "truncated", "random", "h01", "geometric", "degrees")
PROJECTIONS = ("rademacher", "gaussian", "sphere", "complex", "srht")

_DESIGNS = [
    {"form": form, "directions": directions, "radii": radii}
    for form in ("pairs", "phase", "complex")
    for directions in (
        "iid",
        "orthogonal",
        "big_block",
        "sobol",
        "butterfly",
        "hadamard",
        "simplex",
    )
    for radii in ("plain", "stratified")
]

MAPS = [
    *(RandomFourier(3.0 * Gaussian(0.7), 12, **design) for design in _DESIGNS),
    *(RandomFourier(Gaussian("median"), width) for width in (1, 2, 7)),
    # The roughest kernel has frequencies at which float32 has few digits.
    *(RandomFourier(1 + kernel, 9) for kernel in SHIFT_INVARIANT if kernel != Matern(0.1, 1.3)),
    *(
        SphericalRadial(3.0 * Gaussian(0.7), 13, directions=directions, radii=radii, constant=constant)
        for directions in ("big_block", "orthogonal", "simplex", "butterfly", "iid", "hadamard")
        for radii, constant in (("stratified", "drop"), ("plain", "signed"), ("plain", "resample"))
    ),
    *(SphericalRadial(Gaussian("median"), width) for width in (1, 2, 7)),
    *(ResampledFourier(Gaussian("median"), width, pool=4) for width in (1, 7)),
    ResampledFourier(1 + Laplacian(1.4), 9, sampling="leverage"),
    GridFourier(1 + 2.0 * Gaussian(8.0), 90),
    GridFourier(Matern(2.5, "median"), 31, column_groups="each"),
    *(
        SphericalRadial(1 + kernel, 9, constant="signed")
        for kernel in SHIFT_INVARIANT
        if SphericalRadial.accepts(kernel)
    ),
    *(
        ThresholdFeatures(kernel, 9, thresholds=thresholds, upper=upper)
        for thresholds, kernel, upper in (
            ("jittered", Intersection(), None),
            ("jittered", 1 + Min() + 2.0 * Intersection(), 4.0),
            ("random", Min(), (4.0, 3.5, 5.0)),
            ("stratified", 0.5 + 2.0 * Intersection(), None),
        )
    ),
    ThresholdFeatures(1 + Intersection(), 1),
    *(HomogeneousFeatures(Chi2(), width, frequencies=f) for f in ("grid", "random") for width in (1, 2, 9, 12)),
    HomogeneousFeatures(1 + JensenShannon() + 2.0 * Intersection(), 20),
    HomogeneousFeatures(1 + JensenShannon() + 2.0 * Intersection(), 20, frequencies="random"),
    *(
        RandomNeurons(ArcCosine(order), 20, layout=layout, directions=directions)
        for order, layout in product((0, 1, 2), ("residual", "parity", "relu", "single"))
        for directions in ("auto", "iid", "big_block", "simplex", "sobol", "butterfly", "hadamard")
        # Rows of width 3 leave a sign-Hadamard direction in the padding, where signs are those of rounding errors.
        if (order, directions) != (0, "hadamard")
    ),
    *(
        RandomNeurons(kernel, n)
        for kernel in (ArcCosine(0), 1 + 0.5 * ArcCosine(1), ArcCosine(2))
        for n in (1, 2, 5, 9)
    ),
    RandomNeurons(0.5 + 0.0 * ArcCosine(1), 7),
    RandomNeurons(0.5 + ArcCosine(2), 7, layout="single"),
    Nystroem(Gaussian(0.7), 10),
    Nystroem(Chi2() + Min(), 10),
    Nystroem(Polynomial(), 10, landmarks="uniform"),
    Nystroem(ExponentialDotProduct() @ Gaussian(), 5),
    Nystroem(Gaussian("median"), 6, landmarks="kmeans", n_landmarks=12),
    Nystroem(Laplacian(), 10, landmarks="leverage"),
    Nystroem(Matern(), landmarks=((0.1, 0.2, 0.3), (1.0, 0.0, -1.0), (0.5, -0.5, 0.0))),
    *(RandomMaclaurin(Gaussian(3.0), 60, plan=plan) for plan in PLANS),
    *(RandomMaclaurin(Polynomial(6, 0.5, scale=0.3), 40, projection=projection) for projection in PROJECTIONS),
    *(RandomMaclaurin(ExponentialDotProduct(0.1), width) for width in (1, 2, 7)),
    RandomMaclaurin(Gaussian("median") + Polynomial(2), 9, projection="complex"),
    RandomMaclaurin(Geometric(terms=4, scale=0.1), 40, plan="geometric", p=1.5),
    RandomMaclaurin(Transformed(DotProduct([0.5, 0.0, 1.0]), columns=(2, 0), center=(0.1, -1.0)), 9, plan="h01"),
    *(PolynomialSketch(2 * Polynomial(3, 0.5), 9, projection=projection) for projection in PROJECTIONS),
    SumMap(Gaussian() + Polynomial(2), 40),
    ProductMap(Gaussian(3.0) * Polynomial(2), 40),
    CompositionMap(ExponentialDotProduct() @ Gaussian(), 40),
    *(TensorSketch(Polynomial(degree), width) for degree, width in ((1, 1), (1, 9), (2, 8), (3, 7), (4, 1))),
    TensorSketch(2.5 * Polynomial(2, coef0=0.0), 6),
    TensorSketch(Polynomial(1) * Transformed(Polynomial(2), columns=(2, 0), center=(0.5, -1.0)), 10),
]

DEFORMED = [
    *(Deformed(RandomFourier(Gaussian(0.7), 12), NeighborGraph(4), strength=2.0, power=c) for c in (0, 1, 2, 3, 1.5)),
    Deformed(RandomFourier(Gaussian("median"), 9), NeighborGraph(3, "binary"), power=2, max_bytes=1000),
    Deformed(RandomFourier(Gaussian(0.7), 12), NeighborGraph(4, bandwidth=0.5, max_rows=15), rank=3),
    Deformed(RandomFourier(Gaussian(0.7), 12), FeatureGraph(20), strength=3.0, power=1.5),
    Deformed(RandomFourier(Gaussian(0.7), 12), FeatureGraph(20, bandwidth=0.8), rank=12),
    Deformed(RandomFourier(Gaussian(0.7), 12), sp.csr_array(np.ones((24, 24))), strength=3.0),
    Deformed(Nystroem(Polynomial(2), 6), NeighborGraph(2), strength=0.0),
    Deformed(ThresholdFeatures(1 + Intersection(), 20), NeighborGraph(30)),
    Deformed(TensorSketch(Polynomial(2), 9)),
    Deformed(Deformed(RandomFourier(Gaussian(0.7), 12)), strength=0.1),
]
MAPS += DEFORMED
MAPS += [
    GraphBasis(NeighborGraph(4), 8),
    GraphBasis(NeighborGraph(3, "binary"), 12, 50.0, 2, laplacian="symmetric", normalize=False),
    SumMap(maps=[Nystroem(Gaussian(0.7), 6), GraphBasis(NeighborGraph(4), 6)], weights=[1.0, 0.5]),
]
MAPS.append(FeatureMap(Gaussian(0.7), 8))
MAPS += [
    LearnedMetric(Nystroem(Matern(1.5, "median"), 8, landmarks="uniform"), rounds=2),
    LearnedMetric(RandomFourier(Gaussian("median"), 12), metric="diagonal", rounds=1),
    LearnedMetric(RandomFourier(Matern(1.5), 9, form="phase"), rounds=1, power=0.5, shrinkage=0.0),
    LearnedMetric(Nystroem(Gaussian("median"), 8, landmarks="uniform"), method="neighbors", metric="diagonal"),
    ScaledColumns(RandomFourier(Gaussian("median"), 12)),
    ScaledColumns(Nystroem(Matern(2.5, "median"), 8, landmarks="uniform")),
]

LEARNERS = [
    KernelRidge(RandomFourier(Gaussian(0.7), 40)),
    KernelRidge(RandomFourier(Gaussian(0.7), 31), alpha="gcv"),
    KernelRidge(RandomFourier(Gaussian(0.7), 31), alpha="evidence"),
    KernelRidge(RandomFourier(Gaussian(0.7), 31), alpha="loo"),
    KernelRidge(RandomFourier(Gaussian("median"), 31), alpha="loo"),
    KernelRidge(RandomFourier(Gaussian("median"), 40)),
    KernelRidge(RandomFourier(Gaussian(0.7), 40), alpha=0.1, fit_intercept=False),
    KernelRidge(TensorSketch(Polynomial(2), 40)),
    KernelRidge(RandomNeurons(ArcCosine(1), 40)),
    GaussianProcessRegressor(RandomFourier(Gaussian(0.7), 40), lengthscale_tuning=None),
    GaussianProcessRegressor(
        RandomFourier(Gaussian(0.7), 40), lengthscale_tuning=None, noise=0.3, variance_method="pathwise"
    ),
    GridGaussianProcessRegressor(
        GridFourier(Gaussian(1.0), column_groups="each"), noise=0.3, amplitude=1.0, lengthscale_tuning=None
    ),
    GridGaussianProcessRegressor(Gaussian(2.0), noise=0.5, amplitude=1.0, lengthscale_tuning=None),
    KernelRidge(GridFourier(Gaussian(8.0), 91), alpha=0.1),
    KernelRidgeClassifier(RandomFourier(Gaussian(0.7), 40)),
    KernelRidgeClassifier(RandomFourier(Matern(), 40), alpha="gcv"),
    KernelRidgeClassifier(RandomFourier(Matern(lengthscale="median"), 40), alpha="loo"),
    KernelRidgeClassifier(RandomFourier(Matern(), 40), alpha="evidence"),
    KernelKMeans(RandomFourier(Gaussian(0.7), 40), 5),
    KernelKMeans(RandomFourier(Matern(), 31), 4, init="k-means||", n_init=3, tol=0.0),
    KernelKMeans(TensorSketch(Polynomial(2), 40), 3),
    KernelLogisticRegression(RandomFourier(Gaussian(0.7), 40), tol=1e-22),
    KernelLogisticRegression(
        RandomFourier(Matern(), 31), C=100.0, fit_intercept=False, class_weight="balanced", tol=1e-22, max_iter=500
    ),
    GaussianProcessClassifier(
        RandomFourier(Gaussian(0.7), 40), amplitude=3.0, lengthscale_tuning=None, calibrate=False, tol=1e-22
    ),
    KernelSVC(RandomFourier(Gaussian(0.7), 40), tol=1e-22),
    KernelSVC(TensorSketch(Polynomial(2), 40), C=10.0, fit_intercept=False, tol=1e-22),
    KernelPCA(RandomFourier(Gaussian(0.7), 40), 5),
    KernelPCA(RandomFourier(Matern(), 31), 3, whiten=True, fit_inverse_transform=True),
    KernelPCA(RandomNeurons(ArcCosine(1), 40)),
    KernelRidge(Nystroem(Matern(1.5), 12), alpha=0.1, neighbors=LocalCorrection(8, parts="both")),
    KernelRidge(RandomFourier(Gaussian(0.7), 31), neighbors=LocalCorrection(6, parts="local"), fit_intercept=False),
    KernelRidgeClassifier(RandomFourier(Matern(), 40), alpha="evidence", neighbors=8),
    KernelRidge(RandomFourier(Gaussian(0.7), 31), alpha=0.1, neighbors=LocalCorrection(6, rows="source")),
    KernelLogisticRegression(Nystroem(Matern(1.5), 12), neighbors=8, tol=1e-22),
    KernelSVC(RandomFourier(Gaussian(0.7), 40), neighbors=8, tol=1e-22),
    KernelRidge(LearnedMetric(RandomFourier(Gaussian("median"), 12), rounds=2)),
    KernelRidgeClassifier(LearnedMetric(RandomFourier(Gaussian("median"), 12), rounds=1), alpha="gcv"),
    FewLabelClassifier(NeighborGraph(4), 12),
    FewLabelClassifier(NeighborGraph(4), 8, feature_map=Nystroem(Gaussian(0.7), 6), scale_columns=True),
]


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
