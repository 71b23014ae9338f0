"""Scores of few labeled rows against refitted models, and stratified folds."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.kernel_ridge import KernelRidge as ExactRidge

from mercer import DataError, Gaussian, ParameterError, RandomFourier
from mercer.engines import Block
from mercer.solvers.ridge.label_scores import LabeledFeatures, LabeledRows, LabelScorer, folds_of
from mercer.solvers.ridge.smoother import Smoother

RNG = np.random.default_rng(0)
Z = RNG.normal(size=(24, 40))
CODES = np.repeat([0, 1, 2], 8)
NUMBERS = Z[:, :2] @ np.array([[1.0, 0.5], [0.2, 3.0]]) + 0.2 * RNG.normal(size=(24, 2))
PENALTY = 0.7


def labeled(y):
    return LabeledRows(Z, y, np.arange(24, dtype=np.uint64), np.ones(24))


def held_out(targets, folds):
    """Return predictions of each fold by exact kernel ridge regression on the others, without an intercept."""
    out = np.empty(targets.shape)
    for fold in np.unique(folds):
        held = folds == fold
        model = ExactRidge(alpha=PENALTY, kernel="precomputed").fit(Z[~held] @ Z[~held].T, targets[~held])
        out[held] = model.predict(Z[held] @ Z[~held].T)
    return out


def score(scorer):
    return scorer.score(Smoother.of(Z, fit_intercept=False), PENALTY)


def test_accuracy_by_folds_is_that_of_refitted_models():
    scorer = LabelScorer.of("Search", labeled(CODES), labels=True, criterion="cv", cv=4, random_state=0)
    signs = np.where(CODES[:, None] == np.arange(3), 1.0, -1.0)
    predicted = held_out(signs, scorer.folds)
    right = predicted.argmax(axis=1) == CODES
    value, error, squares = score(scorer)
    assert value == pytest.approx(right.mean())
    assert error == pytest.approx(right.std(ddof=1) / np.sqrt(24))
    assert squares == pytest.approx(np.square(signs - predicted).sum(axis=1).mean(), rel=1e-9)


def test_r2_by_folds_is_that_of_refitted_models():
    scorer = LabelScorer.of("Search", labeled(NUMBERS), labels=False, criterion="cv", cv=4, random_state=0)
    predicted = held_out(NUMBERS, scorer.folds)
    expected = 1 - (np.square(NUMBERS - predicted).mean(axis=0) / NUMBERS.var(axis=0)).mean()
    assert score(scorer)[0] == pytest.approx(expected, rel=1e-9)


def test_leave_one_out_is_the_squared_error_of_refitted_models():
    scorer = LabelScorer.of("Search", labeled(NUMBERS), labels=False, criterion="loo", cv=None, random_state=None)
    squares = np.square(NUMBERS - held_out(NUMBERS, np.arange(24))).sum(axis=1)
    value, error, mean = score(scorer)
    assert value == pytest.approx(-squares.mean(), rel=1e-9)
    assert mean == pytest.approx(squares.mean(), rel=1e-9)
    assert error == pytest.approx(squares.std(ddof=1) / np.sqrt(24), rel=1e-9)


def test_evidence_is_a_normal_log_density_per_row():
    scorer = LabelScorer.of("Search", labeled(NUMBERS), labels=False, criterion="evidence", cv=None, random_state=None)
    total = 0.0
    for y in NUMBERS.T:
        cov = Z @ Z.T / PENALTY + np.eye(24)
        best = y @ np.linalg.solve(cov, y) / 24  # the maximizing noise variance
        total += multivariate_normal(np.zeros(24), best * cov).logpdf(y)
    assert score(scorer)[0] == pytest.approx(total / 24, rel=1e-9)


def test_labels_outside_of_the_other_folds_are_not_predicted():
    # All rows of label 2 are in one fold, so that the models of that fold have never seen it.
    codes = np.where(np.arange(24) < 4, 2, np.arange(24) % 2)
    folds = np.where(np.arange(24) < 4, 0, 1 + np.arange(24) % 3)
    scorer = LabelScorer.of("Search", labeled(codes), labels=True, criterion="cv", cv=folds, random_state=0)
    predicted = np.tile([0.0, 1.0, 5.0], (24, 1))
    assert set(scorer.predicted_codes(predicted)[:4]) == {1}
    assert set(scorer.predicted_codes(predicted)[4:]) == {2}


def test_two_labels_have_one_column_and_are_predicted_by_its_sign():
    codes = np.arange(24) % 2
    scorer = LabelScorer.of("Search", labeled(codes), labels=True, criterion="cv", cv=4, random_state=0)
    assert scorer.targets.tolist() == np.where(codes[:, None] == 1, 1.0, -1.0).tolist()
    assert scorer.predicted_codes(scorer.targets).tolist() == codes.tolist()
    predicted = held_out(scorer.targets, scorer.folds)
    value, _, squares = score(scorer)
    assert value == pytest.approx(np.mean((predicted[:, 0] > 0) == codes))
    assert squares == pytest.approx(np.square(scorer.targets - predicted).mean(), rel=1e-9)
    # If a label occurs in one fold only, the models of that fold cannot predict it.
    alone = LabelScorer.of(
        "Search",
        labeled((np.arange(24) < 2) * 1),
        labels=True,
        criterion="cv",
        cv=(np.arange(24) > 1) * 1,
        random_state=0,
    )
    assert set(alone.predicted_codes(np.ones((24, 1)))[:2]) == {0}


def test_folds_are_stratified_seeded_and_of_equal_size():
    index = np.arange(24, dtype=np.uint64)
    folds = folds_of("Search", 5, index, CODES, 0)
    assert np.array_equal(folds, folds_of("Search", 5, index, CODES, 0))
    assert not np.array_equal(folds, folds_of("Search", 5, index, CODES, 1))
    counts = np.array([np.bincount(folds[CODES == code], minlength=5) for code in range(3)])
    assert np.ptp(counts, axis=1).max() <= 1
    assert np.ptp(counts.sum(axis=0)) <= 1
    given = np.arange(50) % 3
    assert np.array_equal(folds_of("Search", given, index + np.uint64(20), CODES, None), given[20:44])


@pytest.mark.parametrize("seed", range(5))
def test_folds_are_stratified_and_of_equal_size(seed):
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat(np.arange(10), 5))
    folds = folds_of("Search", 5, np.arange(50), codes, seed)
    assert all(sorted(codes[folds == fold]) == list(range(10)) for fold in range(5))
    few = rng.permutation([0, 0, 0, 0, 1, 1, 2])
    folds = folds_of("Search", 3, np.arange(7), few, seed)
    assert np.ptp(np.bincount(folds)) <= 1
    assert len(set(folds[few == 1])) == 2
    assert set(folds[few == 0]) == {0, 1, 2}
    assert sorted(folds_of("Search", 5, np.arange(3), np.array([0, 0, 1]), seed)) == [0, 1, 2]
    assert not np.array_equal(
        folds_of("Search", 5, np.arange(50), codes, seed), folds_of("Search", 5, np.arange(50), codes, seed + 1)
    )


@pytest.mark.parametrize(
    ("cv", "message"),
    [
        (1, "cv must be an integer >= 2, or an array"),
        (True, "cv must be an integer >= 2, or an array"),
        (np.zeros(10, int), "cv must be an integer >= 2, or an array"),  # too few
        (np.zeros(24), "cv must be an integer >= 2, or an array"),  # not integers
        ([([0, 1], [2])], "cv must be an integer >= 2, or an array"),  # pairs of training and test rows
        (np.full(24, 7), "cv puts all labeled rows into one fold, 7"),
    ],
)
def test_invalid_folds_raise(cv, message):
    with pytest.raises(ParameterError, match=message):
        folds_of("Search", cv, np.arange(24, dtype=np.uint64), CODES, 0)


def test_too_few_labels_raise():
    few = LabeledRows(Z[:1], CODES[:1], np.arange(1, dtype=np.uint64), np.ones(1))
    with pytest.raises(DataError, match="at least two labeled rows, got 1"):
        LabelScorer.of("Search", few, labels=True, criterion="cv", cv=2, random_state=0)
    with pytest.raises(DataError, match="rows of at least two classes, got one class only: 5"):
        LabelScorer.of("Search", labeled(np.full(24, 5)), labels=True, criterion="cv", cv=2, random_state=0)
    singles = LabeledRows(Z[[0, 8]], CODES[[0, 8]], np.arange(2, dtype=np.uint64), np.ones(2))
    with pytest.raises(
        DataError, match=r"criterion='loo' needs a class with at least two labels, .* use criterion='evidence'"
    ):
        LabelScorer.of("Search", singles, labels=True, criterion="loo", cv=None, random_state=0)
    assert LabelScorer.of(
        "Search", singles, labels=True, criterion="evidence", cv=None, random_state=0
    ).targets.shape == (2, 1)


def test_features_of_blocks_add_up_to_those_of_all_rows():
    X = RNG.normal(size=(10, 3)).astype(np.float32)
    feature_map = RandomFourier(Gaussian(), 8, random_state=0).fit(X)
    term = LabeledFeatures(feature_map.features_)
    both = term(Block(0, X[:4], np.arange(4), None)) + term(Block(4, X[4:], np.arange(4, 10), None))
    assert both.Z.dtype == np.float64
    assert np.array_equal(both.Z, feature_map.transform(X))
    assert both.y.tolist() == both.index.tolist() == list(range(10))
    assert both.weight.tolist() == [1.0] * 10
    weight = np.arange(10) % 3.0
    some = term(Block(0, X[:1], np.arange(1), np.zeros(1))) + term(Block(5, X, np.arange(10), weight))
    assert some.weight.tolist() == weight[weight > 0].tolist()
    assert some.y.tolist() == np.flatnonzero(weight).tolist() == (some.index - 5).tolist()
    assert np.array_equal(some.Z, feature_map.transform(X)[weight > 0])


@pytest.mark.parametrize("criterion", ["loo", "cv", "evidence"])
@pytest.mark.parametrize("labels", [True, False])
@pytest.mark.parametrize("columns", [40, 5])
def test_weights_are_repetitions_of_rows(criterion, labels, columns):
    weight = np.random.default_rng(1).integers(1, 4, 24).astype(float)
    copies = np.repeat(np.arange(24), weight.astype(int))
    y = CODES if labels else NUMBERS
    folds = np.arange(24) % 5
    weighted = LabeledRows(Z[:, :columns], y, np.arange(24), weight)
    repeated = LabeledRows(Z[copies, :columns], y[copies], np.arange(len(copies)), np.ones(len(copies)))
    for intercept in (True, False):
        found, expected = (
            LabelScorer.of("Search", rows, labels=labels, criterion=criterion, cv=cv, random_state=0).score(
                Smoother.of(rows.Z, fit_intercept=intercept, weight=rows.weight), PENALTY
            )
            for rows, cv in ((weighted, folds), (repeated, folds[copies]))
        )
        assert found[0] == pytest.approx(expected[0], rel=1e-9)
        assert found[2] == pytest.approx(expected[2], rel=1e-9, nan_ok=True)


def test_standard_error_does_not_depend_on_the_scale_of_weights():
    rows = LabeledRows(Z, CODES, np.arange(24), np.full(24, 7.0))
    scorer = LabelScorer.of("Search", rows, labels=True, criterion="cv", cv=4, random_state=0)
    smoother = Smoother.of(Z, fit_intercept=False, weight=rows.weight)
    right = scorer.predicted_codes(smoother.left_out(scorer.targets, PENALTY, scorer.folds)) == CODES
    found = scorer.score(Smoother.of(Z, fit_intercept=False, weight=rows.weight), PENALTY)
    assert found[:2] == pytest.approx((right.mean(), right.std(ddof=1) / np.sqrt(24)))


def test_accuracy_counts_labels_of_other_folds_only():
    class Given:
        def left_out(self, targets, penalty, folds):
            return np.where(np.arange(3) == 2, 5.0, targets)  # label 2 has always the largest value

    codes = np.array([0, 1, 0, 1, 2])
    rows = LabeledRows(Z[:5], codes, np.arange(5), np.ones(5))
    scorer = LabelScorer.of("Search", rows, labels=True, criterion="cv", cv=np.array([0, 0, 1, 1, 0]), random_state=0)
    # Fold 0 has the only row of label 2, so its models cannot predict it; that row and those of fold 1 are wrong.
    assert scorer.score(Given(), PENALTY)[0] == pytest.approx(2 / 5)


def test_given_folds_must_be_those_of_all_rows():
    for rows in (24, 31):
        with pytest.raises(ParameterError, match=rf"of each of the 30 rows, labeled or not, got {rows}\."):
            folds_of("Search", np.arange(rows) % 3, np.arange(24), CODES, 0, n_rows=30)
    assert (
        folds_of("Search", np.arange(30) % 3, np.arange(24), CODES, 0, n_rows=30).tolist()
        == (np.arange(24) % 3).tolist()
    )
