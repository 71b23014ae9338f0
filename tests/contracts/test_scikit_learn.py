"""scikit-learn's own checks, with no expected failure."""

import warnings

from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import (
    ArcCosine,
    CompositionMap,
    Deformed,
    DeformedSearchCV,
    FeatureGraph,
    Gaussian,
    GaussianProcessRegressor,
    HomogeneousFeatures,
    Intersection,
    KernelKMeans,
    KernelLogisticRegression,
    KernelPCA,
    KernelRidge,
    KernelRidgeClassifier,
    KernelSVC,
    Matern,
    MercerWarning,
    NeighborGraph,
    Nystroem,
    Polynomial,
    ProductMap,
    RandomFourier,
    RandomMaclaurin,
    RandomNeurons,
    SphericalRadial,
    SumMap,
    TensorSketch,
    ThresholdFeatures,
)

ESTIMATORS = [
    RandomFourier(),
    RandomFourier(Gaussian(), form="phase", directions="iid"),
    RandomFourier(directions="sobol"),
    RandomFourier(directions="hadamard", radii="stratified"),
    SphericalRadial(),
    SphericalRadial(Gaussian(), directions="simplex", radii="plain", constant="signed"),
    SphericalRadial(directions="butterfly", constant="resample"),
    Nystroem(),
    Nystroem(landmarks="uniform"),
    RandomNeurons(),
    RandomNeurons(ArcCosine(0), layout="relu", directions="iid"),
    RandomNeurons(ArcCosine(2), directions="butterfly"),
    RandomMaclaurin(),
    RandomMaclaurin(plan="random", projection="gaussian"),
    RandomMaclaurin(Gaussian(5.0), projection="srht"),
    Nystroem(Intersection()),
    ThresholdFeatures(),
    ThresholdFeatures(thresholds="random"),
    HomogeneousFeatures(),
    HomogeneousFeatures(frequencies="random"),
    TensorSketch(),
    TensorSketch(Polynomial(degree=3, coef0=0.0)),
    SumMap(),
    ProductMap(),
    ProductMap(method="paired"),
    CompositionMap(),
    CompositionMap(Polynomial(2) @ (Matern() + Polynomial(1)), plan="geometric"),
    Deformed(),
    Deformed(RandomFourier(n_components=8), NeighborGraph(3, "binary"), power=1.5, rank=2),
    Deformed(Nystroem(), FeatureGraph(20)),
    KernelRidge(),
    KernelRidge(Gaussian(), fit_intercept=False),
    KernelRidge(alpha="evidence"),
    KernelRidge(alpha="loo"),
    GaussianProcessRegressor(),
    GaussianProcessRegressor(
        RandomFourier(n_components=24, random_state=0), lengthscale_tuning="ard", variance_method="pathwise"
    ),
    KernelRidgeClassifier(),
    KernelRidgeClassifier(Nystroem()),
    KernelRidge(HomogeneousFeatures()),
    KernelKMeans(),
    KernelKMeans(Gaussian(), init="k-means||", n_init=3),
    KernelKMeans(exact=True),
    KernelKMeans(Nystroem(random_state=0), tol=0.0),
    KernelLogisticRegression(),
    KernelLogisticRegression(Nystroem(), fit_intercept=False, class_weight="balanced"),
    KernelSVC(),
    KernelSVC(Nystroem(), fit_intercept=False),
    KernelPCA(),
    KernelPCA(Nystroem(n_components=24, random_state=0), whiten=True, fit_inverse_transform=True),
    KernelRidge(Deformed(RandomFourier(n_components=24), random_state=0)),
    KernelRidgeClassifier(Deformed(RandomFourier(n_components=24), FeatureGraph(20), random_state=0)),
    DeformedSearchCV(
        KernelRidgeClassifier(Deformed(RandomFourier(n_components=24), random_state=0)), strengths=(0, 1), powers=1
    ),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_compatible(estimator, check):
    with warnings.catch_warnings():
        # More landmarks than rows, or columns than an exact map has: meant here, where data sets have a dozen rows.
        warnings.simplefilter("ignore", MercerWarning)
        check(estimator)
