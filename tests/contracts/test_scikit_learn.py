"""All estimators pass the checks of scikit-learn, with no expected failure."""

import warnings

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer
from mercer import (
    ArcCosine,
    ColumnScaler,
    CompositionMap,
    Deformed,
    DeformedSearchCV,
    FeatureGraph,
    FeatureMap,
    FewLabelClassifier,
    Gaussian,
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    GraphBasis,
    GridFourier,
    GridGaussianProcessRegressor,
    HomogeneousFeatures,
    Intersection,
    KernelClassifier,
    KernelKMeans,
    KernelLogisticRegression,
    KernelPCA,
    KernelRegressor,
    KernelRidge,
    KernelRidgeClassifier,
    KernelSVC,
    LearnedMetric,
    Matern,
    MercerWarning,
    NeighborGraph,
    Nystroem,
    Polynomial,
    PolynomialSketch,
    ProductMap,
    RandomFourier,
    RandomMaclaurin,
    RandomNeurons,
    ResampledFourier,
    ScaledColumns,
    SphericalRadial,
    SumMap,
    TablePreprocessor,
    TensorSketch,
    ThresholdFeatures,
)

# Two of the checks compare coefficients, which are equal only at the exact minimum.
EXACT = 1e-22


def narrow():
    """Return a map of few components, on which the checks of a learner take a fraction of a second."""
    return RandomFourier(n_components=24, random_state=0)


# One learner of each kind and one map of each base class, for the quick tier. What classifiers choose by themselves
# takes several fits: those that choose it are among the others.
QUICK = [
    RandomFourier(),
    Deformed(narrow()),
    KernelRidge(narrow()),
    KernelRidgeClassifier(narrow()),
    GaussianProcessRegressor(narrow(), lengthscale_tuning=None),
    KernelLogisticRegression(narrow(), C=1.0, tol=EXACT),
    GaussianProcessClassifier(narrow(), amplitude=1.0, calibrate=False, lengthscale_tuning=None, tol=EXACT),
    KernelKMeans(narrow()),
    KernelPCA(narrow()),
]

OTHERS = [
    # Its value of unlabeled rows, -1 by default, is of the kind of the labels.
    FewLabelClassifier(unlabeled=None),
    KernelSVC(narrow(), tol=EXACT),
    # One group per column: the data sets of the checks have more than three columns.
    GridFourier(n_components=64, column_groups="each"),
    GridGaussianProcessRegressor(
        GridFourier(Gaussian(), column_groups="each"), noise=0.3, amplitude=1.0, lengthscale_tuning=None
    ),
    SphericalRadial(),
    ResampledFourier(n_components=24),
    Nystroem(n_components=24),
    RandomNeurons(),
    RandomMaclaurin(),
    PolynomialSketch(),
    ThresholdFeatures(),
    HomogeneousFeatures(n_components=24),
    TensorSketch(),
    SumMap(),
    ProductMap(),
    CompositionMap(),
    RandomFourier(Gaussian(), form="phase", directions="iid"),
    RandomFourier(directions="sobol"),
    RandomFourier(directions="hadamard", radii="stratified"),
    SphericalRadial(Gaussian(), directions="simplex", radii="plain", constant="signed"),
    SphericalRadial(directions="butterfly", constant="resample"),
    Nystroem(),
    Nystroem(landmarks="uniform"),
    RandomNeurons(ArcCosine(0), layout="relu", directions="iid"),
    RandomNeurons(ArcCosine(2), directions="butterfly"),
    RandomMaclaurin(plan="random", projection="gaussian"),
    RandomMaclaurin(Gaussian(5.0), projection="srht"),
    Nystroem(Intersection()),
    ThresholdFeatures(thresholds="random"),
    HomogeneousFeatures(),
    HomogeneousFeatures(frequencies="random"),
    PolynomialSketch(Polynomial(degree=3, coef0=0.0), projection="srht"),
    TensorSketch(Polynomial(degree=3, coef0=0.0)),
    ProductMap(method="paired"),
    CompositionMap(Polynomial(2) @ (Matern() + Polynomial(1)), plan="geometric"),
    Deformed(),
    FeatureMap(n_components=4),
    LearnedMetric(RandomFourier(n_components=8), rounds=1),
    KernelRidge(LearnedMetric(RandomFourier(n_components=40), rounds=1, random_state=0)),
    Deformed(RandomFourier(n_components=8), NeighborGraph(3, "binary"), power=1.5, rank=2),
    Deformed(Nystroem(), FeatureGraph(20)),
    GraphBasis(NeighborGraph(3), 8),
    ScaledColumns(),
    ColumnScaler(),
    TablePreprocessor(),
    # Within a millionth of a second there is no search, so that the checks are quick.
    KernelRegressor(time_limit=1e-6, random_state=0),
    KernelClassifier(time_limit=1e-6, random_state=0),
    KernelRidge(),
    KernelRidge(Gaussian(), alpha=1.0, fit_intercept=False),
    KernelRidge(alpha="evidence"),
    KernelRidge(alpha="loo"),
    KernelRidge(Nystroem(Gaussian(), 8, random_state=0), neighbors=8),
    KernelRidgeClassifier(Nystroem(Gaussian(), 8, random_state=0), neighbors=8),
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
    KernelLogisticRegression(tol=EXACT),
    GaussianProcessClassifier(tol=EXACT),
    KernelLogisticRegression(Nystroem(), C=1.0, fit_intercept=False, class_weight="balanced", tol=EXACT),
    KernelSVC(tol=EXACT),
    KernelSVC(Nystroem(), C=1.0, fit_intercept=False, tol=EXACT),
    KernelLogisticRegression(Nystroem(Gaussian(), 8, random_state=0), neighbors=8, tol=EXACT),
    KernelSVC(Nystroem(Gaussian(), 8, random_state=0), neighbors=8, tol=EXACT),
    KernelPCA(),
    KernelPCA(Nystroem(n_components=24, random_state=0), whiten=True, fit_inverse_transform=True),
    KernelRidge(Deformed(RandomFourier(n_components=24), random_state=0)),
    KernelRidgeClassifier(Deformed(RandomFourier(n_components=24), FeatureGraph(20), random_state=0)),
    DeformedSearchCV(
        KernelRidgeClassifier(Deformed(RandomFourier(n_components=24), random_state=0)), strengths=(0, 1), powers=1
    ),
]


def check_estimator(estimator, check):
    with warnings.catch_warnings():
        # More landmarks than rows, or more components than an exact map has: the data sets have a dozen rows.
        warnings.simplefilter("ignore", MercerWarning)
        check(estimator)


@parametrize_with_checks(QUICK)
def test_learners_and_one_map_of_each_base(estimator, check):
    check_estimator(estimator, check)


def refused(estimator):
    """Return the checks that an estimator does not pass, with the reason."""
    parameters = estimator.get_params(deep=False)
    if parameters.get("neighbors") is not None and "class_weight" in parameters:
        return {
            "check_class_weight_classifiers": "neighbors= refuses class_weight: near rows have no weights of labels"
        }
    return {}


@pytest.mark.slow
@parametrize_with_checks(OTHERS, expected_failed_checks=refused)
def test_other_parameters(estimator, check):
    check_estimator(estimator, check)


def test_no_public_estimator_is_missing():
    public = [getattr(mercer, name) for name in mercer.__all__]
    estimators = {c for c in public if isinstance(c, type) and hasattr(c, "get_params") and hasattr(c, "fit")}
    assert {type(estimator) for estimator in [*QUICK, *OTHERS]} == estimators
