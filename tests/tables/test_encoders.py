import numpy as np
import pandas as pd
import pytest

from mercer import TablePreprocessor


def encoded(column, later=None, **parameters):
    """The outputs of one column, as a dictionary of lists."""
    table = pd.DataFrame({"a": column})
    preprocessor = TablePreprocessor(scale=None, **parameters).fit(table)
    out = preprocessor.transform(table if later is None else pd.DataFrame({"a": later}))
    return dict(zip(preprocessor.get_feature_names_out(), out.T.tolist(), strict=True))


def test_missing_numbers_are_the_median_with_an_indicator():
    assert encoded([1.0, 2.0, None, 9.0]) == {"a": [1, 2, 2, 9], "a (missing)": [0, 0, 1, 0]}
    assert encoded([1.0, 2.0, 4.0, 9.0], [None, 5.0]) == {"a": [3, 5]}


def test_infinite_numbers_are_the_extremes():
    assert encoded([1.0, -np.inf, np.inf, 5.0]) == {"a": [1, 1, 5, 5]}
    assert encoded([1.0, 2.0], [np.inf, -np.inf]) == {"a": [2, 1]}


def test_constant_and_empty_columns_are_left_out():
    assert encoded([3.0, 3.0]) == {}
    assert encoded(["x", "x"]) == {}
    assert encoded([None, None]) == {}
    assert encoded([np.inf, np.inf, -np.inf]) == {}
    assert encoded([3.0, None]) == {"a (missing)": [0, 1]}


def test_booleans():
    assert encoded([True, False, True]) == {"a": [1, 0, 1]}
    assert encoded([True, False, None]) == {"a": [1, 0, 0.5], "a (missing)": [0, 0, 1]}


def test_two_categories_are_one_column_and_a_new_one_is_between():
    with pytest.warns(UserWarning, match="'a' in 1 rows"):
        out = encoded(["x"] * 6 + ["y"] * 5, ["x", "y", "z"])
    assert out == {"a=y": [0, 1, 0.5]}


def test_new_categories_have_zeros_and_missing_ones_a_column():
    column = ["x"] * 6 + ["y"] * 5 + [None]
    with pytest.warns(UserWarning, match="'a' in 1 rows"):
        out = encoded(column, ["x", None, "z"])
    assert out == {"a=x": [1, 0, 0], "a=y": [0, 0, 0], "a (missing)": [0, 1, 0]}


def test_rare_categories_share_a_column():
    out = encoded(["x"] * 6 + ["y"] * 5 + ["r", "s"], ["x", "r", "s"])
    assert out == {"a=x": [1, 0, 0], "a=y": [0, 0, 0], "a (other)": [0, 1, 1]}


def test_all_categories_are_rare():
    out = encoded(["x", "y", "x", "y", "z"])
    assert list(out) == ["a=x", "a=y", "a=z"]


def test_many_categories_are_hashed_with_their_frequency():
    column = [f"c{i}" for i in range(20) for _ in range(5 + i)]
    out = encoded(column, ["c19", "c0", "c1"], max_categories=3, n_buckets=4)
    assert list(out) == ["a=c19", "a=c18", "a=c17", *(f"a (bucket {i})" for i in range(4)), "a (frequency)"]
    assert out["a=c19"] == [1, 0, 0]
    np.testing.assert_allclose(out["a (frequency)"], [0, np.log1p(5), np.log1p(6)])
    buckets = np.array([out[f"a (bucket {i})"] for i in range(4)])
    assert buckets.sum(axis=0).tolist() == [0, 1, 1]


def test_more_categories_than_are_counted(monkeypatch):
    monkeypatch.setattr("mercer.tables.sums.MOST_COUNTED", 10)
    column = ["big"] * 50 + [f"c{i % 30}" for i in range(60)]
    out = encoded(column, ["big", "c3", "new"], n_buckets=4)
    assert out["a=big"] == [1, 0, 0]
    buckets = np.array([values for name, values in out.items() if "bucket" in name])
    assert buckets.sum(axis=0).tolist() == [0, 1, 1]  # what is new is not known to be new
    assert "a (frequency)" not in out


def test_identifiers_are_left_out():
    with pytest.warns(UserWarning, match="left out column 'a', because nearly all strings are different"):
        assert encoded([f"id{i}" for i in range(30)]) == {}
    assert len(encoded([f"id{i}" for i in range(8)])) == 8  # too few rows to tell


def test_dates_are_days_and_cycles_that_vary():
    days = pd.date_range("2024-01-01", periods=5)
    assert encoded(days) == {"a": [0, 1, 2, 3, 4]}  # less than a week
    out = encoded(pd.date_range("2024-01-01", periods=30))
    assert list(out) == ["a", "a (day of week, sin)", "a (day of week, cos)"]
    np.testing.assert_allclose(out["a (day of week, sin)"][:8], np.sin(2 * np.pi * np.arange(8) / 7), atol=1e-12)
    hours = encoded(pd.date_range("2024-01-01", periods=48, freq="h"))
    assert list(hours) == ["a", "a (hour of day, sin)", "a (hour of day, cos)"]
    np.testing.assert_allclose(hours["a (hour of day, cos)"][12], -1)
    years = encoded(pd.date_range("2020-01-01", periods=40, freq="MS"))
    assert {"a (day of year, sin)", "a (day of week, cos)"} <= set(years)
    mondays = encoded(pd.date_range("2024-01-01", periods=100, freq="7D"))
    assert list(mondays) == ["a", "a (day of year, sin)", "a (day of year, cos)"]


def test_missing_dates():
    out = encoded(pd.to_datetime(["2024-01-01", None, "2024-01-03", "2024-01-05"]))
    assert out == {"a": [0, 2, 2, 4], "a (missing)": [0, 1, 0, 0]}
    out = encoded([*pd.date_range("2024-01-01", periods=30), None])
    assert out["a (day of week, cos)"][-1] == 0


@pytest.mark.parametrize("scale", ["quantiles", "spread"])
def test_scales_do_not_depend_on_units(scale):
    values = np.random.default_rng(0).lognormal(sigma=2, size=500)
    table = pd.DataFrame({"a": values, "b": 1e9 * values})
    out = TablePreprocessor(scale=scale).fit_transform(table)
    np.testing.assert_allclose(out[:, 0], out[:, 1], rtol=1e-9)
    limit = 2.0 if scale == "quantiles" else 1000
    assert np.abs(out).max() < limit
    assert (np.argsort(out[:, 0]) == np.argsort(values)).all() or scale == "quantiles"
