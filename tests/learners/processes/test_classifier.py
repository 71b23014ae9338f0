"""Gaussian process classification: the exact process, engines, labels, weights, and calibration."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.gaussian_process import GaussianProcessClassifier as ExactClassifier
from sklearn.gaussian_process.kernels import ConstantKernel
from sklearn.gaussian_process.kernels import Matern as ExactMatern
from sklearn.metrics import log_loss

from mercer import (
    Gaussian,
    GaussianProcessClassifier,
    KernelLogisticRegression,
    Matern,
    Nystroem,
    Polynomial,
    PolynomialSketch,
    RandomFourier,
)
from mercer.errors import DataError, ParameterError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(160, 3))
LATENT = 3 * np.sin(2 * X[:, 0]) + 2 * X[:, 1]
TWO = np.where(LATENT + RNG.logistic(size=160) > 0, "b", "a")
THREE = np.digitize(LATENT + RNG.logistic(size=160), [-1.5, 1.5])
NEW = RNG.normal(size=(30, 3))


def exact(features, **options):
    """Return an unfitted classifier whose landmarks are all rows, with the pure Laplace approximation."""
    fixed = {"amplitude": 1.7, "lengthscale_tuning": None, "calibrate": False, "tol": 1e-20, "max_iter": 500}
    return GaussianProcessClassifier(features, **{**fixed, **options})


def test_landmarks_at_all_rows_give_the_exact_laplace_process():
    model = exact(Nystroem(Matern(2.5, 1.3), 160, landmarks="uniform", random_state=0), fit_intercept=False)
    model.fit(X, TWO)
    kernel = ConstantKernel(1.7**2) * ExactMatern(1.3, nu=2.5)
    reference = ExactClassifier(kernel, optimizer=None).fit(X, TWO)
    mean, variance = model.latent_mean_and_variance(NEW)
    expected_mean, expected_variance = reference.latent_mean_and_variance(NEW)
    # scikit-learn stops Newton's method at a change of 1e-10 of the log density.
    np.testing.assert_allclose(mean, expected_mean, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(variance, expected_variance, rtol=1e-3, atol=1e-4)
    assert model.log_evidence_ == pytest.approx(reference.log_marginal_likelihood_value_, rel=1e-5)
    # Its average of the logistic function is an approximation by five error functions, with errors below 0.003.
    np.testing.assert_allclose(model.predict_proba(NEW), reference.predict_proba(NEW), atol=3e-3)
    # Half of the variance would be noticed.
    half = np.abs(0.5 * variance - expected_variance)
    assert half.min() > 0.01


def test_tuned_evidence_is_at_least_that_of_other_scales():
    best = GaussianProcessClassifier(RandomFourier(Gaussian(3.0), 60, random_state=0), random_state=0).fit(X, TWO)
    for factor in (0.5, 0.8, 1.25, 2.0):
        kernel = best.kernel_.with_params(lengthscale=best.kernel_.lengthscale * factor)
        other = exact(RandomFourier(kernel, 60, random_state=0), amplitude=best.amplitude_).fit(X, TWO)
        assert other.log_evidence_ < best.log_evidence_
        louder = exact(RandomFourier(best.kernel_, 60, random_state=0), amplitude=best.amplitude_ * factor)
        assert louder.fit(X, TWO).log_evidence_ < best.log_evidence_
    assert best.tuning_
    assert best.tuning_[-1].rows == 160


@pytest.mark.parametrize("labels", [TWO, THREE], ids=["two", "three"])
def test_probabilities_are_better_than_those_of_the_mode_at_too_large_an_amplitude(labels):
    # With an amplitude that is far too large, the mode is overconfident. Rows that are left out show that.
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(600, 3))
    y = np.digitize(3 * np.sin(2 * rows[:, 0]) + 2 * rows[:, 1] + rng.logistic(size=600), [-1.5, 1.5])
    y = (y > 0).astype(int) if labels is TWO else y
    model = exact(Nystroem(Matern(2.5, 1.0), 100, random_state=0), amplitude=60.0, calibrate=True)
    model.fit(rows[:300], y[:300])
    mean, variance = model.latent_mean_and_variance(rows[300:])
    assert (variance > 0).all()
    mode = exact(Nystroem(Matern(2.5, 1.0), 100, random_state=0), amplitude=60.0).fit(rows[:300], y[:300])
    at_mode = mode.latent_mean_and_variance(rows[300:])[0]
    logits = np.column_stack([np.zeros(300), at_mode]) if at_mode.ndim == 1 else at_mode
    P = np.exp(logits - logits.max(axis=1, keepdims=True))
    calibrated = log_loss(y[300:], model.predict_proba(rows[300:]))
    assert calibrated < 0.9 * log_loss(y[300:], P / P.sum(axis=1, keepdims=True))
    assert model.calibration_ != (1.0, 1.0, 1.0)
    assert mode.calibration_ == (1.0, 1.0, 1.0)
    shape = (300,) if labels is TWO else (300, 3)
    assert mean.shape == variance.shape == shape


def test_far_rows_are_less_certain():
    model = GaussianProcessClassifier(random_state=0).fit(X, TWO)
    _, near = model.latent_mean_and_variance(X)
    far_mean, far = model.latent_mean_and_variance(np.full((1, 3), 1e3))
    assert far[0] >= model.calibration_[2] * model.amplitude_**2 * 0.99
    assert far_mean[0] == pytest.approx(model.intercept_[0], abs=1e-6)
    assert near.min() < far[0]


@pytest.mark.parametrize("labels", [TWO, THREE], ids=["two", "three"])
def test_blocks_weights_and_sparse_rows_give_the_same_model(labels):
    model = GaussianProcessClassifier(tune_rows=200, tol=1e-14, random_state=0)
    expected = model.fit(X, labels).predict_proba(NEW)
    blocks = [(X[:50], labels[:50]), (X[50:51], labels[50:51]), (X[51:], labels[51:])]
    fitted = GaussianProcessClassifier(tune_rows=200, tol=1e-14, random_state=0).fit(blocks)
    np.testing.assert_allclose(fitted.predict_proba(NEW), expected, atol=1e-6)
    fixed = exact(RandomFourier(Gaussian(1.0), 40, random_state=0), calibrate=True)
    repeats = np.random.default_rng(3).integers(1, 4, size=160)
    repeated = np.repeat(np.arange(160), repeats)
    one = fixed.fit(X, labels, repeats)
    values = one.predict_proba(NEW), one.log_evidence_
    two = fixed.fit(X[repeated], labels[repeated])
    np.testing.assert_allclose(two.predict_proba(NEW), values[0], atol=1e-6)
    assert two.log_evidence_ == pytest.approx(values[1], rel=1e-8)
    three = fixed.fit(sp.csr_matrix(X[repeated]), labels[repeated])
    np.testing.assert_allclose(three.predict_proba(sp.csr_matrix(NEW)), values[0], atol=1e-6)


@pytest.mark.parametrize("labels", [TWO, THREE], ids=["two", "three"])
def test_copies_of_rows_do_not_make_probabilities_certain(labels):
    noise = np.random.default_rng(5).logistic(size=160)
    y = np.digitize(LATENT + 3 * noise, [0.0] if labels is TWO else [-1.5, 1.5])
    # Fresh labels of the other rows, 200 for each: the standard error of their mean loss is about 0.5 / sqrt(16000).
    new = np.digitize(LATENT[:, None] + 3 * np.random.default_rng(6).logistic(size=(160, 200)), [-1.5, 1.5])
    new = (new > 0) if labels is TWO else new
    once = GaussianProcessClassifier(random_state=0).fit(X[:80], y[:80])
    often = GaussianProcessClassifier(random_state=0).fit(np.repeat(X[:80], 10, axis=0), np.repeat(y[:80], 10))
    losses = []
    for model in (once, often):
        P = model.predict_proba(X[80:])
        losses.append(-np.log(P[np.arange(80)[:, None], new[80:].astype(int)]).mean())
    assert losses[1] < losses[0] + 0.02
    assert often.kernel_ == once.kernel_


def test_several_labels_are_calibrated_by_rows_that_are_held_out():
    # The mode of the penalty that suits new rows best has values that are too small.
    rng = np.random.default_rng(8)
    rows = rng.normal(size=(1400, 8))
    y = (rows @ rng.normal(size=(8, 6)) + 0.3 * rng.gumbel(size=(1400, 6))).argmax(axis=1)
    feature_map = Nystroem(Matern(1.5, 4.0), 150, random_state=0)
    process = GaussianProcessClassifier(feature_map, lengthscale_tuning=None, random_state=0).fit(rows[:400], y[:400])
    mode = KernelLogisticRegression(feature_map, random_state=0).fit(rows[:400], y[:400])
    losses = [-np.log(model.predict_proba(rows[400:])[np.arange(1000), y[400:]]) for model in (process, mode)]
    gain = losses[1] - losses[0]
    assert gain.mean() > 2 * gain.std() / np.sqrt(1000)
    assert process.calibration_[0] > 1.2


def test_units_of_columns_do_not_matter():
    units = np.array([1e-6, 1.0, 1e6])
    expected = GaussianProcessClassifier(random_state=0).fit(X, TWO).predict_proba(NEW)
    found = GaussianProcessClassifier(random_state=0).fit(X * units, TWO).predict_proba(NEW * units)
    np.testing.assert_array_equal(found, expected)  # scaled columns are rounded


def test_one_lengthscale_per_column_finds_the_columns_that_matter():
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(400, 5))
    y = np.sin(2 * rows[:, 0]) + 0.3 * rng.logistic(size=400) > 0
    model = GaussianProcessClassifier(lengthscale_tuning="ard", random_state=0).fit(rows, y)
    lengthscales = np.asarray(model.kernel_.lengthscales)
    assert (lengthscales[1:] > 3 * lengthscales[0]).all()


def test_class_weights_are_factors_of_sample_weights():
    model = exact(RandomFourier(Gaussian(1.0), 40, random_state=0), class_weight={"a": 3.0})
    by_rows = exact(RandomFourier(Gaussian(1.0), 40, random_state=0))
    by_rows.fit(X, TWO, np.where(TWO == "a", 3.0, 1.0))
    np.testing.assert_allclose(model.fit(X, TWO).predict_proba(NEW), by_rows.predict_proba(NEW), atol=1e-8)
    balanced = exact(RandomFourier(Gaussian(1.0), 40, random_state=0), class_weight="balanced")
    rare = np.where(np.arange(160) % 8 == 0, "rare", "often")
    assert balanced.fit(X, rare).predict_proba(NEW)[:, 1].mean() > 0.3
    with pytest.raises(ParameterError, match="class_weight"):
        GaussianProcessClassifier(class_weight={"c": 2.0}).fit(X, TWO)


def test_maps_without_lengthscales_tune_the_amplitude():
    sketch = PolynomialSketch(Polynomial(2, coef0=1.0), 300, random_state=0)
    model = GaussianProcessClassifier(sketch, random_state=0).fit(X, TWO)
    assert model.tuning_ == ()
    for factor in (0.3, 3.0):
        other = exact(sketch, amplitude=model.amplitude_ * factor).fit(X, TWO)
        assert other.log_evidence_ < model.log_evidence_
    with pytest.raises(ParameterError, match="shift-invariant"):
        GaussianProcessClassifier(sketch, lengthscale_tuning="ard").fit(X, TWO)


def test_labels_agree_with_probabilities_and_rows_without_labels_are_left_out():
    some = THREE.copy()
    some[::4] = -1
    model = GaussianProcessClassifier(unlabeled=-1, random_state=0).fit(X, some)
    P = model.predict_proba(NEW)
    assert model.classes_.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(model.predict(NEW), P.argmax(axis=1))
    np.testing.assert_allclose(np.exp(model.predict_log_proba(NEW)), P)
    np.testing.assert_allclose(model.decision_function(NEW), np.log(P))
    two = GaussianProcessClassifier(random_state=0).fit(X, TWO)
    logit = np.log(two.predict_proba(NEW)[:, 1] / two.predict_proba(NEW)[:, 0])
    np.testing.assert_allclose(two.decision_function(NEW), logit, atol=1e-9)


def test_what_cannot_be_fitted_is_refused():
    with pytest.raises(DataError, match="two classes"):
        GaussianProcessClassifier().fit(X, np.ones(160))
    with pytest.raises(DataError, match="only once"):
        GaussianProcessClassifier().fit(iter([(X, TWO)]))
    with pytest.raises(ParameterError, match="amplitude"):
        GaussianProcessClassifier(amplitude=-1.0).fit(X, TWO)
    rare = np.zeros(160, dtype=int)
    rare[0] = 1
    with pytest.raises(DataError, match="tune_rows"):
        GaussianProcessClassifier(tune_rows=2, random_state=0).fit(X, rare)
    assert not hasattr(GaussianProcessClassifier(), "partial_fit")


def test_separated_labels_and_few_rows():
    separated = (X[:, 0] > 0).astype(int)
    model = GaussianProcessClassifier(random_state=0).fit(X, separated)
    assert model.score(X, separated) > 0.97
    assert np.isfinite(model.predict_log_proba(X)).all()
    tiny = GaussianProcessClassifier(random_state=0).fit(X[:4], [0, 1, 0, 1])
    assert np.isfinite(tiny.predict_proba(NEW)).all()
