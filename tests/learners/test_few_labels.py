"""Classification with few labels on a graph."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits, make_moons

from mercer import (
    DataError,
    FewLabelClassifier,
    Gaussian,
    KernelRidgeClassifier,
    LearnedMetric,
    NeighborGraph,
    Nystroem,
    ParameterError,
    load_model,
    save_model,
)
from mercer.learners.few_labels import has_units


def digits(rate, seed=0, n=500):
    X, truth = load_digits(return_X_y=True)
    some = np.random.default_rng(99).permutation(len(X))[:n]  # the rows are sorted by their writers
    X, truth = X[some], truth[some]
    rng = np.random.default_rng(seed)
    y = np.full(n, -1)
    for label in range(10):
        y[rng.choice(np.flatnonzero(truth == label), rate, replace=False)] = label
    return X, truth, y


def test_few_labels_and_rows_outside_the_graph():
    X, truth, y = digits(4)
    model = FewLabelClassifier(NeighborGraph(6), 60, random_state=0).fit(X[:400], y[:400])
    unlabeled = y[:400] < 0
    inside = np.mean(model.transduction_[unlabeled] == truth[:400][unlabeled])
    outside = model.score(X[400:], truth[400:])
    assert inside > 0.85
    assert outside > inside - 0.1  # three standard errors of 100 rows
    assert (model.transduction_[~unlabeled] == y[:400][~unlabeled]).all()
    few = KernelRidgeClassifier(Nystroem(Gaussian("median"), 30, random_state=0)).fit(
        X[:400][~unlabeled], y[:400][~unlabeled]
    )
    assert few.score(X[400:], truth[400:]) < outside - 0.05  # the same labels without the graph


def test_one_label_per_class_uses_the_default_settings_and_class_sizes_help():
    X, truth, y = digits(1, n=1500)
    model = FewLabelClassifier(NeighborGraph(6), 60, random_state=0).fit(X, y)
    assert (model.strength_, model.power_, model.alpha_) == (10.0, 2.0, 0.1)
    assert np.isnan(model.left_out_loss_)
    assert model.n_steps_ == 0
    plain = np.mean(model.transduction_ == truth)
    sized = FewLabelClassifier(NeighborGraph(6), 60, class_prior="uniform", random_state=0).fit(X, y)
    assert sized.n_steps_ > 0
    assert np.mean(sized.transduction_ == truth) >= plain - 0.01
    counts = np.bincount(sized.transduction_)
    assert counts.max() < 1.5 * counts.min()


def test_sizes_of_classes_are_met_without_steps():
    X, _, y = digits(3)
    prior = np.linspace(1.0, 2.0, 10)
    model = FewLabelClassifier(NeighborGraph(6), 60, class_prior=prior, steps=0, random_state=0).fit(X, y)
    assert model.class_prior_ == pytest.approx(prior / prior.sum())
    found = np.bincount(model.predict(X), minlength=10) / len(X)
    assert found == pytest.approx(model.class_prior_, abs=0.02)


def test_probabilities_sum_to_one_and_agree_with_predictions():
    X, truth, y = digits(4)
    for prior in (None, "labels"):
        model = FewLabelClassifier(NeighborGraph(6), 60, class_prior=prior, random_state=0).fit(X, y)
        found = model.predict_proba(X)
        assert found.sum(axis=1) == pytest.approx(1.0)
        assert np.array_equal(model.classes_[found.argmax(axis=1)], model.predict(X))
    confident = found.max(axis=1) > np.median(found.max(axis=1))
    right = model.predict(X) == truth
    assert right[confident].mean() > right[~confident].mean()


def test_other_labels_of_the_same_rows_are_a_refit():
    X, _, y = digits(2)
    _, _, other = digits(3, seed=5)
    for feature_map in (None, Nystroem(Gaussian("median"), 40, random_state=0)):
        options = {"feature_map": feature_map, "balance": 0.9, "random_state": 0}
        model = FewLabelClassifier(NeighborGraph(6), 40, **options).fit(X, y)
        again = FewLabelClassifier(NeighborGraph(6), 40, **options).fit(X, other)
        assert model.relabel(other).decision_function(X) == pytest.approx(again.decision_function(X), abs=1e-6)
        assert np.array_equal(model.transduction_, again.transduction_)
    with pytest.raises(DataError, match="one label for each of the 500 rows"):
        model.relabel(other[:5])
    with pytest.raises(DataError, match="relabel needs the graph"):
        pickle.loads(pickle.dumps(model)).relabel(other)


def test_suggested_rows_are_unlabeled_and_better_than_random_ones():
    X, truth, y = digits(1)
    graph = NeighborGraph(6)
    model = FewLabelClassifier(graph, 60, random_state=0).fit(X, y)
    rows = model.suggest_labels(20)
    assert len(set(rows.tolist())) == 20
    assert (y[rows] == -1).all()
    asked = y.copy()
    asked[rows] = truth[rows]
    suggested = np.mean(model.relabel(asked).transduction_ == truth)
    scores = []
    for seed in range(4):
        drawn = y.copy()
        some = np.random.default_rng(seed).choice(np.flatnonzero(y < 0), 20, replace=False)
        drawn[some] = truth[some]
        scores.append(np.mean(model.relabel(drawn).transduction_ == truth))
    assert suggested > np.mean(scores)
    assert len(model.suggest_labels(3, criterion="largest")) == 3
    with pytest.raises(DataError, match="all rows of the fit have a label"):
        model.relabel(truth).suggest_labels()


def test_equal_rows_share_a_label():
    X, truth = make_moons(120, noise=0.05, random_state=0)
    X, truth = np.concatenate([X, X]), np.concatenate([truth, truth])
    y = np.full(240, -1)
    y[[np.flatnonzero(truth == c)[0] for c in (0, 1)]] = [0, 1]
    model = FewLabelClassifier(NeighborGraph(5), 10, random_state=0).fit(X, y)
    assert np.array_equal(model.transduction_[:120], model.transduction_[120:])
    assert np.mean(model.transduction_ == truth) > 0.95
    assert (y[model.suggest_labels(5)] == -1).all()


def test_equal_rows_may_have_different_labels_and_a_weight_is_a_repetition():
    X, truth = make_moons(80, noise=0.1, random_state=0)
    y = np.where(np.arange(80) % 4 == 0, truth, -1)
    repeats = np.where(y < 0, 1, 1 + np.arange(80) % 3)
    for feature_map in (None, Nystroem(Gaussian(0.3), 10, random_state=0)):
        model = FewLabelClassifier(NeighborGraph(5), 15, feature_map=feature_map, random_state=0)
        repeated = model.fit(np.repeat(X, repeats, axis=0), np.repeat(y, repeats)).predict_proba(X)
        assert model.n_labeled_ == repeats[y >= 0].sum()
        assert model.fit(X, y, sample_weight=repeats).predict_proba(X) == pytest.approx(repeated, abs=1e-9)
        assert model.n_labeled_ == 20
        unweighted = model.fit(X, y).predict_proba(X)
        assert np.abs(unweighted - repeated).max() > 1e-3  # the weights matter here
    twice, both = np.concatenate([X, X[:1]]), np.append(y, 1 - y[0])
    found = FewLabelClassifier(NeighborGraph(5), 15, random_state=0).fit(twice, both)
    assert found.transduction_[[0, -1]].tolist() == [y[0], 1 - y[0]]
    rows = np.concatenate([X] * 3)
    names = np.concatenate([y, y, y])
    blocks = [(rows[i : i + 50], names[i : i + 50]) for i in range(0, 240, 50)]
    model = FewLabelClassifier(NeighborGraph(5, max_rows=60), 15, random_state=0).fit(blocks)  # a sample: no nodes
    assert model.n_labeled_ == 60
    assert model.score(X, truth) > 0.8


def test_parts_of_a_graph_that_falls_apart_get_their_labels():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(60, 2)) + np.array([50.0 * i, 0.0]) for i in range(4)])
    truth = np.repeat([0, 1, 0, 1], 60)
    y = np.full(240, -1)
    y[::60] = truth[::60]
    model = FewLabelClassifier(NeighborGraph(5), 20, scale_columns=False, random_state=0).fit(X, y)
    assert model._basis().graph_.n_connected_components == 4
    assert np.array_equal(model.transduction_, truth)
    assert model.predict(X + 0.1).tolist() == truth.tolist()


def test_columns_in_other_units_are_scaled():
    X, truth = make_moons(300, noise=0.05, random_state=0)
    y = np.where(np.arange(300) % 30 == 0, truth, -1)
    X = X * [1e4, 1e-2]
    model = FewLabelClassifier(random_state=0, n_components=20).fit(X, y)
    assert np.mean(model.transduction_ == truth) > 0.97
    assert has_units(X)
    assert not has_units(np.random.default_rng(0).normal(size=(50, 4)))
    assert not has_units(np.ones((5, 3)))
    frame = pd.DataFrame(X, columns=["a", "b"])
    named = FewLabelClassifier(random_state=0, n_components=20).fit(frame, y)
    assert named.feature_names_in_.tolist() == ["a", "b"]
    assert np.array_equal(named.predict(frame), model.predict(X))


def test_strings_and_another_unlabeled_value():
    X, truth = make_moons(200, noise=0.05, random_state=0)
    names = np.array(["down", "up"])[truth]
    y = np.where(np.arange(200) % 20 == 0, names, "unknown")
    model = FewLabelClassifier(n_components=20, unlabeled="unknown", random_state=0).fit(X, y)
    assert model.classes_.tolist() == ["down", "up"]
    assert np.array_equal(model.decision_function(X) > 0, model.predict(X) == "up")
    assert model.score(X, names) > 0.95


def test_model_files_hold_the_model(tmp_path):
    X, _, y = digits(2)
    for prior in (None, "uniform"):
        model = FewLabelClassifier(NeighborGraph(6), 40, class_prior=prior, random_state=0).fit(X, y)
        loaded = load_model(save_model(model, tmp_path / "model.mercer"))
        assert np.array_equal(loaded.predict_proba(X[:50] + 0.5), model.predict_proba(X[:50] + 0.5))
        assert np.array_equal(loaded.suggest_labels(3), model.suggest_labels(3))


def test_joined_map_helps_where_labels_change_within_clusters():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 2))
    truth = (np.sin(3 * X[:, 0]) > 0).astype(int)
    y = np.where(np.arange(800) < 200, truth, -1)
    graph = FewLabelClassifier(NeighborGraph(10), 15, random_state=0).fit(X, y)
    both = FewLabelClassifier(
        NeighborGraph(10), 15, feature_map=Nystroem(Gaussian(0.5), 100, random_state=0), power=1.5, random_state=0
    ).fit(X, y)
    assert both.balance_ < 1.0
    assert np.mean(both.transduction_ == truth) > max(0.9, np.mean(graph.transduction_ == truth) + 0.02)


def test_errors_name_what_is_needed():
    X, _, y = digits(1)
    with pytest.raises(ParameterError, match="class_prior must be 10 numbers > 0"):
        FewLabelClassifier(class_prior=[0.5, 0.5]).fit(X, y)
    for wrong in ("equal", {0: 0.5}, ["a"] * 10, np.full(11, 0.1)):
        with pytest.raises(ParameterError, match="class_prior must be"):
            FewLabelClassifier(NeighborGraph(6), 10, class_prior=wrong).fit(X, y)
    with pytest.raises(ParameterError, match="feature_map must be a mercer map"):
        FewLabelClassifier(feature_map=Gaussian()).fit(X, y)
    with pytest.raises(ParameterError, match="neither learns from targets nor scales columns"):
        FewLabelClassifier(feature_map=LearnedMetric()).fit(X, y)
    with pytest.raises(DataError, match="at least two classes"):
        FewLabelClassifier().fit(X, np.where(y == 3, 3, -1))
    with pytest.raises(DataError, match="can be read only once"):
        FewLabelClassifier().fit(iter([(X, y)]))
    sampled = FewLabelClassifier(NeighborGraph(6, max_rows=300), 20, class_prior="uniform", random_state=0).fit(X, y)
    assert sampled.transduction_ is None
    with pytest.raises(DataError, match="suggest_labels needs a graph of all rows"):
        sampled.suggest_labels()


def test_another_map_is_joined_on_scaled_columns():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(60, 2)), rng.normal(size=(60, 2)) + 6]) * [1.0, 1e4]
    y = np.repeat([0, 1], 60)
    some = np.where(np.arange(120) % 12 == 0, y, -1)
    model = FewLabelClassifier(NeighborGraph(6), 6, feature_map=Nystroem(Gaussian("median"), 12), scale_columns=True)
    assert (model.fit(X, some).predict(X) == y).mean() > 0.95


def test_the_order_of_the_rows_does_not_change_what_is_selected():
    # Labels are random, so that left-out losses depend on the folds more than on the settings.
    rng = np.random.default_rng(42)
    X, y = rng.uniform(size=(40, 8)), rng.integers(0, 3, 40)
    model = FewLabelClassifier(random_state=0).fit(X, y)
    for _ in range(3):
        order = rng.permutation(40)
        other = FewLabelClassifier(random_state=0).fit(X[order], y[order])
        assert other.selected_.setting == model.selected_.setting
        assert other.left_out_loss_ == pytest.approx(model.left_out_loss_, rel=1e-6)
        assert other.predict_proba(X) == pytest.approx(model.predict_proba(X), abs=1e-5)
