"""The drift monitor: uniform p-values, the bound on false alarms, detection, bounded memory."""

import json

import numpy as np
import pytest
from scipy.stats import binom, kstest

from mercer import DataError, DriftMonitor, ParameterError, open_rows
from mercer.hypothesis_tests import drift


def monitor(seed, n=60, **options):
    rng = np.random.default_rng([seed, 5])
    reference = rng.integers(3, size=(n, 2)).astype(float)  # many ties
    return DriftMonitor(reference, random_state=seed, **{"n_permutations": 19, **options}), rng


def test_p_values_without_drift_are_uniform_and_uncorrelated():
    p = []
    for seed in range(12):
        watch, rng = monitor(seed)
        p.append([watch.update(rng.integers(3, size=(size, 2))).p_value for size in (5, 1, 12, 7, 3, 9)])
    p = np.array(p)
    assert kstest(p.ravel(), "uniform").pvalue > 1e-3
    lagged = np.corrcoef(p[:, 1:].ravel(), p[:, :-1].ravel())[0, 1]
    assert abs(lagged) < 3.3 / np.sqrt(60)


def test_ties_are_broken_at_random():
    watch = DriftMonitor(np.ones((50, 2)), n_permutations=9, random_state=0)
    p = [watch.update(np.ones((3, 2))).p_value for _ in range(40)]
    assert kstest(p, "uniform").pvalue > 1e-3
    assert not watch.state_.alarm


@pytest.mark.slow
def test_probability_of_any_false_alarm_is_bounded():
    runs, alarms = 200, 0
    for seed in range(runs):
        watch, rng = monitor(seed, alpha=0.2, n_permutations=49)
        alarms += any([watch.update(rng.integers(3, size=(6, 2))).alarm for _ in range(15)])
    assert alarms <= binom.isf(1e-4, runs, 0.2)


def test_bets_without_gain_keep_the_evidence_at_one(monkeypatch):
    # The expected payoff of a bet is one, so that stakes of all starts of a drift must add up to one at all times.
    monkeypatch.setattr(drift, "BETS", np.ones(7))
    watch, rng = monitor(0)
    for _ in range(5):
        assert watch.update(rng.integers(3, size=(4, 2))).evidence == pytest.approx(1.0, abs=1e-12)


def test_expected_payoff_of_each_bet_is_one():
    edges = np.linspace(0, 1, 1001)
    for k in drift.BETS:
        # The integral of k p^(k - 1) over each bin is p^k at its ends.
        assert np.diff(edges**k).sum() == pytest.approx(1.0)
    watch, _ = monitor(0)
    watch._bet(0.25)
    np.testing.assert_allclose(watch._capital, 0.5 * drift.BETS * 0.25 ** (drift.BETS - 1))


def test_drift_raises_an_alarm_that_remains():
    rng = np.random.default_rng(0)
    watch = DriftMonitor(rng.normal(size=(500, 3)), random_state=0)
    assert not any([watch.update(rng.normal(size=(50, 3))).alarm for _ in range(3)])
    states = [watch.update(rng.normal(size=(50, 3)) * 2).alarm for _ in range(4)]
    assert states[-1]
    state = watch.update(rng.normal(size=(50, 3)))
    assert state.alarm
    assert 4 <= state.first_alarm <= 7
    assert (state.batch, state.rows) == (8, 400)
    assert "ALARM since batch" in repr(watch)
    assert json.loads(json.dumps(state.to_dict()))["first_alarm"] == state.first_alarm


def test_rows_that_fill_no_group_wait_for_the_next_batch(monkeypatch):
    monkeypatch.setattr(drift, "AIM_GROUPS", 10)
    watch, rng = monitor(0, n=200)
    assert watch.rows_per_group_ == 15
    assert watch.update(rng.normal(size=(10, 2))).p_value == 1.0
    assert watch.state_.evidence == 1.0
    assert watch.update(rng.normal(size=(10, 2))).p_value < 1.0
    assert watch._waiting.shape == (5, 2)


def test_stored_groups_are_bounded(monkeypatch):
    monkeypatch.setattr(drift, "MOST_GROUPS", 50)
    watch, rng = monitor(0)
    for _ in range(3):
        watch.update(rng.integers(3, size=(20, 2)))
    assert len(watch._groups) == 50


def test_same_states_for_arrays_and_files(tmp_path):
    rng = np.random.default_rng(0)
    X, batch = rng.normal(size=(100, 2)), rng.normal(size=(20, 2))
    np.save(tmp_path / "x.npy", X)
    states = [
        DriftMonitor(reference, n_permutations=19, random_state=0).update(batch)
        for reference in (X, open_rows(tmp_path / "x.npy"))
    ]
    assert states[0] == states[1]


def test_plot_of_evidence_over_time():
    pytest.importorskip("matplotlib")
    watch, rng = monitor(0)
    watch.update(rng.normal(size=(5, 2)))
    assert len(watch.plot().axes) == 2


def test_invalid_input_is_refused():
    X = np.zeros((100, 2))
    with pytest.raises(DataError, match="at least 40 rows, got 5"):
        DriftMonitor(X[:5])
    with pytest.raises(ParameterError, match="alpha"):
        DriftMonitor(X, alpha=0)
    with pytest.raises(DataError, match="2 features of the reference, got 3"):
        DriftMonitor(X, n_permutations=9).update(np.zeros((5, 3)))


def test_a_column_that_was_constant_may_move():
    rng = np.random.default_rng(0)
    reference = rng.normal(size=(400, 3))
    reference[:, 2] = 1.0
    monitor, still = (DriftMonitor(reference, random_state=0) for _ in range(2))
    for _ in range(5):
        batch = rng.normal(size=(100, 3))
        batch[:, 2] = 1.0
        still.update(batch)
        monitor.update(batch + np.array([0.0, 0.0, 0.01]))
    assert monitor.state_.alarm
    assert not still.state_.alarm
