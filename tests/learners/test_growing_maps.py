"""Blocks added to a learner whose map depends on all rows: statistics are transformed to the updated features."""

import pickle
import re

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from mercer import (
    Deformed,
    FeatureGraph,
    Gaussian,
    GaussianProcessRegressor,
    KernelKMeans,
    KernelPCA,
    KernelRidge,
    KernelRidgeClassifier,
    NeighborGraph,
    Polynomial,
    RandomFourier,
    RandomMaclaurin,
)

pytestmark = pytest.mark.covering(1)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 3))
NUMBERS = np.sin(2 * X[:, 0]) + X[:, 1]
LABELS = np.digitize(NUMBERS, [-0.5, 0.5])
KNOWN = RNG.random(240) < 0.4
KNOWN[100:150] = False  # a block without any
PARTS = [slice(0, 100), slice(100, 150), slice(150, 240)]

# Features that are the columns of rows.
LINEAR = RandomMaclaurin(Polynomial(1, coef0=0.0), 30)


def deformed(rank=None, **options):
    below = RandomFourier(Gaussian(1.2), 30, random_state=0)
    return Deformed(below, FeatureGraph(40), strength=options.pop("strength", 5.0), power=1.5, rank=rank, **options)


def grown(parts=PARTS, rank=None, rows=X):
    feature_map = deformed(rank)
    for part in parts:
        feature_map.partial_fit(rows[part])
    return feature_map


def in_parts(model, y, rows=X, weight=None):
    for part in PARTS:
        model.partial_fit(rows[part], y[part], sample_weight=None if weight is None else weight[part])
    return model


@pytest.mark.parametrize("rank", [None, 10])
@pytest.mark.parametrize("alpha", [0.3, "evidence"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_regressions_are_those_on_the_map_of_all_rows(rank, alpha, fit_intercept):
    options = dict(alpha=alpha, fit_intercept=fit_intercept)
    model = in_parts(KernelRidge(deformed(rank), unlabeled=np.nan, **options), np.where(KNOWN, NUMBERS, np.nan))
    feature_map = grown(rank=rank)
    np.testing.assert_allclose(model.feature_map_.transform(X), feature_map.transform(X), atol=1e-12)
    Z = feature_map.transform(X[KNOWN])
    expected = KernelRidge(LINEAR, **options).fit(Z, NUMBERS[KNOWN])
    assert model.alpha_ == pytest.approx(expected.alpha_, rel=1e-6)
    np.testing.assert_allclose(model.predict(X), expected.predict(feature_map.transform(X)), atol=1e-8)
    # Without what later rows say of the graph it would be another model.
    stale = KernelRidge(LINEAR, **options)
    stale.fit(grown(PARTS[:1], rank).transform(X[KNOWN]), NUMBERS[KNOWN])
    assert np.abs(stale.predict(grown(PARTS[:1], rank).transform(X)) - model.predict(X)).max() > 1e-3


@pytest.mark.parametrize("alpha", [0.3, "evidence"])
@pytest.mark.parametrize("kind", [KernelRidge, KernelRidgeClassifier])
def test_what_the_features_of_one_block_magnify_and_those_of_the_next_shrink_is_not_taken_for_rounding(kind, alpha):
    y = NUMBERS if kind is KernelRidge else LABELS
    model, feature_map = kind(deformed(rank=8, strength=1000.0), alpha=alpha), deformed(rank=8, strength=1000.0)
    for start in range(0, 240, 10):
        model.partial_fit(X[start : start + 10], y[start : start + 10])
        feature_map.partial_fit(X[start : start + 10])
    Z = feature_map.transform(X)
    expected = kind(LINEAR, alpha=alpha).fit(Z, y)
    assert model.score(X, y) == pytest.approx(expected.score(Z, y), abs=1e-3)
    assert model.statistic_.roundoff < 1e-5
    copy = pickle.loads(pickle.dumps(model)).partial_fit(X[:10], y[:10])
    assert copy.statistic_.roundoff < 1e-5


def test_classifiers_are_those_on_the_map_of_all_rows():
    y = np.where(KNOWN, LABELS, -1)
    model = in_parts(KernelRidgeClassifier(deformed(), unlabeled=-1, alpha=0.1, random_state=0), y)
    feature_map = grown()
    one = KernelRidgeClassifier(LINEAR, alpha=0.1, random_state=0)
    one.fit(feature_map.transform(X[KNOWN]), LABELS[KNOWN])
    Z = feature_map.transform(X)
    np.testing.assert_allclose(model.decision_function(X), one.decision_function(Z), atol=1e-8)
    # The sample that scales them is all rows, in both.
    np.testing.assert_allclose(model.predict_proba(X), one.predict_proba(Z), atol=1e-6)


def test_rows_can_be_added_to_those_of_a_fit_and_weights_count():
    weight = RNG.integers(0, 3, len(X)).astype(float)
    fresh = KernelRidge(deformed(), alpha=0.3)
    first, rest = slice(0, 100), slice(100, 240)
    model = clone(fresh).fit(X[first], NUMBERS[first], sample_weight=weight[first])
    model.partial_fit(X[rest], NUMBERS[rest], sample_weight=weight[rest])
    again = clone(fresh)
    for part in (first, rest):
        copies = np.repeat(np.arange(240)[part], weight[part].astype(int))
        again.partial_fit(X[copies], NUMBERS[copies])
    assert model.feature_map_.graph_.n_nodes == (weight > 0).sum()
    np.testing.assert_allclose(model.predict(X), again.predict(X), atol=1e-8)


def test_a_whole_first_block_is_a_fit():
    y = np.where(KNOWN, NUMBERS, np.nan)
    fresh = KernelRidge(deformed(), unlabeled=np.nan, alpha=0.3)
    np.testing.assert_allclose(clone(fresh).partial_fit(X, y).predict(X), clone(fresh).fit(X, y).predict(X), atol=1e-10)


def test_features_far_from_zero_and_of_single_precision_are_transformed():
    rows = X.astype(np.float32)
    below = RandomMaclaurin(Polynomial(2, coef0=30.0), 10, random_state=0)  # of a large constant
    fresh = KernelRidge(Deformed(below, FeatureGraph(40), strength=1e-3), alpha=1.0)
    model = in_parts(clone(fresh), NUMBERS, rows)
    assert model.statistic_.shift is not None
    feature_map = Deformed(below, FeatureGraph(40), strength=1e-3)
    for part in PARTS:
        feature_map.partial_fit(rows[part])
    Z = feature_map.transform(rows).astype(float)
    centered = Z - Z.mean(axis=0)
    coef = np.linalg.solve(centered.T @ centered + np.eye(Z.shape[1]), centered.T @ (NUMBERS - NUMBERS.mean()))
    expected = centered @ coef + NUMBERS.mean()
    np.testing.assert_allclose(model.predict(rows), expected, atol=0.02)
    assert 0 < model.rounding_ < 0.1


def test_processes_components_and_clusters_follow_the_map():
    feature_map = grown()
    Z = feature_map.transform(X)
    process = in_parts(GaussianProcessRegressor(deformed(), noise=0.1, amplitude=1.0), NUMBERS)
    gram = Z @ Z.T
    inverse = np.linalg.inv(gram + 0.1**2 * np.eye(len(X)))
    mean, deviation = process.predict(X[:20], return_std=True)
    offset = NUMBERS.mean() if process.normalize_y else 0.0
    np.testing.assert_allclose(mean, offset + gram[:20] @ inverse @ (NUMBERS - offset), atol=1e-6)
    np.testing.assert_allclose(deviation**2, np.diag(gram - gram @ inverse @ gram)[:20], atol=1e-6)
    scores = in_parts(KernelPCA(deformed(), 3), NUMBERS).transform(X)
    left, values, _ = np.linalg.svd(Z - Z.mean(axis=0), full_matrices=False)
    np.testing.assert_allclose(np.abs(scores), np.abs(left[:, :3] * values[:3]), atol=1e-8)
    clusters = KernelKMeans(deformed(), n_clusters=3, random_state=0).partial_fit(X[:100])
    centers = clusters.cluster_centers_
    old, new = clusters.feature_map_.features_.matrix, grown([slice(0, 100), slice(100, 200)]).features_.matrix
    before = clusters._means_
    clusters.partial_fit(X[100:200])
    moved = centers @ np.linalg.inv(old) @ new
    came = grown([slice(0, 100), slice(100, 200)]).transform(X[100:200])
    nearest = np.square(came[:, None] - moved).sum(axis=2).argmin(axis=1)
    for label, center in enumerate(clusters.cluster_centers_):
        mine = came[nearest == label]
        total = before.weight[label] + len(mine)
        np.testing.assert_allclose(center, (moved[label] * before.weight[label] + mine.sum(axis=0)) / total, atol=1e-8)


def test_processes_do_not_ask_for_an_exact_kernel_that_is_not_there():
    # Of weighted rows, of many and of added ones there is none.
    model = GaussianProcessRegressor(deformed(), noise=0.1, amplitude=1.0)
    copies = np.repeat(np.arange(240), 2)
    weighted = clone(model).fit(X, NUMBERS, sample_weight=np.full(240, 2.0))
    for found, wanted in zip(
        weighted.predict(X, return_std=True),
        clone(model).fit(X[copies], NUMBERS[copies]).predict(X, return_std=True),
        strict=True,
    ):
        np.testing.assert_allclose(found, wanted, atol=1e-8)
    assert weighted.sample_y(X[:5], 3, random_state=0).shape == (5, 3)
    assert weighted.predict(X[:5], return_cov=True)[1].shape == (5, 5)


@pytest.mark.parametrize(
    "graph", [None, NeighborGraph(4), sp.csr_array(np.ones((100, 100)))], ids=["default", "neighbors", "given"]
)
@pytest.mark.parametrize("kind", [KernelRidge, KernelPCA, KernelKMeans, GaussianProcessRegressor])
def test_graphs_that_cannot_grow_have_no_partial_fit(kind, graph):
    below = RandomFourier(Gaussian(1.2), 30, random_state=0)
    model = kind(feature_map=Deformed(below, graph))
    for _ in range(2):  # before `fit` and after
        assert not hasattr(model, "partial_fit")
        with pytest.raises(AttributeError) as error:
            model.partial_fit(X[:100], NUMBERS[:100])
        reason = rf"{kind.__name__}: partial_fit needs a map to which rows .* all rows at once. Use fit .*FeatureGraph"
        assert re.match(reason, str(error.value.__cause__))
        model.fit(X[:100], NUMBERS[:100])


def test_a_deformation_of_a_deformation_has_no_partial_fit():
    model = KernelRidge(Deformed(deformed(), FeatureGraph(20)))
    with pytest.raises(AttributeError) as error:
        model.partial_fit(X, NUMBERS)
    assert "cannot be used with a Deformed map whose inner map is a Deformed map" in str(error.value.__cause__)


def test_a_bad_block_leaves_the_map_unchanged():
    model = KernelRidge(deformed(), alpha=0.3).partial_fit(X[:100], NUMBERS[:100])
    before, feature_map = model.predict(X), model.feature_map_
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(X[100:] * np.nan, NUMBERS[100:])
    model._statistic = lambda _: 1 / 0
    with pytest.raises(ZeroDivisionError):
        model.partial_fit(X[100:], NUMBERS[100:])
    del model._statistic
    assert model.feature_map_ is feature_map
    assert feature_map.graph_.n_nodes == 100
    np.testing.assert_array_equal(model.predict(X), before)


def test_an_unpickled_model_can_be_continued():
    model = KernelRidge(deformed(), alpha=0.3).partial_fit(X[:100], NUMBERS[:100])
    other = pickle.loads(pickle.dumps(model)).partial_fit(X[100:], NUMBERS[100:])
    np.testing.assert_allclose(other.predict(X), model.partial_fit(X[100:], NUMBERS[100:]).predict(X), atol=1e-12)


def test_unlabeled_rows_change_a_solved_model():
    y = np.where(KNOWN, NUMBERS, np.nan)
    model = KernelRidge(deformed(), unlabeled=np.nan, alpha=0.3).partial_fit(X[:100], y[:100])
    before = model.predict(X)
    after = model.partial_fit(X[100:150], y[100:150]).predict(X)
    assert np.isnan(y[100:150]).all()
    assert np.abs(after - before).max() > 1e-4
    feature_map = grown(PARTS[:2])
    known = np.flatnonzero(KNOWN[:100])
    expected = KernelRidge(LINEAR, alpha=0.3).fit(feature_map.transform(X[known]), NUMBERS[known])
    np.testing.assert_allclose(after, expected.predict(feature_map.transform(X)), atol=1e-8)
