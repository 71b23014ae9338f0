"""Splits of the table of Ionescu et al., and its ridge regression."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from mercer.reproduce.papers.ionescu import LABELS, USPS_GRAPH, divide, median_distance, ridge_labels, usps_halves


def test_a_split_has_every_class_and_no_row_twice():
    rng = np.random.default_rng(0)
    y = rng.integers(10, size=500)
    X = np.arange(500.0)[:, None]
    split = divide(X, y, rng, 400, LABELS)
    assert len(split.X) == 400
    assert len(split.X_new) == 100
    assert set(split.y[split.labeled]) == set(range(10))
    assert sorted([*split.labeled, *split.judged]) == list(range(400))
    assert set(split.X[:, 0]) | set(split.X_new[:, 0]) == set(range(500))
    assert (split.known >= 0).sum() == LABELS
    np.testing.assert_array_equal(split.known[split.labeled], split.y[split.labeled])


def test_settings_and_splits_have_no_row_of_usps_in_common(tmp_path):
    X = np.arange(4000.0)[:, None]
    np.savez(tmp_path / "usps.npz", X_train=X[:3000], y_train=X[:3000, 0], X_test=X[3000:], y_test=X[3000:, 0])
    (one, _), (other, labels) = usps_halves(tmp_path)
    assert not set(one[:, 0]) & set(other[:, 0])
    assert len(one) + len(other) == 4000
    np.testing.assert_array_equal(other[:, 0], labels)
    assert len(other) > USPS_GRAPH


@pytest.mark.parametrize("penalty", [1e-3, 1.0])
def test_ridge_labels_agree_with_scikit_learn(penalty):
    rng = np.random.default_rng(1)
    Z, new = rng.normal(size=(30, 50)), rng.normal(size=(200, 50))
    y = np.repeat([3, 5, 9], 10)
    targets = np.where(y[:, None] == [3, 5, 9], 1.0, -1.0)
    mean = targets.mean(axis=0)
    peer = Ridge(alpha=penalty * np.square(Z).sum() / 30, fit_intercept=False).fit(Z, targets - mean)
    expected = np.array([3, 5, 9])[(peer.predict(new) + mean).argmax(axis=1)]
    np.testing.assert_array_equal(ridge_labels(Z, y, new, penalty), expected)


def test_median_distance_of_a_known_sample():
    # Corners of a square: four sides of length 1 and two diagonals.
    assert median_distance(np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])) == pytest.approx(1.0, rel=0.25)
