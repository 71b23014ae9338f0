"""What every learner shares: checks of targets and weights, predictions block by block, scores of known targets."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import get_tags

from mercer import (
    Chi2,
    DataError,
    Gaussian,
    KernelKMeans,
    KernelPCA,
    KernelRidge,
    KernelRidgeClassifier,
    ParameterError,
    RandomFourier,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
y = np.sin(X[:, 0])
LABELS = np.where(y > 0, "up", "down")


def ridge(**options):
    return KernelRidge(RandomFourier(Gaussian(), 20, random_state=0), **options)


def classifier(**options):
    return KernelRidgeClassifier(RandomFourier(Gaussian(), 20, random_state=0), **options)


# ---- fitting ----------------------------------------------------------------------------------


def test_a_failed_fit_leaves_the_model_as_it_was():
    model = ridge().fit(X, y)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="NaN"):
        model.fit(X, np.full(60, np.nan))
    assert vars(model) == before


def test_a_fit_forgets_what_the_last_one_learned():
    model = ridge().fit(pd.DataFrame(X, columns=list("abc")), y)
    assert model.feature_map_.feature_names_in_.tolist() == ["a", "b", "c"]
    model.fit(X[:, :2], y)
    assert model.n_features_in_ == 2
    assert not hasattr(model, "feature_names_in_")
    assert not hasattr(model.feature_map_, "feature_names_in_")
    assert model.fit([(X, y)]).n_features_in_ == 3  # the first block decides anew


@pytest.mark.parametrize("name", ["X", "y", "sample_weight"])
def test_dask_beside_arrays_is_refused(name):
    da = pytest.importorskip("dask.array")
    given = {"X": X, "y": y, "sample_weight": np.ones(60)}
    given[name] = da.from_array(given[name])
    method = ridge().partial_fit if name == "X" else ridge().fit
    with pytest.raises(DataError, match=f"KernelRidge: {name} is a dask collection, .* or compute"):
        method(**given)


@pytest.mark.parametrize("progress", [1.5, "bar"])
def test_who_wants_to_know_must_be_callable(progress):
    with pytest.raises(ParameterError, match="progress must be True, False or a callable, got"):
        ridge(progress=progress).fit(X, y)


def test_a_callable_hears_of_all_rows():
    heard = []
    ridge(progress=heard.append, block_size=20).fit(X, y)
    assert heard[-1].rows == 60


# ---- targets ----------------------------------------------------------------------------------


def test_targets_keep_their_shape_and_labels_their_kind():
    model = ridge().partial_fit(X, np.column_stack([y, y]))
    with pytest.raises(DataError, match=r"y must keep its shape from block to block: needed \(n, 2\), got \(60,\)"):
        model.partial_fit(X, y)
    model = classifier().partial_fit(X, LABELS)
    with pytest.raises(DataError, match="y must keep its kind from block to block: needed texts, got numbers"):
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
def test_targets_of_pipelines_do_not_matter(kind):
    one, two = (kind(Gaussian(1.0), 3, random_state=0).fit(X, targets) for targets in (None, LABELS))
    assert np.array_equal(one.transform(X), two.transform(X))
    assert one.transform(X.astype(np.float32)).dtype == np.float32
    assert one.get_feature_names_out().tolist() == [f"{kind.__name__.lower()}{i}" for i in range(3)]


def test_rows_to_turn_back_must_have_the_width_of_scores():
    model = KernelPCA(Gaussian(1.0), 3, random_state=0)._check_scores
    assert model(np.ones((2, 3)), 3).shape == (2, 3)
    with pytest.raises(DataError, match="KernelPCA: inverse_transform needs rows of 3 columns, got 2"):
        model(np.ones((2, 2)), 3)


# ---- tags -------------------------------------------------------------------------------------


def test_tags_follow_the_kernel():
    assert get_tags(KernelRidge(Chi2())).input_tags.positive_only
    assert not get_tags(KernelRidge(Gaussian())).input_tags.positive_only
    assert not get_tags(ridge()).input_tags.positive_only
    assert get_tags(ridge()).input_tags.sparse
    assert get_tags(ridge()).target_tags.multi_output
    assert get_tags(KernelPCA()).transformer_tags.preserves_dtype == ["float64", "float32"]
    assert not get_tags(classifier()).target_tags.multi_output
