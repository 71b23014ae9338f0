"""Scores are those of scikit-learn, and their intervals cover."""

import numpy as np
import pytest
from sklearn import metrics

from mercer.diagnostics.fits import classification_scores, regression_scores, score_difference, score_interval
from mercer.diagnostics.fits.scores import GROUPS, wilson
from mercer.errors import DataError, ParameterError


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=n)
    return y, y + 0.5 * rng.normal(size=n), rng


def test_values_are_those_of_scikit_learn():
    y, predicted, rng = rows(300)
    weight = rng.integers(1, 4, size=300)
    for given in (None, weight):
        r2, rmse, mae = regression_scores(y, predicted, sample_weight=given)
        assert r2.value == pytest.approx(metrics.r2_score(y, predicted, sample_weight=given))
        assert rmse.value == pytest.approx(metrics.root_mean_squared_error(y, predicted, sample_weight=given))
        assert mae.value == pytest.approx(metrics.mean_absolute_error(y, predicted, sample_weight=given))
    labels = np.array(["b", "a", "c"])
    probabilities = rng.dirichlet(np.ones(3), size=300)
    truth = labels[rng.integers(3, size=300)]
    for given in (None, weight):
        accuracy, loss = classification_scores(truth, probabilities, labels, sample_weight=given)
        best = labels[probabilities.argmax(axis=1)]
        assert accuracy.value == pytest.approx(metrics.accuracy_score(truth, best, sample_weight=given))
        expected = metrics.log_loss(truth, probabilities[:, [1, 0, 2]], labels=["a", "b", "c"], sample_weight=given)
        assert loss.value == pytest.approx(expected)
        assert accuracy.low < accuracy.value < accuracy.high
        assert loss.low < loss.value < loss.high


def coverage(name, true, n, repeats=200):
    found = [score_interval(name, *rows(n, seed)[:2]) for seed in range(repeats)]
    return np.mean([one.low <= true <= one.high for one in found])


# R2 = 1 - 0.25 / 1, RMSE = 0.5. Of 200 intervals of 95 % that cover as they claim, fewer than 179 contain the truth
# with a probability of 1e-3.
@pytest.mark.parametrize(("name", "true"), [("R2", 0.75), ("RMSE", 0.5)])
def test_intervals_cover_the_score_of_many_rows(name, true, monkeypatch):
    monkeypatch.setattr("mercer.diagnostics.fits.scores.RESAMPLES", 400)
    assert coverage(name, true, 150) >= 179 / 200


def test_coverage_test_would_detect_intervals_of_half_the_length(monkeypatch):
    monkeypatch.setattr("mercer.diagnostics.fits.scores.RESAMPLES", 400)
    found = [score_interval("R2", *rows(150, seed)[:2], level=0.67) for seed in range(100)]
    assert np.mean([one.low <= 0.75 <= one.high for one in found]) < 0.85


def test_intervals_from_groups_of_rows_are_those_of_rows(monkeypatch):
    y, predicted, _ = rows(6000)
    grouped = score_interval("R2", y, predicted)
    assert len(y) > GROUPS
    monkeypatch.setattr("mercer.diagnostics.fits.scores.GROUPS", 6000)
    one_by_one = score_interval("R2", y, predicted)
    assert grouped.value == pytest.approx(one_by_one.value)
    assert grouped.high - grouped.low == pytest.approx(one_by_one.high - one_by_one.low, rel=0.15)


def test_difference_of_scores_is_more_certain_than_the_scores():
    y, predicted, rng = rows(400)
    worse = predicted + 0.2 * rng.normal(size=400)
    difference = score_difference("R2", y, predicted, worse)
    score, other = (regression_scores(y, one)[0] for one in (predicted, worse))
    assert difference.value == pytest.approx(score.value - other.value)
    assert 0 < difference.low
    assert difference.high - difference.low < 0.7 * (score.high - score.low)
    none = score_difference("R2", y, predicted, predicted)
    assert (none.low, none.value, none.high) == (0.0, 0.0, 0.0)


def test_scores_that_are_not_defined_are_nan():
    for y in ([1.0], [2.0, 2.0, 2.0]):
        found = score_interval("R2", y, [1.0] * len(y))
        assert np.isnan([found.value, found.low, found.high]).all()


def test_accuracy_of_few_rows_is_within_one():
    found = score_interval("accuracy", ["a", "a"], ["a", "a"])
    assert found.value == found.high == 1.0
    assert 0 < found.low < 0.5
    assert wilson(0.0, 5)[0] == 0.0


def test_labels_that_the_model_does_not_know_have_a_large_loss():
    found = score_interval("log loss", ["x", "a"], [[0.5, 0.5], [0.5, 0.5]], classes=["a", "b"])
    assert found.value > 15


def test_equal_seeds_give_equal_intervals():
    y, predicted, _ = rows(100)
    assert score_interval("R2", y, predicted, random_state=3) == score_interval("R2", y, predicted, random_state=3)


def test_wrong_arguments_are_named():
    with pytest.raises(ParameterError, match="name must be"):
        score_interval("auc", [0.0], [0.0])
    with pytest.raises(DataError, match="one entry per test row"):
        score_interval("R2", [0.0, 1.0], [0.0])
    with pytest.raises(DataError, match="one probability per label"):
        score_interval("log loss", ["a", "b"], [[0.5], [0.5]], classes=["a", "b"])
