"""Measured errors of a map, and the coverage of their confidence interval."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from sklearn.exceptions import NotFittedError

from mercer import DataError, Gaussian, Nystroem, ParameterError, RandomFourier, audit


def rows(n=300, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 5))


def test_errors_equal_those_of_the_kernel_matrices():
    X = rows(40)
    feature_map = RandomFourier(Gaussian(2.0), 64, random_state=0).fit(X)
    result = audit(feature_map, X)
    error = feature_map.gram(X) - Gaussian(2.0)(X)
    off = ~np.eye(40, dtype=bool)
    assert result.rmse == pytest.approx(np.sqrt(np.square(error[off]).mean()))
    assert result.mean_error == pytest.approx(error[off].mean())
    assert result.max_error == pytest.approx(np.abs(error).max())
    assert result.relative_error == pytest.approx(np.linalg.norm(error) / np.linalg.norm(Gaussian(2.0)(X)))
    predicted = np.sqrt(feature_map.variance(X)[off].mean())
    assert result.predicted_rmse == pytest.approx(predicted)


@pytest.mark.slow
def test_interval_covers_the_error_on_all_rows():
    X = rows(2000)
    feature_map = RandomFourier(Gaussian(2.0), 64, random_state=0).fit(X)
    truth = audit(feature_map, X, n_rows=2000).rmse
    intervals = [audit(feature_map, X, n_rows=200, random_state=seed).rmse_interval for seed in range(100)]
    covered = sum(low <= truth <= high for low, high in intervals)
    # With a true coverage of 0.90 or more, fewer are covered once in a million runs.
    assert covered >= binom.ppf(1e-6, 100, 0.90)
    # The test has power: intervals of a fifth of the length cover far less often.
    shrunk = sum(abs(truth - (low + high) / 2) <= (high - low) / 10 for low, high in intervals)
    assert shrunk < binom.ppf(1e-6, 100, 0.90)


def test_predicted_error_agrees_with_the_measured_one():
    X = rows()
    for directions in ("iid", "orthogonal", "big_block"):
        results = [
            audit(RandomFourier(Gaussian(2.0), 64, directions=directions, random_state=s).fit(X), X) for s in range(30)
        ]
        measured = np.sqrt(np.mean([r.rmse**2 for r in results]))
        assert measured == pytest.approx(results[0].predicted_rmse, rel=0.15)


def test_exact_map_has_no_error_and_no_prediction():
    X = rows(50)
    result = audit(Nystroem(Gaussian(2.0), 50, landmarks="uniform", random_state=0).fit(X), X)
    assert result.max_error < 1e-8
    assert result.predicted_rmse is None


def test_result_can_be_written_as_json():
    X = rows(30)
    result = audit(RandomFourier(Gaussian(2.0), 16, random_state=0).fit(X), X)
    assert json.loads(json.dumps(result.to_dict()))["n_components"] == 16


def test_fewer_than_three_rows_raise():
    X = rows(30)
    with pytest.raises(DataError, match="at least 3 rows to measure an error and its interval, got 2"):
        audit(RandomFourier(Gaussian(2.0), 16).fit(X), X[:2])


@pytest.mark.parametrize("landmarks", ["pivoted", "uniform"])
def test_sample_of_the_audit_is_independent_of_that_of_the_map(landmarks):
    # Equal seeds must not mean equal samples: Nystroem is exact on its landmarks.
    X = np.random.default_rng(0).normal(size=(6000, 8))
    feature_map = Nystroem(Gaussian(3.0), 300, landmarks=landmarks, random_state=0).fit(X)
    same, *others = (audit(feature_map, X, n_rows=300, random_state=seed).rmse for seed in range(4))
    assert same > 0.8 * min(others)


def test_data_frames_and_invalid_arguments():
    frame = pd.DataFrame(rows(30), columns=list("abcde"))
    feature_map = RandomFourier(Gaussian(2.0), 16).fit(frame)
    assert audit(feature_map, frame).n_rows == 30
    with pytest.raises(ParameterError, match=r"must be a fitted mercer map, such as model\.feature_map_, got Gaussian"):
        audit(Gaussian(), frame)
    with pytest.raises(ParameterError, match="n_rows must be an integer >= 3, got 2"):
        audit(feature_map, frame, n_rows=2)
    with pytest.raises(NotFittedError):
        audit(RandomFourier(), frame)
