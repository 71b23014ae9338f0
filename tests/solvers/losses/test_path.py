"""The weight of the losses is chosen by the loss of rows held out."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from mercer.engines import Block
from mercer.solvers.losses.fit import AsGiven
from mercer.solvers.losses.losses import Logistic, Problem, SquaredHinge
from mercer.solvers.losses.path import choose_weight, groups_of, splits_of
from mercer.solvers.losses.sample import Sample
from mercer.statistics.feature_cache import RowFeatures
from mercer.statistics.label_counts import CountLabels

RNG = np.random.default_rng(3)
Z = RNG.normal(size=(400, 12)) / np.sqrt(12)
y = (Z[:, 0] + 0.3 * RNG.normal(size=400) / np.sqrt(12) > 0).astype(int)


def problem_of(loss, Z=Z, y=y, weight=None):
    counts = CountLabels(4096, 0)(Block(0, Z, y, weight))
    return Problem(RowFeatures(AsGiven(Z.shape[1])), loss, counts.labels, np.ones(len(counts.labels))), counts


def chosen(*what, **options):
    return choose_weight(*problem_of(*what, **options), fit_intercept=True, n_jobs=1)


def test_losses_are_those_of_scikit_learn_on_the_same_rows():
    problem, counts = problem_of(Logistic())
    path = choose_weight(problem, counts, fit_intercept=True, n_jobs=1)
    sample = Sample.of(counts, problem.features, 1)
    splits = list(splits_of(sample, problem, *groups_of(sample), 2, True))
    assert len(splits) == 2
    for C, found in zip(path.weights, path.losses, strict=True):
        total = 0.0
        for split in splits:
            peer = LogisticRegression(C=C, tol=1e-10, max_iter=10_000).fit(split.fitted.features, split.fitted.y)
            total -= peer.predict_log_proba(split.held_out.features)[np.arange(100), split.held_out.y].sum()
        assert found == pytest.approx(total / 200, rel=2e-3)
    assert path.n_held_out == 200
    assert path.C == path.weights[np.argmin(path.losses)]


def test_factors_have_the_least_loss_of_all_rows_held_out():
    noisy = np.where(RNG.random(400) < 0.2, 1 - y, y)
    problem, counts = problem_of(Logistic(), y=noisy)
    path = choose_weight(problem, counts, fit_intercept=True, scaled=True, n_jobs=1)
    assert path.n_held_out == 400
    sample = Sample.of(counts, problem.features, 1)
    splits = list(splits_of(sample, problem, *groups_of(sample), 4, True))
    values, labels = [], []
    for split in splits:
        peer = LogisticRegression(C=path.C, tol=1e-10, max_iter=10_000).fit(split.fitted.features, split.fitted.y)
        values.append(peer.decision_function(split.held_out.features))
        labels.append(split.held_out.y)
    signs, values = 2 * np.concatenate(labels) - 1.0, np.concatenate(values)
    factors = np.exp(np.linspace(-1, 1, 201))
    losses = [np.logaddexp(0, -signs * factor * values).mean() for factor in factors]
    # The factor is that of 400 rows and one of any label.
    assert path.factor == pytest.approx(factors[np.argmin(losses)], rel=0.03)
    assert path.losses.min() == pytest.approx(min(losses), rel=2e-3)


@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge()], ids=["logistic", "hinge"])
def test_noise_asks_for_a_smaller_weight(loss):
    wide = RNG.normal(size=(400, 100)) / 10
    clean = (wide[:, :50].sum(axis=1) > 0).astype(int)
    noisy = np.where(RNG.random(400) < 0.3, 1 - clean, clean)
    low, high = (chosen(loss, wide, each).C for each in (noisy, clean))
    assert low < high


def test_equal_rows_are_held_out_together_and_count_as_weights():
    repeats = RNG.integers(1, 4, 400)
    problem, counts = problem_of(Logistic(), weight=repeats.astype(float))
    other, repeated = problem_of(Logistic(), Z.repeat(repeats, axis=0), y.repeat(repeats))
    one = choose_weight(problem, counts, fit_intercept=True, n_jobs=1)
    two = choose_weight(other, repeated, fit_intercept=True, n_jobs=1)
    np.testing.assert_allclose(one.losses, two.losses, rtol=3e-3)
    assert one.C == two.C


def test_weights_are_in_proportion_to_the_squared_features_and_the_weights_of_rows():
    expected = chosen(Logistic()).C
    assert chosen(Logistic(), 10 * Z).C == pytest.approx(expected / 100)
    assert chosen(Logistic(), weight=np.full(400, 1e-3)).C == pytest.approx(1e3 * expected)


def test_few_rows_have_nothing_to_hold_out():
    path = choose_weight(*problem_of(Logistic(), Z[:6], np.arange(6) % 2), fit_intercept=True, n_jobs=1)
    assert (path.n_held_out, len(path.weights)) == (0, 1)
