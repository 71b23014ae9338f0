"""Tuning of deformed models: every score against models that were refitted, and one graph for all of them."""

from dataclasses import replace

import dask
import dask.array
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.stats import multivariate_normal
from sklearn.datasets import make_moons
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

import mercer.graphs.neighbor_graph
from mercer import (
    DataError,
    Deformed,
    FeatureGraph,
    Gaussian,
    KernelRidge,
    KernelRidgeClassifier,
    KernelSVC,
    MercerWarning,
    NeighborGraph,
    ParameterError,
    RandomFourier,
    tune_deformation,
)
from mercer.learners.deformation_trials import DeformationTrial, best_of
from mercer.solvers.ridge.label_scores import LabelScorer, folds_of

# Grids are small here; what is said of their ends has tests of its own.
pytestmark = pytest.mark.filterwarnings("ignore:tune_deformation chose")
GRID = {"alphas": (0, 1.0, 100.0), "powers": (1, 2), "penalties": (1e-3, 0.1)}


def problem(n=80, known=24, seed=0):
    """Three clouds in the plane, some of their labels, and a number that varies along them."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, n)
    X = rng.normal(size=(n, 2)) + 1.3 * np.array([[0, 0], [2, 0], [0, 2]])[truth]
    labeled = np.zeros(n, dtype=bool)
    labeled[rng.choice(n, known, replace=False)] = True
    return X, truth, np.sin(X[:, 0]) + 0.1 * rng.normal(size=n), labeled


def deformed(graph=None, **options):
    return Deformed(RandomFourier(Gaussian(1.0), 40, random_state=0), graph or NeighborGraph(5), **options)


def classifier(**options):
    return KernelRidgeClassifier(deformed(**options), unlabeled=-1)


def moons(labels, seed, n=300, noise=0.1):
    X, truth = make_moons(n, noise=noise, random_state=seed)
    rng = np.random.default_rng(seed)
    chosen = np.concatenate([rng.choice(np.flatnonzero(truth == c), labels, replace=False) for c in (0, 1)])
    y = np.full(n, -1)
    y[chosen] = truth[chosen]
    return X, truth, y


def moon_learner():
    below = RandomFourier(Gaussian(0.4), 200, random_state=0)
    return KernelRidgeClassifier(Deformed(below, NeighborGraph(8)), unlabeled=-1)


def held_out(model, X, y, mark, folds):
    """Predictions for labeled rows by models that were fitted on all rows with the labels of a fold hidden."""
    labeled = y != mark if mark == mark else ~np.isnan(y)
    out = np.full(len(y), np.nan)
    for fold in np.unique(folds[labeled]):
        held = labeled & (folds == fold)
        out[held] = model.fit(X, np.where(held, mark, y)).predict(X[held])
    return out[labeled], y[labeled]


# ---- scores, against refitted models ----------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"rank": 15}, {"graph": FeatureGraph(60, 1.0)}], ids=["", "rank", "features"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_cross_validated_accuracy_is_that_of_refitted_models(options, fit_intercept):
    X, truth, _, labeled = problem()
    y, folds = np.where(labeled, truth, -1), np.random.default_rng(1).integers(0, 4, len(X))
    learner = classifier(**options).set_params(fit_intercept=fit_intercept)
    tuned = tune_deformation(learner, X, y, by="cv", cv=folds, **GRID)
    assert len(tuned.trials) == 2 + 2 * 2 * 2  # zero is tried with one power
    for t in tuned.trials:
        model = classifier(alpha=t.alpha, power=t.power, **options)
        model.set_params(alpha=t.penalty, fit_intercept=fit_intercept)
        predicted, expected = held_out(model, X, y, -1, folds)
        assert t.score == pytest.approx(np.mean(predicted == expected), abs=1e-12)
        assert t.standard_error == pytest.approx(np.std(predicted == expected, ddof=1) / np.sqrt(len(expected)))
    assert len({t.score for t in tuned.trials}) > 1


@pytest.mark.parametrize("known", [24, 70], ids=["fewer-rows-than-columns", "more"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_cross_validated_r2_is_that_of_refitted_models(known, fit_intercept):
    X, _, values, labeled = problem(known=known)
    y, folds = np.where(labeled, values, np.nan), np.random.default_rng(1).integers(0, 4, len(X))
    learner = KernelRidge(deformed(), unlabeled=np.nan, fit_intercept=fit_intercept)
    for t in tune_deformation(learner, X, y, by="cv", cv=folds, **GRID).trials:
        model = KernelRidge(deformed(alpha=t.alpha, power=t.power), alpha=t.penalty, unlabeled=np.nan)
        predicted, expected = held_out(model.set_params(fit_intercept=fit_intercept), X, y, np.nan, folds)
        r2 = 1 - np.square(predicted - expected) / expected.var()
        assert t.score == pytest.approx(r2.mean(), abs=1e-8)
        assert t.standard_error == pytest.approx(r2.std(ddof=1) / np.sqrt(known), abs=1e-8)


def test_leave_one_out_is_that_of_refitted_models():
    X, _, values, labeled = problem(known=12)
    y = np.column_stack([np.where(labeled, v, np.nan) for v in (values, X[:, 1])])
    learner = KernelRidge(deformed(), unlabeled=np.nan)
    for t in tune_deformation(learner, X, y, by="loo", alphas=(0, 10.0), powers=2, penalties=(0.01,)).trials:
        errors = []
        for i in np.flatnonzero(labeled):
            hidden = y.copy()
            hidden[i] = np.nan
            model = KernelRidge(deformed(alpha=t.alpha, power=t.power), alpha=t.penalty, unlabeled=np.nan)
            errors.append(np.square(model.fit(X, hidden).predict(X[[i]]) - y[i]).sum())
        assert t.score == pytest.approx(-np.mean(errors), rel=1e-8)


def test_evidence_is_a_gaussian_density():
    X, truth, _, labeled = problem(known=12)
    y = np.where(labeled, truth, -1)
    learner = classifier().set_params(fit_intercept=False)
    for t in tune_deformation(learner, X, y, by="evidence", **GRID).trials:
        K = deformed(alpha=t.alpha, power=t.power).fit(X).gram(X[labeled])
        covariance = np.eye(12) + K / t.penalty
        expected = 0.0
        for label in range(3):
            signs = np.where(truth[labeled] == label, 1.0, -1.0)
            noise = signs @ np.linalg.solve(covariance, signs) / 12
            expected += multivariate_normal(np.zeros(12), noise * covariance).logpdf(signs)
        assert t.score == pytest.approx(expected / 12, rel=1e-8)
        assert np.isnan(t.standard_error)


def test_evidence_of_two_labels_counts_them_once():
    X, truth, y = moons(3, 0, n=60)
    some = {"alphas": (1.0,), "powers": (1,), "penalties": (0.1,)}
    (trial,) = tune_deformation(classifier(), X, y, by="evidence", **some).trials
    numbers = np.where(y < 0, np.nan, 2.0 * truth - 1)
    (same,) = tune_deformation(KernelRidge(deformed(), unlabeled=np.nan), X, numbers, by="evidence", **some).trials
    assert trial.score == pytest.approx(same.score)


# ---- the model --------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"rank": 15}, {"graph": FeatureGraph(60, 1.0)}], ids=["", "rank", "features"])
@pytest.mark.parametrize("by", ["cv", "loo", "evidence"])
def test_the_model_is_that_of_a_fit_with_the_best_parameters(options, by):
    X, truth, _, labeled = problem()
    y = np.where(labeled, truth, -1)
    learner = classifier(**options)
    tuned = tune_deformation(learner, X, y, by=by, alphas=(1.0, 10.0, 100.0), powers=(1, 2))
    best = tuned.best
    assert best.score == max(t.score for t in tuned.trials)
    assert (tuned.model.alpha, tuned.model.feature_map.alpha) == (best.penalty, best.alpha)
    assert tuned.model.feature_map_.power == tuned.model.feature_map.power == best.power
    expected = classifier(alpha=best.alpha, power=best.power, **options).set_params(alpha=best.penalty).fit(X, y)
    assert np.allclose(tuned.model.decision_function(X), expected.decision_function(X), rtol=1e-7, atol=1e-8)
    assert np.allclose(tuned.model.predict_proba(X), expected.predict_proba(X), atol=1e-7)
    exact = tuned.model.feature_map_.kernel_(X[:5])
    assert np.allclose(exact, expected.feature_map_.kernel_(X[:5]))
    assert not hasattr(learner, "feature_map_")
    assert learner.alpha == 1.0


@pytest.mark.parametrize("form", ["blocks", "dask", "sparse", "pandas", "float32", "one_block"])
def test_rows_come_in_all_forms(form):
    X, truth, _, labeled = problem()
    y = np.where(labeled, truth, -1)
    expected = tune_deformation(classifier(), X, y, **GRID)
    data = {
        "blocks": lambda: ([(X[i : i + 13], y[i : i + 13]) for i in range(0, 80, 13)],),
        "one_block": lambda: ([(X, y)],),
        "dask": lambda: (dask.array.from_array(X, (30, 2)), dask.array.from_array(y, 30)),
        "sparse": lambda: (sp.csr_array(X), y),
        "pandas": lambda: (pd.DataFrame(X, columns=["a", "b"]), pd.Series(y)),
        "float32": lambda: (X.astype(np.float32), y),
    }[form]()
    with dask.config.set(scheduler="synchronous"):
        tuned = tune_deformation(classifier(), *data, **GRID)
    assert tuned.n_labeled == 24
    assert [t.score for t in tuned.trials] == pytest.approx([t.score for t in expected.trials], rel=1e-4)
    rows = data[0] if form in ("pandas", "sparse", "float32") else X
    assert np.allclose(tuned.model.decision_function(rows), expected.model.decision_function(X), atol=1e-3)
    if form == "pandas":
        assert tuned.model.feature_map_.feature_names_in_.tolist() == ["a", "b"]


def test_one_graph_and_one_roughness_a_power_serve_all(monkeypatch):
    counts = {"graph": 0, "roughness": 0}
    search, measure = NeighborGraph.laplacian, mercer.graphs.neighbor_graph.sum_roughness

    def counted_search(self, *args, **kwargs):
        counts["graph"] += 1
        return search(self, *args, **kwargs)

    def counted_measure(*args, **kwargs):
        counts["roughness"] += 1
        return measure(*args, **kwargs)

    monkeypatch.setattr(NeighborGraph, "laplacian", counted_search)
    monkeypatch.setattr(mercer.graphs.neighbor_graph, "sum_roughness", counted_measure)
    X, truth, _, labeled = problem()
    tune_deformation(classifier(), X, np.where(labeled, truth, -1), powers=(1, 2, 3))
    assert counts == {"graph": 1, "roughness": 3}


# ---- few labels -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_folds_are_stratified_and_of_equal_size(seed):
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat(np.arange(10), 5))
    folds = folds_of(5, np.arange(50), codes, seed)
    assert all(sorted(codes[folds == fold]) == list(range(10)) for fold in range(5))
    few = rng.permutation([0, 0, 0, 0, 1, 1, 2])
    folds = folds_of(3, np.arange(7), few, seed)
    assert np.ptp(np.bincount(folds)) <= 1
    assert len(set(folds[few == 1])) == 2
    assert set(folds[few == 0]) == {0, 1, 2}
    assert sorted(folds_of(5, np.arange(3), np.array([0, 0, 1]), seed)) == [0, 1, 2]
    assert not np.array_equal(folds_of(5, np.arange(50), codes, seed), folds_of(5, np.arange(50), codes, seed + 1))


def test_a_label_that_the_other_folds_lack_is_not_predicted():
    codes, folds = np.array([0, 0, 1, 1, 2]), np.array([0, 1, 0, 1, 0])
    scorer = LabelScorer(np.eye(3)[codes], codes, folds, "cv", np.ones(5))
    # All but the last label are predicted with less than what a label that was never seen gets: -1.
    predicted = np.array([[-1.5, -2.0, -1.0]] * 2 + [[-2.0, -1.5, -1.0]] * 3)
    best = scorer._with_known_labels(predicted).argmax(axis=1)
    assert best.tolist() == [0, 2, 1, 2, 1]  # fold 0 has the only row of label 2
    X = np.array([[0.0], [0.1], [5.0], [5.1], [20.0]])
    learner = KernelRidgeClassifier(
        Deformed(RandomFourier(Gaussian(1.0), 60, random_state=0), NeighborGraph(1, weight="binary"))
    )
    tuned = tune_deformation(learner, X, codes, alphas=(0,), powers=1, penalties=(1e-3, 10.0, 1e6), by="cv", cv=folds)
    assert [t.score for t in tuned.trials] == [0.8, 0.8, 0.8]


def test_of_equal_scores_the_least_squared_error_is_taken():
    X, _, y = moons(5, 1)
    tuned = tune_deformation(classifier(), X, y, by="cv")
    equal = [t for t in tuned.trials if t.score == tuned.best.score]
    assert len(equal) > 1
    assert tuned.best.squared_error == min(t.squared_error for t in equal)
    assert tuned.best.degrees < max(t.degrees for t in equal)


def test_of_equal_errors_the_smoothest_is_taken():
    trial = DeformationTrial(1.0, 1.0, 0.1, 0.9, 0.01, 0.5, 7.0)
    equal = [
        trial,
        replace(trial, degrees=3.0),
        replace(trial, degrees=5.0),
        replace(trial, squared_error=0.6, degrees=1),
    ]
    assert best_of([*equal, replace(trial, score=0.89, squared_error=0.1, degrees=1)]) is equal[1]
    assert best_of([replace(trial, squared_error=np.nan, degrees=d) for d in (3.0, 2.0, 4.0)]).degrees == 2.0
    assert best_of([]) is None


def test_one_label_a_class_is_enough_for_the_evidence_of_many_classes():
    X, truth, _, _ = problem()
    y = np.full(80, -1)
    for label in range(3):
        y[np.flatnonzero(truth == label)[0]] = label
    for by in ("cv", "loo"):
        with pytest.raises(DataError, match=r"two labels or more.*by='evidence'"):
            tune_deformation(classifier(), X, y, by=by)
    assert tune_deformation(classifier(), X, y, by="evidence").n_labeled == 3
    X, _, y = moons(1, 0)
    with pytest.raises(DataError, match=r"2 labeled rows and an intercept.*by hand"):
        tune_deformation(classifier(), X, y, by="evidence")


@pytest.mark.parametrize("by", ["cv", "loo", "evidence"])
def test_every_row_may_have_a_label(by):
    X, truth, values, _ = problem()
    tuned = tune_deformation(classifier().set_params(unlabeled=None), X, truth, by=by, **GRID)
    assert tuned.n_labeled == 80
    assert tuned.model.score(X, truth) > 0.7
    tuned = tune_deformation(KernelRidge(deformed()), X, values, by=by, **GRID)
    assert tuned.model.score(X, values) > 0.8


def test_two_moons_beside_label_spreading_and_self_training():
    logistic = make_pipeline(RBFSampler(gamma=5.0, random_state=0), LogisticRegression(C=100))
    scores = {"deformed": [], "spreading": [], "self-training": [], "plain": []}
    for seed in range(3):
        X, truth, y = moons(5, seed, noise=0.08)
        feature_map = Deformed(RandomFourier(Gaussian(0.3), 200, random_state=0), NeighborGraph(8))
        tuned = tune_deformation(KernelRidgeClassifier(feature_map, unlabeled=-1), X, y)
        unknown = y < 0
        peers = {
            "deformed": tuned.model,
            "plain": KernelRidgeClassifier(feature_map.feature_map, alpha="loo", unlabeled=-1).fit(X, y),
            "spreading": LabelSpreading(gamma=30.0).fit(X, y),
            "self-training": SelfTrainingClassifier(logistic).fit(X, y),
        }
        for name, model in peers.items():
            scores[name].append(model.score(X[unknown], truth[unknown]))
    mean = {name: np.mean(values) for name, values in scores.items()}
    assert mean["deformed"] >= max(mean.values())
    assert mean["deformed"] > mean["plain"] + 0.03
    assert mean["deformed"] > 0.99


# ---- what it says -----------------------------------------------------------------------------


def test_the_result_reads_well():
    X, _, y = moons(5, 0)
    tuned = tune_deformation(classifier(), X, y, by="cv", alphas=(0, 1, 100), powers=(1, 2))
    lines = repr(tuned).splitlines()
    assert lines[0] == "cross-validation on 10 labeled of 300 rows, the best penalty of each:"
    assert lines[1].split() == ["alpha", "power", "1", "power", "2"]
    assert [line.split()[0] for line in lines[2:5]] == ["0", "1", "100"]
    assert sum(line.count("*") for line in lines) == 1
    assert lines[5].startswith(f"best: alpha={tuned.best.alpha:g}, power={tuned.best.power:g}, penalty=")
    assert tuned.plain.alpha == 0
    assert tune_deformation(classifier(), X, y, alphas=(1,), powers=1).plain is None
    values = tuned.to_dict()
    assert values["best"]["score"] == tuned.best.score
    assert len(values["trials"]) == len(tuned.trials)
    assert "±" not in repr(tune_deformation(classifier(), X, y, by="evidence", alphas=(1,), powers=1))


@pytest.mark.parametrize(
    ("learner", "options", "error", "message"),
    [
        (KernelSVC(deformed()), {}, ParameterError, "KernelRidge or a KernelRidgeClassifier.*got KernelSVC"),
        (KernelRidgeClassifier(), {}, ParameterError, "must be a Deformed map, got None"),
        (classifier(), {"alphas": ()}, ParameterError, r"alphas must be finite numbers >= 0, got \[\]"),
        (classifier(), {"alphas": (-1,)}, ParameterError, "alphas must be finite numbers >= 0"),
        (classifier(), {"alphas": (np.inf,)}, ParameterError, "alphas must be finite numbers"),
        (classifier(), {"powers": ("2",)}, ParameterError, "powers must be finite numbers"),
        (classifier(), {"powers": (2, 1e9)}, ParameterError, "powers must be at most 100, got 1000000000.0"),
        (classifier(), {"penalties": (0.0, 1.0)}, ParameterError, "penalties must be finite numbers > 0"),
        (classifier(), {"by": "gcv"}, ParameterError, "by must be 'loo', 'cv' or 'evidence', got 'gcv'"),
        (classifier(), {"by": "cv", "cv": 1}, ParameterError, "cv must be an integer >= 2"),
        (classifier(), {"by": "cv", "cv": True}, ParameterError, "cv must be an integer >= 2"),
        (classifier(), {"by": "cv", "cv": np.zeros(80, int)}, ParameterError, "all labeled rows into one fold"),
        (classifier(), {"by": "cv", "cv": np.zeros(3, int)}, ParameterError, "number of the fold of each row"),
        (classifier(), {"by": "cv", "cv": np.arange(90) % 4}, ParameterError, "each of the 80 rows.*got 90"),
        (classifier(), {"by": "cv", "cv": np.linspace(0, 1, 80)}, ParameterError, "number of the fold of each row"),
        (classifier().set_params(unlabeled=0), {}, DataError, "one class only"),
    ],
)
def test_mistakes_are_explained(learner, options, error, message):
    X, truth, _, labeled = problem()
    y = np.where(labeled, truth, -1)
    if learner.unlabeled == 0:
        y = np.where(labeled, 1, 0)
    with pytest.raises(error, match=message):
        tune_deformation(learner, X, y, **options)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.full(80, -1), "every target is unlabeled=-1"),
        (np.r_[1, np.full(79, -1)], "at least two labeled rows, got 1"),
        (np.r_[1, 1, np.full(78, -1)], "one class only: 1"),
    ],
)
def test_too_few_labels_are_an_error(y, message):
    with pytest.raises(DataError, match=message):
        tune_deformation(classifier(), problem()[0], y)


def test_blocks_that_can_be_read_once_are_refused():
    X, truth, _, labeled = problem()
    y = np.where(labeled, truth, -1)
    with pytest.raises(DataError, match="read"):
        tune_deformation(classifier(), iter([(X[:40], y[:40]), (X[40:], y[40:])]))


@pytest.mark.parametrize("by", ["loo", "cv", "evidence"])
@pytest.mark.parametrize("form", ["arrays", "blocks"])
def test_weights_are_copies_of_rows(by, form):
    X, truth, _, labeled = problem()
    y, weight = np.where(labeled, truth, -1), np.random.default_rng(1).integers(0, 4, 80).astype(float)
    copies, folds = np.repeat(np.arange(80), weight.astype(int)), np.arange(80) % 4
    rows = (X, y, weight) if form == "arrays" else ([(X[:30], y[:30], weight[:30]), (X[30:], y[30:], weight[30:])],)
    options = {**GRID, "by": by}
    tuned = tune_deformation(classifier(), *rows, cv=folds, **options)
    expected = tune_deformation(classifier(), X[copies], y[copies], cv=folds[copies], **options)
    assert tuned.n_labeled == (labeled & (weight > 0)).sum()
    for found, wanted in zip(tuned.trials, expected.trials, strict=True):
        assert found.score == pytest.approx(wanted.score, rel=1e-7)
        assert found.degrees == pytest.approx(wanted.degrees)
    assert (tuned.best.alpha, tuned.best.power) == (expected.best.alpha, expected.best.power)
    np.testing.assert_allclose(tuned.model.decision_function(X), expected.model.decision_function(X), atol=1e-7)
    with pytest.raises(DataError, match=r"needs more than one of all labeled rows, got 0\.\d+\. Scale the weights"):
        tune_deformation(classifier(), X, y, weight / 1000, by="evidence")
    plain = tune_deformation(classifier(), X, y, cv=folds, **options)
    assert plain.best.score != pytest.approx(tuned.best.score, rel=1e-4)


# ---- what is said on the way ------------------------------------------------------------------


def test_tuning_says_that_the_grid_is_too_small():
    X, _, y = moons(5, 0)
    with pytest.warns(MercerWarning, match="tune_deformation chose the largest alpha, 1, .* Try a wider range"):
        tune_deformation(moon_learner(), X, y, alphas=(0.01, 0.1, 1.0), powers=2)


def test_every_power_is_reported():
    X, truth, _, labeled = problem()
    seen = []
    learner = classifier().set_params(progress=seen.append)
    tune_deformation(learner, X, np.where(labeled, truth, -1), **GRID)
    powers = [one for one in seen if one.note]
    assert [(one.rows, one.total, one.note) for one in powers] == [
        (80, 160, "tuning, power 1"),
        (160, 160, "tuning, power 2"),
    ]
    assert seen[-1].rows == 80  # the fit itself


def test_two_labels_a_class_are_enough_to_choose_by():
    gains = []
    for seed in range(6):
        X, truth, y = moons(2, seed)
        tuned = tune_deformation(moon_learner(), X, y)
        plain = KernelRidgeClassifier(tuned.model.feature_map_.feature_map_, alpha=tuned.plain.penalty, unlabeled=-1)
        gains.append(tuned.model.score(X, truth) - plain.fit(X, y).score(X, truth))
    assert np.mean(gains) > 0.05


def test_targets_that_are_missing_and_rows_of_one_class_are_explained():
    X, _, values, labeled = problem()
    with pytest.raises(DataError, match=r"y contains NaN or None.* unlabeled=np\.nan"):
        tune_deformation(KernelRidge(deformed()), X, np.where(labeled, values, np.nan))
    with pytest.raises(DataError, match="at least two classes, got one class only: 1"):
        tune_deformation(classifier(), X, np.where(labeled, 1, -1))
    with pytest.raises(DataError, match="every target is unlabeled=-1"):
        tune_deformation(classifier(), X, np.full(80, -1))
