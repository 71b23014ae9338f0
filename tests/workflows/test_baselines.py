"""The linear model and the trees that models are compared with."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from mercer import TablePreprocessor
from mercer.workflows.baselines import BOOSTING, LINEAR, TreeColumns, measure_baseline
from mercer.workflows.sources import Sample


def sample(n=400, labels=False):
    rng = np.random.default_rng(0)
    kind = rng.choice(["a", "b"], n)
    x = rng.normal(size=n)
    y = 3 * x + 5 * (kind == "a")
    table = pa.table({"x": x * 1e6, "kind": kind, "day": pd.date_range("2020-01-01", periods=n)})
    y = np.where(y > 2, "high", "low") if labels else y
    return Sample(table, y, np.arange(n), n, 0)


@pytest.mark.parametrize("name", [LINEAR, BOOSTING])
def test_regression_and_classification(name):
    train = sample()
    preprocessor = TablePreprocessor(scale=None).fit(train.table)
    options = {"seed": 0, "seconds": 60.0, "most_bytes": 1e9}
    found = measure_baseline(name, train, "regression", preprocessor, **options)
    assert np.corrcoef(found.predict(train.table), train.y)[0, 1] > 0.99
    assert "sample" not in found.note
    labels = sample(labels=True)
    found = measure_baseline(name, labels, "classification", preprocessor, **options)
    predicted = found.classes[found.predict(labels.table).argmax(axis=1)]
    assert (predicted == labels.y).mean() > 0.97


@pytest.mark.parametrize(("limits", "why"), [((1e-6, 1e9), "time"), ((60.0, 1e4), "memory")])
def test_limits_lead_to_a_sample_that_is_reported(limits, why):
    train = sample(400)
    preprocessor = TablePreprocessor(scale=None).fit(train.table)
    found = measure_baseline(
        BOOSTING, train, "regression", preprocessor, seed=0, seconds=limits[0], most_bytes=limits[1]
    )
    assert f"because of the {why} limit" in found.note


def test_columns_of_trees():
    table = pa.table({"n": [1, None, 3], "s": ["b", None, "a"], "d": pa.array([0, 1, None], pa.timestamp("s"))})
    encoder = TreeColumns.of(table)
    X = encoder(table)
    assert encoder.is_category.tolist() == [False, True, False]
    assert np.array_equal(X[:, 0], [1, np.nan, 3], equal_nan=True)
    assert np.isnan(X[1, 1])
    assert X[0, 1] != X[2, 1]
    assert np.isnan(encoder(pa.table({"n": [1], "s": ["new"], "d": pa.array([0], pa.timestamp("s"))}))[0, 1])
