"""Scores of few labeled rows, against models that were refitted, and folds against their rule."""

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
    scorer = LabelScorer.of(labeled(CODES), classes=True, by="cv", cv=4, random_state=0)
    signs = np.where(CODES[:, None] == np.arange(3), 1.0, -1.0)
    predicted = held_out(signs, scorer.folds)
    right = predicted.argmax(axis=1) == CODES
    value, error, squares = score(scorer)
    assert value == pytest.approx(right.mean())
    assert error == pytest.approx(right.std(ddof=1) / np.sqrt(24))
    assert squares == pytest.approx(np.square(signs - predicted).sum(axis=1).mean(), rel=1e-9)


def test_r2_by_folds_is_that_of_refitted_models():
    scorer = LabelScorer.of(labeled(NUMBERS), classes=False, by="cv", cv=4, random_state=0)
    predicted = held_out(NUMBERS, scorer.folds)
    expected = 1 - (np.square(NUMBERS - predicted).mean(axis=0) / NUMBERS.var(axis=0)).mean()
    assert score(scorer)[0] == pytest.approx(expected, rel=1e-9)


def test_leaving_one_out_counts_squares():
    scorer = LabelScorer.of(labeled(NUMBERS), classes=False, by="loo", cv=None, random_state=None)
    squares = np.square(NUMBERS - held_out(NUMBERS, np.arange(24))).sum(axis=1)
    value, error, mean = score(scorer)
    assert value == pytest.approx(-squares.mean(), rel=1e-9)
    assert mean == pytest.approx(squares.mean(), rel=1e-9)
    assert error == pytest.approx(squares.std(ddof=1) / np.sqrt(24), rel=1e-9)


def test_evidence_is_a_normal_density_a_row():
    scorer = LabelScorer.of(labeled(NUMBERS), classes=False, by="evidence", cv=None, random_state=None)
    total = 0.0
    for y in NUMBERS.T:
        cov = Z @ Z.T / PENALTY + np.eye(24)
        best = y @ np.linalg.solve(cov, y) / 24  # the variance of the noise at its best
        total += multivariate_normal(np.zeros(24), best * cov).logpdf(y)
    assert score(scorer)[0] == pytest.approx(total / 24, rel=1e-9)


def test_labels_that_a_fold_has_never_seen_cannot_win():
    # The only rows of label 2 are in one fold; all others know nothing of it.
    codes = np.where(np.arange(24) < 4, 2, np.arange(24) % 2)
    folds = np.where(np.arange(24) < 4, 0, 1 + np.arange(24) % 3)
    scorer = LabelScorer.of(labeled(codes), classes=True, by="cv", cv=folds, random_state=0)
    predicted = np.tile([0.0, 1.0, 5.0], (24, 1))
    assert set(scorer._with_known_labels(predicted)[:4].argmax(axis=1)) == {1}
    assert set(scorer._with_known_labels(predicted)[4:].argmax(axis=1)) == {2}


def test_folds_are_stratified_seeded_and_of_equal_size():
    index = np.arange(24, dtype=np.uint64)
    folds = folds_of(5, index, CODES, 0)
    assert np.array_equal(folds, folds_of(5, index, CODES, 0))
    assert not np.array_equal(folds, folds_of(5, index, CODES, 1))
    counts = np.array([np.bincount(folds[CODES == code], minlength=5) for code in range(3)])
    assert np.ptp(counts, axis=1).max() <= 1
    assert np.ptp(counts.sum(axis=0)) <= 1
    given = np.arange(50) % 3
    assert np.array_equal(folds_of(given, index + np.uint64(20), CODES, None), given[20:44])


@pytest.mark.parametrize(
    ("cv", "message"),
    [
        (1, "cv must be an integer >= 2 or the fold of each row, got 1"),
        (True, "cv must be an integer >= 2, or an array"),
        (np.zeros(10, int), "cv must be an integer >= 2, or an array"),  # too few
        (np.zeros(24), "cv must be an integer >= 2, or an array"),  # no whole numbers
        ([([0, 1], [2])], "cv must be an integer >= 2, or an array"),  # rows to learn from and to test on
        (np.full(24, 7), "cv puts all labeled rows into one fold, 7"),
    ],
)
def test_folds_that_cannot_be_are_refused(cv, message):
    with pytest.raises(ParameterError, match=message):
        folds_of(cv, np.arange(24, dtype=np.uint64), CODES, 0)


def test_too_few_labels_are_refused():
    few = LabeledRows(Z[:1], CODES[:1], np.arange(1, dtype=np.uint64), np.ones(1))
    with pytest.raises(DataError, match="at least two labeled rows, got 1"):
        LabelScorer.of(few, classes=True, by="cv", cv=2, random_state=0)
    with pytest.raises(DataError, match="rows of at least two classes, got one class only: 5"):
        LabelScorer.of(labeled(np.full(24, 5)), classes=True, by="cv", cv=2, random_state=0)
    singles = LabeledRows(Z[[0, 8]], CODES[[0, 8]], np.arange(2, dtype=np.uint64), np.ones(2))
    with pytest.raises(DataError, match=r"by='loo' needs classes with two labels or more: .* use by='evidence'"):
        LabelScorer.of(singles, classes=True, by="loo", cv=None, random_state=0)
    assert LabelScorer.of(singles, classes=True, by="evidence", cv=None, random_state=0).targets.shape == (2, 2)


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


@pytest.mark.parametrize("by", ["loo", "cv", "evidence"])
@pytest.mark.parametrize("classes", [True, False])
@pytest.mark.parametrize("columns", [40, 5])
def test_weights_are_copies_of_rows(by, classes, columns):
    weight = np.random.default_rng(1).integers(1, 4, 24).astype(float)
    copies = np.repeat(np.arange(24), weight.astype(int))
    y = CODES if classes else NUMBERS
    folds = np.arange(24) % 5
    weighted = LabeledRows(Z[:, :columns], y, np.arange(24), weight)
    repeated = LabeledRows(Z[copies, :columns], y[copies], np.arange(len(copies)), np.ones(len(copies)))
    for intercept in (True, False):
        found, expected = (
            LabelScorer.of(rows, classes=classes, by=by, cv=cv, random_state=0).score(
                Smoother.of(rows.Z, fit_intercept=intercept, weight=rows.weight), PENALTY
            )
            for rows, cv in ((weighted, folds), (repeated, folds[copies]))
        )
        assert found[0] == pytest.approx(expected[0], rel=1e-9)
        assert found[2] == pytest.approx(expected[2], rel=1e-9, nan_ok=True)


def test_the_error_of_a_score_counts_rows_and_not_the_unit_of_weights():
    rows = LabeledRows(Z, CODES, np.arange(24), np.full(24, 7.0))
    scorer = LabelScorer.of(rows, classes=True, by="cv", cv=4, random_state=0)
    right = (
        scorer._with_known_labels(
            Smoother.of(Z, fit_intercept=False, weight=rows.weight).left_out(scorer.targets, PENALTY, scorer.folds)
        ).argmax(axis=1)
        == CODES
    )
    found = scorer.score(Smoother.of(Z, fit_intercept=False, weight=rows.weight), PENALTY)
    assert found[:2] == pytest.approx((right.mean(), right.std(ddof=1) / np.sqrt(24)))


def test_accuracy_is_that_of_labels_that_a_fold_has_seen():
    class Given:
        def left_out(self, targets, penalty, folds):
            return np.where(np.arange(3) == 2, 5.0, targets)  # label 2 would always win

    codes = np.array([0, 1, 0, 1, 2])
    rows = LabeledRows(Z[:5], codes, np.arange(5), np.ones(5))
    scorer = LabelScorer.of(rows, classes=True, by="cv", cv=np.array([0, 0, 1, 1, 0]), random_state=0)
    # In fold 0, whose row alone has label 2, it cannot; its own row is then wrong, and so are those of fold 1.
    assert scorer.score(Given(), PENALTY)[0] == pytest.approx(2 / 5)


def test_given_folds_are_of_all_rows():
    for rows in (24, 31):
        with pytest.raises(ParameterError, match=rf"of each of the 30 rows, labeled or not, got {rows}\."):
            folds_of(np.arange(rows) % 3, np.arange(24), CODES, 0, n_rows=30)
    assert folds_of(np.arange(30) % 3, np.arange(24), CODES, 0, n_rows=30).tolist() == (np.arange(24) % 3).tolist()
