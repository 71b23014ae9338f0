"""The template of all learners: fitting, adding rows, validation of targets, predictions, scores, tags."""

import pickle
import warnings
from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import get_tags

from mercer import (
    Chi2,
    DataError,
    Deformed,
    DeformedSearchCV,
    Gaussian,
    GaussianProcessRegressor,
    KernelKMeans,
    KernelLogisticRegression,
    KernelPCA,
    KernelRidge,
    KernelRidgeClassifier,
    KernelSVC,
    MercerWarning,
    NeighborGraph,
    ParameterError,
    RandomFourier,
    open_rows,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
y = np.sin(X[:, 0])
LABELS = np.where(y > 0, "up", "down")


def ridge(**options):
    return KernelRidge(RandomFourier(Gaussian(), 20, random_state=0), **{"alpha": 1.0, **options})


def classifier(**options):
    return KernelRidgeClassifier(RandomFourier(Gaussian(), 20, random_state=0), **{"alpha": 1.0, **options})


# ---- fitting ----------------------------------------------------------------------------------


def test_a_failed_fit_leaves_the_model_unchanged():
    model = ridge().fit(X, y)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="NaN"):
        model.fit(X, np.full(60, np.nan))
    assert vars(model) == before


def test_a_fit_resets_the_model():
    model = ridge().fit(pd.DataFrame(X, columns=list("abc")), y)
    assert model.feature_map_.feature_names_in_.tolist() == ["a", "b", "c"]
    model.fit(X[:, :2], y)
    assert model.n_features_in_ == 2
    assert not hasattr(model, "feature_names_in_")
    assert not hasattr(model.feature_map_, "feature_names_in_")
    assert model.fit([(X, y)]).n_features_in_ == 3  # the first block determines the width


@pytest.mark.parametrize("name", ["X", "y", "sample_weight"])
def test_dask_collections_beside_arrays_raise(name):
    da = pytest.importorskip("dask.array")
    given = {"X": X, "y": y, "sample_weight": np.ones(60)}
    given[name] = da.from_array(given[name])
    method = ridge().partial_fit if name == "X" else ridge().fit
    with pytest.raises(DataError, match=f"KernelRidge: {name} is a Dask collection.*compute"):
        method(**given)


@pytest.mark.parametrize("progress", [1.5, "bar"])
def test_progress_must_be_a_boolean_or_a_callable(progress):
    with pytest.raises(ParameterError, match="progress must be one of True, False or a callable, got"):
        ridge(progress=progress).fit(X, y)


def test_progress_is_reported_for_all_rows():
    heard = []
    ridge(progress=heard.append, block_size=20).fit(X, y)
    assert heard[-1].rows == 60


# ---- targets ----------------------------------------------------------------------------------


def test_targets_of_all_blocks_have_one_shape_and_labels_one_kind():
    model = ridge().partial_fit(X, np.column_stack([y, y]))
    with pytest.raises(DataError, match=r"y must have the same shape in every block: needed \(n, 2\), got \(60,\)"):
        model.partial_fit(X, y)
    model = classifier().partial_fit(X, LABELS)
    with pytest.raises(
        DataError, match="y must have labels of the same kind in every block: needed strings, got numbers"
    ):
        model.partial_fit(X, (y > 0).astype(int))


def test_targets_of_known_rows_must_be_finite():
    partly = y.copy()
    partly[:10] = -99.0
    partly[10] = np.inf
    with pytest.raises(DataError, match=r"KernelRidge: targets must be finite, or unlabeled=-99.0 in all columns"):
        ridge(unlabeled=-99.0).fit(X, partly)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        ridge(unlabeled=-99.0).fit(X, y[:-1])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        classifier(unlabeled="?").fit(X, LABELS[:-1])
    with pytest.raises(ValueError, match="Unknown label type"):
        classifier(unlabeled=-1).fit(X, y)


@pytest.mark.parametrize("weight", [None, np.linspace(0.0, 2.0, 60)], ids=["equal", "weighted"])
def test_scores_are_those_of_scikit_learn_on_known_rows(weight):
    known = np.arange(60) % 3 > 0
    of = {"sample_weight": None if weight is None else weight[known]}
    model = ridge(unlabeled=np.nan).fit(X, np.where(known, y, np.nan))
    expected = r2_score(y[known], model.predict(X[known]), **of)
    assert model.score(X, np.where(known, y, np.nan), weight) == pytest.approx(expected, rel=1e-12)
    model = classifier(unlabeled="?").fit(X, np.where(known, LABELS, "?"))
    expected = accuracy_score(LABELS[known], model.predict(X[known]), **of)
    assert 0.8 < expected < 1
    assert model.score(X, np.where(known, LABELS, "?"), weight) == pytest.approx(expected, rel=1e-12)
    # With every target known it is scikit-learn's own.
    assert ridge().fit(X, y).score(X, y, weight) == r2_score(y, ridge().fit(X, y).predict(X), sample_weight=weight)
    with pytest.raises(DataError, match=r"every target is unlabeled='\?': there is nothing to score"):
        model.score(X, np.full(60, "?"))


# ---- predicting -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_predictions_are_made_in_float64(dtype):
    model = ridge(block_size=7).fit(X, y + 1e6)
    rows = X.astype(dtype)
    expected = model.feature_map_.transform(rows).astype(float) @ model.coef_ + model.intercept_
    found = model.predict(rows)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found - 1e6, expected - 1e6, atol=1e-8)


# ---- learners of rows alone -------------------------------------------------------------------


@pytest.mark.parametrize("kind", [KernelPCA, KernelKMeans])
def test_transformers_ignore_targets(kind):
    one, two = (kind(Gaussian(1.0), 3, random_state=0).fit(X, targets) for targets in (None, LABELS))
    assert np.array_equal(one.transform(X), two.transform(X))
    assert one.transform(X.astype(np.float32)).dtype == np.float32
    assert one.get_feature_names_out().tolist() == [f"{kind.__name__.lower()}{i}" for i in range(3)]


def test_inverse_transform_takes_rows_of_the_width_of_scores():
    model = KernelPCA(Gaussian(1.0), 3, fit_inverse_transform=True, random_state=0).fit(X)
    assert model.inverse_transform(np.ones((2, 3))).shape == (2, 3)
    with pytest.raises(DataError, match="KernelPCA: inverse_transform needs 3 columns, got 2"):
        model.inverse_transform(np.ones((2, 2)))


# ---- tags -------------------------------------------------------------------------------------


def test_tags_follow_the_kernel():
    assert get_tags(KernelRidge(Chi2())).input_tags.positive_only
    assert not get_tags(KernelRidge(Gaussian())).input_tags.positive_only
    assert not get_tags(ridge()).input_tags.positive_only
    assert get_tags(ridge()).input_tags.sparse
    assert get_tags(ridge()).target_tags.multi_output
    assert get_tags(KernelPCA()).transformer_tags.preserves_dtype == ["float64", "float32"]
    assert not get_tags(classifier()).target_tags.multi_output


# ---- adding rows ------------------------------------------------------------------------------

MORE = RNG.normal(size=(90, 3))
TARGETS = np.sin(2 * MORE[:, 0]) + 0.1 * RNG.normal(size=90)
CODES = np.digitize(TARGETS, [-0.5, 0.5])


@pytest.mark.parametrize(("fresh", "targets"), [(ridge, TARGETS), (classifier, CODES)], ids=["numbers", "labels"])
def test_blocks_added_one_by_one_give_the_model_of_all(fresh, targets):
    whole, parts = fresh().fit(MORE, targets), fresh()
    for rows in (slice(0, 30), slice(30, 31), slice(31, 90)):
        parts.partial_fit(MORE[rows], targets[rows])
    assert parts.statistic_.rows == 90
    np.testing.assert_allclose(parts.coef_, whole.coef_, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(parts.intercept_, whole.intercept_, rtol=1e-7, atol=1e-9)


def test_solving_is_deferred_until_a_result_is_used(monkeypatch):
    solved = []
    solve = KernelRidge._solve
    monkeypatch.setattr(KernelRidge, "_solve", lambda self, *args: (solved.append(1), solve(self, *args)))
    model = ridge().partial_fit(MORE[:40], TARGETS[:40]).partial_fit(MORE[40:], TARGETS[40:])
    assert not solved
    model.predict(MORE)
    _ = model.coef_
    assert solved == [1]
    model.partial_fit(MORE, TARGETS).predict(MORE)
    assert solved == [1, 1]


def test_a_fit_discards_added_rows():
    model = ridge().partial_fit(MORE, 5 * TARGETS)
    np.testing.assert_array_equal(model.fit(MORE[:50], TARGETS[:50]).coef_, ridge().fit(MORE[:50], TARGETS[:50]).coef_)
    assert model.statistic_.rows == 50


def test_a_bad_block_leaves_the_statistic_unchanged():
    model = ridge().partial_fit(MORE, TARGETS)
    statistic = model.statistic_
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(MORE * np.nan, TARGETS)
    with pytest.raises(ValueError, match="X has 2 features"):
        model.partial_fit(MORE[:, :2], TARGETS)
    assert model.statistic_ is statistic


def test_results_before_a_fit_raise():
    for model in (ridge(), classifier()):
        with pytest.raises(NotFittedError):
            model.predict(MORE)
        for name in ("coef_", "intercept_", "alpha_", "path_", "rounding_"):
            with pytest.raises(AttributeError, match=f"object has no attribute '{name}'"):
                getattr(model, name)
    with pytest.raises(NotFittedError):
        KernelPCA().transform(MORE)
    with pytest.raises(NotFittedError):
        _ = GaussianProcessRegressor().kernel_


def test_unlabeled_blocks_do_not_change_the_statistic():
    model = ridge(unlabeled=-9.0).partial_fit(MORE, TARGETS)
    statistic = model.statistic_
    assert model.partial_fit(MORE, np.full(90, -9.0)).statistic_ is statistic
    half = np.where(np.arange(90) < 45, TARGETS, -9.0)
    assert model.partial_fit(MORE, half).statistic_.rows == 135


def test_given_classes_are_known_and_others_raise():
    model = classifier().partial_fit(MORE[:30], CODES[:30], classes=[3, 2, 1, 0])
    assert model.classes_.tolist() == [0, 1, 2, 3]
    with pytest.raises(DataError, match=r"KernelRidgeClassifier: y has labels \[7\], not among \[0, 1, 2, 3\]"):
        model.partial_fit(MORE[:30], np.full(30, 7))
    assert model.partial_fit(MORE[30:], CODES[30:]).classes_.tolist() == [0, 1, 2, 3]
    # A fit discards them.
    assert model.fit(MORE, CODES + 7).partial_fit(MORE, CODES + 9).classes_.tolist() == [7, 8, 9, 10, 11]


def test_the_sample_continues_after_that_of_a_fit():
    model = classifier().partial_fit(MORE, CODES).fit(MORE[:30], CODES[:30]).partial_fit(MORE[30:50], CODES[30:50])
    sample = model.statistic_.sample
    assert sample.seen == sample.weight.sum() == 50
    assert sorted(sample.X[:, 0].tolist()) == sorted(MORE[:50, 0].tolist())


def test_models_that_read_rows_twice_have_no_partial_fit():
    with pytest.raises(AttributeError) as caught:
        _ = ridge(alpha="loo").partial_fit
    reason = str(caught.value.__cause__)
    assert reason.startswith("KernelRidge has no partial_fit: alpha='loo' reads the rows twice. Use alpha='evidence'")
    assert reason.endswith("Or call fit on all rows at once.")
    assert hasattr(ridge(alpha="gcv"), "partial_fit")


def test_solved_attributes_survive_pickle_and_clone():
    model = ridge().partial_fit(MORE[:40], TARGETS[:40])
    restored = pickle.loads(pickle.dumps(model))
    assert "coef_" not in vars(restored)  # not yet computed
    np.testing.assert_array_equal(restored.coef_, model.coef_)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    assert not hasattr(clone(model), "coef_")
    np.testing.assert_array_equal(
        deepcopy(model).partial_fit(MORE, TARGETS).coef_, model.partial_fit(MORE, TARGETS).coef_
    )


def test_streams_may_have_their_first_targets_in_a_late_block():
    two = np.column_stack([TARGETS, MORE[:, 1]])
    blocks = [(MORE[:30], None), (MORE[30:60], two[30:60]), (MORE[60:], two[60:])]
    model = ridge(unlabeled=np.nan).fit(blocks)
    assert model.coef_.shape == (2, 20)
    np.testing.assert_allclose(model.predict(X), ridge().fit(MORE[30:], two[30:]).predict(X), atol=1e-10)


def test_the_unlabeled_value_may_change_after_the_fit():
    model = ridge().fit(MORE, TARGETS)
    partly = np.where(np.arange(90) < 60, TARGETS, np.nan)
    assert model.set_params(unlabeled=np.nan).score(MORE, partly) == r2_score(TARGETS[:60], model.predict(MORE[:60]))
    model.partial_fit(MORE, partly)
    assert model.statistic_.rows == 150
    labeled_model = classifier().fit(MORE, CODES).set_params(unlabeled=-1)
    assert labeled_model.partial_fit(MORE, np.where(np.arange(90) < 60, CODES, -1)).classes_.tolist() == [0, 1, 2]


# ---- classifiers ------------------------------------------------------------------------------

KINDS = [KernelRidgeClassifier, KernelLogisticRegression, KernelSVC]


def linear(kind):
    fixed = {"alpha": 1.0} if kind is KernelRidgeClassifier else {"C": 1.0}
    return kind(RandomFourier(Gaussian(1.0), 30, random_state=0), **fixed)


def labeled(labels, n=150, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    edges = np.quantile(X[:, 0], np.arange(1, len(labels)) / len(labels))
    return X, np.array(labels)[np.digitize(X[:, 0] + 0.1 * X[:, 1], edges)]


@pytest.mark.parametrize("labels", [["no", "yes"], [7, 3, 5]], ids=["two", "three"])
@pytest.mark.parametrize("kind", KINDS)
def test_decision_values_are_linear_in_the_features(kind, labels):
    X, y = labeled(labels)
    model = linear(kind).fit(X, y)
    values = model.feature_map_.transform(X) @ model.coef_.T + model.intercept_
    found = model.decision_function(X)
    if len(labels) == 2:
        assert model.coef_.shape == (1, 30)
        expected = np.where(values[:, 0] > 0, "yes", "no")  # positive for the second label
        values = values[:, 0]
    else:
        assert model.coef_.shape == (3, 30)
        expected = np.array([3, 5, 7])[values.argmax(axis=1)]
    assert found.shape == values.shape
    np.testing.assert_allclose(found, values, rtol=1e-12, atol=1e-12)
    assert np.array_equal(model.predict(X), expected)
    assert (expected == y).mean() > 0.8  # so labels are not merely consistent
    assert np.array_equal(model.predict(sp.csr_matrix(X)), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_a_decision_value_of_zero_means_the_first_label(kind):
    X, y = labeled(["no", "yes"])
    model = linear(kind).fit(X, y)
    model.coef_[:] = 0.0
    model.intercept_[:] = 0.0
    assert set(model.predict(X)) == {"no"}


@pytest.mark.parametrize("method", ["decision_function", "predict"])
@pytest.mark.parametrize("kind", KINDS)
def test_unfitted_classifiers_raise(kind, method):
    with pytest.raises(NotFittedError):
        getattr(linear(kind), method)(np.zeros((2, 3)))


def test_added_rows_change_the_next_decision_values():
    X, y = labeled([7, 3, 5])
    model = linear(KernelRidgeClassifier).partial_fit(X[:60], y[:60])
    before = model.decision_function(X)
    after = model.partial_fit(X[60:], y[60:]).decision_function(X)
    assert not np.allclose(before, after)
    np.testing.assert_allclose(after, linear(KernelRidgeClassifier).fit(X, y).decision_function(X), atol=1e-8)


def test_decision_values_on_dask_are_lazy():
    da = pytest.importorskip("dask.array")
    X, y = labeled([7, 3, 5])
    model = linear(KernelRidgeClassifier).fit(X, y)
    lazy = model.decision_function(da.from_array(X, chunks=(50, 3)))
    assert isinstance(lazy, da.Array)
    np.testing.assert_allclose(lazy.compute(scheduler="sync"), model.decision_function(X), rtol=1e-12)


# ---- warnings about data that are probably not as intended -----------------------------------------


def scaled_rows():
    return np.random.default_rng(5).normal(size=(400, 3)) * [1.0, 2.0, 5000.0]


def sources_of(X, y, tmp_path):
    """Yield the rows in memory, in blocks, in a file and on Dask."""
    yield (X, y)
    yield ([(X[:200], y[:200]), (X[200:], y[200:])],)
    np.savetxt(tmp_path / "rows.csv", np.column_stack([X, y]), delimiter=",")
    yield (open_rows(tmp_path / "rows.csv", target=-1),)
    da = pytest.importorskip("dask.array")
    yield (da.from_array(X, chunks=(200, 3)), da.from_array(y, chunks=200))


def test_columns_of_very_different_scales_warn_once_for_every_source(tmp_path):
    X = scaled_rows()
    for data in sources_of(X, X[:, 0], tmp_path):
        with pytest.warns(MercerWarning, match=r"ScaledColumns\(mercer\.Nystroem\(kernel\)\)") as caught:
            KernelRidge(Gaussian("median"), random_state=0).fit(*data)
        assert len(caught) == 1
    for data in sources_of(X / X.std(axis=0), X[:, 0], tmp_path):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            KernelRidge(Gaussian("median"), random_state=0).fit(*data)


def test_scales_of_a_search_and_of_partial_fit_warn_too():
    X, y = scaled_rows(), np.where(np.arange(400) < 40, 0.5, np.nan)
    y[:40] += np.arange(40)
    deformed = Deformed(RandomFourier(Gaussian(), 16, random_state=0), NeighborGraph(5), random_state=0)
    with pytest.warns(MercerWarning, match="KernelRidge: columns of X with one lengthscale"):
        DeformedSearchCV(KernelRidge(deformed, unlabeled=np.nan), strengths=(1.0,), powers=(1,)).fit(X, y)
    with pytest.warns(MercerWarning, match="KernelRidge: columns of X with one lengthscale") as caught:
        KernelRidge(Gaussian(), random_state=0).partial_fit(X, X[:, 0]).partial_fit(X, X[:, 0])
    assert len(caught) == 1


def test_a_process_with_one_lengthscale_per_column_does_not_warn_of_scales():
    X = scaled_rows()[:100]
    with pytest.warns(MercerWarning, match="GaussianProcessRegressor: columns of X with one lengthscale"):
        GaussianProcessRegressor(RandomFourier(Gaussian("median"), 16, random_state=0)).fit(X, np.sin(X[:, 0]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GaussianProcessRegressor(
            RandomFourier(Gaussian("median"), 16, random_state=0), lengthscale_tuning="ard", random_state=0
        ).fit(X, np.sin(X[:, 0]))


@pytest.mark.parametrize("learner", [KernelRidgeClassifier, KernelLogisticRegression, KernelSVC])
def test_a_label_of_minus_one_among_others_warns(learner):
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = learner(RandomFourier(Gaussian(), 8, random_state=0))
    words = (
        rf"^{learner.__name__}: y has the label -1 and 2 others, such as 0 and 1\. If -1 denotes rows without a label, "
        r"as in scikit-learn's semi-supervised learners, write unlabeled=-1\. If it is a class, write "
        r"unlabeled=np\.nan, which no row has\.$"
    )
    y = np.arange(60) % 3 - 1
    with pytest.warns(MercerWarning, match=words) as caught:
        model.fit(X, y)
    assert len(caught) == 1
    with pytest.warns(MercerWarning, match="such as 1.0 and 2.0"):
        model.fit(X, np.where(y == 0, 2.0, y))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.set_params(unlabeled=-1).fit(X, y).classes_.tolist() == [0, 1]
        assert model.set_params(unlabeled=np.nan).fit(X, y).classes_.tolist() == [-1, 0, 1]


@pytest.mark.parametrize(
    "labels", [[-1, 1], [-1, 0], [-1.0, 1.0], [0, 1, 2], [-2, 0, 2], [True, False], ["-1", "0", "1"], [-1, -2]]
)
def test_other_labels_do_not_warn(labels):
    X = np.random.default_rng(0).normal(size=(60, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KernelRidgeClassifier(RandomFourier(Gaussian(), 8, random_state=0)).fit(X, np.resize(labels, 60))
