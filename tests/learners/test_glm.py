"""Logistic regression and support vector machines: at the minimum of scikit-learn's problems."""

import pickle
import warnings
from copy import deepcopy
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.datasets import load_digits, make_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.svm import LinearSVC

from mercer import (
    DataError,
    Deformed,
    Gaussian,
    KernelLogisticRegression,
    KernelSVC,
    Nystroem,
    ParameterError,
    Polynomial,
    RandomFourier,
)
from mercer.solvers.losses import fit as loss_fit

from .labeled_rows import BOTH, EXACT, data, fresh, relative_gap

pytestmark = pytest.mark.covering(1)

# ---- against scikit-learn and against the exact kernel machines -------------------------------


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_logistic_is_scikit_learns_on_the_same_features(classes, C, fit_intercept):
    X, y = data(classes=classes)
    w = np.random.default_rng(1).uniform(0, 2, len(X))
    model = fresh(KernelLogisticRegression, C=C, fit_intercept=fit_intercept).fit(X, y, w)
    Z = model.feature_map_.transform(X)
    peer = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-11, max_iter=200, fit_intercept=fit_intercept)
    peer.fit(Z, y, w)
    assert model.coef_.shape == peer.coef_.shape
    np.testing.assert_allclose(model.coef_, peer.coef_, rtol=0, atol=1e-7 * np.abs(peer.coef_).max())
    np.testing.assert_allclose(model.intercept_, peer.intercept_, rtol=0, atol=1e-7 * np.abs(peer.coef_).max())
    np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(Z), atol=1e-7)
    np.testing.assert_allclose(model.predict_log_proba(X), peer.predict_log_proba(Z), atol=1e-6)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_svc_is_scikit_learns_linear_one_on_the_same_features(classes, C):
    X, y = data(classes=classes)
    w = np.random.default_rng(1).uniform(0, 2, len(X))
    model = fresh(KernelSVC, C=C, fit_intercept=False).fit(X, y, w)
    Z = model.feature_map_.transform(X)
    peer = LinearSVC(C=C, loss="squared_hinge", dual=False, tol=1e-12, max_iter=10_000, fit_intercept=False)
    peer.fit(Z, y, w)
    # With much weight on the loss the peer stops a little before its minimum.
    close = (1e-7 if C < 100 else 2e-6) * np.abs(peer.coef_).max()
    np.testing.assert_allclose(model.coef_, peer.coef_, rtol=0, atol=close)
    assert np.array_equal(model.predict(X), peer.predict(Z))

    def objective(coef):
        signs = np.where(y[:, None] == model.classes_, 1, -1)[:, -len(coef) :]
        missing = np.maximum(1 - signs * (Z @ coef.T), 0)
        return C * (w @ missing**2).sum() + np.square(coef).sum() / 2

    assert objective(model.coef_) <= objective(peer.coef_) * (1 + 1e-13)


def test_the_intercept_of_svc_is_the_one_without_penalty():
    X, y = data(classes=2)
    y = np.where(X[:, 0] > -1, y, 1)  # far from balanced
    model = fresh(KernelSVC).fit(X, y)
    Z, signs = model.feature_map_.transform(X), 2 * y - 1

    def objective(v):
        missing = np.maximum(1 - signs * (Z @ v[:-1] + v[-1]), 0)
        gradient = np.append(-2 * Z.T @ (signs * missing) + v[:-1], -2 * (signs * missing).sum())
        return (missing**2).sum() + v[:-1] @ v[:-1] / 2, gradient

    found = np.append(model.coef_, model.intercept_)
    oracle = minimize(objective, np.zeros(len(found)), jac=True, method="BFGS", options={"gtol": 1e-7, "maxiter": 5000})
    np.testing.assert_allclose(found, oracle.x, atol=1e-6)
    assert np.abs(objective(found)[1]).max() < 1e-9 < np.abs(objective(found + 1e-6)[1]).max()


@pytest.mark.covering(0)
@pytest.mark.parametrize("kind", BOTH)
def test_with_an_exact_map_it_is_the_machine_on_the_gram_matrix(kind):
    # In the span of the training rows the coefficients are sums of kernels: f = K a + b with penalty a'K a / 2.
    X, y = data(150, classes=2)
    X_new, _ = data(40, classes=2, seed=1)
    kernel = Gaussian(0.9)
    K, signs = kernel(X), 2 * y - 1
    model = kind(Nystroem(kernel, 150, landmarks="uniform", random_state=0), C=0.7, tol=EXACT).fit(X, y)

    def objective(v):
        f = K @ v[:-1] + v[-1]
        if kind is KernelSVC:
            missing = np.maximum(1 - signs * f, 0)
            value, slope = (missing**2).sum(), -2 * signs * missing
        else:
            value, slope = np.logaddexp(0, -signs * f).sum(), -signs / (1 + np.exp(signs * f))
        gradient = np.append(K @ (0.7 * slope + v[:-1]), 0.7 * slope.sum())
        return 0.7 * value + v[:-1] @ K @ v[:-1] / 2, gradient

    oracle = minimize(objective, np.zeros(151), jac=True, method="BFGS", options={"gtol": 1e-8, "maxiter": 5000})
    exact = kernel(X_new, X) @ oracle.x[:-1] + oracle.x[-1]
    np.testing.assert_allclose(model.decision_function(X_new), exact, atol=1e-5)


# ---- probabilities ----------------------------------------------------------------------------


def test_probabilities_beat_those_of_a_constant_on_new_rows():
    X, y = make_classification(3000, 10, n_informative=5, n_classes=4, flip_y=0.1, random_state=0)
    X, X_new, y, y_new = train_test_split(X, y, random_state=0)
    model = KernelLogisticRegression(RandomFourier(Gaussian("median"), 300, random_state=0)).fit(X, y)
    proba = model.predict_proba(X_new)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert np.array_equal(model.classes_[proba.argmax(axis=1)], model.predict(X_new))
    assert log_loss(y_new, proba) < 0.8 * np.log(4)


def test_constant_features_leave_the_shares_of_the_labels():
    X, y = np.ones((60, 2)), np.repeat([0, 1, 2], [10, 20, 30])
    proba = fresh(KernelLogisticRegression).fit(X, y).predict_proba(X[:1])
    # The penalty shrinks coefficients to zero, where the intercept says it all.
    np.testing.assert_allclose(proba, [[1 / 6, 1 / 3, 1 / 2]], rtol=1e-9)


# ---- the same model for any blocks and weights --------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("sample_rows", [4096, 120], ids=["sample of all", "sample of some"])
def test_memory_blocks_and_any_block_size_agree(kind, classes, sample_rows, monkeypatch):
    monkeypatch.setattr(loss_fit, "FEWEST_SAMPLE_ROWS", sample_rows)
    monkeypatch.setattr(loss_fit, "SAMPLE_ROWS_PER_COEFFICIENT", 1)
    X, y = data(300, classes)
    model = fresh(kind, C=10.0).fit(X, y)
    for size in (7, 130):
        assert relative_gap(model, fresh(kind, C=10.0, block_size=size).fit(X, y)) < 1e-10
    blocks = [(X[a:b], y[a:b]) for a, b in pairwise([0, 5, 5, 130, 240, 300])]
    assert relative_gap(model, fresh(kind, C=10.0).fit(blocks)) < 1e-10
    assert relative_gap(model, fresh(kind, C=10.0).fit(sp.csr_array(X), y)) < 1e-10
    one, *others = (fresh(kind, C=10.0, n_jobs=jobs, block_size=50).fit(X, y).coef_ for jobs in (1, 2, 5))
    assert all(np.array_equal(one, other) for other in others)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("sample_rows", [4096, 120], ids=["sample of all", "sample of some"])
def test_weights_equal_repetition(kind, sample_rows, monkeypatch):
    monkeypatch.setattr(loss_fit, "FEWEST_SAMPLE_ROWS", sample_rows)
    monkeypatch.setattr(loss_fit, "SAMPLE_ROWS_PER_COEFFICIENT", 1)
    X, y = data(500)
    counts = np.random.default_rng(0).integers(0, 4, len(X))
    weighted = fresh(kind).fit(X, y, counts)
    assert relative_gap(weighted, fresh(kind).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))) < 1e-10
    assert relative_gap(weighted, fresh(kind).fit(X, y)) > 1e-3  # weights matter here


@pytest.mark.parametrize("kind", BOTH)
def test_class_weights_are_weights_of_rows(kind):
    X, y = data(500)
    by_row = fresh(kind).fit(X, y, np.array([2.0, 1.0, 0.5])[y])
    assert relative_gap(by_row, fresh(kind, class_weight={0: 2.0, 2: 0.5}).fit(X, y)) < 1e-10
    share = 500 / (3 * np.bincount(y))
    assert relative_gap(fresh(kind).fit(X, y, share[y]), fresh(kind, class_weight="balanced").fit(X, y)) < 1e-10


@pytest.mark.parametrize("kind", BOTH)
def test_float32_rows_converge_as_far_as_float64(kind):
    X, y = data(500)
    X32 = X.astype(np.float32)
    model = fresh(kind).fit(X32, y)
    # Of the features in float32 it is the exact minimum, whatever the blocks; and that is near the one of float64.
    assert relative_gap(model, fresh(kind, block_size=17).fit(X32, y)) < 1e-10
    assert relative_gap(model, fresh(kind).fit(X, y)) < 1e-4


@pytest.mark.parametrize("kind", BOTH)
def test_labels_are_found_in_any_block(kind):
    X, y = load_digits(return_X_y=True)
    order = np.argsort(y, kind="stable")[::4]  # each block brings new labels
    X, y = X[order], np.array([f"digit {label}" for label in y[order]])
    model = kind(RandomFourier(Gaussian(30.0), 50, random_state=0), tol=EXACT, max_iter=500)
    whole = clone(model).fit(X, y)
    parts = clone(model).fit([(X[i : i + 60], y[i : i + 60]) for i in range(0, len(X), 60)])
    assert list(parts.classes_) == [f"digit {label}" for label in range(10)]
    assert relative_gap(whole, parts) < 1e-10
    assert whole.score(X, y) > 0.9


def test_labels_without_weight_do_not_count():
    X, y = data(300)
    model = fresh(KernelLogisticRegression).fit(X, y, (y != 1).astype(float))
    assert list(model.classes_) == [0, 2]
    assert relative_gap(model, fresh(KernelLogisticRegression).fit(X[y != 1], y[y != 1])) < 1e-10


# ---- the search -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", BOTH)
def test_a_warm_start_reuses_the_map(kind):
    X, y = data(600)
    model = kind(Gaussian(1.0), warm_start=True, tol=EXACT).fit(X, y)  # no seed: another draw would be another map
    first, passes, feature_map = model.coef_, model.n_passes_, model.feature_map_
    model.fit(X, y)
    assert model.feature_map_ is feature_map
    assert (model.n_iter_, model.n_passes_ < passes) == (1, True)
    np.testing.assert_allclose(model.coef_, first, rtol=0, atol=1e-10 * np.abs(first).max())
    model.set_params(C=2.0).fit(X, y)
    again = clone(model).set_params(feature_map=feature_map)
    np.testing.assert_allclose(
        model.decision_function(X),
        feature_map.transform(X) @ model.coef_.T + model.intercept_,
        atol=1e-9,
    )
    assert np.abs(model.coef_ - first).max() > 1e-3
    assert again.C == 2.0


def test_a_warm_start_with_another_map_width_or_labels_starts_over():
    X, y = data(150)
    fourier = RandomFourier(Gaussian(1.0), 40, random_state=0)
    first = KernelLogisticRegression(fourier, C=1.0, warm_start=True, tol=EXACT).fit(X, y)
    for change in (
        lambda m: m.set_params(feature_map__kernel__lengthscale=2.0).fit(X, y),
        lambda m: m.fit(X[:, :2], y),
        lambda m: m.fit(X, y + 1),
        lambda m: m.fit(X, np.minimum(y, 1)),
    ):
        warm, cold = deepcopy(first), KernelLogisticRegression(clone(fourier), C=1.0, tol=EXACT)
        assert relative_gap(change(warm), change(cold)) < 1e-9


def test_a_warm_start_compares_arrays_among_the_parameters_of_a_map():
    X, y = data(120)
    rng = np.random.default_rng(0)
    graph = np.triu(rng.random((120, 120)) < 0.1, 1)
    order = rng.permutation(120)
    one, two = (sp.csr_array((A + A.T).astype(float)) for A in (graph, np.triu((graph + graph.T)[order][:, order])))
    fourier = RandomFourier(Gaussian(1.0), 20, random_state=0)
    warm = KernelLogisticRegression(Deformed(fourier, one, strength=5.0), warm_start=True, tol=EXACT).fit(X, y)
    warm.set_params(feature_map=Deformed(fourier, two, strength=5.0)).fit(X, y)
    cold = KernelLogisticRegression(Deformed(fourier, two, strength=5.0), tol=EXACT).fit(X, y)
    assert relative_gap(warm, cold) < 1e-9


def test_a_warm_start_fits_a_map_again_that_depends_on_rows():
    X, y = data(300)
    median = RandomFourier(Gaussian("median"), 20, random_state=0)
    warm = KernelLogisticRegression(median, warm_start=True, tol=EXACT).fit(X, y)
    first = warm.n_passes_
    assert warm.fit(X, y).n_passes_ < first  # the same rows: the same map, and coefficients to go on from
    warm.fit(100 * X, y)
    cold = KernelLogisticRegression(median, tol=EXACT).fit(100 * X, y)
    assert warm.feature_map_.kernel_ == cold.feature_map_.kernel_
    assert relative_gap(warm, cold) < 1e-9


def test_class_weight_may_name_labels_that_these_rows_lack_if_it_names_all_others():
    X, y = data(300)
    named = {0: 2.0, 1: 1.0, 2: 0.5, 9: 3.0}
    few = fresh(KernelLogisticRegression, class_weight=named).fit(X, y)
    same = fresh(KernelLogisticRegression, class_weight={0: 2.0, 2: 0.5}).fit(X, y)
    assert relative_gap(few, same) < 1e-10


@pytest.mark.parametrize("kind", BOTH)
def test_a_minimum_at_zero_coefficients_is_found_at_once(kind):
    X = np.random.default_rng(0).normal(size=(50, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = kind(RandomFourier(Gaussian(1.0), 64, random_state=0)).fit(np.r_[X, X], np.repeat([0, 1], 50))
    assert model.n_passes_ <= 5
    assert np.abs(model.coef_).max() < 1e-12


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("classes", [2, 3])
def test_large_weights_of_the_losses_take_few_passes(kind, classes):
    X, y = data(50, classes)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = fresh(kind, width=64, C=1e8, tol=1e-7, max_iter=100).fit(X, y)
    assert model.n_passes_ < 150
    assert (model.predict(X) == y).all()


@pytest.mark.parametrize("kind", BOTH)
def test_the_default_tolerance_ends_where_predictions_no_longer_change(kind):
    X, y = data(3000, 4)
    usual, exact = (
        kind(RandomFourier(Gaussian(1.0), 100, random_state=0), C=1.0, **o).fit(X, y) for o in ({}, {"tol": EXACT})
    )
    assert usual.n_passes_ <= 20
    assert usual.n_passes_ < exact.n_passes_
    assert np.mean(usual.predict(X) != exact.predict(X)) < 2e-3
    if kind is KernelLogisticRegression:
        assert np.abs(usual.predict_proba(X) - exact.predict_proba(X)).max() < 1e-2


@pytest.mark.parametrize("kind", BOTH)
def test_features_of_large_and_unequal_norms_have_a_minimum_too(kind):
    X, y = load_digits(return_X_y=True)
    X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the labels are nearly separable: the minimum is far away
        model = kind(Nystroem(Polynomial(2), 100, random_state=0), max_iter=30).fit(X[:600], y[:600])
    assert model.n_iter_ > 1
    assert model.score(X[:600], y[:600]) > 0.98


def test_a_support_vector_machine_of_nearly_hard_margin_is_at_its_minimum():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = (X[:, 0] + 0.1 * rng.normal(size=200) > 0)[:133].astype(int)
    X, signs = X[:133], 2 * y - 1
    for C in (1e4, 1e8, 1e10):
        values = []
        for options in ({}, {"tol": EXACT, "max_iter": 3000}):
            model = KernelSVC(RandomFourier(Gaussian(1.0), 64, random_state=0), C=C, **options).fit(X, y)
            missing = np.maximum(1 - signs * model.decision_function(X), 0)
            values.append(np.square(model.coef_).sum() / 2 + C * np.square(missing).sum())
        assert values[0] <= values[1] * (1 + 1e-5)


@pytest.mark.parametrize("kind", BOTH)
def test_small_weights_of_the_losses_do_not_end_the_fit_early(kind):
    # The objective is nearly constant: the fit must end by what it has gained.
    X, y = data(1500, 4)
    for C in (1e-4, 1e-2):
        usual, exact = (fresh(kind, C=C, **options).fit(X, y) for options in ({"tol": 1e-6}, {}))
        assert np.mean(usual.predict(X) != exact.predict(X)) < 5e-3


@pytest.mark.parametrize("kind", BOTH)
def test_a_cache_of_the_features_does_not_change_the_minimum(kind, monkeypatch):
    X, y = data(300)
    fits = []
    for seconds in (0.0, 1.0):  # slow features are cached, and these are made to seem slow or fast
        monkeypatch.setattr("mercer.statistics.feature_cache.SECONDS_TO_STORE", seconds)
        fits.append(fresh(kind).fit(X, y))
    assert np.array_equal(fits[0].coef_, fits[1].coef_)


def test_too_few_steps_issue_a_warning_with_advice(monkeypatch):
    monkeypatch.setattr(loss_fit, "SAMPLE_STEPS", 1)
    X, y = data(800)
    with pytest.warns(
        ConvergenceWarning, match=r"after 1 steps, the objective exceeds its minimum .*Try a larger max_iter"
    ):
        model = fresh(KernelLogisticRegression, C=1e4, max_iter=1).fit(X, y)
    assert model.n_iter_ == 1


@pytest.mark.parametrize("kind", BOTH)
def test_progress_reports_passes_and_the_loss(kind):
    X, y = data(300)
    reports = []
    model = fresh(kind, progress=reports.append).fit(X, y)
    assert len(reports) == model.n_passes_ - 1
    assert reports[0].note.startswith("pass 1, loss ")
    losses = [float(progress.note.split()[-1]) for progress in reports]
    assert 0 < losses[-1] <= losses[0]
    assert (reports[-1].rows, reports[-1].total) == (300, 300)
    in_parts = []
    fresh(kind, progress=in_parts.append, block_size=100).fit(X, y)
    assert [one.rows for one in in_parts] == [100, 200, 300] * (len(in_parts) // 3)
    assert len(in_parts) >= 3 * 3


# ---- bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"C": 0}, r"C must be a finite number > 0 or 'auto', got 0"),
        ({"C": np.inf}, "got inf"),
        ({"C": "a lot"}, "got 'a lot'"),
        ({"tol": -1.0}, r"tol must be a finite number > 0, got -1"),
        ({"max_iter": 0}, r"max_iter must be an integer >= 1, got 0"),
        ({"class_weight": "equal"}, r"class_weight must be one of None, 'balanced' or a dict, got 'equal'"),
        ({"class_weight": {0: -1.0}}, r"must be finite and > 0"),
        ({"class_weight": {"a": 2.0, 7: 3.0}}, r"class_weight has \['a', 7\], which are not labels .*\[0, 1, 2\]"),
        ({"progress": 3}, r"progress must be one of True, False or a callable"),
    ],
    ids=str,
)
def test_bad_parameters_have_clear_errors(kind, options, message):
    X, y = data(50)
    with pytest.raises(ParameterError, match=message):
        fresh(kind, **options).fit(X, y)


@pytest.mark.parametrize("kind", BOTH)
def test_bad_rows_have_clear_errors(kind):
    X, y = data(50)
    with pytest.raises(DataError, match=r"reads the rows many times.*KernelRidgeClassifier"):
        fresh(kind).fit(iter([(X, y)]))
    with pytest.raises(DataError, match="at least two classes, got one class only: 1"):
        fresh(kind).fit(X, np.ones(50, int))
    with pytest.raises(ValueError, match="at least one non-zero number"):
        fresh(kind).fit(X, y, np.zeros(50))
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        fresh(kind).fit(X, X[:, 0])
    with pytest.raises(NotFittedError):
        fresh(kind).predict(X)


@pytest.mark.parametrize("kind", BOTH)
def test_a_failed_fit_leaves_the_model_unchanged(kind):
    X, y = data(100)
    model = fresh(kind, warm_start=True).fit(X, y)
    before, size = model.decision_function(X), len(pickle.dumps(model))
    for bad in (lambda: model.fit([(X, y), (X * np.nan, y)]), lambda: model.set_params(C=-1.0).fit(X, y)):
        with pytest.raises(ValueError, match=r"NaN|C must be"):
            bad()
        assert np.array_equal(model.decision_function(X), before)
    model.set_params(C=1.0)
    assert len(pickle.dumps(model)) == size
