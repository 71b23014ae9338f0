"""How classifiers of a loss are fitted: the same model by any road, warm starts, warnings, mistakes."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from mercer import (
    DataError,
    Deformed,
    Gaussian,
    KernelLogisticRegression,
    ParameterError,
    RandomFourier,
)
from mercer.learners import loss_learner

from .labeled_rows import BOTH, data, fresh, relative_gap

# ---- the same model by any road ---------------------------------------------------------------


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("sample_rows", [4096, 120], ids=["sample of all", "sample of some"])
def test_memory_blocks_and_any_block_size_agree(kind, classes, sample_rows, monkeypatch):
    monkeypatch.setattr(loss_learner, "FEWEST_SAMPLE_ROWS", sample_rows)
    monkeypatch.setattr(loss_learner, "SAMPLE_ROWS_A_COLUMN", 1)
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
    monkeypatch.setattr(loss_learner, "FEWEST_SAMPLE_ROWS", sample_rows)
    monkeypatch.setattr(loss_learner, "SAMPLE_ROWS_A_COLUMN", 1)
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
    model = kind(RandomFourier(Gaussian(30.0), 50, random_state=0))
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
def test_a_warm_start_goes_on_with_the_same_map(kind):
    X, y = data(600)
    model = kind(Gaussian(1.0), warm_start=True).fit(X, y)  # no seed: a map drawn anew would be another
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


def test_a_warm_start_does_not_mix_up_maps_widths_or_labels():
    X, y = data(300)
    for change in (
        lambda m: m.set_params(feature_map__lengthscale=2.0).fit(X, y),
        lambda m: m.fit(X[:, :2], y),
        lambda m: m.fit(X, y + 1),
        lambda m: m.fit(X, np.minimum(y, 1)),
    ):
        warm = KernelLogisticRegression(Gaussian(1.0), warm_start=True, random_state=0).fit(X, y)
        cold = KernelLogisticRegression(Gaussian(1.0), random_state=0)
        assert relative_gap(change(warm), change(cold)) < 1e-9


def test_a_warm_start_sees_other_arrays_among_the_parameters_of_a_map():
    X, y = data(120)
    rng = np.random.default_rng(0)
    graph = np.triu(rng.random((120, 120)) < 0.1, 1)
    order = rng.permutation(120)
    one, two = (sp.csr_array((A + A.T).astype(float)) for A in (graph, np.triu((graph + graph.T)[order][:, order])))
    fourier = RandomFourier(Gaussian(1.0), 20, random_state=0)
    warm = KernelLogisticRegression(Deformed(fourier, one, strength=5.0), warm_start=True).fit(X, y)
    warm.set_params(feature_map=Deformed(fourier, two, strength=5.0)).fit(X, y)
    cold = KernelLogisticRegression(Deformed(fourier, two, strength=5.0)).fit(X, y)
    assert relative_gap(warm, cold) < 1e-9


def test_a_warm_start_draws_a_map_anew_that_learns_from_rows():
    X, y = data(300)
    median = RandomFourier(Gaussian("median"), 20, random_state=0)
    warm = KernelLogisticRegression(median, warm_start=True).fit(X, y)
    first = warm.n_passes_
    assert warm.fit(X, y).n_passes_ < first  # the same rows: the same map, and coefficients to go on from
    warm.fit(100 * X, y)
    cold = KernelLogisticRegression(median).fit(100 * X, y)
    assert warm.feature_map_.kernel_ == cold.feature_map_.kernel_
    assert relative_gap(warm, cold) < 1e-9


def test_class_weight_may_name_labels_that_these_rows_lack_if_it_names_all_others():
    X, y = data(300)
    named = {0: 2.0, 1: 1.0, 2: 0.5, 9: 3.0}
    few = fresh(KernelLogisticRegression, class_weight=named).fit(X, y)
    same = fresh(KernelLogisticRegression, class_weight={0: 2.0, 2: 0.5}).fit(X, y)
    assert relative_gap(few, same) < 1e-10


def test_too_few_steps_are_a_warning_that_says_what_to_do(monkeypatch):
    monkeypatch.setattr(loss_learner, "SAMPLE_STEPS", 1)
    X, y = data(800)
    with pytest.warns(ConvergenceWarning, match=r"1 Newton steps left .*Try a larger max_iter"):
        model = fresh(KernelLogisticRegression, C=1e4, max_iter=1).fit(X, y)
    assert model.n_iter_ == 1


@pytest.mark.parametrize("kind", BOTH)
def test_progress_tells_passes_and_the_loss(kind):
    X, y = data(300)
    told = []
    model = fresh(kind, progress=told.append).fit(X, y)
    assert len(told) == model.n_passes_ - 1
    assert told[0].note.startswith("pass 1, loss ")
    losses = [float(progress.note.split()[-1]) for progress in told]
    assert 0 < losses[-1] <= losses[0]
    assert (told[-1].rows, told[-1].total) == (300, 300)
    in_parts = []
    fresh(kind, progress=in_parts.append, block_size=100).fit(X, y)
    assert [one.rows for one in in_parts] == [100, 200, 300] * (len(in_parts) // 3)
    assert len(in_parts) >= 3 * 3


# ---- bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"C": 0}, r"C must be a finite number > 0, got 0"),
        ({"C": np.inf}, "got inf"),
        ({"C": "a lot"}, "got 'a lot'"),
        ({"tol": -1.0}, r"tol must be a finite number > 0, got -1"),
        ({"max_iter": 0}, r"max_iter must be an integer >= 1, got 0"),
        ({"class_weight": "equal"}, r"class_weight must be None, 'balanced' or a dict, got 'equal'"),
        ({"class_weight": {0: -1.0}}, r"must be finite and > 0"),
        ({"class_weight": {"a": 2.0, 7: 3.0}}, r"class_weight has \['a', 7\], which are no labels .*\[0, 1, 2\]"),
        ({"progress": 3}, r"progress must be True, False or a callable"),
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
def test_a_failed_fit_leaves_the_model_as_it_was(kind):
    X, y = data(100)
    model = fresh(kind, warm_start=True).fit(X, y)
    before, size = model.decision_function(X), len(pickle.dumps(model))
    for bad in (lambda: model.fit([(X, y), (X * np.nan, y)]), lambda: model.set_params(C=-1.0).fit(X, y)):
        with pytest.raises(ValueError, match=r"NaN|C must be"):
            bad()
        assert np.array_equal(model.decision_function(X), before)
    model.set_params(C=1.0)
    assert len(pickle.dumps(model)) == size
