"""Metrics by leave-one-out losses of near rows: derivatives, and what a search finds."""

import numpy as np
import pytest
from sklearn.metrics import pairwise_distances

from mercer.engines import stages_of
from mercer.engines.base import workers
from mercer.linalg.local_systems import PROFILES
from mercer.solvers.local import metric_search, metric_tuning
from mercer.solvers.local.metric_search import MetricTrial, best_of, left_out_predictions, search_costs, search_metric
from mercer.solvers.local.metric_tuning import (
    LogLoss,
    NumberLoss,
    SearchedRows,
    TunedMetric,
    left_out_loss,
    mini_batches,
    nearest,
    tune_metric,
)

LABELS = np.random.default_rng(1).integers(0, 3, 40)


@pytest.fixture(scope="module")
def problem():
    """Return points, targets, weights, a sample of rows, and their near rows, of which some are missing."""
    rng = np.random.default_rng(0)
    points, weight = rng.normal(size=(40, 3)), rng.uniform(0.5, 3, size=40)
    targets = np.column_stack([np.sin(points[:, 0]), rng.normal(size=40), points[:, 1] * points[:, 2]])
    sample = np.array([3, 17, 8, 25, 31])
    distances = pairwise_distances(points[sample], points)
    distances[np.arange(5), sample] = np.inf
    indices = np.argsort(distances, axis=1)[:, :9]
    indices[0, 5:] = -1
    return points, targets, weight, sample, indices


LOSSES = [NumberLoss(), LogLoss(np.eye(3)[LABELS], np.array([0.2, 0.3, 0.5]))]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("loss", LOSSES, ids=["numbers", "labels"])
def test_derivatives_are_finite_differences(problem, profile, loss):
    points, targets, weight, sample, indices = problem
    p, noise, parameter = 3, 0.07, 1.4

    def value(change=0.0, log_noise=0.0, log_parameter=0.0):
        moved = points @ (np.eye(p) + change)
        numbers = noise * np.exp(log_noise), parameter * np.exp(log_parameter)
        return left_out_loss(loss, moved, targets, weight, sample, indices, profile, *numbers).value

    full = left_out_loss(loss, points, targets, weight, sample, indices, profile, noise, parameter, full=True)
    diagonal = left_out_loss(loss, points, targets, weight, sample, indices, profile, noise, parameter)
    h = 1e-5
    numeric = np.empty((p, p))
    for i in range(p):
        for j in range(p):
            E = np.zeros((p, p))
            E[i, j] = h
            numeric[i, j] = (value(E) - value(-E)) / (2 * h)
    # The loss changes by -tr(H E), and H is symmetric.
    np.testing.assert_allclose(-full.metric, numeric, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(diagonal.metric, np.diag(full.metric), rtol=1e-10, atol=1e-12)
    # One lengthscale for all features: the derivative with respect to the logarithm of a common factor.
    shared = (value(h * np.eye(p)) - value(-h * np.eye(p))) / (2 * h)
    np.testing.assert_allclose(-diagonal.metric.sum(), shared, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(full.noise, (value(0.0, h) - value(0.0, -h)) / (2 * h), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(full.parameter, (value(0.0, 0.0, h) - value(0.0, 0.0, -h)) / (2 * h), rtol=1e-6)
    assert np.abs(numeric).max() > 1e-3  # a derivative that vanishes would prove nothing


@pytest.mark.parametrize("profile", PROFILES)
def test_one_right_hand_side_per_query_gives_the_derivatives_of_many_targets(problem, profile, monkeypatch):
    arguments = (*problem, profile, 0.07, 1.4)
    expected = left_out_loss(NumberLoss(), *arguments, full=True)
    monkeypatch.setattr(metric_tuning, "FEW_TARGETS", 2)
    found = left_out_loss(NumberLoss(), *arguments, full=True)
    assert found.value == expected.value
    np.testing.assert_allclose(found.metric, expected.metric, rtol=1e-9, atol=1e-12)
    assert found.noise == pytest.approx(expected.noise, rel=1e-9)
    assert found.parameter == expected.parameter


@pytest.mark.parametrize("loss", LOSSES, ids=["numbers", "labels"])
def test_derivatives_of_losses_with_respect_to_errors_and_variances(loss):
    rng = np.random.default_rng(2)
    sample, share = np.array([4, 9, 30, 11]), np.array([0.1, 0.2, 0.3, 0.4])
    targets, errors = rng.normal(size=(2, 4, 3))
    variance, h = rng.uniform(0.5, 2, size=4), 1e-6

    def value(errors, variance):
        return loss(sample, targets, errors, variance, share, 0.8)[0]

    _, by_error, by_variance, _ = loss(sample, targets, errors, variance, share, 0.8)
    for i in range(4):
        step = np.zeros(4)
        step[i] = h
        change = (value(errors, variance + step) - value(errors, variance - step)) / (2 * h)
        np.testing.assert_allclose(by_variance[i], change, atol=1e-8)
        for j in range(3):
            step = np.zeros((4, 3))
            step[i, j] = h
            change = (value(errors + step, variance) - value(errors - step, variance)) / (2 * h)
            np.testing.assert_allclose(by_error[i, j], change, atol=1e-8)


def start_of(d, noise=0.05):
    return TunedMetric(np.full(d, (2 * d) ** -0.5), noise, 1.0, np.empty(0))


def relevant_column(n=300, d=5, seed=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.sin(2 * X[:, 2]) + 0.1 * rng.normal(size=n)
    return X, ((y - y.mean()) / y.std())[:, None]


def test_tuning_finds_the_relevant_column():
    X, y = relevant_column()
    arguments = (np.ones(len(X)), "matern32", start_of(5), NumberLoss())
    tuned = tune_metric(X, y, *arguments, steps=60)
    share = np.square(tuned.matrix) / np.square(tuned.matrix).sum()
    assert share[2] > 0.9
    assert tuned.losses[-5:].mean() < tuned.losses[:5].mean() - 0.5
    # The twin: targets in another order depend on no column, and the search does not find one.
    shuffled = tune_metric(X, np.random.default_rng(4).permutation(y), *arguments, steps=60)
    assert np.square(shuffled.matrix[2]) / np.square(shuffled.matrix).sum() < 0.5


def test_a_full_metric_finds_a_direction_that_lengthscales_cannot():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(300, 4))
    u = np.array([1.0, -1.0, 0.0, 0.0]) / np.sqrt(2)
    y = np.sin(3 * X @ u)[:, None]
    diagonal = tune_metric(X, y, np.ones(300), "matern32", start_of(4), NumberLoss(), steps=40)
    full = tune_metric(X, y, np.ones(300), "matern32", diagonal, NumberLoss(), kind="full", steps=100)
    leading = np.linalg.svd(full.matrix)[0][:, 0]
    assert abs(leading @ u) > 0.97
    # The twin: the leading direction of one lengthscale per column is a column.
    assert abs(np.linalg.svd(np.diag(diagonal.matrix))[0][:, 0] @ u) < 0.8


def test_a_shared_lengthscale_stays_shared():
    X, y = relevant_column()
    tuned = tune_metric(X, y, np.ones(300), "gaussian", start_of(5), NumberLoss(), kind="shared", steps=15)
    np.testing.assert_allclose(tuned.matrix, tuned.matrix[0], rtol=1e-12)
    assert tuned.matrix[0] != start_of(5).matrix[0]


def test_seeds_and_threads():
    X, y = relevant_column()

    def tuned(seed, n_jobs):
        arguments = (np.ones(300), "matern12", start_of(5), NumberLoss())
        return tune_metric(X, y, *arguments, steps=5, seed=seed, n_jobs=n_jobs).matrix

    assert (tuned(0, 1) == tuned(0, 2)).all()
    assert (tuned(0, 1) != tuned(1, 1)).any()


def test_excluded_rows_are_not_left_out(monkeypatch):
    X, y = relevant_column(60)
    left_out = []

    def recorded(loss, points, targets, weight, sample, *others, **more):
        left_out.append(sample)
        return left_out_loss(loss, points, targets, weight, sample, *others, **more)

    monkeypatch.setattr(metric_tuning, "left_out_loss", recorded)
    exclude = np.arange(0, 60, 5)
    tune_metric(X, y, np.ones(60), "matern12", start_of(5), NumberLoss(), exclude=exclude, steps=3)
    assert set(np.concatenate(left_out)) == set(range(60)) - set(exclude)
    # If most rows are excluded, all are used.
    left_out.clear()
    tune_metric(X, y, np.ones(60), "matern12", start_of(5), NumberLoss(), exclude=np.arange(40), steps=3)
    assert set(np.concatenate(left_out)) == set(range(60))


def test_mini_batches_use_each_row_once_before_any_is_used_again():
    batches = mini_batches(np.arange(10, 30), 6, 7, np.random.default_rng(0))
    assert [len(batch) for batch in batches] == [6] * 7
    for first in (0, 3):
        assert len(np.unique(np.concatenate(batches[first : first + 3]))) == 18


def test_nearest_candidates():
    points = np.array([[0.0], [1.0], [3.0], [10.0]])
    candidates = np.array([[3, 2, 1, -1], [0, -1, -1, -1]])
    with workers(1) as team:
        assert nearest(points, np.ones(1), np.array([0, 1]), candidates, 2, team).tolist() == [[1, 2], [0, -1]]


@pytest.mark.parametrize("matrix", [np.array([2.0, 0.5, 1.0]), np.diag([2.0, 0.5, 1.0]) + 0.3])
def test_near_rows_among_a_sample(matrix):
    X = np.random.default_rng(7).normal(size=(90, 3)).astype(np.float32)
    points = X * matrix if matrix.ndim == 1 else X @ matrix
    distances = pairwise_distances(points)
    np.fill_diagonal(distances, np.inf)
    some, index = np.array([4, 50, 51, 89]), np.arange(1, 90, 2)  # rows in the sample, and rows that are not
    found = SearchedRows.of(X, index).near(X, matrix, some, 6, None)
    assert (found == index[np.argsort(distances[some][:, index], axis=1)[:, :6]]).all()
    everywhere = SearchedRows.of(X, None).near(X, matrix, some, 6, None)
    assert (everywhere == np.argsort(distances[some], axis=1)[:, :6]).all()
    assert (SearchedRows.of(X, index[:3]).near(X, matrix, some, 4, None)[:, 3] == -1).all()


def test_rows_beyond_single_precision_are_searched():
    X, y = relevant_column(80)
    X = np.column_stack([X, np.where(np.arange(80) == 7, 1e40, 0.0)])
    tuned = tune_metric(X, y, np.ones(80), "matern12", start_of(6), NumberLoss(), steps=5)
    assert np.isfinite(tuned.matrix).all()
    assert np.isfinite(tuned.losses).all()


def test_all_rows_are_searched_in_the_last_steps(monkeypatch):
    X, y = relevant_column(80)
    counts = []
    original = SearchedRows.near

    def near(self, *arguments):
        counts.append(len(self.rows))
        return original(self, *arguments)

    monkeypatch.setattr(SearchedRows, "near", near)
    monkeypatch.setattr(metric_tuning, "SEARCHED", 50)
    arguments = (X, y, np.ones(80), "matern12", start_of(5), NumberLoss())
    tune_metric(*arguments, steps=32)
    assert counts == [50, 50, 50, 80]
    counts.clear()
    tune_metric(*arguments, kind="shared", steps=32)
    assert set(counts) == {50}


# ---- the search of kernel and metric ------------------------------------------------------------


@pytest.fixture
def few_steps(monkeypatch):
    for name, steps in (
        ("STEPS", 30), ("WARM_STEPS", 10), ("LAST_STEPS", 10), ("SHARED_STEPS", 8), ("FULL_STEPS", 10),
    ):  # fmt: skip
        monkeypatch.setattr(metric_search, name, steps)


def test_search_compares_all_kernels_and_metrics(few_steps):
    X, y = relevant_column(200)
    weight = np.ones(200)
    found = search_metric(X, 7 + 3 * y, weight, ("matern12", "matern52"), labels=False, full=True, seed=0)
    kinds = [(trial.profile, trial.metric) for trial in found.trials]
    assert kinds[:3] == [("matern12", "shared"), ("matern12", "diagonal"), ("matern52", "diagonal")]
    # The better kernel gets further steps, then a full metric, and a shared lengthscale unless it has one.
    better = min(found.trials[1:3], key=lambda trial: trial.error).profile
    rest = [(better, "diagonal"), *([(better, "shared")] if better != "matern12" else [])]
    assert kinds[3:-1] == rest
    assert kinds[-1][1] == "full"
    kept = found.trials[found.chosen]
    assert kept.error <= 1.02 * min(trial.error for trial in found.trials)
    # The error is that of rows that were held out, relative to the variance of the targets.
    assert kept.error < 0.1 < found.trials[0].error


@pytest.mark.parametrize("value", [0.1, 2.6, 1e9])
def test_equal_targets_have_no_metric(few_steps, value):
    X, _ = relevant_column(50)
    found = search_metric(X, np.full((50, 1), value), np.ones(50), ("matern12",), labels=False, full=True, seed=0)
    assert found.trials[found.chosen].metric == "shared"
    one = search_metric(X, np.ones((50, 1)), np.ones(50), ("matern12",), labels=True, full=True, seed=0)
    assert one.trials[one.chosen].metric == "shared"


def test_more_parameters_need_less_error():
    def trials(*errors):
        kinds = ("shared", "diagonal", "full")
        return [(MetricTrial("matern12", kind, error, 0.1), None) for kind, error in zip(kinds, errors, strict=True)]

    assert best_of(trials(1.0, 0.995, 0.99)) == 0
    assert best_of(trials(1.0, 0.95, 0.945)) == 1
    assert best_of(trials(1.0, 0.95, 0.9)) == 2


def test_left_out_predictions_are_those_of_a_dense_system():
    X, y = relevant_column(40)
    weight = np.random.default_rng(6).uniform(0.5, 2, 40)
    tuned, held = TunedMetric(np.linspace(0.3, 1, 5), 0.1, 1.0, np.empty(0)), np.array([5, 20, 33])
    points = X * tuned.matrix
    K = np.exp(-pairwise_distances(points))
    found, variance = left_out_predictions(X, y, weight, "matern12", tuned, held, None)
    for number, i in enumerate(held):
        others = np.delete(np.arange(40), i)
        system = K[np.ix_(others, others)] + np.diag(0.1 / weight[others])
        solved = np.linalg.solve(system, K[i, others])
        assert found[number] == pytest.approx(solved @ y[others], rel=1e-10)
        assert variance[number] == pytest.approx(1 - solved @ K[i, others], rel=1e-8)


def test_search_returns_the_metrics_and_predictions_of_all_trials(few_steps):
    X, y = relevant_column(60)
    search = search_metric(X, y, np.ones(60), PROFILES[:2], labels=False, full=True, seed=0)
    assert len(search.trials) == len(search.metrics) == len(search.predictions)
    errors = np.mean(np.square(search.predictions - y[search.held])[..., 0], axis=1) / y.var()
    assert errors == pytest.approx([trial.error for trial in search.trials], rel=1e-8)
    assert search.tuned is search.metrics[search.chosen]


def test_costs_are_those_of_the_stages(few_steps):
    stages = []
    report = stages_of("search", lambda progress: stages.append(progress.stage))
    X, y = relevant_column(60)
    search_metric(X, y, np.ones(60), PROFILES[:2], labels=False, full=True, seed=0, report=report)
    assert list(dict.fromkeys(stages)) == list(search_costs(PROFILES[:2], 60, 5, full=True))
