"""Learners of one statistic: parts add up to the whole, and a solve waits until something is asked."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from mercer import DataError, Gaussian, KernelPCA, KernelRidge, KernelRidgeClassifier, RandomFourier
from mercer.learners.one_pass import OnePassLearner

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 3))
y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=90)
LABELS = np.digitize(y, [-0.5, 0.5])


def ridge(**options):
    return KernelRidge(RandomFourier(Gaussian(), 20, random_state=0), **options)


def classifier(**options):
    return KernelRidgeClassifier(RandomFourier(Gaussian(), 20, random_state=0), **options)


@pytest.mark.parametrize(("fresh", "targets"), [(ridge, y), (classifier, LABELS)], ids=["numbers", "labels"])
def test_blocks_added_one_by_one_give_the_model_of_all(fresh, targets):
    whole, parts = fresh().fit(X, targets), fresh()
    for rows in (slice(0, 30), slice(30, 31), slice(31, 90)):
        parts.partial_fit(X[rows], targets[rows])
    assert parts.statistic_.rows == 90
    np.testing.assert_allclose(parts.coef_, whole.coef_, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(parts.intercept_, whole.intercept_, rtol=1e-7, atol=1e-9)


def test_the_solve_waits_until_a_result_is_asked_for(monkeypatch):
    solved = []
    solve = KernelRidge._solve
    monkeypatch.setattr(KernelRidge, "_solve", lambda self, *args: (solved.append(1), solve(self, *args)))
    model = ridge().partial_fit(X[:40], y[:40]).partial_fit(X[40:], y[40:])
    assert not solved
    model.predict(X)
    _ = model.coef_
    assert solved == [1]
    model.partial_fit(X, y).predict(X)
    assert solved == [1, 1]


def test_a_fit_forgets_what_was_added():
    model = ridge().partial_fit(X, 5 * y)
    np.testing.assert_array_equal(model.fit(X[:50], y[:50]).coef_, ridge().fit(X[:50], y[:50]).coef_)
    assert model.statistic_.rows == 50


def test_a_bad_block_costs_nothing():
    model = ridge().partial_fit(X, y)
    statistic = model.statistic_
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(X * np.nan, y)
    with pytest.raises(ValueError, match="X has 2 features"):
        model.partial_fit(X[:, :2], y)
    assert model.statistic_ is statistic


def test_nothing_can_be_asked_before_rows_were_seen():
    assert issubclass(KernelPCA, OnePassLearner)
    for model in (ridge(), classifier(), KernelPCA()):
        with pytest.raises(NotFittedError):
            model._ensure_solved()


def test_blocks_without_known_targets_are_seen_by_the_map_only():
    model = ridge(unlabeled=-9.0).partial_fit(X, y)
    statistic = model.statistic_
    assert model.partial_fit(X, np.full(90, -9.0)).statistic_ is statistic
    half = np.where(np.arange(90) < 45, y, -9.0)
    assert model.partial_fit(X, half).statistic_.rows == 135


def test_announced_labels_are_known_and_others_refused():
    model = classifier().partial_fit(X[:30], LABELS[:30], classes=[3, 2, 1, 0])
    assert model.classes_.tolist() == [0, 1, 2, 3]
    with pytest.raises(DataError, match=r"KernelRidgeClassifier: y has labels \[7\] that are not in \[0, 1, 2, 3\]"):
        model.partial_fit(X[:30], np.full(30, 7))
    assert model.partial_fit(X[30:], LABELS[30:]).classes_.tolist() == [0, 1, 2, 3]
    # A fit knows nothing of it any more.
    assert model.fit(X, LABELS + 7).partial_fit(X, LABELS + 9).classes_.tolist() == [7, 8, 9, 10, 11]


def test_rows_are_counted_anew_after_a_fit():
    model = classifier().partial_fit(X, LABELS).fit(X[:30], LABELS[:30]).partial_fit(X[30:50], LABELS[30:50])
    assert sorted(model.statistic_.sample.index.tolist()) == list(range(50))


def test_models_that_read_rows_twice_cannot_add():
    with pytest.raises(AttributeError) as caught:
        _ = ridge(alpha="loo").partial_fit
    assert "rows are read twice, and partial_fit keeps none" in str(caught.value.__cause__ or caught.value)
    assert hasattr(ridge(alpha="gcv"), "partial_fit")
