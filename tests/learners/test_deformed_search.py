"""DeformedSearchCV: every score against refitted models, and one graph for all candidates."""

from types import SimpleNamespace

import dask
import dask.array
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.exceptions import NotFittedError
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

import mercer.graphs.laplacian_graph
from mercer import (
    DataError,
    Deformed,
    DeformedSearchCV,
    FeatureGraph,
    Gaussian,
    KernelRidge,
    KernelRidgeClassifier,
    KernelSVC,
    MercerWarning,
    NeighborGraph,
    ParameterError,
    RandomFourier,
)

# The grids are small here, and warnings about their ends are tested separately.
pytestmark = [pytest.mark.filterwarnings("ignore:DeformedSearchCV chose"), pytest.mark.covering(1)]
GRID = {"strengths": (0, 1.0, 100.0), "powers": (1, 2), "penalties": (1e-3, 0.1)}


def problem(n=80, known=24, seed=0):
    """Return three clusters in the plane, their labels, a smooth numeric target, and a mask of labeled rows."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, n)
    X = rng.normal(size=(n, 2)) + 1.3 * np.array([[0, 0], [2, 0], [0, 2]])[truth]
    labeled = np.zeros(n, dtype=bool)
    labeled[rng.choice(n, known, replace=False)] = True
    return X, truth, np.sin(X[:, 0]) + 0.1 * rng.normal(size=n), labeled


def deformed(graph=None, **options):
    return Deformed(RandomFourier(Gaussian(1.0), 40, random_state=0), graph or NeighborGraph(5), **options)


def classifier(**options):
    return KernelRidgeClassifier(deformed(**options), alpha=1.0, unlabeled=-1)


def moons(labels, seed, n=300, noise=0.1):
    X, truth = make_moons(n, noise=noise, random_state=seed)
    rng = np.random.default_rng(seed)
    chosen = np.concatenate([rng.choice(np.flatnonzero(truth == c), labels, replace=False) for c in (0, 1)])
    y = np.full(n, -1)
    y[chosen] = truth[chosen]
    return X, truth, y


def moon_learner():
    inner = RandomFourier(Gaussian(0.4), 200, random_state=0)
    return KernelRidgeClassifier(Deformed(inner, NeighborGraph(8)), unlabeled=-1)


def searched(estimator, *data, **options):
    return DeformedSearchCV(estimator, **options).fit(*data)


def candidates(search):
    """Return the candidates of a search as objects."""
    names = {
        "strength": "param_feature_map__strength",
        "power": "param_feature_map__power",
        "penalty": "param_alpha",
        "score": "mean_test_score",
        "standard_error": "standard_error",
        "squared_error": "squared_error",
        "degrees": "degrees_of_freedom",
    }
    columns = [search.cv_results_[key] for key in names.values()]
    return [SimpleNamespace(**dict(zip(names, values, strict=True))) for values in zip(*columns, strict=True)]


def held_out(model, X, y, unlabeled, folds):
    """Return predictions for labeled rows by models that are fitted with the labels of a fold hidden, and targets."""
    labeled = y != unlabeled if unlabeled == unlabeled else ~np.isnan(y)
    out = np.full(len(y), np.nan)
    for fold in np.unique(folds[labeled]):
        held = labeled & (folds == fold)
        out[held] = model.fit(X, np.where(held, unlabeled, y)).predict(X[held])
    return out[labeled], y[labeled]


# ---- scores, against refitted models ----------------------------------------------------------


@pytest.mark.covering(0)
@pytest.mark.parametrize("options", [{}, {"rank": 15}, {"graph": FeatureGraph(60, 1.0)}], ids=["", "rank", "features"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_cross_validated_accuracy_is_that_of_refitted_models(options, fit_intercept):
    X, truth, _, labeled = problem()
    y, folds = np.where(labeled, truth, -1), np.random.default_rng(1).integers(0, 4, len(X))
    learner = classifier(**options).set_params(fit_intercept=fit_intercept)
    tuned = searched(learner, X, y, criterion="cv", cv=folds, **GRID)
    assert len(candidates(tuned)) == 2 + 2 * 2 * 2  # strength zero is tried with one power only
    for t in candidates(tuned):
        model = classifier(strength=t.strength, power=t.power, **options)
        model.set_params(alpha=t.penalty, fit_intercept=fit_intercept)
        predicted, expected = held_out(model, X, y, -1, folds)
        assert t.score == pytest.approx(np.mean(predicted == expected), abs=1e-12)
        assert t.standard_error == pytest.approx(np.std(predicted == expected, ddof=1) / np.sqrt(len(expected)))
    assert len({t.score for t in candidates(tuned)}) > 1


@pytest.mark.covering(0)
@pytest.mark.parametrize("known", [24, 70], ids=["fewer-rows-than-columns", "more"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_cross_validated_r2_is_that_of_refitted_models(known, fit_intercept):
    X, _, values, labeled = problem(known=known)
    y, folds = np.where(labeled, values, np.nan), np.random.default_rng(1).integers(0, 4, len(X))
    learner = KernelRidge(deformed(), unlabeled=np.nan, fit_intercept=fit_intercept)
    for t in candidates(searched(learner, X, y, criterion="cv", cv=folds, **GRID)):
        model = KernelRidge(deformed(strength=t.strength, power=t.power), alpha=t.penalty, unlabeled=np.nan)
        predicted, expected = held_out(model.set_params(fit_intercept=fit_intercept), X, y, np.nan, folds)
        r2 = 1 - np.square(predicted - expected) / expected.var()
        assert t.score == pytest.approx(r2.mean(), abs=1e-8)
        assert t.standard_error == pytest.approx(r2.std(ddof=1) / np.sqrt(known), abs=1e-8)


def test_leave_one_out_is_that_of_refitted_models():
    X, _, values, labeled = problem(known=12)
    y = np.column_stack([np.where(labeled, v, np.nan) for v in (values, X[:, 1])])
    learner = KernelRidge(deformed(), unlabeled=np.nan)
    for t in candidates(searched(learner, X, y, criterion="loo", strengths=(0, 10.0), powers=2, penalties=(0.01,))):
        errors = []
        for i in np.flatnonzero(labeled):
            hidden = y.copy()
            hidden[i] = np.nan
            model = KernelRidge(deformed(strength=t.strength, power=t.power), alpha=t.penalty, unlabeled=np.nan)
            errors.append(np.square(model.fit(X, hidden).predict(X[[i]]) - y[i]).sum())
        assert t.score == pytest.approx(-np.mean(errors), rel=1e-8)


def test_evidence_is_a_gaussian_density():
    X, truth, _, labeled = problem(known=12)
    y = np.where(labeled, truth, -1)
    learner = classifier().set_params(fit_intercept=False)
    for t in candidates(searched(learner, X, y, criterion="evidence", **GRID)):
        K = deformed(strength=t.strength, power=t.power).fit(X).gram(X[labeled])
        covariance = np.eye(12) + K / t.penalty
        expected = 0.0
        for label in range(3):
            signs = np.where(truth[labeled] == label, 1.0, -1.0)
            noise = signs @ np.linalg.solve(covariance, signs) / 12
            expected += multivariate_normal(np.zeros(12), noise * covariance).logpdf(signs)
        assert t.score == pytest.approx(expected / 12, rel=1e-8)
        assert np.isnan(t.standard_error)


@pytest.mark.parametrize("criterion", ["loo", "evidence"])
def test_two_labels_are_coded_in_one_column(criterion):
    X, truth, y = moons(3, 0, n=60)
    some = {"strengths": (1.0,), "powers": (1,), "penalties": (0.1,)}
    found = searched(classifier(), X, y, criterion=criterion, **some)
    numbers = np.where(y < 0, np.nan, 2.0 * truth - 1)
    same = searched(KernelRidge(deformed(), unlabeled=np.nan), X, numbers, criterion=criterion, **some)
    assert found.best_score_ == pytest.approx(same.best_score_)
    if criterion == "loo":
        assert found.cv_results_["squared_error"] == pytest.approx(-found.best_score_)


# ---- the model --------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"rank": 15}, {"graph": FeatureGraph(60, 1.0)}], ids=["", "rank", "features"])
@pytest.mark.parametrize("criterion", ["cv", "loo", "evidence"])
def test_best_estimator_is_a_fit_with_the_best_parameters(options, criterion):
    X, truth, _, labeled = problem()
    y = np.where(labeled, truth, -1)
    learner = classifier(**options)
    tuned = searched(learner, X, y, criterion=criterion, strengths=(1.0, 10.0, 100.0), powers=(1, 2))
    best = candidates(tuned)[tuned.best_index_]
    assert best.score == max(t.score for t in candidates(tuned))
    assert (tuned.best_estimator_.alpha, tuned.best_estimator_.feature_map.strength) == (best.penalty, best.strength)
    assert tuned.best_estimator_.feature_map_.power == tuned.best_estimator_.feature_map.power == best.power
    expected = classifier(strength=best.strength, power=best.power, **options).set_params(alpha=best.penalty).fit(X, y)
    assert np.allclose(tuned.best_estimator_.decision_function(X), expected.decision_function(X), rtol=1e-7, atol=1e-8)
    assert np.allclose(tuned.best_estimator_.predict_proba(X), expected.predict_proba(X), atol=1e-7)
    exact = tuned.best_estimator_.feature_map_.kernel_(X[:5])
    assert np.allclose(exact, expected.feature_map_.kernel_(X[:5]))
    assert not hasattr(learner, "feature_map_")
    assert learner.alpha == 1.0
    assert tuned.best_params_ == tuned.cv_results_["params"][tuned.best_index_]
    assert tuned.best_params_ == {
        "alpha": best.penalty,
        "feature_map__power": best.power,
        "feature_map__strength": best.strength,
    }
    for method in ("predict", "predict_proba", "decision_function"):
        np.testing.assert_array_equal(getattr(tuned, method)(X), getattr(tuned.best_estimator_, method)(X))
    assert tuned.score(X, truth) == tuned.best_estimator_.score(X, truth)
    assert tuned.classes_.tolist() == [0, 1, 2]


@pytest.mark.parametrize("form", ["blocks", "dask", "sparse", "pandas", "float32", "one_block"])
def test_all_sources_of_rows(form):
    X, truth, _, labeled = problem()
    y = np.where(labeled, truth, -1)
    expected = searched(classifier(), X, y, **GRID)
    data = {
        "blocks": lambda: ([(X[i : i + 13], y[i : i + 13]) for i in range(0, 80, 13)],),
        "one_block": lambda: ([(X, y)],),
        "dask": lambda: (dask.array.from_array(X, (30, 2)), dask.array.from_array(y, 30)),
        "sparse": lambda: (sp.csr_array(X), y),
        "pandas": lambda: (pd.DataFrame(X, columns=["a", "b"]), pd.Series(y)),
        "float32": lambda: (X.astype(np.float32), y),
    }[form]()
    with dask.config.set(scheduler="synchronous"):
        tuned = searched(classifier(), *data, **GRID)
    assert tuned.n_labeled_ == 24
    assert [t.score for t in candidates(tuned)] == pytest.approx([t.score for t in candidates(expected)], rel=1e-4)
    rows = data[0] if form in ("pandas", "sparse", "float32") else X
    assert np.allclose(
        tuned.best_estimator_.decision_function(rows), expected.best_estimator_.decision_function(X), atol=1e-3
    )
    if form == "pandas":
        assert tuned.best_estimator_.feature_map_.feature_names_in_.tolist() == ["a", "b"]


def test_graph_is_built_once_and_roughness_once_per_power(monkeypatch):
    counts = {"graph": 0, "roughness": 0}
    search, measure = NeighborGraph.laplacian, mercer.graphs.laplacian_graph.sum_roughness

    def counted_search(self, *args, **kwargs):
        counts["graph"] += 1
        return search(self, *args, **kwargs)

    def counted_measure(*args, **kwargs):
        counts["roughness"] += 1
        return measure(*args, **kwargs)

    monkeypatch.setattr(NeighborGraph, "laplacian", counted_search)
    monkeypatch.setattr(mercer.graphs.laplacian_graph, "sum_roughness", counted_measure)
    X, truth, _, labeled = problem()
    searched(classifier(), X, np.where(labeled, truth, -1), powers=(1, 2, 3))
    assert counts == {"graph": 1, "roughness": 3}


# ---- few labels -------------------------------------------------------------------------------


def test_label_that_the_other_folds_lack_is_not_predicted():
    codes, folds = np.array([0, 0, 1, 1, 2]), np.array([0, 1, 0, 1, 0])
    X = np.array([[0.0], [0.1], [5.0], [5.1], [20.0]])
    learner = KernelRidgeClassifier(
        Deformed(RandomFourier(Gaussian(1.0), 60, random_state=0), NeighborGraph(1, weights="binary"))
    )
    tuned = searched(learner, X, codes, strengths=(0,), powers=1, penalties=(1e-3, 10.0, 1e6), criterion="cv", cv=folds)
    assert [t.score for t in candidates(tuned)] == [0.8, 0.8, 0.8]


def test_ties_are_broken_by_the_squared_error():
    X, _, y = moons(5, 1)
    tuned = searched(classifier(), X, y, criterion="cv")
    best = candidates(tuned)[tuned.best_index_]
    equal = [t for t in candidates(tuned) if t.score == best.score]
    assert len(equal) > 1
    assert best.squared_error == min(t.squared_error for t in equal)
    assert best.degrees < max(t.degrees for t in equal)


def test_one_label_per_class_needs_evidence():
    X, truth, _, _ = problem()
    y = np.full(80, -1)
    for label in range(3):
        y[np.flatnonzero(truth == label)[0]] = label
    for criterion in ("cv", "loo"):
        with pytest.raises(DataError, match=r"at least two labels.*criterion='evidence'"):
            searched(classifier(), X, y, criterion=criterion)
    assert searched(classifier(), X, y, criterion="evidence").n_labeled_ == 3
    X, _, y = moons(1, 0)
    with pytest.raises(DataError, match=r"2 labeled rows and an intercept.*by hand"):
        searched(classifier(), X, y, criterion="evidence")


@pytest.mark.parametrize("criterion", ["cv", "loo", "evidence"])
def test_all_rows_may_have_a_label(criterion):
    X, truth, values, _ = problem()
    tuned = searched(classifier().set_params(unlabeled=None), X, truth, criterion=criterion, **GRID)
    assert tuned.n_labeled_ == 80
    assert tuned.best_estimator_.score(X, truth) > 0.7
    tuned = searched(KernelRidge(deformed()), X, values, criterion=criterion, **GRID)
    assert tuned.best_estimator_.score(X, values) > 0.8


def test_two_moons_compared_with_label_spreading_and_self_training():
    logistic = make_pipeline(RBFSampler(gamma=5.0, random_state=0), LogisticRegression(C=100))
    scores = {"deformed": [], "spreading": [], "self-training": [], "plain": []}
    for seed in range(3):
        X, truth, y = moons(5, seed, noise=0.08)
        feature_map = Deformed(RandomFourier(Gaussian(0.3), 200, random_state=0), NeighborGraph(8))
        tuned = searched(KernelRidgeClassifier(feature_map, unlabeled=-1), X, y)
        unknown = y < 0
        peers = {
            "deformed": tuned.best_estimator_,
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


# ---- results and errors -----------------------------------------------------------------------


def test_summary_and_results():
    X, _, y = moons(5, 0)
    tuned = searched(classifier(), X, y, criterion="cv", strengths=(0, 1, 100), powers=(1, 2))
    lines = tuned.summary().splitlines()
    assert lines[0] == "cross-validation on 10 labeled of 300 rows, the best penalty of each:"
    assert lines[1].split() == ["strength", "power", "1", "power", "2"]
    assert [line.split()[0] for line in lines[2:5]] == ["0", "1", "100"]
    assert sum(line.count("*") for line in lines) == 1
    best = tuned.best_params_
    start = f"best: strength={best['feature_map__strength']:g}, power={best['feature_map__power']:g}, alpha="
    assert lines[5].startswith(start)
    results = pd.DataFrame(tuned.cv_results_)
    assert len(results) == len(candidates(tuned)) == 17 * (1 + 2 * 2)
    assert results["mean_test_score"][tuned.best_index_] == tuned.best_score_ == results["mean_test_score"].max()
    assert results["rank_test_score"][tuned.best_index_] == 1
    plain = results[results["param_feature_map__strength"] == 0]
    assert plain["mean_test_score"].max() == results["mean_test_score"][tuned.plain_index_]
    assert results["param_feature_map__strength"][tuned.plain_index_] == 0
    assert searched(classifier(), X, y, strengths=(1,), powers=1).plain_index_ is None
    assert "±" not in searched(classifier(), X, y, criterion="evidence", strengths=(1,), powers=1).summary()


def test_methods_raise_before_fit():
    search = DeformedSearchCV(classifier())
    for call in (lambda: search.predict(np.zeros((2, 2))), search.summary):
        with pytest.raises(NotFittedError):
            call()
    assert not hasattr(DeformedSearchCV(KernelRidge(deformed())), "predict_proba")
    assert not hasattr(search, "classes_")


def test_nested_parameters_and_failed_fits():
    X, _, y = moons(5, 0)
    search = clone(DeformedSearchCV(classifier(), strengths=(0, 10.0), powers=1)).fit(X, y)
    search.set_params(
        estimator__feature_map__graph__n_neighbors=6, estimator__feature_map__feature_map__n_components=30
    )
    assert search.estimator.feature_map.graph.n_neighbors == 6
    before = search.best_estimator_
    with pytest.raises(DataError, match="at least two labeled rows"):
        search.fit(X, np.r_[1, np.full(299, -1)])
    assert search.best_estimator_ is before
    assert search.fit(X, y).best_estimator_.coef_.shape == (1, 30)


@pytest.mark.parametrize(
    ("learner", "options", "error", "message"),
    [
        (KernelSVC(deformed()), {}, ParameterError, "KernelRidge or a KernelRidgeClassifier.*got KernelSVC"),
        (KernelRidgeClassifier(), {}, ParameterError, "must be a Deformed map, got None"),
        (
            classifier(),
            {"strengths": ()},
            ParameterError,
            "every number of strengths must be a finite number >= 0, got an empty list",
        ),
        (
            classifier(),
            {"strengths": (-1,)},
            ParameterError,
            "every number of strengths must be a finite number >= 0, got -1 among",
        ),
        (classifier(), {"strengths": (np.inf,)}, ParameterError, "strengths must be a finite number >= 0, got inf"),
        (classifier(), {"powers": ("2",)}, ParameterError, "powers must be a number >= 0 and <= 100, got '2'"),
        (
            classifier(),
            {"powers": (2, 1e9)},
            ParameterError,
            "powers must be a number >= 0 and <= 100, got 1000000000.0",
        ),
        (classifier(), {"penalties": (0.0, 1.0)}, ParameterError, "penalties must be a finite number > 0, got 0.0"),
        (
            classifier(),
            {"criterion": "gcv"},
            ParameterError,
            "criterion must be one of 'loo', 'cv', 'evidence', got 'gcv'",
        ),
        (classifier(), {"criterion": "cv", "cv": 1}, ParameterError, "cv must be an integer >= 2"),
        (classifier(), {"criterion": "cv", "cv": True}, ParameterError, "cv must be an integer >= 2"),
        (classifier(), {"criterion": "cv", "cv": np.zeros(80, int)}, ParameterError, "all labeled rows into one fold"),
        (classifier(), {"criterion": "cv", "cv": np.zeros(3, int)}, ParameterError, "with the fold of each row"),
        (classifier(), {"criterion": "cv", "cv": np.arange(90) % 4}, ParameterError, "each of the 80 rows.*got 90"),
        (classifier(), {"criterion": "cv", "cv": np.linspace(0, 1, 80)}, ParameterError, "with the fold of each row"),
        (classifier().set_params(unlabeled=0), {}, DataError, "one class only"),
    ],
)
def test_invalid_arguments_raise(learner, options, error, message):
    X, truth, _, labeled = problem()
    y = np.where(labeled, truth, -1)
    if learner.unlabeled == 0:
        y = np.where(labeled, 1, 0)
    with pytest.raises(error, match=message):
        searched(learner, X, y, **options)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.full(80, -1), "every target is unlabeled=-1"),
        (np.r_[1, np.full(79, -1)], "at least two labeled rows, got 1"),
        (np.r_[1, 1, np.full(78, -1)], "one class only: 1"),
    ],
)
def test_too_few_labels_raise(y, message):
    with pytest.raises(DataError, match=message):
        searched(classifier(), problem()[0], y)


def test_blocks_that_can_be_read_only_once_raise():
    X, truth, _, labeled = problem()
    y = np.where(labeled, truth, -1)
    with pytest.raises(DataError, match="read"):
        searched(classifier(), iter([(X[:40], y[:40]), (X[40:], y[40:])]))


@pytest.mark.parametrize("criterion", ["loo", "cv", "evidence"])
@pytest.mark.parametrize("form", ["arrays", "blocks"])
def test_weights_are_repetitions_of_rows(criterion, form):
    X, truth, _, labeled = problem()
    y, weight = np.where(labeled, truth, -1), np.random.default_rng(1).integers(0, 4, 80).astype(float)
    copies, folds = np.repeat(np.arange(80), weight.astype(int)), np.arange(80) % 4
    rows = (X, y, weight) if form == "arrays" else ([(X[:30], y[:30], weight[:30]), (X[30:], y[30:], weight[30:])],)
    options = {**GRID, "criterion": criterion}
    tuned = searched(classifier(), *rows, cv=folds, **options)
    expected = searched(classifier(), X[copies], y[copies], cv=folds[copies], **options)
    assert tuned.n_labeled_ == (labeled & (weight > 0)).sum()
    for found, wanted in zip(candidates(tuned), candidates(expected), strict=True):
        assert found.score == pytest.approx(wanted.score, rel=1e-7)
        assert found.degrees == pytest.approx(wanted.degrees)
    for name in ("feature_map__strength", "feature_map__power"):
        assert tuned.best_params_[name] == expected.best_params_[name]
    np.testing.assert_allclose(
        tuned.best_estimator_.decision_function(X), expected.best_estimator_.decision_function(X), atol=1e-7
    )
    with pytest.raises(DataError, match=r"needs a total weight above one of all labeled rows, got 0\.\d+\. Scale"):
        searched(classifier(), X, y, weight / 1000, criterion="evidence")
    plain = searched(classifier(), X, y, cv=folds, **options)
    assert plain.best_score_ != pytest.approx(tuned.best_score_, rel=1e-4)


# ---- warnings and progress --------------------------------------------------------------------


def test_best_candidate_at_an_end_of_the_grid_warns():
    X, _, y = moons(5, 0)
    with pytest.warns(MercerWarning, match="DeformedSearchCV chose the largest strength, 1, .*try a wider range"):
        searched(moon_learner(), X, y, strengths=(0.01, 0.1, 1.0), powers=2)


def test_progress_reports_every_power():
    X, truth, _, labeled = problem()
    seen = []
    learner = classifier().set_params(progress=seen.append)
    searched(learner, X, np.where(labeled, truth, -1), **GRID)
    stages = list(dict.fromkeys(one.stage for one in seen))
    assert stages == [
        "build graph",
        "read labels",
        *(f"{what} of power {power}" for power in (1, 2) for what in ("measure roughness", "compare candidates")),
        "sum over rows",
    ]
    strengths = [(one.rows, one.total) for one in seen if one.unit == "strengths"]
    assert strengths == [(1, 3), (2, 3), (3, 3), (1, 2), (2, 2)]  # strength zero is compared once
    fractions = [one.fraction for one in seen]
    assert fractions == sorted(fractions)
    assert (seen[-1].rows, seen[-1].owner) == (80, "DeformedSearchCV")  # the final fit


def test_two_labels_per_class_select_a_useful_graph():
    gains = []
    for seed in range(6):
        X, truth, y = moons(2, seed)
        tuned = searched(moon_learner(), X, y)
        penalty = candidates(tuned)[tuned.plain_index_].penalty
        plain = KernelRidgeClassifier(tuned.best_estimator_.feature_map_.feature_map_, alpha=penalty, unlabeled=-1)
        gains.append(tuned.best_estimator_.score(X, truth) - plain.fit(X, y).score(X, truth))
    assert np.mean(gains) > 0.05


def test_missing_targets_and_single_classes_raise():
    X, _, values, labeled = problem()
    with pytest.raises(DataError, match=r"y contains NaN or None .* unlabeled=np\.nan"):
        searched(KernelRidge(deformed()), X, np.where(labeled, values, np.nan))
    with pytest.raises(DataError, match="at least two classes, got one class only: 1"):
        searched(classifier(), X, np.where(labeled, 1, -1))
    with pytest.raises(DataError, match="every target is unlabeled=-1"):
        searched(classifier(), X, np.full(80, -1))
