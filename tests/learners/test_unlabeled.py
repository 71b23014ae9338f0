"""Rows without targets: the map sees them, the model does not."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, PredefinedSplit

from mercer import (
    DataError,
    Deformed,
    FeatureGraph,
    Gaussian,
    GaussianProcessRegressor,
    KernelLogisticRegression,
    KernelRidge,
    KernelRidgeClassifier,
    KernelSVC,
    NeighborGraph,
    Nystroem,
    ParameterError,
    RandomFourier,
)

pytestmark = pytest.mark.covering(1)

CLASSIFIERS = [KernelRidgeClassifier, KernelLogisticRegression, KernelSVC]


def problem(n=240, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = (X[:, 0] * X[:, 1] > 0).astype(int) + (X[:, 2] > 1)
    return X, y, rng.random(n) < 0.3


def drawn(**options):
    return RandomFourier(Gaussian(1.5), 40, random_state=0, **options)


def blocks(X, y, size):
    return [(X[i : i + size], y[i : i + size]) for i in range(0, len(X), size)]


@pytest.mark.parametrize("kind", CLASSIFIERS)
@pytest.mark.parametrize("unlabeled", [-1, 7])
def test_with_a_map_that_needs_no_rows_the_model_is_that_of_the_labeled_ones(kind, unlabeled):
    X, y, known = problem()
    partly = np.where(known, y, unlabeled)
    model = kind(drawn(), unlabeled=unlabeled, random_state=0).fit(X, partly)
    expected = kind(drawn(), random_state=0).fit(X[known], y[known])
    assert np.array_equal(model.classes_, [0, 1, 2])
    assert np.allclose(model.coef_, expected.coef_, rtol=1e-9, atol=1e-12)
    assert np.allclose(model.decision_function(X), expected.decision_function(X), rtol=0, atol=1e-9)


@pytest.mark.parametrize("columns", [None, 2])
def test_numbers_that_are_not_known_are_nan(columns):
    X, _, known = problem()
    y = np.sin(X[:, 0]) if columns is None else np.column_stack([np.sin(X[:, 0]), X[:, 1]])
    partly = np.where(known if columns is None else known[:, None], y, np.nan)
    expected = KernelRidge(drawn(), alpha=0.1).fit(X[known], y[known])
    for model in (
        KernelRidge(drawn(), alpha=0.1, unlabeled=np.nan).fit(X, partly),
        KernelRidge(drawn(), alpha=0.1, unlabeled=np.nan).fit(blocks(X, partly, 17)),
        KernelRidge(drawn(), alpha=0.1, unlabeled=np.nan, block_size=5).fit(X, partly),
    ):
        assert np.allclose(model.coef_, expected.coef_, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("options", [{}, {"lengthscale_tuning": None}, {"variance_method": "pathwise"}])
def test_gaussian_processes_are_tuned_on_labeled_rows(options):
    X, _, known = problem()
    y = np.sin(X[:, 0])
    model = GaussianProcessRegressor(drawn(), unlabeled=np.nan, random_state=0, **options)
    model.fit(X, np.where(known, y, np.nan))
    expected = GaussianProcessRegressor(drawn(), random_state=0, **options).fit(X[known], y[known])
    assert model.kernel_.lengthscale == pytest.approx(expected.kernel_.lengthscale)
    for found, wanted in zip(model.predict(X, return_std=True), expected.predict(X, return_std=True), strict=True):
        assert np.allclose(found, wanted, rtol=1e-6, atol=1e-8)
    gradients = (
        model.lengthscale_gradient(X, np.where(known, y, np.nan)),
        expected.lengthscale_gradient(X[known], y[known]),
    )
    assert np.allclose(*gradients, rtol=1e-5, atol=1e-6)
    with pytest.raises(DataError, match="every target is unlabeled=nan"):
        model.fit(X, np.full(len(X), np.nan))


def test_gaussian_processes_keep_the_lengthscale_of_a_deformed_map():
    X, _, known = problem(n=120)
    y = np.where(known, np.sin(X[:, 0]), np.nan)
    models = [
        GaussianProcessRegressor(Deformed(drawn(), strength=3.0), unlabeled=np.nan, lengthscale_tuning=tuning).fit(X, y)
        for tuning in ("shared", None)
    ]
    assert np.array_equal(models[0].predict(X), models[1].predict(X))
    assert models[0].tuning_ == ()
    with pytest.raises(ParameterError, match="needs a shift-invariant kernel, got Deformed of Gaussian"):
        models[0].set_params(lengthscale_tuning="ard").fit(X, y)


def test_the_map_learns_from_all_rows():
    X, y, known = problem()
    partly = np.where(known, y, -1)
    model = KernelRidgeClassifier(Nystroem(Gaussian("median"), 30, random_state=0), unlabeled=-1).fit(X, partly)
    alone = Nystroem(Gaussian("median"), 30, random_state=0).fit(X)
    assert np.allclose(model.feature_map_.transform(X), alone.transform(X))
    fewer = Nystroem(Gaussian("median"), 30, random_state=0).fit(X[known])
    assert not np.allclose(model.feature_map_.transform(X), fewer.transform(X))


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_minus_one_is_a_label_unless_it_is_the_unlabeled_value(kind):
    X, y, _ = problem()
    signs = np.where(y > 0, 1, -1)
    assert np.array_equal(kind(drawn()).fit(X, signs).classes_, [-1, 1])


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_streams_and_memory_agree_also_where_a_block_has_no_label(kind):
    X, y, known = problem()
    known[:40] = False
    partly = np.where(known, y, -1)
    model = kind(drawn(), unlabeled=-1, random_state=0).fit(X, partly)
    streamed = kind(drawn(), unlabeled=-1, random_state=0).fit(blocks(X, partly, 20))
    assert np.allclose(model.coef_, streamed.coef_, rtol=1e-9, atol=1e-12)
    if hasattr(model, "predict_proba"):
        assert np.allclose(model.predict_proba(X), streamed.predict_proba(X), atol=1e-10)


def test_strings_and_objects_can_be_the_unlabeled_value():
    X, y, known = problem()
    names = np.array(["a", "b", "c"])[y]
    model = KernelRidgeClassifier(drawn(), unlabeled="?").fit(X, np.where(known, names, "?"))
    assert model.classes_.tolist() == ["a", "b", "c"]
    floats = np.where(known, y.astype(float), np.nan)
    assert KernelRidgeClassifier(drawn(), unlabeled=np.nan).fit(X, floats).classes_.tolist() == [0, 1, 2]


def test_weights_count_for_labeled_rows_only():
    X, y, known = problem()
    weight = np.random.default_rng(1).integers(1, 4, len(X)).astype(float)
    model = KernelRidge(drawn(), alpha=0.1, unlabeled=np.nan)
    model.fit(X, np.where(known, y, np.nan), sample_weight=weight)
    expected = KernelRidge(drawn(), alpha=0.1).fit(X[known], y[known], sample_weight=weight[known])
    assert np.allclose(model.coef_, expected.coef_, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("alpha", ["loo", "gcv", "evidence"])
def test_penalties_are_chosen_on_labeled_rows(alpha):
    X, y, known = problem()
    model = KernelRidgeClassifier(drawn(), alpha=alpha, unlabeled=-1, block_size=50).fit(X, np.where(known, y, -1))
    expected = KernelRidgeClassifier(drawn(), alpha=alpha).fit(X[known], y[known])
    assert model.alpha_ == pytest.approx(expected.alpha_, rel=1e-6)


def test_rows_on_dask_may_lack_labels():
    da = pytest.importorskip("dask.array")
    X, y, known = problem()
    partly = np.where(known, y, -1)
    model = KernelRidgeClassifier(drawn(), unlabeled=-1).fit(da.from_array(X, (50, 3)), da.from_array(partly, 50))
    expected = KernelRidgeClassifier(drawn(), unlabeled=-1).fit(X, partly)
    assert np.allclose(model.coef_, expected.coef_, rtol=1e-10, atol=1e-12)
    assert np.allclose(model.predict_proba(X), expected.predict_proba(X), atol=1e-10)


def test_partial_fit_takes_them_too():
    X, y, known = problem()
    known[[0, -1]] = True
    partly = np.where(known, y, -1)
    model = KernelRidgeClassifier(drawn(), alpha=1.0, unlabeled=-1)
    for part in blocks(X, partly, 60):
        model.partial_fit(*part, classes=[0, 1, 2])
    expected = KernelRidgeClassifier(drawn(), alpha=1.0).fit(X[known], y[known])
    assert np.allclose(model.coef_, expected.coef_, rtol=1e-9, atol=1e-12)
    with pytest.raises(DataError, match=r"labels \[7\]"):
        model.partial_fit(X[:5], np.full(5, 7))


def test_blocks_of_partial_fit_may_lack_labels():
    X, y, known = problem()
    partly = np.where(known, y, -1)
    model = KernelRidgeClassifier(drawn(), unlabeled=-1).partial_fit(X[:200], partly[:200])
    before = model.decision_function(X)
    model.partial_fit(X[200:], np.full(40, -1))
    assert np.array_equal(model.decision_function(X), before)
    with pytest.raises(DataError, match="nothing to learn from"):
        KernelRidgeClassifier(drawn(), unlabeled=-1).partial_fit(X[:40], np.full(40, -1))


@pytest.mark.parametrize("weighted", [False, True])
def test_scores_are_those_of_labeled_rows(weighted):
    X, y, known = problem()
    weight = np.random.default_rng(2).random(len(X)) if weighted else None
    some = weight[known] if weighted else None
    model = KernelRidgeClassifier(drawn(), unlabeled=-1).fit(X, np.where(known, y, -1))
    expected = np.average(model.predict(X[known]) == y[known], weights=some)
    assert model.score(X, np.where(known, y, -1), weight) == pytest.approx(expected)
    assert model.score(X[known], y[known], some) == pytest.approx(expected)
    values = np.column_stack([np.sin(X[:, 0]), X[:, 1]])
    partly = np.where(known[:, None], values, np.nan)
    model = KernelRidge(drawn(), unlabeled=np.nan).fit(X, partly)
    expected = r2_score(values[known], model.predict(X[known]), sample_weight=some)
    assert model.score(X, partly, weight) == pytest.approx(expected)
    with pytest.raises(DataError, match="nothing to score"):
        model.score(X, np.full_like(values, np.nan))
    partly[0] = [np.nan, 1.0]
    with pytest.raises(DataError, match="in all of them; got row 0"):
        model.score(X, partly)


def test_grid_search_looks_at_labeled_rows():
    X, y, known = problem()
    partly = np.where(known, y, -1)
    folds = PredefinedSplit(np.arange(len(X)) % 3)
    search = GridSearchCV(KernelRidgeClassifier(drawn(), unlabeled=-1), {"alpha": [0.01, 1.0]}, cv=folds).fit(X, partly)
    folds = PredefinedSplit((np.arange(len(X)) % 3)[known])
    expected = GridSearchCV(KernelRidgeClassifier(drawn()), {"alpha": [0.01, 1.0]}, cv=folds).fit(X[known], y[known])
    assert np.allclose(search.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"])


@pytest.mark.parametrize("unlabeled", [np.nan, np.float32("nan"), pd.NA])
def test_missing_values_of_a_table_are_unlabeled(unlabeled):
    X, y, known = problem()
    expected = KernelRidgeClassifier(drawn()).fit(X[known], y[known])
    labels = pd.Series(y, dtype="Int64").mask(~known)
    names = np.where(known, np.array(["a", "b", "c"])[y], None)
    for targets in (labels, pd.Series(names), pd.Series(names, dtype="string"), names):
        model = KernelRidgeClassifier(drawn(), unlabeled=unlabeled).fit(X, targets)
        assert np.allclose(model.coef_, expected.coef_)
        assert model.score(X, targets) == expected.score(X[known], y[known])
    numbers = pd.Series(X[:, 0]).mask(~known)
    assert KernelRidge(drawn(), unlabeled=unlabeled).fit(X, numbers).score(X, numbers) > 0.5


@pytest.mark.parametrize(
    ("model", "y", "message"),
    [
        (KernelRidgeClassifier(unlabeled=-1), np.full(20, -1), "every target is unlabeled=-1"),
        (KernelRidge(unlabeled=np.nan), np.full(20, np.nan), "every target is unlabeled=nan"),
        (KernelRidge(unlabeled=np.nan), np.r_[np.inf, np.zeros(19)], "targets must be finite"),
        (KernelRidge(unlabeled=np.nan), np.c_[np.zeros(20), np.r_[np.nan, np.zeros(19)]], "in all columns of a row"),
        (KernelRidge(unlabeled=-9), np.c_[np.zeros(20), np.r_[0, -9, np.zeros(18)]], "got row 1 with it in 1 of 2"),
        (KernelRidge(unlabeled=(-1, -2)), np.arange(20.0), r"unlabeled must be the value in y.*got \(-1, -2\)"),
        (KernelRidgeClassifier(unlabeled=[-1]), np.arange(20) % 2, r"unlabeled must be the value in y.*got \[-1\]"),
        (KernelRidge(unlabeled=-9.0), np.r_[np.nan, np.zeros(19)], "targets must be finite"),
        (KernelRidge(), np.r_[np.nan, np.zeros(19)], "contains NaN"),
        (KernelRidgeClassifier(unlabeled=False), np.arange(20) % 2, "unlabeled must be the value in y.*got False"),
        (KernelRidge(unlabeled=True), np.arange(20.0), "unlabeled must be the value in y.*got True"),
        (KernelRidgeClassifier(unlabeled="?"), np.arange(20) % 2, "unlabeled='[?]' is a string but y holds numbers"),
        (KernelRidge(unlabeled="?"), np.arange(20.0), "unlabeled='[?]' is a string but y holds numbers"),
        (
            KernelRidgeClassifier(unlabeled=-1),
            np.array(["a", "b"] * 10),
            "unlabeled=-1 is a number but y holds strings.*kind of the labels",
        ),
        (KernelRidgeClassifier(unlabeled=np.nan), np.array(["a", "nan"] * 10), "strings.*NaN is the string 'nan'"),
        (KernelRidgeClassifier(unlabeled=-1), np.zeros(19), "inconsistent numbers"),
        (KernelRidgeClassifier(unlabeled=-1), np.r_[-1, np.zeros(19)], "at least two classes"),
        (KernelRidgeClassifier(unlabeled=-1), np.r_[-1, np.linspace(0, 1, 19)], "Unknown label type"),
    ],
)
def test_mistakes_raise_with_advice(model, y, message):
    with pytest.raises(ValueError, match=message):
        model.fit(problem()[0][:20], y)


def test_blocks_give_the_probabilities_of_one_fit():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 3))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=6000) > 0, 1, 0)
    known = np.where(rng.random(6000) < 0.5, y, -1)
    feature_map = RandomFourier(Gaussian(1.0), 40, random_state=0)
    fresh = KernelRidgeClassifier(feature_map, alpha=1.0, unlabeled=-1, random_state=0)
    whole, parts = clone(fresh).fit(X, known), clone(fresh)
    for start in range(0, 6000, 1000):
        parts.partial_fit(X[start : start + 1000], known[start : start + 1000])
    np.testing.assert_allclose(parts.predict_proba(X), whole.predict_proba(X), atol=1e-10)


@pytest.mark.parametrize("kind", CLASSIFIERS)
@pytest.mark.parametrize("unlabeled", ["?", -1, np.nan])
@pytest.mark.parametrize(("names", "dtype"), [([0, 1, 2], int), ([0.0, 1.0, 2.0], float), (["a", "b", "c"], object)])
def test_labels_and_marks_of_several_kinds_can_stand_in_one_array_of_objects(kind, unlabeled, names, dtype):
    X, y, known = problem()
    labels = np.array(names, dtype=object)[y]
    partly = np.where(known, labels, unlabeled)
    expected = kind(drawn(), random_state=0).fit(X[known], labels[known].astype(dtype))
    for rows in ((X, partly), (blocks(X, partly, 50),)):
        model = kind(drawn(), unlabeled=unlabeled, random_state=0).fit(*rows)
        assert model.classes_.dtype == dtype
        assert model.classes_.tolist() == names
        assert model.predict(X).dtype == dtype
        assert np.allclose(model.coef_, expected.coef_, rtol=1e-9, atol=1e-12)
        assert model.score(X, partly) == expected.score(X[known], labels[known].astype(dtype))


@pytest.mark.parametrize(("unlabeled", "names"), [(-1, ["a", "b", "c"]), ("?", [0, 1, 2])])
def test_labels_that_are_all_known_may_be_an_array_of_their_own_kind(unlabeled, names):
    X, y, known = problem()
    truth = np.array(names)[y]
    partly = np.where(known, truth.astype(object), unlabeled)
    model = KernelRidgeClassifier(drawn(), alpha=0.1, unlabeled=unlabeled).fit(X, partly)
    assert model.score(X, truth) == np.mean(model.predict(X) == truth)
    parts = [(X[:120], partly[:120]), (X[120:], truth[120:])]
    expected = clone(model).fit(X, np.r_[partly[:120], truth[120:].astype(object)])
    assert np.allclose(clone(model).fit(parts).coef_, expected.coef_)


@pytest.mark.parametrize("unlabeled", ["?", np.nan])
def test_booleans_and_an_unlabeled_value_are_labels(unlabeled):
    X, y, known = problem()
    partly = np.where(known, (y > 0).astype(object), unlabeled)
    model = KernelRidgeClassifier(drawn(), alpha=1.0, unlabeled=unlabeled).fit(X, partly)
    assert model.classes_.dtype == bool
    assert model.score(X, partly) == np.mean(model.predict(X)[known] == (y > 0)[known])
    parts = KernelRidgeClassifier(drawn(), alpha=1.0, unlabeled=unlabeled)
    for part in blocks(X, partly, 80):
        parts.partial_fit(*part, classes=[False, True])
    assert np.allclose(parts.coef_, model.coef_, rtol=1e-9, atol=1e-12)


def test_lists_may_hold_numbers_and_a_string_for_unlabeled_rows():
    X, y, known = problem()
    model = KernelRidgeClassifier(drawn(), unlabeled="?").fit(X, np.where(known, y.astype(object), "?").tolist())
    assert model.classes_.dtype == int
    assert model.score(X, ["?", *y[1:].tolist()]) == np.mean(model.predict(X)[1:] == y[1:])
    strings = [["a", "b", "c"][label] if there else np.nan for label, there in zip(y, known, strict=True)]
    assert KernelRidgeClassifier(drawn(), unlabeled=np.nan).fit(X, strings).classes_.tolist() == ["a", "b", "c"]
    with pytest.raises(DataError, match="y contains NaN or None"):
        KernelRidgeClassifier(drawn()).fit(X, strings)


def test_numbers_in_object_arrays_are_numbers():
    X, y, _ = problem()
    model = KernelRidgeClassifier(drawn()).fit(X, y.astype(object))
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.classes_.dtype == int
    with pytest.raises(DataError, match="got int 0 and str 'b'"):
        KernelRidgeClassifier(drawn()).fit(X[:4], np.array([0, "b", 0, "b"], dtype=object))


@pytest.mark.parametrize("kind", CLASSIFIERS)
@pytest.mark.parametrize("unlabeled", ["?", np.nan])
@pytest.mark.parametrize("first", [0, 60, 180])
def test_blocks_without_targets_are_blocks_of_unlabeled_rows(kind, unlabeled, first):
    X, y, known = problem()
    known[first : first + 60] = False
    partly = np.where(known, np.array(["a", "b", "c"], dtype=object)[y], unlabeled)
    expected = kind(drawn(), unlabeled=unlabeled, random_state=0).fit(X, partly)
    parts = blocks(X, partly, 60)
    rows = parts[first // 60][0]
    for bare in ((rows, None), (rows,), rows, (rows, np.full(60, unlabeled))):
        parts[first // 60] = bare
        model = kind(drawn(), unlabeled=unlabeled, random_state=0).fit(parts)
        assert model.classes_.tolist() == ["a", "b", "c"]
        assert np.allclose(model.coef_, expected.coef_, rtol=1e-9, atol=1e-12)
    parts[first // 60] = (rows, None)
    with pytest.raises(DataError, match=rf"Block {first // 60}, .* requires y to be passed, .* unlabeled=np.nan: then"):
        kind(drawn()).fit([*blocks(X, y, 60)[: first // 60], (rows, None)])


@pytest.mark.parametrize("columns", [None, 1, 2])
@pytest.mark.parametrize("first", [0, 120])
@pytest.mark.parametrize("unlabeled", [np.nan, -9])
def test_blocks_without_numbers_are_blocks_of_unlabeled_rows(columns, first, unlabeled):
    X, _, known = problem()
    known[first : first + 60] = False
    y = np.sin(X[:, 0]) if columns is None else np.sin(X[:, :columns])
    partly = np.where(known if columns is None else known[:, None], y, unlabeled)
    expected = KernelRidge(drawn(), alpha=0.1, unlabeled=unlabeled).fit(X, partly)
    parts = blocks(X, partly, 60)
    parts[first // 60] = (parts[first // 60][0], None)
    model = KernelRidge(drawn(), alpha=0.1, unlabeled=unlabeled).fit(parts)
    assert model.coef_.shape == expected.coef_.shape
    assert np.allclose(model.coef_, expected.coef_, rtol=1e-9, atol=1e-11)
    added = KernelRidge(drawn(), alpha=0.1, unlabeled=unlabeled).partial_fit(*parts[1]).partial_fit(X[:9], None)
    assert np.allclose(added.coef_, KernelRidge(drawn(), alpha=0.1, unlabeled=unlabeled).fit(*parts[1]).coef_)
    with pytest.raises(DataError, match="or there is no y: there is nothing to learn from"):
        KernelRidge(drawn(), unlabeled=unlabeled).fit([(X, None)])


@pytest.mark.parametrize(
    "feature_map",
    [
        RandomFourier(Gaussian("median"), 40, random_state=0),
        Deformed(drawn(), FeatureGraph(50)),
        Deformed(drawn(), NeighborGraph(8, max_rows=200), random_state=0),
    ],
)
def test_maps_that_depend_on_rows_may_start_with_a_block_without_targets(feature_map):
    X, _, _ = problem()
    Y = np.sin(X[:, :2])
    Y[:60] = np.nan
    parts = [(X[:60], None), *blocks(X[60:], Y[60:], 60)]
    model, expected = (KernelRidge(feature_map, alpha=0.1, unlabeled=np.nan).fit(*rows) for rows in ((parts,), (X, Y)))
    assert np.allclose(model.predict(X), expected.predict(X), rtol=1e-6, atol=1e-8)


def test_the_first_partition_on_dask_must_have_targets():
    dask = pytest.importorskip("dask")
    X, _, _ = problem()
    parts = [dask.delayed((X[:100], None)), dask.delayed((X[100:], X[100:, :2]))]
    with pytest.raises(DataError, match="KernelRidge: the first partition must have targets"):
        KernelRidge(drawn(), unlabeled=np.nan).fit(parts)
    model = KernelRidge(drawn(), unlabeled=np.nan).fit(parts[::-1])
    assert np.allclose(model.coef_, KernelRidge(drawn()).fit(X[100:], X[100:, :2]).coef_)


def test_blocks_may_be_lists_and_rows_of_strings_raise():
    X, y, _ = problem()
    model = KernelRidgeClassifier(drawn()).fit([(X[:99].tolist(), y[:99].tolist()), (X[99:].tolist(), y[99:].tolist())])
    assert np.allclose(model.coef_, KernelRidgeClassifier(drawn()).fit(X, y).coef_)
    for rows in (np.array([["a", "b"]] * 20), [["a", "b"]] * 20):
        with pytest.raises(DataError, match=r"Block 0.*rows must be numbers, got strings such as 'a'\. Encode them"):
            KernelRidgeClassifier(drawn()).fit([(rows, y[:20])])
    assert KernelRidge(drawn()).fit(X.astype(str), y).coef_.shape == (40,)


@pytest.mark.parametrize("model", [KernelRidge(), KernelRidge(unlabeled=-1), KernelRidge(unlabeled="?")])
def test_strings_are_not_targets_of_regressions(model):
    X, y, _ = problem()
    with pytest.raises(DataError, match=r"targets must be numbers, got the string '\?'.* set unlabeled=np\.nan"):
        model.fit(X, np.where(y > 1, "?", y.astype(object)))
