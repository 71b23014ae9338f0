"""Sentences of the page of a model say what the numbers say."""

from dataclasses import replace

import numpy as np
import pytest

from mercer.diagnostics.fits import ColumnImportance, Contender, CurvePoint, Score
from mercer.diagnostics.fits.results import ReliabilityBin
from mercer.report.model import sentences, summaries

from .results import classification, regression


def score(value, low, high, name="R2"):
    return Score(name, value, low, high, 0.95)


def beside(*pairs, difference=None, name="R2"):
    """Return a result with models of given scores."""
    names = ("mercer", "linear model", "HistGradientBoosting")
    some = [
        Contender(one, (score(*values, name),), 1.0, 0.1, None, "", difference if i else None)
        for i, (one, values) in enumerate(zip(names, pairs, strict=False))
    ]
    base = regression() if name == "R2" else classification()
    return replace(base, contenders=tuple(some), headline=name)


def test_headline_has_the_score_the_interval_and_the_other_models():
    result = beside((0.841, 0.832, 0.849), (0.61, 0.6, 0.62), (0.83, 0.82, 0.84))
    assert sentences.headline(result) == (
        "The model explains 84 % of the variance of new rows (R2 0.84, 95 % interval 0.83 to 0.85), a linear model "
        "61 %, HistGradientBoosting 83 %."
    )


def test_headline_of_labels():
    result = beside((0.9715, 0.9633, 0.9779), (0.772, 0.75, 0.79), name="accuracy")
    assert sentences.headline(result) == (
        "The model labels 97.2 % of new rows correctly (95 % interval 96.3 to 97.8 %), a linear model 77.2 %."
    )


def test_headline_of_a_useless_and_of_an_undefined_model():
    assert "no better than their mean" in sentences.headline(beside((-0.1, -0.2, 0.0)))
    nan = float("nan")
    text = sentences.headline(beside((nan, nan, nan)))
    assert "not defined" in text
    assert "nan" not in text


@pytest.mark.parametrize(
    ("ours", "theirs", "difference", "expected"),
    [
        ((0.9, 0.88, 0.92), (0.8, 0.78, 0.82), None, "It is better than a linear model"),
        ((0.9, 0.88, 0.92), (0.89, 0.87, 0.91), None, "do not show whether it is better"),
        ((0.8, 0.78, 0.82), (0.9, 0.88, 0.92), None, "It is worse than a linear model"),
        ((0.9, 0.88, 0.92), (0.89, 0.87, 0.91), score(0.01, 0.005, 0.015), "It is better than a linear model"),
        ((0.9, 0.88, 0.92), (0.91, 0.89, 0.93), score(-0.01, -0.015, -0.005), "It is worse than a linear model"),
        ((0.9, 0.88, 0.92), (0.89, 0.87, 0.91), score(0.01, -0.005, 0.02), "do not show whether it is better"),
    ],
)
def test_models_are_compared_by_their_difference_or_by_intervals(ours, theirs, difference, expected):
    text = sentences.comparison(beside(ours, theirs, difference=difference))
    assert text.startswith(expected) or expected in text
    assert ("difference on the same rows" in text) == (difference is not None)


def test_an_end_of_a_difference_near_zero_is_not_rounded_to_zero():
    text = sentences.comparison(beside((0.9, 0.88, 0.92), (0.92, 0.9, 0.94), difference=score(-0.02, -0.046, -0.0002)))
    assert "the difference on the same rows is -0.046 to -0.0002)" in text


def test_the_most_frequent_label_is_a_baseline():
    result = replace(classification(), confusion=((70, 10), (5, 15)), classes=("no", "yes"))
    assert "“no”, would be right for 80.0 %" in sentences.comparison(result)


@pytest.mark.parametrize(
    ("before", "expected"),
    [(0.80, "more rows should help"), (0.899, "would change little"), (0.95, "which is unusual")],
)
def test_learning_curve_says_whether_more_rows_help(before, expected):
    points = (CurvePoint(1000, before, before - 0.01, before + 0.01, 1.0), CurvePoint(2000, 0.9, 0.89, 0.91, 2.0))
    assert expected in sentences.curve(replace(beside((0.9, 0.89, 0.91)), curve=points))


def test_residuals_with_a_bias_and_with_unequal_spread_are_reported():
    rng = np.random.default_rng(0)
    predicted = rng.uniform(0, 10, size=1000)
    fair = predicted + rng.normal(size=1000)
    biased = fair + 3 * (predicted > 8)
    wide = predicted + rng.normal(size=1000) * (0.2 + predicted)
    text = [sentences.residuals(summaries.residual_quantiles(one, predicted)) for one in (fair, biased, wide)]
    assert "no systematic error" in text[0]
    assert "largest around" not in text[0]
    assert "systematically too low" in text[1]
    assert "largest around" in text[2]
    assert "too few rows" in sentences.residuals([])


@pytest.mark.parametrize(("coverage", "expected"), [(0.9, "hold"), (0.7, "too short"), (0.99, "on the safe side")])
def test_coverage_of_intervals_is_judged(coverage, expected):
    assert expected in sentences.error_bars(replace(regression(), coverage=coverage), [])


@pytest.mark.parametrize(
    ("predicted", "observed", "expected"),
    [(0.9, 0.9, "as they are"), (0.9, 0.7, "too high"), (0.7, 0.9, "too low")],
)
def test_calibration_is_judged(predicted, observed, expected):
    bins = (ReliabilityBin(predicted, observed, 0.0, 1.0, 1000),)
    assert expected in sentences.calibration(replace(classification(), reliability=bins))


def test_columns_without_effect_are_counted():
    some = (
        ColumnImportance("a", 0.9, 0.5, 0.01),
        ColumnImportance("b", 0.1, 0.001, 0.002),
        ColumnImportance("c", 0.0, None, None),
    )
    text = sentences.columns(replace(regression(), importances=some))
    assert "“a” matters most" in text
    assert "1 column made no difference" in text
    assert "No column by itself" in sentences.columns(replace(regression(), importances=some[1:]))
    assert [one.column for one in summaries.ranked(some[::-1])] == ["a", "b", "c"]


def test_error_bars_of_groups_have_intervals_that_contain_the_truth():
    rng = np.random.default_rng(1)
    std = rng.uniform(1, 5, size=2000)
    groups = summaries.error_bars(std * rng.normal(size=2000), np.zeros(2000), std)
    assert len(groups) == 10
    assert sum(one.low < one.predicted < one.high for one in groups) >= 8
    assert all(one.low < one.measured < one.high for one in groups)


def test_shares_of_labels():
    shares = summaries.label_shares([[8, 2, 0], [1, 9, 0], [0, 0, 0]], ["a", "b", "c"])
    assert [one.label for one in shares] == ["a", "b", "c"]
    assert shares[0].found.value == 0.8
    assert shares[0].right.value == pytest.approx(8 / 9)
    assert shares[2].found is None
    assert shares[2].right is None
    assert "“a” is found least often, 80.0 %" in sentences.labels(shares)
    (first, *_) = summaries.frequent_confusions([[8, 2, 0], [1, 9, 0], [0, 0, 0]], ["a", "b", "c"])
    assert (first.true, first.predicted, first.count) == ("a", "b", 2)
