"""Learners without arguments: columns in any units, widths by rows, penalties that are chosen."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from mercer import (
    Gaussian,
    GaussianProcessRegressor,
    KernelLogisticRegression,
    KernelPCA,
    KernelRidge,
    KernelRidgeClassifier,
    KernelSVC,
    Matern,
    Nystroem,
    RandomFourier,
    ScaledColumns,
    Transformed,
)
from mercer.engines import MemoryEngine
from mercer.learners.defaults import count_rows, map_of_learner, width_for
from mercer.metric.inputs import column_spreads

RNG = np.random.default_rng(0)
UNITS = np.array([1e-6, 1.0, 1e6, 1e3])
ROWS = RNG.normal(size=(300, 4))
X = ROWS * UNITS
y = np.sin(2 * ROWS[:, 0]) + np.cos(2 * ROWS[:, 1]) + 0.3 * ROWS[:, 2] + 0.1 * RNG.normal(size=300)
LABELS = np.digitize(y, [0.0, 1.0])
FITS = [
    (KernelRidge(random_state=0), y, "predict"),
    (KernelRidgeClassifier(random_state=0), LABELS, "decision_function"),
    (KernelLogisticRegression(random_state=0, tol=1e-12), LABELS, "decision_function"),
    (KernelSVC(random_state=0, tol=1e-12), LABELS, "decision_function"),
    (GaussianProcessRegressor(random_state=0, tune_rows=100), y, "predict"),
    (KernelPCA(n_components=3, random_state=0), None, "transform"),
]
IDS = [type(model).__name__ for model, _, _ in FITS]


def quietly(model, *data):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return model.fit(*data)


@pytest.mark.parametrize(("model", "targets", "method"), FITS, ids=IDS)
def test_units_of_columns_do_not_matter_and_nothing_warns(model, targets, method):
    plain = getattr(quietly(model, ROWS, targets), method)(ROWS)
    # An eigenvalue that is zero up to rounding is not the same in other units.
    np.testing.assert_allclose(getattr(quietly(model, X, targets), method)(X), plain, atol=2e-5 * np.abs(plain).max())


def test_it_is_better_than_a_straight_line_on_raw_columns():
    train, test = slice(200), slice(200, None)
    model = KernelRidge(random_state=0).fit(X[train], y[train])
    line = LinearRegression().fit(X[train], y[train])
    assert model.score(X[test], y[test]) > 0.9 > 0.5 > line.score(X[test], y[test])
    # Without scaling, it is worse than the line.
    with pytest.warns(UserWarning, match="ScaledColumns"):
        unscaled = KernelRidge(Gaussian("median"), random_state=0).fit(X[train], y[train])
    assert unscaled.score(X[test], y[test]) < 0.5


def test_it_is_the_stated_kernel_on_standardized_rows():
    model = KernelRidge(random_state=0).fit(X, y)
    center, spread = column_spreads(X, None)
    scaled = (X - center) / spread
    stated = Nystroem(Matern(2.5, "median"), 256, random_state=0)
    explicit = KernelRidge(stated, alpha="loo").fit(scaled, y)
    np.testing.assert_allclose(model.predict(X), explicit.predict(scaled), atol=1e-7)
    assert model.alpha_ == pytest.approx(explicit.alpha_)
    kernel = model.feature_map_.kernel_
    assert isinstance(kernel, Transformed)
    np.testing.assert_allclose(kernel.lengthscales, spread)
    assert kernel.kernel == explicit.feature_map_.kernel_ or kernel.kernel.lengthscale == pytest.approx(
        explicit.feature_map_.kernel_.lengthscale
    )
    assert (model.width_, model.criterion_) == (256, "loo")


@pytest.mark.parametrize(("model", "targets", "method"), FITS[:4:2], ids=IDS[:4:2])
def test_blocks_dask_and_checkpoints_give_the_same_model(model, targets, method, tmp_path):
    da = pytest.importorskip("dask.array")
    weight = RNG.integers(0, 3, 300).astype(float)
    expected = getattr(model.fit(X, targets, weight), method)(X)
    close = max(1e-6, 10 * getattr(model, "rounding_", 0.0)) * np.abs(expected).max()
    blocks = [(X[i : i + 90], targets[i : i + 90], weight[i : i + 90]) for i in range(0, 300, 90)]
    on_dask = tuple(da.from_array(each, chunks=(150, *each.shape[1:])) for each in (X, targets, weight))
    for data, options in ((blocks,), {}), (on_dask, {}), ((blocks,), {"checkpoint": tmp_path / "fit"}):
        found = getattr(model.fit(*data, **options), method)(X)
        np.testing.assert_allclose(found, expected, atol=close)


@pytest.mark.parametrize(
    "feature_map",
    [RandomFourier(Gaussian(1.0), 16), ScaledColumns(Nystroem(Gaussian(1.0), 16, landmarks="uniform"))],
    ids=["map", "nested map"],
)
@pytest.mark.parametrize(
    "learner", [KernelRidge, KernelRidgeClassifier, KernelSVC, KernelPCA, KernelLogisticRegression]
)
def test_the_seed_of_a_learner_is_that_of_a_map_without_a_seed(learner, feature_map):
    X = np.random.default_rng(0).normal(size=(80, 3))
    y = X[:, 0] if learner is KernelRidge else X[:, 0] > 0
    drawn = [
        learner(feature_map, random_state=seed).fit(X, y).feature_map_.transform(X)
        for seed in (0, 0, 1, np.random.default_rng(0), np.random.default_rng(0), None)
    ]
    assert np.array_equal(drawn[0], drawn[1])
    assert np.array_equal(drawn[3], drawn[4])
    for other in (drawn[2], drawn[5]):
        assert not np.array_equal(drawn[0], other)
    seeded = feature_map.__class__(**{**feature_map.get_params(deep=False), "random_state": 7})
    assert np.array_equal(learner(seeded, random_state=0).fit(X, y).feature_map_.transform(X), seeded.fit_transform(X))


def test_widths_grow_with_the_rows():
    widths = [width_for(n) for n in (1, 1024, 1025, 4096, 4097, 65_536, 262_145, 10**9)]
    assert widths == [256, 256, 512, 512, 1024, 2048, 4096, 4096]
    assert KernelRidge(random_state=0).fit(ROWS.repeat(4, axis=0), y.repeat(4)).width_ == 512
    assert KernelRidge(Gaussian(), random_state=0).fit(ROWS, y).width_ == 512
    assert map_of_learner(Gaussian(), n_rows=10_000).n_components == 1024
    assert map_of_learner(None, n_rows=10_000).width == 1024


def test_rows_are_counted_if_they_can_be_read_twice():
    weight = np.arange(300) % 4 * 1.0
    assert count_rows(MemoryEngine(X, y, weight, block_rows=64)) == 225
    assert count_rows(MemoryEngine(X, y, block_rows=64)) == 300


def test_added_rows_have_a_fixed_width_and_the_evidence():
    model = KernelRidge(random_state=0).partial_fit(X[:200], y[:200]).partial_fit(X[200:], y[200:])
    assert (model.width_, model.criterion_) == (512, "evidence")
    assert isinstance(model.feature_map_, ScaledColumns)
    assert isinstance(model.feature_map_.feature_map_, RandomFourier)
    assert model.score(X, y) > 0.9
    stream = KernelRidge(RandomFourier(Gaussian(1.0), 64, random_state=0))
    assert stream.fit(iter([(ROWS, y)])).criterion_ == "evidence"
    assert stream.fit(ROWS, y).criterion_ == "loo"
    assert stream.set_params(alpha=1.0).fit(ROWS, y).criterion_ is None


def test_a_single_row_and_constant_targets_can_be_fitted():
    single = quietly(KernelRidge(RandomFourier(Gaussian(1.0), 8)), X[:1], y[:1])
    assert single.predict(X[:1]) == pytest.approx(y[:1])
    assert (single.alpha_, single.criterion_) == (1.0, None)
    assert quietly(KernelRidge(), X, np.ones(300)).predict(X) == pytest.approx(np.ones(300))


@pytest.mark.parametrize("kind", [KernelLogisticRegression, KernelSVC])
def test_a_chosen_weight_is_that_of_the_path(kind):
    model = quietly(kind(random_state=0), X, LABELS)
    assert model.C_ == model.path_.C in model.path_.weights
    fixed = kind(C=model.C_, random_state=0).fit(X, LABELS)
    np.testing.assert_allclose(model.coef_, fixed.coef_)
    assert fixed.path_ is None
    assert model.score(X, LABELS) > 0.8
