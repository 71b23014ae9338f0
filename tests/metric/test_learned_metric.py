"""Learned metrics: known gradients and subspaces, invariances, and rows of every kind."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer import (
    DataError,
    Deformed,
    Gaussian,
    GaussianProcessRegressor,
    KernelKMeans,
    KernelPCA,
    KernelRidge,
    KernelRidgeClassifier,
    LearnedMetric,
    Matern,
    Nystroem,
    ParameterError,
    Polynomial,
    RandomFourier,
    RandomMaclaurin,
    Transformed,
    open_rows,
)
from mercer.engines import Block, MemoryEngine
from mercer.metric.inputs import column_spreads
from mercer.statistics.gradients import GradientProducts

MATERN = Nystroem(Matern(1.5, "median"), 60, landmarks="uniform", random_state=0)


def ridge_function(n=300, d=6, seed=0):
    """Return rows and targets that depend on one direction u of the columns, and u."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    u = rng.normal(size=d)
    u /= np.linalg.norm(u)
    return X, np.sin(2 * X @ u) + 0.05 * rng.normal(size=n), u


def overlap(model, u):
    """Return |u . v| for the leading eigenvector v of the metric in the units of the rows."""
    scaled = model.metric_ / np.outer(model.scales_, model.scales_)
    v = np.linalg.eigh(scaled)[1][:, -1]
    return abs(v @ u)


def test_leading_eigenvector_is_the_direction_of_the_function():
    X, y, u = ridge_function()
    model = LearnedMetric(random_state=0).fit(X, y)
    assert overlap(model, u) > 0.995
    assert model.rounds_.kept.error < 0.5 * model.rounds_.rounds[0].error
    # The twin: targets in another order have no direction, and the metric must not find one.
    shuffled = LearnedMetric(random_state=0).fit(X, np.random.default_rng(1).permutation(y))
    assert overlap(shuffled, u) < 0.9
    assert shuffled.rounds_.kept.error > 0.9


def test_predictions_improve_on_new_rows():
    X, y, _ = ridge_function(n=500, d=8)
    plain, learned = (
        KernelRidge(LearnedMetric(rounds=rounds, random_state=0), alpha="loo").fit(X[:300], y[:300])
        for rounds in (0, 5)
    )
    assert learned.score(X[300:], y[300:]) > 0.95 > 0.9 > plain.score(X[300:], y[300:])


def test_fitted_attributes():
    X, y, _ = ridge_function(d=4)
    X = np.column_stack([X[:, :2], np.full(len(X), 7.0), X[:, 2:]])
    model = LearnedMetric(MATERN, rounds=2).fit(X, y)
    assert model.metric_.shape == (5, 5)
    np.testing.assert_allclose(model.metric_, model.metric_.T, atol=1e-14)
    np.testing.assert_allclose(np.trace(model.metric_), 1)
    np.testing.assert_allclose(model.importances_, np.diagonal(model.metric_))
    assert model.importances_[2] == model.scales_[2] == 0  # a constant column
    assert len(model.rounds_) == 3
    assert sum(one.kept for one in model.rounds_) == 1
    assert model.rounds_.kept.error == min(one.error for one in model.rounds_)
    assert str(model.rounds_).count("*") == 1
    frame = model.rounds_.to_pandas()
    assert frame["kept"].sum() == 1
    assert list(frame.columns) == list(model.rounds_.to_dict())
    diagonal = LearnedMetric(MATERN, metric="diagonal", rounds=2).fit(X, y)
    assert diagonal.metric_.shape == (5,)
    np.testing.assert_allclose(diagonal.metric_, diagonal.importances_)


@pytest.mark.parametrize("metric", ["full", "diagonal"])
@pytest.mark.parametrize("inner", [MATERN, RandomFourier(2.0 * Gaussian("median") + 1, 41, random_state=0)])
def test_kernel_is_that_of_the_features(inner, metric):
    X, y, _ = ridge_function(n=60, d=4)
    model = LearnedMetric(inner, metric=metric, rounds=1, random_state=0).fit(X, y)
    assert isinstance(model.kernel_, Transformed)
    many = clone(inner).set_params(n_components=60 if inner is MATERN else 20_000, kernel=model.kernel_).fit(X)
    if inner is MATERN:  # landmarks at all rows are exact
        np.testing.assert_allclose(many.gram(X), model.kernel_(X), atol=1e-6)
        np.testing.assert_allclose(model.gram(X), model.kernel_(X), atol=1e-6)
    else:  # a thousand times as many pairs of cosines and sines: the standard error of an entry is 2 / sqrt(20,000)
        np.testing.assert_allclose(many.gram(X), model.kernel_(X), atol=6 * 2 / np.sqrt(20_000))
    assert "matrix" not in repr(model.kernel_) or len(repr(model.kernel_)) < 600
    assert pickle.loads(pickle.dumps(model.kernel_)) == model.kernel_


@pytest.mark.parametrize("classes", [None, 3])
def test_units_of_columns_do_not_matter(classes):
    X, y, _ = ridge_function(n=200, d=5)
    X[:, 3] = np.round(X[:, 3])  # with ties
    y = y if classes is None else np.digitize(y, [-0.4, 0.4])
    units = np.array([1e-6, 1e6, 3.7, 1e3, 1e-2])
    shift = np.array([0.0, 5e6, 0.0, 1e3, 0.0])
    one, other = (LearnedMetric(random_state=0, rounds=3).fit(rows, y) for rows in (X, X * units + shift))
    np.testing.assert_allclose(other.metric_, one.metric_, atol=1e-6)
    np.testing.assert_allclose(other.transform(X * units + shift), one.transform(X), atol=1e-5)
    np.testing.assert_allclose(other.gram(X * units + shift), one.gram(X), atol=1e-6)


def test_order_of_rows_does_not_matter_if_all_are_landmarks():
    X, y, _ = ridge_function(n=120, d=4)
    order = np.random.default_rng(1).permutation(len(X))
    one, other = (LearnedMetric(random_state=0, rounds=2).fit(X[i], y[i]) for i in (np.arange(len(X)), order))
    np.testing.assert_allclose(other.metric_, one.metric_, atol=1e-7)
    np.testing.assert_allclose(other.gram(X), one.gram(X), atol=1e-6)


def test_weights_are_repetitions():
    X, y, _ = ridge_function(n=80, d=3)
    weight = np.random.default_rng(0).integers(0, 4, len(X)).astype(float)
    fourier = RandomFourier(Gaussian("median"), 30, random_state=0)
    model = KernelRidge(LearnedMetric(fourier, rounds=2, random_state=0))
    weighted = clone(model).fit(X, y, sample_weight=weight).feature_map_
    repeats = weight.astype(int)
    repeated = clone(model).fit(np.repeat(X, repeats, axis=0), np.repeat(y, repeats)).feature_map_
    np.testing.assert_allclose(weighted.metric_, repeated.metric_, atol=1e-8)
    ignored = clone(model).fit(X, y).feature_map_  # the twin
    assert np.abs(ignored.metric_ - repeated.metric_).max() > 1e-3


def test_units_of_several_targets_do_not_matter():
    X, y, _ = ridge_function(n=100, d=3)
    Y = np.column_stack([y, X[:, 0] ** 2])
    one, other = (LearnedMetric(MATERN, rounds=1).fit(X, Y * units) for units in ([1.0, 1.0], [1e-5, 1e7]))
    np.testing.assert_allclose(one.metric_, other.metric_, atol=1e-10)


def test_unlabeled_rows_do_not_matter_for_the_metric():
    X, y, _ = ridge_function(n=200, d=3)
    known = np.arange(200) % 2 == 0
    some = np.where(known, y, np.nan)
    direct = LearnedMetric(random_state=0, rounds=1).fit(X, some)
    learner = KernelRidge(LearnedMetric(random_state=0, rounds=1), unlabeled=-99.0)
    through = learner.fit(X, np.where(known, y, -99.0)).feature_map_
    np.testing.assert_allclose(direct.metric_, through.metric_, atol=1e-12)
    wrong = KernelRidge(LearnedMetric(random_state=0, rounds=1)).fit(X, np.where(known, y, -99.0)).feature_map_
    assert np.abs(wrong.metric_ - direct.metric_).max() > 1e-3
    labels = np.where(known, np.where(y > 0, "up", "down"), None)
    assert LearnedMetric(MATERN, rounds=1).fit(X, labels).metric_.shape == (3, 3)


def test_what_targets_are():
    X, y, _ = ridge_function(n=90, d=3)
    codes = np.digitize(y, [-0.4, 0.4])
    by_labels = [LearnedMetric(MATERN, rounds=1).fit(X, labels).metric_ for labels in (codes, codes.astype(str))]
    np.testing.assert_array_equal(*by_labels)
    numbers = LearnedMetric(MATERN, rounds=1, targets="numbers").fit(X, codes).metric_
    np.testing.assert_array_equal(numbers, LearnedMetric(MATERN, rounds=1).fit(X, codes.astype(float)).metric_)
    assert np.abs(numbers - by_labels[0]).max() > 1e-4
    classifier = KernelRidgeClassifier(LearnedMetric(MATERN, rounds=1)).fit(X, codes)
    np.testing.assert_allclose(classifier.feature_map_.metric_, by_labels[0], atol=1e-10)


def test_sparse_and_narrow_rows():
    X, y, _ = ridge_function(n=100, d=4)
    X[np.abs(X) < 0.8] = 0.0
    dense = LearnedMetric(random_state=0, rounds=2).fit(X, y)
    sparse = LearnedMetric(random_state=0, rounds=2).fit(sp.csr_array(X), y)
    np.testing.assert_allclose(sparse.metric_, dense.metric_, atol=1e-8)
    np.testing.assert_allclose(sparse.gram(sp.csr_array(X)), dense.gram(X), atol=1e-7)
    narrow = LearnedMetric(random_state=0, rounds=2).fit(X.astype(np.float32), y)
    np.testing.assert_allclose(narrow.metric_, dense.metric_, atol=1e-3)
    assert narrow.transform(X.astype(np.float32)).dtype == np.float32


def test_wide_rows_have_a_diagonal_metric():
    rng = np.random.default_rng(0)
    X = sp.random_array((60, 5000), density=0.01, rng=rng, format="csr")
    y = X[:, [3]].toarray().ravel() + rng.normal(size=60)
    model = LearnedMetric(random_state=0, rounds=1).fit(X, y)
    assert model.metric_.shape == (5000,)
    assert np.isfinite(model.transform(X)).all()
    with pytest.raises(ParameterError, match=r"metric='full' is a matrix.*at most 4096 columns, got 5000.*diagonal"):
        LearnedMetric(metric="full").fit(X, y)


@pytest.mark.parametrize("y", [np.zeros(50), np.full((50, 2), 3.0), np.zeros(50, int), ["a"] * 50])
def test_constant_targets_leave_round_zero(y):
    X = np.random.default_rng(0).normal(size=(50, 3))
    model = LearnedMetric(clone(MATERN).set_params(n_components=20)).fit(X, y)
    assert [one.number for one in model.rounds_] == [0]
    np.testing.assert_allclose(model.importances_, 1 / 3)


def test_heavy_tails_and_duplicates():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_cauchy(200), rng.normal(size=200), rng.random(200) < 0.02])
    X = np.concatenate([X, X[:50]])
    model = LearnedMetric(random_state=0, rounds=2).fit(X, X[:, 1] ** 2)
    assert np.isfinite(model.transform(X)).all()
    assert model.importances_.argmax() == 1


def test_few_rows():
    X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]])
    assert LearnedMetric(random_state=0).fit(X, [0.0, 1.0, 3.0]).transform(X).shape == (3, 3)
    with pytest.raises(DataError, match="needs at least two different rows"):
        LearnedMetric().fit(X[:1], [1.0])
    with pytest.raises(DataError, match="needs at least two different rows"):
        LearnedMetric().fit(np.ones((4, 2)), np.arange(4.0))


def test_spreads_count_weights_as_repetitions():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=40), rng.exponential(size=40), rng.random(40) < 0.06, np.full(40, 0.1)])
    weight = rng.integers(0, 5, 40)
    weighted = column_spreads(X[weight > 0], weight[weight > 0].astype(float))
    repeated = column_spreads(np.repeat(X, weight, axis=0), None)
    np.testing.assert_allclose(weighted, repeated, rtol=1e-12)
    np.testing.assert_allclose(column_spreads(sp.csr_array(X), None)[1], column_spreads(X, None)[1], rtol=1e-12)
    assert column_spreads(X, None)[1][3] == 0


def test_in_memory_from_blocks_from_files_and_with_a_checkpoint(tmp_path):
    X, y, _ = ridge_function(n=120, d=3)
    fourier = RandomFourier(Matern(1.5, "median"), 40, random_state=0)
    model = KernelRidge(LearnedMetric(fourier, random_state=0, rounds=2), alpha="loo")
    expected = clone(model).fit(X, y).predict(X)
    np.save(tmp_path / "rows.npy", np.column_stack([X, y]))
    blocks = [(X[i : i + 50], y[i : i + 50]) for i in range(0, 120, 50)]
    for rows in (blocks, open_rows(tmp_path / "rows.npy", target=-1)):
        np.testing.assert_allclose(clone(model).fit(rows).predict(X), expected, atol=1e-6)
    saved = clone(model).fit(X, y, checkpoint=tmp_path / "fit.checkpoint")
    np.testing.assert_array_equal(saved.predict(X), expected)
    with pytest.raises(DataError, match="can be read only once"):
        clone(model).fit(iter(blocks))


def test_large_data_are_sampled():
    X, y, u = ridge_function(n=3000, d=4)
    model = LearnedMetric(MATERN, rounds=2, max_rows=500, random_state=0).fit(X, y)
    assert overlap(model, u) > 0.99
    complete = LearnedMetric(MATERN, rounds=2, max_rows=None, random_state=0).fit(X, y)
    assert 0 < np.abs(model.metric_ - complete.metric_).max() < 0.1


def test_a_metric_that_is_given_by_a_function():
    X, y, u = ridge_function(d=4)
    seen = []

    def rule(rows, targets, weight, kernel):
        seen.append((rows.shape, targets.shape, weight, kernel))
        np.testing.assert_allclose(targets.std(), 1)
        np.testing.assert_allclose(rows.std(axis=0), 1, atol=0.2)
        direction = u * model.scales_ if hasattr(model, "scales_") else rows.T @ (targets[:, 0] * np.abs(targets[:, 0]))
        return np.outer(direction, direction)

    model = LearnedMetric(MATERN, metric=rule, rounds=5)
    model.fit(X, y)
    assert seen[0][:3] == ((300, 4), (300, 1), None)
    assert isinstance(seen[0][3], Matern)
    assert len(model.rounds_) == 2
    weights = LearnedMetric(MATERN, metric=lambda rows, *_: np.arange(1.0, 5.0)).fit(X, y)
    assert weights.rounds_.kept.number == 0 or weights.metric_.shape == (4,)
    with pytest.raises(
        ParameterError, match=r"callable metric must return a positive.*shape \(4, 4\).*got shape \(3,\)"
    ):
        LearnedMetric(MATERN, metric=lambda *_: np.ones(3)).fit(X, y)
    with pytest.raises(ParameterError, match="positive semi-definite"):
        LearnedMetric(MATERN, metric=lambda *_: -np.eye(4)).fit(X, y)


def test_pipelines_and_parameters():
    X, y, _ = ridge_function(n=80, d=3)
    pipeline = make_pipeline(StandardScaler(), LearnedMetric(MATERN, rounds=1))
    assert pipeline.fit(X, y).transform(X).shape == (80, 60)
    model = clone(LearnedMetric(MATERN)).set_params(rounds=1, feature_map__n_components=10)
    assert model.fit(X, y).transform(X).shape == (80, 10)
    assert model.with_kernel(Gaussian("median")).feature_map.kernel == Gaussian("median")
    assert not hasattr(KernelRidge(LearnedMetric()), "partial_fit")
    process = GaussianProcessRegressor(LearnedMetric(MATERN, rounds=1), random_state=0).fit(X, y)
    mean, deviation = process.predict(X, return_std=True)
    assert np.corrcoef(mean, y)[0, 1] > 0.9
    assert (deviation > 0).all()


def test_progress_covers_the_fit():
    X, y, _ = ridge_function(n=80, d=3)
    seen = []
    KernelRidge(LearnedMetric(MATERN, rounds=2), progress=seen.append).fit(X, y)
    stages = list(dict.fromkeys(one.stage for one in seen))
    assert [stage for stage in stages if stage.startswith("round")] == ["round 0", "round 1", "round 2"]
    fractions = [one.fraction for one in seen if one.fraction is not None]
    assert fractions == sorted(fractions)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (LearnedMetric(Gaussian()), "feature_map must be a mercer map that approximates a given kernel"),
        (LearnedMetric(Deformed()), "feature_map must be a mercer map that approximates a given kernel"),
        (LearnedMetric(RandomMaclaurin(Polynomial(2), 10)), "features have gradients.*got RandomMaclaurin of"),
        (LearnedMetric(Nystroem(Polynomial(2), 20)), "features have gradients.*got Nystroem of"),
        (LearnedMetric(MATERN, metric="round"), "metric must be"),
        (LearnedMetric(MATERN, rounds=-1), "rounds must be an integer >= 0"),
        (LearnedMetric(MATERN, power=0.0), "power must be"),
        (LearnedMetric(MATERN, shrinkage=2.0), "shrinkage must be"),
        (LearnedMetric(MATERN, max_rows=0), "max_rows must be"),
    ],
)
def test_wrong_parameters(model, message):
    X, y, _ = ridge_function(n=40, d=3)
    with pytest.raises(ParameterError, match=message):
        model.fit(X, y)


def test_missing_targets():
    X, y, _ = ridge_function(n=40, d=3)
    with pytest.raises(DataError, match=r"LearnedMetric requires y to be passed.*fit\(X, y\)"):
        LearnedMetric().fit(X)
    for learner in (KernelPCA(LearnedMetric(), 2), KernelKMeans(LearnedMetric(), 2)):
        with pytest.raises(DataError, match=r"learns from targets, but these rows have none.*KernelRidge"):
            learner.fit(X, y)
    with pytest.raises(ParameterError, match="does not learn from targets, got LearnedMetric"):
        Deformed(LearnedMetric()).fit(X)


def test_plot():
    pytest.importorskip("matplotlib").use("agg")
    X, y, _ = ridge_function(n=80, d=30)
    axes = LearnedMetric(MATERN, rounds=1).fit(X, y).plot(most=10)
    assert [label.get_text() for label in axes.get_yticklabels()][-1].startswith("column ")
    assert len(axes.patches) == 10


def test_gradient_products_are_sums():
    rng = np.random.default_rng(0)
    parts = [GradientProducts(2, 3.0, rng.normal(size=(2, 2))) for _ in range(2)]
    total = parts[0] + parts[1]
    assert (total.rows, total.weight) == (4, 6.0)
    np.testing.assert_allclose(total.mean, (parts[0].products + parts[1].products) / 6)
    engine = MemoryEngine(rng.normal(size=(10, 2)), block_rows=3)
    assert isinstance(engine.first(), Block)
