"""Metrics learned from near rows: relevant columns, invariances, and rows of every kind."""

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import (
    DataError,
    Gaussian,
    KernelRidge,
    KernelRidgeClassifier,
    Laplacian,
    LearnedMetric,
    Matern,
    Nystroem,
    ParameterError,
    Transformed,
)
from mercer.solvers.local import metric_search


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    for name in ("STEPS", "WARM_STEPS", "LAST_STEPS", "SHARED_STEPS", "FULL_STEPS"):
        monkeypatch.setattr(metric_search, name, 4)


@pytest.fixture
def enough_steps(few_steps, monkeypatch):
    monkeypatch.setattr(metric_search, "STEPS", 40)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(250, 4))
    return X, np.sin(2 * X[:, 1]) + 0.1 * rng.normal(size=250)


def near(feature_map=None, **parameters):
    return LearnedMetric(feature_map, method="neighbors", random_state=0, **parameters)


MATERN = Nystroem(Matern(1.5), 40, landmarks="uniform")


def test_the_relevant_column_has_the_importance(enough_steps, rows):
    X, y = rows
    model = near().fit(X, y)
    assert model.importances_[1] > 0.95
    assert model.importances_.sum() == pytest.approx(1)
    # One of three Matern kernels, with the lengthscale of the metric.
    kernel = model.feature_map_.kernel_
    assert isinstance(kernel, Matern)
    assert kernel.nu in (0.5, 1.5, 2.5)
    assert isinstance(model.kernel_, Transformed)
    kept = model.rounds_.kept
    assert kept.error < 1.02 * min(one.error for one in model.rounds_.rounds) < 0.3
    # The twin: targets in another order depend on no column.
    shuffled = near().fit(X, np.random.default_rng(1).permutation(y))
    assert shuffled.importances_[1] < 0.7


def test_units_of_columns_and_targets_do_not_matter(rows):
    X, y = rows
    factors = np.array([1e-6, 1.0, 1e3, 1e6])
    one, other = near().fit(X, y), near().fit(X * factors, y)
    np.testing.assert_allclose(other.importances_, one.importances_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(other.transform(X * factors), one.transform(X), atol=1e-6)
    np.testing.assert_allclose(other.scales_, one.scales_ * factors, rtol=1e-9)
    for scale, offset in ((1e200, 0.0), (1e-200, 0.0), (1.0, 1e6)):
        moved = near().fit(X, scale * y + offset)
        np.testing.assert_allclose(moved.importances_, one.importances_, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kernel", [Gaussian("median"), Matern(0.5), Matern(2.5, "median")], ids=repr)
def test_a_given_kernel_keeps_its_profile_and_its_map(enough_steps, rows, kernel):
    X, y = rows
    model = near(Nystroem(kernel, 30, landmarks="uniform")).fit(X, y)
    inner = model.feature_map_.kernel_
    assert type(inner) is type(kernel)
    assert getattr(inner, "nu", None) == getattr(kernel, "nu", None)
    assert model.features_.n_components == 30
    assert model.importances_[1] > 0.9
    # The kernel is a function of the distance in the metric.
    lengths = model.kernel_.lengthscales if np.ndim(model.metric_) == 1 else None
    if lengths is not None:
        expected = inner((X[:5] - np.asarray(model.kernel_.center)) / np.asarray(lengths))
        np.testing.assert_allclose(model.kernel_(X[:5]), expected, rtol=1e-10)


def test_labels(enough_steps, rows):
    X, y = rows
    names = np.where(y > 0, "high", "low")
    model = near(MATERN).fit(X, names)
    assert model.importances_[1] > 0.9
    learner = KernelRidgeClassifier(near(MATERN), alpha="loo").fit(X, names)
    np.testing.assert_allclose(learner.feature_map_.importances_, model.importances_, rtol=1e-9)
    # A label with a single row, many labels, and only one.
    for labels in (np.array(["a"] + ["b"] * 59), np.arange(60) % 26, np.repeat("a", 60)):
        with np.errstate(divide="raise", invalid="raise", over="raise"):
            assert near(MATERN).fit(X[:60], labels).importances_.sum() == pytest.approx(1)


def test_integer_weights_are_repetitions(rows):
    X, y = rows
    weight = np.random.default_rng(2).integers(0, 3, 250)
    index = np.repeat(np.arange(250), weight)
    weighted = KernelRidge(near(), alpha=0.1).fit(X, y, weight).feature_map_
    repeated = KernelRidge(near(), alpha=0.1).fit(X[index], y[index]).feature_map_
    np.testing.assert_allclose(weighted.importances_, repeated.importances_, rtol=1e-9, atol=1e-12)
    # The twin: without weights the metric is another one.
    plain = KernelRidge(near(), alpha=0.1).fit(X, y).feature_map_
    assert np.abs(plain.importances_ - weighted.importances_).max() > 1e-6


def test_other_kernels_and_given_metrics_are_refused(rows):
    X, y = rows
    for kernel in (Laplacian(1.0), Matern(1.0), 2.0 * Gaussian(1.0), Gaussian(1.0) + Matern(0.5)):
        with pytest.raises(ParameterError, match=r"needs a Gaussian kernel or a Matern kernel"):
            near(Nystroem(kernel, 20)).fit(X, y)
    with pytest.raises(ParameterError, match="a callable metric needs method='gradients'"):
        near(metric=lambda X, Y, weight, kernel: np.ones(X.shape[1])).fit(X, y)
    with pytest.raises(ParameterError, match="method must be one of"):
        LearnedMetric(method="rows").fit(X, y)


def test_sparse_and_single_precision_rows(rows):
    X, y = rows
    X = np.where(np.abs(X) < 0.3, 0.0, X).astype(np.float32)
    expected = near(MATERN).fit(X.astype(np.float64), y)
    sparse = near(MATERN).fit(sp.csr_array(X.astype(np.float64)), y)
    np.testing.assert_allclose(sparse.importances_, expected.importances_, rtol=1e-8, atol=1e-12)
    single = near(MATERN).fit(X, y)
    np.testing.assert_allclose(single.importances_, expected.importances_, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("n", [2, 3, 10])
def test_few_rows(rows, n):
    X, y = rows
    model = near().fit(X[:n], y[:n])
    assert np.isfinite(model.transform(X)).all()
    assert model.importances_.sum() == pytest.approx(1)


def test_one_row_and_equal_rows_are_refused(rows):
    X, y = rows
    for some in (X[:1], np.repeat(X[:1], 5, axis=0)):
        with pytest.raises(DataError, match="at least two different rows"):
            near().fit(some, y[: len(some)])


@pytest.mark.parametrize("value", [0.0, 0.1, 2.6, 1e9])
@pytest.mark.parametrize("method", ["neighbors", "gradients"])
def test_constant_targets_give_equal_importances(rows, value, method):
    X, _ = rows
    model = LearnedMetric(MATERN, method=method, random_state=0).fit(X, np.full(250, value))
    np.testing.assert_allclose(model.importances_, 0.25, rtol=1e-12)


def test_constant_columns_have_no_importance(rows):
    X, y = rows
    wider = np.column_stack([X[:, :2], np.full(250, 7.0), X[:, 2:]])
    model, expected = near(MATERN).fit(wider, y), near(MATERN).fit(X, y)
    np.testing.assert_allclose(np.delete(model.importances_, 2), expected.importances_, rtol=1e-9)
    assert model.importances_[2] == 0


def test_kinds_of_metrics(rows):
    X, y = rows
    diagonal = near(MATERN, metric="diagonal").fit(X, y)
    assert diagonal.metric_.shape == (4,)
    assert not any("full" in str(one) for one in diagonal.rounds_.rounds)
    assert any("full" in str(one) for one in near(MATERN, metric="full").fit(X, y).rounds_.rounds)


def test_blocks_and_dask_give_the_same_metric(rows):
    X, y = rows
    expected = near(MATERN).fit(X, y).importances_
    blocks = KernelRidge(near(MATERN)).fit([(X[:90], y[:90]), (X[90:], y[90:])])
    np.testing.assert_allclose(blocks.feature_map_.importances_, expected, rtol=1e-9)
    da = pytest.importorskip("dask.array")
    lazy = KernelRidge(near(MATERN)).fit(da.from_array(X, chunks=(60, 4)), da.from_array(y, chunks=60))
    np.testing.assert_allclose(lazy.feature_map_.importances_, expected, rtol=1e-9)


def test_rows_without_targets_do_not_matter(enough_steps, rows):
    X, y = rows
    some = np.where(np.arange(250) % 3 == 0, np.nan, y)
    known = ~np.isnan(some)
    expected = near().fit(X[known], y[known])
    found = near().fit(X, some)
    # The samples of rows differ in their order only, the mini-batches do so, too.
    assert np.abs(found.importances_ - expected.importances_).max() < 0.1


def test_at_most_max_rows_are_used(rows, monkeypatch):
    X, y = rows
    counts = []
    original = metric_search.tune_metric
    monkeypatch.setattr(metric_search, "tune_metric", lambda X, *a, **k: counts.append(len(X)) or original(X, *a, **k))
    near(MATERN, max_rows=60).fit(X, y)
    assert set(counts) == {60}
    counts.clear()
    near(MATERN, max_rows=None).fit(X, y)
    assert set(counts) == {250}


def test_models_with_near_rows_use_the_metric(enough_steps, rows):
    X, y = rows
    model = KernelRidge(near(), alpha="loo", neighbors=16, random_state=0).fit(X[:200], y[:200])
    plain = KernelRidge(Matern(1.5, "median"), alpha="loo", neighbors=16, random_state=0).fit(X[:200], y[:200])
    truth = np.sin(2 * X[200:, 1])
    error, other = (np.mean(np.square(m.predict(X[200:]) - truth)) for m in (model, plain))
    assert error < 0.3 * other
